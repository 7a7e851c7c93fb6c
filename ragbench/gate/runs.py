"""A stored run as scores: what a gate and a comparison ask of its journal.

Each statement is one pass over the cases in the dataset's order. ``report.json`` is never read.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple

import msgspec

from ragbench.core.attribution import Cause, CauseCount, RightShare
from ragbench.core.metric import Metric, Need
from ragbench.core.origin import Origin
from ragbench.core.outcome import Cell, Repeats, Status
from ragbench.core.report import Latency, StageCount
from ragbench.core.run_scores import MetricColumn, RunScores, ScoredCase, clustered_by_gold
from ragbench.core.trace import STAGES
from ragbench.errors import RunMismatchError
from ragbench.gate.baseline_file import read_baseline
from ragbench.ledger.codec import case_facts, decode_failure
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

_FIGURES = "SELECT body FROM report WHERE run = (SELECT max(run) FROM runs)"
_STARTED = "SELECT started FROM runs ORDER BY run DESC LIMIT 1"
_ORIGINS = "SELECT body FROM origins ORDER BY stage"
_METRICS = "SELECT name, metric FROM metrics WHERE position IS NOT NULL ORDER BY position"
_CASES = (
    "SELECT number, cases.id, cases.digest, cases.body, causes.cause, cells.status{values} "
    "FROM cases JOIN cells USING (number) LEFT JOIN causes USING (number) "
    "WHERE cases.position IS NOT NULL ORDER BY cases.position"
)
_NOTES = "SELECT metric, detail FROM notes WHERE number = ?"
_STAGES = (
    "SELECT stage, status, {value} FROM outcomes "
    "WHERE number = ? AND epoch = (SELECT value FROM meta WHERE key = 'epoch')"
)
_TEXTS = (
    "CASE WHEN status NOT IN ('failed', 'skipped') THEN json_extract(CAST(body AS TEXT), "
    "CASE stage WHEN 'generate' THEN '$.response' ELSE '$.context_ids' END) END"
)
"""The answer, or the ids of the chunks; nothing where the stage gave nothing."""


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


class _Row(NamedTuple):
    number: int
    id: str
    digest: bytes
    body: bytes
    cause: str | None
    cells: tuple[Cell, ...]


def read_run(path: str | Path, *, with_texts: bool = True) -> RunScores:
    """Reads a run from its journal, or the mean of the runs that a baseline file holds.

    Args:
        path: a run folder or a file in it, or a baseline file.
        with_texts: whether questions, answers and the ids of what was retrieved are read: only
            what is compared case by case needs them.

    Raises:
        RunMismatchError: it is none of these, another version of ragbench wrote it, or the run did
            not get to its end.
    """
    path = path_of(path)
    folder = run_around(path)
    if folder.is_dir():
        return _from_journal(folder, str(path), with_texts)
    otherwise = (
        "is neither a run nor a baseline file of ragbench. Give the folder of a run, whose "
        "report.json holds only what is shown, or what ragbench baseline set wrote"
    )
    return read_baseline(path, otherwise=otherwise).scores(str(path))


def reported_causes(path: Path) -> tuple[CauseCount, ...]:
    """What became of a run's cases; nothing for a baseline file."""
    folder = run_around(path)
    if not folder.is_dir():
        return ()
    with read_only(RunFolder(path=folder).journal) as db:
        return _figures(db, folder).causes


def reported_right(path: Path) -> RightShare | None:
    """How many of a run's cases are right; None for a baseline file, and where it is not known."""
    folder = run_around(path)
    if not folder.is_dir():
        return None
    with read_only(RunFolder(path=folder).journal) as db:
        return _figures(db, folder).right


def questions(path: Path, ids: Collection[str]) -> dict[str, str]:
    """The questions of some cases of a run, by id; nothing for a baseline file."""
    folder = run_around(path)
    if not ids or not folder.is_dir():
        return {}
    with read_only(RunFolder(path=folder).journal) as db:
        found = db.execute("SELECT id, body FROM cases WHERE position IS NOT NULL")
        return {id: case_facts(body).query for id, body in found if id in ids}


def is_finished(path: Path) -> bool:
    """Whether a folder holds a run of this version that got to its end."""
    try:
        with read_only(RunFolder(path=path).journal) as db:
            return db.execute(_FIGURES).fetchone() is not None
    except RunMismatchError:
        return False


