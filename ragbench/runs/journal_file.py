"""The file that a journal lives in: its tables, its version, its transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ragbench.errors import RunMismatchError

__all__ = ["connect", "transaction"]

_APPLICATION = 0x52414742  # "RAGB", where SQLite keeps what wrote a file
_SCHEMA_VERSION = 1
_JUDGEMENTS = """
CREATE TABLE IF NOT EXISTS judgements (
    number INTEGER NOT NULL,
    metric TEXT NOT NULL,
    key BLOB NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (number, metric, key)
) WITHOUT ROWID;
"""
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE cases (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    position INTEGER UNIQUE,  -- NULL: not among the cases of the latest command
    digest BLOB NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE texts (
    digest BLOB PRIMARY KEY,
    text TEXT NOT NULL
);
CREATE TABLE outcomes (
    number INTEGER NOT NULL,
    stage TEXT NOT NULL,
    key BLOB NOT NULL,
    status TEXT NOT NULL,
    texts BLOB NOT NULL,
    body BLOB NOT NULL,
    seconds REAL,
    digest BLOB NOT NULL,  -- of what it gave
    PRIMARY KEY (number, stage, key)
) WITHOUT ROWID;
CREATE TABLE cells (
    number INTEGER NOT NULL,
    metric TEXT NOT NULL,
    key BLOB NOT NULL,
    status TEXT NOT NULL,
    value REAL,
    detail BLOB,
    PRIMARY KEY (number, metric, key)
) WITHOUT ROWID;
{_JUDGEMENTS}
PRAGMA application_id={_APPLICATION};
PRAGMA user_version={_SCHEMA_VERSION};
COMMIT;
"""


def connect(path: Path) -> sqlite3.Connection:
    """Opens a journal's file, creating it when it does not exist.

    Raises:
        RunMismatchError: the file is no journal, or another version of ragbench wrote it.
    """
    try:
        db = sqlite3.connect(path, isolation_level=None)
    except sqlite3.Error as error:
        raise RunMismatchError(f"{path} cannot be opened: {error}") from error
    try:
        _check_version(db, path)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")  # a crash of the machine may cost the last seconds
        db.execute("PRAGMA cache_size=-8000")
        if db.execute("PRAGMA user_version").fetchone() == (0,):
            db.executescript(_SCHEMA)
        else:  # journals of earlier versions have no judgements
            db.execute(_JUDGEMENTS)
    except sqlite3.OperationalError as error:  # locked, read-only, disk full
        db.close()
        raise RunMismatchError(f"{path} cannot be opened: {error}") from error
    except sqlite3.DatabaseError as error:
        db.close()
        raise RunMismatchError(f"{path} is not a journal of ragbench: {error}") from error
    except RunMismatchError:
        db.close()
        raise
    return db


def _check_version(db: sqlite3.Connection, path: Path) -> None:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if (application, version, tables) == (0, 0, 0):
        return  # new
    if application != _APPLICATION:
        raise RunMismatchError(f"{path} is not a journal of ragbench: something else wrote it")
    if version != _SCHEMA_VERSION:
        raise RunMismatchError(
            f"{path} was written by another version of ragbench (journal version {version}, "
            f"this one reads {_SCHEMA_VERSION}). Use --fresh to start over"
        )


@contextmanager
def transaction(db: sqlite3.Connection) -> Generator[None]:
    """Everything that is written inside happens, or nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if db.in_transaction:  # a full disk has ended it already
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")
