"""How much of an exact search a store's index finds: measured on the collection's own chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from ragbench.core.chunk import Chunk
from ragbench.errors import ConfigError, StoreError
from ragbench.stats.mean import mean_interval
from ragbench.stores.base import NORMAL, Effort
from ragbench.stores.collection import OwnCollection


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexCheck:
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
    differing: int
    """Queries whose first k are not those of the exact search."""
    first_lost: int
    """Queries whose nearest chunk the index does not put first."""

    def __str__(self) -> str:
        if self.is_exact:
            return f"{self.collection}: exact, every vector is compared"
        ends = "" if self.low is None else f" ({self.low:.3f} .. {self.high:.3f})"
        return (
            f"{self.collection}: the store's index finds {self.overlap:.3f}{ends} of the exact top "
            f"{self.k}; {self.differing:,} of {self.queries:,} queries differ, {self.first_lost:,} "
            "lose the nearest chunk"
        )


def check_index(
    store: OwnCollection, *, k: int = 10, queries: int = 200, seed: int = 0, effort: Effort = NORMAL
) -> IndexCheck:
    """Searches for some of a collection's chunks by the store's index and exactly."""
    if k < 1 or queries < 1:
        raise ConfigError(f"k and queries must be at least 1, found {k} and {queries}")
    info = store.info()
    if store.is_exact:
        return _result(info.name, store.count(), k, is_exact=True)
    ids = sorted(store.digests())
    if len(ids) < 2:
        raise StoreError(f"the collection '{info.name}' has fewer than two chunks: nothing to find")
    drawn = sorted(Random(seed).sample(ids, min(queries, len(ids))))
    vectors = store.vectors(drawn)
    import numpy as np

    rows = np.stack([vectors[id_] for id_ in drawn])
    found = store.search(rows, k=k + 1, effort=effort)
    exact = store.search(rows, k=k + 1, effort=Effort(exact=True))
    pairs = [
        (_others(some, id_), _others(all_, id_))
        for id_, some, all_ in zip(drawn, found, exact, strict=True)
    ]
    return _result(info.name, len(ids), k, pairs)


def share_found(found: Sequence[Chunk], exact: Sequence[Chunk], k: int) -> float:
    """How much of the exact first `k` a search finds among its own first `k`."""
    wanted = {chunk.id for chunk in exact[:k]}
    return len(wanted & {chunk.id for chunk in found[:k]}) / len(wanted) if wanted else 1.0


def _others(chunks: list[Chunk], id_: str) -> list[Chunk]:
    return [chunk for chunk in chunks if chunk.id != id_]


def _result(
    name: str,
    chunks: int,
    k: int,
    pairs: Sequence[tuple[list[Chunk], list[Chunk]]] = (),
    *,
    is_exact: bool = False,
) -> IndexCheck:
    shares = [share_found(some, wanted, k) for some, wanted in pairs]
    interval = mean_interval(shares, bounds=(0.0, 1.0))
    return IndexCheck(
        collection=name,
        chunks=chunks,
        is_exact=is_exact,
        k=k,
        queries=len(pairs),
        overlap=1.0 if interval.mean is None else interval.mean,
        low=interval.low,
        high=interval.high,
        differing=sum(share < 1 for share in shares),
        first_lost=sum(share_found(some, wanted, 1) < 1 for some, wanted in pairs),
    )
