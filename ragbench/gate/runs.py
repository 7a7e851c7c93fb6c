"""A stored run as scores: what a gate and a comparison ask of its journal.

Each statement is one pass over the cases in the dataset's order. ``report.json`` is never read.
"""

from __future__ import annotations

import json
import math
import sqlite3
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ragbench.core.attribution import Cause, CauseCount, RightShare
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
from ragbench.ledger.codec import case_facts, decoded, right_answer
from ragbench.ledger.folder import (
    Manifest,
    RunFolder,
    metrics_of,
    path_of,
    read_manifest,
    repeat_folders,
    run_around,
)
from ragbench.ledger.tables import read_only
from ragbench.plugins import Integers, NDArray, np

_FIGURES = "SELECT body FROM report WHERE run = (SELECT max(run) FROM runs)"
_STARTED = "SELECT started FROM runs ORDER BY run DESC LIMIT 1"
_ORIGINS = "SELECT body FROM origins ORDER BY stage"
_METRICS = "SELECT name, metric FROM metrics WHERE position IS NOT NULL ORDER BY position"
_PRESENT = "epoch = (SELECT value FROM meta WHERE key = 'epoch')"
_OUTCOMES = f"FROM outcomes WHERE number = cases.number AND {_PRESENT}"
_GIVEN = (
    f"(SELECT json_extract(CAST(body AS TEXT), '$.{{key}}') {_OUTCOMES} AND stage = '{{stage}}' "
    "AND status NOT IN ('failed', 'skipped'))"
)
"""What a stage gave; nothing where it gave nothing."""
_CASES = (
    "SELECT number, cases.id, cases.digest, cases.body, causes.cause, "
    f"(SELECT group_concat(stage || '=' || status) {_OUTCOMES}), cells.status{{values}} "
    "FROM cases JOIN cells USING (number) LEFT JOIN causes USING (number) "
    "WHERE cases.position IS NOT NULL ORDER BY cases.position"
)
_NOTES = "SELECT number, metric, detail FROM notes"
_TEXTS = "SELECT cases.body, {} FROM cases WHERE number = ?"
_BATCH = 2_000


class _Line(msgspec.Struct):
    cost: Decimal | None


class _Judging(msgspec.Struct):
    lines: tuple[_Line, ...]
    currency: str | None


class _Summary(msgspec.Struct):
    score: float | None


class _Figures(msgspec.Struct):
    """What the loop counted of a run that got to its end."""

    summaries: tuple[_Summary, ...]
    """In the order of the manifest's metrics."""
    stages: tuple[StageCount, ...]
    latencies: tuple[Latency, ...]
    causes: tuple[CauseCount, ...] = ()
    judging: _Judging | None = None
    right: RightShare | None = None


def read_run(path: str | Path) -> RunScores:
    """Reads a run from its journal, or the mean of the runs that a baseline file holds.

    Args:
        path: a run folder or a file in it, or a baseline file.

    Raises:
        RunMismatchError: it is none of these, another version of ragbench wrote it, or the run did
            not get to its end.
    """
    path = path_of(path)
    folder = run_around(path)
    if folder.is_dir():
        return _from_journal(folder, str(path))
    otherwise = (
        "is neither a run nor a baseline file of ragbench. Give the folder of a run, whose "
        "report.json holds only what is shown, or what ragbench baseline set wrote"
    )
    return read_baseline(path, otherwise=otherwise)


def is_finished(path: Path) -> bool:
    """Whether a folder holds a run of this version that got to its end."""
    try:
        with read_only(RunFolder(path=path).journal) as db:
            return db.execute(_FIGURES).fetchone() is not None
    except RunMismatchError:
        return False


