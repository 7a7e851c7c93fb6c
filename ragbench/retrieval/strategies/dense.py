"""Retrieval by the meaning of texts: their vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragbench.embedders.base import Embedder
from ragbench.embedders.calibration import Calibration
from ragbench.embedders.readable import readable_text
from ragbench.records.corpus import Chunk
from ragbench.retrieval.strategies.base import Search
from ragbench.stores.base import VectorStore

__all__ = ["DenseStrategy"]


@dataclass(frozen=True, kw_only=True, slots=True)
class DenseStrategy:
    """The chunks whose vectors are most similar to the query's.

    A score is the cosine on the embedder's own scale: see `Calibration`.
    """

    store: VectorStore
    embedder: Embedder
    """The one that the collection was built with."""
    calibration: Calibration
    """That embedder's."""

    def retrieve(self, queries: Sequence[str], search: Search) -> list[list[Chunk]]:
        """See `ragbench.retrieval.strategies.base.Strategy`."""
        asked = [at for at, query in enumerate(queries) if query.strip()]
        found: list[list[Chunk]] = [[] for _ in queries]
        if not asked:
            return found
        vectors = self.embedder.embed_queries([readable_text(queries[at]) for at in asked])
        rankings = self.store.search(vectors, k=search.k, filters=search.filters)
        for at, chunks in zip(asked, rankings, strict=True):
            scored = [replace(chunk, score=self._score(chunk)) for chunk in chunks]
            found[at] = [chunk for chunk in scored if (chunk.score or 0.0) >= search.threshold]
        return found

    def _score(self, chunk: Chunk) -> float:
        return self.calibration.score(chunk.score or 0.0)
