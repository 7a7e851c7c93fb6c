"""Addresses: which engine they name, and what is said when nothing is there."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from ragbench import open_store
from ragbench.errors import ConfigError, MissingExtraError, StoreError
from ragbench.stores.registry import STORES, create_store, open_database


@pytest.fixture
def closed_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("memory:", "memory:"),
        ("memory:a/b", "memory:a/b"),
        ("qdrant:a/b", "qdrant:a/b"),
        ("qdrant+https://:secret@host:6333", "qdrant+https://***@host:6333"),
        ("chroma:a/b", "chroma:a/b"),
        ("chroma+http://host:8000", "chroma+http://host:8000"),
        ("milvus:a/b.db", "milvus:a/b.db"),
        ("milvus+http://me:secret@host:19530", "milvus+http://***@host:19530"),
        ("postgresql://me:secret@host/db", "postgresql://***@host/db"),
        ("postgres://host/db?index=hnsw&password=secret", "postgres://host/db?index=hnsw&password=***"),
    ],
)  # fmt: skip
def test_an_address_names_a_database_and_hides_passwords(address: str, shown: str) -> None:
    # Nothing is reached, and no package needed, before something is asked.
    database = open_database(address)
    assert database.address == shown
    assert "secret" not in repr(database)
    database.close()
    database.close()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("index", "'index' is not a store address; it must start with one of chroma:, memory:,"),
        ("", "'' is not a store address"),
        ("redis://u:secret@host", r"'redis://\*\*\*@host' is not a store address"),
        ("qdrant:", "is not an address of Qdrant: write qdrant:FOLDER"),
        ("qdrant+ftp://u:secret@host", "is not an address of Qdrant"),
        ("chroma:", "is not an address of Chroma: write chroma:FOLDER"),
        ("chroma+http://", "is not an address of Chroma"),
        ("milvus:folder", "the path of Milvus Lite ends with .db"),
        ("milvus+tcp://u:secret@host", "is not an address of Milvus"),
        ("postgresql://u:secret@host/db?index=ivf", "index is hnsw or none, found 'ivf'"),
    ],
)
def test_what_is_no_address_is_refused(address: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        open_database(address)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "package"),
    [
        ("qdrant+https://:secret@127.0.0.1:{port}", "qdrant_client"),
        ("chroma+http://127.0.0.1:{port}", "chromadb"),
        ("milvus+http://me:secret@127.0.0.1:{port}", "pymilvus"),
        ("postgresql://me:secret@127.0.0.1:{port}/db", "psycopg"),
    ],
)
def test_a_server_that_is_down_is_one_line(address: str, package: str, closed_port: int) -> None:
    pytest.importorskip(package)
    given = address.format(port=closed_port)
    for ask in (
        lambda: open_database(given).collections(),
        lambda: open_store(given, "c"),
        lambda: create_store(given, "c", dimension=2),
    ):
        with pytest.raises(StoreError, match="cannot be reached: is it running") as caught:
            ask()
        message = str(caught.value)
        assert message.startswith(open_database(given).address)
        assert "secret" not in message
        assert "\n" not in message


@pytest.mark.parametrize(
    ("address", "package", "extra"),
    [
        ("qdrant:{folder}", "qdrant_edge", "qdrant"),
        ("qdrant+http://127.0.0.1:9", "qdrant_client", "qdrant"),
        ("chroma:{folder}", "chromadb", "chroma"),
        ("milvus:{folder}/m.db", "pymilvus", "milvus"),
        ("postgresql://127.0.0.1:9/db", "psycopg", "pgvector"),
    ],
)
def test_a_missing_package_names_its_extra(
    address: str, package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [_Without(package), *sys.meta_path])
    database = open_database(address.format(folder=tmp_path))
    with pytest.raises(MissingExtraError, match=rf"pip install 'ragbench\[{extra}\]'"):
        database.collections()


class _Without:
    """An environment in which one package is not installed."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] == self._package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_a_package_can_add_an_engine() -> None:
    assert set(STORES.targets()) >= {"memory", "qdrant", "chroma", "milvus", "postgresql"}
    assert STORES.kind == "stores"
