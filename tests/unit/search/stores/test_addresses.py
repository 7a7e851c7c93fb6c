"""Addresses: which engine they name, and what is said when nothing is there."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ragbench import attach, open_store
from ragbench.errors import ConfigError, MissingExtraError, StoreError
from ragbench.search.stores.chroma import open_chroma
from ragbench.search.stores.database import is_read_only, open_database
from ragbench_cli.main import main


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("memory:", "memory:"),
        ("memory:a/b", "memory:a/b"),
        ("qdrant:a/b", "qdrant:a/b"),
        ("qdrant+https://:secret@host:6333", "qdrant+https://***@host:6333"),
        ("postgresql://me:secret@host/db", "postgresql://***@host/db"),
        (
            "postgres://host/db?sslmode=require&password=secret",
            "postgres://host/db?sslmode=require&password=***",
        ),
    ],
)
def test_an_address_names_a_database_and_hides_passwords(address: str, shown: str) -> None:
    # Nothing is reached, and no package needed, before something is asked.
    database = open_database(address)
    assert database.address == shown
    assert "secret" not in repr(database)
    database.close()
    database.close()


@pytest.mark.parametrize(
    ("opening", "address", "message"),
    [
        (open_database, "index", "not a store address; it must start with one of memory:"),
        (open_database, "", "'' is not a store address"),
        (open_database, "redis://u:secret@host", r"'redis://\*\*\*@host' is not a store address"),
        (open_database, "qdrant:", "is not an address of Qdrant: write qdrant:FOLDER"),
        (open_database, "qdrant+ftp://u:secret@host", "is not an address of Qdrant"),
        (attach, "chroma:", "is not an address of Chroma: write chroma:FOLDER"),
        (attach, "chroma+http://", "is not an address of Chroma"),
        (attach, "chroma:no/such", "there is no such folder"),
        (attach, "milvus:folder", "the path of Milvus Lite ends with .db"),
        (attach, "milvus:no/such.db", "there is no such file"),
        (attach, "milvus+tcp://u:secret@host", "is not an address of Milvus"),
    ],
)
def test_what_is_no_address_is_refused(
    opening: Callable[[str], object], address: str, message: str
) -> None:
    with pytest.raises((ConfigError, StoreError), match=message) as caught:
        opening(address)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "chroma:a/b",
        "chroma+http://u:secret@host:8000",
        "milvus:a/b.db",
        "milvus+http://u:secret@host:19530",
        "elasticsearch+https://u:secret@host:9200",
        "opensearch+https://u:secret@host:9200",
    ],
)
def test_what_is_only_read_is_not_filled_and_says_what_to_do(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["index", "--list"], ["index", __file__], ["search", "q"]):
        assert main([*command, "--store", address]) == 2
        error = capsys.readouterr().err
        assert "and fills none" in error
        assert "--embedder" in error
        assert "secret" not in error


@pytest.mark.parametrize(
    ("address", "package"),
    [
        ("qdrant+https://:secret@127.0.0.1:{port}", "qdrant_client"),
        ("postgresql://me:secret@127.0.0.1:{port}/db", "psycopg"),
    ],
)
def test_a_server_that_is_down_is_one_line(address: str, package: str) -> None:
    pytest.importorskip(package)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        _, port = listener.getsockname()
    # Now nothing listens on that port.
    address = address.format(port=port)
    opened = open_database(address)
    calls: list[Callable[[], object]] = [
        opened.collections,
        partial(opened.create, "c", dimension=2),
        partial(open_store, address, "c"),
    ]
    for call in calls:
        with pytest.raises(StoreError, match="cannot be reached: is it running") as caught:
            call()
        message = str(caught.value)
        assert message.startswith(open_database(address).address)
        assert "secret" not in message
        assert "\n" not in message


@pytest.mark.parametrize(
    ("address", "package", "extra"),
    [
        ("qdrant:{folder}", "qdrant_edge", "qdrant"),
        ("qdrant+http://127.0.0.1:9", "qdrant_client", "qdrant"),
        ("chroma+http://127.0.0.1:9", "chromadb", "chroma"),
        ("milvus+http://127.0.0.1:9", "pymilvus", "milvus"),
        ("postgresql://127.0.0.1:9/db", "psycopg", "pgvector"),
    ],
)
def test_a_missing_package_names_its_extra(
    address: str, package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in list(sys.modules):
        if module.partition(".")[0] == package:
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    address = address.format(folder=tmp_path)

    with pytest.raises(MissingExtraError, match=rf"pip install 'ragbench\[{extra}\]'"):
        if is_read_only(address):
            attach(address)
        else:
            open_database(address).collections()


@pytest.mark.parametrize(
    ("login", "encoded"),
    [("ann:se%40cret", "YW5uOnNlQGNyZXQ="), (":token", "OnRva2Vu")],  # ann:se@cret, :token
)
def test_a_login_before_chroma_is_sent_as_its_header(
    monkeypatch: pytest.MonkeyPatch, login: str, encoded: str
) -> None:
    options: dict[str, object] = {}

    def note(_: str, options_of_client: dict[str, object]) -> None:
        options.update(options_of_client)

    monkeypatch.setattr("ragbench.search.stores.chroma._chroma_client", note)

    database = open_chroma(f"chroma+https://{login}@host:8000")
    database.connect()

    assert options["host"] == "host"
    assert options["headers"] == {"Authorization": f"Basic {encoded}"}
