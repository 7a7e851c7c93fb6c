"""A RAG as the service that operators may ask again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragbench.evaluation.rag_stages import RAG
from ragbench.interface.base import RAGInterface
from ragbench.interface.coerce import to_retrieval_result
from ragbench.postretrieval.service import ChunkSearch
from ragbench.records.corpus import Chunk

__all__ = ["chunk_service"]


def chunk_service(rag: RAG) -> ChunkSearch | None:
    """What operators may ask of a RAG.

    Args:
        rag: the system.

    Returns:
        Its retrieval as a search; with neighbours too when it has a method
        ``neighbours(chunk_id, top_k)`` that returns chunks. None for a RAG whose methods are
        coroutines, or that does not retrieve.
    """
    if not isinstance(rag, RAGInterface) or "retrieval" not in rag.families:
        return None
    name = type(rag).__name__
    asked: Any = getattr(rag, "neighbours", None)
    if asked is None:
        return _Search(name=name, rag=rag)
    return _SearchAndNeighbours(name=name, rag=rag, asked=asked)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Search:
    name: str
    rag: RAGInterface[Any] = field(repr=False, metadata={"setting": False})

    def search(self, query: str, top_k: int) -> Sequence[Chunk]:
        """See `ChunkSearch.search`."""
        given = self.rag.retrieve_with_metadata(query, top_k)
        where = f"{self.name}.retrieve_with_metadata"
        return to_retrieval_result(given, where).to_chunks()[:top_k]


@dataclass(frozen=True, kw_only=True, slots=True)
class _SearchAndNeighbours(_Search):
    asked: Callable[[str, int], Sequence[Chunk]] = field(repr=False, metadata={"setting": False})

    def neighbours(self, chunk_id: str, top_k: int) -> Sequence[Chunk]:
        """See `ChunkNeighbours.neighbours`."""
        return self.asked(chunk_id, top_k)
