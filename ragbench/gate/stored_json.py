"""JSON objects that ragbench wrote: reports and baseline files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from ragbench.core.metric import Direction
from ragbench.core.run_scores import MetricColumn
from ragbench.errors import RunMismatchError
from ragbench.io.limits import ReadLimits

Json = Mapping[str, Any]
"""An object of a file that ragbench wrote."""

ResultT = TypeVar("ResultT")


def read_json(path: Path) -> Json:
    """The JSON object in a file; the cases of a report are read anew each time they are asked for.

    A report of a million cases is gigabytes, and several times that as objects.
    """
    import orjson

    try:
        value = _by_line(path) or orjson.loads(ReadLimits.of_environment().read_data(path))
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


_CASES, _END = b'  "cases": [\n', b"\n  ]\n}\n"
"""How ``ragbench.views.report.JsonReport`` begins and ends the cases, a line each."""


def _by_line(path: Path) -> dict[str, Any] | None:
    """A report as ragbench writes it; None for any other file."""
    import orjson

    if not path.is_file():
        return None  # such as a pipe, which can be read once
    longest = ReadLimits.of_environment().record
    head = b""
    with path.open("rb") as file:
        while (line := file.readline(longest)) != _CASES:
            head += line
            if not line.endswith(b"\n") or len(head) > longest:
                return None
        start = file.tell()
        file.seek(-len(_END), os.SEEK_END)
        if file.read() != _END:
            return None
    try:
        value = orjson.loads(head + _CASES + b"]}")
    except orjson.JSONDecodeError:
        return None
    return {**value, "cases": _Cases(path, start, longest)}


@dataclass(frozen=True, slots=True)
class _Cases:
    """The cases of a report, each parsed when its turn comes."""

    path: Path
    start: int
    """Offset of the first one."""
    longest: int
    """Bytes of a case that are read."""

    def __iter__(self) -> Iterator[Json]:
        import orjson

        with self.path.open("rb") as file:
            file.seek(self.start)
            while (line := file.readline(self.longest).strip()) != b"]":
                yield orjson.loads(line.removesuffix(b","))


def understood(path: Path, build: Callable[[], ResultT]) -> ResultT:
    """What ``build`` makes of a file's content."""
    try:
        return build()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise RunMismatchError(
            f"{path} is not what this ragbench writes: {problem}. If another version wrote it, "
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
