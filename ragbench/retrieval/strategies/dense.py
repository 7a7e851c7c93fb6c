"""Retrieval by the meaning of texts: their vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ragbench.embedders.base import Embedder
from ragbench.embedders.calibration import Calibration
from ragbench.embedders.readable import readable_text
from ragbench.records.corpus import Chunk
from ragbench.records.filters import Filter
from ragbench.retrieval.strategies.base import Search
from ragbench.stores.base import Vectors

__all__ = ["DenseStrategy", "Searchable"]


class Searchable(Protocol):
    """What finds chunks by vectors; see `ragbench.stores.base.VectorStore.search`."""

    def search(
        self, vectors: Vectors, *, k: int, filters: Filter | None = None
    ) -> list[list[Chunk]]:
        """The chunks most similar to each query."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class DenseStrategy:
    """The chunks whose vectors are most similar to the query's.

    A score is the cosine on the embedder's own scale: see `Calibration`.
    """

    store: Searchable
    embedder: Embedder
    """The one that the collection was built with."""
    calibration: Calibration | None
    """That embedder's; None leaves scores as the store gives them."""

    def retrieve(self, queries: Sequence[str], search: Search) -> list[list[Chunk]]:
        """See `ragbench.retrieval.strategies.base.Strategy`."""
        asked = [at for at, query in enumerate(queries) if query.strip()]
        found: list[list[Chunk]] = [[] for _ in queries]
        if not asked:
            return found
        vectors = self.embedder.embed_queries([readable_text(queries[at]) for at in asked])
        rankings = self.store.search(vectors, k=search.k, filters=search.filters)
        for at, chunks in zip(asked, rankings, strict=True):
            scored = [self._scored(chunk) for chunk in chunks]
            found[at] = [chunk for chunk in scored if (chunk.score or 0.0) >= search.threshold]
        return found

    def _scored(self, chunk: Chunk) -> Chunk:
        if self.calibration is None:
            return chunk
        return replace(chunk, score=self.calibration.score(chunk.score or 0.0))
