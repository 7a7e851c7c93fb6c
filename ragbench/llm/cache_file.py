"""The file that answers are kept in: SQLite with JSON inside, shared by processes."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ragbench.errors import LLMCacheError

__all__ = ["connect", "guarded"]

_APPLICATION = 0x5242434C  # "RBCL", where SQLite keeps what wrote a file
_VERSION = 1
_BUSY_SECONDS = 10.0
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS replies (
    key BLOB NOT NULL UNIQUE,
    judge TEXT NOT NULL,    -- fingerprint of the endpoint's identity
    model TEXT NOT NULL,
    purpose TEXT NOT NULL,
    body TEXT NOT NULL,     -- JSON
    size INTEGER NOT NULL,
    created INTEGER NOT NULL,  -- seconds since 1970
    used INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS replies_used ON replies (used, created, key, size);
PRAGMA application_id={_APPLICATION};
PRAGMA user_version={_VERSION};
COMMIT;
"""


def connect(path: Path, *, must_exist: bool = False) -> sqlite3.Connection:
    """Opens a cache, creating it and its folder when it does not exist.

    Args:
        path: the file.
        must_exist: whether a missing file is an error.

    Raises:
        LLMCacheError: it cannot be opened, is no cache, or another version wrote it.
    """
    if must_exist and not path.is_file():
        raise LLMCacheError(f"there is no cache at {path}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LLMCacheError(f"{path}: its folder cannot be made: {error.strerror}") from error
    with guarded(path):
        db = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_SECONDS)
        try:
            _check(db, path)
            is_new = db.execute("PRAGMA user_version").fetchone() != (_VERSION,)
            if is_new:
                db.execute("PRAGMA auto_vacuum=INCREMENTAL")  # only before the first table
            db.execute("PRAGMA journal_mode=WAL")
            # Survives the process at any moment; a crash of the machine may cost the last seconds.
            db.execute("PRAGMA synchronous=NORMAL")
            if is_new:
                db.executescript(_SCHEMA)
        except BaseException:
            db.close()
            raise
    return db


def _check(db: sqlite3.Connection, path: Path) -> None:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if (application, version, tables) == (0, 0, 0):
        return
    if application != _APPLICATION:
        raise LLMCacheError(f"{path} is not a cache of ragbench: something else wrote it")
    if version != _VERSION:
        raise LLMCacheError(
            f"{path} was written by another version of ragbench (cache version {version}, this one "
            f"reads {_VERSION}). Delete it, or name another file"
        )


@contextmanager
def guarded(path: Path) -> Generator[None]:
    """Turns what SQLite raises into one error that names the file."""
    try:
        yield
    except sqlite3.OperationalError as error:  # locked, read-only, disk full
        raise LLMCacheError(f"the cache {path} cannot be used: {error}") from error
    except sqlite3.DatabaseError as error:
        raise LLMCacheError(
            f"{path} is not a cache of ragbench, or is damaged: {error}. Delete it, or name "
            "another file"
        ) from error
