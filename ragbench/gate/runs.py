"""A stored run as scores: what a gate and a comparison ask of its journal.

Each statement is one pass over the cases in the dataset's order. ``report.json`` is never read.
"""

from __future__ import annotations

import json
import math
import sqlite3
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ragbench.core.attribution import AnswerCounts, Cause, CauseCount
from ragbench.core.case_table import CaseTable, CaseTexts, Cells, clusters_of
from ragbench.core.metric import Metric
from ragbench.core.origin import Origin
from ragbench.core.outcome import Cell, Failure, Status
from ragbench.core.record import Record, replace
from ragbench.core.report import Latency, StageCount
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.core.trace import STAGES
from ragbench.errors import RunMismatchError
from ragbench.gate.baseline_file import read_baseline
from ragbench.ledger.codec import case_facts, decode_case, decoded, right_answer
from ragbench.ledger.folder import (
    Manifest,
    RunFolder,
    check_count,
    metrics_of,
    path_of,
    read_manifest,
    repeat_folders,
    run_around,
)
from ragbench.ledger.tables import read_only, reading_journal
from ragbench.plugins import Floats, Integers, NDArray, np

_REPORT_QUERY = "SELECT body FROM report WHERE run = (SELECT max(run) FROM runs)"
"""What the newest command of the run counted; none where it did not get to its end."""
_STARTED_QUERY = "SELECT started FROM runs ORDER BY run DESC LIMIT 1"
"""When the newest command of the run began."""
_ORIGINS_QUERY = "SELECT body FROM origins ORDER BY stage"
_METRICS_QUERY = "SELECT name, metric FROM metrics WHERE position IS NOT NULL ORDER BY position"
"""The number of each metric's column; a position is that of metrics that are still measured."""
# Outcomes of an earlier epoch are of another setting of the run: see `ragbench.ledger.journal`.
_IS_CURRENT = "epoch = (SELECT value FROM meta WHERE key = 'epoch')"
_CASE_OUTCOMES = f"FROM outcomes WHERE number = cases.number AND {_IS_CURRENT}"
"""What the stages gave for a case, within a query of cases."""
_VALUE_OF_STAGE = (
    f"(SELECT json_extract(CAST(body AS TEXT), '$.{{key}}') {_CASE_OUTCOMES} "
    "AND stage = '{stage}' AND status NOT IN ('failed', 'skipped'))"
)
"""A part of what a stage gave, by its key; null where the stage gave nothing."""
_CASES_QUERY = (
    "SELECT number, cases.id, cases.digest, cases.body, causes.cause, "
    f"(SELECT group_concat(stage || '=' || status) {_CASE_OUTCOMES}), cells.status, "
    "cells.notes{values} "
    "FROM cases JOIN cells USING (number) LEFT JOIN causes USING (number) "
    "WHERE cases.position IS NOT NULL ORDER BY cases.position"
)
"""The cases in the dataset's order, each with how its stages ended and what it was scored."""
_NOTES_QUERY = "SELECT digest, metric, detail FROM notes"
"""Why cells have no value. Cases with the same notes share a digest."""
_TEXTS_QUERY = "SELECT body, {ids}, {response} FROM cases WHERE number = ?"
_MARKS_QUERY = "SELECT number, {ids}, {response} FROM cases ORDER BY number"
_BATCH_CASES = 2_000
"""Cases whose rows are in memory at once: a run may have a million."""


class _JudgeLine(msgspec.Struct):
    """What one model was asked, of which only the price is needed here."""

    cost: Decimal | None


class _Judging(msgspec.Struct):
    """What the judge cost, by metric."""

    lines: tuple[_JudgeLine, ...]
    currency: str | None


class _Summary(msgspec.Struct):
    """A metric of the run, of which only the mean is needed here."""

    score: float | None


