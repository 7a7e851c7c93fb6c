"""Records to stored bytes and back, judgements included.

Context texts are not part of it: they are stored once, under their digest, however many queries
retrieve them and however many stages hand them on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, NamedTuple, cast

import msgspec
import orjson

from ragbench.core.attribution import Attribution
from ragbench.core.case import Case, Evidence
from ragbench.core.matched import GoldCause, GoldSearch, SearchedGold
from ragbench.core.outcome import Cell, Failure, Judgement, JudgeStep, Outcome, Quote, Status
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.core.validation import (
    Conflict,
    DumpWarning,
    EvidenceQuote,
    RetrievalQuality,
    Verdict,
    WarningKind,
)
from ragbench.ledger.fingerprint import (
    always_jsonable,
    digest,
    fixed_digest,
    jsonable,
    readable,
    text_digests,
)
from ragbench.masking import hidden_bytes

_DIGITS = 6
"""Digits of a probability: more would be noise, and differ from one machine to another."""


def validation_object(verdict: Verdict) -> dict[str, Any]:
    """A verdict as it is published: the same verdict gives the same object."""
    return {
        "query_id": verdict.query_id,
        "relevant_chunk_ids": list(verdict.relevant_chunk_ids),
        "relevance": {id: round(p, _DIGITS) for id, p in verdict.relevance.items()},
        "answer_present": verdict.answer_present,
        "answer_probability": round(verdict.answer_probability, _DIGITS),
        "evidence": [_quoted(one) for one in verdict.evidence],
        "retrieval_quality": verdict.retrieval_quality.value,
        "message": verdict.message,
        "reasons": list(verdict.reasons),
        "conflicts": [
            {"kind": one.kind, "detail": one.detail, "first": _quoted(one.first)}
            | {"second": _quoted(one.second)}
            for one in verdict.conflicts
        ],
        "warnings": list(verdict.warnings),
        "validator": verdict.validator,
    }


def _quoted(quote: EvidenceQuote) -> dict[str, Any]:
    place = {"chunk_id": quote.chunk_id, "start": quote.start, "end": quote.end}
    return {**place, "text": quote.text}


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


def encode_case(case: Case) -> bytes:
    known = (
        case.query,
        case.reference,
        case.alternative_references,
        case.reference_contexts,
        case.reference_context_ids,
        case.grades,
        [(span.text, span.document_id, span.start, span.end) for span in case.evidence],
        case.answerable,
        case.cluster,
        case.tags,
        case.language,
    )
    return _encode(known, case.metadata)


def question_digest(case: Case) -> bytes:
    """Digest of what is asked and of the right answer: all that a score can rest on.

    The labels are left out (tags, language, cluster): a case that gets another tag is the same.
    """
    plain = replace(case, cluster=None, tags=(), language=None)
    return digest((case.id.encode(errors="backslashreplace"), encode_case(plain)))


def decode_case(case_id: str, body: bytes) -> Case:
    query, reference, others, contexts, ids, grades, spans, *rest = orjson.loads(body)
    answerable, cluster, tags, language, metadata = rest
    return Case(
        id=case_id,
        query=query,
        reference=reference,
        alternative_references=tuple(others),
        reference_contexts=None if contexts is None else tuple(contexts),
        reference_context_ids=None if ids is None else tuple(ids),
        grades=grades,
        evidence=tuple(
            Evidence(text=text, document_id=document, start=start, end=end)
            for text, document, start, end in spans
        ),
        answerable=answerable,
        cluster=cluster,
        tags=tuple(tags),
        language=language,
        metadata=metadata,
    )


def case_tags(body: bytes) -> tuple[str, ...]:
    """The tags of a stored case."""
    return tuple(orjson.loads(body)[9])


def encode_retrieval(result: RetrievalResult[Any]) -> bytes:
    return _encode((result.context_ids, result.scores), result.context_metadata, result.metadata)


def decode_retrieval(contexts: list[str], body: bytes) -> RetrievalResult[Any]:
    """The result that `encode_retrieval` wrote, with its texts put back."""
    ids, scores, context_metadata, metadata = orjson.loads(body)
    return RetrievalResult(
        contexts,
        context_ids=ids,
        scores=scores,
        context_metadata=context_metadata,
        metadata=metadata,
    )


def encode_generation(result: GenerationResult[Any]) -> bytes:
    known = (result.response, result.multi_responses, result.confidence, result.abstained)
    return _encode(known, result.metadata)


def decode_generation(body: bytes) -> GenerationResult[Any]:
    """The result that `encode_generation` wrote."""
    response, candidates, confidence, abstained, metadata = orjson.loads(body)
    return GenerationResult(
        response,
        multi_responses=candidates,
        confidence=confidence,
        abstained=abstained,
        metadata=metadata,
    )


def encode_failure(failure: Failure) -> bytes:
    known = (failure.type, failure.message, failure.stage, failure.cause, failure.traceback)
    return hidden_bytes(jsonable(known))


def decode_failure(body: bytes) -> Failure:
    kind, message, stage, cause, traceback = orjson.loads(body)
    return Failure(type=kind, message=message, stage=stage, cause=cause, traceback=traceback)


def _encode(known: tuple[object, ...], *free: object) -> bytes:
    """What ragbench reads must be exact; in metadata, what JSON cannot hold is replaced."""
    try:
        return hidden_bytes(jsonable((*known, *free)))
    except TypeError:
        for text in _texts(known):
            check_text(text)
        return hidden_bytes(jsonable((*known, *(readable(value) for value in free))))


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


def _texts(values: Iterable[object]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Iterable):
            yield from _texts(cast("Iterable[object]", value))


def encode_judgements(judgements: Sequence[Judgement]) -> bytes:
    """Judgements as bytes."""
    return hidden_bytes(always_jsonable([judgement_object(judgement) for judgement in judgements]))


def judgement_object(judgement: Judgement) -> dict[str, Any]:
    """A judgement as a JSON object: how it ended, and each answer of the judge."""
    cell, failure = judgement.cell, judgement.cell.failure
    return {
        "status": cell.status.value,
        "value": cell.value,
        "reason": cell.reason if failure is None else f"{failure.type}: {failure.message}",
        "judge": judgement.judge,
        "steps": [
            {
                "asked": step.asked,
                "answer": step.answer,
                "prompt_tokens": step.prompt_tokens,
                "completion_tokens": step.completion_tokens,
                "quotes": [
                    {
                        "text": quote.text,
                        "context": quote.context,
                        "start": quote.start,
                        "end": quote.end,
                    }
                    for quote in step.quotes
                ],
                "cost": None if step.cost is None else str(step.cost),
                "not_sent": step.not_sent,
            }
            for step in judgement.steps
        ],
    }


def decode_judgements(body: bytes) -> tuple[Judgement, ...]:
    """What `encode_judgements` wrote; of a failure its type and message."""
    return tuple(
        Judgement(
            cell=_cell(raw), steps=tuple(map(_step, raw["steps"])), judge=raw.get("judge", "")
        )
        for raw in orjson.loads(body)
    )


def _step(raw: dict[str, Any]) -> JudgeStep:
    not_sent = tuple(raw.pop("not_sent", ()))
    quotes = tuple(Quote(**quote) for quote in raw.pop("quotes", ()))
    cost = raw.pop("cost", None)
    return JudgeStep(
        **raw,
        quotes=quotes,
        cost=None if cost is None else Decimal(cost),
        not_sent=not_sent,
    )


def _cell(raw: dict[str, Any]) -> Cell:
    status, reason = Status(raw["status"]), raw["reason"]
    if status is Status.FAILED:
        kind, _, message = str(reason).partition(": ")
        return Cell.failed(Failure(type=kind, message=message, stage="score"))
    return Cell(status=status, value=raw["value"], reason=reason)


def encode_verdict(verdict: Verdict) -> bytes:
    return hidden_bytes(orjson.dumps(verdict, option=orjson.OPT_SERIALIZE_NUMPY))


def decode_verdict(body: bytes) -> Verdict:
    raw: dict[str, Any] = orjson.loads(body)
    raw["retrieval_quality"] = RetrievalQuality(raw["retrieval_quality"])
    for name in ("relevant_chunk_ids", "reasons", "warnings"):
        raw[name] = tuple(raw[name])
    raw["evidence"] = tuple(EvidenceQuote(**piece) for piece in raw["evidence"])
    raw["conflicts"] = tuple(map(_conflict, raw["conflicts"]))
    if raw.get("inspection") is not None:
        raw["inspection"] = tuple(map(_dump_warning, raw["inspection"]))
    return Verdict(**raw)


def _conflict(raw: dict[str, Any]) -> Conflict:
    first, second = EvidenceQuote(**raw.pop("first")), EvidenceQuote(**raw.pop("second"))
    return Conflict(first=first, second=second, **raw)


def _dump_warning(raw: dict[str, Any]) -> DumpWarning:
    kind, ids = WarningKind(raw.pop("kind")), tuple(raw.pop("chunk_ids"))
    return DumpWarning(kind=kind, chunk_ids=ids, **raw)


def encode_attribution(attribution: Attribution) -> bytes:
    return hidden_bytes(msgspec.json.encode(attribution))


_ATTRIBUTION = msgspec.json.Decoder(Attribution)


def decode_attribution(body: bytes) -> Attribution:
    return _ATTRIBUTION.decode(body)


def encode_gold_search(found: GoldSearch) -> bytes:
    return hidden_bytes(orjson.dumps(found))


def decode_gold_search(body: bytes) -> GoldSearch:
    raw: dict[str, Any] = orjson.loads(body)
    golds = tuple(
        SearchedGold(
            gold=one["gold"],
            cause=GoldCause(one["cause"]),
            rank=one["rank"],
            chunk_ids=tuple(one["chunk_ids"]),
        )
        for one in raw["golds"]
    )
    return GoldSearch(golds=golds, retrieved=raw["retrieved"], depth=raw["depth"])


class Codec(NamedTuple):
    """How the values of a stage are stored."""

    encode: Callable[[Any], bytes]
    """A value without its context texts."""
    read: Callable[..., Any]
    """A value from its texts, where it has some, and the rest."""
    has_texts: bool = False
    """Whether a value has context texts, which are stored once for all."""

    def texts(self, value: Any) -> list[str]:
        return [*value.contexts] if self.has_texts else []

    def decode(self, texts: list[str], body: bytes) -> Any:
        return self.read(texts, body) if self.has_texts else self.read(body)


_RETRIEVAL = Codec(encode_retrieval, decode_retrieval, has_texts=True)
CODECS = {
    "retrieve": _RETRIEVAL,
    "post_retrieve": _RETRIEVAL,
    "locate": Codec(encode_gold_search, decode_gold_search),
    "validate": Codec(encode_verdict, decode_verdict),
    "generate": Codec(encode_generation, decode_generation),
}
"""By stage: the only place where outcomes become bytes and bytes outcomes."""


class Encoded(NamedTuple):
    """An outcome as it is stored."""

    texts: list[str]
    digests: list[bytes]
    """Of the texts."""
    body: bytes
    """Everything else."""
    output: bytes
    """Digest of what the stage gave: equal outputs need no work downstream."""

    @property
    def pairs(self) -> Iterator[tuple[bytes, str]]:
        return zip(self.digests, self.texts, strict=True)


def encode_outcome(stage: str, outcome: Outcome[Any]) -> Encoded:
    texts: list[str] = []
    if outcome.failure is not None:
        body = encode_failure(outcome.failure)
    elif outcome.value is None:
        body = hidden_bytes((outcome.reason or "").encode())
    else:
        codec = CODECS[stage]
        texts, body = codec.texts(outcome.value), codec.encode(outcome.value)
    digests = text_digests(texts) if texts else []
    joined = b"".join(digests)
    head = b"%d %b %b " % (len(joined), joined, outcome.status.value.encode())
    return Encoded(texts, digests, body, fixed_digest(head, body))


def decode_outcome(stage: str, status: Status, texts: list[str], body: bytes) -> Outcome[Any]:
    """What `encode_outcome` wrote down; times, and how it came to be here, are stored elsewhere."""
    if status is Status.FAILED:
        return Outcome(status=status, failure=decode_failure(body))
    if status is Status.SKIPPED:
        return Outcome(status=status, reason=body.decode())
    return Outcome(status=status, value=CODECS[stage].decode(texts, body))
