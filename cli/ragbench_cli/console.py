"""Data goes to standard output; talk and progress go to standard error."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from ragbench.evaluation.evaluate import Advance

__all__ = ["data_console", "print_json", "progress", "say", "stop_on_signal"]


def say(text: str) -> None:
    """Tells the user something; never part of a command's output."""
    typer.echo(text, err=True)


def print_json(value: object) -> None:
    """Prints a value as the command's output."""
    import orjson

    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    sys.stdout.write(orjson.dumps(value, option=options).decode())


def data_console() -> Console:
    """A rich console on standard output; plain and wide when that is no terminal."""
    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=120, no_color=True)


@contextmanager
def stop_on_signal() -> Generator[Callable[[], bool]]:
    """Turns the first SIGINT or SIGTERM into a request to stop.

    Calls in flight are finished and recorded. A second signal ends the command at once.

    Yields:
        Whether a stop was requested.
    """
    requested = False

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        nonlocal requested
        if requested:
            raise KeyboardInterrupt
        requested = True
        say("Stopping: finishing the calls in flight. Once more to stop at once.")

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, on_signal)
    try:
        yield lambda: requested
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def progress(*, shown: bool) -> Generator[Advance | None]:
    """A progress bar a stage on standard error, with rate, failures and time left.

    Args:
        shown: False draws nothing; so does a standard error that is no terminal.

    Yields:
        What the evaluation tells its progress to; None when nothing is drawn.
    """
    if not shown or not sys.stderr.isatty():
        yield None
        return
    with _bars() as bars:
        yield _Bars(bars).advance


def _bars() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description:<9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
    )


class _Bars:
    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}
        self._failed: dict[str, int] = {}
        self._reused: dict[str, int] = {}

    def advance(self, stage: str, total: int, done: int, failed: int, reused: int) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(stage, total=total, rate="", note="")
        self._failed[stage] = self._failed.get(stage, 0) + failed
        self._reused[stage] = self._reused.get(stage, 0) + reused
        fields: dict[str, Any] = {"note": self._note(stage)}
        task = self._bars.tasks[self._tasks[stage]]
        if task.speed:
            fields["rate"] = f"{task.speed:,.1f}/s"
        self._bars.update(self._tasks[stage], advance=done, **fields)

    def _note(self, stage: str) -> str:
        notes: list[str] = []
        if self._reused[stage]:
            notes.append(f"{self._reused[stage]:,} from the journal")
        if self._failed[stage]:
            notes.append(f"[red]{self._failed[stage]:,} failed")
        return ", ".join(notes)
