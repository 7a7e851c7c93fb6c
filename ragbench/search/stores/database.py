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

        A wrong setting is so refused before a server is reached.

        Args:
            address: for messages, without a password.
            open_client: makes the package's client; None where the engine connects otherwise.
            folder: where it keeps its collections, if that is on this machine.
        """
        self.address = address
        self.folder = folder
        self._open_client = open_client
        self._connection: Any = None
        """The connection to the database; None before the first use, and after `close`."""
        self._open: Counter[str] = Counter()
        """How many uses of each collection are open; the connection ends with the last."""
        # Taken again by a thread that has it: closing the last collection closes the database.
        self._lock = threading.RLock()

    @abstractmethod
    def load(self) -> tuple[type[Exception], ...]:
        """Imports the engine's package and returns the exceptions that it raises.

        The exceptions are known only after the import; `connected` turns them into errors of one
        line.
        """

    def connect(self) -> Any:
        """A new connection.

        The engine's client, made by the function that the database came with. The function is
        called at the first use, so that wrong settings are refused before a server is reached.
        """
        assert self._open_client is not None
        return self._open_client()

    def disconnect(self, connection: Any) -> None:
        """Closes the client of the engine.

        A database whose client ends otherwise overrides this. Called once, when the database is
        closed.
        """
        connection.close()

    def listed(self, connection: Any) -> list[str]:
        """The names of all collections that can be read, for choices and errors.

        None where other programs make no collections.
        """
        return []

    def read(self, connection: Any, name: str, mapping: FieldMapping) -> Reader | None:
        """A collection for reading, whoever made it; None where there is none of the name.

        A database that only ragbench fills has no such collections.

        Args:
            mapping: which field, vector and metric the user has named.
        """
        return None

    def is_own(self, connection: Any, name: str) -> bool:
        """Whether ragbench made the collection: then no mapping of fields is needed.

        No is right for an engine that ragbench never fills.
        """
        return False

    def close(self) -> None:
        """Ends the connection, whichever collections are open.

        The next use of the database connects again.
        """
        with self._lock, engine_failures(self.address, self.failures):
            connection = self._connection
            self._connection = None  # before the call, which may fail
            self._open.clear()
            if connection is not None:
                self.disconnect(connection)

    @contextmanager
    def connected(self) -> Generator[Any]:
        """A context that gives the connection, which is made at its first use.

        The engine's exceptions in the block become a `StoreError`; only one thread at a time is in
        such a block.
        """
        with self._lock:
            # The engine's exceptions are loaded here and not when the database is made, because
            # importing an engine's package takes time.
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
        """The names of ragbench's own collections in the database, in any order.

        Lists and errors show them; `create` refuses a name among them.
        """

    @abstractmethod
    def make(self, connection: Any, info: CollectionInfo) -> None:
        """Makes an empty collection with this record of itself.

        `create` has checked name and length. What a store writes here is its stored form: older
        collections have to stay readable.
        """

    @abstractmethod
    def attach(self, connection: Any, name: str) -> Writer | None:
        """A collection of ragbench's own, for writing; None where it has made none of the name.

        `open` calls it, and wraps the result with the checks that all stores share.
        """

    def detach(self, connection: Any, name: str) -> None:
        """Lets go of a collection whose last use has ended.

        Engines that keep its files open close them. Other processes can then open them.
        """
        return

    @abstractmethod
    def remove(self, connection: Any, name: str) -> None:
        """Removes a collection of ragbench's own, if it is there.

        Another program's collection of the name must stay.
        """

    def is_own(self, connection: Any, name: str) -> bool:
        """Whether ragbench made the collection: whether it can be attached for writing.

        Attaching another program's collection raises an error, which counts as no here.
        """
        # `attach` raises for another program's collection; one that may not be looked at is not
        # ragbench's either.
        refusals: tuple[type[Exception], ...] = (StoreError, *self.failures)
        try:
            return self.attach(connection, name) is not None
        except refusals:
            return False

    def collections(self) -> list[str]:
        """The names of ragbench's own collections in the database, sorted.

        Commands choose among them, and an indexing looks whether its collection is there.
        """
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

        Everything is checked first, so that each store refuses the same.

        Args:
            name: of the new collection.
            dimension: length of its vectors.
            identity: what its vectors are made by and of; `OwnCollection.mark` sets it, too.
            words: how it keeps the words of its chunks; None where the store ranks by none.

        Raises:
            ConfigError: words are to be kept, and the store cannot rank by them.
            StoreError: the name or the length cannot be, the name is taken, or the store failed.
        """
        check_words(self, words)
        check_name(name)
        if type(dimension) is not int or dimension < 1:
            raise StoreError(f"vectors have a length of at least 1, found {dimension!r}")
        checked = check_identity(identity)
        info = CollectionInfo(name=name, dimension=dimension, identity=checked, words=words)
        with self.connected() as connection:
            # Another process may still make it in between: `make` has to notice that itself.
            if name in self.names(connection):
                raise StoreError(f"{self.address}: there is a collection '{name}' already")
            self.make(connection, info)
        return self.open(name)

    def open(self, name: str) -> OwnCollection:
        """Opens a collection of ragbench's own.

        An unknown name is an error that lists the known ones. The database counts its open
        collections: closing the last one ends the connection.
        """
        check_name(name)
        with self.connected() as connection:
            engine = self.attach(connection, name)
            if engine is None:
                names = ", ".join(sorted(self.names(connection)))
                present = "it holds none"
                if names:
                    present = f"there are: {names}"
                raise StoreError(f"{self.address}: there is no collection '{name}'; {present}")
            # Counted only when it is made: a collection whose record cannot be read is not open.
            store = OwnCollection(engine, name, self, lambda: self._release(name))
            self._open[name] += 1
            return store

    def drop(self, name: str) -> None:
        """Removes a collection of ragbench's own, with its chunks and vectors, from the database.

        A name that is not there is no error: the same command can run twice.
        """
        check_name(name)
        with self.connected() as connection:
            self.remove(connection, name)

    def _release(self, name: str) -> None:
        """Ends one use of a collection; the connection ends with the last open collection.

        A collection that is open several times is let go of (`detach`) with its last use only.
        """
        with self._lock:
            # Closed as a whole meanwhile: there is nothing left to let go of.
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
    """A collection's name as every engine takes it: a short one of letters and digits as it is.

    Any other becomes 20 of its letters, by which people recognise it, and a digest of all of it.
    Collections are found by it: another form would hide those that are there.
    """
    if _FIT.fullmatch(name):
        return name
    slug = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    digest = blake2b(name.encode(), digest_size=8).hexdigest()
    return f"c_{slug[:20]}_{digest}"


