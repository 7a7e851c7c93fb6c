"""The line of progress in a notebook: its counts, when it is shown, and where."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from ragbench import Progress, evaluate
from ragbench.verbs.notebook_progress import NotebookProgress

RECORDS = [
    {"query": "How long is the leave?", "response": "27 days", "reference": "27 days"},
    {"query": "When does the pool open?", "response": "At nine", "reference": "At seven"},
]


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds


def test_the_line_has_the_cases_of_each_stage() -> None:
    shown: list[str] = []
    clock = Clock()
    progress = NotebookProgress(show=shown.append, now=clock.now)

    progress.advance(Progress("retrieve", 1_000, 2))
    clock.seconds = 1.0
    progress.advance(Progress("generate", 1_000, 2, failed=1))

    assert shown == ["retrieve 2/1,000", "retrieve 2/1,000, generate 2/1,000 (1 failed)"]


def test_events_in_quick_succession_are_shown_as_one() -> None:
    shown: list[str] = []
    progress = NotebookProgress(show=shown.append, now=Clock().now)

    for _ in range(3):
        progress.advance(Progress("retrieve", 10, 1))

    assert shown == ["retrieve 1/10"]


def test_the_last_counts_are_shown_at_the_end() -> None:
    shown: list[str] = []
    progress = NotebookProgress(show=shown.append, now=Clock().now)

    for _ in range(3):
        progress.advance(Progress("retrieve", 3, 1))
    progress.finish()

    assert shown == ["retrieve 1/3", "retrieve 3/3"]


def test_a_run_that_did_nothing_shows_nothing() -> None:
    shown: list[str] = []
    progress = NotebookProgress(show=shown.append, now=Clock().now)

    progress.finish()

    assert shown == []


def test_cases_of_an_unknown_number_are_counted_without_it() -> None:
    shown: list[str] = []
    progress = NotebookProgress(show=shown.append, now=Clock().now)

    progress.advance(Progress("retrieve", None, 5))

    assert shown == ["retrieve 5"]


def test_a_terminal_with_ipython_shows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = ModuleType("IPython")
    terminal.get_ipython = lambda: SimpleNamespace()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", terminal)

    evaluate(RECORDS, out=tmp_path, metrics="exact_match")

    assert capsys.readouterr().out == ""


def test_a_notebook_shows_progress_without_being_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    kernel = ModuleType("IPython")
    kernel.get_ipython = lambda: SimpleNamespace(kernel="running")  # type: ignore[attr-defined]
    display = ModuleType("IPython.display")

    class Handle:
        def display(self, data: dict[str, str], *, raw: bool) -> None:
            shown.append(data["text/plain"])

        update = display

    display.DisplayHandle = Handle  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", display)

    evaluate(RECORDS, out=tmp_path, metrics="exact_match")

    assert "2/2" in shown[-1]
