"""Retrieval over a store, whoever filled it: by meaning, by words, or both."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, cast

from ragbench.core.checked import Positive, Weight
from ragbench.core.chunk import Chunk
from ragbench.core.filter_form import parse_filters
from ragbench.core.filters import And, Equals, Filter, matches
from ragbench.core.search_query import SearchQuery
from ragbench.errors import ConfigError
from ragbench.ledger.content import path_content
from ragbench.plugins import np
from ragbench.search.embedders.embedder import Embedder, open_embedder, readable_text
from ragbench.search.pipeline.documents import Documents, Indexing, make_chunker
from ragbench.search.pipeline.gold import Gold, SearchVariant
from ragbench.search.pipeline.index import default_embedder, index_documents, words_of
from ragbench.search.pipeline.search_engine import Collection, check_index
from ragbench.search.pipeline.sparse_index import (
    SparseStrategy,
    StoredWordsStrategy,
    sparse_cache_folder,
)
from ragbench.search.pipeline.stages import RetrievalStage, WordWeights
from ragbench.search.pipeline.strategies import (
    DenseStrategy,
    HybridStrategy,
    RetrievalSettings,
    Search,
    Strategy,
    StrategyName,
    dense_of,
    exactly,
    filter_problem,
    hybrid,
)
from ragbench.search.stores.attached import ForeignCollection, attach
from ragbench.search.stores.collection import OwnCollection
from ragbench.search.stores.database import open_database
from ragbench.search.stores.record import searched_fields

_PATIENCE = 10.0
"""Seconds that a pipeline waits for another one that looks whether its corpus has changed."""
_CHECKED = 50
"""Chunks that an approximate index is tried with when a pipeline is opened."""
_CHUNKS_OF_A_DOCUMENT = 1000
_CANDIDATES = 20
"""Chunks that are looked at for a gold text, of each way to search for it."""


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
        known = {one.name for one in fields(RetrievalSettings)} & {one.name for one in fields(self)}
        given: dict[str, Any] = {name: getattr(self, name) for name in known}
        return RetrievalSettings(strategy=self.strategy, **given)

    def parsed_filters(self) -> Filter | None:
        return parse_filters(self.filters) if self.filters else None

    def open(self, documents: Documents, indexing: Indexing) -> StoreRetriever:
        """Indexes where something is missing or has changed, and opens the collection.

        A collection that is kept outside of this process is brought to the state of the corpus that
        the file names, and is taken as it is when it names none, or when ragbench did not fill it.
        """
        if indexing.settings.map is not None:
            return self._opened_foreign(indexing)
        with ExitStack() as stack:
            opened = self._collection(stack, documents, indexing)
            strategy = opened.strategy(self.strategy)
            by_words = strategy.sparse if isinstance(strategy, HybridStrategy) else strategy
            chunks, weights, kept = opened.identity.digest, None, dict[str, object]()
            if isinstance(by_words, SparseStrategy | StoredWordsStrategy):
                worth = {"chunks": chunks, **by_words.identity}
                weights = WordWeights(weight=by_words.idf, identity=worth)
                kept = {key: value for key, value in by_words.identity.items() if key == "words"}
            kept |= {"chunks": chunks, "calibration": dict(opened.identity.calibration)}
            return StoreRetriever(
                store=opened.store,
                method=self.strategy,
                strategy=strategy,
                embedder=opened.embedder,
                threshold=self.score_threshold,
                filters=self.parsed_filters(),
                identity=self._identity(strategy, opened.identity.embedder, kept),
                opening=self._notes(opened.store, strategy),
                closing=stack.pop_all(),
                word_weights=weights,
                gives_embeddings=self.gives_embeddings,
            )

    def _collection(self, stack: ExitStack, documents: Documents, indexing: Indexing) -> Collection:
        """The collection of a file, as its documents are now; closed with the stack."""
        database = open_database(indexing.settings.store)
        stack.callback(database.close)
        embedder, name = indexing.embedder, indexing.embedder_name
        settings = indexing.embedder_settings
        fills = documents.source is not None or indexing.settings.store == "memory:"
        corpus = indexing.settings.corpus
        collection = indexing.settings.collection or (Path(corpus).stem if corpus else "corpus")
        if not indexing.names_embedder:  # that of the collection, or the documents' language
            reading = documents.read if fills else tuple
            name, settings = default_embedder(database, collection, reading)
            embedder = open_embedder(name, **settings)
        if embedder is None:
            raise ConfigError(f"{self.strategy} retrieval needs an embedder")
        stack.callback(embedder.close)
        if fills:
            read, chunker = documents.read(), indexing.chunker or make_chunker()
            index_documents(
                read,
                database,
                collection,
                embedder=embedder,
                embedder_name=name,
                embedder_settings=settings,
                chunker=chunker,
                words=words_of(indexing.settings.words, database, collection, read, chunker),
                patience=_PATIENCE,
            )
        opened = Collection(
            store=database.open(collection),
            settings=self.engine_settings(),
            embedder=embedder,
            sparse_folder=sparse_cache_folder(os.environ),
        )
        stack.callback(opened.close)
        opened.check_complete()
        return opened

    def _notes(self, store: OwnCollection, strategy: Strategy) -> list[str]:
        """What a report says of the search: a filter that nothing passes, what an index misses."""
        if problem := filter_problem(store, self.parsed_filters()):
            raise ConfigError(f"{problem}. Nothing could be retrieved")
        dense = dense_of(strategy)
        if dense is None or exactly(dense) is None or store.count() < 2:
            return []
        return [str(check_index(store, queries=_CHECKED, effort=dense.effort))]

    def _identity(
        self, strategy: Strategy, embedder: Mapping[str, object], more: Mapping[str, object]
    ) -> dict[str, object]:
        names = {one.name for one in fields(self)} - {"top_k"}
        return {
            "method": self.strategy,
            **{name: getattr(self, name) for name in names},
            **(strategy.identity if isinstance(strategy, HybridStrategy) else {}),
            "embedder": dict(embedder),
            **more,
        }

    def _opened_foreign(self, indexing: Indexing) -> StoreRetriever:
        """The collection that the file names, as it is."""
        embedder, named, filters = indexing.embedder, indexing.settings, self.parsed_filters()
        path = Path(named.store.partition(":")[2])
        known: dict[str, object] = {}
        if "://" not in named.store and path.exists():
            # What lies on a disk counts by its content, wherever that is.
            known["content"] = path_content(path).digest  # before some engines write there
        with ExitStack() as stack:
            if embedder is not None:
                stack.callback(embedder.close)
            collection = stack.enter_context(
                attach(named.store, named.collection, named.map, native_filter=self.native_filter)
            )
            strategy, problem = foreign_strategy(
                collection, embedder, indexing.embedder_name, self.engine_settings()
            )
            problems = filter(None, (filter_problem(collection, filters), problem))
            dense = dense_of(strategy)
            # Of a server's rows their number alone is known.
            known = known or {"store": collection.address}
            known |= {"rows": collection.count(), "read_as": collection.described()}
            known["collection"] = collection.name
            return StoreRetriever(
                store=collection,
                method=self.strategy,
                strategy=strategy,
                embedder=embedder,
                threshold=self.score_threshold,
                filters=filters,
                identity=self._identity(strategy, dense.embedder.identity if dense else {}, known),
                opening=[
                    *collection.notes(by_words=self.strategy != "dense"),
                    *(f"Warning: {one}" for one in problems),
                ],
                closing=stack.pop_all(),
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class SparseRetrieval(StoreRetrieval):
    """By words: BM25 over the chunks of a collection."""

    strategy: ClassVar[StrategyName] = "sparse"
    embeddings: ClassVar[bool] = False


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


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreRetriever:
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
        for kind in dict.fromkeys(query.kind for query in queries):
            places = [at for at, query in enumerate(queries) if query.kind == kind]
            texts = [queries[at].text for at in places]
            rankings = self.strategy.retrieve(texts, replace(search, kind=kind))
            for at, chunks in zip(places, rankings, strict=True):
                found[at] = chunks
                if self.gives_embeddings and isinstance(self.store, OwnCollection):
                    rows = self.store.vectors([chunk.id for chunk in chunks])
                    found[at] = [
                        replace(one, metadata={**one.metadata, "embedding": rows[one.id].tolist()})
                        for one in chunks
                    ]
        return found

    def gold_chunks(self, gold: Gold, *, filtered: bool) -> list[Chunk] | None:
        """See `ragbench.search.pipeline.gold.Searched`: by its document, its id, and its text."""
        store, filters = self.store, self.filters if filtered else None
        document = gold.document_id if gold.id is None else gold.id
        found: list[Chunk] | None = None
        if document is not None and store.has_documents:
            wanted: Filter = Equals(field="document_id", value=document)
            wanted = wanted if filters is None else And(filters=(wanted, filters))
            anything = np.ones((1, store.dimension), dtype=np.float32)
            found = store.search(anything, k=_CHUNKS_OF_A_DOCUMENT, filters=wanted)[0]
        if document is not None and isinstance(store, OwnCollection):
            kept = store.get([document]).values()
            passing = [one for one in kept if not filters or matches(filters, searched_fields(one))]
            found = [*(found or ()), *passing]
        if gold.text.strip() and not any(map(gold.is_held_by, found or ())):
            ways: list[Strategy] = []
            if self.embedder is not None:
                ways.append(DenseStrategy(store=store, embedder=self.embedder, calibration=None))
            if isinstance(store, ForeignCollection) and store.words is not None:
                ways.append(StoreWordsStrategy(store=store))
            search = Search(k=_CANDIDATES, filters=filters, kind="passage")
            more = [one for way in ways for one in way.retrieve([gold.text], search)[0]]
            found = [*(found or ()), *more]
        return found

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
        strategy = over_store(self.strategy, every)
        return replace(unlimited, store=every, strategy=strategy, filters=None)

    def query_embedding(self, query: str) -> Sequence[float] | None:
        if not self.gives_embeddings or self.embedder is None or not query.strip():
            return None
        return cast("list[float]", self.embedder.embed_queries([query])[0].tolist())

    def close(self) -> None:
        self.closing.close()


def over_store(strategy: Strategy, store: OwnCollection | ForeignCollection) -> Strategy:
    """The same search over another view of its collection."""
    if isinstance(strategy, HybridStrategy):
        dense, sparse = over_store(strategy.dense, store), over_store(strategy.sparse, store)
        return replace(strategy, dense=dense, sparse=sparse)
    return cast("Strategy", replace(cast("Any", strategy), store=store))


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreWordsStrategy:
    """The rows that the store itself ranks by words; scores are the store's."""

    store: ForeignCollection

    def retrieve(self, queries: Sequence[str], search: Search) -> list[list[Chunk]]:
        texts = [readable_text(query) for query in queries]
        found = self.store.search_words(texts, k=search.k, filters=search.filters)
        least = -math.inf if search.threshold is None else search.threshold
        return [[chunk for chunk in one if (chunk.score or 0.0) >= least] for one in found]


