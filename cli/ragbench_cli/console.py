"""Data goes to standard output; talk and progress go to standard error."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "data_console",
    "print_file",
    "print_json",
    "print_json_line",
    "say",
    "stdout_for_data",
    "stop_on_signal",
]


def say(text: str) -> None:
    """Tells the user something; never part of a command's output."""
    sys.stdout.flush()  # where both go to one file, they stand in the order of what happened
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def print_json(value: object) -> None:
    """Prints a value as the command's output."""
    import orjson

    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    _write(orjson.dumps(value, option=options))


def print_json_line(value: object) -> None:
    """Prints a value as one line of the command's output."""
    import orjson

    _write(orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE))


def print_file(path: Path) -> None:
    """Prints a UTF-8 file as the command's output."""
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            _write(block)


def _write(block: bytes) -> None:
    """JSON is UTF-8 by definition, whatever the locale says."""
    sys.stdout.flush()
    sys.stdout.buffer.write(block)
    sys.stdout.buffer.flush()


def data_console() -> Console:
    """A rich console on standard output; plain when that is no terminal."""
    import shutil

    from rich.console import Console

    width = None if sys.stdout.isatty() else shutil.get_terminal_size((100, 24)).columns
    return Console(highlight=False, markup=False, emoji=False, soft_wrap=False, width=width)


@contextmanager
def stdout_for_data() -> Generator[None]:
    """Sends what a user's code prints to standard error: standard output is the command's own."""
    errors: TextIO = sys.stderr
    with contextlib.redirect_stdout(errors):
        yield


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
        start = "\n" if sys.stderr.isatty() else ""  # the terminal shows ^C
        with contextlib.suppress(RuntimeError):  # the signal came in the middle of another message
            say(f"{start}Stopping when the calls in flight are through. Once more stops at once.")

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, on_signal)
    try:
        yield lambda: requested
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
