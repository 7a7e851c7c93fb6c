"""What the fusions of several rerankers have in common."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ragbench.errors import ConfigError
from ragbench.postretrieval.checked_scores import checked_scores
from ragbench.postretrieval.query import Query
from ragbench.postretrieval.reranker import Reranker
from ragbench.records.corpus import Chunk

__all__ = ["check_weights", "member_scores"]


def member_scores(
    rerankers: Sequence[Reranker], query: Query, chunks: Sequence[Chunk]
) -> tuple[list[Sequence[float]], tuple[str, ...]]:
    """Each reranker's scores, and all their notes with the reranker's name before each.

    Raises:
        InterfaceError: there is not one finite number a chunk.
    """
    given = [checked_scores(reranker, query, chunks) for reranker in rerankers]
    notes = [
        f"{reranker.name}: {note}"
        for reranker, scores in zip(rerankers, given, strict=True)
        for note in scores.notes
    ]
    return [scores.values for scores in given], tuple(dict.fromkeys(notes))


def check_weights(
    name: str, members: int, weights: Sequence[float] | None, given_weight: float
) -> None:
    """Refuses weights that do not fit.

    Raises:
        ConfigError: no reranker, not one weight a reranker, a weight below 0, or none above 0.
    """
    if not members:
        raise ConfigError(f"{name}: give at least one reranker")
    if weights is not None and len(weights) != members:
        raise ConfigError(f"{name}: {len(weights)} weights were given for {members} rerankers")
    every = [*(weights or [1.0] * members), given_weight]
    if any(not 0 <= weight < math.inf for weight in every):
        raise ConfigError(f"{name}: weights must be at least 0")
    if not any(every):
        raise ConfigError(f"{name}: at least one weight must be above 0")
