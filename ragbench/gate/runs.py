"""A stored run, report or baseline file as scores.

A line a case, sorted by id, so that a version control shows which cases changed. A score stands as
the shortest number that reads back as the same one; a case that was abstained or failed holds the
word, and one that was skipped is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar, cast

from ragbench.core.attribution import Cause
from ragbench.core.metric import Direction
from ragbench.core.outcome import Cell, Status
from ragbench.core.report import Latency, StageCount
from ragbench.core.run_scores import MetricColumn, RunScores, ScoredCase, clustered_by_gold
from ragbench.errors import RunMismatchError
from ragbench.io.atomic import written_whole
from ragbench.io.limits import ReadLimits
from ragbench.ledger.folder import RunFolder

__all__ = [
    "FORMAT",
    "Json",
    "baseline_bytes",
    "column_of",
    "cut_short",
    "is_baseline",
    "read_json",
    "read_run",
    "run_of_baseline",
    "run_of_report",
    "understood",
    "write_baseline",
]

Json = Mapping[str, Any]
"""An object of a file that ragbench wrote."""

ResultT = TypeVar("ResultT")

_VERSION = 1


def read_json(path: Path) -> Json:
    """The JSON object in a file.

    Raises:
        RunMismatchError: the file cannot be read, or holds something else.
    """
    import orjson

    try:
        value = orjson.loads(ReadLimits.of_environment().read_data(path))
    except OSError as error:
        raise RunMismatchError(f"{path} cannot be read: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise RunMismatchError(
            f"{path} is not JSON, so neither a report.json nor a baseline file: {error}. Answers "
            f"that it records are scored by: ragbench eval {path}"
        ) from error
    if not isinstance(value, dict):
        raise RunMismatchError(f"{path} holds no JSON object, so ragbench did not write it")
    return cast("Json", value)


def understood(path: Path, build: Callable[[], ResultT]) -> ResultT:
    """What ``build`` makes of a file's content.

    Raises:
        RunMismatchError: the content is not what this version of ragbench writes.
    """
    try:
        return build()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        told = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise RunMismatchError(
            f"{path} is not what this ragbench writes: {told}. If another version wrote it, "
            "render the run again: ragbench report RUN"
        ) from error


def run_of_report(report: Json, timings: Json | None, source: str) -> RunScores:
    """The run behind a ``report.json``.

    Args:
        report: content of ``report.json``.
        timings: content of ``timings.json``, where there is one.
        source: where it was read from.

    Raises:
        KeyError: something is missing; likewise TypeError and ValueError: it is something else.
    """
    for content in (report, timings):
        if content is not None and content["schema_version"] != _VERSION:
            raise ValueError(
                f"it has schema version {content['schema_version']}, this ragbench reads {_VERSION}"
            )
    manifest = report["manifest"]
    git: Json = manifest["git"] or {}
    judging: Json = report.get("judging") or {}
    definitions = {known["name"]: known.get("definition") for known in manifest["metrics"]}
    return RunScores(
        source=source,
        dataset=manifest["dataset"]["name"],
        rag=manifest["rag"]["name"],
        fingerprints=manifest["fingerprints"],
        matching=manifest["settings"]["matching"],
        commit=git.get("commit"),
        dirty=bool(git.get("dirty")),
        metrics=tuple(
            replace(column, definition=definitions.get(column.name))
            for column in (
                *_columns(report, has_cells=True),
                *_columns(timings, has_cells=False),
            )
        ),
        cases=clustered_by_gold(
            [_report_case(row) for row in report["cases"]],
            [row["reference_ids"] for row in report["cases"]],
        ),
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


def column_of(summary: Json, *, has_cells: bool = True) -> MetricColumn:
    """A metric, from the object that a file holds of it."""
    return MetricColumn(
        name=summary["metric"],
        version=summary["version"],
        group=summary["group"],
        direction=Direction(summary["direction"]),
        low=summary["low"],
        high=summary["high"],
        unit=summary["unit"],
        aggregate=summary["aggregate"],
        digest=summary.get("digest", ""),
        score=summary["score"],
        has_cells=has_cells,
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
    )


def _cause(row: Json) -> Cause | None:
    """None in a report that an earlier version wrote."""
    found: Json | None = row.get("attribution")
    return None if found is None else Cause(found["cause"])


def _report_cell(cell: Json) -> Cell:
    status = Status(cell["status"])
    if status is Status.MEASURED:
        return Cell.measured(float(cell["value"]))
    return Cell(status=status, reason=cell["reason"])


def _ids(ids: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if ids is None else tuple(ids)


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
    entries = (f"{_json(case.id)}: {_json(_baseline_case(case, names))}" for case in cases)
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
        **({"digest": column.digest} if column.digest else {}),
        "group": column.group,
        "direction": column.direction,
        "low": None if column.low is None else _number(column.low),
        "high": None if column.high is None else _number(column.high),
        "unit": column.unit,
        "aggregate": column.aggregate,
        "score": None if column.score is None else _number(column.score),
    }


def _baseline_case(case: ScoredCase, names: list[str]) -> dict[str, Any]:
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
        scores={name: _baseline_cell(scores.get(name, Status.SKIPPED)) for name in names},
        cluster=case.get("cluster"),
        tags=tuple(case.get("tags", ())),
        language=case.get("language"),
    )


def _baseline_cell(written: object) -> Cell:
    if isinstance(written, str):
        return Cell(status=Status(written))
    if isinstance(written, (int, float)) and not isinstance(written, bool):
        return Cell.measured(float(written))
    raise ValueError(f"{written!r} is not a score")


def _number(value: float) -> float:
    """Whole numbers without a decimal point."""
    return int(value) if value == int(value) and abs(value) < 1e15 else value


def _json(value: object) -> str:
    import orjson

    return orjson.dumps(value).decode()


_TIMINGS = "timings.json"


def read_run(path: Path) -> RunScores:
    """Reads a run from what ragbench wrote of it.

    Args:
        path: a run folder, its ``report.json``, or a baseline file. ``timings.json`` is read too
            when it stands beside the report.

    Raises:
        RunMismatchError: it is none of these, or another version of ragbench wrote it.
    """
    if path.is_dir():
        return _from_folder(path)
    content = read_json(path)
    if is_baseline(content):
        return understood(path, lambda: run_of_baseline(content, str(path)))
    if "manifest" not in content or "cases" not in content:
        raise RunMismatchError(
            f"{path} is neither a report.json nor a baseline file of ragbench. Give a run folder, "
            "its report.json, or what ragbench baseline set wrote"
        )
    return _from_report(path, content, str(path))


def _from_folder(path: Path) -> RunScores:
    folder = RunFolder(path=path)
    if folder.report.is_file():
        return _from_report(folder.report, read_json(folder.report), str(path))
    if folder.exists:
        raise cut_short(path)
    raise RunMismatchError(f"{path} is not a run folder: it has no {folder.report.name}")


def _from_report(path: Path, content: Json, source: str) -> RunScores:
    beside = path.with_name(_TIMINGS)
    timings = read_json(beside) if path.name == "report.json" and beside.is_file() else None
    return understood(path, lambda: run_of_report(content, timings, source))
