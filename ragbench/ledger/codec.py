"""Records to stored bytes and back, judgements included.

Context texts are not part of it: they are stored once, under their digest, however many queries
retrieve them and however many stages hand them on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar, cast

import msgspec
import orjson

from ragbench.core.case import Case, Evidence, Expectation, Turn
from ragbench.core.matched import GoldSearch
from ragbench.core.outcome import Failure, Judgement, Outcome, Status
from ragbench.core.record import Record
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.core.validation import Verdict
from ragbench.ledger.fingerprint import (
    always_jsonable,
    digest,
    fixed_digest,
    jsonable,
    readable,
    text_digest,
)
from ragbench.masking import hidden_bytes

_Record = TypeVar("_Record")
_DIGITS = 6
"""Digits of a probability: more would be noise, and differ from one machine to another."""


def validation_object(verdict: Verdict) -> dict[str, Any]:
    """A verdict as it is published: the same verdict gives the same object."""
    found: dict[str, Any] = msgspec.to_builtins(verdict)
    del found["inspection"], found["details"]
    found["relevance"] = {id: round(p, _DIGITS) for id, p in verdict.relevance.items()}
    found["answer_probability"] = round(verdict.answer_probability, _DIGITS)
    return found


def failed_verdict_object(
    query_id: str, failure: Failure, validator: str, warnings: Sequence[str] = ()
) -> dict[str, Any]:
    """What stands in the place of a verdict that there is none of: nothing but why."""
    return {
        "query_id": query_id,
        "relevant_chunk_ids": [],
        "relevance": {},
        "answer_present": None,
        "answer_probability": None,
        "evidence": [],
        "retrieval_quality": None,
        "message": f"Failed: {failure.type}: {failure.message}",
        "reasons": [],
        "conflicts": [],
        "warnings": list(warnings),
        "validator": validator,
    }


_APART = ("id", "metadata", "history", "expectations")
_CASE = tuple(name for name in Case.__struct_fields__ if name not in _APART)
_EVIDENCE = _CASE.index("evidence")
_case_values = attrgetter(*_CASE)
_SPAN = Evidence.__struct_fields__
_TURN = Turn.__struct_fields__
_EXPECTATION = Expectation.__struct_fields__
_STORED = (*_CASE, "metadata", "history", "expectations")
"""What a stored case holds, by place; the last two may be missing."""


def encode_case(case: Case) -> bytes:
    """A case without its id; history and expectations come last, and only where there are some.

    Fingerprints of datasets are made of it: the form stays.
    """
    known = [*_case_values(case)]
    if case.evidence:
        known[_EVIDENCE] = [[getattr(span, name) for name in _SPAN] for span in case.evidence]
    said: list[object] = []
    if case.history:
        said = [[[getattr(turn, name) for name in _TURN] for turn in case.history]]
    if case.expectations:
        expectations: list[object] = []
        for expectation in case.expectations:
            expectations.append([getattr(expectation, name) for name in _EXPECTATION])
        said = [*(said or [[]]), expectations]
    try:
        return hidden_bytes(jsonable([*known, case.metadata, *said]))
    except TypeError:
        _check_texts([*known, *said])
        return hidden_bytes(jsonable([*known, readable(case.metadata), *said]))


def decode_case(case_id: str, body: bytes) -> Case:
    raw = dict(zip(_STORED, orjson.loads(body), strict=False))
    if raw["evidence"]:
        raw["evidence"] = [dict(zip(_SPAN, span, strict=True)) for span in raw["evidence"]]
    if "history" in raw:
        raw["history"] = [dict(zip(_TURN, turn, strict=True)) for turn in raw["history"]]
    if "expectations" in raw:
        stored = raw["expectations"]
        raw["expectations"] = [dict(zip(_EXPECTATION, values, strict=True)) for values in stored]
    return msgspec.convert({"id": case_id, **raw}, Case)


_RIGHT = tuple(name for name in _CASE if name not in ("query", "cluster", "tags", "language"))
TAGS = f"$[{_CASE.index('tags')}]"
"""Where a stored case has its tags."""


def case_facts(body: bytes) -> tuple[str, Case]:
    """What two runs' cases are paired by, and a case by itself, without its id.

    The former is a fingerprint of what is asked and of the right answer: all that a score can rest
    on. The id and the labels are left out (tags, language, cluster): a case under another one is
    the same.
    """
    raw = dict(zip(_STORED, orjson.loads(body), strict=False))
    asked = jsonable([*{**raw, "cluster": None, "tags": (), "language": None}.values()])
    return digest((asked,)).hex(), decode_case("", body)


def right_answer(body: bytes) -> str:
    """A digest of what is known of the right answer alone."""
    raw = dict(zip(_STORED, orjson.loads(body), strict=False))
    right = [raw[name] for name in _RIGHT]
    if raw.get("expectations"):
        right.append(raw["expectations"])
    return digest((jsonable(right),)).hex()


def check_text(text: str) -> None:
    """Refuses a text that cannot be written down."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        around = ascii(text[max(0, error.start - 20) : error.start + 20])
        raise ValueError(
            f"a text is not valid Unicode: half of a surrogate pair at character {error.start}, "
            f"in {around}"
        ) from None


