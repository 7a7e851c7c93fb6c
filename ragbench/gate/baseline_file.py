"""The baseline file: a run's scores without its texts, small enough to commit and to review.

A line a case, sorted by id, so that a version control shows which cases changed. A score stands as
the shortest number that reads back as the same one; a case that was abstained or failed holds the
word, and one that was skipped is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ragbench.data.atomic import written_whole
from ragbench.gate.stored_report import Json, column_of
from ragbench.records.cells import Cell, Status
from ragbench.records.reports import StageCount
from ragbench.records.run_scores import MetricColumn, RunScores, ScoredCase

__all__ = ["FORMAT", "baseline_bytes", "is_baseline", "run_of_baseline", "write_baseline"]

FORMAT = 1
"""Version of the file format."""

_MARK = "ragbench_baseline"


def write_baseline(run: RunScores, path: Path) -> None:
    """Writes a run as a baseline file, whole or not at all.

    Raises:
        InputError: the file cannot be written.
    """
    with written_whole(path) as file:
        file.write(baseline_bytes(run))


def baseline_bytes(run: RunScores) -> bytes:
    """A run as a baseline file. The same scores give the same bytes."""
    kept = sorted((c for c in run.metrics if c.has_cells), key=lambda column: column.name)
    head: dict[str, Any] = {
        _MARK: FORMAT,
        "dataset": run.dataset,
        "rag": run.rag,
        "commit": run.commit,
        "dirty": run.dirty,
        "matching": run.matching,
        "fingerprints": dict(sorted(run.fingerprints.items())),
    }
    lines = [f"  {_json(key)}: {_json(value)}" for key, value in head.items()]
    lines.append(_block("stages", "[]", (_json(asdict(stage)) for stage in run.stages)))
    lines.append(_block("metrics", "[]", (_json(_metric(column)) for column in kept)))
    names = [column.name for column in kept]
    cases = sorted(run.cases, key=lambda case: case.id)
    entries = (f"{_json(case.id)}: {_json(_case(case, names))}" for case in cases)
    lines.append(_block("cases", "{}", entries))
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def is_baseline(content: Json) -> bool:
    """Whether a JSON object says that it is a baseline file."""
    return _MARK in content


def run_of_baseline(content: Json, source: str) -> RunScores:
    """The run behind a baseline file.

    Args:
        content: what the file holds.
        source: where it was read from.

    Raises:
        KeyError: something is missing; likewise TypeError and ValueError: it is something else.
    """
    if content[_MARK] != FORMAT:
        raise ValueError(f"its format is {content[_MARK]}, this ragbench reads {FORMAT}")
    metrics = tuple(column_of(metric) for metric in content["metrics"])
    names = [column.name for column in metrics]
    return RunScores(
        source=source,
        dataset=content["dataset"],
        rag=content["rag"],
        fingerprints=content["fingerprints"],
        matching=content["matching"],
        commit=content["commit"],
        dirty=content["dirty"],
        metrics=metrics,
        cases=tuple(_scored(id_, case, names) for id_, case in content["cases"].items()),
        stages=tuple(StageCount(**stage) for stage in content["stages"]),
    )


def _block(key: str, brackets: str, entries: Iterator[str]) -> str:
    inner = ",\n".join(f"    {entry}" for entry in entries)
    middle = f"\n{inner}\n  " if inner else ""
    return f"  {_json(key)}: {brackets[0]}{middle}{brackets[1]}"


def _metric(column: MetricColumn) -> dict[str, Any]:
    return {
        "metric": column.name,
        "version": column.version,
        "group": column.group,
        "direction": column.direction,
        "low": _number(column.low),
        "high": None if column.high is None else _number(column.high),
        "unit": column.unit,
        "aggregate": column.aggregate,
        "score": None if column.score is None else _number(column.score),
    }


def _case(case: ScoredCase, names: list[str]) -> dict[str, Any]:
    scores = {name: _written(case.scores[name]) for name in names if name in case.scores}
    known = {
        "fingerprint": case.fingerprint,
        "cluster": case.cluster,
        "language": case.language,
        "tags": sorted(case.tags) or None,
        "scores": {name: score for name, score in scores.items() if score != Status.SKIPPED},
    }
    return {key: value for key, value in known.items() if value is not None}


def _written(cell: Cell) -> float | str:
    return _number(cell.value) if cell.value is not None else cell.status.value


def _scored(id_: str, case: Json, names: list[str]) -> ScoredCase:
    scores: Mapping[str, Any] = case["scores"]
    return ScoredCase(
        id=id_,
        fingerprint=case["fingerprint"],
        scores={name: _cell(scores.get(name, Status.SKIPPED)) for name in names},
        cluster=case.get("cluster"),
        tags=tuple(case.get("tags", ())),
        language=case.get("language"),
    )


def _cell(written: object) -> Cell:
    if isinstance(written, str):
        return Cell(status=Status(written))
    if isinstance(written, (int, float)) and not isinstance(written, bool):
        return Cell.measured(float(written))
    raise ValueError(f"{written!r} is no score")


def _number(value: float) -> float:
    """Whole numbers without a decimal point."""
    return int(value) if value == int(value) and abs(value) < 1e15 else value


def _json(value: object) -> str:
    import orjson

    return orjson.dumps(value).decode()
