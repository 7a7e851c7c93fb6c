"""Stores by their address: one text that says which engine, and where.

====================================  ==========================================================
``memory:`` ``memory:FOLDER``         NumPy; without a folder gone when the process ends
``qdrant:FOLDER``                     Qdrant's engine inside of the process
``qdrant+http://HOST:6333``           a Qdrant server
``postgresql://HOST/DATABASE``        PostgreSQL with pgvector
====================================  ==========================================================

Other packages add engines through the entry-point group ``ragbench.stores``: a name, which
addresses begin with, and a callable that takes the whole address and gives a
`stores.database.WritableDatabase`; those whose collections are read only through the group
``ragbench.foreign_stores``, which gives a `ragbench.search.stores.database.ReadableDatabase`.
"""

from __future__ import annotations

import json
import re
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, cast
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec
from filelock import FileLock, Timeout

from ragbench.core.reading import Reading
from ragbench.errors import ConfigError, StoreError
from ragbench.io.settings import beside
from ragbench.masking import mask_url
from ragbench.plugins import Registry
from ragbench.private_files import make_private_folder
from ragbench.search.stores.base import CollectionInfo, Reader, Writer, engine_failures, other_form
from ragbench.search.stores.collection import OwnCollection, check_identity
from ragbench.search.stores.mapping import FieldMapping
from ragbench.search.stores.record import WordsForm, check_words

_FIT = re.compile(r"[A-Za-z][A-Za-z0-9_]{2,39}")
"""Names that every engine takes as they are."""
_VERSION = 2
"""Changes with what stores keep of a chunk, and how."""


class ReadableDatabase(ABC):
    """A database whose collections other programs fill: ragbench reads them.

    It connects when something is asked of it: wrong settings are refused before that.
    """

    failures: tuple[type[Exception], ...] = ()
    """What the engine raises; known once its package is loaded."""

    def __init__(
        self,
        address: str,
        open_client: Callable[[], Any] | None = None,
        *,
        folder: Path | None = None,
    ) -> None:
        """A database of an address; nothing is reached yet.

        Args:
            address: for messages, without a password.
            open_client: makes the package's client; None where the engine connects otherwise.
            folder: where it keeps its collections, if that is on this machine.
        """
        self.address = address
        self.folder = folder
        self._open_client = open_client
        self._connection: Any = None
        self._open: Counter[str] = Counter()
        self._lock = threading.RLock()

    @abstractmethod
    def load(self) -> tuple[type[Exception], ...]:
        """Imports the package and says what it raises."""

    def connect(self) -> Any:
        """The package's client, by the function that the database was made with."""
        assert self._open_client is not None
        return self._open_client()

    def disconnect(self, connection: Any) -> None:
        """Closes the client; engines whose clients end otherwise replace it."""
        connection.close()

    def listed(self, connection: Any) -> list[str]:
        """The names of all collections, whoever made them; none where only ragbench makes any."""
        return []

    def read(self, connection: Any, name: str, mapping: FieldMapping) -> Reader | None:
        """A collection to be read, whoever made it; None when there is none of the name."""
        return None

    def is_own(self, connection: Any, name: str) -> bool:
        """Whether ragbench made the collection: then it is searched without a mapping."""
        return False

    def close(self) -> None:
        """Ends the connection, whichever collections are open; the next use connects again."""
        with self._lock, engine_failures(self.address, self.failures):
            connection = self._connection
            self._connection = None  # before the call, which may fail
            self._open.clear()
            if connection is not None:
                self.disconnect(connection)

    @contextmanager
    def connected(self) -> Generator[Any]:
        """The connection, while what the engine raises becomes a `StoreError`."""
        with self._lock:
            if not self.failures:
                self.failures = self.load()
            with engine_failures(self.address, self.failures):
                if self._connection is None:
                    self._connection = self.connect()
                yield self._connection


