"""The progress of a run in a notebook: one line below the cell, updated while the run goes on."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from typing import Any

from ragbench.stages.stage import Progress

_SECONDS = 0.2
"""Between two updates: each is a message to the browser."""


def notebook_progress() -> NotebookProgress | None:
    """The display of progress below the running cell of a notebook; None outside of a notebook.

    Nothing is imported for that: a notebook's process has IPython already.
    """
    # A process that serves a notebook has imported IPython.
    ipython: Any = sys.modules.get("IPython")
    if ipython is None:
        return None
    # IPython in a terminal has a shell too, and only that of a notebook has a kernel.
    if getattr(ipython.get_ipython(), "kernel", None) is None:
        return None
    return NotebookProgress(show=_CellLine().show, now=time.monotonic)


class _CellLine:
    """A line below the cell that runs; a later text takes the place of the earlier one."""

    def __init__(self) -> None:
        """Makes a line that is not shown yet: a run that does nothing leaves no empty line."""
        self._handle: Any = None
        """IPython's handle of the line; None until it is shown."""

    def show(self, text: str) -> None:
        """Shows a text below the running cell, in place of the text before.

        A new line for each update would fill the page.
        """
        # Raw: without it, IPython would show the representation of the dictionary.
        data = {"text/plain": text}
        if self._handle is None:
            self._handle = import_module("IPython.display").DisplayHandle()
            self._handle.display(data, raw=True)
        else:
            self._handle.update(data, raw=True)


class NotebookProgress:
    """Counts the cases that each stage has settled, and shows the counts in one line."""

    def __init__(self, *, show: Callable[[str], None], now: Callable[[], float]) -> None:
        """Makes a progress to which no stage has reported yet.

        Args:
            show: shows a text in place of the text before.
            now: seconds on a clock that only moves forward.
        """
        self._show = show
        self._now = now
        self._done: Counter[str] = Counter()
        """By stage the cases that it has settled, in the order in which stages first report."""
        self._failed: Counter[str] = Counter()
        self._total = ""
        """The end of each count, such as "/80"; empty where the number of cases is not known."""
        self._last = -math.inf  # when the line was shown: the first event shows it at once

    def advance(self, event: Progress) -> None:
        """Counts the cases that a stage has just settled, and shows the line if it is time to.

        Not at each event: an update is a message to the browser.
        """
        self._done[event.stage] += event.done
        self._failed[event.stage] += event.failed
        if event.cases is not None:
            self._total = f"/{event.cases:,}"
        now = self._now()
        if now - self._last >= _SECONDS:
            self._last = now
            self._show(self._line())

    def finish(self) -> None:
        """Shows the counts at the end of the run, however it ends; nothing without any case.

        The last update may be too old to show them.
        """
        if self._done:
            self._show(self._line())

    def _line(self) -> str:
        """The line with the counts of all stages: ``retrieve 80/80, generate 38/80 (2 failed)``.

        Only shown, so that its form is free.
        """
        parts: list[str] = []
        for stage, done in self._done.items():
            part = f"{stage} {done:,}{self._total}"
            if self._failed[stage]:
                part += f" ({self._failed[stage]:,} failed)"
            parts.append(part)
        return ", ".join(parts)
