"""report.json and timings.json, read back as the scores of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from ragbench.errors import RunMismatchError
from ragbench.records.cells import Cell, Status
from ragbench.records.metrics import Direction
from ragbench.records.reports import Latency, StageCount
from ragbench.records.run_scores import MetricColumn, RunScores, ScoredCase

__all__ = ["Json", "column_of", "cut_short", "read_json", "run_of_report", "understood"]

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
        value = orjson.loads(path.read_bytes())
    except OSError as error:
        raise RunMismatchError(f"{path} cannot be read: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise RunMismatchError(f"{path} is not JSON: {error}") from error
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
    return RunScores(
        source=source,
        dataset=manifest["dataset"]["name"],
        rag=manifest["rag"]["name"],
        fingerprints=manifest["fingerprints"],
        matching=manifest["settings"]["matching"],
        commit=git.get("commit"),
        dirty=bool(git.get("dirty")),
        metrics=(*_columns(report, has_cells=True), *_columns(timings, has_cells=False)),
        cases=tuple(map(_case, report["cases"])),
        stages=tuple(StageCount(**stage) for stage in report["stages"]),
        latencies=() if timings is None else tuple(Latency(**row) for row in timings["latencies"]),
    )


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
        score=summary["score"],
        has_cells=has_cells,
    )


def _columns(content: Json | None, *, has_cells: bool) -> Iterator[MetricColumn]:
    if content is not None:
        for summary in content["summaries"]:
            yield column_of(summary, has_cells=has_cells)


def _case(row: Json) -> ScoredCase:
    return ScoredCase(
        id=row["id"],
        fingerprint=row["fingerprint"],
        scores={name: _cell(cell) for name, cell in row["scores"].items()},
        cluster=row["cluster"],
        tags=tuple(row["tags"]),
        language=row["language"],
        query=row["query"],
        response=row["response"],
        retrieved_ids=_ids(row["retrieved_ids"]),
        stages={stage: Status(status) for stage, status in row["stages"].items()},
    )


def _cell(cell: Json) -> Cell:
    status = Status(cell["status"])
    if status is Status.MEASURED:
        return Cell.measured(float(cell["value"]))
    return Cell(status=status, reason=cell["reason"])


def _ids(ids: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if ids is None else tuple(ids)
