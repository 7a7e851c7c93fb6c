"""Queries that are questions, and such that look like what is sought, searched for alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from ragbench.embedders.base import Embedder
from ragbench.preretrieval.search_query import SearchQuery
from ragbench.records.corpus import Chunk
from ragbench.retrieval.strategies.base import Search, Strategy
from ragbench.retrieval.strategies.dense import DenseStrategy
from ragbench.retrieval.strategies.hybrid import HybridStrategy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["BothSides"]


@dataclass(frozen=True, kw_only=True, slots=True)
class BothSides:
    """One strategy for queries of both kinds."""

    questions: Strategy
    passages: Strategy
    """The same search for texts that are embedded as passages."""

    @classmethod
    def of(cls, strategy: Strategy) -> BothSides:
        """Both sides of a strategy."""
        return cls(questions=strategy, passages=_for_passages(strategy))

    def retrieve(self, queries: Sequence[SearchQuery], search: Search) -> list[list[Chunk]]:
        """For each query its chunks, best first."""
        found: list[list[Chunk]] = [[] for _ in queries]
        for kind, strategy in (("query", self.questions), ("passage", self.passages)):
            places = [at for at, query in enumerate(queries) if query.kind == kind]
            if places:
                rankings = strategy.retrieve([queries[at].text for at in places], search)
                for at, chunks in zip(places, rankings, strict=True):
                    found[at] = chunks
        return found


def _for_passages(strategy: Strategy) -> Strategy:
    if isinstance(strategy, DenseStrategy):
        return replace(strategy, embedder=cast("Embedder", _PassageSide(strategy.embedder)))
    if isinstance(strategy, HybridStrategy):
        return replace(strategy, dense=_for_passages(strategy.dense))
    return strategy


@dataclass(frozen=True, slots=True)
class _PassageSide:
    """An embedder that takes queries for passages."""

    embedder: Embedder

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.embedder.embed_passages(texts)
