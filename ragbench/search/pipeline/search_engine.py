"""A collection opened, a question in, chunks out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from ragbench.core.chunk import Chunk
from ragbench.core.filter_form import parse_filters
from ragbench.core.filters import Filter
from ragbench.core.record import Record
from ragbench.errors import ConfigError, StoreError
from ragbench.ledger.fingerprint import fingerprint
from ragbench.plugins import np
from ragbench.search.embedders.embedder import NO_EMBEDDER, CosineScale, Embedder, open_embedder
from ragbench.search.pipeline.sparse_index import (
    INDEX_FORM,
    SparseStrategy,
    StoredWordsStrategy,
    kept_index,
)
from ragbench.search.pipeline.strategies import (
    DenseStrategy,
    RetrievalSettings,
    Search,
    Strategy,
    StrategyName,
    hybrid,
)
from ragbench.search.stores.base import NORMAL, Effort, IndexIdentity
from ragbench.search.stores.collection import OwnCollection
from ragbench.search.stores.database import Database, fitted_name, open_database
from ragbench.stats.mean import mean_interval
from ragbench.text.tokens import TOKENISER_VERSION

_WORTH_KEEPING = 2000
"""Chunks from which on reading a BM25 index is faster than building it."""


@dataclass(frozen=True, kw_only=True)
class Collection:
    """Makes the strategies of one collection, each part when it is first needed."""

    store: OwnCollection
    settings: RetrievalSettings
    embedder: Embedder | None = None
    """The embedder to use; None opens the one that the collection names."""
    sparse_folder: Path | None = None
    """Where BM25 indexes are kept; None keeps none."""
    _opened: ExitStack = field(default_factory=ExitStack)

    def strategy(self, name: StrategyName) -> Strategy:
        """The search of a name over the collection.

        The two halves of a hybrid search are made once, and shared with the searches by vectors and
        by words. The first search by vectors opens the embedder, the first by words the index.
        """
        if name == "dense":
            return self._dense
        if name == "sparse":
            return self._sparse
        return hybrid(self._dense, self._sparse, self.settings, self.identity.dense_weight)

    def check_complete(self) -> None:
        """Refuses a collection whose indexing did not come to its end.

        A part of the corpus may be missing. Results over a part would look like poor rankings.
        """
        if not self.store.info().complete:
            raise StoreError(
                f"the collection '{self.store.name}' is not complete: its indexing was "
                "interrupted or is still going on. Run the same 'ragbench index' again to continue "
                "it, or allow incomplete collections"
            )

    def close(self) -> None:
        """Closes the collection's store, and its embedder where it was opened here.

        An embedder that the caller brought stays open.
        """
        # The embedder is closed after the store, also where closing that fails.
        with self._opened:
            self.store.close()

    @cached_property
    def identity(self) -> IndexIdentity:
        """The collection's record of its indexing.

        The record names the embedder and the chunks, and has the measured weight of vectors. It is
        read once, as a search of an open collection keeps its embedder.
        """
        return self.store.info().made_by

    @property
    def has_vectors(self) -> bool:
        """Whether the collection was indexed with an embedder.

        Without an embedder there are no vectors: only words can be searched, and a search by
        vectors is refused.
        """
        return self.identity.embedder_name != NO_EMBEDDER

    @cached_property
    def _dense(self) -> DenseStrategy:
        """The collection's search by vectors, with the embedder that made them.

        Another embedder is refused: a cosine between vectors of two models means nothing.

        Raises:
            ConfigError: the collection has no vectors, or another embedder made them.
        """
        identity = self.identity
        if not self.has_vectors:
            raise ConfigError(
                f"the collection '{self.store.name}' was indexed with no embedder: search it by "
                "words (--strategy sparse, in a pipeline 'type: sparse'), or index the corpus with "
                "an embedder under another name"
            )
        embedder = self.embedder
        if embedder is None:
            embedder = open_embedder(identity.embedder_name, **identity.embedder_settings)
            self._opened.callback(embedder.close)
        # Compared as plain mappings: that of the collection was read from JSON.
        if dict(embedder.identity) != dict(identity.embedder):
            raise ConfigError(
                f"the collection '{self.store.name}' was built with {identity.embedder}, and at "
                f"hand is {embedder.identity}: use that one, or index anew under another name"
            )
        return DenseStrategy(
            store=self.store,
            embedder=embedder,
            calibration=CosineScale.from_json(identity.calibration),
            effort=self.settings.effort,
        )

    @cached_property
    def _sparse(self) -> SparseStrategy | StoredWordsStrategy:
        """The collection's search by words.

        The store ranks by words where it keeps the chunks' words; else an index in this process
        does. The index of a large collection is kept in a folder, and read from there the next
        time: building it takes longer. The folder's name holds all that the index depends on.
        """
        info = self.store.info()
        words = self.store.words
        if words is not None:
            words.check(info.name)
            return StoredWordsStrategy(store=self.store, words=words)
        count = self.store.count()
        digest = self.identity.digest
        is_whole = bool(digest) and info.complete  # else the same name may soon hold other chunks
        if self.sparse_folder is None or count < _WORTH_KEEPING or not is_whole:
            return SparseStrategy.build(self.store)
        # The key does not hold the store: the same chunks in another store give the same index.
        key = fingerprint([digest, count, TOKENISER_VERSION, INDEX_FORM])
        folder = self.sparse_folder / f"{fitted_name(info.name)}-{key}"
        return kept_index(folder, self.store)


@dataclass(eq=False)
class RetrievalEngine(AbstractContextManager["RetrievalEngine"]):
    """Searches the collections of one database, which is closed with it.

    Example:
        >>> with open_engine("memory:index") as engine:  # doctest: +SKIP
        ...     chunks = engine.search("policies", "When is rent due?", filters={"year": 2023})
    """

    database: Database
    _: KW_ONLY
    embedder: Embedder | None = None
    settings: RetrievalSettings = field(default_factory=RetrievalSettings)
    sparse_folder: Path | None = None
    allow_incomplete: bool = False
    _collections: dict[str, Collection] = field(default_factory=dict[str, Collection], init=False)

    def search(
        self,
        dataset_id: str,
        query_text: str,
        top_k: int | None = None,
        score_threshold: float | None = None,
        filters: Mapping[str, Any] | Filter | None = None,
        *,
        strategy: StrategyName | None = None,
    ) -> list[Chunk]:
        """The chunks that fit a question best, best first.

        A score is, in a dense search, the cosine on the embedder's calibrated scale; in a sparse
        one, BM25 as a share of the question's words; in a hybrid one a fused rank, a sum of
        reciprocal ranks near 0.03 that only orders. There, ``metadata["ranked_by"]`` of a chunk has
        its cosine and its BM25.

        Args:
            dataset_id: the collection.
            query_text: the question.
            top_k: how many chunks at most; None as the engine's settings have it.
            score_threshold: chunks that score less are left out; None as the settings have it.
            filters: what a chunk's metadata must pass, such as ``{"year": 2023}``.
            strategy: ``dense``, ``sparse`` or ``hybrid``; None as the settings have it.

        Raises:
            ConfigError: a value is none that its setting can have.
        """
        rankings = self.batch_search(
            dataset_id, [query_text], top_k, score_threshold, filters, strategy=strategy
        )
        return rankings[0]

    def batch_search(
        self,
        dataset_id: str,
        query_texts: Sequence[str],
        top_k: int | None = None,
        score_threshold: float | None = None,
        filters: Mapping[str, Any] | Filter | None = None,
        *,
        strategy: StrategyName | None = None,
    ) -> list[list[Chunk]]:
        """`search` for several questions at once: for each its chunks, best first.

        An error of the collection comes even for no questions.
        """
        settings = self.settings
        if top_k is not None:
            settings = replace(settings, top_k=top_k)
        if score_threshold is not None:
            settings = replace(settings, score_threshold=score_threshold)
        if strategy is not None:
            settings = replace(settings, strategy=strategy)
        if isinstance(filters, Mapping):
            filters = parse_filters(filters) if filters else None
        search = Search(k=settings.top_k, threshold=settings.score_threshold, filters=filters)
        # Opened also for no questions: what is wrong with the collection is said.
        opened = self.collection(dataset_id).strategy(settings.strategy)
        if not query_texts:
            return []
        return opened.retrieve(query_texts, search)

    def collection(self, dataset_id: str) -> Collection:
        """An open collection of the engine's database; it stays open until the engine is closed.

        A collection whose indexing did not come to its end is refused, unless `allow_incomplete` is
        set.
        """
        collection = self._collections.get(dataset_id)
        if collection is not None:
            return collection
        with ExitStack() as stack:
            collection = Collection(
                store=self.database.open(dataset_id),
                settings=self.settings,
                embedder=self.embedder,
                sparse_folder=self.sparse_folder,
            )
            stack.callback(collection.close)
            if not self.allow_incomplete:
                collection.check_complete()
            stack.pop_all()  # nothing was raised: from here on the engine closes the collection
        self._collections[dataset_id] = collection
        return collection

    def __exit__(self, *_: object) -> None:
        """Closes the engine's collections, the embedders opened for them, and the database.

        Where closing one of them raises an error, a second call closes the others.
        """
        # Taken out one by one: where closing one fails, a second call goes on with the others.
        while self._collections:
            self._collections.popitem()[1].close()
        self.database.close()

    # For use without `with`, whose arguments the method ignores anyway.
    close = __exit__


def open_engine(
    address: str,
    *,
    embedder: Embedder | None = None,
    settings: RetrievalSettings | None = None,
    sparse_folder: Path | None = None,
    allow_incomplete: bool = False,
) -> RetrievalEngine:
    """A search engine over the store of an address; closing the engine closes the store.

    A web service or a script keeps one open, and models stay loaded between questions.

    Args:
        address: such as ``"memory:index"``; see `ragbench.search.stores.database`.
        embedder: the one that the collections were built with; None opens the one that each names.
        settings: defaults of a search, such as its strategy and how many chunks it returns; None
            reads ``DEFAULT_TOP_K``, ``DEFAULT_SCORE_THRESHOLD`` and ``RETRIEVAL_STRATEGY`` from the
            environment, as ``ragbench search`` does.
        sparse_folder: where BM25 indexes of large collections are kept; None keeps none.
        allow_incomplete: search a collection whose indexing was interrupted, too.

    Raises:
        ConfigError: no store has such addresses, or a variable of the environment has a value that
            its setting cannot have.
        MissingExtraError: a package is not installed.
        StoreError: the store cannot be reached.
    """
    return RetrievalEngine(
        open_database(address),
        embedder=embedder,
        settings=settings or RetrievalSettings.from_environment(os.environ),
        sparse_folder=sparse_folder,
        allow_incomplete=allow_incomplete,
    )


class IndexCheck(Record):
    """What a store's approximate index misses."""

    collection: str
    chunks: int
    """How many the collection holds."""
    is_exact: bool
    """Whether the store compares every vector, so that nothing had to be measured."""
    k: int
    queries: int
    """Chunks that were searched for; each is left out of its own results."""
    overlap: float
    """Mean share of the exact first k that the index finds."""
    low: float | None
    """Lower end of its 95% interval; None where there is none."""
    high: float | None

    def __str__(self) -> str:
        """The figures of the check in one line, as reports and `ragbench index` print it.

        A reader sees by it whether the approximate index costs quality.
        """
        if self.is_exact:
            return f"{self.collection}: exact, every vector is compared"
        interval = ""
        # Without an interval, as of equal shares, the figure stands alone.
        if self.low is not None:
            interval = f" ({self.low:.3f} .. {self.high:.3f})"
        return (
            f"{self.collection}: the store's index finds {self.overlap:.3f}{interval} of the exact "
            f"top {self.k}, measured by {self.queries:,} queries"
        )


