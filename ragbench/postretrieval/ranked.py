"""A chunk on its way through post-retrieval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.records.corpus import Chunk

__all__ = ["RankedChunk", "ranked"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RankedChunk:
    """A chunk with where it stands and where it stood. The chunk itself is never changed."""

    chunk: Chunk
    """The same object that retrieval gave."""
    score: float | None
    """Its present score, higher is better; None when nothing scored it."""
    rank: int
    """Its present place, from 1."""
    initial_score: float | None
    """The score that retrieval gave."""
    initial_rank: int | None
    """The place that retrieval gave, from 1; None for a chunk that was added later."""


def ranked(chunks: Sequence[Chunk]) -> list[RankedChunk]:
    """Retrieval's chunks as they enter post-retrieval: in the order given, ranks from 1."""
    return [
        RankedChunk(
            chunk=chunk,
            score=chunk.score,
            rank=rank,
            initial_score=chunk.score,
            initial_rank=rank,
        )
        for rank, chunk in enumerate(chunks, start=1)
    ]
