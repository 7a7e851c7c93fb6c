"""What a format is given, and what it says it did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ragbench.records.cells import Cell, Status
from ragbench.runs.trace import Trace

__all__ = ["Export", "Exported", "Scores", "Tally", "failed_stage"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """What the metrics of a run gave, by case."""

    metrics: tuple[str, ...] = ()
    """The metrics' canonical names, in the order of their columns."""
    cells: Mapping[str, Mapping[str, Cell]] = field(default_factory=dict[str, Mapping[str, Cell]])
    """Case id to metric name to cell. Asked for one case at a time, so it may read from disk."""

    def of(self, case: str) -> Iterator[tuple[str, Cell | None]]:
        """Each metric with its cell for a case; None where the case was not scored by it."""
        cells = self.cells.get(case, {})
        return ((metric, cells.get(metric)) for metric in self.metrics)


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """What an export wrote."""

    paths: tuple[Path, ...]
    """The files or the folder, the main one first."""
    written: int
    """How many cases were written."""
    left_out: Mapping[str, int]
    """Why cases were left out, and how many for each reason; empty when none were."""


class Export(Protocol):
    """The one primitive of a format.

    It reads the traces once, in order, keeps none of them, and leaves either the whole output
    or nothing behind. The same traces and scores give the same bytes.
    """

    def __call__(self, traces: Iterable[Trace], path: Path, *, scores: Scores) -> Exported:
        """Writes a run.

        Args:
            traces: the cases and what each stage gave for them.
            path: the file or folder to write; what is there is replaced.
            scores: what the metrics gave. A format that has no place for scores ignores them.

        Raises:
            InputError: the path cannot be written, or a value has no place in the format.
            MissingExtraError: a package that the format needs is not installed.
        """
        ...


@dataclass(kw_only=True, slots=True)
class Tally:
    """Counts while a format writes."""

    written: int = 0
    left_out: dict[str, int] = field(default_factory=dict[str, int])

    def leave_out(self, reason: str) -> None:
        """Counts a case that the format has no place for."""
        self.left_out[reason] = self.left_out.get(reason, 0) + 1

    def exported(self, *paths: Path) -> Exported:
        """The counts, with what was written."""
        return Exported(paths=paths, written=self.written, left_out=self.left_out)


def failed_stage(trace: Trace) -> str | None:
    """The first stage that failed for a case; None when none did."""
    stages = {
        "retrieval": trace.retrieval,
        "post-retrieval": trace.post_retrieval,
        "generation": trace.generation,
    }
    for name, outcome in stages.items():
        if outcome is not None and outcome.status is Status.FAILED:
            return name
    return None