class WritableDatabase(ReadableDatabase):
    """A database that ragbench makes collections in; disconnects when the last one is closed."""

    ranks_words: ClassVar[bool] = False
    """Whether its writers are `ragbench.search.stores.base.WordWriter` where a collection asks."""

    @abstractmethod
    def names(self, connection: Any) -> list[str]:
        """The names of ragbench's collections, in any order."""

    @abstractmethod
    def make(self, connection: Any, info: CollectionInfo) -> None:
        """Makes an empty collection."""

    @abstractmethod
    def attach(self, connection: Any, name: str) -> Writer | None:
        """The collection; None when there is none of the name that ragbench made."""

    def detach(self, connection: Any, name: str) -> None:
        """The last use of a collection has ended: an engine that keeps files open closes them."""
        return

    @abstractmethod
    def remove(self, connection: Any, name: str) -> None:
        """Removes the collection, if it is there."""

    def is_own(self, connection: Any, name: str) -> bool:
        """Whether ragbench made the collection, found out by attaching it."""
        # A foreign one raises, and what may not be looked at is not ragbench's.
        refusals: tuple[type[Exception], ...] = (StoreError, *self.failures)
        try:
            return self.attach(connection, name) is not None
        except refusals:
            return False

    def collections(self) -> list[str]:
        """The names of ragbench's collections, sorted."""
        with self.connected() as connection:
            return sorted(self.names(connection))

    def create(
        self,
        name: str,
        *,
        dimension: int,
        identity: Mapping[str, Any] | None = None,
        words: WordsForm | None = None,
    ) -> OwnCollection:
        """Makes an empty collection and opens it; a name that is taken is refused.

        Args:
            dimension: length of its vectors.
            identity: what its vectors are made by and of; `mark` sets it, too.
            words: how it keeps the words of its chunks; None where the store ranks by none.
        """
        check_words(self, words)
        check_name(name)
        if type(dimension) is not int or dimension < 1:
            raise StoreError(f"vectors have a length of at least 1, found {dimension!r}")
        checked = check_identity(identity)
        info = CollectionInfo(name=name, dimension=dimension, identity=checked, words=words)
        with self.connected() as connection:
            if name in self.names(connection):
                raise StoreError(f"{self.address}: there is a collection '{name}' already")
            self.make(connection, info)
        return self.open(name)

    def open(self, name: str) -> OwnCollection:
        """Opens a collection of ragbench's; the error of a name that is none lists those there."""
        check_name(name)
        with self.connected() as connection:
            engine = self.attach(connection, name)
            if engine is None:
                names = ", ".join(sorted(self.names(connection)))
                present = "it holds none"
                if names:
                    present = f"there are: {names}"
                raise StoreError(f"{self.address}: there is no collection '{name}'; {present}")
            store = OwnCollection(engine, name, self, lambda: self._release(name))
            self._open[name] += 1
            return store

    def drop(self, name: str) -> None:
        """Removes a collection of ragbench's and its chunks; one that is not there is no error."""
        check_name(name)
        with self.connected() as connection:
            self.remove(connection, name)

    def _release(self, name: str) -> None:
        """Counts a closed collection: the last of a name is detached, the last of all ends it."""
        with self._lock:
            if self._connection is None:
                return
            self._open[name] -= 1
            if self._open[name] == 0:
                with engine_failures(self.address, self.failures):
                    self.detach(self._connection, name)
            if not any(self._open.values()):
                self.close()


Database: TypeAlias = WritableDatabase


def fitted_name(name: str) -> str:
    """A collection's name as every engine takes it: the name itself where that fits.

    Any other becomes 20 of its letters, by which people recognise it, and a digest of all of it.
    """
    if _FIT.fullmatch(name):
        return name
    slug = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    digest = blake2b(name.encode(), digest_size=8).hexdigest()
    return f"c_{slug[:20]}_{digest}"


def info_to_json(info: CollectionInfo) -> str:
    """What is kept with a collection, as one text."""
    return json.dumps({"version": _VERSION, **msgspec.to_builtins(info)})


def info_from_json(text: str, address: str) -> CollectionInfo:
    """What `info_to_json` has written, by this release or another."""
    name = name_from_json(text, address)
    with Reading(lambda _: _damaged(address)):
        values: dict[str, Any] = json.loads(text)
        # A release to come may keep words in a way that this one would misread.
        word_settings = {setting.name for setting in fields(WordsForm)}
        is_readable = word_settings.issuperset(values.get("words") or ())
        if values["version"] != _VERSION or not is_readable:
            raise other_form(address, name)
        return msgspec.convert(values, CollectionInfo)


def name_from_json(text: str, address: str) -> str:
    """The collection's name, whichever release has written it."""
    with Reading(lambda _: _damaged(address)):
        return msgspec.convert(json.loads(text)["name"], str)


def _damaged(address: str) -> StoreError:
    """The error for what a collection says of itself and no release of ragbench has written."""
    return StoreError(f"{address}: what is kept with the collection is damaged: index anew")


_MAX_NAME = 200
"""Characters of a collection's name; messages and lists show it in one line."""


def check_name(name: object) -> None:
    """Refuses a name that a message could not show: empty, long, with control characters."""
    if not isinstance(name, str) or not name or name.isspace():
        raise StoreError(f"a collection needs a name, found {name!r}")
    if len(name) > _MAX_NAME or not name.isprintable():
        raise StoreError(
            f"the collection's name {name[:60]!r} is not a valid name: give at most {_MAX_NAME} "
            "printable characters"
        )


