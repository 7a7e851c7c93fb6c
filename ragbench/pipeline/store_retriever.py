"""An open collection that is searched as a pipeline's stage, whoever filled it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ragbench.core.chunk import Chunk
from ragbench.core.filter_form import filters_to_json
from ragbench.core.filters import And, Equals, Filter, matches
from ragbench.embedders.embedder import Embedder, readable_text
from ragbench.errors import ConfigError
from ragbench.ledger.content import path_content
from ragbench.pipeline.documents import Indexing
from ragbench.pipeline.gold import Gold, SearchVariant
from ragbench.pipeline.pre_retrieval import SearchQuery
from ragbench.pipeline.stages import WordWeights
from ragbench.pipeline.strategies import (
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
    with_dense,
)
from ragbench.stores.attached import ForeignCollection, attach
from ragbench.stores.base import Effort
from ragbench.stores.collection import OwnCollection
from ragbench.stores.record import searched_fields

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_CHUNKS_OF_A_DOCUMENT = 1000
_CANDIDATES = 20
"""Chunks that are looked at for a gold text, of each way to search for it."""


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

    def gold_chunks(self, gold: Gold, *, filtered: bool) -> list[Chunk] | None:
        """See `ragbench.pipeline.gold.Searched`: by its document, its id, and its text."""
        import numpy as np

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
                dense = DenseStrategy(store=store, embedder=self.embedder, calibration=None)
                ways.append(for_passages(dense))
            if isinstance(store, ForeignCollection) and store.words is not None:
                ways.append(StoreWordsStrategy(collection=store))
            search = Search(k=_CANDIDATES, filters=filters)
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
    dense = dense_of(strategy)
    if dense is None:
        return strategy
    embedder = cast("Embedder", _PassageSide(dense.embedder))
    return with_dense(strategy, replace(dense, embedder=embedder))


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
    return hybrid(dense, words, settings)


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
) -> StoreRetriever:
    """Opens the collection that the file names, as it is."""
    embedder = indexing.embedder
    with ExitStack() as stack:
        if embedder is not None:
            stack.callback(embedder.close)
        named = indexing.settings
        content = _local_content(named.store)  # before it is opened: some engines then write
        collection = stack.enter_context(
            attach(named.store, named.collection, named.map, native_filter=native_filter)
        )
        strategy = foreign_strategy(
            collection, embedder, embedder_name=indexing.embedder_name, settings=settings
        )
        used = embedder is not None and not isinstance(strategy, StoreWordsStrategy)
        return StoreRetriever(
            store=collection,
            method=settings.strategy,
            strategy=strategy,
            embedder=embedder,
            threshold=settings.score_threshold,
            filters=filters,
            # Of a server's rows their number alone is known.
            identity={
                "method": settings.strategy,
                **fusion_of(strategy),
                "filters": None if filters is None else filters_to_json(filters),
                "native_filter": native_filter,
                "store": collection.address,
                "collection": collection.name,
                "rows": collection.count(),
                **({} if content is None else {"content": content}),
                "read_as": collection.described(),
                "score_threshold": settings.score_threshold,
                "embedder": dict(embedder.identity) if embedder and used else {},
            },
            opening=[
                f"read as: {collection.described()}",
                *collection.guesses(),
                *_problems(collection, strategy, filters, indexing.embedder_name),
            ],
            closing=stack.pop_all(),
        )


def _problems(
    collection: ForeignCollection, strategy: Strategy, filters: Filter | None, embedder_name: str
) -> list[str]:
    found = [
        filter_problem(collection, collection.dimension, filters),
        vector_problem(collection, strategy, embedder_name=embedder_name),
    ]
    return [f"Warning: {problem}" for problem in found if problem is not None]


def _local_content(address: str) -> str | None:
    path = Path(address.partition(":")[2])
    return path_content(path).digest if "://" not in address and path.exists() else None


def fusion_of(strategy: Strategy) -> Mapping[str, object]:
    if not isinstance(strategy, HybridStrategy):
        return {}
    weights = dict(zip(("dense_weight", "sparse_weight"), strategy.weights, strict=True))
    return {**weights, "rrf_k": strategy.rrf_k, "candidates": strategy.candidates}


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


@dataclass(frozen=True, kw_only=True, slots=True)
class SelfSearch:
    """How chunks were found that were searched by their own texts."""

    asked: int
    found: int
    """Those that are among the first three."""
    cosine: float | None
    """Median similarity to itself of those found; None where the store has no cosines."""


def self_search(collection: ForeignCollection, embedder: Embedder) -> SelfSearch | None:
    """Searches a collection for some of its chunks.

    None where the collection is too small.
    """
    view = collection.on_trial()
    texts = _asked({chunk.text for chunk in view.sampled() if chunk.text.strip()})
    if len(texts) < _FEWEST or collection.count() < _ROWS:
        return None
    vectors = embedder.embed_passages([readable_text(text) for text in texts])
    ranked = view.search(vectors, k=_AMONG)
    scores = [_own_score(text, hits) for text, hits in zip(texts, ranked, strict=True)]
    found = [score for score in scores if score is not None]
    by_cosine = found and collection.space.metric == "cosine"
    cosine = statistics.median(found) if by_cosine else None
    return SelfSearch(asked=len(texts), found=len(found), cosine=cosine)


def _asked(texts: Collection[str]) -> list[str]:
    """The shorter half of some texts, spread over it: long ones take long and show no more."""
    shorter = sorted(texts, key=lambda text: (len(text), text))[: max(_FEWEST, len(texts) // 2)]
    step = max(1, len(shorter) // _CHUNKS)
    return shorter[::step][:_CHUNKS]


def _own_score(text: str, hits: list[Chunk]) -> float | None:
    return next((chunk.score for chunk in hits if chunk.text == text), None)


def vector_problem(
    collection: ForeignCollection, strategy: Strategy, *, embedder_name: str
) -> str | None:
    """What is wrong with the embedder of a search; None where it fits, or none is used."""
    dense = dense_of(strategy)
    seen = None if dense is None else self_search(collection, dense.embedder)
    if seen is None:
        return None
    if seen.found < _FOUND * seen.asked:
        return (
            f"of {seen.asked} chunks that were searched by their own texts {seen.found} are among "
            f"the first {_AMONG}: '{embedder_name}' hardly made the vectors of "
            f"'{collection.name}', or not of its field '{collection.mapping.text}', so what it "
            "finds says nothing. Name the embedder that the collection was filled with, or the "
            "text that it read (--map text=FIELD)"
        )
    if seen.cosine is not None and seen.cosine < _SAME:
        return (
            f"the vectors of '{collection.name}' are not those that '{embedder_name}' makes of the "
            f"same texts (cosine {seen.cosine:.2f}, the median of {seen.found} chunks): they were "
            "made of other text (with a title, cut), with another prefix or pooling, or by another "
            "version"
        )
    return None
