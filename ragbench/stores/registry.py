"""Stores by their address: one text that says which engine, and where.

====================================  ==========================================================
``memory:`` ``memory:FOLDER``         NumPy; without a folder gone when the process ends
``qdrant:FOLDER``                     Qdrant's engine inside of the process
``qdrant+http://HOST:6333``           a Qdrant server
``postgresql://HOST/DATABASE``        PostgreSQL with pgvector
====================================  ==========================================================

Other packages add engines through the entry-point group ``ragbench.stores``: a name, which
addresses begin with, and a callable that takes the whole address and gives a
`ragbench.stores.database.WritableDatabase`; those whose collections are read only through the group
``ragbench.foreign_stores``, which gives a `ragbench.stores.database.ReadableDatabase`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from ragbench.errors import ConfigError
from ragbench.io.settings import beside
from ragbench.masking import mask_url
from ragbench.plugins import Registry

if TYPE_CHECKING:
    from ragbench.stores.collection import OwnCollection
    from ragbench.stores.database import Database

STORES = Registry(kind="stores")
FOREIGN_STORES = Registry(kind="foreign_stores")


_ON_DISK = ("chroma", "memory", "milvus", "qdrant")
"""Engines whose addresses end with a path."""


def placed_address(address: str, folder: Path) -> str:
    """An address as a file in a folder has it: a path in it is relative to that file."""
    engine, _, path = address.partition(":")
    return f"{engine}:{beside(folder, path)}" if path and engine in _ON_DISK else address


def is_read_only(address: str) -> bool:
    """Whether an address is of an engine whose collections ragbench reads and never fills."""
    name = _engine(address)
    if name in STORES.builtin:  # to look for other packages takes milliseconds
        return False
    return name in FOREIGN_STORES.targets() and name not in STORES.targets()


def check_store_address(address: str) -> str:
    """The name of the engine, which ragbench must be able to fill."""
    if is_read_only(address):
        raise ConfigError(
            f"'{mask_url(address)}': ragbench searches collections of {_engine(address)} and fills "
            "none. Fill yours with your own tools and name the model of its vectors with --embedder"
            " (in a pipeline: 'map' and 'embedder' under 'indexing'), or index into memory:FOLDER, "
            "qdrant:FOLDER or postgresql://HOST/DATABASE"
        )
    return _known(address, STORES, " is not a store address; it must start with one of")


def check_foreign_address(address: str) -> str:
    said = ": collections that ragbench did not fill are read from addresses that begin with one of"
    return _known(address, FOREIGN_STORES, said)


def _known(address: str, registry: Registry, said: str) -> str:
    name, known = _engine(address), registry.targets()
    if ":" not in address or name not in known:
        listed = ", ".join(f"{each}:" for each in sorted(known))
        raise ConfigError(f"'{mask_url(address)}'{said} {listed}")
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
