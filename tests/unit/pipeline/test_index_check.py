"""What a store's index misses, against an exact search."""

from __future__ import annotations

import numpy as np
import pytest

from ragbench import Chunk
from ragbench.errors import ConfigError, StoreError
from ragbench.pipeline.search_engine import check_index
from ragbench.stores.collection import OwnCollection
from ragbench.stores.memory import MemoryDatabase
from tests.unit.pipeline.test_gold import Forgetful

CHUNKS = [Chunk(id=f"c{at:02}", text=f"text {at}") for at in range(20)]
# On a line of angles: the neighbours of a chunk are those next to it.
ANGLES = np.linspace(0.0, 1.0, 20)
VECTORS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1).astype(np.float32)


def filled(store: OwnCollection) -> OwnCollection:
    store.upsert(CHUNKS, VECTORS)
    return store


class OverMemory(Forgetful):
    """All of a store, whose index misses one chunk."""

    def __init__(self, store: OwnCollection, missed: str) -> None:
        self.store = store
        self.missed = missed

    def __getattr__(self, name: str) -> object:
        return getattr(self.store, name)


def test_an_exact_store_needs_no_measuring() -> None:
    found = check_index(filled(MemoryDatabase().create("c", dimension=2)))
    assert (found.is_exact, found.overlap, found.queries) == (True, 1.0, 0)
    assert str(found) == "c: exact, every vector is compared"


def test_what_an_index_misses_is_counted() -> None:
    store = MemoryDatabase().create("c", dimension=2)
    filled(store)
    found = check_index(OverMemory(store, "c10"), k=2)  # type: ignore[arg-type]
    # c10 is among the two nearest of its two neighbours alone, and c10 itself finds its own two.
    assert (found.queries, found.differing) == (20, 2)
    assert found.overlap == pytest.approx(1 - 2 * 0.5 / 20)
    assert str(found).startswith("c: the store's index finds 0.950 (")


def test_too_little_to_search_is_said() -> None:
    store = MemoryDatabase().create("c", dimension=2)
    store.upsert(CHUNKS[:1], VECTORS[:1])
    with pytest.raises(StoreError, match="fewer than two chunks"):
        check_index(OverMemory(store, "c10"))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="at least 1"):
        check_index(store, k=0)
