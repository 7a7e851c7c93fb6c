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
        self.number = (self._latest() or (0, False))[0]
        """The latest run's."""

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
        if not asked or self.kept("asked") != asked or self.report() is None or self.notes():
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
            latest = self._latest()
            if latest is not None and not is_new and not latest[1]:
                self.number = latest[0]
            else:
                insert = "INSERT INTO runs (started, notes) VALUES (?, ?)"
                row = (started, hidden(orjson.dumps(list(notes)).decode()))
                self.number = self._db.execute(insert, row).lastrowid or 0

    def _latest(self) -> tuple[int, bool] | None:
        query = "SELECT run, complete FROM runs ORDER BY run DESC LIMIT 1"
        row = self._db.execute(query).fetchone()
        return None if row is None else (row[0], bool(row[1]))

    @property
    def is_interrupted(self) -> bool:
        """Whether the latest run did not get to its end."""
        latest = self._latest()
        return latest is not None and not latest[1]

    def origins(self) -> dict[str, str]:
        """What the outcomes of each stage came from, as JSON."""
        return dict(self._db.execute("SELECT stage, body FROM origins"))

    def origin(self, stage: str) -> tuple[int, str] | None:
        """What a stage's outcomes came from: their generation, and the parts as JSON."""
        query = "SELECT generation, body FROM origins WHERE stage = ?"
        row = self._db.execute(query, (stage,)).fetchone()
        return None if row is None else (row[0], row[1])

    def keep_origin(self, stage: str, generation: int, body: str) -> None:
        """Stores what a stage's outcomes come from."""
        with transaction(self._db):
            row = (stage, generation, hidden(body))
            self._db.execute("INSERT OR REPLACE INTO origins VALUES (?, ?, ?)", row)

    def notes(self) -> tuple[str, ...]:
        """What the latest run asked again, and why."""
        query = "SELECT notes FROM runs WHERE run = ?"
        row = self._db.execute(query, (self.number,)).fetchone()
        return () if row is None else tuple(orjson.loads(row[0]))

    def started(self) -> dict[int, str]:
        return dict(self._db.execute("SELECT run, started FROM runs"))

    def keep_report(self, body: bytes) -> None:
        """Stores the report of the latest run, which got to its end."""
        self._db.execute("INSERT OR REPLACE INTO report VALUES (?, ?)", (self.number, body))

    def report(self) -> bytes | None:
        """What `keep_report` was given; None for a run that did not get to its end."""
        query = "SELECT body FROM report WHERE run = ?"
        row = self._db.execute(query, (self.number,)).fetchone()
        return None if row is None else bytes(row[0])

    def complete(self) -> None:
        """Says that the latest run got to its end."""
        self._db.execute("UPDATE runs SET complete = 1 WHERE run = ?", (self.number,))
