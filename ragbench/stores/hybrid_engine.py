"""Engines that rank by sparse vectors, too, and fuse two rankings by themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from ragbench.errors import ConfigError, StoreError
from ragbench.records.corpus import Chunk
from ragbench.records.filters import Filter, folded
from ragbench.stores.base import CollectionInfo, SparseVector, Vectors
from ragbench.stores.checks import check_k, check_sparse, prepared, unit_rows
from ragbench.stores.engine import Engine, EngineStore, Hit
from ragbench.stores.ranking import top_k
from ragbench.stores.record import decode

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["HybridEngine", "HybridEngineStore"]


class HybridEngine(Engine, Protocol):
    """An engine's collection that keeps a sparse vector beside each dense one."""

    def nearest_sparse(
        self, queries: Sequence[SparseVector], limit: int, filters: Filter | None
    ) -> list[list[Hit]]:
        """The chunks of the greatest inner products; those that share no index may be left out."""
        ...

    def fused(
        self,
        rows: NDArray[np.float32],
        queries: Sequence[SparseVector],
        *,
        candidates: int,
        filters: Filter | None,
        weights: tuple[float, float],
        rrf_k: int,
    ) -> list[list[Hit]]:
        """Every chunk of the two rankings with its sum of weighted reciprocal ranks."""
        ...


class HybridEngineStore(EngineStore):
    """See `ragbench.stores.base.HybridStore`."""

    def __init__(
        self, engine: HybridEngine, info: CollectionInfo, *, on_close: Callable[[], None]
    ) -> None:
        """Opens nothing: the engine is connected."""
        super().__init__(engine, info, on_close=on_close)
        self._hybrid = engine

    def upsert_hybrid(
        self, chunks: Sequence[Chunk], vectors: Vectors, sparse: Sequence[SparseVector]
    ) -> None:
        """See `ragbench.stores.base.HybridStore`."""
        check_sparse(sparse)
        if len(sparse) != len(chunks):
            raise StoreError(f"{len(chunks)} chunks came with {len(sparse)} sparse vectors")
        records, rows, kept = prepared(chunks, vectors, self._dimension)
        if records:
            with self.working():
                self._hybrid.write(records, rows, [sparse[position] for position in kept])

    def search_sparse(
        self, sparse: Sequence[SparseVector], *, k: int, filters: Filter | None = None
    ) -> list[list[Chunk]]:
        """See `ragbench.stores.base.HybridStore`."""
        check_k(k)
        check_sparse(sparse)
        simple = True if filters is None else folded(filters)
        if simple is False or not sparse:
            return [[] for _ in sparse]
        condition = None if simple is True else simple
        with self.working():

            def fetch(asked: Sequence[int], limit: int) -> list[list[Chunk]]:
                queries = [sparse[query] for query in asked]
                found = self._hybrid.nearest_sparse(queries, limit, condition)
                return [[_sparse_chunk(hit) for hit in hits if hit[0]] for hits in found]

            return top_k(fetch, len(sparse), k, most=self._hybrid.most)

    def search_hybrid(
        self,
        vectors: Vectors,
        sparse: Sequence[SparseVector],
        *,
        k: int,
        candidates: int,
        filters: Filter | None = None,
        weights: tuple[float, float] = (1.0, 1.0),
        rrf_k: int = 60,
    ) -> list[list[Chunk]]:
        """See `ragbench.stores.base.HybridStore`."""
        check_k(k)
        _check_fusion(k, candidates, weights, rrf_k)
        check_sparse(sparse)
        queries = unit_rows(vectors, self._dimension, what="query vector")
        if len(sparse) != len(queries):
            raise StoreError(f"{len(queries)} query vectors came with {len(sparse)} sparse ones")
        simple = True if filters is None else folded(filters)
        if simple is False or not len(queries):
            return [[] for _ in queries]
        with self.working():
            found = self._hybrid.fused(
                queries,
                sparse,
                candidates=candidates,
                filters=None if simple is True else simple,
                weights=weights,
                rrf_k=rrf_k,
            )
        ranked = [sorted(map(_fused_chunk, hits), key=_order) for hits in found]
        return [chunks[:k] for chunks in ranked]


def _sparse_chunk(hit: Hit) -> Chunk:
    # Unlike a cosine this has no upper limit: seven digits are what float32 carries.
    return decode(hit[1], float(f"{hit[0]:.7g}"))


def _fused_chunk(hit: Hit) -> Chunk:
    # float32, in which engines add, carries seven digits.
    return decode(hit[1], round(hit[0], 8))


def _order(chunk: Chunk) -> tuple[float, str]:
    return -(chunk.score or 0.0), chunk.id


def _check_fusion(k: int, candidates: int, weights: tuple[float, float], rrf_k: int) -> None:
    if candidates < k:
        raise ConfigError(f"candidates ({candidates}) are at least k ({k})")
    if rrf_k < 1:
        raise ConfigError(f"rrf_k is a whole number from 1, found {rrf_k}")
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights):
        raise ConfigError(f"two weights, each at least 0, are needed, found {weights}")
