"""Retrieval from a foreign collection as a pipeline's stage."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ragbench.core.chunk import Chunk
from ragbench.core.filter_form import filters_to_json
from ragbench.core.filters import Filter
from ragbench.embedders.embedder import Embedder, readable_text
from ragbench.errors import ConfigError
from ragbench.ledger.content import path_content
from ragbench.pipeline.documents import Indexing
from ragbench.pipeline.gold import GoldLookup, SearchVariant
from ragbench.pipeline.pre_retrieval import SearchQuery
from ragbench.pipeline.stages import WordWeights
from ragbench.pipeline.strategies import (
    DenseStrategy,
    HybridStrategy,
    RetrievalSettings,
    Search,
    Strategy,
    StrategyName,
    exactly,
    filter_problem,
)
from ragbench.pipeline.vector_check import vector_problem
from ragbench.stores.attached import ForeignCollection, attach
from ragbench.stores.base import Effort

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, slots=True)
class BothSides:
    """One strategy for queries of both kinds."""

    questions: Strategy
    passages: Strategy
    """The same search for texts that are embedded as passages."""

    @classmethod
    def of(cls, strategy: Strategy) -> BothSides:
        return cls(questions=strategy, passages=for_passages(strategy))

    def retrieve(self, queries: Sequence[SearchQuery], search: Search) -> list[list[Chunk]]:
        found: list[list[Chunk]] = [[] for _ in queries]
        for kind, strategy in (("query", self.questions), ("passage", self.passages)):
            places = [at for at, query in enumerate(queries) if query.kind == kind]
            if places:
                rankings = strategy.retrieve([queries[at].text for at in places], search)
                for at, chunks in zip(places, rankings, strict=True):
                    found[at] = chunks
        return found


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


def foreign_strategy(
    collection: ForeignCollection,
    embedder: Embedder | None,
    *,
    embedder_name: str,
    settings: RetrievalSettings,
) -> Strategy:
    """Retrieval from a collection that ragbench did not fill; scores are the store's."""
    if settings.strategy == "dense":
        return _foreign_dense(collection, embedder, embedder_name, settings.effort)
    collection.search_words([], k=1)  # says what is missing
    words = StoreWordsStrategy(collection=collection)
    if settings.strategy == "sparse":
        return words
    dense = _foreign_dense(collection, embedder, embedder_name, settings.effort)
    weight = settings.dense_weight
    return HybridStrategy(
        dense=dense,
        sparse=words,
        weights=(
            dense.embedder.hybrid_weight if weight is None else weight,
            settings.sparse_weight,
        ),
        rrf_k=settings.rrf_k,
        candidates=settings.candidates,
    )


def _foreign_dense(
    collection: ForeignCollection, embedder: Embedder | None, embedder_name: str, effort: Effort
) -> DenseStrategy:
    if embedder is None:
        raise ConfigError("name what made the collection's vectors: an embedder is needed")
    if embedder.dimension != collection.dimension:
        raise ConfigError(
            f"the collection '{collection.name}' keeps vectors of {collection.dimension} "
            f"dimensions, the embedder '{embedder_name}' makes such of {embedder.dimension}: name "
            "the embedder that the collection was filled with"
        )
    return DenseStrategy(store=collection, embedder=embedder, calibration=None, effort=effort)


def open_foreign_retriever(
    indexing: Indexing,
    settings: RetrievalSettings,
    *,
    filters: Filter | None = None,
    native_filter: object = None,
) -> ForeignRetriever:
    """Opens the collection that the file names, as it is."""
    embedder = indexing.embedder
    with ExitStack() as stack:
        if embedder is not None:
            stack.callback(embedder.close)
        content = _local_content(indexing.store)  # before it is opened: some engines then write
        collection = stack.enter_context(
            attach(
                indexing.store, indexing.collection, indexing.mapping, native_filter=native_filter
            )
        )
        strategy = foreign_strategy(
            collection, embedder, embedder_name=indexing.embedder_name, settings=settings
        )
        searched_by_words = isinstance(strategy, StoreWordsStrategy)
        return ForeignRetriever(
            collection=collection,
            strategy=settings.strategy,
            search_strategy=strategy,
            embedder=embedder,
            threshold=settings.score_threshold,
            filters=filters,
            fusion=_fusion(strategy),
            made_by=dict(embedder.identity) if embedder and not searched_by_words else {},
            rows=collection.count(),
            content=content,
            problems=_problems(collection, strategy, filters, indexing.embedder_name),
            closing=stack.pop_all(),
        )