def _from_journal(path: Path, source: str) -> RunScores:
    folder = RunFolder(path=path)
    journal = folder.kept_journal
    manifest = read_manifest(folder.manifest)
    metrics = metrics_of(manifest)
    with read_only(journal) as db:
        figures = _figures(db, path)
        cases = _table(db, path, manifest, metrics)
        (started,) = db.execute(_STARTED).fetchone()
        origins = tuple(Origin.from_json(json.loads(body)) for (body,) in db.execute(_ORIGINS))
    git = manifest.git or {}
    judging = figures.judging
    return RunScores(
        source=source,
        dataset=manifest.dataset.name,
        rag=manifest.rag.name,
        fingerprints=manifest.fingerprints,
        matching=manifest.settings["matching"],
        commit=git.get("commit"),
        dirty=bool(git.get("dirty")),
        metrics=tuple(_columns(metrics, figures, cases)),
        cases=cases,
        stages=figures.stages,
        latencies=figures.latencies,
        judge_cost=None if judging is None else _judge_cost(judging),
        currency=None if judging is None else judging.currency,
        judge=", ".join(_judge_models(manifest)),
        causes=figures.causes,
        right=figures.right,
        date=started,
        origins=origins,
    )


def _judge_cost(judging: _Judging) -> float | None:
    """What the judge's answers cost; None where the price of any is not known."""
    costs: list[Decimal] = []
    for line in judging.lines:
        if line.cost is None:
            return None
        costs.append(line.cost)
    return float(sum(costs)) if costs else None


def _judge_models(manifest: Manifest) -> Iterable[str]:
    """The models that judged, each once."""
    judge = manifest.judge or {}
    models: dict[str, None] = {}
    for endpoint in (judge.get("chat"), judge.get("embeddings"), *judge.get("panel", ())):
        if endpoint:
            models[str(endpoint["model"])] = None
    return models


def _figures(db: sqlite3.Connection, path: Path) -> _Figures:
    row = db.execute(_FIGURES).fetchone()
    if row is None:
        raise RunMismatchError(
            f"{path} holds a run that did not get to its end: continue it with the same eval "
            "command"
        )
    return msgspec.json.decode(row[0], type=_Figures)


def _columns(
    metrics: Sequence[Metric], figures: _Figures, cases: CaseTable
) -> Iterator[MetricColumn]:
    """The metrics, those last whose values no two runs share, such as measured times."""
    scored = list(zip(metrics, figures.summaries, strict=True))
    scored.sort(key=lambda pair: not pair[0].definition.deterministic)
    for metric, summary in scored:
        score = summary.score
        cells = cases.cells.get(metric.name)
        if cells is not None and cells.repeats:
            measured = [value for value in cells.values.tolist() if not math.isnan(value)]
            score = math.fsum(measured) / len(measured) if measured else None
        yield MetricColumn.of(metric, score)


def _table(
    db: sqlite3.Connection, path: Path, manifest: Manifest, metrics: Sequence[Metric]
) -> CaseTable:
    """The cases of a run, with what they were scored each time that they were asked."""
    stages_ended, folders = _endings(manifest), repeat_folders(path)
    reader = _CellReader(db, metrics)
    ids: list[str] = []
    digests: list[bytes] = []
    numbers, gold = array("q"), array("q")
    fingerprints: list[Any] = []
    clusters: list[str | None] = []
    tags: list[tuple[str, ...] | None] = []
    languages: list[str | None] = []
    stages: list[Mapping[str, Status]] = []
    causes: list[Cause | None] = []
    # Most cases share their labels with others: one object of each saves memory.
    shared: dict[Any, Any] = {}
    for rows in reader.batches():
        facts = [case_facts(body) for _, _, _, body, *_ in rows]
        encoded = [fingerprint.encode() for fingerprint, _ in facts]
        fingerprints.append(np.array(encoded, np.bytes_))
        for (_, case), row in zip(facts, rows, strict=True):
            number, id_, digest, _, cause, statuses, *_ = row
            ids.append(id_)
            numbers.append(number)
            gold.extend(case.gold_pair)
            clusters.append(shared.setdefault(case.cluster, case.cluster))
            tags.append(shared.setdefault(case.tags, case.tags))
            languages.append(shared.setdefault(case.language, case.language))
            stages.append(stages_ended(statuses))
            causes.append(Cause(cause) if cause else None)
            if folders:
                digests.append(digest)
    columns: dict[str, Sequence[Any]] = {
        "cluster": [*clusters_of(clusters, gold)],
        "tags": tags,
        "language": languages,
        "stages": stages,
        "cause": causes,
    }
    cells = reader.cells(numbers)
    repeats = [_read_repeat(folder, metrics) for folder in folders]
    if repeats:
        cases = [*zip(ids, digests, strict=True)]
        for metric in metrics:
            if not metric.definition.aggregate:
                cells[metric.name] = _repeated(cells, cases, repeats, metric.name)
    return CaseTable(
        ids=ids,
        fingerprints=np.concatenate(fingerprints or [np.array([], np.bytes_)]),
        facts={name: values for name, values in columns.items() if any(values)},
        cells={
            metric.name: cells[metric.name] for metric in metrics if metric.definition.deterministic
        },
        texts=_JournalTexts(path, _context(manifest), numbers),
    )