class _Figures(msgspec.Struct):
    """What the loop counted of a run that got to its end."""

    summaries: tuple[_Summary, ...]
    """In the order of the manifest's metrics."""
    stages: tuple[StageCount, ...]
    latencies: tuple[Latency, ...]
    causes: tuple[CauseCount, ...] = ()
    judging: _Judging | None = None
    answers: AnswerCounts | None = None


def read_run(path: str | Path) -> RunScores:
    """Reads a run from its journal, or the mean of the runs that a baseline file holds.

    Gates and comparisons take either for a run: both have the same form.

    Args:
        path: a run folder or a file in it, or a baseline file.

    Raises:
        RunMismatchError: it is none of these, another version of ragbench wrote it, or the run did
            not get to its end.
    """
    path = path_of(path)
    folder = run_around(path)
    # What is no run's folder must be a baseline file.
    if folder.is_dir():
        return _from_journal(folder, str(path))
    otherwise = (
        "is neither a run nor a baseline file of ragbench. Give the folder of a run, whose "
        "report.json holds only what is shown, or what ragbench baseline set wrote"
    )
    return read_baseline(path, otherwise=otherwise)


def is_finished(path: Path) -> bool:
    """Whether a folder holds a run that got to its end, written by this version of ragbench.

    Only such a run can be a baseline: an interrupted one lacks the scores of some cases.
    """
    try:
        # A journal of another version is refused, and is no finished run.
        with read_only(RunFolder(path=path).journal) as db:
            return db.execute(_REPORT_QUERY).fetchone() is not None
    except RunMismatchError:
        return False


def _from_journal(path: Path, source: str) -> RunScores:
    """The scores of a run that got to its end, read from its folder.

    The run's journal and manifest hold all scores; ``report.json`` is never read.

    Gates and comparisons of stored runs begin with it.

    Args:
        source: the path as the user named it, which messages and results show.
    """
    folder = RunFolder(path=path)
    journal = folder.kept_journal
    manifest = read_manifest(folder.manifest)
    metrics = metrics_of(manifest)
    # Opened for reading: a gate must not change a run that goes on.
    with read_only(journal) as db:
        # First, since it refuses a run that did not get to its end.
        figures = _stored_figures(db, path)
        cases = _case_table(db, path, manifest, metrics)
        (started,) = db.execute(_STARTED_QUERY).fetchone()
        origins: list[Origin] = []
        for (body,) in db.execute(_ORIGINS_QUERY):
            origins.append(Origin.from_json(json.loads(body)))
    git = manifest.git or {}
    judge_cost = None
    currency = None
    if figures.judging is not None:
        judge_cost = _judge_cost(figures.judging)
        currency = figures.judging.currency
    return RunScores(
        source=source,
        dataset=manifest.dataset.name,
        rag=manifest.rag.name,
        fingerprints=manifest.fingerprints,
        matching=manifest.settings["matching"],
        commit=git.get("commit"),
        dirty=bool(git.get("dirty")),
        metrics=tuple(_metric_columns(metrics, figures, cases)),
        cases=cases,
        stages=figures.stages,
        latencies=figures.latencies,
        judge_cost=judge_cost,
        currency=currency,
        # Several models where a panel judged, or vectors were made.
        judge=", ".join(_judge_models(manifest)),
        causes=figures.causes,
        answers=figures.answers,
        date=started,
        origins=tuple(origins),
    )


def _judge_cost(judging: _Judging) -> float | None:
    """The cost of all answers of the judge; None where the price of any is not known.

    A sum without some of them would look like a cheap run.
    """
    costs: list[Decimal] = []
    for line in judging.lines:
        if line.cost is None:
            return None
        costs.append(line.cost)
    return float(sum(costs)) if costs else None


def _judge_models(manifest: Manifest) -> Iterable[str]:
    """The names of the models that judged a run, each once.

    A comparison of two runs names them where their judges differ.
    """
    judge = manifest.judge or {}
    endpoints = (judge.get("chat"), judge.get("embeddings"), *judge.get("panel", ()))
    models: dict[str, None] = {}
    for endpoint in endpoints:
        if endpoint:
            model = str(endpoint["model"])
            models[model] = None
    return models