def _from_journal(path: Path, source: str, with_texts: bool) -> RunScores:
    folder = RunFolder(path=path)
    if not folder.exists:
        raise RunMismatchError(f"{path} is not a run folder: it has no {folder.journal.name}")
    manifest = read_manifest(folder.manifest)
    metrics = metrics_of(manifest)
    with read_only(folder.journal) as db:
        figures = _figures(db, path)
        cases = clustered_by_gold(*_cases(db, path, metrics, _Ended(db, manifest, with_texts)))
        (started,) = db.execute(_STARTED).fetchone()
        origins = tuple(Origin.from_json(json.loads(body)) for (body,) in db.execute(_ORIGINS))
    judging = figures.judging
    costs = [line.cost for line in judging.lines] if judging is not None else []
    known = [cost for cost in costs if cost is not None]
    return RunScores(
        source=source,
        dataset=manifest.dataset.name,
        rag=manifest.rag.name,
        fingerprints=manifest.fingerprints,
        matching=manifest.settings["matching"],
        commit=(manifest.git or {}).get("commit"),
        dirty=bool((manifest.git or {}).get("dirty")),
        metrics=tuple(_columns(metrics, figures, cases)),
        cases=cases,
        stages=figures.stages,
        latencies=figures.latencies,
        judge_cost=float(sum(known)) if costs and len(known) == len(costs) else None,
        currency=None if judging is None else judging.currency,
        judge=_judge_name(manifest.judge),
        date=started,
        origins=origins,
    )


def _judge_name(judge: Mapping[str, Any] | None) -> str:
    known = judge or {}
    asked = [known.get("chat"), known.get("embeddings"), *known.get("panel", ())]
    return ", ".join(dict.fromkeys(str(one["model"]) for one in asked if one))


def _figures(db: sqlite3.Connection, path: Path) -> _Figures:
    row = db.execute(_FIGURES).fetchone()
    if row is None:
        raise RunMismatchError(
            f"{path} holds a run that did not get to its end: continue it with the same eval "
            "command"
        )
    return msgspec.json.decode(row[0], type=_Figures)


def _columns(
    metrics: Sequence[Metric], figures: _Figures, cases: Sequence[ScoredCase]
) -> Iterator[MetricColumn]:
    """The metrics, those last whose values no two runs share, such as measured times."""
    scored = list(zip(metrics, figures.summaries, strict=True))
    for metric, summary in sorted(scored, key=lambda one: not one[0].definition.deterministic):
        known, score = metric.definition, summary.score
        if any(metric.name in case.repeats for case in cases):
            values = (case.scores[metric.name].value for case in cases)
            measured = [value for value in values if value is not None]
            score = math.fsum(measured) / len(measured) if measured else None
        yield MetricColumn(
            name=metric.name,
            version=known.version,
            group=known.group.value,
            direction=known.direction,
            low=known.low,
            high=known.high,
            unit=known.unit,
            aggregate=known.aggregate,
            digest=known.digest,
            score=score,
            has_cells=known.deterministic,
            is_judged=metric.is_judged,
            reads_answer=Need.RESPONSE in known.needs,
            reads_contexts=Need.RETRIEVED_CONTEXTS in known.needs,
        )


def _cases(
    db: sqlite3.Connection, path: Path, metrics: Sequence[Metric], ended: _Ended
) -> tuple[list[ScoredCase], list[Sequence[str]]]:
    repeats = [_repeat(folder, metrics) for folder in repeat_folders(path)]
    shown = [one.name for one in metrics if one.definition.deterministic]
    shared: dict[tuple[Cell, ...], dict[str, Cell]] = {}
    cases: list[ScoredCase] = []
    gold: list[Sequence[str]] = []
    for row in _rows(db, metrics):
        facts = case_facts(row.body)
        asked = _asked(row, repeats, metrics)
        cells = {one.name: cell for one, cell in zip(metrics, row.cells, strict=True)}
        cells |= {name: each.mean for name, each in asked.items()}
        mine = tuple(cells[name] for name in shown)
        stages, ids, response = ended.of(row.number)
        gold.append(facts.gold)
        cases.append(
            ScoredCase(
                id=intern(row.id),
                fingerprint=intern(facts.fingerprint),
                right=intern(facts.right),
                scores=shared.setdefault(mine, dict(zip(shown, mine, strict=True))),
                cluster=facts.cluster,
                tags=facts.tags,
                language=facts.language,
                query=intern(facts.query) if ended.with_texts else None,
                response=None if response is None else intern(response),
                retrieved_ids=None if ids is None else tuple(map(intern, json.loads(ids))),
                stages=stages,
                cause=None if row.cause is None else Cause(row.cause),
                gold=tuple(map(intern, facts.gold)) if ended.with_texts else (),
                repeats=asked and {name: asked[name] for name in shown if name in asked},
            )
        )  # fmt: skip
    return cases, gold