def _context(manifest: Manifest) -> str:
    """The stage that gives what answering reads."""
    is_there = "post_retrieve" in manifest.rag.stages or "post_retrieve" in manifest.absent
    return "post_retrieve" if is_there else "retrieve"


class _JournalTexts(Record, kw_only=False):
    """The texts of a run's cases, which are read from its journal when somebody asks for them."""

    path: Path
    context: str
    numbers: Sequence[int]

    def of(self, places: Iterable[int]) -> Iterator[CaseTexts]:
        for body, ids, response in self._rows(self.numbers[place] for place in places):
            _, case = case_facts(body)
            yield CaseTexts(
                query=case.query,
                response=response,
                retrieved_ids=None if ids is None else tuple(json.loads(ids)),
                gold=case.reference_context_ids or (),
                right=right_answer(body),
            )

    def marks(self) -> Integers:
        marks = array("q")
        for _, ids, response in self._rows(self.numbers):
            marks.extend((hash(ids), hash(response)))
        return np.frombuffer(marks, np.int64).reshape(-1, 2)

    def at(self, places: Sequence[int]) -> _JournalTexts:
        return replace(self, numbers=array("q", (self.numbers[place] for place in places)))

    def _rows(self, numbers: Iterable[int]) -> Iterator[tuple[bytes, str | None, str | None]]:
        ids = _GIVEN.format(key="context_ids", stage=self.context)
        query = _TEXTS.format(f"{ids}, {_GIVEN.format(key='response', stage='generate')}")
        with read_only(RunFolder(path=self.path).journal) as db:
            for number in numbers:
                yield db.execute(query, (number,)).fetchone()


class _CellReader:
    """Reads the cells of a run's cases, batch by batch."""

    def __init__(self, db: sqlite3.Connection, metrics: Sequence[Metric]) -> None:
        numbers = dict(db.execute(_METRICS))
        self._db = db
        self._numbers = {metric.name: numbers[metric.name] for metric in metrics}
        """Of the journal's columns, by metric."""
        self._parts: list[list[Cells]] = [[] for _ in self._numbers]
        """Of each metric the batches that were read."""

    def batches(self) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of the cases, of which the cells are kept."""
        numbers = [*self._numbers.values()]
        width = max(numbers, default=0) + 1
        columns = "".join(f", cells.m{number}" for number in numbers)
        rows = self._db.execute(_CASES.format(values=columns))
        while batch := rows.fetchmany(_BATCH):
            values = np.array([row[7:] for row in batch], float).T.copy()
            # A letter for each metric of the journal; those that were added later have none.
            letters = "".join(row[6][:width].ljust(width) for row in batch).encode()
            states = np.frombuffer(letters, np.uint8).reshape(-1, width).T[numbers]
            states = np.where(np.isin(states, _LETTERS), states, ord("s"))
            for parts, column, state in zip(self._parts, values, states, strict=True):
                parts.append(Cells.packed(column, state))
            yield batch

    def cells(self, numbers: Sequence[int]) -> dict[str, Cells]:
        """The cells by metric, once all batches are read.

        Args:
            numbers: of the cases, in order.
        """
        if not numbers:
            return {name: Cells.of([], {}) for name in self._numbers}
        columns = [Cells.joined(parts) for parts in self._parts]
        reasons, why = self._reasons(numbers, [column.states for column in columns])
        cells: dict[str, Cells] = {}
        for position, name in enumerate(self._numbers):
            cells[name] = replace(
                columns[position], reasons=reasons, reason_places=why.get(position)
            )
        return cells

    def _reasons(
        self, numbers: Sequence[int], states: Sequence[NDArray[np.uint8]]
    ) -> tuple[list[str], dict[int, NDArray[np.signedinteger[Any]]]]:
        """Why cells have no value: each reason once, and by metric the place of each case's."""
        places = np.full(max(numbers) + 1, -1, np.int32)
        places[numbers] = np.arange(len(numbers))
        positions = {number: position for position, number in enumerate(self._numbers.values())}
        reasons: dict[tuple[bytes, bool], int] = {}
        why: dict[int, NDArray[np.int32]] = {}
        for number, metric, detail in self._db.execute(_NOTES):
            place = places[number] if number < len(places) else -1
            position = positions.get(metric)
            if place < 0 or position is None:  # of a case or a metric that is gone
                continue
            if position not in why:
                why[position] = np.full(len(numbers), -1, np.int32)
            has_failed = bool(states[position][place] == ord("f"))
            why[position][place] = reasons.setdefault((detail, has_failed), len(reasons))
        texts: list[str] = []
        for detail, has_failed in reasons:
            texts.append(str(decoded(Failure, detail)) if has_failed else detail.decode())
        # Few bytes each: a run has many cases, and few reasons.
        kind = np.min_scalar_type(-len(texts) - 1)
        return texts, {position: column.astype(kind) for position, column in why.items()}


