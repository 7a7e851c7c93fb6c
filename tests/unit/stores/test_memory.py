"""The folder of the store in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ragbench import Chunk, open_store
from ragbench.errors import StoreError
from ragbench.stores.registry import create_store, open_database


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
