"""A stored run as scores: what a gate and a comparison ask of its journal.

Each statement is one pass over the cases in the dataset's order. ``report.json`` is never read.
"""

from __future__ import annotations

import json
import math
import sqlite3
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ragbench.core.attribution import Cause, CauseCount, RightShare
from ragbench.core.case_table import CaseTable, CaseTexts, Cells, clusters_of
from ragbench.core.metric import Metric
from ragbench.core.origin import Origin
from ragbench.core.outcome import Failure, Status
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
    judging = figures.judging
    costs = [line.cost for line in judging.lines] if judging is not None else []
    known = [cost for cost in costs if cost is not None]
    judge, git = manifest.judge or {}, manifest.git or {}
    asked = [judge.get("chat"), judge.get("embeddings"), *judge.get("panel", ())]
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
        judge_cost=float(sum(known)) if costs and len(known) == len(costs) else None,
        currency=None if judging is None else judging.currency,
        judge=", ".join(dict.fromkeys(str(one["model"]) for one in asked if one)),
        causes=figures.causes,
        right=figures.right,
        date=started,
        origins=origins,
    )


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
    for metric, summary in sorted(scored, key=lambda one: not one[0].definition.deterministic):
        score = summary.score
        cells = cases.cells.get(metric.name)
        if cells is not None and cells.repeats:
            measured = [value for value in cells.values.tolist() if value == value]
            score = math.fsum(measured) / len(measured) if measured else None
        yield MetricColumn.of(metric, score)


def _table(
    db: sqlite3.Connection, path: Path, manifest: Manifest, metrics: Sequence[Metric]
) -> CaseTable:
    ended, folders = _endings(manifest), repeat_folders(path)
    found, ids, digests = _Found(db, metrics), list[str](), list[bytes]()
    numbers, gold, prints = array("q"), array("q"), list[Any]()
    names = ("cluster", "tags", "language", "stages", "cause")
    facts: dict[str, list[Any]] = {name: [] for name in names}
    shared: dict[Any, Any] = {None: None}
    for rows in found.batches():
        known = [case_facts(body) for _, _, _, body, *_ in rows]
        prints.append(np.array([print_.encode() for print_, _ in known], np.bytes_))
        for (_, one), (number, id_, digest, _, cause, stages, *_) in zip(known, rows, strict=True):
            ids.append(id_)
            numbers.append(number)
            gold.extend(one.gold_pair)
            labels = (one.cluster, one.tags, one.language)
            told = (*(shared.setdefault(known, known) for known in labels), ended(stages))
            for name, fact in zip(names, (*told, cause and Cause(cause)), strict=True):
                facts[name].append(fact)
            if folders:
                digests.append(digest)
    facts["cluster"] = [*clusters_of(facts["cluster"], gold)]
    cells = found.cells(numbers)
    repeats = [_repeat(folder, metrics) for folder in folders]
    for metric in metrics if repeats else ():
        if not metric.definition.aggregate:
            name, again = metric.name, [(there, others[metric.name]) for there, others in repeats]
            cells[name] = _repeated(cells[name], [*zip(ids, digests, strict=True)], again)
    return CaseTable(
        ids=ids,
        fingerprints=np.concatenate(prints or [np.array([], np.bytes_)]),
        facts={name: known for name, known in facts.items() if any(known)},
        cells={one.name: cells[one.name] for one in metrics if one.definition.deterministic},
        texts=_JournalTexts(path, _context(manifest), numbers),
    )


def _context(manifest: Manifest) -> str:
    """The stage that gives what answering reads."""
    there = {*manifest.rag.stages, *manifest.absent}
    return "post_retrieve" if "post_retrieve" in there else "retrieve"


class _JournalTexts(Record, kw_only=False):
    path: Path
    context: str
    numbers: Sequence[int]

    def of(self, places: Iterable[int]) -> Iterator[CaseTexts]:
        for body, ids, response in self._rows(self.numbers[place] for place in places):
            (_, case), retrieved = case_facts(body), None if ids is None else tuple(json.loads(ids))
            gold = case.reference_context_ids or ()
            yield CaseTexts(case.query, response, retrieved, gold, right_answer(body))

    def marks(self) -> Integers:
        found = array("q")
        for _, ids, response in self._rows(self.numbers):
            found.extend((hash(ids), hash(response)))
        return np.frombuffer(found, np.int64).reshape(-1, 2)

    def at(self, places: Sequence[int]) -> _JournalTexts:
        return replace(self, numbers=array("q", (self.numbers[place] for place in places)))

    def _rows(self, numbers: Iterable[int]) -> Iterator[tuple[bytes, str | None, str | None]]:
        ids = _GIVEN.format(key="context_ids", stage=self.context)
        query = _TEXTS.format(f"{ids}, {_GIVEN.format(key='response', stage='generate')}")
        with read_only(RunFolder(path=self.path).journal) as db:
            for number in numbers:
                yield db.execute(query, (number,)).fetchone()