def check_index(
    store: OwnCollection, *, k: int = 10, queries: int = 200, seed: int = 0, effort: Effort = NORMAL
) -> IndexCheck:
    """Measures how many of the nearest chunks a store's approximate index misses.

    Some chunks are searched for by their own vectors, by the index and exactly. Reports print the
    share, so that a poor index is not taken for a fault of the embedder.

    Args:
        k: how many of the nearest chunks are compared.
        queries: how many chunks are searched for.
        seed: draws them; the same seed gives the same figure.
        effort: how hard the index looks.

    Raises:
        ConfigError: `k` or `queries` is below 1.
        StoreError: the collection has fewer than two chunks.
    """
    if k < 1 or queries < 1:
        raise ConfigError(f"k and queries must be at least 1, found {k} and {queries}")
    shares: list[float] = []
    if not store.is_exact:
        ids = sorted(store.digests())
        if len(ids) < 2:
            raise StoreError(f"the collection '{store.name}' has fewer than two chunks")
        # By a seed: a second check of the same collection gives the same figure.
        sample = sorted(Random(seed).sample(ids, min(queries, len(ids))))
        vectors = store.vectors(sample)
        rows = np.stack([vectors[id_] for id_ in sample])
        # One chunk more, because each is the first of its own results.
        by_index = store.search(rows, k=k + 1, effort=effort)
        by_all = store.search(rows, k=k + 1, effort=Effort(exact=True))
        for id_, indexed, exact in zip(sample, by_index, by_all, strict=True):
            shares.append(share_found(_without_chunk(id_, indexed), _without_chunk(id_, exact), k))
    interval = mean_interval(shares, bounds=(0.0, 1.0))
    overlap = 1.0  # an exact search misses nothing, and nothing was measured
    if interval.mean is not None:
        overlap = interval.mean
    return IndexCheck(
        collection=store.name,
        chunks=store.count(),
        is_exact=store.is_exact,
        k=k,
        queries=len(shares),
        overlap=overlap,
        low=interval.low,
        high=interval.high,
    )


def _without_chunk(id_: str, chunks: Sequence[Chunk]) -> list[Chunk]:
    """The chunks of a result without the one that was searched for by its own vector.

    Each is the nearest to itself, and would count as found in both searches.
    """
    return [chunk for chunk in chunks if chunk.id != id_]


def share_found(found: Sequence[Chunk], exact: Sequence[Chunk], k: int) -> float:
    """The share of the exact first `k` chunks that a search has among its own first `k`.

    1 where it misses none. So a check measures what an approximate index loses.
    """
    exact_ids = {chunk.id for chunk in exact[:k]}
    if not exact_ids:  # nothing could be missed
        return 1.0
    found_ids = {chunk.id for chunk in found[:k]}
    return len(exact_ids & found_ids) / len(exact_ids)
