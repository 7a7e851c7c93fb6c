"""The one loop: windows of cases through a list of stages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ragbench.core.calling import directory_kept
from ragbench.errors import InterruptedRunError
from ragbench.stages.stage import STOPPED, Row, Running, Stage

__all__ = ["run_stages"]


def run_stages(
    windows: Iterable[Sequence[Row]],
    stages: Sequence[Stage],
    run: Running,
    tally: Callable[[Row], None],
) -> None:
    """Takes every case through every stage.

    Args:
        windows: the cases, in order.
        stages: what each window goes through, in order.
        run: what all stages work with.
        tally: counts a case that is through.

    Raises:
        InterruptedRunError: the run was stopped; what was finished is in the journal.
        LLMStoppedError: no model answers any more; what was answered is in the journal.
    """
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