def _stored_figures(db: sqlite3.Connection, path: Path) -> _Figures:
    """The figures that an eval counted and stored at the end of a run: means, times, causes.

    Reading the figures spares counting all outcomes of the run again.

    Raises:
        RunMismatchError: the run did not get to its end, so that there are none.
    """
    row = db.execute(_REPORT_QUERY).fetchone()
    if row is None:
        raise RunMismatchError(
            f"{path} holds a run that did not get to its end: continue it with the same eval "
            "command"
        )
    return msgspec.json.decode(row[0], type=_Figures)


def _metric_columns(
    metrics: Sequence[Metric], figures: _Figures, cases: CaseTable
) -> Iterator[MetricColumn]:
    """The metrics of a run with their means, those last whose values no two runs share.

    Values that no two runs share, like measured times, are no part of a comparison case by case.

    A metric's mean and formula are compared between runs by its column.
    """
    # In the manifest's order, in which the report has its summaries.
    summaries = list(zip(metrics, figures.summaries, strict=True))
    summaries.sort(key=lambda pair: not pair[0].definition.deterministic)
    for metric, summary in summaries:
        score = summary.score
        cells = cases.cells.get(metric.name)
        # Where cases were asked several times, a case's value is the mean of the times, and the
        # metric's figure is the mean of these values.
        if cells is not None and cells.repeats:
            # The stored figure counts the first time alone that each case was asked.
            measured = [value for value in cells.values.tolist() if not math.isnan(value)]
            score = None
            if measured:
                score = math.fsum(measured) / len(measured)
        yield MetricColumn.of(metric, score)


_ROUNDING = 1e-6
"""By how much a mean of values in a range may be outside of it."""


def _check_range(metric: Metric, values: Floats) -> None:
    """Refuses values that a metric cannot have given, since the journal is damaged then.

    SQLite keeps whatever a damaged cell holds, and a gate would judge by it.

    Raises:
        ValueError: a value is outside of the metric's range.
    """
    low = metric.definition.low
    high = metric.definition.high
    # Cases without a value are none that could be out of range.
    measured = values[~np.isnan(values)]
    is_below = low is not None and np.any(measured < low - _ROUNDING)
    is_above = high is not None and np.any(measured > high + _ROUNDING)
    if is_below or is_above:
        raise ValueError(f"a value of {metric.name} is outside of its range")


