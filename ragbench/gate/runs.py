"""A stored run, report or baseline file as scores."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from pathlib import Path

from ragbench.core.attribution import Cause
from ragbench.core.origin import Origin
from ragbench.core.outcome import Cell, Repeats, Status
from ragbench.core.report import Latency, StageCount
from ragbench.core.run_scores import (
    MetricColumn,
    RunScores,
    ScoredCase,
    clustered_by_gold,
)
from ragbench.errors import RunMismatchError
from ragbench.gate.baseline_file import baseline_from, is_baseline
from ragbench.gate.stored_json import Json, column_of, read_json, understood
from ragbench.ledger.folder import RunFolder
from ragbench.ledger.tables import last_started, stored_origins

_VERSION = 1


def run_of_report(report: Json, timings: Json | None, source: str) -> RunScores:
    for content in (report, timings):
        if content is not None and content["schema_version"] != _VERSION:
            raise ValueError(
                f"it has schema version {content['schema_version']}, this ragbench reads {_VERSION}"
            )
    manifest = report["manifest"]
    git: Json = manifest["git"] or {}
    judging: Json = report.get("judging") or {}
    cases: list[ScoredCase] = []
    gold: list[Sequence[str] | None] = []
    for row in report["cases"]:
        cases.append(_report_case(row))
        gold.append(row["reference_ids"])
    return RunScores(
        source=source,
        dataset=manifest["dataset"]["name"],
        rag=manifest["rag"]["name"],
        fingerprints=manifest["fingerprints"],
        matching=manifest["settings"]["matching"],
        commit=git.get("commit"),
        dirty=bool(git.get("dirty")),
        metrics=(*_columns(report, has_cells=True), *_columns(timings, has_cells=False)),
        cases=clustered_by_gold(cases, gold),
        stages=tuple(StageCount(**stage) for stage in report["stages"]),
        latencies=() if timings is None else tuple(Latency(**row) for row in timings["latencies"]),
        judge_cost=_judge_cost(judging),
        currency=judging.get("currency"),
    )


def _judge_cost(judging: Json) -> float | None:
    costs = [line["cost"] for line in judging.get("metrics", ())]
    known = [Decimal(cost) for cost in costs if cost is not None]
    return float(sum(known)) if costs and len(known) == len(costs) else None


def cut_short(path: Path) -> RunMismatchError:
    """What to say of a folder in which a run was begun and never reported."""
    return RunMismatchError(
        f"{path} holds a run without a report.json. If the run is finished, write it with: "
        f"ragbench report {path}. If it was interrupted, continue it with the same eval command"
    )


def _columns(content: Json | None, *, has_cells: bool) -> Iterator[MetricColumn]:
    if content is not None:
        for summary in content["summaries"]:
            yield column_of(summary, has_cells=has_cells)


def _report_case(row: Json) -> ScoredCase:
    return ScoredCase(
        id=row["id"],
        fingerprint=row["fingerprint"],
        scores={name: _report_cell(cell) for name, cell in row["scores"].items()},
        cluster=row["cluster"],
        tags=tuple(row["tags"]),
        language=row["language"],
        query=row["query"],
        response=row["response"],
        retrieved_ids=_ids(row["retrieved_ids"]),
        stages={stage: Status(status) for stage, status in row["stages"].items()},
        cause=_cause(row),
        repeats={
            name: Repeats(
                cells=tuple(None if cell is None else _report_cell(cell) for cell in cells)
            )
            for name, cells in row.get("repeats", {}).items()
        },
    )


def _cause(row: Json) -> Cause | None:
    """None in a report that an earlier version wrote."""
    found: Json | None = row.get("attribution")
    return None if found is None else Cause(found["cause"])


def _report_cell(cell: Json) -> Cell:
    if cell["status"] == Status.MEASURED:
        return _measured(float(cell["value"]))
    return _without_value(cell["status"], cell["reason"])


# One object for all equal cells: those of a large run are of a few kinds.


@lru_cache(maxsize=1 << 14)
def _measured(value: float) -> Cell:
    return Cell.measured(value)


@lru_cache(maxsize=1 << 10)
def _without_value(status: str, reason: str | None) -> Cell:
    return Cell(status=Status(status), reason=reason)


def _ids(ids: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if ids is None else tuple(ids)


_TIMINGS = "timings.json"


def read_run(path: Path) -> RunScores:
    """Reads a run from what ragbench wrote of it.

    Args:
        path: a run folder, its ``report.json``, or a baseline file. ``timings.json`` is read too
            when it lies next to the report.

    Raises:
        RunMismatchError: it is none of these, or another version of ragbench wrote it.
    """
    if path.is_dir():
        return _from_folder(path)
    content = read_json(path)
    if is_baseline(content):
        return understood(path, lambda: baseline_from(content).scores(str(path)))
    if "manifest" not in content or "cases" not in content:
        raise RunMismatchError(
            f"{path} is neither a report.json nor a baseline file of ragbench. Give a run folder, "
            "its report.json, or what ragbench baseline set wrote"
        )
    return _from_report(path, content, str(path))


def is_baseline_file(path: Path) -> bool:
    """Whether a path is a baseline file, and neither a run nor its report."""
    return not path.is_dir() and is_baseline(read_json(path))


def _from_folder(path: Path) -> RunScores:
    folder = RunFolder(path=path)
    if folder.report.is_file():
        run = _from_report(folder.report, read_json(folder.report), str(path))
        return replace(run, date=last_started(folder.journal), origins=read_origins(path))
    if folder.exists:
        raise cut_short(path)
    raise RunMismatchError(f"{path} is not a run folder: it has no {folder.report.name}")


def read_origins(path: Path) -> tuple[Origin, ...] | None:
    """What the outcomes of a stored run came from, a stage each; None where it does not say."""
    stored = stored_origins(RunFolder(path=path).journal)
    if stored is None:
        return None
    return understood(
        path, lambda: tuple(Origin.from_json(json.loads(body)) for body in stored.values())
    )


def _from_report(path: Path, content: Json, source: str) -> RunScores:
    beside = path.with_name(_TIMINGS)
    timings = read_json(beside) if path.name == "report.json" and beside.is_file() else None
    return understood(path, lambda: run_of_report(content, timings, source))
