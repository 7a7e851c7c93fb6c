"""Retrieval from a collection that another program filled."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ragbench.core.chunk import Chunk
from ragbench.core.filter_form import filters_to_json
from ragbench.core.filters import Filter
from ragbench.embedders.embedder import Embedder, readable_text
from ragbench.errors import ConfigError
from ragbench.ledger.content import path_content
from ragbench.pipeline.documents import Indexing
from ragbench.pipeline.store_retriever import StoreRetriever, StoreWordsStrategy
from ragbench.pipeline.strategies import (
    DenseStrategy,
    HybridStrategy,
    RetrievalSettings,
    Strategy,
    filter_problem,
)
from ragbench.stores.attached import ForeignCollection, attach
from ragbench.stores.base import Effort


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
) -> StoreRetriever:
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
    dense = strategy.dense if isinstance(strategy, HybridStrategy) else strategy
    seen = self_search(collection, dense.embedder) if isinstance(dense, DenseStrategy) else None
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
