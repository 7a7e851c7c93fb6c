"""The one loop: windows of cases through a list of stages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ragbench.core.calling import directory_kept
from ragbench.errors import InterruptedRunError
from ragbench.stages.stage import STOPPED, RunCase, Running, Stage


def run_stages(
    windows: Iterable[Sequence[RunCase]],
    stages: Sequence[Stage],
    run: Running,
    tally: Callable[[RunCase], None],
) -> None:
    for window in windows:
        for stage in stages:
            with directory_kept(stage.name):
                stage.settle(window, run)
            if run.stopped():
                run.journal.flush()
                raise InterruptedRunError(STOPPED)
        for row in window:
            tally(row)
    run.journal.flush()
