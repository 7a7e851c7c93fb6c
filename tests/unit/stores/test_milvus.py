"""What only Milvus' adapter does: a collection is made in steps, and any may be the last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragbench import Chunk
from ragbench.errors import StoreError
from ragbench.stores.database import fitted_name
from ragbench.stores.registry import create_store, open_database

pytest.importorskip("milvus_lite")


class Killed(BaseException):
    """In the place of a signal that nobody catches."""


def killed_in(monkeypatch: pytest.MonkeyPatch, step: str, *, done: bool, number: int) -> None:
    """Ends the given call of the client's, before it or after it was carried out."""
    client: Any = pytest.importorskip("pymilvus").MilvusClient

    carried_out = getattr(client, step)
    calls = 0

    def stops(self: Any, *given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number and not done:
            raise Killed
        found = carried_out(self, *given, **named)
        if calls == number:
            raise Killed
        return found

    monkeypatch.setattr(client, step, stops)


@pytest.mark.parametrize(
    ("step", "done", "number"),
    [
        ("create_collection", True, 1),  # that of the entries
        ("upsert", True, 1),  # the first entry
        ("create_collection", False, 2),
        ("create_collection", True, 2),
        ("upsert", False, 2),  # the last entry
    ],
)
def test_a_collection_whose_making_was_killed_is_not_there_and_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, done: bool, number: int
) -> None:
    address = f"milvus:{tmp_path}/v.db"
    with monkeypatch.context() as patch:
        killed_in(patch, step, done=done, number=number)
        database = open_database(address)
        with pytest.raises(Killed):
            database.create("kb", dimension=2)
        database.close()
    _is_not_there_and_can_be_made(address)


@pytest.mark.parametrize(
    ("step", "done"), [("drop_collection", False), ("drop_collection", True), ("delete", False)]
)
def test_a_collection_whose_removal_was_killed_is_not_there_and_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, done: bool
) -> None:
    address = f"milvus:{tmp_path}/v.db"
    create_store(address, "kb", dimension=3).close()
    with monkeypatch.context() as patch:
        killed_in(patch, step, done=done, number=1)
        database = open_database(address)
        with pytest.raises(Killed):
            database.drop("kb")
        database.close()
    _is_not_there_and_can_be_made(address)


def test_a_folder_that_milvus_lite_has_not_finished_is_cleared(tmp_path: Path) -> None:
    create_store(f"milvus:{tmp_path}/v.db", "other", dimension=2).close()
    # Killed between its first two steps, Milvus Lite refuses the name from then on.
    (tmp_path / "v.db" / "collections" / fitted_name("kb")).mkdir()
    _is_not_there_and_can_be_made(f"milvus:{tmp_path}/v.db")


def _is_not_there_and_can_be_made(address: str) -> None:
    database = open_database(address)
    assert "kb" not in database.collections()
    with pytest.raises(StoreError, match="there is no collection 'kb'"):
        database.open("kb")
    database.close()
    with create_store(address, "kb", dimension=2) as store:
        store.upsert([Chunk(id="a", text="x")], np.ones((1, 2)))
        store.mark(complete=True)
    database = open_database(address)
    with database.open("kb") as store:
        assert (store.count(), store.info().complete) == (1, True)
    database.close()