def info_to_json(info: CollectionInfo) -> str:
    """A collection's record of itself as JSON with the number of its form, as stores keep it.

    `info_from_json` reads it back; with other fields `_VERSION` has to rise.
    """
    return json.dumps({"version": _VERSION, **msgspec.to_builtins(info)})


def info_from_json(text: str, address: str) -> CollectionInfo:
    """A collection's record of itself from the JSON that `info_to_json` has written.

    A newer form may keep words in a way that this release would misread: it is refused.

    Args:
        text: the JSON, which another release of ragbench may have written.
        address: of the store, for errors.

    Raises:
        StoreError: the JSON is damaged, or of a form that this release does not read.
    """
    name = name_from_json(text, address)
    with Reading(lambda _: _damaged_record(address)):
        values: dict[str, Any] = json.loads(text)
        # A release to come may keep words in a way that this one would misread.
        word_settings = {setting.name for setting in fields(WordsForm)}
        is_readable = word_settings.issuperset(values.get("words") or ())
        if values["version"] != _VERSION or not is_readable:
            raise other_form(address, name)
        return msgspec.convert(values, CollectionInfo)


def name_from_json(text: str, address: str) -> str:
    """A collection's name from the JSON of its record, whichever release has written that.

    So lists and errors can name a collection that only another release can read.
    """
    with Reading(lambda _: _damaged_record(address)):
        return msgspec.convert(json.loads(text)["name"], str)


def _damaged_record(address: str) -> StoreError:
    """The error for a collection's record of itself that is not JSON of any release of ragbench.

    A new indexing alone can mend that.
    """
    return StoreError(f"{address}: what is kept with the collection is damaged: index anew")


_MAX_NAME = 200
"""Characters of a collection's name; messages and lists show it in one line."""


def check_name(name: object) -> None:
    """Refuses a collection's name that messages and lists could not show in one line.

    Names are texts of at most `_MAX_NAME` printable characters, and not blank.
    """
    if not isinstance(name, str) or not name or name.isspace():
        raise StoreError(f"a collection needs a name, found {name!r}")
    # Printable: a line break would split the line of a list.
    if len(name) > _MAX_NAME or not name.isprintable():
        raise StoreError(
            f"the collection's name {name[:60]!r} is not a valid name: give at most {_MAX_NAME} "
            "printable characters"
        )


