"""Collections that ragbench did not fill, by the address of their store.

Other packages add engines through the entry-point group ``ragbench.foreign_stores``: a name, which
addresses begin with, and a `ragbench.stores.foreign.engine.ForeignEngine`.
"""

from __future__ import annotations

from typing import Any, cast

from ragbench.errors import ConfigError, StoreError
from ragbench.interface.masking import mask_url
from ragbench.registry import Registry
from ragbench.stores.engine_database import EngineDatabase
from ragbench.stores.foreign.collection import ForeignCollection
from ragbench.stores.foreign.engine import ForeignEngine
from ragbench.stores.foreign.mapping import FieldMapping
from ragbench.stores.foreign.one_line import listed

__all__ = ["FOREIGN_STORES", "check_foreign_address", "open_foreign", "read_foreign"]

_HERE = "ragbench.stores.foreign"

FOREIGN_STORES = Registry(
    kind="foreign_stores",
    builtin={
        "chroma": f"{_HERE}.chroma:ForeignChroma",
        "milvus": f"{_HERE}.milvus:ForeignMilvus",
        "postgres": f"{_HERE}.pgvector:ForeignPgvector",
        "postgresql": f"{_HERE}.pgvector:ForeignPgvector",
        "qdrant": f"{_HERE}.qdrant:ForeignQdrant",
    },
)


def check_foreign_address(address: str) -> str:
    """The engine of an address.

    Raises:
        ConfigError: no engine of such addresses can be read where ragbench did not fill it.
    """
    engine = address.partition(":")[0].partition("+")[0]
    if ":" not in address or engine not in FOREIGN_STORES.targets():
        known = ", ".join(f"{each}:" for each in sorted(FOREIGN_STORES.targets()))
        raise ConfigError(
            f"'{mask_url(address)}': collections that ragbench did not fill are read from "
            f"addresses that begin with one of {known}"
        )
    return engine


def open_foreign(
    address: str, collection: str | None = None, mapping: FieldMapping | None = None
) -> ForeignCollection:
    """Opens a collection that another program has filled. Nothing is ever written there.

    Example:
        >>> mapping = FieldMapping(text="body", vector="dense")
        >>> with open_foreign("qdrant+http://localhost:6333", "docs", mapping) as docs:
        ...     found = docs.search(vectors, k=5)  # doctest: +SKIP

    Args:
        address: such as ``"qdrant+http://localhost:6333"``; see `ragbench.stores.registry`.
        collection: its name; in PostgreSQL the table's. None takes the only one that there is.
        mapping: which field means what; None guesses it.

    Raises:
        ConfigError: no engine has such addresses, the mapping does not fit, or ragbench has filled
            the collection.
        MissingExtraError: the engine's package is not installed.
        StoreError: the store cannot be reached, or there is no such collection, or it is empty.
    """
    kind = cast("type[ForeignEngine]", FOREIGN_STORES.load(check_foreign_address(address)))
    return read_foreign(kind, kind.database(address), collection, mapping)


def read_foreign(
    kind: type[ForeignEngine],
    database: EngineDatabase[Any],
    collection: str | None = None,
    mapping: FieldMapping | None = None,
) -> ForeignCollection:
    """`open_foreign` for a database that is at hand; it is closed with the collection."""
    wanted = mapping or FieldMapping()
    try:
        with database.connected() as connection:
            name = collection or _only_name(database, kind.names(connection))
            engine = kind.attach(connection, name, wanted)
            if _is_own(database, connection, name):
                raise ConfigError(
                    f"{database.address}: ragbench itself has filled the collection '{name}': it "
                    "is searched without a mapping (--map)"
                )
            if engine is None:
                raise _missing(database, name, kind.names(connection))
        return ForeignCollection(name, wanted, engine=engine, database=database)
    except BaseException:
        database.close()
        raise


def _is_own(database: EngineDatabase[Any], connection: Any, name: str) -> bool:
    # It says that it is none, or may not be looked at.
    no: tuple[type[Exception], ...] = (StoreError, *database.failures)
    try:
        return database.attach(connection, name) is not None
    except no:
        return False


def _only_name(database: EngineDatabase[Any], names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    found = f"has {listed(sorted(names))}" if names else "holds none"
    raise ConfigError(f"name the collection with --collection: {database.address} {found}")


def _missing(database: EngineDatabase[Any], name: str, names: list[str]) -> StoreError:
    known = f"there are: {listed(sorted(names))}" if names else "it holds none"
    return StoreError(f"{database.address}: there is no collection '{name}'; {known}")
