"""The entrance to retrieval: a question in, the chunks of a collection out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ragbench.embedders.base import Embedder
from ragbench.errors import ConfigError
from ragbench.records.corpus import Chunk
from ragbench.records.filter_form import parse_filters
from ragbench.records.filters import Filter
from ragbench.retrieval.collection import Collection
from ragbench.retrieval.settings import RetrievalSettings, StrategyName
from ragbench.retrieval.strategies.base import Search
from ragbench.stores.base import Database
from ragbench.stores.registry import open_database

__all__ = ["RetrievalEngine", "open_engine"]


class RetrievalEngine:
    """Searches the collections of one database; each is opened when it is first asked.

    Example:
        >>> with open_engine("memory:index") as engine:  # doctest: +SKIP
        ...     chunks = engine.search("policies", "When is rent due?", filters={"year": 2023})
    """

    def __init__(
        self,
        database: Database,
        *,
        embedder: Embedder | None = None,
        settings: RetrievalSettings | None = None,
        sparse_folder: Path | None = None,
        allow_incomplete: bool = False,
    ) -> None:
        """Opens nothing yet.

        Args:
            database: where the collections are; the caller closes it.
            embedder: turns queries into vectors; None opens the one that each collection names.
                One that is given stays the caller's to close.
            settings: what holds where a call says nothing.
            sparse_folder: where BM25 indexes are kept, so that opening a large collection again
                takes no time; None builds them anew each time.
            allow_incomplete: whether to search collections whose indexing did not come to its end.
        """
        self.settings = settings or RetrievalSettings()
        self._database = database
        self._embedder = embedder
        self._sparse_folder = sparse_folder
        self._allow_incomplete = allow_incomplete
        self._collections: dict[str, Collection] = {}

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
        """The chunks that fit a question best.

        Args:
            dataset_id: name of the collection.
            query_text: the question; one without a letter finds nothing.
            top_k: how many chunks at most, at least 1; None for the setting's (4).
            score_threshold: chunks that score less are left out; None for the setting's (0.0: what
                has nothing to do with the question). See `RetrievalSettings`.
            filters: what the chunks' metadata must pass, such as ``{"source": "policy.pdf"}``;
                see `ragbench.records.filter_form`.
            strategy: ``"dense"``, ``"sparse"`` or ``"hybrid"``; None for the setting's.

        Returns:
            Chunks with text, metadata and ``score``, best first: for dense searches the calibrated
            similarity (`ragbench.embedders.calibration`), for sparse ones the share of the query's
            weight that the chunk holds (`ragbench.retrieval.sparse_index`), for hybrid ones the sum
            of reciprocal ranks (`ragbench.retrieval.fusion`). Empty when nothing fits.

        Raises:
            ConfigError: an argument is out of its range, or the embedder does not fit.
            StoreError: the store cannot be reached, or has no such complete collection.
            LLMError: the embedder's endpoint gives no vectors.
        """
        return self.batch_search(
            dataset_id, [query_text], top_k, score_threshold, filters, strategy=strategy
        )[0]

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
        """`search` for several questions, in their order."""
        search = self._search(top_k, score_threshold, filters)
        collection = self.collection(dataset_id)
        retrieve = collection.strategy(strategy or self.settings.strategy).retrieve
        return retrieve(query_texts, search) if query_texts else []

    def collection(self, dataset_id: str) -> Collection:
        """An opened collection.

        Raises:
            StoreError: there is none of this name, or it is not complete.
        """
        found = self._collections.get(dataset_id)
        if found is None:
            found = Collection(
                store=self._database.open(dataset_id),
                address=self._database.address,
                settings=self.settings,
                given=self._embedder,
                sparse_folder=self._sparse_folder,
            )
            try:
                if not self._allow_incomplete:
                    found.check_complete()
            except BaseException:
                found.close()
                raise
            self._collections[dataset_id] = found
        return found

    def close(self) -> None:
        """Closes the collections, and the embedders that were opened here."""
        while self._collections:
            self._collections.popitem()[1].close()

    def __enter__(self) -> Self:
        """The engine itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes it."""
        self.close()

    def _search(
        self,
        top_k: int | None,
        score_threshold: float | None,
        filters: Mapping[str, Any] | Filter | None,
    ) -> Search:
        k = self.settings.top_k if top_k is None else top_k
        threshold = self.settings.score_threshold if score_threshold is None else score_threshold
        if k < 1:
            raise ConfigError(f"top_k must be at least 1, not {k}")
        if not math.isfinite(threshold):
            raise ConfigError(f"score_threshold must be a number, not {threshold}")
        if isinstance(filters, Mapping):
            filters = parse_filters(filters) if filters else None
        return Search(k=k, threshold=threshold, filters=filters)


class _OwnDatabase(RetrievalEngine):
    """An engine that closes its database, too."""

    def close(self) -> None:
        super().close()
        self._database.close()


def open_engine(
    address: str,
    *,
    embedder: Embedder | None = None,
    settings: RetrievalSettings | None = None,
    sparse_folder: Path | None = None,
    allow_incomplete: bool = False,
) -> RetrievalEngine:
    """The engine of a store's address; closing it closes the store. See `RetrievalEngine`.

    Args:
        address: such as ``"memory:index"``; see `ragbench.stores.registry`.
        embedder: see `RetrievalEngine`.
        settings: see `RetrievalEngine`.
        sparse_folder: see `RetrievalEngine`.
        allow_incomplete: see `RetrievalEngine`.

    Raises:
        ConfigError: no store has such addresses.
        MissingExtraError: a package is not installed.
        StoreError: the store cannot be reached.
    """
    return _OwnDatabase(
        open_database(address),
        embedder=embedder,
        settings=settings,
        sparse_folder=sparse_folder,
        allow_incomplete=allow_incomplete,
    )