def _case_table(
    db: sqlite3.Connection, path: Path, manifest: Manifest, metrics: Sequence[Metric]
) -> CaseTable:
    """The cases of a run as a table, with each case's cells: its scores each time it was asked.

    Columns in place of objects: a run may have a million cases.
    """
    endings_of = _stage_endings(manifest)
    folders = repeat_folders(path)
    reader = _CellReader(db, metrics)
    ids: list[str] = []
    digests: list[bytes] = []
    numbers = array("q")
    gold = array("q")
    fingerprints: list[Any] = []
    clusters: list[str | None] = []
    tags: list[tuple[str, ...] | None] = []
    languages: list[str | None] = []
    stages: list[Mapping[str, Status]] = []
    causes: list[Cause | None] = []
    # Most cases share their labels with others: one object of each saves memory.
    shared: dict[Any, Any] = {}
    # Rows and cells come in the same order: the reader collects cells while rows are read.
    for rows in reader.batches():
        batch_fingerprints: list[bytes] = []
        for number, id_, digest, body, cause, statuses, *_ in rows:
            fingerprint, case = case_facts(body)
            # Bytes of one length each, as the table compares them.
            batch_fingerprints.append(fingerprint.encode())
            ids.append(id_)
            numbers.append(number)
            gold.extend(case.gold_pair)
            clusters.append(shared.setdefault(case.cluster, case.cluster))
            tags.append(shared.setdefault(case.tags, case.tags))
            languages.append(shared.setdefault(case.language, case.language))
            stages.append(endings_of(statuses))
            causes.append(Cause(cause) if cause else None)
            # Digests are needed only to find the same cases in repeats.
            if folders:
                digests.append(digest)
        fingerprints.append(np.array(batch_fingerprints, np.bytes_))
    # A journal that was cut has fewer cases than its manifest says.
    check_count(path, manifest, len(ids))
    facts: dict[str, Sequence[Any]] = {
        "cluster": [*clusters_of(clusters, gold)],
        "tags": tags,
        "language": languages,
        "stages": stages,
        "cause": causes,
    }
    cells = reader.cells()
    for metric in metrics:
        _check_range(metric, cells[metric.name].values)
    repeats = [_read_repeat(folder, metrics) for folder in folders]
    if repeats:
        # A case is the same in a repeat where its id and digest are.
        cases = [*zip(ids, digests, strict=True)]
        for metric in metrics:
            # A metric of the whole run has no value of a case that could be repeated.
            if not metric.definition.aggregate:
                cells[metric.name] = _repeated_cells(cells, cases, repeats, metric.name)
    for metric in metrics:
        if not metric.definition.deterministic:  # values that no two runs share
            del cells[metric.name]
    # Of no batch at all there is nothing to join.
    all_fingerprints = np.concatenate(fingerprints or [np.array([], np.bytes_)])
    return CaseTable(
        ids=ids,
        fingerprints=all_fingerprints,
        facts={name: values for name, values in facts.items() if any(values)},
        cells=cells,
        texts=_JournalTexts(path, _context_stage(manifest), numbers),
    )


def _context_stage(manifest: Manifest) -> str:
    """The stage of a run that gives the contexts which the answer is made from.

    That stage is ``post_retrieve`` where the system filters or reranks, else ``retrieve``.
    """
    if "post_retrieve" in manifest.rag.stages or "post_retrieve" in manifest.absent:
        return "post_retrieve"
    return "retrieve"


class _JournalTexts(Record, kw_only=False):
    """The texts of a run's cases, which are read from its journal when somebody asks for them."""

    path: Path
    context: str
    """The stage that gives what answering reads."""
    numbers: Sequence[int]
    """Of the cases in the journal, by their places in the table."""

    def of(self, places: Iterable[int]) -> Iterator[CaseTexts]:
        """The questions, answers and retrieved ids of the cases at some positions, read one by one.

        A table of a million cases would not hold its texts in memory.
        """
        query = self._filled(_TEXTS_QUERY)
        journal = RunFolder(path=self.path).journal
        with reading_journal(journal), read_only(journal) as db:
            # In the order of the places, which is the caller's.
            for place in places:
                body, ids, response = db.execute(query, (self.numbers[place],)).fetchone()
                # Without an id: the caller knows the case by its place.
                case = decode_case("", body)
                yield CaseTexts(
                    query=case.query,
                    response=response,
                    retrieved_ids=None if ids is None else tuple(json.loads(ids)),
                    gold=case.reference_context_ids or (),
                    right=right_answer(body),
                )

    def marks(self) -> Integers:
        """The hashes of each case's retrieved ids and answer, in two columns.

        By these a comparison counts what changed, without the texts of all cases in memory. Hashes
        of texts hold within one process alone.
        """
        numbers = array("q")
        hashes = array("q")
        with read_only(RunFolder(path=self.path).journal) as db:
            for number, ids, response in db.execute(self._filled(_MARKS_QUERY)):
                numbers.append(number)
                # None has a hash, too: an absent answer differs from every text.
                hashes.extend((hash(ids), hash(response)))
        hashes_in_journal: Integers = np.array(hashes, np.int64).reshape(-1, 2)
        # The query sorts by number: each case of the table is found by halving.
        rows = np.searchsorted(np.array(numbers), self.numbers)
        # Into the table's own order, which is not that of the numbers.
        return hashes_in_journal[rows]

    def at(self, places: Sequence[int]) -> _JournalTexts:
        """The texts of a smaller table, which has only the cases at some positions of this one.

        Nothing is read: only the cases' numbers in the journal are taken along.
        """
        numbers = array("q")
        for place in places:
            numbers.append(self.numbers[place])
        return replace(self, numbers=numbers)

    def _filled(self, query: str) -> str:
        """An SQL query with the expressions that read a case's retrieved ids and answer put in.

        The ids and the answer are parts of stages' outcomes, which the journal stores as JSON.

        Args:
            query: with ``{ids}`` and ``{response}``.
        """
        return query.format(
            ids=_VALUE_OF_STAGE.format(key="context_ids", stage=self.context),
            response=_VALUE_OF_STAGE.format(key="response", stage="generate"),
        )


