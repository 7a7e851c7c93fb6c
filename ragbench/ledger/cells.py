"""The cells of a run in its journal: what every metric gave for every case, and what it rests on.

A metric has a number in the journal, which is its column. A case has one row with all its cells,
replaced as a whole, with a digest of what they depend on.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from ragbench.core.attribution import Attribution
from ragbench.core.matched import Matched
from ragbench.core.outcome import Cell, Judgement, Status
from ragbench.errors import ConfigError
from ragbench.ledger.codec import (
    decode_attribution,
    decode_failure,
    decode_judgements,
    decode_matched,
    encode_attribution,
    encode_failure,
    encode_judgements,
    encode_matched,
)
from ragbench.ledger.tables import NO_SCORES, marks, transaction
from ragbench.masking import hidden

_LETTERS = {status: status.value[0] for status in Status}
_BY_LETTER = {letter: status for status, letter in _LETTERS.items()}
_NO_CELL = "."
_MOST_METRICS = 400
_TABLES = ("cells", "matched", "causes", "judgements")


class CaseCells(NamedTuple):
    question: bytes
    """Digest of all that metrics depend on which read no answer."""
    answer: bytes
    """The same of those that read it."""
    cells: Sequence[Cell | None]
    """By the metric's number in the journal."""


class ScoreTables:
    """The tables of metrics, cells, matched contexts and judgements of an open journal."""

    def __init__(self, db: sqlite3.Connection, flush: Callable[[], None]) -> None:
        self._db = db
        self._flush = flush
        self.new: dict[str, dict[Any, Any]] = {table: {} for table in _TABLES}
        """What was recorded and is not written yet: by table and key the rest of the row."""
        self.compared: set[int] = set()
        """Cases whose chunks were compared with the gold, also where no stage has a row of it."""
        (self.columns,) = db.execute("SELECT count(*) FROM metrics").fetchone()
        """How many metrics the journal has."""
        self.were_empty = not self.columns
        """Whether no cell was there when it was opened."""

    def write(self, epoch: int) -> None:
        """Writes what was recorded, inside of the journal's transaction."""
        db, rows, notes = self._db, list[tuple[object, ...]](), list[tuple[int, int, bytes]]()
        new_cells, *beside = self.new.values()
        for number, (question, answer, cells) in new_cells.items():
            letters = [_NO_CELL if cell is None else _LETTERS[cell.status] for cell in cells]
            values = [None if cell is None else cell.value for cell in cells]
            rows.append((number, epoch, question, answer, "".join(letters), *values))
            for metric, cell in enumerate(cells):
                if cell is not None and cell.value is None:
                    notes.append((number, metric, _detail(cell)))
        if not self.were_empty:
            numbers = [(number,) for number in new_cells]
            db.executemany("DELETE FROM notes WHERE number = ?", numbers)
            db.executemany("DELETE FROM causes WHERE number = ?", numbers)
            matched = [(number,) for number in self.compared]
            db.executemany("DELETE FROM matched WHERE number = ?", matched)
        places = marks(range(self.columns + 5))
        db.executemany(f"INSERT OR REPLACE INTO cells VALUES ({places})", rows)
        db.executemany("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", notes)
        for table, found in zip(_TABLES[1:], beside, strict=True):
            written = [(*key, *rest) for key, rest in found.items()]
            db.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)", written)

    def numbers(self, metrics: Sequence[tuple[str, bytes, str]]) -> list[int]:
        """The number of each metric in this journal; new ones get a column."""
        known = self._metric_rows()
        missing = [metric for metric in metrics if metric[:2] not in known]
        if len(known) + len(missing) > _MOST_METRICS:
            raise ConfigError(
                f"a run folder holds at most {_MOST_METRICS} metrics, those of earlier commands "
                "included: use --fresh, or another folder"
            )
        for identity, judge, name in dict.fromkeys(missing):
            known[identity, judge] = (len(known), name)
        numbers = [known[identity, judge][0] for identity, judge, _ in metrics]
        with transaction(self._db):
            for identity, judge, name in dict.fromkeys(missing):
                number = known[identity, judge][0]
                row = (number, identity, judge, name)
                self._db.execute("INSERT INTO metrics VALUES (?, ?, ?, ?, NULL)", row)
                self._db.execute(f"ALTER TABLE cells ADD COLUMN m{number} REAL")
            self._db.execute("UPDATE metrics SET position = NULL")
            places = [(position, number) for position, number in enumerate(numbers)]
            self._db.executemany("UPDATE metrics SET position = ? WHERE metric = ?", places)
            self._db.execute("DROP VIEW scores")
            names = [name for _, _, name in metrics]
            self._db.execute(_score_view(zip(numbers, names, strict=True)))
        self.columns = len(known)
        return numbers

    def find(self, metrics: Sequence[tuple[str, bytes]]) -> list[int | None]:
        """The number of each metric, by identity and judge; None for one that is not there."""
        known = self._metric_rows()
        return [known[metric][0] if metric in known else None for metric in metrics]

    def _metric_rows(self) -> dict[tuple[str, bytes], tuple[int, str]]:
        rows = self._db.execute("SELECT metric, identity, judge, name FROM metrics ORDER BY metric")
        return {(identity, judge): (number, name) for number, identity, judge, name in rows}

    def record(
        self, number: int, cells: CaseCells, matches: Mapping[str, Matched] | None = None
    ) -> None:
        """Stores the cells of a case in place of those that are there.

        Args:
            matches: which of its chunks are relevant contexts, by stage, where that was compared.
        """
        self.new["cells"][number] = cells
        if matches is not None:
            self.compared.add(number)
            for stage, one in matches.items():
                self.new["matched"][number, stage] = (encode_matched(one),)

    def cells(self, numbers: Sequence[int]) -> dict[int, CaseCells]:
        self._flush()
        places = marks(numbers)
        notes: dict[tuple[int, int], bytes] = {
            (number, metric): detail
            for number, metric, detail in self._db.execute(
                f"SELECT number, metric, detail FROM notes WHERE number IN ({places})",
                tuple(numbers),
            )
        }
        rows = self._db.execute(f"SELECT * FROM cells WHERE number IN ({places})", tuple(numbers))
        return {
            row[0]: CaseCells(
                row[2],
                row[3],
                [
                    None
                    if letter == _NO_CELL
                    else _cell(letter, row[5 + at], notes.get((row[0], at)))
                    for at, letter in enumerate(row[4].ljust(self.columns, _NO_CELL))
                ],
            )
            for row in rows
        }

    def matched(self, numbers: Sequence[int]) -> dict[int, dict[str, Matched]]:
        """What was stored of these cases, by case number and stage; as valid as their cells."""
        self._flush()
        found: dict[int, dict[str, Matched]] = {}
        for number, stage, body in self._db.execute(
            f"SELECT number, stage, body FROM matched WHERE number IN ({marks(numbers)})",
            tuple(numbers),
        ):
            found.setdefault(number, {})[stage] = decode_matched(body)
        return found

    def record_cause(self, number: int, attribution: Attribution) -> None:
        """Stores what became of a case; its cells have to be recorded before."""
        row = (attribution.cause.value, encode_attribution(attribution))
        self.new["causes"][number,] = row

    def causes(self, numbers: Sequence[int]) -> dict[int, Attribution]:
        """What became of these cases, by case number; as valid as their cells."""
        self._flush()
        rows = self._db.execute(
            f"SELECT number, body FROM causes WHERE number IN ({marks(numbers)})", tuple(numbers)
        )
        return {number: decode_attribution(body) for number, body in rows}

    def record_judgements(self, number: int, metric: int, judgements: Sequence[Judgement]) -> None:
        """Stores what a cell rests on, beside the cell."""
        self.new["judgements"][number, metric] = (encode_judgements(judgements),)

    def judgements(self, numbers: Sequence[int]) -> dict[tuple[int, int], tuple[Judgement, ...]]:
        """What the judged cells of these cases rest on, by case number and metric."""
        self._flush()
        rows = self._db.execute(
            f"SELECT number, metric, body FROM judgements WHERE number IN ({marks(numbers)})",
            tuple(numbers),
        )
        return {(number, metric): decode_judgements(body) for number, metric, body in rows}


def _detail(cell: Cell) -> bytes:
    if cell.failure is not None:
        # An earlier stage's failure has its traceback in that stage's outcome: once is enough.
        is_own = cell.failure.stage == "score"
        return encode_failure(cell.failure if is_own else replace(cell.failure, traceback=None))
    return hidden(cell.reason or "").encode()


# Cells never change and most metrics take few values: one object serves every case.
@lru_cache(maxsize=4096)
def _cell(letter: str, value: float | None, detail: bytes | None) -> Cell:
    status = _BY_LETTER[letter]
    if detail is None:
        return Cell(status=status, value=value)
    if status is Status.FAILED:
        return Cell(status=Status.FAILED, failure=decode_failure(detail))
    return Cell(status=status, reason=detail.decode())


def _score_view(metrics: Iterable[tuple[int, str]]) -> str:
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
    return f"CREATE VIEW scores AS {' UNION ALL '.join(parts) or NO_SCORES}"
