"""The store in memory: exact search, filters by columns, its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import Chunk, open_store
from ragbench.core.filters import Filter, matches
from ragbench.errors import ConfigError, StoreError
from ragbench.stores.base import VectorStore
from ragbench.stores.memory import MemoryDatabase
from ragbench.stores.memory_filters import FilterIndex
from ragbench.stores.registry import create_store, open_database
from tests.unit.core import filter_cases


def test_search_orders_by_cosine_then_by_id() -> None:
    with create_store("memory:", "c", dimension=2) as store:
        chunks = [Chunk(id=id, text=id.upper()) for id in "dcba"]
        store.upsert(chunks, np.array([[3, 4], [1, 0], [10, 0], [-1, 0]]))
        found = store.search(np.array([[2, 0]]), k=3)[0]
    assert [(chunk.id, chunk.score, chunk.text) for chunk in found] == [
        ("b", 1.0, "B"),
        ("c", 1.0, "C"),
        ("d", 0.6, "D"),
    ]


def test_a_folder_keeps_collections(tmp_path: Path) -> None:
    address = f"memory:{tmp_path}"
    chunk = Chunk(id="x", text="", start=0, end=0, document_id="d", metadata={"big": 2**80})
    with create_store(address, "a/b..c", dimension=1, identity={"embedder": "e"}) as store:
        store.upsert([chunk], np.ones((1, 1)))
        store.mark(complete=True)
    database = open_database(address)
    assert database.collections() == ["a/b..c"]
    store = open_store(address, "a/b..c")
    assert store.info().complete
    assert store.info().identity == {"embedder": "e"}
    assert store.get(["x", "y"]) == {"x": chunk}
    assert {path.suffix for path in tmp_path.rglob("*-*")} == {".jsonl", ".npz"}
    database.drop("a/b..c")
    assert open_database(address).collections() == []


def test_an_unmarked_indexing_leaves_the_former_state(tmp_path: Path) -> None:
    address = f"memory:{tmp_path}"
    first = create_store(address, "c", dimension=1)
    first.upsert([Chunk(id="x", text="x")], np.ones((1, 1)))
    first.mark(complete=True)
    second = open_store(address, "c")
    second.mark(complete=False)
    second.upsert([Chunk(id="y", text="y")], np.ones((1, 1)))
    # The process dies here.
    third = open_store(address, "c")
    assert third.count() == 1
    assert not third.info().complete


@pytest.mark.parametrize("name", ["collection.json", "chunks", "vectors"])
def test_a_damaged_folder_is_one_error(tmp_path: Path, name: str) -> None:
    with create_store(f"memory:{tmp_path}", "c", dimension=1) as store:
        store.upsert([Chunk(id="x", text="x")], np.ones((1, 1)))
    damaged = next((tmp_path / "c").glob(f"{name}*"))
    damaged.write_bytes(b"[1, 2]")
    with pytest.raises(StoreError, match="'c' is damaged"):
        open_store(f"memory:{tmp_path}", "c")


def test_an_unknown_address_names_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"not a store address; it must .* of .*memory:"):
        open_database("cassandra://me:secret@host")
    with pytest.raises(ConfigError) as caught:
        open_database("cassandra://me:secret@host")
    assert "secret" not in str(caught.value)


def test_a_missing_collection_names_those_there_are(tmp_path: Path) -> None:
    create_store(f"memory:{tmp_path}", "here", dimension=1).close()
    with pytest.raises(StoreError, match="no collection 'there'; there are: here"):
        open_store(f"memory:{tmp_path}", "there")


def test_memory_is_a_vector_store() -> None:
    assert isinstance(MemoryDatabase().create("c", dimension=1), VectorStore)


@given(filter_cases.filters, st.lists(filter_cases.metadata, max_size=6))
def test_masks_agree_with_the_reference(filters: Filter, rows: list[dict[str, Any]]) -> None:
    chunks = [Chunk(id=f"{n}", text="", metadata=row) for n, row in enumerate(rows)]
    expected = [matches(filters, row) for row in rows]
    assert FilterIndex(chunks).mask(filters).tolist() == expected