class _CellReader:
    """Reads the cells of a run's cases, batch by batch."""

    def __init__(self, db: sqlite3.Connection, metrics: Sequence[Metric]) -> None:
        """Finds the columns of some metrics in the journal, which may have those of others, too.

        Cells of other metrics are not read: a run of a million cases has many.

        A cell is a metric's result for a case.
        """
        # Metrics of earlier commands have columns, too, and are not read.
        number_of_metric = dict(db.execute(_METRICS_QUERY))
        # Open for as long as the reader is used.
        self._db = db
        self._numbers = {metric.name: number_of_metric[metric.name] for metric in metrics}
        """The number of each metric's column in the journal, by the metric's name."""
        self._parts: list[list[Cells]] = [[] for _ in self._numbers]
        """For each metric, its cells in the batches that were read so far."""
        self._notes: dict[bytes, tuple[int, int]] = {}
        """Each different set of notes on a case's cells, by its digest: its number among these
        sets, and the place of the first case that has it."""
        self._notes_of_cases = array("l")
        """For each case, the number of its set of notes."""

    def batches(self) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of the cases, batch by batch; their cells are collected for `cells`.

        Reading in batches keeps memory small in runs of a million cases. A row has number, id,
        digest, body and cause of a case, how its stages ended, its cells' statuses as letters, the
        digest of the notes on them, and their values from the ninth column on.

        A cell is a metric's result for a case.
        """
        # Columns of the journal, in the order of this run's metrics.
        numbers = [*self._numbers.values()]
        width = max(numbers, default=0) + 1
        columns = "".join(f", cells.m{number}" for number in numbers)
        rows = self._db.execute(_CASES_QUERY.format(values=columns))
        while batch := rows.fetchmany(_BATCH_CASES):
            letters = ""
            for row in batch:
                # A letter for each metric of the journal; padded with blanks for metrics that were
                # added after the case was stored.
                letters += row[_STATUSES][:width].ljust(width)
                case_place = len(self._notes_of_cases)
                new_notes = (len(self._notes), case_place)
                # All cases with the same notes share the place of the first.
                notes_place, _ = self._notes.setdefault(row[_NOTES_DIGEST], new_notes)
                self._notes_of_cases.append(notes_place)
            # Turned around: a row for each metric, in the order of `_parts`.
            values = np.array([row[_FIRST_VALUE:] for row in batch], float).T.copy()
            letters_of_cases = np.frombuffer(letters.encode(), np.uint8).reshape(-1, width)
            # From letters by case to letters by metric, of this run's columns alone.
            states = letters_of_cases.T[numbers]
            # Anything that is no letter of a status, such as a blank: the metric was skipped.
            is_status = np.isin(states, _STATUS_LETTERS)
            states = np.where(is_status, states, ord("s"))
            # A part of each metric: joined once all batches are read.
            for parts, column, state in zip(self._parts, values, states, strict=True):
                parts.append(Cells.packed(column, state))
            yield batch

    def cells(self) -> dict[str, Cells]:
        """The cells of all cases by metric: values, statuses and reasons.

        Complete only once all `batches` are read.

        A cell is a metric's result for a case.
        """
        if not self._notes_of_cases:
            return {name: Cells.of([], {}) for name in self._numbers}
        columns = [Cells.joined(parts) for parts in self._parts]
        reasons, reason_places = self._reasons([column.states for column in columns])
        cells: dict[str, Cells] = {}
        for position, name in enumerate(self._numbers):
            # None: no cell of this metric has a reason.
            places = reason_places.get(position)
            cells[name] = replace(columns[position], reasons=reasons, reason_places=places)
        return cells

    def _reasons(
        self, states: Sequence[NDArray[np.uint8]]
    ) -> tuple[list[str], dict[int, NDArray[np.signedinteger[Any]]]]:
        """The reasons why cells have no value, such as the error of a failed metric.

        A comparison shows beside a lost case why it was not measured. Cases share reasons, so each
        is kept once.

        Args:
            states: of each metric the cells' states, a letter each.

        Returns:
            Each reason once; and by the position of a metric, for each case the place of its reason
            in that list, or -1.
        """
        positions = {number: position for position, number in enumerate(self._numbers.values())}
        # The place of each reason, by its bytes and by whether these are the record of a failure,
        # not a text: that decides below how they are read.
        reasons: dict[tuple[bytes, bool], int] = {}
        # By a metric's position, for each set of notes the place of its reason.
        reasons_of_notes: dict[int, NDArray[np.int32]] = {}
        for notes, metric, detail in self._db.execute(_NOTES_QUERY):
            position = positions.get(metric)
            # Notes of a metric or of cases that this reader did not read.
            if position is None or notes not in self._notes:
                continue
            if position not in reasons_of_notes:
                reasons_of_notes[position] = np.full(len(self._notes), -1, np.int32)
            notes_place, first_case = self._notes[notes]
            # The status of the first case decides: cases share notes only with equal statuses.
            has_failed = bool(states[position][first_case] == ord("f"))
            reason_place = reasons.setdefault((detail, has_failed), len(reasons))
            reasons_of_notes[position][notes_place] = reason_place
        texts: list[str] = []
        for detail, has_failed in reasons:
            if has_failed:
                texts.append(str(decoded(Failure, detail)))
            else:
                texts.append(detail.decode())
        # Few bytes each: a run has many cases, and few reasons.
        # Negative, so that the type holds the -1 of a cell without a reason.
        smallest_type = np.min_scalar_type(-len(texts) - 1)
        notes_of_cases = np.array(self._notes_of_cases)
        reason_places: dict[int, NDArray[np.signedinteger[Any]]] = {}
        for position, column in reasons_of_notes.items():
            reason_places[position] = column.astype(smallest_type)[notes_of_cases]
        return texts, reason_places


_STATUSES = 6
"""The column of a case's row with the statuses of its cells, a letter each."""
_NOTES_DIGEST = 7
"""The column with the digest of the notes on them."""
_FIRST_VALUE = 8
"""The column from which on the row has the values of its cells."""
_STATUS_LETTERS = [ord(status.value[0]) for status in Status]
"""How a journal writes the status of a cell: the first letter of its word."""


