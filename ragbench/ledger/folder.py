"""A run's folder: its files, its repeats, and the lock that keeps a second process out.

A repeat is the same cases asked again, in ``repeats/2`` and so on, each with a journal of its own:
what one repeat was answered is reused by that repeat alone, and an interrupted one goes on. A file
says how many of them count; without it none does.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from ragbench.errors import ConfigError, RunError, RunLockedError, RunMismatchError
from ragbench.ledger.manifest import write_atomic

_JOURNAL = "journal.sqlite"
_LOCK = ".lock"
# What a run writes. Anything else in the folder is the user's.
# The log first: were it to outlive its journal, SQLite would take it for the next journal's.
_IN_FLIGHT = f"{_JOURNAL}-in-flight"
_JOURNAL_FILES = (f"{_JOURNAL}-wal", f"{_JOURNAL}-shm", _IN_FLIGHT, _JOURNAL)
_NEW_JOURNAL = f"{_JOURNAL}-new"
_NEW_JOURNAL_FILES = (f"{_NEW_JOURNAL}-wal", f"{_NEW_JOURNAL}-shm", _NEW_JOURNAL)
_WRITTEN = (
    "manifest.json", "report.json", "report.md", "report.html", "cases.csv", "timings.json",
    "corpus_gold.json",
)  # fmt: skip


def path_of(given: object) -> Path:
    """A path, of a path or its text.

    Raises:
        ConfigError: it is neither.
    """
    if isinstance(given, (str, Path)) and str(given):
        return Path(given)
    shown = f"{type(given).__name__} {str(given)[:60]!r}"
    raise ConfigError(f"a file or folder is named by its path, and not by {shown}")


def run_around(path: Path) -> Path:
    """A run's folder, for one of the files in it; any other path as it is."""
    folder = path.parent
    is_there = (folder / _JOURNAL).is_file() and (folder / "manifest.json").is_file()
    return folder if is_there and path.name in (*_WRITTEN, _JOURNAL) and path.is_file() else path


class RunFolder:
    """Where a run keeps everything that belongs to it."""

    def __init__(self, *, path: Path) -> None:
        self.path = path
        self.journal = path / _JOURNAL
        self.in_flight = path / _IN_FLIGHT
        """The cases that are being asked."""
        self.manifest = path / "manifest.json"
        self.report = path / "report.json"
        self._pid = path / f"{_LOCK}.pid"

    @property
    def exists(self) -> bool:
        return self.journal.is_file()

    @contextmanager
    def locked(self) -> Generator[bool]:
        """Holds the folder for this process, creating it when it does not exist."""
        try:
            is_new = not self.path.exists()
            if not is_new:
                self._refuse_foreign()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.mkdir(mode=0o700, exist_ok=True)  # it holds what users asked
            lock = FileLock(self.path / _LOCK)
            lock.acquire(timeout=0)
        except Timeout as error:
            raise RunLockedError(
                f"another ragbench process{self._holder()} is working on {self.path}. Wait for it, "
                f"or choose another folder with --out"
            ) from error
        except OSError as error:
            raise RunError(
                f"{self.path} cannot be written: {error.strerror}. Choose another with --out"
            ) from error
        try:
            self._pid.write_text(str(os.getpid()), encoding="utf-8")
            yield is_new
        finally:
            self._pid.unlink(missing_ok=True)
            lock.release()

    @contextmanager
    def new_journal(self) -> Generator[Path]:
        """Begins a new journal; when that goes well, it replaces all that a run left here."""
        self._unlink(_NEW_JOURNAL_FILES)
        try:
            yield self.path / _NEW_JOURNAL
            self._unlink((*_JOURNAL_FILES, *_WRITTEN))
            (self.path / _NEW_JOURNAL).replace(self.journal)
        finally:
            self._unlink(_NEW_JOURNAL_FILES)

    def discard(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def _refuse_foreign(self) -> None:
        if not self.path.is_dir():
            raise RunMismatchError(f"{self.path} is a file. Choose a folder with --out")
        ours = (_LOCK, _JOURNAL)
        if not self.exists and any(not e.name.startswith(ours) for e in self.path.iterdir()):
            raise RunMismatchError(
                f"{self.path} is not empty and is not a run folder. Choose another with --out"
            )

    def _unlink(self, names: Iterable[str]) -> None:
        for name in names:
            (self.path / name).unlink(missing_ok=True)

    def _holder(self) -> str:
        try:
            return f" (pid {int(self._pid.read_text(encoding='utf-8'))})"
        except (OSError, ValueError):
            return ""


def run_name(dataset: str, rag: str, identity: str) -> str:
    """A readable folder name that the same command always arrives at."""
    words = [re.sub(r"[^A-Za-z0-9_.]+", "-", part).strip("-.") or "run" for part in (dataset, rag)]
    return f"{words[0][:40]}-{words[1][:40]}-{identity[:8]}"


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
    if path.is_file():  # whoever opens the run reports what is not a folder
        path.unlink()


def repeat_folders(run: Path) -> tuple[Path, ...]:
    """The folders of the times that a run was asked after the first."""
    path = run / _FOLDER / _COUNT
    if not path.is_file():
        return ()
    text = path.read_text("utf-8").strip()
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise RunMismatchError(f"{path} holds no number of repeats: run eval again")
    return tuple(repeat_folder(run, number) for number in range(2, int(text) + 1))
