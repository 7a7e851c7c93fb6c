"""JSON objects that ragbench wrote: reports and baseline files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from ragbench.core.metric import Direction
from ragbench.core.run_scores import MetricColumn
from ragbench.errors import RunMismatchError
from ragbench.io.limits import ReadLimits

__all__ = [
    "Json",
    "column_of",
    "read_json",
    "understood",
]

Json = Mapping[str, Any]
"""An object of a file that ragbench wrote."""

ResultT = TypeVar("ResultT")


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
