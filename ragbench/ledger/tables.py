"""The SQLite file of a run: tables, views, version, transactions; its runs and its cells.

The views are the documented way to read it with other programs (docs/run_folder.md): ``scores``,
``summaries``, ``causes_by_case``, ``outcomes_by_case``, ``chunks``, ``matches`` and
``judgement_steps``.

An *epoch* is one setting of a run (cases, stages, judge). Only outcomes of the present epoch are
ever shown. A run that is interrupted is continued by the next command of the same setting.

A metric has a number in the journal, which is its column. A case has one row with all its cells,
replaced as a whole, with a digest of what they depend on.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence, Sized
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from pkgutil import get_data
from typing import Any, NamedTuple

import orjson

from ragbench.core.attribution import Attribution
from ragbench.core.matched import Matched
from ragbench.core.origin import Origin
from ragbench.core.outcome import Cell, Failure, Judgement, Status
from ragbench.core.reading import Reading, is_of_the_system, words_of
from ragbench.errors import ConfigError, RunError, RunMismatchError
from ragbench.ledger.codec import decoded, encode_judgements, encoded
from ragbench.ledger.fingerprint import digest
from ragbench.masking import hidden
from ragbench.private_files import make_private_file

_APPLICATION = 0x52414742  # "RAGB", where SQLite keeps what wrote a file
_VERSION = 8
"""Of the tables: a journal of another version is refused, and never changed."""

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


class OtherVersionError(RunMismatchError):
    """A journal of another version of ragbench: it is in order, and this version cannot read it."""


@contextmanager
def read_only(path: Path) -> Generator[sqlite3.Connection]:
    """Opens a journal to read it, also where nothing can be written, and checks its version.

    Reports and comparisons read a run, and must not change it.

    Raises:
        RunMismatchError: the file is no journal, is damaged, or is another version's.
    """
    with reading_journal(path), closing(sqlite3.connect(_to_read(path), uri=True)) as db:
        _check_version(db, path)
        yield db


def reading_journal(path: Path | None) -> Reading:
    """A context in which a journal, or anything stored in it, is read.

    A damaged page makes SQLite raise, or gives it a value that no decoder takes: either becomes an
    error that a user can act on.

    Args:
        path: named in the error; None for a journal in memory.
    """
    return Reading(partial(journal_error, path))


def journal_error(path: Path | None, error: Exception) -> RunError:
    """The error of a journal that is damaged, foreign or not allowed, with the remedy.

    Each cause has another remedy, and nothing of a user's run may be overwritten by mistake.
    """
    # Rights and full disks first: the file itself may be in order.
    if is_of_the_system(error):
        return RunMismatchError(f"{path} cannot be used: {words_of(error)}")
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
        return RunMismatchError(f"{path} is not a journal of ragbench: {words_of(error)}")
    return RunMismatchError(
        f"{path} is damaged: {words_of(error)}. Nothing that it holds was overwritten. Restore the "
        "file from a copy, or use --fresh to start over"
    )


def _to_read(path: Path) -> str:
    """The address by which SQLite opens a journal only to read it.

    Where no process has it open, it is read as a file that does not change: else SQLite would leave
    files of its own beside it, or fail in a folder that cannot be written to.
    """
    address = f"{path.absolute().as_uri()}?mode=ro"
    # SQLite removes its log when the last process closes the file.
    has_open_log = path.with_name(f"{path.name}-wal").exists()
    if has_open_log:
        return address
    return f"{address}&immutable=1"


def connect(path: Path | None) -> sqlite3.Connection:
    """Opens a journal, creating it when it does not exist, with the settings that a run needs.

    A journal in a folder that cannot be written to is opened to be read.

    Args:
        path: None for a journal in memory, which goes with the process.
    """
    # An address of SQLite's is a text, a file a Path: `uri` below tells by it.
    place: Path | str = path or ":memory:"
    if path is not None and path.is_file() and not os.access(path.parent, os.W_OK):
        place = _to_read(path)
    with reading_journal(path), ExitStack() as opened:
        if path is not None and place == path:
            make_private_file(path)
        # Without an isolation level, transactions begin only where `transaction` begins them.
        db = sqlite3.connect(
            place, isolation_level=None, cached_statements=256, uri=isinstance(place, str)
        )
        opened.callback(db.close)
        # A file without content is new.
        if path is not None and path.is_file() and path.stat().st_size:
            _check_version(db, path)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")  # a crash of the machine may cost the last seconds
        db.execute("PRAGMA cache_size=-8000")  # below zero: kilobytes
        # 0 where no table was made yet: another process may have been faster until here.
        if db.execute("PRAGMA user_version").fetchone() == (0,):  # new
            tables = get_data("ragbench.ledger", "tables.sql") or b""
            db.executescript(_SCHEMA.format(tables.decode()))
        # From here on the caller closes it.
        opened.pop_all()
    return db


def _check_version(db: sqlite3.Connection, path: Path | None) -> None:
    """Refuses a file that is no journal, or one of another version, before anything is written.

    To write tables of one version into a file of another would destroy the run.

    Raises:
        RunMismatchError: another program wrote the file.
        OtherVersionError: another version of ragbench wrote it.
    """
    # One statement sees one moment: another process may be making the file just now.
    application, version, tables = db.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
        "FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    if (application, version, tables) == (0, 0, 0):
        # Made, and not filled by anybody yet.
        return  # new
    if application != _APPLICATION:
        raise RunMismatchError(f"{path} is not a journal of ragbench: something else wrote it")
    if version != _VERSION:
        raise OtherVersionError(
            f"{path} was written by another version of ragbench (journal version {version}, "
            f"this one reads {_VERSION}): use --fresh to evaluate again in this folder"
        )


@contextmanager
def transaction(
    db: sqlite3.Connection, undo: Callable[[], object] = lambda: None
) -> Generator[None]:
    """A context in which all writes to a database happen, or none does.

    Inside of another transaction it is a part of that: SQLite has one at a time.

    A crash between two writes would leave cells without the outcomes that they rest on.

    Args:
        undo: called where the writes are undone, to undo their traces in memory, too.
    """
    # The outer one commits, or undoes both.
    is_inside_another = db.in_transaction
    if is_inside_another:
        yield
        return
    # IMMEDIATE: a second writer waits at the beginning, and not at its first write.
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if db.in_transaction:  # a full disk has ended it already
            db.execute("ROLLBACK")
        # After the rows are gone, so that memory and file agree again.
        undo()
        raise
    db.execute("COMMIT")


def marks(values: Sized) -> str:
    """A question mark for each value, joined by commas, as a list of values in an SQL statement.

    Values are never put into a statement as text, which would let them change it.
    """
    return ",".join("?" * len(values))


class RunTables:
    """The tables of runs, settings and origins of an open journal."""

    def __init__(self, db: sqlite3.Connection, reading: Reading) -> None:
        """Reads the present setting of the run, and how far its latest command came.

        A command decides by them whether it continues a run or begins one.

        Args:
            reading: the context in which what is stored is decoded.
        """
        self._db = db
        self._reading = reading
        self.kept: dict[str, Any] = dict(db.execute("SELECT key, value FROM meta"))
        """Facts of the journal that `keep` stored, by name, such as the epoch."""
        self.epoch = int(self.kept.get("epoch", 0))
        """The present setting's number; 0 before the first run."""
        latest = db.execute("SELECT run, complete, notes FROM runs ORDER BY run DESC LIMIT 1")
        # Before the first run: number 0, complete, without notes.
        row: tuple[int, int, str] = latest.fetchone() or (0, 1, "[]")
        self.number, is_complete, notes = row
        # A run is interrupted as well where its report and other files ("unwritten") are missing:
        # a disk may have failed, or the process ended, while they were written.
        self.is_interrupted = not is_complete or self.kept.get("unwritten") == self.number
        """Whether the latest run, whose number is `number`, did not get to its end."""
        self.notes: tuple[str, ...] = tuple(orjson.loads(notes))
        """Which outcomes the latest run asked for again, though some were stored, and why."""

    def keep(self, **values: bytes | str | int) -> None:
        """Stores values under their names for later commands; `kept` holds them in memory.

        Names are a stored form: a renamed value is not found again.
        """
        self._db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())
        self.kept |= values

    def stands(self, asked: bytes) -> bool:
        """Whether the latest run's report is still right, so that nothing needs to be done.

        The report is right where the run is complete, was asked for the same, and asked no system
        itself: a run that did would now reuse its outcomes, and have a report that says so.

        Args:
            asked: a digest of all that the report depends on; empty to never stand.
        """
        # The cheap tests come first: most runs end here.
        if not asked or self.kept.get("asked") != asked:
            return False
        if self.report() is None or self.notes:
            return False
        # An outcome with the latest run's number is one that this run asked for.
        query = "SELECT 1 FROM outcomes WHERE run = ? LIMIT 1"
        return self._db.execute(query, (self.number,)).fetchone() is None

    def begin(self, setting: bytes, notes: Sequence[str] = ()) -> None:
        """Begins a run, or continues the latest one where it was interrupted.

        With another setting, cases, stages or judge are others: earlier outcomes are not shown any
        more.

        Args:
            setting: a digest of cases, stages and judge: with another one an epoch begins.
            notes: what is asked again, and why.
        """
        # To the microsecond: by it a baseline knows whether it holds a run already.
        started = datetime.now().astimezone().isoformat(timespec="microseconds")
        with transaction(self._db):
            # The report is of a complete run: from here on it is none.
            self._db.execute("DELETE FROM report")
            is_new = self.kept.get("setting") != setting
            if is_new:
                self.epoch += 1
                self.keep(setting=setting, epoch=self.epoch)
            # A new setting, or a finished run: another run begins.
            if is_new or not self.is_interrupted:
                insert = "INSERT INTO runs (started, notes) VALUES (?, ?)"
                masked_notes = hidden(orjson.dumps(list(notes)).decode())
                self.number = self._db.execute(insert, (started, masked_notes)).lastrowid or 0
                self.notes = tuple(orjson.loads(masked_notes))
            else:
                # An interrupted run of the same setting keeps its number.
                update = "UPDATE runs SET complete = 0 WHERE run = ?"
                self._db.execute(update, (self.number,))
        self.is_interrupted = True

    def origins(self) -> dict[str, tuple[int, str]]:
        """By stage, the origin of its outcomes: their generation, and their parts as JSON.

        An origin lists what outcomes depend on: they are reused while all of it is unchanged.
        """
        rows = self._db.execute("SELECT stage, generation, body FROM origins")
        return {stage: (generation, body) for stage, generation, body in rows}

    def keep_origin(self, origin: Origin, generation: int) -> None:
        """Stores the origin of a stage's outcomes: the files and settings that they depend on.

        The next command compares them with the present, before it reuses the outcomes.

        Args:
            generation: a number that grows each time that the stage's outcomes are asked for anew.
        """
        body = json.dumps(origin._asdict())  # a path may be no UTF-8
        with transaction(self._db):
            row = (origin.stage, generation, hidden(body))
            self._db.execute("INSERT OR REPLACE INTO origins VALUES (?, ?, ?)", row)

    def started(self) -> dict[int, str]:
        """By the number of each run in the journal, the time when it began, in local time.

        Reports name by it when reused outcomes were asked for.
        """
        return dict(self._db.execute("SELECT run, started FROM runs"))

    def report(self) -> bytes | None:
        """The report of the latest run as JSON; None where the run did not get to its end.

        A later command shows it again without counting the outcomes.
        """
        query = "SELECT body FROM report WHERE run = ?"
        with self._reading:
            row = self._db.execute(query, (self.number,)).fetchone()
            if row is None:
                return None
            # SQLite keeps whatever type a damaged cell has: this raises for a text.
            return bytes(row[0])

    def complete(
        self, report: bytes | None = None, asked: bytes = b"", *, has_files: bool = False
    ) -> None:
        """Marks the latest run as complete: the next run reuses its outcomes.

        Until then the run counts as interrupted, and the next command continues it.

        Args:
            report: all of its report but the cases.
            asked: what the report depends on beside what is asked, see `stands`.
            has_files: whether files of the report are still to be written: until `written`, the
                next command goes on with this run.
        """
        # The number of the run whose files are still to be written; 0 for none.
        unwritten = 0
        if has_files:
            unwritten = self.number
        with transaction(self._db):
            # In one transaction with the mark: a kill leaves all of it or none.
            self.keep(asked=asked, unwritten=unwritten)
            if report is not None:
                row = (self.number, report)
                self._db.execute("INSERT OR REPLACE INTO report VALUES (?, ?)", row)
            self._db.execute("UPDATE runs SET complete = 1 WHERE run = ?", (self.number,))
        self.is_interrupted = False

    def written(self, state: str) -> None:
        """Marks the files of the latest run's report as written.

        Until then a later command takes the run for interrupted, and writes its files again.

        Args:
            state: a fingerprint of them, by which a later command knows them again.
        """
        with transaction(self._db):
            self.keep(written=state, unwritten=0)


# --- cells: what every metric gave for every case, and what it rests on

_LETTER_OF_STATUS = {status: status.value[0] for status in Status}
_STATUS_BY_LETTER = {letter: status for status, letter in _LETTER_OF_STATUS.items()}
_NO_CELL = "."
"""The letter of a metric that gave a case no cell."""
_CELL_COLUMNS = 6
"""Columns of the table of cells before those of the metrics: number, epoch, question, answer,
status and notes."""
_MAX_METRICS = 400
"""Each has a column; SQLite limits how many there may be."""
_METRICS = "SELECT identity, judge, metric FROM metrics"
_TABLES_BESIDE = ("matched", "causes", "judgements")
"""What is stored beside the cells, in this order."""
_METRIC_SCORES = (
    "SELECT cases.id AS case_id, '{name}' AS metric, "
    "CASE substr(cells.status, {place}, 1) WHEN 'm' THEN 'measured' "
    "WHEN 'a' THEN 'abstained' WHEN 's' THEN 'skipped' WHEN 'u' THEN 'unproved' "
    "ELSE 'failed' END AS status, cells.m{number} AS value, "
    "CAST(notes.detail AS TEXT) AS reason "
    "FROM cells JOIN cases ON cases.number = cells.number "
    "LEFT JOIN notes ON notes.digest = cells.notes AND notes.metric = {number} "
    "WHERE cases.position IS NOT NULL "
    "AND cells.epoch = (SELECT value FROM meta WHERE key = 'epoch') "
    "AND substr(cells.status, {place}, 1) NOT IN ('.', '')"
)
"""What the view ``scores`` has of a metric."""


class CaseCells(NamedTuple):
    """A stored case's cells, with digests of what they rest on."""

    question: bytes
    """Digest of all that metrics depend on which read no answer."""
    answer: bytes
    """The same of those that read it."""
    cells: Sequence[Cell | None]
    """By the metric's number in the journal; None where the metric gave the case none."""


class ScoreTables:
    """The tables of metrics, cells, matched contexts and judgements of an open journal.

    New rows are held back until `write`; ``flush`` has the journal write them before it reads.
    """

    def __init__(self, db: sqlite3.Connection, flush: Callable[[], None], reading: Reading) -> None:
        """Takes over the open journal's tables of cells, and counts its metrics.

        A cell is a metric's result for a case: a value, or why there is none.

        Args:
            flush: has the journal write what waits; called before rows are read.
            reading: the context in which stored rows are decoded.
        """
        self._db = db
        """The connection of the journal, which opens and closes it."""
        self._flush = flush
        """Has the journal write the rows that wait in memory."""
        self._reading = reading
        """The context in which stored rows are decoded."""
        self.new: dict[str, dict[Any, Any]] = {table: {} for table in ("cells", *_TABLES_BESIDE)}
        """Rows that are not written yet: by table, and by key the rest of the row."""
        self.compared: set[int] = set()
        """Cases whose chunks were compared with the gold, also those in which none matched.

        Matches that an earlier run stored of these cases are deleted before new ones are written.
        """
        (self.columns,) = db.execute("SELECT count(*) FROM metrics").fetchone()
        """How many metrics the journal has."""
        self.were_empty = not self.columns
        """Whether the journal had no metric, and so no cell, when it was opened."""

    def write(self, epoch: int) -> None:
        """Writes all recorded cells, causes, matches and judgements, in the journal's transaction.

        The waiting rows stay in `new`: the journal empties it once the transaction has succeeded.

        A cell is a metric's result for a case; causes, matches and judgements explain it.

        Args:
            epoch: the number of the run's present setting, for which the new cells hold; cells of
                earlier ones are not shown any more.
        """
        db = self._db
        new_cells: dict[int, CaseCells] = self.new["cells"]
        # A journal that is new has nothing to delete.
        if not self.were_empty:
            # A new row replaces one of the same key. But a case may now have fewer matched contexts
            # than before, and no cause: those go first.
            rescored = [(number,) for number in new_cells]
            db.executemany("DELETE FROM causes WHERE number = ?", rescored)
            compared = [(number,) for number in self.compared]
            db.executemany("DELETE FROM matched WHERE number = ?", compared)
        rows: list[tuple[object, ...]] = []
        notes = _NewNotes()
        for number, (question, answer, cells) in new_cells.items():
            letters = [
                _NO_CELL if cell is None else _LETTER_OF_STATUS[cell.status] for cell in cells
            ]
            values = [None if cell is None else cell.value for cell in cells]
            digest_of_notes = notes.add(cells)
            rows.append(
                (number, epoch, question, answer, "".join(letters), digest_of_notes, *values)
            )
        # As many as columns: metrics of earlier commands have theirs as well.
        question_marks = ",".join("?" * (_CELL_COLUMNS + self.columns))
        db.executemany(f"INSERT OR REPLACE INTO cells VALUES ({question_marks})", rows)
        # Notes with the same digest are the same.
        db.executemany("INSERT OR IGNORE INTO notes VALUES (?, ?, ?)", notes.rows)
        for table in _TABLES_BESIDE:
            # Each has a key of two columns, or of one and a body of two.
            rows = [(*key, *body) for key, body in self.new[table].items()]
            db.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)", rows)

    def numbers(self, metrics: Sequence[tuple[str, bytes, str]]) -> list[int]:
        """The number of each metric in this journal, which names its column; new ones get one.

        Metrics of earlier commands keep their numbers and cells, so that they can be used again.

        Args:
            metrics: of each its identity, what its cells depend on beside the case, and its name.
        """
        # Metrics that the journal knows keep their numbers, also those that are measured no more.
        numbers_of = self._stored_metrics()
        # Each once, in the order of the command; the name plays no part.
        missing = dict.fromkeys(metric for metric in metrics if metric[:2] not in numbers_of)
        if len(numbers_of) + len(missing) > _MAX_METRICS:
            raise ConfigError(
                f"a run folder holds at most {_MAX_METRICS} metrics, those of earlier commands "
                "included: use --fresh, or another folder"
            )
        with transaction(self._db):
            for identity, judge, name in missing:
                number = len(numbers_of)
                numbers_of[identity, judge] = number
                # NULL: the column's position is set below, with those of all this command's
                # metrics.
                row = (number, identity, judge, name)
                self._db.execute("INSERT INTO metrics VALUES (?, ?, ?, ?, NULL)", row)
                # A number, never a name, so that no metric's name gets into a statement.
                self._db.execute(f"ALTER TABLE cells ADD COLUMN m{number} REAL")
            numbers = [numbers_of[identity, judge] for identity, judge, _ in metrics]
            # Only metrics of this command have a position.
            self._db.execute("UPDATE metrics SET position = NULL")
            positions = enumerate(numbers)
            self._db.executemany("UPDATE metrics SET position = ? WHERE metric = ?", positions)
            self._view_scores(numbers, [name for _, _, name in metrics])
        self.columns = len(numbers_of)
        return numbers

    def _stored_metrics(self) -> dict[tuple[str, bytes], int]:
        """The number of each metric in the journal, by its identity and its judge.

        Cells of another formula or another judge belong to another metric.

        A cell is a metric's result for a case.
        """
        rows = self._db.execute(_METRICS)
        return {(identity, judge): number for identity, judge, number in rows}

    def _view_scores(self, numbers: Sequence[int], names: Sequence[str]) -> None:
        """Makes the view ``scores`` anew, with a part for each of the run's metrics.

        The view is documented: users read the journal by it with other programs.

        Args:
            numbers: of the metrics in the journal.
            names: of the same metrics.
        """
        parts: list[str] = []
        for number, name in zip(numbers, names, strict=True):
            # The only text of a user's in a statement: quotes in it are doubled.
            quoted = name.replace("'", "''")
            # Letters are counted from 1 in SQL, metrics from 0.
            parts.append(_METRIC_SCORES.format(number=number, place=number + 1, name=quoted))
        self._db.execute("DROP VIEW scores")
        self._db.execute(f"CREATE VIEW scores AS {' UNION ALL '.join(parts) or _NO_SCORES}")

    def find(self, metrics: Sequence[tuple[str, bytes]]) -> list[int | None]:
        """The numbers of metrics in the journal; None for a metric that it does not have.

        A reader of a stored run looks its metrics up so, without changing the journal.

        Args:
            metrics: each as its identity and a digest of its judge.
        """
        numbers_of = self._stored_metrics()
        return [numbers_of.get(metric) for metric in metrics]

    def record(
        self,
        number: int,
        cells: CaseCells | None = None,
        matches: Mapping[str, Matched] | None = None,
        *,
        cause: Attribution | None = None,
    ) -> None:
        """Records a case's cells, matches and cause, in place of those that are stored.

        A cell is a metric's result for a case. All three wait in memory, and are written by the
        journal's next flush.

        Args:
            cells: None to leave those that are stored.
            matches: which of its chunks are relevant contexts, by stage; None where not compared.
            cause: why the case went right or wrong; its cells have to be recorded before.
        """
        if cells is not None:
            self.new["cells"][number] = cells
        if matches is not None:
            # Also where nothing matched: earlier matches must go.
            self.compared.add(number)
            for stage, matched in matches.items():
                self.new["matched"][number, stage] = (encoded(matched),)
        if cause is not None:
            # A tuple of one: the key of a case without anything beside it.
            self.new["causes"][number,] = (cause.cause.value, encoded(cause))

    def cells(self, numbers: Sequence[int]) -> dict[int, CaseCells]:
        """The stored cells of some cases by case number, with digests of all that they depend on.

        By these digests the caller decides whether the cells still hold.

        A cell is a metric's result for a case.
        """
        cells_of: dict[int, CaseCells] = {}
        with self._reading:
            # Read to the end: another query follows on the same connection.
            rows = self._rows_of_cases("cells", numbers).fetchall()
            details = self._details({notes for _, _, _, _, _, notes, *_ in rows})
            for number, _, question, answer, letters, notes, *values in rows:
                cells: list[Cell | None] = []
                # A case that was scored before a metric came has no letter for it.
                for metric, letter in enumerate(letters.ljust(self.columns, _NO_CELL)):
                    cell = None
                    # A "." is no cell, whatever value its column has.
                    if letter != _NO_CELL:
                        cell = _stored_cell(letter, values[metric], details.get((notes, metric)))
                    cells.append(cell)
                cells_of[number] = CaseCells(bytes(question), bytes(answer), cells)
        return cells_of

    def _details(self, digests: Collection[bytes]) -> dict[tuple[bytes, int], bytes]:
        """The reasons why cells have no value, by the digest of a case's notes and the metric.

        Notes are all reasons of a case together. Many cases share theirs, which are stored and read
        once.
        """
        query = f"SELECT digest, metric, detail FROM notes WHERE digest IN ({marks(digests)})"
        rows = self._db.execute(query, tuple(digests))
        return {(notes, metric): detail for notes, metric, detail in rows}

    def _rows_of_cases(self, table: str, numbers: Sequence[int]) -> sqlite3.Cursor:
        """The rows of a table that belong to some cases; waiting rows are written before.

        Without that, rows just recorded would be missed.
        """
        self._flush()
        query = f"SELECT * FROM {table} WHERE number IN ({marks(numbers)})"
        return self._db.execute(query, tuple(numbers))

    def matched(self, numbers: Sequence[int]) -> dict[int, dict[str, Matched]]:
        """The stored matches of some cases: by case number and stage, which chunks are relevant.

        Matches hold as long as the cells of their case do (each metric's result for it).
        """
        rows = self._rows_of_cases("matched", numbers)
        matched_of: dict[int, dict[str, Matched]] = {}
        with self._reading:
            for number, stage, body in rows:
                matched_of.setdefault(number, {})[stage] = decoded(Matched, body)
        return matched_of

    def causes(self, numbers: Sequence[int]) -> dict[int, Attribution]:
        """By case number, why some cases went right or wrong; as valid as their cells.

        A report counts them, so that a user sees which part of the system to mend.
        """
        rows = self._rows_of_cases("causes", numbers)
        with self._reading:
            return {number: decoded(Attribution, body) for number, _, body in rows}

    def record_judgements(self, number: int, metric: int, judgements: Sequence[Judgement]) -> None:
        """Records the judgements of a cell: the judge's answers, which pages show beside it.

        A user can read there why the judge gave a score.

        A cell is a metric's result for a case.
        """
        self.new["judgements"][number, metric] = (encode_judgements(judgements),)

    def judgements(self, numbers: Sequence[int]) -> dict[tuple[int, int], tuple[Judgement, ...]]:
        """The judgements of cells of some cases, by case number and number of the metric.

        Pages show them, and a cell that is reused keeps its own.

        A cell is a metric's result for a case.
        """
        rows = self._rows_of_cases("judgements", numbers)
        judgements_of: dict[tuple[int, int], tuple[Judgement, ...]] = {}
        with self._reading:
            for number, metric, body in rows:
                judgements_of[number, metric] = decoded(tuple[Judgement, ...], body)
        return judgements_of


class _NewNotes:
    """Why cells have no value, as rows of the table of notes: what many cases share only once."""

    def __init__(self) -> None:
        """Begins without notes; notes are the reasons why cells of a case have no value.

        Many cases share their notes: each distinct set is stored once.
        """
        self.rows: list[tuple[bytes, int, bytes]] = []
        """Digest of all notes of a case, metric, and why its cell has no value."""
        self._digests: dict[tuple[tuple[int, Cell], ...], bytes] = {}
        """The digest of each distinct set of notes, by the cells without a value and their metrics.
        """

    def add(self, cells: Iterable[Cell | None]) -> bytes:
        """Adds the notes of a case: the reasons why some of its cells have no value.

        Cases with the same notes get the same digest, and the notes are stored once.

        Returns:
            The digest of these notes; empty where every cell has a value.
        """
        # By the metric's number: the same reason of another metric is another note.
        unmeasured: list[tuple[int, Cell]] = []
        for metric, cell in enumerate(cells):
            if cell is not None and cell.value is None:
                unmeasured.append((metric, cell))
        if not unmeasured:
            return b""
        # As a key: cells never change, and compare by content.
        key = tuple(unmeasured)
        if key not in self._digests:
            self._digests[key] = self._add_rows(key)
        return self._digests[key]

    def _add_rows(self, unmeasured: Iterable[tuple[int, Cell]]) -> bytes:
        """Adds the notes of cells without a value as new rows, and returns the notes' digest.

        Cases with the same notes share them. The digest's parts are a stored form.
        """
        details: list[tuple[int, bytes]] = []
        parts: list[bytes] = []
        for metric, cell in unmeasured:
            detail = _stored_reason(cell)
            details.append((metric, detail))
            # Numbers and statuses as bytes, which the digest joins.
            # The status is a part: a failure and a reason may be written alike.
            parts += (str(metric).encode(), cell.status.value.encode(), detail)
        notes = digest(parts)
        self.rows += [(notes, metric, detail) for metric, detail in details]
        return notes


def _stored_reason(cell: Cell) -> bytes:
    """The reason why a cell has no value, in stored form: a text, or its failure as JSON.

    Reports show it in place of the value. Secrets in it are masked before it is stored.
    """
    failure = cell.failure
    if failure is None:
        return hidden(cell.reason or "").encode()
    # Only a failure of scoring keeps its traceback here, as it is kept nowhere else: that of an
    # earlier stage's failure is in the stage's outcome.
    if failure.stage != "score":
        failure = replace(failure, traceback=None)
    return encoded(failure)


# Cells never change and most metrics take few values: one object serves every case.
@lru_cache(maxsize=4096)
def _stored_cell(letter: str, value: float | None, detail: bytes | None) -> Cell:
    """A cell of a case as it is read from the journal.

    A cell is a metric's result for a case: a value, or why there is none.

    Args:
        letter: of its status.
        value: None where it has none.
        detail: the stored reason why it has no value; None where it has one.
    """
    status = _STATUS_BY_LETTER[letter]
    # A reason is stored only where there is no value.
    if detail is None:
        if value is None:
            return Cell(status=status)
        # SQLite keeps whatever type a damaged cell has: this raises for a text.
        return Cell(status=status, value=float(value))
    if status is Status.FAILED:
        return Cell(status=Status.FAILED, failure=decoded(Failure, detail))
    return Cell(status=status, reason=detail.decode())
