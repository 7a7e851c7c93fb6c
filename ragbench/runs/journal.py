"""The journal: what every stage and every metric gave for every case, written as it happens.

One SQLite file in write-ahead mode. An outcome is stored under a key made of its stage's identity
and its inputs, and never changed: a run that is started again finds what is still valid by key and
computes the rest. Old outcomes stay until the run is started afresh.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from ragbench.errors import RunMismatchError
from ragbench.records.cases import Case
from ragbench.records.cells import Cell, Status
from ragbench.runs.codec import decode_case, decode_failure, encode_case, encode_failure
from ragbench.runs.fingerprint import SIZE, digest

__all__ = ["Journal", "StoredCase", "StoredOutcome"]

_SCHEMA_VERSION = 1
_STATUSES = {status.value: status for status in Status}

_SCHEMA = """
CREATE TABLE IF NOT EXISTS cases (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    position INTEGER UNIQUE,  -- NULL: not among the cases of the latest command
    digest BLOB NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS texts (
    digest BLOB PRIMARY KEY,
    text TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS outcomes (
    number INTEGER NOT NULL,
    stage TEXT NOT NULL,
    key BLOB NOT NULL,
    status TEXT NOT NULL,
    texts BLOB NOT NULL,
    body BLOB NOT NULL,
    seconds REAL,
    PRIMARY KEY (number, stage, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cells (
    number INTEGER NOT NULL,
    metric TEXT NOT NULL,
    key BLOB NOT NULL,
    status TEXT NOT NULL,
    value REAL,
    detail BLOB,
    PRIMARY KEY (number, metric, key)
) WITHOUT ROWID;
"""


class StoredCase(NamedTuple):
    """A case of the latest command, in its order."""

    number: int
    """Stays the same for a case id as long as the journal lives."""
    digest: bytes
    case: Case


class StoredOutcome(NamedTuple):
    """What a stage gave for a case."""

    status: Status
    texts: bytes
    """Digests of its context texts, one behind the other."""
    body: bytes
    """Encoded result, failure or reason, by status."""
    seconds: float | None

    @property
    def digest(self) -> bytes:
        """Digest of the output: equal outputs need no work downstream."""
        return digest((self.status.value.encode(), self.texts, self.body))


class Journal:
    """The open journal of a run. Used by one thread of one process."""

    def __init__(self, path: Path) -> None:
        """Opens the journal, creating it when it does not exist.

        Raises:
            RunMismatchError: the file is no journal, or another version of ragbench wrote it.
        """
        self._db = sqlite3.connect(path, isolation_level=None)
        self._known_texts: set[bytes] = set()
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute("PRAGMA cache_size=-32000")
            self._check_version(path)
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise RunMismatchError(f"{path} is not a journal of ragbench: {error}") from error
        except RunMismatchError:
            self._db.close()
            raise
        self.was_empty = self._db.execute("SELECT 1 FROM outcomes LIMIT 1").fetchone() is None

    def _check_version(self, path: Path) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version not in (0, _SCHEMA_VERSION):
            raise RunMismatchError(
                f"{path} was written by another version of ragbench (journal version {version}, "
                f"this one reads {_SCHEMA_VERSION}). Use --fresh to start over"
            )
        if version == 0:
            self._db.executescript(_SCHEMA)
            self._db.execute(f"PRAGMA user_version={_SCHEMA_VERSION}")

    def __enter__(self) -> Self:
        """The journal itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes the journal; what was recorded and not yet flushed is flushed."""
        self.flush()
        self._db.close()

    def flush(self) -> None:
        """Makes everything recorded so far survive a crash of the process."""
        if self._db.in_transaction:
            self._db.execute("COMMIT")

    def _begin(self) -> None:
        if not self._db.in_transaction:
            self._db.execute("BEGIN")

    # --- cases

    def replace_cases(self, cases: Iterable[Case]) -> int:
        """Makes these the cases of the run, in this order; all of them or, on an error, none.

        Returns:
            How many there are.
        """
        self.flush()
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.execute("UPDATE cases SET position = NULL")
            count = 0
            for count, case in enumerate(cases, start=1):
                body = encode_case(case)
                self._db.execute(
                    "INSERT INTO cases (id, position, digest, body) VALUES (?, ?, ?, ?) "
                    "ON CONFLICT (id) DO UPDATE SET position = excluded.position, "
                    "digest = excluded.digest, body = excluded.body",
                    (case.id, count, digest((case.id.encode(), body)), body),
                )
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")
        return count

    def cases(self, *, window: int = 512) -> Iterator[list[StoredCase]]:
        """The run's cases in order, a window at a time."""
        last = 0
        while rows := self._db.execute(
            "SELECT number, id, position, digest, body FROM cases "
            "WHERE position > ? ORDER BY position LIMIT ?",
            (last, window),
        ).fetchall():
            yield [
                StoredCase(number, case_digest, decode_case(case_id, body))
                for number, case_id, _, case_digest, body in rows
            ]
            last = rows[-1][2]

    def case_digests(self) -> Iterator[bytes]:
        """The digest of each case, in order: together they are the dataset's fingerprint."""
        for (case_digest,) in self._db.execute(
            "SELECT digest FROM cases WHERE position IS NOT NULL ORDER BY position"
        ):
            yield case_digest

    # --- stages

    def record_outcome(
        self, number: int, stage: str, key: bytes, outcome: StoredOutcome, texts: Sequence[str]
    ) -> None:
        """Stores what a stage gave for a case; texts that are already stored are not again."""
        self._begin()
        known = self._known_texts
        digests = [outcome.texts[at : at + SIZE] for at in range(0, len(outcome.texts), SIZE)]
        fresh = [pair for pair in zip(digests, texts, strict=True) if pair[0] not in known]
        if fresh:
            if len(known) > 100_000:
                known.clear()
            known.update(pair[0] for pair in fresh)
            self._db.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", fresh)
        self._db.execute(
            "INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, ?, ?, ?, ?)",
            (number, stage, key, outcome.status, outcome.texts, outcome.body, outcome.seconds),
        )

    def outcomes(
        self, stage: str, numbers: Sequence[int]
    ) -> dict[tuple[int, bytes], StoredOutcome]:
        """What a stage gave for these cases, by case number and key."""
        rows = self._db.execute(
            "SELECT number, key, status, texts, body, seconds FROM outcomes "
            f"WHERE stage = ? AND number IN ({_marks(numbers)})",
            (stage, *numbers),
        )
        return {(row[0], row[1]): StoredOutcome(_STATUSES[row[2]], *row[3:]) for row in rows}

    def texts(self, digests: bytes) -> list[str]:
        """The texts behind digests that stand one behind the other.

        Raises:
            RunMismatchError: one of them is not there; the journal is damaged.
        """
        found: list[str] = []
        for at in range(0, len(digests), SIZE):
            row = self._db.execute(
                "SELECT text FROM texts WHERE digest = ?", (digests[at : at + SIZE],)
            ).fetchone()
            if row is None:
                raise RunMismatchError(
                    "the journal lacks a context text. Use --fresh to start over"
                )
            found.append(row[0])
        return found

    # --- metrics

    def record_cells(self, rows: Iterable[tuple[int, str, bytes, Cell]]) -> None:
        """Stores cells: case number, metric identity, key, cell."""
        self._begin()
        self._db.executemany(
            "INSERT OR REPLACE INTO cells VALUES (?, ?, ?, ?, ?, ?)",
            (
                (number, metric, key, cell.status, cell.value, _detail(cell))
                for number, metric, key, cell in rows
            ),
        )

    def cells(self, numbers: Sequence[int]) -> dict[tuple[int, str, bytes], Cell]:
        """The cells of these cases, by case number, metric identity and key."""
        rows = self._db.execute(
            "SELECT number, metric, key, status, value, detail FROM cells "
            f"WHERE number IN ({_marks(numbers)})",
            tuple(numbers),
        )
        return {(row[0], row[1], row[2]): _cell(*row[3:]) for row in rows}


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


def _detail(cell: Cell) -> bytes | None:
    if cell.failure is not None:
        return encode_failure(cell.failure)
    return None if cell.reason is None else cell.reason.encode()


def _cell(status: str, value: float | None, detail: bytes | None) -> Cell:
    if detail is None:
        return Cell(status=_STATUSES[status], value=value)
    if status == Status.FAILED:
        return Cell(status=Status.FAILED, failure=decode_failure(detail))
    return Cell(status=_STATUSES[status], reason=detail.decode())
