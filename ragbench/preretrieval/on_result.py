"""What a retrieval's result says of its pre-retrieval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ragbench.interface.results import RetrievalResult
from ragbench.preretrieval.stage import PreRetrieved
from ragbench.records.cells import Failure

__all__ = ["PRE_RETRIEVE", "pre_retrieval_failures", "told"]

PRE_RETRIEVE = "pre_retrieve"
"""The key of what was searched for, in a result's metadata."""


def told(asked: PreRetrieved) -> dict[str, Any]:
    """What was searched for and what went wrong, as JSON holds it."""
    found: dict[str, Any] = {
        "queries": [
            {"text": query.text, "kind": query.kind, "weight": query.weight}
            for query in asked.queries
        ]
    }
    if asked.failures:
        found["failures"] = [
            {
                "type": failure.type,
                "message": failure.message,
                "stage": failure.stage,
                "cause": failure.cause,
            }
            for failure in asked.failures
        ]
    return found


def pre_retrieval_failures(result: RetrievalResult[Any]) -> tuple[Failure, ...]:
    """What went wrong before a retrieval and was made up for; nothing when it does not say."""
    metadata: object = result.metadata
    if not isinstance(metadata, Mapping):
        return ()
    record = cast("Mapping[str, Any]", metadata).get(PRE_RETRIEVE)
    if not isinstance(record, Mapping):
        return ()
    listed = cast("Mapping[str, Any]", record).get("failures")
    if not isinstance(listed, list):
        return ()
    # A RAG of a user's may have a key of this name, too.
    return tuple(
        Failure(**cast("dict[str, Any]", failure))
        for failure in cast("list[object]", listed)
        if isinstance(failure, dict) and failure.keys() == {"type", "message", "stage", "cause"}
    )
