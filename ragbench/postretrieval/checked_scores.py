"""A reranker's scores, looked at before anything is built on them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ragbench.errors import InterfaceError
from ragbench.postretrieval.query import Query
from ragbench.postretrieval.reranker import NotedScores, Reranker
from ragbench.records.corpus import Chunk

__all__ = ["checked_scores"]


def checked_scores(reranker: Reranker, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
    """Asks a reranker for scores and makes sure that there is one finite number a chunk.

    Raises:
        InterfaceError: there are more or fewer, or one is not finite. What the reranker itself
            raises passes through.
    """
    given = reranker.score(query, chunks)
    values = tuple(float(score) for score in given)
    if len(values) != len(chunks):
        raise InterfaceError(
            f"reranker '{reranker.name}' gave {len(values)} scores for {len(chunks)} chunks"
        )
    for at, score in enumerate(values, start=1):
        if not math.isfinite(score):
            raise InterfaceError(
                f"reranker '{reranker.name}' gave the score {score} for chunk {at} of "
                f"{len(chunks)}; scores must be finite"
            )
    return NotedScores(values, given.notes if isinstance(given, NotedScores) else ())
