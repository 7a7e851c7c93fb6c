"""Retrieval over a store: by meaning, by words, or both."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from ragbench.core.filter_form import parse_filters
from ragbench.core.filters import Filter
from ragbench.embedders.embedder import Embedder
from ragbench.errors import ConfigError
from ragbench.pipeline.documents import Documents, Indexing, make_chunker
from ragbench.pipeline.index import index_documents
from ragbench.pipeline.search_engine import RetrievalEngine, check_index
from ragbench.pipeline.sparse_index import SparseStrategy, StoredWordsStrategy, sparse_cache_folder
from ragbench.pipeline.stages import RetrievalStage, WordWeights
from ragbench.pipeline.store_retriever import StoreRetriever, fusion_of, open_foreign_retriever
from ragbench.pipeline.strategies import (
    HybridStrategy,
    RetrievalSettings,
    Strategy,
    StrategyName,
    dense_of,
    exactly,
    filter_problem,
)
from ragbench.pipeline.writing import words_of
from ragbench.post.operator import Positive, Weight
from ragbench.stores.collection import OwnCollection
from ragbench.stores.database import Database
from ragbench.stores.registry import open_database

_PATIENCE = 10.0
"""Seconds that a pipeline waits for another one that looks whether its corpus has changed."""
_CHECKED = 50
"""Chunks that an approximate index is tried with when a pipeline is opened."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreRetrieval(RetrievalStage):
    """What searches of a collection have in common."""

    uses_store: ClassVar[bool] = True
    strategy: ClassVar[StrategyName]

    top_k: Positive = 5
    """How many chunks are retrieved."""
    score_threshold: float | None = None
    """Chunks that score less are left out; in a hybrid search in each ranking, before both are
    fused. None leaves out no single chunk; a question whose best chunk scores below 0 by meaning,
    as what has nothing to do with it does, finds nothing."""
    filters: Mapping[str, Any] | None = None
    """What chunks' metadata must pass, such as ``{year: 2023}``."""
    native_filter: str | Mapping[str, Any] | None = None
    """What they must pass, too, in the store's own syntax; of a collection that ragbench did not
    fill only."""

    def __post_init__(self) -> None:
        self.engine_settings()
        try:
            self.parsed_filters()
        except ConfigError as error:
            raise ConfigError(f"filters: {error}") from error

    def engine_settings(self) -> RetrievalSettings:
        known = {one.name for one in fields(RetrievalSettings)}
        own = [one.name for one in fields(self) if one.name in known]
        given: dict[str, Any] = {name: getattr(self, name) for name in own}
        return RetrievalSettings(strategy=self.strategy, **given)

    def parsed_filters(self) -> Filter | None:
        return parse_filters(self.filters) if self.filters else None

    def open(self, documents: Documents, indexing: Indexing) -> StoreRetriever:
        """Indexes where something is missing or has changed, and opens the collection.

        A collection that is kept outside of this process is brought to the state of the corpus that
        the file names, and is taken as it is when it names none, or when ragbench did not fill it.
        """
        if indexing.settings.map is not None:
            return open_foreign_retriever(
                indexing,
                self.engine_settings(),
                filters=self.parsed_filters(),
                native_filter=self.native_filter,
            )
        embedder = indexing.embedder
        if embedder is None:
            raise ConfigError(f"{self.strategy} retrieval needs an embedder")
        with ExitStack() as stack:
            stack.callback(embedder.close)
            database = open_database(indexing.settings.store)
            stack.callback(database.close)
            collection = _indexed(database, documents, indexing, embedder)
            engine = stack.enter_context(
                RetrievalEngine(
                    database,
                    embedder=embedder,
                    settings=self.engine_settings(),
                    sparse_folder=sparse_cache_folder(os.environ),
                )
            )
            opened = engine.collection(collection)
            strategy = opened.strategy(self.strategy)
            by_words = strategy.sparse if isinstance(strategy, HybridStrategy) else strategy
            chunks, weights, kept = opened.identity.digest, None, dict[str, object]()
            if isinstance(by_words, SparseStrategy | StoredWordsStrategy):
                worth = {"chunks": chunks, **by_words.identity}
                weights = WordWeights(weight=by_words.idf, identity=worth)
                kept = {key: value for key, value in by_words.identity.items() if key == "words"}
            names = {one.name for one in fields(self)} - {"top_k"}
            return StoreRetriever(
                store=opened.store,
                method=self.strategy,
                strategy=strategy,
                embedder=embedder,
                threshold=self.score_threshold,
                filters=self.parsed_filters(),
                identity={
                    "method": self.strategy,
                    **{name: getattr(self, name) for name in names},
                    **fusion_of(strategy),
                    "chunks": chunks,
                    "embedder": dict(opened.identity.embedder),
                    "calibration": dict(opened.identity.calibration),
                    **kept,
                },
                opening=_notes(self, opened.store, strategy),
                closing=stack.pop_all(),
                word_weights=weights,
                gives_embeddings=self.gives_embeddings,
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class SparseRetrieval(StoreRetrieval):
    """By words: BM25 over the chunks of a collection."""

    strategy: ClassVar[StrategyName] = "sparse"

    @property
    def gives_embeddings(self) -> bool:
        return False


@dataclass(frozen=True, kw_only=True, slots=True)
class DenseRetrieval(StoreRetrieval):
    """By meaning: the chunks whose vectors are most similar to the query's."""

    knows_word_weights: ClassVar[bool] = False
    strategy: ClassVar[StrategyName] = "dense"

    embeddings: bool = False
    """Whether results carry the vectors of query and chunks, for rerankers that compare them."""
    ef: int | None = None
    """How many candidates the store's approximate index keeps while it looks; None for the store's
    own setting."""
    exact: bool = False
    """Whether every vector is compared, whatever index the store has."""

    @property
    def gives_embeddings(self) -> bool:
        return self.embeddings


@dataclass(frozen=True, kw_only=True, slots=True)
class HybridRetrieval(DenseRetrieval):
    """By meaning and by words, fused by weighted reciprocal ranks."""

    knows_word_weights: ClassVar[bool] = True
    strategy: ClassVar[StrategyName] = "hybrid"

    dense_weight: Weight | None = None
    """Weight of the ranking by meaning, at least 0; None for the one measured for the embedder, as
    in ``ragbench search``."""
    sparse_weight: Weight = 1.0
    """Weight of the ranking by words, at least 0."""
    rrf_k: Positive = 60
    """How little the first ranks count more than the next ones."""
    candidates: Positive = 100
    """How many chunks of each ranking are fused."""


def _notes(settings: StoreRetrieval, store: OwnCollection, strategy: Strategy) -> tuple[str, ...]:
    """What a report says of the search: a filter that lets nothing pass, what an index misses."""
    given = settings.parsed_filters()
    problem = filter_problem(store, store.info().dimension, given)
    notes = [] if problem is None else [f"Warning: {problem}"]
    dense = dense_of(strategy)
    if dense is not None and exactly(dense) is not None and store.count() > 1:
        notes.append(str(check_index(store, queries=_CHECKED, effort=dense.effort)))
    return tuple(notes)


def _indexed(
    database: Database, documents: Documents, indexing: Indexing, embedder: Embedder
) -> str:
    """The collection's name; its chunks are those of the corpus."""
    corpus = indexing.settings.corpus
    collection = indexing.settings.collection or ("corpus" if corpus is None else Path(corpus).stem)
    if documents.source is not None or indexing.is_in_memory:
        read, chunker = documents.read(), indexing.chunker or make_chunker()
        index_documents(
            read,
            database,
            collection,
            embedder=embedder,
            embedder_name=indexing.embedder_name,
            embedder_settings=indexing.embedder_settings,
            chunker=chunker,
            words=words_of(indexing.settings.words, database, collection, read, chunker),
            patience=_PATIENCE,
        )
    return collection
