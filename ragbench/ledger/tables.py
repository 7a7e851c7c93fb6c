"""The SQLite file of a run: tables, views, version, transactions; and the runs that it holds.

The views are the documented way to read it with other programs (docs/run_folder.md): ``scores``,
``summaries``, ``causes_by_case``, ``outcomes_by_case``, ``chunks``, ``matches`` and
``judgement_steps``.

An *epoch* is one setting of a run (cases, stages, judge). Only outcomes of the present epoch are
ever shown. A run that is interrupted is continued by the next command of the same setting.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Sequence, Sized
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from pkgutil import get_data
from typing import Any

import orjson

from ragbench.errors import RunMismatchError
from ragbench.masking import hidden

_APPLICATION = 0x52414742  # "RAGB", where SQLite keeps what wrote a file
_VERSION = 7

NO_SCORES = "SELECT '' AS case_id, '' AS metric, '' AS status, 0.0 AS value, '' AS reason WHERE 0"
_SCHEMA = f"""
BEGIN IMMEDIATE;
{{}}
CREATE VIEW scores AS {NO_SCORES};
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
def transaction(
    db: sqlite3.Connection, undo: Callable[[], object] = lambda: None
) -> Generator[None]:
    """Everything that is written inside happens, or nothing; then what is remembered of it goes."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if db.in_transaction:  # a full disk has ended it already
            db.execute("ROLLBACK")
        undo()
        raise
    db.execute("COMMIT")


def marks(values: Sized) -> str:
    """A question mark for each value, as a list in a statement has them."""
    return ",".join("?" * len(values))


class RunTables:
    """The tables of runs, settings and origins of an open journal."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.epoch = int(self.kept("epoch") or 0)
        """The present setting's number; 0 before the first run."""
        latest = db.execute("SELECT run, complete, notes FROM runs ORDER BY run DESC LIMIT 1")
        row: tuple[int, int, str] = latest.fetchone() or (0, 1, "[]")
        self.number, is_complete, notes = row
        self.is_interrupted = not is_complete
        """Whether the latest run, which has that number, did not get to its end."""
        self.notes: tuple[str, ...] = tuple(orjson.loads(notes))
        """What it asked again, and why."""

    def kept(self, key: str) -> Any:
        """What is kept under a name; None where nothing is."""
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def keep(self, key: str, value: bytes | str | int) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def stands(self, asked: bytes) -> bool:
        """Whether the latest run is complete, was asked for the same, and asked nobody itself.

        What it asked another run reuses, and says so in its report.
        """
        if not asked or self.kept("asked") != asked or self.report() is None or self.notes:
            return False
        query = "SELECT 1 FROM outcomes WHERE run = ? LIMIT 1"
        return self._db.execute(query, (self.number,)).fetchone() is None

    def begin(self, setting: bytes, notes: Sequence[str] = ()) -> None:
        """Begins a run, or continues the latest one where that was interrupted."""
        # To the microsecond: by it a baseline knows whether it holds a run already.
        started = datetime.now().astimezone().isoformat(timespec="microseconds")
        with transaction(self._db):
            self._db.execute("DELETE FROM report")
            is_new = self.kept("setting") != setting
            if is_new:
                self.epoch += 1
                self.keep("setting", setting)
                self.keep("epoch", self.epoch)
            if is_new or not self.is_interrupted:
                insert = "INSERT INTO runs (started, notes) VALUES (?, ?)"
                kept = hidden(orjson.dumps(list(notes)).decode())
                self.number = self._db.execute(insert, (started, kept)).lastrowid or 0
                self.notes = tuple(orjson.loads(kept))
        self.is_interrupted = True

    def origins(self) -> dict[str, tuple[int, str]]:
        """What each stage's outcomes came from: their generation, and the parts as JSON."""
        rows = self._db.execute("SELECT stage, generation, body FROM origins")
        return {stage: (generation, body) for stage, generation, body in rows}

    def keep_origin(self, stage: str, generation: int, body: str) -> None:
        """Stores what a stage's outcomes come from."""
        with transaction(self._db):
            row = (stage, generation, hidden(body))
            self._db.execute("INSERT OR REPLACE INTO origins VALUES (?, ?, ?)", row)

    def started(self) -> dict[int, str]:
        return dict(self._db.execute("SELECT run, started FROM runs"))

    def report(self) -> bytes | None:
        """The report of the latest run; None where that did not get to its end."""
        query = "SELECT body FROM report WHERE run = ?"
        row = self._db.execute(query, (self.number,)).fetchone()
        return None if row is None else bytes(row[0])

    def complete(self, report: bytes | None = None, asked: bytes = b"") -> None:
        """Says that the latest run got to its end; the next one reuses what it asked for.

        Args:
            report: all of its report but the cases.
            asked: what the report depends on beside what is asked, see `stands`.
        """
        with transaction(self._db):
            self.keep("asked", asked)
            if report is not None:
                row = (self.number, report)
                self._db.execute("INSERT OR REPLACE INTO report VALUES (?, ?)", row)
            self._db.execute("UPDATE runs SET complete = 1 WHERE run = ?", (self.number,))
        self.is_interrupted = False
