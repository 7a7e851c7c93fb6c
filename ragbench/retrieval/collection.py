"""An indexed collection, opened for searching."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ragbench.embedders.base import Embedder
from ragbench.embedders.calibration import Calibration
from ragbench.embedders.registry import open_embedder
from ragbench.errors import ConfigError, StoreError
from ragbench.records.index_identity import IndexIdentity
from ragbench.retrieval.settings import RetrievalSettings, StrategyName
from ragbench.retrieval.sparse_index import SparseIndex
from ragbench.retrieval.strategies.base import Strategy
from ragbench.retrieval.strategies.dense import DenseStrategy
from ragbench.retrieval.strategies.hybrid import HybridStrategy
from ragbench.retrieval.strategies.sparse import SparseStrategy
from ragbench.runs.fingerprint import fingerprint
from ragbench.stores.base import VectorStore
from ragbench.text.tokens import TOKENISER_VERSION

__all__ = ["Collection"]

_WORTH_KEEPING = 2000
"""Chunks from which on reading a BM25 index is faster than building it."""


@dataclass(frozen=True, kw_only=True)
class Collection:
    """Makes the strategies of one collection, each part when it is first needed."""

    store: VectorStore
    address: str
    """Of its database, without a password."""
    settings: RetrievalSettings
    given: Embedder | None = None
    """The embedder to use; None opens the one that the collection names."""
    sparse_folder: Path | None = None
    """Where BM25 indexes are kept; None keeps none."""
    _own: list[Embedder] = field(default_factory=list[Embedder])

    def strategy(self, name: StrategyName) -> Strategy:
        """A strategy by its name.

        Raises:
            ConfigError: the embedder is another one than the collection was built with, or cannot
                be opened.
            StoreError: the collection cannot be read.
        """
        if name == "dense":
            return self._dense
        if name == "sparse":
            return self._sparse
        return HybridStrategy(
            dense=self._dense,
            sparse=self._sparse,
            weights=(self._dense_weight(), self.settings.sparse_weight),
            rrf_k=self.settings.rrf_k,
            candidates=self.settings.candidates,
        )

    def _dense_weight(self) -> float:
        weight = self.settings.dense_weight
        return self._embedder.hybrid_weight if weight is None else weight

    def check_complete(self) -> None:
        """Refuses a collection whose indexing did not come to its end.

        Raises:
            StoreError: it is not complete.
        """
        if not self.store.info().complete:
            raise StoreError(
                f"the collection '{self.store.info().name}' is not complete: its indexing was "
                "interrupted or is still going on. Run the same 'ragbench index' again to continue "
                "it, or allow incomplete collections"
            )

    def close(self) -> None:
        """Closes the store, and the embedder where it was opened here."""
        self.store.close()
        for embedder in self._own:
            embedder.close()

    @cached_property
    def identity(self) -> IndexIdentity:
        """What the collection was made by.

        Raises:
            StoreError: it was not made by an indexing of ragbench.
        """
        info = self.store.info()
        return IndexIdentity.from_json(info.identity, collection=info.name)

    @cached_property
    def _embedder(self) -> Embedder:
        embedder = self.given
        if embedder is None:
            settings = self.identity.embedder_settings
            embedder = open_embedder(self.identity.embedder_name, **settings)
            self._own.append(embedder)
        if dict(embedder.identity) != dict(self.identity.embedder):
            raise ConfigError(
                f"the collection '{self.store.info().name}' was built with another embedder than "
                f"the one at hand: {_difference(self.identity.embedder, embedder.identity)}. Use "
                "that one, or index the corpus anew under another name"
            )
        return embedder

    @cached_property
    def _dense(self) -> DenseStrategy:
        embedder = self._embedder
        return DenseStrategy(
            store=self.store,
            embedder=embedder,
            calibration=Calibration.from_json(self.identity.calibration),
        )

    @cached_property
    def _sparse(self) -> SparseStrategy:
        return SparseStrategy(store=self.store, index=self._index())

    def _index(self) -> SparseIndex:
        info = self.store.info()
        digest = self.identity.digest
        count = self.store.count()
        worth = count >= _WORTH_KEEPING and bool(digest) and info.complete
        if self.sparse_folder is None or not worth:
            return SparseIndex.build(self.store)
        key = fingerprint([self.address, info.name, digest, count, TOKENISER_VERSION])
        folder = self.sparse_folder / f"{info.name}-{key}"
        index = SparseIndex.load(folder)
        if index is None:
            index = SparseIndex.build(self.store)
            index.save(folder)
        return index


def _difference(ours: object, theirs: object) -> str:
    return f"built with {ours}, at hand is {theirs}"
