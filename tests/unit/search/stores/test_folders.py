"""Folders of the engines inside a process: unfinished, damaged, of another release."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ragbench import Chunk, open_store
from ragbench.errors import StoreError
from ragbench.search.stores.base import engine_failures
from ragbench.search.stores.database import open_database


@pytest.fixture(params=["memory", pytest.param("qdrant", marks=pytest.mark.extra("qdrant"))])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{request.param}:{tmp_path}"


@pytest.fixture
def description(address: str, tmp_path: Path) -> Path:
    """What is kept with the collection "c"."""
    open_database(address).create("c", dimension=1).close()
    return next(tmp_path.glob("*/collection.json"))


def test_a_full_disk_is_called_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"chroma:{tmp_path}"
    usage = SimpleNamespace(free=0)
    monkeypatch.setattr("ragbench.search.stores.base.disk_usage", lambda path: usage)

    # What Chroma says of a full disk is "Error in compaction: Failed to apply logs".
    for free, message in ((0, "the disk is full (compaction)"), (1 << 30, "compaction")):
        usage.free = free
        with pytest.raises(StoreError) as caught, engine_failures(address, (OSError,)):
            raise OSError("compaction")
        assert str(caught.value) == f"{address}: {message}"


def test_an_unmarked_indexing_leaves_the_former_state(tmp_path: Path) -> None:
    address = f"memory:{tmp_path}"
    complete = open_database(address).create("c", dimension=1)
    complete.upsert([Chunk(id="x", text="x")], np.ones((1, 1)))
    complete.mark(complete=True)

    unfinished = open_store(address, "c")
    unfinished.mark(complete=False)
    unfinished.upsert([Chunk(id="y", text="y")], np.ones((1, 1)))
    # The process dies here.

    reopened = open_store(address, "c")
    assert reopened.count() == 1
    assert not reopened.info().complete


@pytest.mark.extra("qdrant")
def test_a_collection_that_was_not_finished_being_made_is_none(tmp_path: Path) -> None:
    address = f"qdrant:{tmp_path}"
    open_database(address).create("c", dimension=1).close()
    (made_last,) = tmp_path.glob("*/collection.json")
    made_last.unlink()

    database = open_database(address)
    assert database.collections() == []
    with pytest.raises(StoreError, match="there is no collection 'c'; it holds none"):
        database.open("c")

    database.create("c", dimension=2).close()
    assert open_store(address, "c").info().dimension == 2


@pytest.mark.parametrize("text", ["{", "[1, 2]", '{"version": 2}'])
def test_what_is_kept_with_a_collection_may_be_damaged(
    address: str, description: Path, text: str
) -> None:
    description.write_text(text)

    with pytest.raises(StoreError, match="is damaged"):
        open_store(address, "c")


@pytest.mark.parametrize("name", ["chunks", "vectors"])
def test_rows_may_be_damaged(tmp_path: Path, name: str) -> None:
    with open_database(f"memory:{tmp_path}").create("c", dimension=1) as store:
        store.upsert([Chunk(id="x", text="x")], np.ones((1, 1)))
    rows = next((tmp_path / "c").glob(f"{name}*"))
    rows.write_bytes(b"[1, 2]")

    with pytest.raises(StoreError, match="'c' is damaged"):
        open_store(f"memory:{tmp_path}", "c")


@pytest.mark.parametrize("changes", [{"version": 1}, {"words": {"average": 1, "stems": True}}])
def test_what_another_release_wrote_is_refused_and_can_be_dropped(
    address: str, description: Path, changes: dict[str, Any]
) -> None:
    if "words" in changes and address.startswith("memory"):
        pytest.skip("ranks by no words")
    fields = json.loads(description.read_text("utf-8"))
    description.write_text(json.dumps({**fields, **changes}), "utf-8")

    with pytest.raises(StoreError, match="another release of ragbench wrote the collection 'c'"):
        open_store(address, "c")

    database = open_database(address)
    assert database.collections() == ["c"]
    database.create("new", dimension=2).close()
    database.drop("c")
    assert database.collections() == ["new"]
    database.close()
