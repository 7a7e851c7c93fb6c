"""Post-retrieval on a retrieval's result, and what the result then says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ragbench.interface.results import RetrievalResult
from ragbench.postretrieval.operator import PostRetrieval, PostRetrieved, Step
from ragbench.postretrieval.query import Query
from ragbench.records.cells import Failure

__all__ = ["POST_RETRIEVE", "post_retrieved", "steps_of", "written_text"]

POST_RETRIEVE = "post_retrieve"
"""The stage's name, and the key of what it did in its result's metadata."""


def post_retrieved(
    stage: PostRetrieval, query: str, result: RetrievalResult[Any]
) -> RetrievalResult[Any]:
    """Takes one retrieval result through the operators.

    Args:
        stage: the operators.
        query: the question.
        result: what was retrieved. An embedding of the question is taken from its metadata's
            ``query_embedding``, those of chunks from their metadata's ``embedding``.

    Returns:
        The final chunks as a result. It has ids only when the given one had: positions are no
        ids. Its metadata says what each operator did; see `steps_of` and `written_text`.
    """
    done = stage.run(_query(query, result.metadata), result.to_chunks())
    chunks = [entry.chunk for entry in done.chunks]
    scores = [entry.score for entry in done.chunks if entry.score is not None]
    known = [dict(chunk.metadata) for chunk in chunks]
    return RetrievalResult(
        [chunk.text for chunk in chunks],
        context_ids=None if result.context_ids is None else [chunk.id for chunk in chunks],
        scores=scores if len(scores) == len(chunks) else None,
        context_metadata=known if any(known) else None,
        metadata={POST_RETRIEVE: _told(done)},
    )


def written_text(result: RetrievalResult[Any]) -> str | None:
    """What a format operator wrote in place of the contexts; None when none did."""
    written: str | None = _record(result).get("text")
    return written


def steps_of(result: RetrievalResult[Any]) -> tuple[Step, ...]:
    """What each operator did, out of a post-retrieval result."""
    record = _record(result)
    if not record:
        return ()
    before = tuple(zip(record["ids"], record["scores"], strict=True))
    steps: list[Step] = []
    for told in record["steps"]:
        left = before
        if "ids" in told:
            left = tuple(zip(told["ids"], told["scores"], strict=True))
        steps.append(
            Step(
                operator=told["operator"],
                given=before,
                left=left,
                notes=tuple(told.get("notes", ())),
                failures=tuple(Failure(**failure) for failure in told.get("failures", ())),
            )
        )
        before = left
    return tuple(steps)


def _query(text: str, metadata: object) -> Query:
    embedding = None
    if isinstance(metadata, Mapping):
        embedding = cast("Mapping[str, Any]", metadata).get("query_embedding")
    return Query(text=text, embedding=embedding)


def _told(done: PostRetrieved) -> dict[str, Any]:
    """What the operators did. An operator that left all as it was has no ids of its own."""
    steps: list[dict[str, Any]] = []
    for step in done.steps:
        told: dict[str, Any] = {"operator": step.operator}
        if step.left != step.given:
            told["ids"] = [id for id, _ in step.left]
            told["scores"] = [score for _, score in step.left]
        if step.notes:
            told["notes"] = step.notes
        if step.failures:
            told["failures"] = [
                {
                    "type": failure.type,
                    "message": failure.message,
                    "stage": failure.stage,
                    "cause": failure.cause,
                }
                for failure in step.failures
            ]
        steps.append(told)
    given = done.steps[0].given if done.steps else ()
    record: dict[str, Any] = {
        "ids": [id for id, _ in given],
        "scores": [score for _, score in given],
        "steps": steps,
    }
    if done.formatted:
        record["text"] = done.history_text
    return record


def _record(result: RetrievalResult[Any]) -> Mapping[str, Any]:
    metadata = result.metadata
    if not isinstance(metadata, Mapping):
        return {}
    found = cast("Mapping[str, Any]", metadata).get(POST_RETRIEVE)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}
