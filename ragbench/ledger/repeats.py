"""Repeats of a run: the same cases asked again, each time in a run folder of its own.

``repeats/2`` and so on lie in the folder of the run, each with its own journal: what one repeat
was answered is reused by that repeat alone, and an interrupted one goes on. A file says how many of
them count; without it none does.
"""

from __future__ import annotations

from pathlib import Path

from ragbench.errors import RunMismatchError
from ragbench.ledger.manifest import write_atomic

_FOLDER = "repeats"
_COUNT = "count"


def repeat_folder(run: Path, number: int) -> Path:
    """The folder of a repeat; the first time, number 1, is the run itself."""
    return run if number == 1 else run / _FOLDER / str(number)


def keep_repeats(run: Path, count: int) -> None:
    """Says that a run was asked so many times, the first one included."""
    write_atomic(run / _FOLDER / _COUNT, f"{count}\n".encode())


def forget_repeats(run: Path) -> None:
    """Says that only the first time counts; what the others were answered stays to be reused."""
    path = run / _FOLDER / _COUNT
    if path.is_file():  # what is no folder is told by whoever opens the run
        path.unlink()


def count_repeats(run: Path) -> int:
    """How many times a run was asked."""
    path = run / _FOLDER / _COUNT
    if not path.is_file():
        return 1
    text = path.read_text("utf-8").strip()
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise RunMismatchError(f"{path} holds no number of repeats: run eval again")
    return int(text)


def repeat_folders(run: Path) -> tuple[Path, ...]:
    return tuple(repeat_folder(run, number) for number in range(2, count_repeats(run) + 1))