def server_url(address: str, engine: str, forms: str) -> tuple[str, str, str]:
    """The URL of a server without user and password, the user, and the password.

    Clients take the three apart, and their error messages show the URL: no password may be in it.

    Args:
        address: ``NAME+URL``, such as ``qdrant+http://USER:PASSWORD@HOST:6333``.
        engine: its vendor's name, for the error.
        forms: the forms of an address, for the error.

    Raises:
        ConfigError: the address has no URL of http or https.
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
    """The error where two indexings write to one collection; each would undo the other's work.

    The message asks the user to wait: only a second run of the command can go on.
    """
    return StoreError(
        f"{address}: another 'ragbench index' is writing there: wait until it is done, and run the "
        "same command again"
    )


@contextmanager
def sole_writer(folder: Path | None, address: str, *, patience: float = 0.0) -> Generator[None]:
    """A context in which no other indexing writes to a store's folder.

    The folder is made if need be. The lock is a file in the folder, which the system unlocks when
    the process ends. A store without a folder, such as a server, is not locked.

    Args:
        folder: of the store; None where it is not on this machine.
        address: of the store, for errors.
        patience: seconds to wait for another indexing to end.

    Raises:
        StoreError: another indexing is writing there, or the folder cannot be written.
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
    # The folder cannot be made, or its lock cannot be written.
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
    """A store's address with its path, if it has one, taken as relative to a folder.

    Pipelines name stores relative to their own file; so the address holds wherever ragbench is
    started. Addresses of servers stay as they are.
    """
    engine, _, path = address.partition(":")
    # ``qdrant+http`` is no such engine: addresses of servers pass unchanged.
    if not path or engine not in _ON_DISK:
        return address
    return f"{engine}:{beside(folder, path)}"


def is_read_only(address: str) -> bool:
    """Whether an address is of an engine whose collections ragbench reads and never fills.

    A command chooses by it between searching such a collection and filling its own.
    """
    name = _engine_name(address)
    return not STORES.has(name) and FOREIGN_STORES.has(name)


def check_store_address(address: str) -> str:
    """The name of the engine of a store's address, which ragbench must be able to fill.

    A command checks it before it reads a corpus that no store could take.

    Raises:
        ConfigError: it only reads collections of that engine, or there is no engine of that name.
    """
    # Engines that only read are looked at first: their message says what they can be used for.
    if is_read_only(address):
        raise ConfigError(
            f"'{mask_url(address)}': ragbench searches collections of {_engine_name(address)} and "
            "fills none. Fill yours with your own tools and name the model of its vectors with "
            "--embedder (in a pipeline: 'map' and 'embedder' under 'indexing'), or index into "
            "memory:FOLDER, qdrant:FOLDER or postgresql://HOST/DATABASE"
        )
    return _registered_engine(address, STORES, " is not a store address; it must start with one of")


def check_foreign_address(address: str) -> str:
    """The name of the engine of an address with other programs' collections.

    A pipeline's file is checked so before anything is reached.

    Raises:
        ConfigError: ragbench reads no collections of such an engine.
    """
    return _registered_engine(
        address,
        FOREIGN_STORES,
        ": collections that ragbench did not fill are read from addresses that begin with one of",
    )


def _registered_engine(address: str, registry: Registry, problem: str) -> str:
    """The engine's name in an address; an error where the registry has no such engine.

    The address in the error is masked: it may hold a password.

    Args:
        registry: the engines that ragbench fills, or those that it reads.
        problem: the middle of the error, between the address and the known engines.

    Raises:
        ConfigError: there is no such engine in the registry.
    """
    engine = _engine_name(address)
    if ":" not in address or not registry.has(engine):
        beginnings = ", ".join(f"{name}:" for name in sorted(registry.targets()))
        raise ConfigError(f"'{mask_url(address)}'{problem} {beginnings}")
    return engine


def open_database(address: str) -> Database:
    """The database of a store's address.

    The server or folder is reached at its first use, not here.
    """
    engine = check_store_address(address)
    open_address = STORES.load(engine)
    return cast("Database", open_address(address))


def _engine_name(address: str) -> str:
    """The engine's name in an address: of ``qdrant+http://HOST`` it is ``qdrant``.

    The engine's class is looked up by it.
    """
    scheme, _, _ = address.partition(":")
    name, _, _ = scheme.partition("+")
    return name


def open_store(address: str, collection: str) -> OwnCollection:
    """Opens a collection of ragbench's own by its store's address.

    Closing it ends the connection, too.

    Raises:
        ConfigError: the address is none of a store.
        MissingExtraError: the engine's package is not installed.
        StoreError: the store cannot be reached, or there is no such collection.
    """
    database = open_database(address)
    try:
        return database.open(collection)
    # After an interruption, too: an embedded store would stay locked.
    except BaseException:
        database.close()
        raise