_LETTERS = [ord(status.value[0]) for status in Status]


class _Repeat(NamedTuple):
    """What cases were scored one more time that they were asked."""

    places: dict[tuple[str, bytes], int]
    """Of cases, by their ids and digests."""
    cells: dict[str, Cells]


def _read_repeat(folder: Path, metrics: Sequence[Metric]) -> _Repeat:
    scored_by = metrics_of(read_manifest(RunFolder(path=folder).manifest))
    if [metric.name for metric in scored_by] != [metric.name for metric in metrics]:
        raise RunMismatchError(f"{folder} was scored by other metrics: run eval again")
    places: dict[tuple[str, bytes], int] = {}
    numbers: list[int] = []
    with read_only(RunFolder(path=folder).journal) as db:
        reader = _CellReader(db, metrics)
        for batch in reader.batches():
            for number, id_, digest, *_ in batch:
                places[id_, digest] = len(numbers)
                numbers.append(number)
        return _Repeat(places, reader.cells(numbers))


def _repeated(
    cells: Mapping[str, Cells],
    cases: Sequence[tuple[str, bytes]],
    repeats: Sequence[_Repeat],
    metric: str,
) -> Cells:
    """What a metric gave each time."""
    asks: list[tuple[Cell | None, ...]] = []
    for place, case in enumerate(cases):
        asked: list[Cell | None] = [cells[metric][place]]
        for repeat in repeats:
            other_place = repeat.places.get(case)
            asked.append(None if other_place is None else repeat.cells[metric][other_place])
        asks.append(tuple(asked))
    return Cells.repeated(asks)


def _endings(manifest: Manifest) -> Callable[[str | None], dict[str, Status]]:
    """How each stage of a case ended, from what was stored of it."""
    # A run always has retrieval and generation.
    present = {"retrieve", "generate", *manifest.rag.stages, *manifest.absent}
    stages = [stage for stage in STAGES if stage in present]
    asked = {*manifest.rag.stages} - {*manifest.absent}
    context = _context(manifest)

    @cache  # the cases of a run end in few ways
    def endings_of(stored: str | None) -> dict[str, Status]:
        statuses: dict[str, Status] = {}
        for entry in (stored or "").split(","):
            if entry:
                stage, _, status = entry.partition("=")
                statuses[stage] = Status(status)
        endings: dict[str, Status] = {}
        for stage in stages:
            endings[stage] = statuses.get(stage, Status.SKIPPED)
            if stage not in statuses and stage in asked and stage != "retrieve":
                # It was not asked, because the one before gave nothing.
                before = context if stage in ("validate", "generate") else "retrieve"
                if endings[before] is not Status.MEASURED:
                    endings[stage] = endings[before]
        return endings

    return endings_of
