"""Stores by their address: one text that says which engine, and where.

====================================  ==========================================================
``memory:`` ``memory:FOLDER``         NumPy; without a folder gone when the process ends
``qdrant:FOLDER``                     Qdrant's engine inside of the process
``qdrant+http://HOST:6333``           a Qdrant server
``chroma:FOLDER``                     Chroma inside of the process
``chroma+http://HOST:8000``           a Chroma server
``milvus:PATH.db``                    Milvus Lite inside of the process
``milvus+http://HOST:19530``          a Milvus server
``postgresql://HOST/DATABASE``        PostgreSQL with pgvector
====================================  ==========================================================

Other packages add engines through the entry-point group ``ragbench.stores``: a name, which
addresses begin with, and a callable that takes the whole address and gives a
`ragbench.stores.base.Database`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ragbench.errors import ConfigError
from ragbench.masking import mask_url
from ragbench.plugins import Registry
from ragbench.stores.base import Database, VectorStore

STORES = Registry(
    kind="stores",
    builtin={
        "chroma": "ragbench.stores.chroma:open_chroma",
        "memory": "ragbench.stores.memory:open_memory",
        "milvus": "ragbench.stores.milvus:open_milvus",
        "postgres": "ragbench.stores.pgvector:open_pgvector",
        "postgresql": "ragbench.stores.pgvector:open_pgvector",
        "qdrant": "ragbench.stores.qdrant:open_qdrant",
    },
)


_READ_ONLY = ("elasticsearch", "opensearch")


def open_database(address: str) -> Database:
    """The database of an address. It is reached when something is asked of it."""
    name = address.partition(":")[0].partition("+")[0]
    if name in _READ_ONLY:
        raise ConfigError(
            f"'{mask_url(address)}': of {name} ragbench reads indices that are there, which needs "
            "--map text=FIELD (in a pipeline: map); it makes none"
        )
    if ":" not in address or name not in STORES.targets():
        known = ", ".join(f"{each}:" for each in sorted(STORES.targets()))
        raise ConfigError(
            f"'{mask_url(address)}' is not a store address; it must start with one of {known}"
        )
    return cast("Database", STORES.load(name)(address))


def open_store(address: str, collection: str) -> VectorStore:
    """Opens a collection; closing it ends the connection, too.

    Raises:
        ConfigError: the address is none.
        MissingExtraError: the engine's package is not installed.
        StoreError: the store cannot be reached, or there is no such collection.
    """
    database = open_database(address)
    try:
        return database.open(collection)
    except BaseException:
        database.close()
        raise


def create_store(
    address: str,
    collection: str,
    *,
    dimension: int,
    identity: Mapping[str, Any] | None = None,
) -> VectorStore:
    """Makes a collection and opens it; see `ragbench.stores.base.Database.create`."""
    database = open_database(address)
    try:
        return database.create(collection, dimension=dimension, identity=identity)
    except BaseException:
        database.close()
        raise
