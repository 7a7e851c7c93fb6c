"""Records to stored bytes and back, judgements included.

Context texts are not part of it: they are stored once, under their digest, however many queries
retrieve them and however many stages hand them on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from ragbench.masking import hidden, hidden_bytes

_Record = TypeVar("_Record")
_DIGITS = 6
"""Digits of a probability: more would be noise, and differ from one machine to another."""


def validation_object(verdict: Verdict) -> dict[str, Any]:
    """A verdict of a validator as files and reports publish it: plain values for JSON.

    Probabilities are rounded, so that the same verdict gives the same object on every machine. The
    object's keys are documented: programs of users read them.
    """
    published: dict[str, Any] = msgspec.to_builtins(verdict)
    # What the inspection and the details hold is published elsewhere: warnings as texts, and counts
    # in summaries.
    del published["inspection"]
    del published["details"]
    relevance = verdict.relevance.items()
    # The order of the chunks stays.
    published["relevance"] = {chunk_id: round(p, _DIGITS) for chunk_id, p in relevance}
    published["answer_probability"] = round(verdict.answer_probability, _DIGITS)
    return published


def failed_verdict_object(
    query_id: str, failure: Failure, validator: str, warnings: Sequence[str] = ()
) -> dict[str, Any]:
    """The object that is published in place of a verdict where the validator failed.

    The object has the fields of a verdict, so that programs that read verdicts need no branch for
    it: a field that `validation_object` gets is needed here, too.
    """
    return {
        "query_id": query_id,
        "relevant_chunk_ids": [],
        "relevance": {},
        "answer_present": None,
        "answer_probability": None,
        "answer_word": None,
        "answer_worth": None,
        "evidence": [],
        "retrieval_quality": None,
        "message": f"Failed: {failure.type}: {failure.message}",
        "reasons": [],
        "conflicts": [],
        "warnings": list(warnings),
        "validator": validator,
    }


_APART = ("id", "metadata", "history", "expectations")
"""Fields that a stored case has elsewhere: in a column of its own, or at its end."""
_CASE = tuple(name for name in Case.__struct_fields__ if name not in _APART)
"""The fields of a case that come first in a stored one; the id has a column of its own."""
_EVIDENCE = _CASE.index("evidence")
"""The place of the evidence among the values."""
# All values of a case at once, in the stored order.
_case_values = attrgetter(*_CASE)
_SPAN = Evidence.__struct_fields__
_TURN = Turn.__struct_fields__
_EXPECTATION = Expectation.__struct_fields__
_STORED = (*_CASE, "metadata", "history", "expectations")
"""What a stored case holds, by place; the last two may be missing."""


def encode_case(case: Case) -> bytes:
    """A case without its id in stored form: a JSON list of its values.

    History and expectations come last, and only where there are some. Fingerprints of datasets are
    made of these bytes: any change of them makes stored runs and baselines those of other cases.
    """
    # Values by position: stored cases repeat no names.
    values = list(_case_values(case))
    if case.evidence:
        values[_EVIDENCE] = [_values_of(span, _SPAN) for span in case.evidence]
    # At the end, and only if there are some: most cases keep the bytes that they always had.
    at_end: list[object] = []
    if case.history:
        at_end.append([_values_of(turn, _TURN) for turn in case.history])
    if case.expectations:
        # Expectations are found behind the history, whether there is one or not.
        if not case.history:
            at_end.append([])  # holds the place of the history
        at_end.append([_values_of(demand, _EXPECTATION) for demand in case.expectations])
    try:
        body = jsonable([*values, case.metadata, *at_end])
    except TypeError:
        # A text that cannot be written is refused by name; only metadata may hold anything else.
        _check_texts([*values, *at_end])
        body = jsonable([*values, readable(case.metadata), *at_end])
    # Secrets are masked, but for ids, by which cases are joined.
    return hidden_bytes(body, ids=_ids(case))


def _ids(case: Case) -> Iterator[str]:
    """The ids and labels of a case, which are stored unmasked even where they look like secrets.

    By them a case is joined with rows of other files, and grouped in reports.
    """
    yield case.id
    yield from case.reference_context_ids or ()
    yield from case.grades or ()
    for evidence in case.evidence:
        if evidence.document_id is not None:
            yield evidence.document_id
    if case.cluster is not None:
        yield case.cluster
    yield from case.tags


def _values_of(record: Record, names: Sequence[str]) -> list[object]:
    """The values of a nested record by position, such as a turn's.

    With names, each stored record would repeat them.
    """
    return [getattr(record, name) for name in names]


def decode_case(case_id: str, body: bytes) -> Case:
    """A case from its stored form, as `encode_case` made it.

    The id is stored apart, in a column of its own.
    """
    # Not strict: history and expectations may be missing at the end.
    return _case_of(case_id, dict(zip(_STORED, orjson.loads(body), strict=False)))


def _case_of(case_id: str, stored: Mapping[str, Any]) -> Case:
    """A case from its stored values, with the field names of nested records put back.

    Stored lists have no names, which records are made by.

    Args:
        stored: by field of a case; history and expectations may be missing.
    """
    raw = {"id": case_id, **stored}
    if raw["evidence"]:
        raw["evidence"] = [dict(zip(_SPAN, span, strict=True)) for span in raw["evidence"]]
    if "history" in raw:
        raw["history"] = [dict(zip(_TURN, turn, strict=True)) for turn in raw["history"]]
    if "expectations" in raw:
        expectations = raw["expectations"]
        raw["expectations"] = [
            dict(zip(_EXPECTATION, values, strict=True)) for values in expectations
        ]
    return msgspec.convert(raw, Case)


_RIGHT = tuple(name for name in _CASE if name not in ("query", "cluster", "tags", "language"))
"""What says what is right: all but the question and its labels."""
TAGS = f"$[{_CASE.index('tags')}]"
"""Where a stored case has its tags."""


def case_facts(body: bytes) -> tuple[str, Case]:
    """A case's fingerprint, by which cases of two runs are paired, and the case without its id.

    The fingerprint is of the question and the right answer: all that a score can rest on. Id and
    labels (tags, language, cluster) are left out, so that a renamed case is the same. Baseline
    files hold these fingerprints: another form would make all their cases new ones.

    Args:
        body: the case in stored form.
    """
    raw = dict(zip(_STORED, orjson.loads(body), strict=False))
    # Left blank rather than out, so that positions stay.
    without_labels = {**raw, "cluster": None, "tags": (), "language": None}
    question = jsonable(list(without_labels.values()))
    return digest((question,)).hex(), _case_of("", raw)


def right_answer(body: bytes) -> str:
    """A digest of the right answer of a stored case: reference, relevant chunks, expectations.

    A comparison sees by it where two runs were scored against different right answers.
    """
    raw = dict(zip(_STORED, orjson.loads(body), strict=False))
    right = [raw[name] for name in _RIGHT]
    if raw.get("expectations"):
        # At the end: cases without expectations keep their digest.
        right.append(raw["expectations"])
    return digest((jsonable(right),)).hex()


def check_text(text: str) -> None:
    """Refuses a text that cannot be written as UTF-8, and shows the broken place in it.

    Half of a surrogate pair comes from faulty decoding: no file or database takes it.

    Raises:
        ValueError: the text holds one.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        # Twenty characters on each side show the place without the whole text.
        around = ascii(text[max(0, error.start - 20) : error.start + 20])
        raise ValueError(
            f"a text is not valid Unicode: half of a surrogate pair at character {error.start}, "
            f"in {around}"
        ) from None


