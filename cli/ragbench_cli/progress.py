"""How far a run is, on standard error: bars in a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ragbench_cli.console import say

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["Lines", "StageAdvance", "progress"]

StageAdvance = Callable[[str, int | None, int, int, int], None]
"""As `ragbench.evaluation.evaluate.Advance`; the total is None where nobody knows it."""


@contextmanager
def progress(*, shown: bool) -> Generator[StageAdvance | None]:
    """Shows a run's progress, with its rate, its failures and the time left.

    The bars are wiped when the run is through, and stay when it ends early.

    Args:
        shown: False shows nothing.

    Yields:
        What the evaluation tells its progress to; None when nothing is shown.
    """
    if not shown:
        yield None
    elif not sys.stderr.isatty():
        yield Lines(tell=say, now=time.monotonic).advance
    else:
        bars = _new_bars()
        with bars:
            yield _Bars(bars).advance
            bars.live.transient = True


@dataclass(slots=True)
class _Counts:
    """What happened at one stage so far."""

    done: int = 0
    failed: int = 0
    reused: int = 0

    def add(self, done: int, failed: int, reused: int) -> None:
        self.done += done
        self.failed += failed
        self.reused += reused

    def note(self) -> str:
        """What is worth a word."""
        notes: list[str] = []
        if self.failed:
            notes.append(f"{self.failed:,} failed")
        if self.reused:
            notes.append(f"{self.reused:,} from before")
        return ", ".join(notes)


@dataclass(slots=True)
class Lines:
    """A line every half minute, for logs: a job that says nothing looks like one that hangs."""

    tell: Callable[[str], None]
    now: Callable[[], float]
    """Seconds on a clock that only moves forward."""
    every: float = 30.0
    """Seconds between two lines."""
    _counts: dict[str, _Counts] = field(default_factory=dict[str, _Counts])
    _last: float | None = None

    def advance(self, stage: str, total: int | None, done: int, failed: int, reused: int) -> None:
        """See `ragbench.evaluation.evaluate.Advance`."""
        counts = self._counts.setdefault(stage, _Counts())
        counts.add(done, failed, reused)
        now = self.now()
        if self._last is None:
            self._last = now
        elif now - self._last >= self.every:
            self._last = now
            note = f" ({counts.note()})" if counts.note() else ""
            of = "" if total is None else f"/{total:,}"
            self.tell(f"{stage} {counts.done:,}{of}{note}")


def _new_bars() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description:<8}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:>9}", style="dim"),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[note]}", markup=False),
        console=Console(stderr=True),
    )


class _Bars:
    """A bar a stage."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}
        self._counts: dict[str, _Counts] = {}

    def advance(self, stage: str, total: int | None, done: int, failed: int, reused: int) -> None:
        """See `ragbench.evaluation.evaluate.Advance`."""
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(stage, total=total, rate="", note="")
            self._counts[stage] = _Counts()
        counts = self._counts[stage]
        counts.add(done, failed, reused)
        speed = self._bars.tasks[self._tasks[stage]].speed
        rate = f"{speed:,.1f}/s" if speed else ""
        self._bars.update(self._tasks[stage], advance=done, rate=rate, note=counts.note())
