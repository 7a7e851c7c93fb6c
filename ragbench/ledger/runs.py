"""The runs of a journal: their settings, when they began, what their outcomes came from.

An *epoch* is one setting of a run (cases, stages, judge). Only outcomes of the present epoch are
ever shown. A run that is interrupted is continued by the next command of the same setting.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson

from ragbench.ledger.tables import transaction
from ragbench.masking import hidden


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
