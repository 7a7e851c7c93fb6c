"""The SQLite file of a run: tables, views, version, transactions.

The views are the documented way to read it with other programs (docs/run_folder.md): ``scores``,
``summaries``, ``causes_by_case``, ``outcomes_by_case``, ``chunks``, ``matches`` and
``judgement_steps``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterable, Sized
from contextlib import closing, contextmanager
from pathlib import Path
from pkgutil import get_data

from ragbench.errors import RunMismatchError

_APPLICATION = 0x52414742  # "RAGB", where SQLite keeps what wrote a file
_VERSION = 7

_NO_SCORES = "SELECT '' AS case_id, '' AS metric, '' AS status, 0.0 AS value, '' AS reason WHERE 0"
_SCHEMA = f"""
BEGIN IMMEDIATE;
{{}}
CREATE VIEW scores AS {_NO_SCORES};
PRAGMA application_id={_APPLICATION};
PRAGMA user_version={_VERSION};
COMMIT;
"""
"""Around what ``tables.sql`` holds."""


@contextmanager
def read_only(path: Path) -> Generator[sqlite3.Connection]:
    """A journal that may lie where nothing can be written.

    Where nobody has it open, it is read as one that does not change: else SQLite would leave files
    of its own beside it.
    """
    still = "" if path.with_name(f"{path.name}-wal").exists() else "&immutable=1"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro{still}", uri=True)) as db:
            _check_version(db, path)
            yield db
    except sqlite3.Error as error:
        raise RunMismatchError(f"{path} cannot be read as a journal: {error}") from error


def connect(path: Path | None) -> sqlite3.Connection:
    """Opens a journal's file, creating it when it does not exist."""
    try:
        db = sqlite3.connect(path or ":memory:", isolation_level=None, cached_statements=256)
    except sqlite3.Error as error:
        raise RunMismatchError(f"{path} cannot be opened: {error}") from error
    try:
        _check_version(db, path)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")  # a crash of the machine may cost the last seconds
        db.execute("PRAGMA cache_size=-8000")
        if db.execute("PRAGMA user_version").fetchone() == (0,):
            tables = get_data("ragbench.ledger", "tables.sql") or b""
            db.executescript(_SCHEMA.format(tables.decode()))
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


def _check_version(db: sqlite3.Connection, path: Path | None) -> None:
    # One statement sees one moment: another process may be making the file just now.
    application, version, tables = db.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
        "FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    if (application, version, tables) == (0, 0, 0):
        return  # new
    if application != _APPLICATION:
        raise RunMismatchError(f"{path} is not a journal of ragbench: something else wrote it")
    if version != _VERSION:
        raise RunMismatchError(
            f"{path} was written by another version of ragbench (journal version {version}, "
            f"this one reads {_VERSION}): use --fresh to evaluate again in this folder"
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


def marks(values: Sized) -> str:
    """A question mark for each value, as a list in a statement has them."""
    return ",".join("?" * len(values))


def score_view(metrics: Iterable[tuple[int, str]]) -> str:
    """The statement that makes the view ``scores`` over the columns of these metrics."""
    parts = [
        f"SELECT cases.id AS case_id, '{name}' AS metric, "
        f"CASE substr(cells.status, {number + 1}, 1) WHEN 'm' THEN 'measured' "
        f"WHEN 'a' THEN 'abstained' WHEN 's' THEN 'skipped' WHEN 'u' THEN 'unproved' "
        f"ELSE 'failed' END AS status, cells.m{number} AS value, "
        f"CAST(notes.detail AS TEXT) AS reason "
        f"FROM cells JOIN cases ON cases.number = cells.number "
        f"LEFT JOIN notes ON notes.number = cells.number AND notes.metric = {number} "
        f"WHERE cases.position IS NOT NULL "
        f"AND cells.epoch = (SELECT value FROM meta WHERE key = 'epoch') "
        f"AND substr(cells.status, {number + 1}, 1) NOT IN ('.', '')"
        for number, name in ((number, name.replace("'", "''")) for number, name in metrics)
    ]
    return f"CREATE VIEW scores AS {' UNION ALL '.join(parts) or _NO_SCORES}"