def _check_texts(values: Iterable[object]) -> None:
    for value in values:
        if isinstance(value, str):
            check_text(value)
        elif isinstance(value, Iterable):
            _check_texts(cast("Iterable[object]", value))


def _of_numpy(value: Any) -> object:
    """A number or an array of a user's validator; anything else that is no JSON is refused."""
    if type(value).__module__ != "numpy":
        raise TypeError(f"{type(value).__name__} has no form in JSON")
    return value.tolist()


_ENCODER = msgspec.json.Encoder(enc_hook=_of_numpy)


def encoded(record: object) -> bytes:
    """A record written down; its mappings keep their order."""
    return hidden_bytes(_ENCODER.encode(record))


def decoded(kind: type[_Record], body: bytes) -> _Record:
    return cast("_Record", _decoder(cast("Any", kind)).decode(body))


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Made when it is needed: one takes a millisecond."""
    return msgspec.json.Decoder(kind)


def encode_judgements(judgements: Sequence[Judgement]) -> bytes:
    return hidden_bytes(always_jsonable(msgspec.to_builtins(judgements, enc_hook=readable)))


def judgement_object(judgement: Judgement) -> dict[str, Any]:
    """A judgement as it is published: how it ended, and each answer of the judge."""
    cell, failure = judgement.cell, judgement.cell.failure
    return {
        "status": cell.status.value,
        "value": cell.value,
        "reason": cell.reason if failure is None else f"{failure.type}: {failure.message}",
        "judge": judgement.judge,
        "steps": msgspec.to_builtins(judgement.steps, enc_hook=readable),
    }


class Codec(Record, kw_only=False):
    names: tuple[str, ...]
    """The fields that are stored beside context texts; empty where a value is stored as it is."""
    decode: Callable[[list[str], bytes], Any]
    """A value from its texts, where it has some, and the rest."""
    has_texts: bool = False
    """Whether a value has context texts, which are stored once for all."""


_RETRIEVAL = Codec(
    ("context_ids", "scores", "context_metadata", "metadata"),
    lambda texts, body: RetrievalResult(texts, **orjson.loads(body)),
    has_texts=True,
)
CODECS = {
    "retrieve": _RETRIEVAL,
    "post_retrieve": _RETRIEVAL,
    "locate": Codec((), lambda _, body: decoded(GoldSearch, body)),
    "validate": Codec((), lambda _, body: decoded(Verdict, body)),
    "generate": Codec(
        ("response", "multi_responses", "confidence", "abstained", "metadata"),
        lambda _, body: GenerationResult(**orjson.loads(body)),
    ),
}
"""By stage: the only place where outcomes become bytes and bytes outcomes."""
_FREE = frozenset({"metadata", "context_metadata"})
"""What is the user's own."""


class Encoded(NamedTuple):
    texts: list[str]
    digests: list[bytes]
    """Of the texts."""
    joined: bytes
    """The digests, one behind the other."""
    body: bytes
    """Everything else."""
    output: bytes
    """Digest of what the stage gave: equal outputs need no work downstream."""


def encode_outcome(stage: str, outcome: Outcome[Any]) -> Encoded:
    """What ragbench reads must be exact; in metadata, what JSON cannot hold is replaced."""
    texts: list[str] = []
    if outcome.failure is not None:
        body = encoded(outcome.failure)
    elif outcome.value is None:
        body = hidden_bytes((outcome.reason or "").encode())
    elif not (codec := CODECS[stage]).names:
        body = encoded(outcome.value)
    else:
        texts = [*outcome.value.contexts] if codec.has_texts else []
        known = {name: getattr(outcome.value, name) for name in codec.names}
        try:
            body = hidden_bytes(jsonable(known))
        except TypeError:
            _check_texts(value for name, value in known.items() if name not in _FREE)
            plain = {name: readable(known[name]) for name in _FREE & known.keys()}
            body = hidden_bytes(jsonable(known | plain))
    digests = [*map(text_digest, texts)]
    joined = b"".join(digests)
    head = b"%d %b %b " % (len(joined), joined, outcome.status.value.encode())
    return Encoded(texts, digests, joined, body, fixed_digest(head, body))


def decode_outcome(
    stage: str, status: Status, texts: list[str], body: bytes, **known: Any
) -> Outcome[Any]:
    """What `encode_outcome` wrote down; ``known`` are times, and how it came to be here."""
    if status is Status.FAILED:
        return Outcome(status=status, failure=decoded(Failure, body), **known)
    if status is Status.SKIPPED:
        return Outcome(status=status, reason=body.decode(), **known)
    return Outcome(status=status, value=CODECS[stage].decode(texts, body), **known)
