"""Which calls are in flight.

The numbers of the calls in flight stand in a small file that is mapped into memory: 8 bytes a
call, no system call, and they survive a crash of the process. A run that finds some of an earlier
one asks just these cases once more (`ragbench.stages.in_child`).
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from ragbench.errors import RunError

_WIDTH = 8
"""Bytes of a slot: a case's number and 1, so that 0 is a free one."""


class InFlight:
    """The numbers of the cases that are being asked."""

    def __init__(self, path: Path, slots: int) -> None:
        self._path = path
        self._lock = threading.Lock()
        try:
            found = path.read_bytes() if path.exists() else b""
            numbers = [
                int.from_bytes(found[at : at + _WIDTH], "little") - 1
                for at in range(0, len(found) - _WIDTH + 1, _WIDTH)
            ]
            self._left_over = sorted({number for number in numbers if number >= 0})
            self._open(self._left_over, len(self._left_over) + max(slots, 1))
        except OSError as error:
            raise RunError(f"{path} cannot be written: {error.strerror}") from error

    def _open(self, numbers: Sequence[int], slots: int) -> None:
        # Written in full: to write into a hole of a mapped file on a full disk ends the process.
        content = b"".join((number + 1).to_bytes(_WIDTH, "little") for number in numbers)
        with self._path.open("wb") as file:
            file.write(content.ljust(slots * _WIDTH, b"\0"))
        with self._path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), slots * _WIDTH)
        self._slots = memoryview(self._map).cast("Q")
        self._place = {number: at for at, number in enumerate(numbers)}
        self._free = list(range(slots - 1, len(numbers) - 1, -1))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            suspects = set(self._left_over)
            self.end([number for number in self._place if number not in suspects])
        self.close()

    def left_over(self) -> list[int]:
        """The cases that an earlier process was asking when it ended, sorted.

        They stay in the file until `end` takes them out, and in this list for as long as it is
        open: what was lost with that process may be a stage before the one that ended it.
        """
        return list(self._left_over)

    def begin(self, numbers: Iterable[int]) -> None:
        """Notes cases before they are asked; any thread may call it."""
        with self._lock:
            for number in numbers:
                if number not in self._place:
                    if not self._free:
                        self._grow()
                    at = self._place[number] = self._free.pop()
                    self._slots[at] = number + 1

    def end(self, numbers: Iterable[int]) -> None:
        """Takes cases out whose outcomes are recorded."""
        with self._lock:
            for number in numbers:
                at = self._place.pop(number, None)
                if at is not None:
                    self._slots[at] = 0
                    self._free.append(at)

    def close(self) -> None:
        """Closes the file; without a case in it, it is removed."""
        with self._lock:
            is_empty = not self._place
            self._close()
            if is_empty:
                self._path.unlink(missing_ok=True)

    def _grow(self) -> None:
        numbers = list(self._place)
        self._close()
        self._open(numbers, 2 * len(numbers) + 1)

    def _close(self) -> None:
        self._slots.release()
        self._map.close()