def foreign_strategy(
    collection: ForeignCollection,
    embedder: Embedder | None,
    embedder_name: str,
    settings: RetrievalSettings,
) -> tuple[Strategy, str | None]:
    """Retrieval from a collection that ragbench did not fill; scores are the store's.

    Also what is wrong with the embedder; None where it fits, or none is used.
    """
    words = StoreWordsStrategy(store=collection)
    if settings.strategy != "dense":
        collection.search_words([], k=1)  # says what is missing
    if settings.strategy == "sparse":
        return words, None
    if embedder is None:
        raise ConfigError("name the embedder of the collection's vectors with --embedder")
    if embedder.dimension != collection.dimension:
        raise ConfigError(
            f"the collection '{collection.name}' keeps vectors of {collection.dimension} "
            f"dimensions, the embedder '{embedder_name}' makes such of {embedder.dimension}: name "
            "the embedder that the collection was filled with"
        )
    dense = DenseStrategy(
        store=collection, embedder=embedder, calibration=None, effort=settings.effort
    )
    problem = _vector_problem(collection, embedder, embedder_name)
    return dense if settings.strategy == "dense" else hybrid(dense, words, settings), problem


# Whether an embedder makes the vectors that a collection holds. Many models give vectors of one
# length. Searched with another one's, a collection answers at random, with scores that look like
# any others. So some of its chunks are searched by their own texts first: each must find itself.

