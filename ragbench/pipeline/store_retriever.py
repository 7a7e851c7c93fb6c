"""An open collection that is searched as a pipeline's stage, whoever filled it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from ragbench.core.chunk import Chunk
from ragbench.core.filters import Filter
from ragbench.embedders.embedder import Embedder, readable_text
from ragbench.pipeline.gold import GoldLookup, SearchVariant
from ragbench.pipeline.pre_retrieval import SearchQuery
from ragbench.pipeline.stages import WordWeights
from ragbench.pipeline.strategies import (
    DenseStrategy,
    HybridStrategy,
    Search,
    Strategy,
    StrategyName,
    exactly,
)
from ragbench.stores.attached import ForeignCollection
from ragbench.stores.collection import OwnCollection

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreRetriever:
    """See `ragbench.pipeline.stages.Retriever`."""

    store: OwnCollection | ForeignCollection
    method: StrategyName
    strategy: Strategy
    embedder: Embedder | None
    """None where the search needs none."""
    threshold: float | None
    filters: Filter | None
    identity: Mapping[str, object]
    opening: Sequence[str]
    """Notes that are known when it is opened."""
    closing: ExitStack
    word_weights: WordWeights | None = None
    gives_embeddings: bool = False
    """Whether results carry the vectors of query and chunks."""
    takes_batches: bool = True

    @property
    def metadata(self) -> Mapping[str, Any]:
        return {"retriever": self.method}

    @property
    def notes(self) -> Sequence[str]:
        return [*self.opening, *(f"Warning: {line}" for line in self.store.warnings())]

    def search(self, queries: Sequence[SearchQuery], top_k: int) -> list[list[Chunk]]:
        search = Search(k=top_k, threshold=self.threshold, filters=self.filters)
        found: list[list[Chunk]] = [[] for _ in queries]
        sides = {"query": self.strategy, "passage": for_passages(self.strategy)}
        for kind, strategy in sides.items():
            places = [at for at, query in enumerate(queries) if query.kind == kind]
            if places:
                rankings = strategy.retrieve([queries[at].text for at in places], search)
                for at, chunks in zip(places, rankings, strict=True):
                    found[at] = self._with_vectors(chunks)
        return found

    @property
    def lookup(self) -> GoldLookup:
        store, ways = self.store, list[Strategy]()
        if self.embedder is not None:
            dense = DenseStrategy(store=store, embedder=self.embedder, calibration=None)
            ways.append(for_passages(dense))
        if isinstance(store, ForeignCollection) and store.words is not None:
            ways.append(StoreWordsStrategy(collection=store))
        return GoldLookup(
            store=store,
            dimension=store.dimension,
            has_documents=store.has_documents,
            by_text=ways,
            filters=self.filters,
            get=store.get if isinstance(store, OwnCollection) else None,
        )

    def variant(self, variant: SearchVariant) -> StoreRetriever | None:
        if variant is SearchVariant.PLAIN:
            return self
        if variant is SearchVariant.EXACT:
            strategy = exactly(self.strategy)
            return None if strategy is None else replace(self, strategy=strategy)
        unlimited = replace(self, threshold=-math.inf)
        if variant is SearchVariant.UNLIMITED:
            limits = isinstance(self.store, OwnCollection) or self.threshold is not None
            return unlimited if limits else None
        if self.filters is None and self.store.native_filter is None:
            return None
        every = self.store.unfiltered()
        return replace(unlimited, store=every, strategy=_over(self.strategy, every), filters=None)

    def query_embedding(self, query: str) -> Sequence[float] | None:
        if not self.gives_embeddings or self.embedder is None or not query.strip():
            return None
        vector: list[float] = self.embedder.embed_queries([query])[0].tolist()
        return vector

    def close(self) -> None:
        self.closing.close()

    def _with_vectors(self, chunks: list[Chunk]) -> list[Chunk]:
        if not self.gives_embeddings or isinstance(self.store, ForeignCollection):
            return chunks
        vectors = self.store.vectors([chunk.id for chunk in chunks])
        return [
            replace(chunk, metadata={**chunk.metadata, "embedding": vectors[chunk.id].tolist()})
            for chunk in chunks
        ]


def _over(strategy: Strategy, store: OwnCollection | ForeignCollection) -> Strategy:
    """The same search over another view of a foreign collection."""
    if isinstance(store, OwnCollection):
        return strategy
    if isinstance(strategy, DenseStrategy):
        return replace(strategy, store=store)
    if isinstance(strategy, HybridStrategy):
        dense, sparse = _over(strategy.dense, store), _over(strategy.sparse, store)
        return replace(strategy, dense=dense, sparse=sparse)
    return StoreWordsStrategy(collection=store)


def for_passages(strategy: Strategy) -> Strategy:
    """The same search for texts that are embedded as passages."""
    if isinstance(strategy, DenseStrategy):
        return replace(strategy, embedder=cast("Embedder", _PassageSide(strategy.embedder)))
    if isinstance(strategy, HybridStrategy):
        return replace(strategy, dense=for_passages(strategy.dense))
    return strategy


@dataclass(frozen=True, slots=True)
class _PassageSide:
    """An embedder that takes queries for passages."""

    embedder: Embedder

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.embedder.embed_passages(texts)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreWordsStrategy:
    """The rows that the store itself ranks by words; scores are the store's."""

    collection: ForeignCollection

    def retrieve(self, queries: Sequence[str], search: Search) -> list[list[Chunk]]:
        texts = [readable_text(query) for query in queries]
        found = self.collection.search_words(texts, k=search.k, filters=search.filters)
        least = -math.inf if search.threshold is None else search.threshold
        return [[chunk for chunk in one if (chunk.score or 0.0) >= least] for one in found]