def _rows(db: sqlite3.Connection, metrics: Sequence[Metric]) -> Iterator[_Row]:
    numbers = dict(db.execute(_METRICS))
    at = [numbers[metric.name] for metric in metrics]
    query = _CASES.format(values="".join(f", cells.m{number}" for number in at))
    for number, id, digest, body, cause, letters, *values in db.execute(query):
        notes: dict[int, bytes] = dict(db.execute(_NOTES, (number,))) if None in values else {}
        cells = (
            _cell(letters[m : m + 1], value, notes.get(m))
            for m, value in zip(at, values, strict=True)
        )
        yield _Row(number, id, digest, body, cause, tuple(cells))


_STATUSES = {status.value[0]: status for status in Status}


@lru_cache(maxsize=1 << 14)
def _cell(letter: str, value: float | None, detail: bytes | None) -> Cell:
    """One object for all equal cells: those of a large run are of a few kinds."""
    status = _STATUSES.get(letter, Status.SKIPPED)
    if value is not None:
        return Cell(status=status, value=value)
    if status is Status.FAILED and detail is not None:
        return Cell(status=status, reason=str(decode_failure(detail)))
    return Cell(status=status, reason=None if detail is None else detail.decode())


def _repeat(folder: Path, metrics: Sequence[Metric]) -> dict[str, _Row]:
    known = metrics_of(read_manifest(RunFolder(path=folder).manifest))
    if [metric.name for metric in known] != [metric.name for metric in metrics]:
        raise RunMismatchError(f"{folder} was scored by other metrics: run eval again")
    with read_only(RunFolder(path=folder).journal) as db:
        return {row.id: row._replace(body=b"") for row in _rows(db, metrics)}


_NOT_REPEATED: dict[str, Repeats] = {}


def _asked(
    row: _Row, repeats: Sequence[Mapping[str, _Row]], metrics: Sequence[Metric]
) -> dict[str, Repeats]:
    """What each metric gave each time; one whose figure is no mean over cases counts once."""
    if not repeats:
        return _NOT_REPEATED
    found = [repeat.get(row.id) for repeat in repeats]
    same = [other if other is not None and other.digest == row.digest else None for other in found]
    return {
        metric.name: Repeats(
            cells=(row.cells[at], *(None if other is None else other.cells[at] for other in same))
        )
        for at, metric in enumerate(metrics)
        if not metric.definition.aggregate
    }


class _Ended:
    """How each stage of each case ended, and what answering was given and gave."""

    def __init__(self, db: sqlite3.Connection, manifest: Manifest, with_texts: bool) -> None:
        there = {"retrieve", "generate", *manifest.rag.stages, *manifest.absent}
        self._stages = [stage for stage in STAGES if stage in there]
        self._context = "post_retrieve" if "post_retrieve" in there else "retrieve"
        self._asked = set(manifest.rag.stages) - manifest.absent.keys()
        self._db, self._query = db, _STAGES.format(value=_TEXTS if with_texts else "NULL")
        self._shared: dict[tuple[Status, ...], dict[str, Status]] = {}
        self.with_texts = with_texts

    def of(self, number: int) -> tuple[dict[str, Status], str | None, str | None]:
        rows = self._db.execute(self._query, (number,))
        known = {stage: (Status(status), value) for stage, status, value in rows}
        ended: dict[str, Status] = {}
        for stage in self._stages:
            if stage in known:
                ended[stage] = known[stage][0]
            elif stage in self._asked and stage != "retrieve":
                # It was not asked, because the one before gave nothing.
                before = self._context if stage in ("validate", "generate") else "retrieve"
                is_given = ended[before] is Status.MEASURED
                ended[stage] = Status.SKIPPED if is_given else ended[before]
            else:
                ended[stage] = Status.SKIPPED
        ids = known.get(self._context, (None, None))[1]
        ended = self._shared.setdefault(tuple(ended.values()), ended)
        return ended, ids, known.get("generate", (None, None))[1]