_CHUNKS = 16
_FEWEST = 8
"""Fewer different texts show nothing."""
_AMONG = 3
"""A chunk may have a twin, or an approximate index miss a neighbour."""
_ROWS = 10 * _AMONG
"""With other vectors one chunk of ten is found in so few rows."""
_FOUND = 0.5
_SAME = 0.97
"""Cosine: quantised vectors and models reach it, a forgotten prefix or title does not."""


def _vector_problem(collection: ForeignCollection, embedder: Embedder, name: str) -> str | None:
    view = collection.unfiltered(is_reported=False)
    known = {chunk.text for chunk in view.sampled() if chunk.text.strip()}
    if len(known) < _FEWEST or collection.count() < _ROWS:
        return None
    # The shorter half, spread over it: long ones take long and show no more.
    shorter = sorted(known, key=lambda text: (len(text), text))[: max(_FEWEST, len(known) // 2)]
    texts = shorter[:: max(1, len(shorter) // _CHUNKS)][:_CHUNKS]
    ranked = view.search(embedder.embed_passages([*map(readable_text, texts)]), k=_AMONG)
    pairs = zip(texts, ranked, strict=True)
    own = (next((one.score for one in hits if one.text == text), None) for text, hits in pairs)
    found = [score for score in own if score is not None]
    if len(found) < _FOUND * len(texts):
        return (
            f"of {len(texts)} chunks that were searched by their own texts {len(found)} are among "
            f"the first {_AMONG}: '{name}' hardly made the vectors of "
            f"'{collection.name}', or not of its field '{collection.mapping.text}'. Name the "
            "embedder that the collection was filled with, or the text that it read (--field "
            "text=FIELD)"
        )
    cosine = statistics.median(found) if collection.space.metric == "cosine" else 1.0
    if cosine < _SAME:
        return (
            f"the vectors of '{collection.name}' are not those that '{name}' makes of the "
            f"same texts (median cosine {cosine:.2f}): they were made of other text (with a title, "
            "cut), with another prefix or pooling, or by another version"
        )
    return None