def _check_texts(values: Iterable[object]) -> None:
    """Refuses a text that no database can store, however deep it lies in nested values.

    Called once a record could not be written: the error of `check_text` shows which text it is.
    """
    for value in values:
        if isinstance(value, str):
            check_text(value)
        elif isinstance(value, Iterable):
            _check_texts(cast("Iterable[object]", value))


def _of_numpy(value: Any) -> object:
    """A number or an array of NumPy as plain values, for the JSON encoder.

    Validators of users return such numbers. A value of any other type is refused.
    """
    # By name, so that NumPy is not imported for the question.
    if type(value).__module__ != "numpy":
        raise TypeError(f"{type(value).__name__} has no form in JSON")
    return value.tolist()


# One for all records: to make an encoder takes longer than to use it.
_ENCODER = msgspec.json.Encoder(enc_hook=_of_numpy)


def encoded(record: object) -> bytes:
    """A record as JSON in stored form, with secrets in its texts masked.

    Mappings keep their order.

    Users' texts may hold an API key, which must not be stored.
    """
    return hidden_bytes(_ENCODER.encode(record))


def decoded(kind: type[_Record], body: bytes) -> _Record:
    """A record from its stored form, as `encoded` wrote it, checked against its type.

    A damaged journal gives an error here, and not a wrong value later.
    """
    return cast("_Record", _decoder(cast("Any", kind)).decode(body))


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """The JSON decoder of a kind of record, kept once made: making one takes a millisecond."""
    return msgspec.json.Decoder(kind)


