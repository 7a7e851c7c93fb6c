"""What operators may ask the store that the chunks came from: two questions, and no change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ragbench.records.corpus import Chunk

__all__ = ["ChunkNeighbours", "ChunkSearch", "ChunkService"]


@runtime_checkable
class ChunkSearch(Protocol):
    """Finds chunks by a query."""

    def search(self, query: str, top_k: int) -> Sequence[Chunk]:
        """Finds chunks for a query.

        Args:
            query: the question; the service embeds it, where that is its way.
            top_k: how many chunks at most, at least 1.

        Returns:
            The chunks, best first.
        """
        ...


@runtime_checkable
class ChunkNeighbours(Protocol):
    """Finds chunks by a chunk."""

    def neighbours(self, chunk_id: str, top_k: int) -> Sequence[Chunk]:
        """Finds chunks that are linked with a chunk, or stand beside it.

        Args:
            chunk_id: the chunk.
            top_k: how many at most, at least 1.

        Returns:
            Other chunks, the nearest first; none for an id that is not known.
        """
        ...


@runtime_checkable
class ChunkService(ChunkSearch, ChunkNeighbours, Protocol):
    """Read-only access to the store. Operators are given one; nothing here can write."""
