"""Stores by their address: one text that says which engine, and where.

====================================  ==========================================================
``memory:`` ``memory:FOLDER``         NumPy; without a folder gone when the process ends
``qdrant:FOLDER``                     Qdrant's engine inside of the process
``qdrant+http://HOST:6333``           a Qdrant server
``postgresql://HOST/DATABASE``        PostgreSQL with pgvector
====================================  ==========================================================

Other packages add engines through the entry-point group ``ragbench.stores``: a name, which
addresses begin with, and a callable that takes the whole address and gives a
`ragbench.stores.database.WritableDatabase`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ragbench.errors import ConfigError
from ragbench.masking import mask_url
from ragbench.plugins import Registry
from ragbench.stores.collection import OwnCollection
from ragbench.stores.database import Database

STORES = Registry(
    kind="stores",
    builtin={
        "memory": "ragbench.stores.memory:open_memory",
        "postgres": "ragbench.stores.pgvector:open_pgvector",
        "postgresql": "ragbench.stores.pgvector:open_pgvector",
        "qdrant": "ragbench.stores.qdrant:open_qdrant",
    },
)


_READ_ONLY = ("chroma", "elasticsearch", "milvus", "opensearch")


def is_read_only(address: str) -> bool:
    """Whether an address is of an engine whose collections ragbench reads and never fills."""
    return _engine(address) in _READ_ONLY and _engine(address) not in STORES.targets()


def check_store_address(address: str) -> str:
    """The name of the engine, which ragbench must be able to fill."""
    name = _engine(address)
    if is_read_only(address):
        raise ConfigError(
            f"'{mask_url(address)}': ragbench searches collections of {name} and fills none. Fill "
            "yours with your own tools and name what made its vectors with --embedder (in a "
            "pipeline: 'map' and 'embedder' under 'indexing'), or index into memory:FOLDER, "
            "qdrant:FOLDER or postgresql://HOST/DATABASE"
        )
    if ":" not in address or name not in STORES.targets():
        known = ", ".join(f"{each}:" for each in sorted(STORES.targets()))
        raise ConfigError(
            f"'{mask_url(address)}' is not a store address; it must start with one of {known}"
        )
    return name


def open_database(address: str) -> Database:
    """The database of an address. It is reached when something is asked of it."""
    return cast("Database", STORES.load(check_store_address(address))(address))


def _engine(address: str) -> str:
    return address.partition(":")[0].partition("+")[0]


def open_store(address: str, collection: str) -> OwnCollection:
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
) -> OwnCollection:
    """Makes a collection and opens it; see `ragbench.stores.database.WritableDatabase.create`."""
    database = open_database(address)
    try:
        return database.create(collection, dimension=dimension, identity=identity)
    except BaseException:
        database.close()
        raise