def encode_judgements(judgements: Sequence[Judgement]) -> bytes:
    """Judgements, the answers of a judge to one cell, as JSON in stored form.

    A user's metric may put anything into them: values that JSON cannot hold are replaced, not
    refused.
    """
    plain = msgspec.to_builtins(judgements, enc_hook=readable)
    return hidden_bytes(always_jsonable(plain))


def judgement_object(judgement: Judgement) -> dict[str, Any]:
    """A judgement as files and pages publish it: how it ended, and each answer of the judge.

    The object's keys are documented: programs of users read them.
    """
    cell = judgement.cell
    reason = cell.reason
    # A failure is shown in place of a reason.
    if cell.failure is not None:
        reason = f"{cell.failure.type}: {cell.failure.message}"
    return {
        "status": cell.status.value,
        "value": cell.value,
        "reason": reason,
        "judge": judgement.judge,
        "steps": msgspec.to_builtins(judgement.steps, enc_hook=readable),
    }


class Codec(Record, kw_only=False):
    """How what a stage gave is stored and read back."""

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
    """An outcome as it is stored: texts apart, because many outcomes share them."""

    texts: list[str]
    """Context texts in order; empty for stages without any."""
    digests: list[bytes]
    """Of the texts."""
    joined: bytes
    """The digests, one behind the other."""
    body: bytes
    """Everything else."""
    output: bytes
    """Digest of what the stage gave: equal outputs need no work downstream."""


def encode_outcome(stage: str, outcome: Outcome[Any]) -> Encoded:
    """An outcome, the result of one stage for one case, in the parts that the journal stores.

    Values that ragbench reads must be exact; in metadata, values that JSON cannot hold are
    replaced. The bytes are a stored form, and digests are made of them: a change makes old runs
    unreadable.

    Raises:
        TypeError: what ragbench reads has no form in JSON.
        ValueError: a text is not valid Unicode.
    """
    texts: list[str] = []
    # One of three: a failure, a reason, or a value; the status tells which when it is read.
    if outcome.failure is not None:
        body = encoded(outcome.failure)
    elif outcome.value is None:
        body = hidden(outcome.reason or "").encode()
    else:
        codec = CODECS[stage]
        if codec.has_texts:
            texts = list(outcome.value.contexts)
        if codec.names:
            body = _encoded_fields(outcome.value, codec.names)
        else:
            body = encoded(outcome.value)
    digests = [text_digest(text) for text in texts]
    joined = b"".join(digests)
    # The head begins with the length of the digests, so that no body can pass for a digest.
    head = b"%d %b %b " % (len(joined), joined, outcome.status.value.encode())
    return Encoded(texts, digests, joined, body, fixed_digest(head, body))


def _encoded_fields(value: object, names: Iterable[str]) -> bytes:
    """Fields of a stage's result as JSON, in stored form.

    In the fields that are the user's own (`_FREE`), values that JSON cannot hold are replaced. In
    others a broken text is refused by name.

    Args:
        names: of the fields.
    """
    fields = {name: getattr(value, name) for name in names}
    try:
        return hidden_bytes(jsonable(fields))
    except TypeError:
        # Refused only here: most outcomes are written without a look at each text.
        _check_texts(field for name, field in fields.items() if name not in _FREE)
        for name in _FREE & fields.keys():
            fields[name] = readable(fields[name])
        return hidden_bytes(jsonable(fields))


def decode_outcome(
    stage: str, status: Status, texts: list[str], body: bytes, **facts: Any
) -> Outcome[Any]:
    """An outcome from the parts that `encode_outcome` stored.

    The status says which of the three forms the body has: a failure, a reason, or a value.

    Args:
        texts: its context texts.
        body: everything else.
        facts: further fields of the outcome that have columns of their own, such as its seconds.
    """
    if status is Status.FAILED:
        return Outcome(status=status, failure=decoded(Failure, body), **facts)
    if status is Status.SKIPPED:
        return Outcome(status=status, reason=body.decode(), **facts)
    return Outcome(status=status, value=CODECS[stage].decode(texts, body), **facts)