def server_url(address: str, engine: str, forms: str) -> tuple[str, str, str]:
    """Of an address ``NAME+URL`` the URL without user and password, and these two.

    Clients take the three apart, and their messages show the URL.
    """
    _, _, text = address.partition("+")
    url = urlsplit(text)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ConfigError(f"'{mask_url(address)}' is not an address of {engine}: write {forms}")
    _, _, host = url.netloc.rpartition("@")  # with its port
    user = unquote(url.username or "")
    password = unquote(url.password or "")
    return urlunsplit(url._replace(netloc=host)), user, password


# --- one writer at a time to a folder
#
# Engines inside of the process do not keep writers apart. Who writes to a folder of this machine
# holds a file in it locked; the system unlocks it when the process ends, however it does. On a
# server the end of an indexing tells: it compares what the collection holds with what was written.

_LOCK = ".ragbench.lock"
"""The file in a store's folder that is held locked."""


def being_written(address: str) -> StoreError:
    """The error where two indexings write to one collection; each would undo the other's work."""
    return StoreError(
        f"{address}: another 'ragbench index' is writing there: wait until it is done, and run the "
        "same command again"
    )


@contextmanager
def sole_writer(folder: Path | None, address: str, *, patience: float = 0.0) -> Generator[None]:
    """Keeps other indexings out of a store's folder, which is made where there is none.

    Args:
        patience: seconds to wait for another one to be through.
    """
    if folder is None:
        yield
        return
    lock = FileLock(folder / _LOCK)
    try:
        make_private_folder(folder)
        lock.acquire(timeout=patience)
    except Timeout as error:
        raise being_written(address) from error
    except OSError as error:
        lock.release()
        raise StoreError(f"{address}: cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()


STORES = Registry(kind="stores")
"""Engines that ragbench fills, by what addresses begin with."""
FOREIGN_STORES = Registry(kind="foreign_stores")
"""Engines whose collections are read; some are among `STORES`, too."""
_ON_DISK = ("chroma", "memory", "milvus", "qdrant")
"""Engines whose addresses end with a path."""


def placed_address(address: str, folder: Path) -> str:
    """An address as a file in a folder has it: a path in it is relative to that file."""
    engine, _, path = address.partition(":")
    if not path or engine not in _ON_DISK:
        return address
    return f"{engine}:{beside(folder, path)}"


def is_read_only(address: str) -> bool:
    """Whether an address is of an engine whose collections ragbench reads and never fills."""
    name = _engine(address)
    return not STORES.has(name) and FOREIGN_STORES.has(name)


def check_store_address(address: str) -> str:
    """The name of the engine, which ragbench must be able to fill.

    Raises:
        ConfigError: it only reads collections of that engine, or there is none of the name.
    """
    if is_read_only(address):
        raise ConfigError(
            f"'{mask_url(address)}': ragbench searches collections of {_engine(address)} and fills "
            "none. Fill yours with your own tools and name the model of its vectors with --embedder"
            " (in a pipeline: 'map' and 'embedder' under 'indexing'), or index into memory:FOLDER, "
            "qdrant:FOLDER or postgresql://HOST/DATABASE"
        )
    return _registered_engine(address, STORES, " is not a store address; it must start with one of")


def check_foreign_address(address: str) -> str:
    """The name of the engine of an address, checked before anything is opened.

    Raises:
        ConfigError: ragbench reads no collections of such an engine.
    """
    return _registered_engine(
        address,
        FOREIGN_STORES,
        ": collections that ragbench did not fill are read from addresses that begin with one of",
    )


def _registered_engine(address: str, registry: Registry, problem: str) -> str:
    """The engine of an address; the error says the `problem`, and which engines there are."""
    engine = _engine(address)
    if ":" not in address or not registry.has(engine):
        beginnings = ", ".join(f"{name}:" for name in sorted(registry.targets()))
        raise ConfigError(f"'{mask_url(address)}'{problem} {beginnings}")
    return engine


def open_database(address: str) -> Database:
    """The database of an address. It is reached when something is asked of it."""
    engine = check_store_address(address)
    open_address = STORES.load(engine)
    return cast("Database", open_address(address))


def _engine(address: str) -> str:
    """The engine's name: of ``qdrant+http://HOST`` that is ``qdrant``."""
    scheme, _, _ = address.partition(":")
    name, _, _ = scheme.partition("+")
    return name


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