def _problems(
    collection: ForeignCollection, strategy: Strategy, filters: Filter | None, embedder_name: str
) -> list[str]:
    told = [
        filter_problem(collection, collection.dimension, filters),
        vector_problem(collection, strategy, embedder_name=embedder_name),
    ]
    return [problem for problem in told if problem is not None]


def _over(strategy: Strategy, collection: ForeignCollection) -> Strategy:
    """The same search over another view of the collection."""
    if isinstance(strategy, DenseStrategy):
        return replace(strategy, store=collection)
    if isinstance(strategy, HybridStrategy):
        return replace(
            strategy,
            dense=_over(strategy.dense, collection),
            sparse=_over(strategy.sparse, collection),
        )
    return StoreWordsStrategy(collection=collection)


def _local_content(address: str) -> str | None:
    path = Path(address.partition(":")[2])
    return path_content(path).digest if "://" not in address and path.exists() else None


def _fusion(strategy: Strategy) -> Mapping[str, object]:
    if not isinstance(strategy, HybridStrategy):
        return {}
    weights = dict(zip(("dense_weight", "sparse_weight"), strategy.weights, strict=True))
    return {**weights, "rrf_k": strategy.rrf_k, "candidates": strategy.candidates}


@dataclass(frozen=True, kw_only=True, slots=True)
class ForeignRetriever:
    """See `ragbench.pipeline.stages.Retriever`."""

    collection: ForeignCollection
    strategy: StrategyName
    search_strategy: Strategy
    embedder: Embedder | None
    """None where the search needs none."""
    threshold: float | None
    filters: Filter | None
    fusion: Mapping[str, object]
    """Of a hybrid search."""
    made_by: Mapping[str, object]
    """The embedder's identity; empty where none is used."""
    rows: int
    """How many there were when it was opened."""
    content: str | None
    """Digest of a store on this machine; None for a server, of which nothing more is known."""
    problems: Sequence[str]
    """A filter that lets no row pass, an embedder that did not make the vectors."""
    closing: ExitStack
    takes_batches: bool = True

    @property
    def word_weights(self) -> WordWeights | None:
        return None

    @property
    def metadata(self) -> Mapping[str, Any]:
        return {"retriever": self.strategy}

    @property
    def identity(self) -> Mapping[str, object]:
        """See `Retriever`. Of a server's rows their number alone is known."""
        return {
            "method": self.strategy,
            **self.fusion,
            "filters": None if self.filters is None else filters_to_json(self.filters),
            "native_filter": self.collection.native_filter,
            "store": self.collection.address,
            "collection": self.collection.name,
            "rows": self.rows,
            **({} if self.content is None else {"content": self.content}),
            "read_as": self.collection.described(),
            "score_threshold": self.threshold,
            "embedder": dict(self.made_by),
        }

    @property
    def notes(self) -> Sequence[str]:
        read = f"read as: {self.collection.described()}"
        warnings = [f"Warning: {line}" for line in (*self.problems, *self.collection.warnings())]
        return [read, *self.collection.guesses(), *warnings]

    def search(self, queries: Sequence[SearchQuery], top_k: int) -> list[list[Chunk]]:
        search = Search(k=top_k, threshold=self.threshold, filters=self.filters)
        return BothSides.of(self.search_strategy).retrieve(queries, search)

    @property
    def lookup(self) -> GoldLookup:
        collection = self.collection
        ways: list[Strategy] = []
        if self.embedder is not None:
            dense = DenseStrategy(store=collection, embedder=self.embedder, calibration=None)
            ways.append(for_passages(dense))
        if collection.words is not None:
            ways.append(StoreWordsStrategy(collection=collection))
        return GoldLookup(
            store=collection,
            dimension=collection.dimension,
            has_documents="document_id" in collection.mapping.places(),
            by_text=ways,
            filters=self.filters,
        )

    def variant(self, variant: SearchVariant) -> ForeignRetriever | None:
        if variant is SearchVariant.PLAIN:
            return self
        if variant is SearchVariant.UNLIMITED:
            return None if self.threshold is None else replace(self, threshold=None)
        if variant is SearchVariant.EXACT:
            strategy = exactly(self.search_strategy)
            return None if strategy is None else replace(self, search_strategy=strategy)
        if self.filters is None and self.collection.native_filter is None:
            return None
        unfiltered = self.collection.unfiltered()
        return replace(
            self,
            collection=unfiltered,
            search_strategy=_over(self.search_strategy, unfiltered),
            filters=None,
            threshold=None,
        )

    def query_embedding(self, query: str) -> Sequence[float] | None:
        """Results carry no vectors."""
        return None

    def close(self) -> None:
        self.closing.close()
