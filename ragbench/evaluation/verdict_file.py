"""A file of verdicts that is whole or not there, and what an interrupted run left of it.

While a run goes on, its lines stand in ``NAME.partial``: a line a query, each with the digest of
its query and chunks, written at once. When the last one is there, the verdicts become ``NAME``, by
a rename. A process that is killed leaves ``NAME`` as it was; the next run takes the lines of
``NAME.partial`` up to the first that is broken or is of another query, and goes on behind it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import orjson
from filelock import FileLock, Timeout

from ragbench.data.atomic import written_whole
from ragbench.errors import InputError, RunLockedError
from ragbench.evaluation.judge_dump import Judged, Told

__all__ = ["VerdictFile", "verdict_file"]

_FORM = 1
"""Version of the lines: those of another are not read."""


@dataclass(slots=True)
class VerdictFile:
    """Lines that are read back first, then written on."""

    path: Path
    """The file of verdicts."""
    partial: Path
    """Where its lines stand until the last one is there."""
    _file: BinaryIO
    _head: int
    """Where the first line begins."""

    def next_earlier(self) -> Judged | None:
        """The next line that an earlier run left; None when there is no further whole one."""
        at = self._file.tell()
        found = _read(self._file.readline())
        if found is None:
            self._file.seek(at)
        return found

    def cut(self, *, before: Judged | None = None) -> None:
        """Cuts off what lies behind the lines that were read.

        Args:
            before: the last line that was read, when it is to go as well.
        """
        if before is not None:
            self._file.seek(self._file.tell() - len(_written(before)))
        self._file.truncate()

    def add(self, judged: Judged) -> None:
        """Writes a line; no kill of this process takes it back."""
        self._file.write(_written(judged))
        self._file.flush()

    def finish(self) -> None:
        """Makes the file of verdicts out of the lines."""
        self._file.seek(self._head)
        with written_whole(self.path) as out:
            for line in self._file:
                out.write(line.split(b"\t", 2)[2])
        self._file.close()
        self.partial.unlink(missing_ok=True)


@contextmanager
def verdict_file(path: Path, identity: str, *, fresh: bool) -> Generator[VerdictFile]:
    """Opens the lines of a file of verdicts for this process alone.

    Args:
        path: the file of verdicts.
        identity: what the verdicts depend on besides the dump; lines of another are not taken.
        fresh: take none.

    Raises:
        RunLockedError: another process writes them.
        InputError: they cannot be written.
    """
    head = orjson.dumps({"ragbench_verdicts": _FORM, "identity": identity}) + b"\n"
    partial = path.with_name(f"{path.name}.partial")
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder: name a file in it")
        lock.acquire(timeout=0)
    except Timeout as error:
        raise RunLockedError(
            f"another ragbench process is writing {path}. Wait for it, or choose another file"
        ) from error
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
    try:
        with _opened(partial, head, fresh=fresh) as file:
            yield VerdictFile(path, partial, file, len(head))
    finally:
        lock.release()
        Path(lock.lock_file).unlink(missing_ok=True)


def _opened(partial: Path, head: bytes, *, fresh: bool) -> BinaryIO:
    if not fresh and partial.is_file():
        file = partial.open("rb+")
        if file.readline() == head:
            return file
        file.close()
    file = partial.open("wb+")
    file.write(head)
    file.flush()
    return file


def _written(judged: Judged) -> bytes:
    # No tab and no line break stands in JSON as it is.
    return b"%b\t%b\t%b\n" % (judged.digest.encode(), orjson.dumps(tuple(judged.told)), judged.line)


def _read(line: bytes) -> Judged | None:
    """A line as it was written; None when it is not whole, or tells of a failure."""
    parts = line.split(b"\t", 2)
    if len(parts) != 3 or not line.endswith(b"}\n"):
        return None
    try:
        told = Told(*orjson.loads(parts[1]))
        orjson.loads(parts[2])
        digest = parts[0].decode("ascii")
    except (orjson.JSONDecodeError, TypeError, UnicodeDecodeError):
        return None
    if told.failure is not None:
        return None
    kinds = tuple((str(kind), int(count)) for kind, count in told.warnings)
    return Judged(digest, told._replace(warnings=kinds), parts[2].removesuffix(b"\n"))