class _Found:
    """The cells of a run's cases as they are read, batch by batch."""

    def __init__(self, db: sqlite3.Connection, metrics: Sequence[Metric]) -> None:
        numbers = dict(db.execute(_METRICS))
        self._db, self._at = db, {metric.name: numbers[metric.name] for metric in metrics}
        self._read: list[list[Cells]] = [[] for _ in self._at]

    def batches(self) -> Iterator[list[tuple[Any, ...]]]:
        letters, width = [*self._at.values()], max(self._at.values(), default=0) + 1
        columns = "".join(f", cells.m{number}" for number in letters)
        rows = self._db.execute(_CASES.format(values=columns))
        while batch := rows.fetchmany(_BATCH):
            values = np.array([row[7:] for row in batch], float).T.copy()
            joined = "".join(row[6][:width].ljust(width) for row in batch).encode()
            states = np.frombuffer(joined, np.uint8).reshape(-1, width).T[letters]
            states = np.where(np.isin(states, _LETTERS), states, ord("s"))
            for parts, column, state in zip(self._read, values, states, strict=True):
                parts.append(Cells.packed(column, state))
            yield batch

    def cells(self, numbers: Sequence[int]) -> dict[str, Cells]:
        """The cells by metric, once all batches are read."""
        if not numbers:
            return {name: Cells.of([], {}) for name in self._at}
        found = [Cells.joined(parts) for parts in self._read]
        reasons, why = self._reasons(numbers, [one.states for one in found])
        return {
            name: replace(one, reasons=reasons, why=why.get(at))
            for at, (name, one) in enumerate(zip(self._at, found, strict=True))
        }

    def _reasons(
        self, numbers: Sequence[int], states: Sequence[NDArray[np.uint8]]
    ) -> tuple[list[str], dict[int, NDArray[np.signedinteger[Any]]]]:
        places = np.full(max(numbers) + 1, -1, np.int32)
        places[numbers] = np.arange(len(numbers))
        columns = {metric: column for column, metric in enumerate(self._at.values())}
        reasons: dict[tuple[bytes, bool], int] = {}
        why: dict[int, NDArray[np.int32]] = {}
        for number, metric, detail in self._db.execute(_NOTES):
            place, column = places[number] if number < len(places) else -1, columns.get(metric)
            if place < 0 or column is None:
                continue
            if column not in why:
                why[column] = np.full(len(numbers), -1, np.int32)
            key = detail, bool(states[column][place] == ord("f"))
            why[column][place] = reasons.setdefault(key, len(reasons))
        texts = [
            str(decoded(Failure, text)) if failed else text.decode() for text, failed in reasons
        ]
        kind = np.min_scalar_type(-len(texts) - 1)
        return texts, {column: one.astype(kind) for column, one in why.items()}


_LETTERS = [ord(status.value[0]) for status in Status]
_Places = dict[tuple[str, bytes], int]
"""Of cases, by their ids and digests."""


def _repeat(folder: Path, metrics: Sequence[Metric]) -> tuple[_Places, dict[str, Cells]]:
    known = metrics_of(read_manifest(RunFolder(path=folder).manifest))
    if [metric.name for metric in known] != [metric.name for metric in metrics]:
        raise RunMismatchError(f"{folder} was scored by other metrics: run eval again")
    with read_only(RunFolder(path=folder).journal) as db:
        found = _Found(db, metrics)
        rows = [row[:3] for batch in found.batches() for row in batch]
        cells = found.cells([number for number, *_ in rows])
    return {(id_, digest): place for place, (_, id_, digest) in enumerate(rows)}, cells


def _repeated(
    cells: Cells, cases: Sequence[tuple[str, bytes]], repeats: Sequence[tuple[_Places, Cells]]
) -> Cells:
    """What a metric gave each time."""
    return Cells.repeated(
        [
            (cells[place], *(other[at] if (at := there.get(case)) is not None else None
                             for there, other in repeats))
            for place, case in enumerate(cases)
        ]
    )  # fmt: skip


def _endings(manifest: Manifest) -> Callable[[str | None], dict[str, Status]]:
    """How each stage of a case ended, from what was stored of it."""
    there = {"retrieve", "generate", *manifest.rag.stages, *manifest.absent}
    stages = [stage for stage in STAGES if stage in there]
    context, asked = _context(manifest), {*manifest.rag.stages} - {*manifest.absent}

    @cache  # the cases of a run end in few ways
    def ended(stored: str | None) -> dict[str, Status]:
        pairs = (one.partition("=") for one in (stored or "").split(",") if one)
        known = {stage: Status(status) for stage, _, status in pairs}
        found: dict[str, Status] = {}
        for stage in stages:
            found[stage] = known.get(stage, Status.SKIPPED)
            if stage not in known and stage in asked and stage != "retrieve":
                # It was not asked, because the one before gave nothing.
                before = context if stage in ("validate", "generate") else "retrieve"
                is_given = found[before] is Status.MEASURED
                found[stage] = Status.SKIPPED if is_given else found[before]
        return found

    return ended
