"""The journal: what every stage and every metric gave for every case, written as it happens.

One SQLite file in write-ahead mode. An outcome is stored under a key made of its stage's identity
and its inputs, and never changed: a run that is started again finds what is still valid by key and
computes the rest. Old outcomes stay until the run is started afresh.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from ragbench.errors import DataError, Problem, RunError, RunMismatchError
from ragbench.records.cases import Case
from ragbench.records.cells import Cell, Status
from ragbench.records.judgements import Judgement
from ragbench.runs.codec import (
    check_text,
    decode_case,
    decode_failure,
    encode_case,
    encode_failure,
)
from ragbench.runs.fingerprint import SIZE, digest, fixed_digest
from ragbench.runs.journal_file import connect, transaction
from ragbench.runs.judgement_codec import decode_judgements, encode_judgements

__all__ = ["Journal", "StoredCase", "StoredOutcome", "output_digest"]

_STATUSES = {status.value: status for status in Status}
_NAMES = {status: status.value for status in Status}
"""Plain strings: SQLite's module takes an adapter's detour for subclasses of str."""
_BATCH = 512
_KNOWN_TEXTS = 20_000
"""Texts that are remembered as stored; of others the database finds out."""
_PLACE_CASE = (
    "INSERT INTO cases (id, body, digest, position) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (id) DO UPDATE SET body = excluded.body, digest = excluded.digest, "
    "position = excluded.position WHERE cases.position IS NULL"
)


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
    digest: bytes
    """Digest of the output, see `output_digest`."""


def output_digest(status: Status, texts: bytes, body: bytes) -> bytes:
    """Digest of what a stage gave: equal outputs need no work downstream."""
    return fixed_digest(b"%d %b %b " % (len(texts), texts, status.value.encode()), body)


class Journal:
    """The open journal of a run. Used by one thread of one process."""

    def __init__(self, path: Path) -> None:
        """Opens the journal, creating it when it does not exist.

        Raises:
            RunMismatchError: the file is no journal, or another version of ragbench wrote it.
        """
        self._path = path
        self._known_texts: set[bytes] = set()
        self._new_texts: list[tuple[bytes, str]] = []
        self._new_outcomes: list[tuple[object, ...]] = []
        self._new_cells: list[tuple[object, ...]] = []
        self._new_judgements: list[tuple[object, ...]] = []
        self._db = connect(path)
        self.was_empty = self._db.execute("SELECT 1 FROM outcomes LIMIT 1").fetchone() is None

    def __enter__(self) -> Self:
        """The journal itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes the journal; what was recorded and not yet flushed is flushed.

        Raises:
            RunError: the journal cannot be read or written: the disk is full, the file damaged.
        """
        try:
            if not isinstance(error, sqlite3.Error):
                self.flush()
        except sqlite3.Error as failed:
            error = failed
        finally:
            self._db.close()
        if isinstance(error, sqlite3.Error):
            raise RunError(f"{self._path} cannot be used: {error}") from error

    def flush(self) -> None:
        """Makes everything recorded so far survive a crash of the process."""
        texts, outcomes, cells = self._new_texts, self._new_outcomes, self._new_cells
        judgements = self._new_judgements
        if not (outcomes or cells or judgements):
            return
        with transaction(self._db):
            self._db.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", texts)
            self._db.executemany(
                "INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, ?, ?, ?, ?, ?)", outcomes
            )
            self._db.executemany("INSERT OR REPLACE INTO cells VALUES (?, ?, ?, ?, ?, ?)", cells)
            self._db.executemany(
                "INSERT OR REPLACE INTO judgements VALUES (?, ?, ?, ?)", judgements
            )
        texts.clear()
        outcomes.clear()
        cells.clear()
        judgements.clear()

    # --- cases

    def replace_cases(self, cases: Iterable[Case]) -> int:
        """Makes these the cases of the run, in this order; all of them or, on an error, none.

        Returns:
            How many there are.

        Raises:
            DataError: two cases have the same id, or a text is no valid Unicode.
        """
        with transaction(self._db):
            self._db.execute("UPDATE cases SET position = NULL WHERE position IS NOT NULL")
            count = 0
            rows = enumerate(cases, start=1)
            while batch := [_case_row(case, position) for position, case in islice(rows, _BATCH)]:
                # A case whose id already has a position in this order is not written.
                if self._db.executemany(_PLACE_CASE, batch).rowcount != len(batch):
                    raise DataError([self._repeated(batch)])
                count += len(batch)
        return count

    def _repeated(self, batch: Sequence[tuple[str, bytes, bytes, int]]) -> Problem:
        query = "SELECT position FROM cases WHERE id = ?"
        found = ((self._db.execute(query, row[:1]).fetchone()[0], row) for row in batch)
        first, row = next((first, row) for first, row in found if first != row[3])
        return Problem(
            message=f"cases {first} and {row[3]} have the same id '{row[0]}': make ids unique",
            field="id",
        )

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

    def case_count(self) -> int:
        """How many cases the run has."""
        query = "SELECT count(*) FROM cases WHERE position IS NOT NULL"
        (count,) = self._db.execute(query).fetchone()
        return int(count)

    def case_digests(self) -> Iterator[bytes]:
        """The digest of each case, in order: together they are the dataset's fingerprint."""
        for (case_digest,) in self._db.execute(
            "SELECT digest FROM cases WHERE position IS NOT NULL ORDER BY position"
        ):
            yield case_digest

    # --- stages

    def record_outcome(
        self,
        number: int,
        stage: str,
        key: bytes,
        outcome: StoredOutcome,
        texts: Iterable[tuple[bytes, str]] = (),
    ) -> None:
        """Stores what a stage gave for a case; texts that are already stored are not again.

        Args:
            number: the case's.
            stage: the stage's name.
            key: digest of all that the outcome depends on.
            outcome: what it gave.
            texts: its context texts, each behind its digest.
        """
        known = self._known_texts
        if len(known) > _KNOWN_TEXTS:
            known.clear()
        fresh = [pair for pair in texts if pair[0] not in known]
        if fresh:
            known.update([pair[0] for pair in fresh])
            self._new_texts += fresh
        status, digests, body, seconds, output = outcome
        row = (number, stage, key, _NAMES[status], digests, body, seconds, output)
        self._new_outcomes.append(row)

    def outcomes(
        self, stage: str, numbers: Sequence[int]
    ) -> dict[tuple[int, bytes], StoredOutcome]:
        """What a stage gave for these cases, by case number and key."""
        self.flush()
        rows = self._db.execute(
            "SELECT number, key, status, texts, body, seconds, digest FROM outcomes "
            f"WHERE stage = ? AND number IN ({_marks(numbers)})",
            (stage, *numbers),
        )
        return {
            (number, key): StoredOutcome(_STATUSES[status], texts, body, seconds, output)
            for number, key, status, texts, body, seconds, output in rows
        }

    def texts(self, digests: bytes) -> list[str]:
        """The texts behind digests that stand one behind the other.

        Raises:
            RunMismatchError: one of them is not there; the journal is damaged.
        """
        self.flush()
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
        self._new_cells += [
            (number, metric, key, _NAMES[cell.status], cell.value, _detail(cell))
            for number, metric, key, cell in rows
        ]

    def cells(self, numbers: Sequence[int]) -> dict[tuple[int, str, bytes], Cell]:
        """The cells of these cases, by case number, metric identity and key."""
        self.flush()
        rows = self._db.execute(
            "SELECT number, metric, key, status, value, detail FROM cells "
            f"WHERE number IN ({_marks(numbers)})",
            tuple(numbers),
        )
        return {
            (number, metric, key): _cell(status, value, detail)
            for number, metric, key, status, value, detail in rows
        }

    def record_judgements(
        self, number: int, metric: str, key: bytes, judgements: Sequence[Judgement]
    ) -> None:
        """Stores what a cell rests on, beside the cell."""
        self._new_judgements.append((number, metric, key, encode_judgements(judgements)))

    def judgements(
        self, numbers: Sequence[int]
    ) -> dict[tuple[int, str, bytes], tuple[Judgement, ...]]:
        """What the judged cells of these cases rest on, by case number, metric identity and key."""
        self.flush()
        rows = self._db.execute(
            f"SELECT number, metric, key, body FROM judgements WHERE number IN ({_marks(numbers)})",
            tuple(numbers),
        )
        return {
            (number, metric, key): decode_judgements(body) for number, metric, key, body in rows
        }


def _case_row(case: Case, position: int) -> tuple[str, bytes, bytes, int]:
    try:
        check_text(case.id)
        body = encode_case(case)
    except (ValueError, TypeError) as error:
        place = f"case {position} ({case.id!a})"
        raise DataError([Problem(message=f"{place} cannot be stored: {error}")]) from error
    return case.id, body, digest((case.id.encode(), body)), position


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


def _detail(cell: Cell) -> bytes | None:
    if cell.failure is not None:
        # An earlier stage's failure has its traceback in that stage's outcome: once is enough.
        is_own = cell.failure.stage == "score"
        return encode_failure(cell.failure if is_own else replace(cell.failure, traceback=None))
    return None if cell.reason is None else cell.reason.encode()


# Cells never change and most metrics take few values: one object serves every case.
@lru_cache(maxsize=4096)
def _cell(status: str, value: float | None, detail: bytes | None) -> Cell:
    if detail is None:
        return Cell(status=_STATUSES[status], value=value)
    if status == Status.FAILED:
        return Cell(status=Status.FAILED, failure=decode_failure(detail))
    return Cell(status=_STATUSES[status], reason=detail.decode())
