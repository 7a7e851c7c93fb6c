"""The journal: what every stage and every metric gave for every case, written as it happens.

One SQLite file in write-ahead mode. An outcome is stored under a key, a digest of all that it
depends on, and never changed: a run that is started again takes what still has the same key and
computes the rest. Old outcomes stay until the run is started afresh. A case has one row with all
its cells.

Each outcome also names the *epoch* in which it was last found valid. An epoch is one setting of a
run (cases, stages, judge). Only outcomes of the present epoch are ever shown, so that what an
earlier setting gave cannot pass for what this one gives, wherever a run was interrupted.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import msgspec

from ragbench.core.case import Case
from ragbench.core.outcome import Known, Outcome, Status
from ragbench.core.record import replace
from ragbench.core.report import IndexedCase
from ragbench.core.trace import Entry, RunCase, StageOutcome
from ragbench.errors import DataError, Problem
from ragbench.ledger.codec import (
    CODECS,
    TAGS,
    Encoded,
    check_text,
    decode_case,
    encode_case,
    encode_outcome,
)
from ragbench.ledger.fingerprint import SIZE, digest
from ragbench.ledger.tables import (
    RunTables,
    ScoreTables,
    connect,
    journal_error,
    marks,
    reading_journal,
    transaction,
)
from ragbench.masking import hidden

_STATUS_BY_VALUE = {status.value: status for status in Status}
_KNOWN_BY_VALUE = {known.value: known for known in Known}
_BATCH = 512
"""Cases of a window, and values in one query: SQLite limits how many it takes."""
_MAX_REMEMBERED_TEXTS = 20_000
"""Texts that are remembered as stored; of others the database finds out."""
_COMMIT_SECONDS = 0.05
"""Seconds between commits, at most."""
_AT_RISK = 0.005
"""Seconds that RAGs and models worked for outcomes that a crash of this process may cost, at most:
slow answers are stored at once, fast ones together."""
_PLACE_CASE = (
    "INSERT INTO cases (id, body, digest, position) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (id) DO UPDATE SET body = excluded.body, digest = excluded.digest, "
    "position = excluded.position WHERE cases.position IS NULL"
)
"""A case of an earlier setting gets its place again; one that has a place already is a repeated id,
and no row is written for it."""
_CONFIRM = (
    "UPDATE outcomes SET epoch = CASE WHEN key = ?4 THEN ?1 ELSE 0 END "
    "WHERE number = ?2 AND stage = ?3"
)
"""Of all outcomes of a stage for a case, only the one with the key is valid in the epoch."""
_INSERT_TEXT = "INSERT OR IGNORE INTO texts VALUES (?, ?)"
_INSERT_OUTCOME = "INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_SELECT_OUTCOMES = (
    "SELECT number, key, status, known, texts, body, seconds, sharing, digest, epoch, run "
    "FROM outcomes"
)
_ANY_OUTCOME = "SELECT 1 FROM outcomes LIMIT 1"
Recorded = Mapping[str, Outcome[object]]
"""By stage what the source recorded."""
_CaseRow = tuple[str, bytes, bytes, int]
"""Id, body, digest and position."""
# As the column of the table has it.
_RECORDED = Known.RECORDED.value
RECORDED = b""
"""The key of an outcome that the source recorded."""


class StoredOutcome(NamedTuple):
    """What a stage gave for a case."""

    key: bytes
    """Digest of all that it depends on; `RECORDED` for a recorded one."""
    status: Status
    known: Known
    """Asked or recorded."""
    texts: bytes
    """Digests of its context texts, one behind the other."""
    body: bytes
    """Encoded result, failure or reason, by status."""
    seconds: float | None
    sharing: int
    """Cases that shared the call; `seconds` is the call's time divided by them."""
    digest: bytes
    """Digest of the output: equal outputs need no work downstream."""
    epoch: int = 0
    """The latest in which it was found valid."""
    run: int = 0
    """Number of the run that asked for it; 0 for a recorded one."""


class Journal(AbstractContextManager["Journal"]):
    """The open journal of a run. Used by one thread of one process."""

    def __init__(self, path: Path | None) -> None:
        """Opens the journal of a run, and creates it where there is none.

        Outcomes wait in lists, which `flush` writes in one transaction: a transaction for each
        outcome would take longer than many systems take to answer.

        Args:
            path: the journal's file. None keeps the journal in memory, without the outcomes of
                calls: those are stored for a later command, which could not read them there.
        """
        self.path = path
        """The journal's file; None for a journal in memory."""
        self._flushed = time.monotonic()
        """When outcomes were last written: those that wait are due some time after that."""
        self._at_risk = 0.0
        """Seconds that RAGs and models worked for the outcomes that wait, see `_AT_RISK`."""
        self._known_texts: set[bytes] = set()
        """Digests of texts that are stored or wait: many cases share them."""
        self._new_texts: list[tuple[bytes, str]] = []
        """Texts that wait to be written, each behind its digest."""
        self._new_outcomes: list[tuple[object, ...]] = []
        """Outcomes that wait to be written, as rows of their table."""
        self._confirmed: list[tuple[int, int, str, bytes]] = []
        """Outcomes to be marked valid in an epoch, all others of their case and stage invalid:
        epoch, number of the case, stage and key, as `_CONFIRM` takes them."""
        self.before_flush: Callable[[], None] | None = None
        """Called before new outcomes are stored, so that their origin is stored ahead of them."""
        self.reading = reading_journal(path)
        """The context in which stored rows are decoded: it turns damage into an error in words."""
        # The connection, which no other thread may use.
        self._db = connect(path)
        # Closed again if anything below fails; `pop_all` leaves it open where nothing did.
        with self.reading, ExitStack() as opened:
            opened.callback(self._db.close)
            self.runs = RunTables(self._db, self.reading)
            """The runs whose outcomes the journal holds."""
            self.scores = ScoreTables(self._db, self.flush, self.reading)
            """The cells: each metric's result for each case."""
            self.was_empty = self._db.execute(_ANY_OUTCOME).fetchone() is None
            """Whether no outcome was stored when the journal was opened; once its cases are placed,
            whether none was by then (`placed` drops recorded outcomes, and stores the new ones).
            Where it was empty, no outcome need be looked up."""
            opened.pop_all()
        self.placed_digest: tuple[int, str] | None = None
        """How many cases were placed so far, and their fingerprint, as `cases_digest` would read
        them from the file; None before any."""
        self._loaded_texts: dict[bytes, str] = {}
        """The texts of the outcomes that were read last."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stores everything that waits, and closes the journal.

        After an error of the database nothing more is written; the error is raised in a user's
        words.
        """
        try:
            # After an error of the database what waits would fail as well.
            if not isinstance(error, sqlite3.Error):
                self.flush()
        except sqlite3.Error as flush_error:
            error = flush_error
        finally:
            self._db.close()
        # Whichever of the two it was: that of the block, or that of the last flush.
        if isinstance(error, sqlite3.Error):
            raise journal_error(self.path, error) from error

    def flush(self, *, if_due: bool = False) -> None:
        """Writes everything recorded so far, so that it survives a crash of the process.

        An outcome may have cost money: after a crash it is not asked for again.

        Args:
            if_due: only where a crash would cost too much: some time after the last flush, or as
                soon as RAGs and models worked long enough for what waits (`_AT_RISK`).
        """
        now = time.monotonic()
        is_due = self._at_risk >= _AT_RISK or now - self._flushed >= _COMMIT_SECONDS
        if if_due and not is_due:
            return
        self._flushed = now
        self._at_risk = 0.0
        scores = self.scores
        if not (self._new_outcomes or self._confirmed or any(scores.new.values())):
            return
        # Before the transaction: what it stores has one of its own.
        if self._new_outcomes and self.before_flush is not None:
            self.before_flush()
        with transaction(self._db):
            self._write_outcomes()
            if self._confirmed:
                self._db.executemany(_CONFIRM, self._confirmed)
            # Together with the outcomes: cells never outlive what they rest on.
            scores.write(self.runs.epoch)
        # Only now: what a transaction that failed did not write is still to be written.
        self._clear_outcomes()
        self._confirmed.clear()
        scores.compared.clear()
        for new_rows in scores.new.values():
            new_rows.clear()

    def _write_outcomes(self) -> None:
        """Writes the outcomes that wait, with the texts that they share; called in a transaction.

        A text is written before the outcomes that name it. Afterwards the outcomes are still in the
        waiting lists, as the transaction may fail; `_clear_outcomes` drops them.
        """
        self._db.executemany(_INSERT_TEXT, self._new_texts)
        self._db.executemany(_INSERT_OUTCOME, self._new_outcomes)

    def _clear_outcomes(self) -> None:
        """Drops the waiting outcomes: they are written now, or their cases were not placed.

        Called only after the transaction that writes them has succeeded, or placing has failed.
        """
        self._new_texts.clear()
        self._new_outcomes.clear()

    def is_empty(self) -> bool:
        """Whether the journal holds no outcome by now, waiting ones included.

        Of a run without outcomes nothing is lost if its folder is removed.
        """
        return not self._new_outcomes and self._db.execute(_ANY_OUTCOME).fetchone() is None

    # --- the run

    def how(self, stored: StoredOutcome) -> Known:
        """How an outcome is known: recorded, asked for by the latest run, or by an earlier one.

        Reports count reused outcomes apart, since they cost no time and no tokens now.
        """
        if stored.known is Known.RECORDED:
            return Known.RECORDED
        if stored.run == self.runs.number:
            return Known.ASKED
        return Known.REUSED

    # --- cases

    def replace_cases(self, cases: Iterable[Case | Entry]) -> None:
        """Makes the given cases the run's, in their order; on an error, the earlier cases stay.

        An outcome that the source recorded of a case becomes the outcome of its stage.

        For callers that go on only once all cases are stored; `placed` yields the cases meanwhile.
        """
        # On an error both go back: the rows by the transaction, what waits by `_forget`.
        with transaction(self._db, undo=self._forget):
            for _ in self.placed(cases):
                pass

    def placed(self, cases: Iterable[Case | Entry], epoch: int = 0) -> Generator[list[RunCase]]:
        """Makes the given cases the run's, and yields them window by window as they are stored.

        A window is a batch of cases: a dataset of a million is never in memory as a whole. Each
        case comes with the outcomes that its source recorded. A case that the journal has already
        keeps its number, under which its outcomes are stored.

        Args:
            epoch: the epoch in which the recorded outcomes are valid, where it has begun.

        Raises:
            DataError: two cases have the same id, or a case cannot be stored.
        """
        self.flush()
        db = self._db
        # Cases lose their places, and keep their rows: outcomes are found by the case's number.
        with transaction(db):
            db.execute("DELETE FROM report")  # it is of the cases of before
            db.execute("UPDATE cases SET position = NULL WHERE position IS NOT NULL")
            # The source is read anew: what it recorded before may not be there any more.
            db.execute("DELETE FROM outcomes WHERE known = ?", (_RECORDED,))
        # In a new journal a case's number is its position, and need not be looked up.
        is_new = db.execute("SELECT 1 FROM cases LIMIT 1").fetchone() is None
        count = 0
        dataset_hash = blake2b(digest_size=SIZE)
        numbered = enumerate(cases, start=1)
        while True:
            batch = [_placed_case(case, position) for position, case in islice(numbered, _BATCH)]
            if not batch:
                break
            rows = [placed.row for placed in batch]
            # With the position as the number, which holds for a new journal.
            window = [RunCase(placed.row[3], placed.case, placed.row[2]) for placed in batch]
            recorded = [placed.recorded for placed in batch]
            with transaction(db):
                # A case whose id already has a position in this order is not written.
                if db.executemany(_PLACE_CASE, rows).rowcount != len(rows):
                    raise DataError([self._repeated_id(rows)])
                if not is_new:
                    self._take_numbers(window)
                # Most sources record nothing.
                if any(recorded):
                    self._store_recorded(window, recorded, epoch)
            count += len(batch)
            dataset_hash.update(b"".join([case_digest for _, _, case_digest, _ in rows]))
            # Kept up with each window, so that the manifest needs no second pass over the cases.
            self.placed_digest = count, dataset_hash.hexdigest()
            yield window
        # Recorded outcomes were just written: there may be some by now.
        self.was_empty = db.execute(_ANY_OUTCOME).fetchone() is None

    def _forget(self) -> None:
        """Drops everything that waits to be stored, because its cases were not placed.

        Without this the next flush would store outcomes of cases that do not exist.
        """
        self._known_texts.clear()
        self._clear_outcomes()

    def _repeated_id(self, rows: Sequence[_CaseRow]) -> Problem:
        """The problem of two cases with the same id, naming both positions for the user.

        Outcomes are stored by case: two cases with one id could not be told apart.

        Args:
            rows: the cases of a window, of which at least one was not written for that reason.
        """
        # Of all cases of the window, the first whose id has another position.
        query = "SELECT position FROM cases WHERE id = ?"
        for case_id, _, _, position in rows:
            (earlier,) = self._db.execute(query, (case_id,)).fetchone()
            if earlier != position:
                break
        else:
            # Not reached: a row is only left out where its id is there already.
            raise AssertionError("no id is there twice")
        return Problem(
            message=f"cases {earlier} and {position} have the same id '{case_id}': make ids unique",
            field="id",
        )

    def _take_numbers(self, window: Sequence[RunCase]) -> None:
        """Gives the cases of a window the numbers that the journal stores them under.

        In a new journal a case's number is its position; in others earlier cases may have numbers,
        too.

        A window is a batch of cases that fits into memory.
        """
        # At most `_BATCH` ids, which SQLite takes in one query.
        ids = [run_case.case.id for run_case in window]
        query = f"SELECT id, number FROM cases WHERE id IN ({marks(ids)})"
        numbers = dict(self._db.execute(query, ids))
        for run_case in window:
            run_case.number = numbers[run_case.case.id]

    def _store_recorded(
        self, window: Sequence[RunCase], recorded: Sequence[Recorded], epoch: int
    ) -> None:
        """Stores the recorded outcomes of cases that were just placed, in the same transaction.

        A window is a batch of cases that fits into memory. The outcomes are put into the window's
        cases as well, so that no stage has to read them back.

        Args:
            recorded: of each case of the window what its source recorded.
        """
        for run_case, outcomes in zip(window, recorded, strict=True):
            for stage, outcome in outcomes.items():
                # Encoded once: the same bytes are stored, and give the row its digest.
                encoded = encode_outcome(stage, outcome)
                self.record_outcome(run_case.number, stage, RECORDED, outcome, encoded, epoch)
                if outcome.known is not Known.RECORDED:
                    outcome = replace(outcome, known=Known.RECORDED)
                run_case.settled[stage] = StageOutcome(outcome, encoded.joined, encoded.output)
        # At once, in the transaction of the cases: they never wait without their case.
        self._write_outcomes()
        self._clear_outcomes()

    def cases(self, ids: Sequence[str] | None = None) -> Generator[list[RunCase]]:
        """The run's cases in order, a window at a time.

        A window fits into memory, where a dataset of a million cases does not.

        Args:
            ids: only these cases, in this order; None for all.
        """
        if ids is not None:
            yield from self._cases_of(ids)
            return
        query = (
            "SELECT number, id, position, digest, body FROM cases "
            # Positions, not offsets: a query finds its beginning without a pass over the cases
            # before it.
            "WHERE position > ? ORDER BY position LIMIT ?"
        )
        last_position = 0
        # A query a window, each read to its end: the caller writes between two windows.
        while True:
            rows = self._db.execute(query, (last_position, _BATCH)).fetchall()
            if not rows:
                break
            window: list[RunCase] = []
            with self.reading:
                for number, case_id, _, case_digest, body in rows:
                    window.append(_run_case(number, case_id, case_digest, body))
            yield window
            # The position, in the third column.
            last_position = rows[-1][2]

    def _cases_of(self, ids: Sequence[str]) -> Generator[list[RunCase]]:
        """The cases with the given ids in their order, a window at a time.

        A window is a batch that fits into memory. Unknown ids are skipped.

        A reader of a few cases does not go through all of them.
        """
        for start in range(0, len(ids), _BATCH):
            batch = ids[start : start + _BATCH]
            rows = self._db.execute(
                "SELECT number, id, digest, body FROM cases "
                f"WHERE position IS NOT NULL AND id IN ({marks(batch)})",
                tuple(batch),
            )
            run_cases: dict[str, RunCase] = {}
            with self.reading:
                for number, case_id, case_digest, body in rows:
                    run_cases[case_id] = _run_case(number, case_id, case_digest, body)
            # In the order of the ids; SQLite gives them in any.
            yield [run_cases[case_id] for case_id in batch if case_id in run_cases]

    def drawn_ids(self, count: int, seed: str) -> list[str]:
        """The ids of some cases that a seed draws, in the order of the run.

        The same seed draws the same cases of the same run, so that a check that is repeated asks
        the same questions.

        Args:
            count: how many; all of them where the run has fewer.
        """
        total, _ = self.cases_digest()
        # Drawn by place, so that the ids play no part; sorted, so that they come in the run's
        # order.
        places = sorted(random.Random(seed).sample(range(total), min(count, total)))
        query = "SELECT id FROM cases WHERE position IS NOT NULL ORDER BY position LIMIT 1 OFFSET ?"
        return [self._db.execute(query, (place,)).fetchone()[0] for place in places]

    def index(self, position: int | None, tag: str | None) -> Iterator[IndexedCase]:
        """The index of a complete run: each case's id, its cause, and its value by one metric.

        Pages and tables list cases by it, without reading their texts.

        Args:
            position: place of the metric among those of the run; None: every value is None.
            tag: only cases that have this tag; None for all.
        """
        with self.reading:
            query = "SELECT 'cells.m' || metric FROM metrics WHERE position = ?"
            # NULL in the place of the column: each row then has None.
            (value,) = self._db.execute(query, (position,)).fetchone() or ("NULL",)
            rows = self._db.execute(
                f"SELECT cases.id, causes.cause, {value} FROM cases JOIN causes USING (number) "
                "JOIN cells USING (number) WHERE cases.position IS NOT NULL "
                "AND (?1 IS NULL OR EXISTS (SELECT 1 FROM json_each(CAST(cases.body AS TEXT), ?2) "
                "WHERE value = ?1)) ORDER BY cases.position",
                (tag, TAGS),
            )
            for row in rows:
                # SQLite keeps whatever type a damaged cell has.
                yield msgspec.convert(row, IndexedCase)

    def cases_digest(self) -> tuple[int, str]:
        """The number of the run's cases, and the dataset's fingerprint.

        The fingerprint is made of the cases' digests in order. Manifests hold it, so `placed`,
        which makes it while it stores the cases, must compute the same one.
        """
        count = 0
        dataset_hash = blake2b(digest_size=SIZE)
        query = "SELECT digest FROM cases WHERE position IS NOT NULL ORDER BY position"
        for (case_digest,) in self._db.execute(query):
            count += 1
            dataset_hash.update(case_digest)
        return count, dataset_hash.hexdigest()

    # --- stages

    def recorded_counts(self) -> dict[str, int]:
        """By stage, for how many of the run's cases the source recorded an outcome.

        A stage that is recorded for every case need not be asked.
        """
        rows = self._db.execute(
            "SELECT stage, count(*) FROM outcomes WHERE known = ? GROUP BY stage",
            (_RECORDED,),
        )
        return dict(rows)

    def record_outcome(
        self,
        number: int,
        stage: str,
        key: bytes,
        outcome: Outcome[Any],
        encoded: Encoded,
        epoch: int = 0,
    ) -> None:
        """Stores the outcome of a stage for a case, at the next `flush`; known texts only once.

        An outcome is not written at once, since a transaction for each would take too long.

        Args:
            number: the case's.
            key: digest of all that the outcome depends on; `RECORDED` where the source had it.
            encoded: the outcome as bytes.
            epoch: of a recorded outcome the one in which it is valid; others are of the present.
        """
        run = 0
        # Recorded outcomes belong to no run: 0.
        known = Known.RECORDED
        if key != RECORDED:
            # A journal in memory is never continued: nobody would read what was asked.
            if self.path is None:
                return
            # Recorded outcomes cost nothing when the process dies.
            self._at_risk += outcome.seconds or 0.0
            epoch = self.runs.epoch
            run = self.runs.number
            known = Known.ASKED
            if not self.was_empty:  # another outcome may have been the valid one so far
                self._confirmed.append((epoch, number, stage, key))
        stored_texts = self._known_texts
        # All at once: the database itself ignores a text that is there already.
        if len(stored_texts) > _MAX_REMEMBERED_TEXTS:
            stored_texts.clear()
        for text_key, text in zip(encoded.digests, encoded.texts, strict=True):
            if text_key not in stored_texts:
                stored_texts.add(text_key)
                # Secrets are masked in the text; its digest is that of the text as it was given.
                self._new_texts.append((text_key, hidden(text)))
        # In the order of the table's columns.
        row = (
            number,
            stage,
            epoch,
            run,
            key,
            outcome.status.value,
            known.value,
            encoded.joined,
            encoded.body,
            outcome.seconds,
            outcome.sharing,
            encoded.output,
        )
        self._new_outcomes.append(row)

    def confirm(self, number: int, stage: str, stored: StoredOutcome) -> None:
        """Marks a stored outcome as the valid one of its case and stage in this epoch.

        An epoch is one setting of the run, and reports show only its valid outcomes: without this
        mark a reused outcome would be missing in them. All others of the case's stage become
        invalid.

        Args:
            number: the case's.
        """
        # Outcomes that are stored under the present epoch are valid already.
        if stored.epoch != self.runs.epoch:
            self._confirmed.append((self.runs.epoch, number, stage, stored.key))

    def outcomes(
        self, stage: str, numbers: Sequence[int]
    ) -> dict[tuple[int, bytes], StoredOutcome]:
        """All outcomes that a stage ever gave for some cases, by case number and key.

        Outcomes of earlier settings are among them: a stage reuses the one whose key equals its
        own.

        All are read at once for many cases, since a query for each takes longer than many systems
        do.
        """
        # What waits would be missed by the query.
        self.flush()
        with self.reading:
            rows = self._db.execute(
                f"{_SELECT_OUTCOMES} WHERE stage = ? AND number IN ({marks(numbers)})",
                (stage, *numbers),
            )
            # Rows are read to the end here, before texts are asked for.
            stored = {(row[0], row[1]): _stored_outcome(row) for row in rows}
            self.load_texts(stored.values())
        return stored

    def valid_outcomes(self, stage: str, numbers: Sequence[int]) -> dict[int, StoredOutcome]:
        """By case number, the outcomes of a stage for some cases that are valid in this epoch.

        An epoch is one setting of the run: reports must not mix outcomes of two settings.
        """
        self.flush()
        query = f"{_SELECT_OUTCOMES} WHERE stage = ? AND epoch = ? AND number IN ({marks(numbers)})"
        with self.reading:
            rows = self._db.execute(query, (stage, self.runs.epoch, *numbers))
            return {row[0]: _stored_outcome(row) for row in rows}

    def load_texts(self, outcomes: Iterable[StoredOutcome]) -> None:
        """Reads the context texts of many outcomes at once, in place of a query for each.

        The texts stay in memory until the next call: for one window, a batch of cases that fits
        into memory.
        """
        # Texts that wait are written first, or the query would miss them.
        if self._new_texts:
            self.flush()
        digests = b"".join([outcome.texts for outcome in outcomes])
        # Each digest once: cases share texts. The order plays no part.
        keys = list({digests[start : start + SIZE] for start in range(0, len(digests), SIZE)})
        # Replaced, not added to: the texts of one window are enough for memory.
        self._loaded_texts = {}
        for start in range(0, len(keys), _BATCH):
            batch = keys[start : start + _BATCH]
            query = f"SELECT digest, text FROM texts WHERE digest IN ({marks(batch)})"
            self._loaded_texts.update(self._db.execute(query, batch))

    def texts(self, stored: StoredOutcome) -> list[str]:
        """The context texts of an outcome, in order.

        The journal stores each text once, under its digest, and the outcome has the digests.

        A text that is missing means a damaged journal, and raises.
        """
        digests = stored.texts
        keys = [digests[start : start + SIZE] for start in range(0, len(digests), SIZE)]
        # Not loaded, as for a single outcome.
        if not self._loaded_texts.keys() >= {*keys}:
            self.load_texts([stored])
        texts: list[str] = []
        with self.reading:
            for key in keys:
                text = self._loaded_texts.get(key)
                if not isinstance(text, str):
                    raise ValueError("it lacks a text of an outcome")
                texts.append(text)
        return texts


class _PlacedCase(NamedTuple):
    """A case on its way into the journal."""

    row: _CaseRow
    case: Case
    recorded: Recorded
    """By stage; empty where the source recorded nothing."""


def _placed_case(entry: Case | Entry, position: int) -> _PlacedCase:
    """A case in stored form, ready to be placed in a journal, with its recorded outcomes.

    The case is encoded here, so that one that cannot be stored is refused before anything is
    written.

    Raises:
        DataError: the case cannot be written down, or its source names a stage that there is not.
    """
    if isinstance(entry, Case):
        case = entry
        recorded: Recorded = {}
    else:
        case = entry.case
        recorded = entry.recorded
    try:
        if not case.id.isascii():
            check_text(case.id)
        body = encode_case(case)
        for stage in recorded:
            if stage not in CODECS:
                raise ValueError(f"'{stage}' is not a stage")
    except (ValueError, TypeError) as error:
        place = f"case {position} ({case.id!a})"
        raise DataError([Problem(message=f"{place} cannot be stored: {error}")]) from error
    # The id is a part, since outcomes of two cases with equal content are two.
    case_digest = digest((case.id.encode(), body))
    return _PlacedCase((case.id, body, case_digest, position), case, recorded)


def _run_case(number: int, case_id: str, case_digest: bytes, body: bytes) -> RunCase:
    """A case of a run from its row in the journal.

    Stages take cases in this form, with their number in the journal.
    """
    # SQLite keeps whatever type a damaged cell has: `bytes` raises for a text.
    return RunCase(number, decode_case(case_id, body), bytes(case_digest))


def _stored_outcome(row: Sequence[Any]) -> StoredOutcome:
    """An outcome from its row in the journal, with each value checked to be of its type.

    SQLite keeps whatever type a damaged cell has: a value of another type raises here.

    Args:
        row: of `_SELECT_OUTCOMES`, whose first column is the case's number.
    """
    _, key, status, known, texts, body, seconds, sharing, output, epoch, run = row
    if seconds is not None:
        # Floats may be stored as whole numbers.
        seconds = float(seconds)
    return StoredOutcome(
        key,
        _STATUS_BY_VALUE[status],
        _KNOWN_BY_VALUE[known],
        bytes(texts),
        bytes(body),
        seconds,
        int(sharing),
        bytes(output),
        int(epoch),
        int(run),
    )