class _Repeat(NamedTuple):
    """What cases were scored one more time that they were asked."""

    places: dict[tuple[str, bytes], int]
    """Of cases, by their ids and digests: a case that was edited since is another one."""
    cells: dict[str, Cells]
    """By metric."""


def _read_repeat(folder: Path, metrics: Sequence[Metric]) -> _Repeat:
    """The scores of one repeat: a further time that the cases of a run were asked.

    A run that asked each case several times is the mean of its repeats.

    Raises:
        RunMismatchError: it was scored by other metrics, so it cannot be averaged with the run.
    """
    run_folder = RunFolder(path=folder)
    repeat_metrics = metrics_of(read_manifest(run_folder.manifest))
    # Names in their order: cells are joined by position.
    if [metric.name for metric in repeat_metrics] != [metric.name for metric in metrics]:
        raise RunMismatchError(f"{folder} was scored by other metrics: run eval again")
    places: dict[tuple[str, bytes], int] = {}
    with read_only(run_folder.journal) as db:
        reader = _CellReader(db, metrics)
        for batch in reader.batches():
            for _, id_, digest, *_ in batch:
                # Positions in the repeat's own order.
                places[id_, digest] = len(places)
        return _Repeat(places, reader.cells())


def _repeated_cells(
    cells: Mapping[str, Cells],
    cases: Sequence[tuple[str, bytes]],
    repeats: Sequence[_Repeat],
    metric: str,
) -> Cells:
    """A metric's cells of each case, one for each time that the case was asked.

    The scatter between times is noise that a test must reckon with.

    A cell is a metric's result for a case.

    Args:
        cells: of the first time, by metric.
        cases: ids and digests.
        repeats: the times after that; one may lack a case.
    """
    cells_of_cases: list[tuple[Cell | None, ...]] = []
    for place, case in enumerate(cases):
        # The first time is that of the run itself.
        cells_of_case: list[Cell | None] = [cells[metric][place]]
        for repeat in repeats:
            repeat_place = repeat.places.get(case)
            cell = None
            if repeat_place is not None:
                cell = repeat.cells[metric][repeat_place]
            cells_of_case.append(cell)
        cells_of_cases.append(tuple(cells_of_case))
    # As many cells for each case, with None where a time lacks it.
    return Cells.repeated(cells_of_cases)


