"""Retrieval by the words of texts: BM25."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragbench.records.corpus import Chunk
from ragbench.retrieval.sparse_index import SparseIndex
from ragbench.retrieval.strategies.base import Search
from ragbench.stores.base import VectorStore

__all__ = ["SparseStrategy"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SparseStrategy:
    """The chunks that share words with the query, rare ones above all; see `SparseIndex`."""

    store: VectorStore
    index: SparseIndex
    """Of that store."""

    def retrieve(self, queries: Sequence[str], search: Search) -> list[list[Chunk]]:
        """See `ragbench.retrieval.strategies.base.Strategy`."""
        rankings = [
            self.index.search(query, k=search.k, threshold=search.threshold, filters=search.filters)
            for query in queries
        ]
        chunks = self.store.get(sorted({id_ for ranking in rankings for id_, _ in ranking}))
        return [
            [replace(chunks[id_], score=score) for id_, score in ranking if id_ in chunks]
            for ranking in rankings
        ]
