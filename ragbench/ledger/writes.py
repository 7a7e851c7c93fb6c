"""What a run's system writes: its own doing, which does not make it another system.

Logs, caches, databases and indexes that code creates in its project are no change of it. Python's
audit hook names most of them when they are opened (`ragbench.ledger.watch`); a library in C++ or
Rust, and a program that is started, are seen by the files that they hold open.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from ragbench.ledger.content import ABSENT, file_content, stamp_of

_LARGEST_DIGESTED = 1 << 20
"""Bytes up to which a file is read before code writes to it; that happens while it is opened."""
_WRITING = os.O_WRONLY | os.O_RDWR


class Before(NamedTuple):
    """What a file was before the code opened it for writing."""

    stamp: str
    """`ABSENT` where the code made the file."""
    digest: str = ""
    """Of its content; empty where the file is large or is not there."""

    @classmethod
    def of(cls, path: str) -> Before:
        """The state of a file at this moment, before the code writes to it.

        Later it tells whether the code changed the file, or only opened it.
        """
        stamp = database_stamp(path)
        digest = ""
        # Read at once: the code writes to it as soon as this returns.
        if stamp != ABSENT and int(stamp.partition(":")[0]) <= _LARGEST_DIGESTED:
            digest = file_content(Path(path)).digest
        return cls(stamp, digest)

    def differs_from(self, path: str) -> bool:
        """Whether a file holds another content than in this earlier state.

        A file that was opened for writing and left unchanged is an input, not an output.

        The answer decides whether the file is the system's own doing.
        """
        # A file that it made is its own, whatever it holds.
        if self.stamp == ABSENT:
            return True
        if database_stamp(path) == self.stamp:
            return False
        # Of a large file no content is known: another stamp counts as a change.
        return not self.digest or file_content(Path(path)).digest != self.digest


def database_stamp(path: str) -> str:
    """The stamp of a file, joined with that of SQLite's log beside it if the log holds anything.

    SQLite writes to the log first: a database may have changed although its file has not.
    """
    stamp = stamp_of(path)
    log = stamp_of(f"{path}-wal")
    is_empty = log.startswith("0:")  # a reader creates an empty log, too
    if log == ABSENT or is_empty:
        return stamp
    return f"{stamp}+{log}"


# --- what an interrupted run leaves to the next command

Mark: TypeAlias = Literal["+", "=", "~"]
"""Of a file that the code wrote, that it opened for writing and left as it was, and that changed
while the run went on, perhaps by its doing."""


class WriteLog:
    """The files that a run's system writes, in a file beside the run's journal.

    A file is noted before it is written to, so that a kill at any moment leaves it known.
    """

    def __init__(self, path: Path) -> None:
        """Reads the log of written files that an interrupted run left, or begins an empty one.

        By the log, files that the interrupted run wrote are known as its own, and not taken for
        changes of the system.
        """
        self._path = path
        """The log's file, beside the journal."""
        self.marks = read_writes(path)
        """The latest mark of each written file: what the file was before and after."""

    def note(self, path: str, mark: Mark) -> None:
        """Adds a file to the log, where it has no such mark yet; any thread may call it.

        A written file is the system's own doing: the next command must not take its change for a
        change of the system.
        """
        # Each line costs a write, and files are opened again and again.
        if self.marks.get(path) == mark:
            return
        self.marks[path] = mark
        # A zero byte ends it, since a path may hold anything else.
        line = os.fsencode(f"{mark}{path}\0")
        with suppress(OSError):  # of a full disk the journal itself tells
            # Opened for each line: any thread may write, and appending to a file is one step.
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(file, line)
            finally:
                os.close(file)

    def forget(self) -> None:
        """Removes the log: the run is finished, or nothing of it is used again.

        A later run must not take over marks of files that it did not write.
        """
        self.marks.clear()
        self._path.unlink(missing_ok=True)