def _stage_endings(manifest: Manifest) -> Callable[[str | None], dict[str, Status]]:
    """A function that reads from the journal how the stages of one case of the run ended.

    The function takes the stored text, ``stage=status`` of each stage that was asked, joined by
    commas, and gives the status of every stage of the run. Equal texts give the same dictionary:
    leave it unchanged.
    """
    # A run always has retrieval and generation.
    # Also where neither was asked: recorded answers have endings as well.
    present_stages = {"retrieve", "generate", *manifest.rag.stages, *manifest.absent}
    stages = [stage for stage in STAGES if stage in present_stages]
    asked_stages = {*manifest.rag.stages} - {*manifest.absent}
    context = _context_stage(manifest)

    # The cases of a run end in few ways.
    return cache(partial(_endings_of_case, stages, asked_stages, context))


def _endings_of_case(
    stages: Sequence[str], asked_stages: Collection[str], context: str, stored: str | None
) -> dict[str, Status]:
    """How each stage of a case ended, in the order of the stages.

    A stage that was not asked, because the stage before it gave nothing, ended as that one did: a
    failed retrieval fails generation, too.

    Args:
        stages: of the run.
        asked_stages: those of the run that its system has, so that they were to be asked.
        context: the stage that gives the contexts which the answer is made from.
        stored: ``stage=status`` of each stage that was asked, joined by commas, as in the journal.
    """
    statuses: dict[str, Status] = {}
    # Without any outcome the query gives NULL.
    for entry in (stored or "").split(","):
        if entry:
            stage, _, status = entry.partition("=")
            statuses[stage] = Status(status)
    endings: dict[str, Status] = {}
    for stage in stages:
        endings[stage] = statuses.get(stage, Status.SKIPPED)
        # A stage that was never called ended as the stage whose output it reads.
        if stage not in statuses and stage in asked_stages and stage != "retrieve":
            stage_before = context if stage in ("validate", "generate") else "retrieve"
            # The stage before it was skipped or failed. After a measured one, this stage was only
            # not reached yet: it stays skipped.
            if endings[stage_before] is not Status.MEASURED:
                endings[stage] = endings[stage_before]
    return endings
