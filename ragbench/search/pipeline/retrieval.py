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
from ragbench.core.search_query import QueryKind, SearchQuery
from ragbench.errors import ConfigError
from ragbench.ledger.content import path_content
from ragbench.plugins import np
from ragbench.search.embedders.embedder import Embedder, open_embedder
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
    ScoreMeaning,
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
from ragbench.text.letters import readable_text

_PATIENCE = 10.0
"""Seconds that a pipeline waits for another one that looks whether its corpus has changed."""
_CHECKED = 50
"""Chunks that an approximate index is tried with when a pipeline is opened."""
_CHUNKS_OF_A_DOCUMENT = 1000
"""The most chunks of one document that are looked at for gold."""
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
        """Refuses settings that contradict, and filters that cannot be read, at once.

        Left until the first query, they would fail after a long indexing.
        """
        # The settings and the filters are made again when the stage is opened: made here, they only
        # raise what is wrong.
        self.engine_settings()
        try:
            self.parsed_filters()
        except ConfigError as error:
            raise ConfigError(f"filters: {error}") from error

    def engine_settings(self) -> RetrievalSettings:
        """The settings of the stage that a search engine has, too, in its own record.

        A pipeline and ``ragbench search`` so make the same search of the same settings.
        """
        own = {field.name for field in fields(self)}
        shared: dict[str, Any] = {}
        for field in fields(RetrievalSettings):
            if field.name in own:
                shared[field.name] = getattr(self, field.name)
        return RetrievalSettings(strategy=self.strategy, **shared)

    def parsed_filters(self) -> Filter | None:
        """The stage's filters in the form that stores take; None where the file names none.

        A file has them as a mapping, such as ``{year: 2023}``.

        Raises:
            ConfigError: they are no filters.
        """
        if not self.filters:
            return None
        return parse_filters(self.filters)

    def open(self, documents: Documents, indexing: Indexing) -> StoreRetriever:
        """Opens the collection that is searched, and indexes first where it is out of date.

        A collection outside of this process is brought to the state of the corpus that the file
        names. The collection is taken as it is where the file names no corpus, or where another
        program has filled the collection.
        """
        if indexing.settings.map is not None:
            return self._opened_foreign(indexing)
        with ExitStack() as stack:
            collection = self._filled_collection(stack, documents, indexing)
            strategy = collection.strategy(self.strategy)
            chunks = collection.identity.digest
            identity: dict[str, object] = {}
            word_weights = None
            by_words = strategy.sparse if isinstance(strategy, HybridStrategy) else strategy
            # An extractive answer weighs words as the ranking by words does.
            if isinstance(by_words, SparseStrategy | StoredWordsStrategy):
                words_identity = by_words.identity
                weights_identity = {"chunks": chunks, **words_identity}
                word_weights = WordWeights(weight=by_words.idf, identity=weights_identity)
                if "words" in words_identity:  # the store keeps them in a form of its own
                    identity["words"] = words_identity["words"]
            identity["chunks"] = chunks
            identity["calibration"] = dict(collection.identity.calibration)
            return StoreRetriever(
                store=collection.store,
                method=self.strategy,
                strategy=strategy,
                embedder=collection.embedder,
                threshold=self.score_threshold,
                filters=self.parsed_filters(),
                identity=self._identity(strategy, collection.identity.embedder, identity),
                opening=self._opening_notes(collection.store, strategy),
                closing=stack.pop_all(),
                word_weights=word_weights,
                gives_embeddings=self.gives_embeddings,
            )

    def _filled_collection(
        self, stack: ExitStack, documents: Documents, indexing: Indexing
    ) -> Collection:
        """The collection that the file names, filled with its documents if need be.

        The stack closes it, its embedder and its database.

        Args:
            stack: closes what is opened here, also after an error.
            documents: of the file's corpus, or of the dataset.
            indexing: how they are cut and embedded, and where the chunks are kept.

        Raises:
            ConfigError: an embedder is needed and none is named.
            StoreError: the collection is not complete.
        """
        settings = indexing.settings
        database = open_database(settings.store)
        stack.callback(database.close)
        # A store in memory is empty in each new process, so the dataset's documents fill it.
        is_filled = documents.source is not None or settings.store == "memory:"
        name = settings.collection
        if not name:
            name = Path(settings.corpus).stem if settings.corpus else "corpus"
        embedder = indexing.embedder
        embedder_name = indexing.embedder_name
        embedder_settings = indexing.embedder_settings
        if not indexing.names_embedder:  # that of the collection, or the documents' language
            # No documents where the collection is taken as it is: it names its embedder.
            read = documents.read if is_filled else tuple
            embedder_name, embedder_settings = default_embedder(database, name, read)
            embedder = open_embedder(embedder_name, **embedder_settings)
        if embedder is None:
            raise ConfigError(f"{self.strategy} retrieval needs an embedder")
        stack.callback(embedder.close)
        if is_filled:
            corpus = documents.read()
            chunker = indexing.chunker or make_chunker()
            index_documents(
                corpus,
                database,
                name,
                embedder=embedder,
                embedder_name=embedder_name,
                embedder_settings=embedder_settings,
                chunker=chunker,
                words=words_of(settings.words, database, name, corpus, chunker),
                patience=_PATIENCE,
            )
        collection = Collection(
            store=database.open(name),
            settings=self.engine_settings(),
            embedder=embedder,
            sparse_folder=sparse_cache_folder(os.environ),
        )
        stack.callback(collection.close)
        collection.check_complete()
        return collection

    def _opening_notes(self, store: OwnCollection, strategy: Strategy) -> list[str]:
        """The lines that a report prints of the search.

        How much the store's approximate index misses.

        Raises:
            ConfigError: no chunk passes the filters: every question would find nothing.
        """
        problem = filter_problem(store, self.parsed_filters())
        if problem:
            raise ConfigError(f"{problem}. Nothing could be retrieved")
        dense = dense_of(strategy)
        # An exact search misses nothing, and a single chunk has no other to find.
        if dense is None or exactly(dense) is None or store.count() < 2:
            return []
        return [str(check_index(store, queries=_CHECKED, effort=dense.effort))]

    def _identity(
        self, strategy: Strategy, embedder: Mapping[str, object], more: Mapping[str, object]
    ) -> dict[str, object]:
        """All that the rankings depend on, as JSON; `top_k` is stored with every question instead.

        Stored results are used again only while it is the same: other keys make all of them stale.

        Args:
            embedder: its identity.
            more: the identity of the chunks.
        """
        identity: dict[str, object] = {"method": self.strategy}
        names = {field.name for field in fields(self)} - {"top_k"}
        for name in sorted(names):
            identity[name] = getattr(self, name)
        # Over the settings: a weight that the file leaves open is there as it was measured.
        if isinstance(strategy, HybridStrategy):
            identity |= strategy.identity
        identity["embedder"] = dict(embedder)
        identity |= more
        return identity

    def _opened_foreign(self, indexing: Indexing) -> StoreRetriever:
        """Opens another program's collection, as the file names it, and checks it.

        An embedder that does not fit its vectors is a warning in the report.
        """
        settings = indexing.settings
        embedder = indexing.embedder
        filters = self.parsed_filters()
        _, _, path_text = settings.store.partition(":")
        path = Path(path_text)
        content = None
        if "://" not in settings.store and path.exists():
            # What lies on a disk counts by its content, wherever that is.
            content = path_content(path).digest  # before some engines write there
        with ExitStack() as stack:  # closes what is open where a later step fails
            if embedder is not None:
                stack.callback(embedder.close)
            collection = stack.enter_context(
                attach(
                    settings.store,
                    settings.collection,
                    settings.map,
                    native_filter=self.native_filter,
                )
            )
            strategy, vector_problem = foreign_strategy(
                collection, embedder, indexing.embedder_name, self.engine_settings()
            )
            problems = [filter_problem(collection, filters), vector_problem]
            notes = list(collection.notes(by_words=self.strategy != "dense"))
            for problem in problems:
                if problem:
                    notes.append(f"Warning: {problem}")
            identity: dict[str, object] = {}
            if content:
                identity["content"] = content
            else:  # of a server's rows their number alone is known
                identity["store"] = collection.address
            identity["rows"] = collection.count()
            identity["read_as"] = collection.described()
            identity["collection"] = collection.name
            dense = dense_of(strategy)
            embedder_identity: Mapping[str, object] = {}
            if dense is not None:
                embedder_identity = dense.embedder.identity
            return StoreRetriever(
                store=collection,
                method=self.strategy,
                strategy=strategy,
                embedder=embedder,
                threshold=self.score_threshold,
                filters=filters,
                identity=self._identity(strategy, embedder_identity, identity),
                opening=notes,
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
    """A search of an open collection, as a pipeline uses it and as ``why`` takes it apart."""

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
        """The metadata of every result of this stage: the kind of search that ranked it.

        A reader of stored results sees by it which search ranked them.
        """
        return {"retriever": self.method}

    @property
    def notes(self) -> Sequence[str]:
        """The lines that a report prints of the search, such as warnings about rows.

        Warnings of rows that could not be read grow with each search.
        """
        return [*self.opening, *(f"Warning: {line}" for line in self.store.warnings())]

    def search(self, queries: Sequence[SearchQuery], top_k: int) -> list[list[Chunk]]:
        """The chunks of each query, best first, under the stage's own threshold and filters.

        Questions and made-up passages are embedded in different ways by most models.

        Args:
            queries: those of one kind (question or passage) are embedded together.
            top_k: chunks of each query.
        """
        search = Search(k=top_k, threshold=self.threshold, filters=self.filters)
        results: list[list[Chunk]] = [[] for _ in queries]
        # Queries of one kind are embedded together.
        positions_by_kind: dict[QueryKind, list[int]] = {}
        for position, query in enumerate(queries):
            positions_by_kind.setdefault(query.kind, []).append(position)
        for kind, positions in positions_by_kind.items():
            texts = [queries[position].text for position in positions]
            rankings = self.strategy.retrieve(texts, replace(search, kind=kind))
            for position, chunks in zip(positions, rankings, strict=True):
                results[position] = self._with_embeddings(chunks)
        return results

    def _with_embeddings(self, chunks: list[Chunk]) -> list[Chunk]:
        """The chunks with their vectors in the metadata, for rerankers that compare them.

        As they are where the stage does not give vectors. Vectors in every result would take much
        room.
        """
        # Other programs' vectors are not read: `StoreRetriever.gives_embeddings` is False there.
        if not self.gives_embeddings or not isinstance(self.store, OwnCollection):
            return chunks
        vectors = self.store.vectors([chunk.id for chunk in chunks])
        embedded: list[Chunk] = []
        for chunk in chunks:
            metadata = {**chunk.metadata, "embedding": vectors[chunk.id].tolist()}
            embedded.append(replace(chunk, metadata=metadata))
        return embedded

    def gold_chunks(self, gold: Gold, *, filtered: bool) -> list[Chunk] | None:
        """The chunks that may hold a gold context (the right passage), by its document, id or text.

        `ragbench why` looks up gold that was not retrieved: whether it is in the store at all, and
        whether the filters leave it out. None where the store can look up neither documents, ids
        nor texts.

        Args:
            filtered: whether only chunks that pass the stage's filters count.
        """
        store = self.store
        filters = self.filters if filtered else None
        # An id may be one of a document or of a chunk: both are looked up.
        document = gold.document_id if gold.id is None else gold.id
        chunks: list[Chunk] = []
        is_searched = False
        if document is not None and store.has_documents:
            chunks += self._document_chunks(document, filters)
            is_searched = True
        if document is not None and isinstance(store, OwnCollection):
            for chunk in store.get([document]).values():
                if not filters or matches(filters, searched_fields(chunk)):
                    chunks.append(chunk)
            is_searched = True
        # Searched by likeness last: it takes a request of each kind, and most golds have an id.
        if gold.text.strip() and not any(gold.is_held_by(chunk) for chunk in chunks):
            chunks += self._similar_chunks(gold.text, filters)
            is_searched = True
        return chunks if is_searched else None

    def _document_chunks(self, document: str, filters: Filter | None) -> list[Chunk]:
        """The chunks of a document that pass the filters, to look for a gold context among them.

        At most `_CHUNKS_OF_A_DOCUMENT` of them.
        """
        of_document: Filter = Equals(field="document_id", value=document)
        if filters is not None:
            of_document = And(filters=(of_document, filters))
        # A search by any vector: what passes the filter is found, the order makes no difference.
        any_vector = np.ones((1, self.store.dimension), dtype=np.float32)
        [chunks] = self.store.search(any_vector, k=_CHUNKS_OF_A_DOCUMENT, filters=of_document)
        return chunks

    def _similar_chunks(self, text: str, filters: Filter | None) -> list[Chunk]:
        """Chunks that resemble a gold text, by vectors and by the store's words.

        One of them may hold it. A store cannot be searched for a text itself.
        """
        # Vectors and words are both searched: either may find what the other misses. The caller
        # checks for each chunk whether it holds the gold.
        strategies: list[Strategy] = []
        if self.embedder is not None:
            dense = DenseStrategy(store=self.store, embedder=self.embedder, calibration=None)
            strategies.append(dense)
        if isinstance(self.store, ForeignCollection) and self.store.words is not None:
            strategies.append(StoreWordsStrategy(store=self.store))
        search = Search(k=_CANDIDATES, filters=filters, kind="passage")
        chunks: list[Chunk] = []
        for strategy in strategies:
            [ranking] = strategy.retrieve([text], search)
            chunks += ranking
        return chunks

    def variant(self, variant: SearchVariant) -> StoreRetriever | None:
        """The search without one thing that may lose gold; None where that changes nothing.

        Gold that only the variant finds was lost by that thing: the approximate index, the
        threshold, or the filters. `ragbench why` reports it as the cause.
        """
        if variant is SearchVariant.PLAIN:
            return self
        if variant is SearchVariant.EXACT:
            exact = exactly(self.strategy)
            return None if exact is None else replace(self, strategy=exact)
        # Minus infinity, as with None a question without a related chunk would find nothing.
        unlimited = replace(self, threshold=-math.inf)
        if variant is SearchVariant.UNLIMITED:
            # Our own scale has a limit also where no threshold is set.
            has_limit = isinstance(self.store, OwnCollection) or self.threshold is not None
            return unlimited if has_limit else None
        if self.filters is None and self.store.native_filter is None:
            return None
        store = self.store.unfiltered()
        strategy = over_store(self.strategy, store)
        return replace(unlimited, store=store, strategy=strategy, filters=None)

    def query_embedding(self, query: str) -> Sequence[float] | None:
        """The vector of a query, for rerankers that compare it with those of chunks.

        None where the stage does not give vectors. A blank query has none either.
        """
        if not self.gives_embeddings or self.embedder is None or not query.strip():
            return None
        [vector] = self.embedder.embed_queries([query])
        return cast("list[float]", vector.tolist())

    def close(self) -> None:
        """Closes the collection, its database and its embedder, the last one opened first.

        An embedded store is locked for other processes until then.
        """
        self.closing.close()


def over_store(strategy: Strategy, store: OwnCollection | ForeignCollection) -> Strategy:
    """The same search over another view of its collection, such as one without a native filter.

    A hybrid search has two halves, and both get the view.
    """
    if isinstance(strategy, HybridStrategy):
        dense = over_store(strategy.dense, store)
        sparse = over_store(strategy.sparse, store)
        return replace(strategy, dense=dense, sparse=sparse)
    # Each other strategy has a store, which the protocol does not say.
    return cast("Strategy", replace(cast("Any", strategy), store=store))


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreWordsStrategy:
    """The rows that the store itself ranks by words; scores are the store's."""

    store: ForeignCollection

    @property
    def score_meaning(self) -> ScoreMeaning:
        """The meaning of the scores.

        The store's own ranking by words, which compares with no other search. Reports print the
        meaning wherever they show scores.
        """
        ranking = "its own ranking"
        if self.store.words is not None:
            ranking = self.store.words.ranking
        return ScoreMeaning(name="store_words", meaning=f"the store's ranking by words, {ranking}")

    def retrieve(self, queries: Sequence[str], search: Search) -> list[list[Chunk]]:
        """For each query the rows that the store itself ranks by words, best first.

        A threshold is compared with the store's own scores.
        """
        texts = [readable_text(query) for query in queries]
        rankings = self.store.search_words(texts, k=search.k, filters=search.filters)
        threshold = search.threshold
        # Scores of a store may be below 0, so no limit can stand in for none.
        if threshold is None:
            return rankings
        results: list[list[Chunk]] = []
        for ranking in rankings:
            results.append([chunk for chunk in ranking if (chunk.score or 0.0) >= threshold])
        return results


def foreign_strategy(
    collection: ForeignCollection,
    embedder: Embedder | None,
    embedder_name: str,
    settings: RetrievalSettings,
) -> tuple[Strategy, str | None]:
    """A search of a collection that another program filled, and a problem of its embedder.

    Scores are the store's. The problem is None where the embedder fits the vectors, or none is
    used.

    Args:
        embedder: the user's choice for the collection's vectors; None where none is named.
        embedder_name: for errors.
        settings: which kind of search, and its weights.

    Raises:
        ConfigError: the collection cannot be searched so, or the embedder has another dimension.
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
    if settings.strategy == "dense":
        return dense, problem
    return hybrid(dense, words, settings), problem


# Whether an embedder makes the vectors that a collection holds. Many models give vectors of one
# length. Searched with another one's, a collection answers at random, with scores that look like
# any others. So some of its chunks are searched by their own texts first: each must find itself.

_TRIED = 16
"""Chunks that are searched by their own texts."""
_MIN_TEXTS = 8
"""Fewer different texts show nothing."""
_MAX_RANK = 3
"""A chunk may have a twin, or an approximate index miss a neighbour."""
_MIN_ROWS = 10 * _MAX_RANK
"""With other vectors one chunk of ten is found in so few rows."""
_SHARE_FOUND = 0.5
"""Of the chunks that are tried; fewer have vectors of something else."""
_SAME_COSINE = 0.97
"""Quantised vectors and models reach it, a forgotten prefix or title does not."""


def _vector_problem(collection: ForeignCollection, embedder: Embedder, name: str) -> str | None:
    """A problem between a foreign collection's vectors and an embedder; None where they fit.

    Many models give vectors of one length; searched by another model's, a collection answers at
    random, with scores that look like any others. So some chunks are searched by their own texts:
    most have to find themselves. The limits are the constants above: a change needs models to try
    it on.

    Args:
        collection: filled by another program, with an unknown model.
        embedder: the user's choice for it.
        name: of the embedder, for the problem.
    """
    # Without the filter, which may leave a chunk itself out; reports are on the user's searches.
    view = collection.unfiltered(is_reported=False)
    texts = _texts_to_try(view)
    if not texts or collection.count() < _MIN_ROWS:
        return None
    vectors = embedder.embed_passages([readable_text(text) for text in texts])
    own_scores: list[float] = []
    for text, ranking in zip(texts, view.search(vectors, k=_MAX_RANK), strict=True):
        # By text, not id: a twin of the same text has the same vector, so it is as good.
        own = next((chunk for chunk in ranking if chunk.text == text), None)
        if own is not None and own.score is not None:
            own_scores.append(own.score)
    if len(own_scores) < _SHARE_FOUND * len(texts):
        return (
            f"of {len(texts)} chunks that were searched by their own texts {len(own_scores)} are "
            f"among the first {_MAX_RANK}: '{name}' hardly made the vectors of "
            f"'{collection.name}', or not of its field '{collection.mapping.text}'. Name the "
            "embedder that the collection was filled with, or the text that it read (--field "
            "text=FIELD)"
        )
    if collection.space.metric != "cosine":
        return None
    cosine = statistics.median(own_scores)
    if cosine < _SAME_COSINE:
        return (
            f"the vectors of '{collection.name}' are not those that '{name}' makes of the "
            f"same texts (median cosine {cosine:.2f}): they were made of other text (with a title, "
            "cut), with another prefix or pooling, or by another version"
        )
    return None


def _texts_to_try(view: ForeignCollection) -> list[str]:
    """Some texts of a foreign collection, to be searched for by themselves; none of too few texts.

    With the embedder that made the collection's vectors, each text finds its own row first: so a
    wrong embedder is noticed.
    """
    texts = {chunk.text for chunk in view.sampled() if chunk.text.strip()}
    if len(texts) < _MIN_TEXTS:
        return []
    # Texts spread over the shorter half: long texts take long to embed and show no more.
    by_length = sorted(texts, key=lambda text: (len(text), text))
    shorter = by_length[: max(_MIN_TEXTS, len(texts) // 2)]
    step = max(1, len(shorter) // _TRIED)
    return shorter[::step][:_TRIED]