def read_writes(path: Path) -> dict[str, Mark]:
    """The latest mark of each file in a log of written files; empty where there is no log.

    Each entry is a mark and a path, and ends with a zero byte, which no path has. A last entry that
    a kill has cut off is left out.

    An interrupted run continues by them: its own files are no changes of the system.
    """
    marks: dict[str, Mark] = {}
    try:
        content = path.read_bytes()
    except OSError:
        return marks
    # What follows the last zero was not written to its end.
    for line in content.split(b"\0")[:-1]:
        text = os.fsdecode(line)
        # Later entries of a file take the place of earlier ones.
        for mark in ("+", "=", "~"):
            if text.startswith(mark):
                marks[text[1:]] = mark
    return marks


# --- files that are held open


def files_of_streams() -> set[str]:
    """The files that this process holds open for writing, such as that of a shell's ``> out.log``.

    What a run prints is no input of the system. Standard output may be turned to standard error
    just now, with the file kept under another number: so all numbers are looked at. Of a pipe, as
    to ``tee``, the files of the program at its other end count.
    """
    paths: set[str] = set()
    try:
        descriptors = [int(name) for name in os.listdir("/dev/fd")]  # noqa: PTH208
    except OSError:  # as on Windows
        return paths
    import fcntl  # not on Windows

    pipes: set[str] = set()
    # All open files of this process, standard output under whatever number.
    for descriptor in descriptors:
        with suppress(OSError):  # the one of the listing itself is closed by now
            mode = os.fstat(descriptor).st_mode
            if not fcntl.fcntl(descriptor, fcntl.F_GETFL) & _WRITING:
                continue
            # By the kernel's name of a pipe, which its other end has as well.
            if stat.S_ISFIFO(mode):
                pipes.add(f"pipe:[{os.fstat(descriptor).st_ino}]")
            elif stat.S_ISREG(mode):
                paths.add(_path_of(descriptor, fcntl))
    # Of a program such as `tee`, the files that it writes.
    for process in _readers_of(pipes):
        paths.update(files_held_by(process))
    return paths


def _path_of(descriptor: int, fcntl: Any) -> str:
    """The path of an open file by its number; macOS and Linux tell it in different ways.

    The kernel knows an open file by its number, and a project knows it by its path.
    """
    if sys.platform == "darwin":
        raw: bytes = fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024))
        return os.fsdecode(raw.rstrip(b"\0"))
    return os.readlink(f"/dev/fd/{descriptor}")  # noqa: PTH115


def _readers_of(pipes: Collection[str]) -> Iterator[str]:
    """The ids of the processes that read some pipes as their standard input; none but on Linux.

    A program that reads this run's output, like ``tee``, writes it into files.

    Args:
        pipes: as the kernel names them, such as ``pipe:[4711]``.
    """
    if not pipes:
        return
    for process in names_in("/proc"):
        with suppress(OSError):  # another user's, or it has ended
            if process.isdigit() and os.readlink(f"/proc/{process}/fd/0") in pipes:  # noqa: PTH115
                yield process


def files_held_by(process: str) -> Iterator[str]:
    """The files that a process holds open for writing; none on systems other than Linux.

    A file that the system itself writes, such as its log, is no input: its change does not mean
    that the system changed.
    """
    for descriptor in names_in(f"/proc/{process}/fd"):
        with suppress(OSError):  # it is closed by now
            path = os.readlink(f"/proc/{process}/fd/{descriptor}")  # noqa: PTH115
            # Sockets, pipes and devices have no path of a file.
            if not path.startswith("/") or path.startswith(_DEVICES):
                continue
            if _is_for_writing(f"/proc/{process}/fdinfo/{descriptor}"):
                yield path


_DEVICES = ("/dev/", "/proc/", "/sys/", "/memfd:")


def _is_for_writing(info: str) -> bool:
    """Whether an open file may be written to, by its entry under ``/proc``.

    A file that is only read is not changed by the process.

    Args:
        info: path of the entry, which has the file's flags as an octal number.
    """
    with open(info, encoding="ascii") as lines:  # noqa: PTH123
        for line in lines:
            # A line for each fact, with the flags as an octal number.
            name, _, value = line.partition(":")
            if name == "flags":
                return bool(int(value, 8) & _WRITING)
    return False


def names_in(folder: str) -> list[str]:
    """The names in a folder under ``/proc``; none where it does not exist.

    A process may end while it is looked at, and other systems have no such folder.
    """
    try:
        return os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []
