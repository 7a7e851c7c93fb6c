"""Answers that were paid for, kept."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from pkgutil import get_data
from typing import TYPE_CHECKING, Any

import msgspec

from ragbench.core.chat import Message, Reply
from ragbench.core.reading import Reading, is_of_the_system, words_of
from ragbench.core.record import Record
from ragbench.errors import ConfigError, LLMCacheError
from ragbench.masking import hidden
from ragbench.private_files import make_private_file

if TYPE_CHECKING:
    import sqlite3

_APPLICATION = 0x5242434C
"""The letters RBCL, in the place where SQLite keeps which program wrote a file."""
_VERSION = 1
"""Of the tables; a file of another version is refused."""
_BUSY_SECONDS = 10.0
"""How long to wait while another process writes."""
_MARKS = f"PRAGMA application_id={_APPLICATION}; PRAGMA user_version={_VERSION};"
"""Marks a file as a cache of this version, once its tables are made."""


@cache
def _table_statements() -> str:
    """The SQL statements that make the tables of a cache.

    The tables are the format of users' files: another form needs another `_VERSION`.
    """
    return (get_data("ragbench.llm", "cache.sql") or b"").decode()


def connect(path: Path, *, must_exist: bool = False) -> sqlite3.Connection:
    """Opens the file of a cache, and makes it and its folder where it does not exist.

    A file that another program or version wrote is refused, not changed. The file is readable by
    its owner alone: answers quote the user's documents.
    """
    import sqlite3

    if must_exist and not path.is_file():
        raise LLMCacheError(f"there is no cache at {path}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        make_private_file(path)
    except OSError as error:
        raise LLMCacheError(f"{path} cannot be made: {error.strerror}") from error
    with ExitStack() as opened, guarded(path):
        # Each statement is a transaction of its own: an answer is on disk when `put` returns.
        db = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_SECONDS)
        opened.callback(db.close)
        # One statement sees one moment: another process may be making the file just now.
        application, version, tables = db.execute(
            "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
            "FROM pragma_application_id, pragma_user_version"
        ).fetchone()
        is_new = (version, tables) == (0, 0) and application in (0, _APPLICATION)
        if not is_new and (application, version) != (_APPLICATION, _VERSION):
            raise LLMCacheError(
                f"{path} is not a cache of this version of ragbench ({_VERSION}): something else, "
                f"or another version ({version}), wrote it. Delete it, or name another file"
            )
        if is_new:
            db.execute("PRAGMA auto_vacuum=INCREMENTAL")  # only before the first table
            # Before WAL: the file of a process that is killed is still recognized as a cache.
            db.execute(f"PRAGMA application_id={_APPLICATION}")
        db.execute("PRAGMA journal_mode=WAL")
        # Survives the process at any moment; a crash of the machine may cost the last seconds.
        db.execute("PRAGMA synchronous=NORMAL")
        if is_new:
            db.executescript(f"BEGIN IMMEDIATE; {_table_statements()} {_MARKS} COMMIT;")
        # All went well: the file stays open for the caller.
        opened.pop_all()
    return db


def guarded(path: Path) -> Reading:
    """A context in which a cache's file is used.

    Whatever SQLite raises in it becomes an `LLMCacheError` whose text names the file and the next
    step: a damaged file can raise nearly anything.
    """
    return Reading(partial(_no_cache, path))


def _no_cache(path: Path, error: Exception) -> LLMCacheError:
    """The error of a cache whose file is damaged, or that the system does not let us use.

    The error's text tells a damaged file from a full disk or a lack of rights, since only the first
    is mended by deleting the file.
    """
    if is_of_the_system(error):
        return LLMCacheError(f"the cache {path} cannot be used: {words_of(error)}")
    return LLMCacheError(
        f"{path} is not a cache of ragbench, or is damaged: {words_of(error)}. Delete it, or name "
        "another file"
    )


DEFAULT_BYTES = 1_000_000_000
"""How large a cache may become, if nothing else is said."""
_DAY = 86_400
"""Seconds."""
_OVERHEAD = 200
"""Bytes that an entry takes beside its body, about."""
_CHECKED_EVERY = 256
"""Answers that are stored between two looks at the file's size."""
_DIALECT_DAYS = 7
"""So long an endpoint is taken to understand what it did: servers are updated."""


class CacheLine(Record, kw_only=False):
    """What a cache holds of one model's answers for one purpose."""

    model: str
    purpose: str
    entries: int
    bytes: int


class CacheStats(Record, kw_only=False):
    """What a cache holds."""

    path: str
    file_bytes: int
    entries: int
    bytes: int
    """Of the answers; the file is somewhat larger."""
    oldest: int | None
    """When the oldest answer was stored, in seconds since 1970; None when there is none."""
    newest: int | None
    lines: tuple[CacheLine, ...]


class ResponseCache(AbstractContextManager["ResponseCache"]):
    """A file of answers. Several processes may use it at once; one object serves one thread."""

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int = DEFAULT_BYTES,
        must_exist: bool = False,
        today: Callable[[], float] = time.time,
    ) -> None:
        """Opens the cache's file, and makes it where it is not there.

        Args:
            max_bytes: what the answers may take together; 0 keeps none.
            must_exist: whether a missing file is an error.
            today: gives the time in seconds since 1970; tests put a clock of their own here.
        """
        if max_bytes < 0:
            raise ConfigError(f"a cache cannot be limited to {max_bytes} bytes")
        self.path = path
        self._max_bytes = max_bytes
        self._today = today
        self._db: sqlite3.Connection = connect(path, must_exist=must_exist)
        """The connection to the cache's file, for the thread that made this object alone."""
        self._stored = 0
        """How many answers this object stored: `put` trims the cache after every `_CHECKED_EVERY`,
        `close` only if there were any."""

    def __exit__(self, *_: object) -> None:
        """Closes the cache's file, also after an error: the answers in it are paid for.

        A ``with`` block ends so.
        """
        self.close()

    def close(self) -> None:
        """Trims the cache to its size, where this object stored an answer, and closes its file.

        A file that was only read stays as it is.
        """
        with closing(self._db):
            if self._stored:
                self._trim_to_size()

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        """The rows that an SQL statement gives, all read.

        An error of the database names the cache's file.
        """
        with guarded(self.path):
            return self._db.execute(statement, values).fetchall()

    def __contains__(self, key: bytes) -> bool:
        """Whether the cache has an answer to a question's key; looking does not count as its use.

        Use decides which answers are deleted when the cache is full.
        """
        return bool(self._rows("SELECT 1 FROM replies WHERE key = ?", key))

    def get(self, key: bytes) -> Reply[str] | None:
        """The kept answer to a question, with the cost its endpoint reported.

        None where no answer is kept. The question's key is made by `cache_key`. That the answer was
        used is noted at most once a day.
        """
        # One row or none: a key has one answer.
        for body, used in self._rows("SELECT body, used FROM replies WHERE key = ?", key):
            now = int(self._today())
            with guarded(self.path):  # a damaged cell may hold a text
                is_old = now - used > _DAY
            if is_old:  # precise enough to see what is in use, and seldom a write
                self._rows("UPDATE replies SET used = ? WHERE key = ?", now, key)
            # A row that was changed by hand is not an answer.
            with suppress(ValueError, TypeError, KeyError):
                fields = json.loads(body)
                fields |= {"value": fields["text"], "cached": True, "key": key}
                return msgspec.convert(fields, Reply[str])
        return None

    def put(self, reply: Reply[Any], *, judge: str, model: str, purpose: str) -> None:
        """Keeps an answer that was paid for.

        The answer is on disk when this returns, even if the process dies then. Credentials in it
        are hidden. Every `_CHECKED_EVERY` answers the cache is trimmed to its size.

        Args:
            judge: the fingerprint of the endpoint that answered.
            purpose: what the call was for, such as a metric's name; the cache's statistics list it.
        """
        # What is left out follows from the text and the key; see `_STORED_FIELDS`.
        fields: dict[str, Any] = {}
        for name in _STORED_FIELDS:
            fields[name] = getattr(reply, name)
        # Escaped, as json.dumps does: lone surrogates stay what they are.
        text = json.dumps(msgspec.to_builtins(fields), separators=(",", ":"))
        body = hidden(text)
        size = len(body) + _OVERHEAD
        now = int(self._today())
        # In the order of the table's columns; the last two are when it was stored and when used.
        row = (reply.key, judge, model, purpose, body, size, now, now)
        self._rows("INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *row)
        self._stored += 1
        if self._stored % _CHECKED_EVERY == 0:
            self._trim_to_size()

    def dialect(self, judge: str) -> bytes | None:
        """The stored dialect of an endpoint as JSON; None where none was stored in the last days.

        A dialect is what an endpoint was found to understand, such as its way of asking for JSON:
        the next command need not find it out again by rejected requests.

        Args:
            judge: the short name of endpoint and model; see `Endpoint.place`.
        """
        with guarded(self.path):
            # Caches made by older versions lack the table.
            self._db.executescript(_table_statements())
        oldest = int(self._today()) - _DIALECT_DAYS * _DAY
        select = "SELECT body FROM dialects WHERE judge = ? AND learned > ?"
        # One row or none, and none where it is too old.
        for (body,) in self._rows(select, judge, oldest):
            return str(body).encode()
        return None

    def keep_dialect(self, judge: str, state: bytes) -> None:
        """Stores the dialect of an endpoint for later commands, in place of an older one.

        A dialect is what an endpoint was found to understand. One that is some days old is not
        given any more; see `dialect`.

        Args:
            judge: the short name of endpoint and model; see `Endpoint.place`.
            state: the dialect as JSON.
        """
        row = (judge, state.decode(), int(self._today()))
        self._rows("INSERT OR REPLACE INTO dialects VALUES (?, ?, ?)", *row)

    def stats(self) -> CacheStats:
        """The number and size of the cached answers, by model and purpose and in all.

        ``ragbench cache stats`` prints it, for users who wonder what fills the disk.
        """
        rows = self._rows(
            "SELECT model, purpose, count(*), sum(size) FROM replies GROUP BY 1, 2 ORDER BY 1, 2"
        )
        [(entries, size, oldest, newest)] = self._rows(
            "SELECT count(*), coalesce(sum(size), 0), min(created), max(created) FROM replies"
        )
        stats = CacheStats(
            path=str(self.path),
            file_bytes=self.path.stat().st_size,
            entries=entries,
            bytes=size,
            oldest=oldest,
            newest=newest,
            lines=tuple(CacheLine(*row) for row in rows),
        )
        with guarded(self.path):  # SQLite keeps whatever type a damaged cell has
            return msgspec.convert(msgspec.to_builtins(stats), CacheStats)

    def prune(
        self,
        *,
        max_bytes: int | None = None,
        unused_days: float | None = None,
        model: str | None = None,
        everything: bool = False,
    ) -> int:
        """Deletes cached answers that any of the arguments selects; gives how many were deleted.

        A deleted answer is paid for again when it is needed. Freed space is given back to the disk.

        Args:
            max_bytes: the answers beyond so many bytes, those that were used longest ago.
            unused_days: answers that were not used for so long.
            model: the answers of this model.
            everything: all answers.
        """
        # SQLite counts the changed rows of a connection: the difference is what is deleted here.
        changes_before = self._db.total_changes
        # One by one: each argument selects on its own, and what is deleted already counts once.
        if everything:
            # A condition that every answer meets.
            self._rows("DELETE FROM replies WHERE ?", True)
        if model is not None:
            self._rows("DELETE FROM replies WHERE model = ?", model)
        if unused_days is not None:
            oldest_use = int(self._today() - unused_days * _DAY)
            self._rows("DELETE FROM replies WHERE used < ?", oldest_use)
        if max_bytes is not None:
            self._rows(f"DELETE FROM replies WHERE {_BEYOND_SIZE}", max_bytes)
        removed = self._db.total_changes - changes_before
        if removed:
            # SQLite keeps emptied pages for later; these two give them back to the disk.
            self._rows("PRAGMA incremental_vacuum")
            self._rows("PRAGMA wal_checkpoint(TRUNCATE)")
        return removed

    def _trim_to_size(self) -> None:
        """Deletes the answers used longest ago where the cache has grown beyond its size.

        While the whole file is smaller than that, the sizes of its answers need not be added up.
        """
        [(pages,)] = self._rows("PRAGMA page_count")
        [(page_size,)] = self._rows("PRAGMA page_size")
        if pages * page_size > self._max_bytes:
            self.prune(max_bytes=self._max_bytes)


_BEYOND_SIZE = """
key IN (
    SELECT key FROM (
        SELECT key, sum(size) OVER (ORDER BY used DESC, created DESC, key) AS total FROM replies
    ) WHERE total > ?
)
"""
"""The answers that are left when those used last have filled a size."""


_STORED_FIELDS = [
    name for name in Reply.__struct_fields__ if name not in ("value", "cached", "key")
]
"""Of a reply; the others follow from these, or from where it is stored."""

_FORMAT = 1
"""A part of every key: another number makes all stored answers unknown."""


def cache_key(
    identity: Mapping[str, Any],
    messages: Sequence[Message],
    *,
    schema: Mapping[str, Any] | None = None,
    version: str = "",
    repeat: int = 0,
) -> bytes:
    """The key of a cached answer: a digest of everything that the answer depends on.

    Any change of the key's parts makes all answers in users' caches unknown, so that they are
    bought again.

    Args:
        identity: of the endpoint; see `Endpoint.identity`.
        schema: the JSON schema that the answer must follow.
        version: of what asks, such as a metric's prompts.
        repeat: which of several answers to the same question, from 0.

    Returns:
        32 bytes.
    """
    parts = {
        "format": _FORMAT,
        "identity": identity,
        "messages": [[message.role, message.content] for message in messages],
        "schema": schema,
        "version": version,
        "repeat": repeat,
    }
    # ASCII: lone surrogates stay what they are, and no two texts become one.
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return blake2b(text.encode("ascii"), digest_size=32).digest()
