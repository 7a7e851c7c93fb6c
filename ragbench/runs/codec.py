"""How records are stored in the journal: compact JSON, trusted on reading.

Context texts are not part of it: they are stored once, under their digest, however many queries
retrieve them and however many stages hand them on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

import orjson

from ragbench.interface.results import GenerationResult, RetrievalResult
from ragbench.records.cases import Case, Evidence
from ragbench.records.cells import Failure
from ragbench.runs.fingerprint import jsonable, readable

__all__ = [
    "check_text",
    "decode_case",
    "decode_failure",
    "decode_generation",
    "decode_retrieval",
    "encode_case",
    "encode_failure",
    "encode_generation",
    "encode_retrieval",
]


def encode_case(case: Case) -> bytes:
    """A case, without its id.

    Raises:
        ValueError: a text is no valid Unicode.
    """
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


def decode_case(case_id: str, body: bytes) -> Case:
    """The case that `encode_case` wrote."""
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


def encode_retrieval(result: RetrievalResult[Any]) -> bytes:
    """A retrieval result, without its texts.

    Raises:
        ValueError: an id is no valid Unicode.
    """
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
    """A generation result.

    Raises:
        ValueError: the response or a candidate is no valid Unicode.
    """
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
    """A failure with its traceback."""
    return jsonable(
        (failure.type, failure.message, failure.stage, failure.cause, failure.traceback)
    )


def decode_failure(body: bytes) -> Failure:
    """The failure that `encode_failure` wrote."""
    kind, message, stage, cause, traceback = orjson.loads(body)
    return Failure(type=kind, message=message, stage=stage, cause=cause, traceback=traceback)


def _encode(known: tuple[object, ...], *free: object) -> bytes:
    """What ragbench reads must be exact; in metadata, what JSON cannot hold is replaced."""
    try:
        return jsonable((*known, *free))
    except TypeError:
        for text in _texts(known):
            check_text(text)
        return jsonable((*known, *(readable(value) for value in free)))


def check_text(text: str) -> None:
    """Refuses a text that cannot be written down.

    Raises:
        ValueError: it holds half of a surrogate pair.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        around = ascii(text[max(0, error.start - 20) : error.start + 20])
        raise ValueError(
            f"a text is no valid Unicode: half of a surrogate pair at character {error.start}, "
            f"in {around}"
        ) from None


def _texts(values: Iterable[object]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Iterable):
            yield from _texts(cast("Iterable[object]", value))
