"""Cases that take the process down: found by the next run, and asked in a process of their own.

The numbers of the calls in flight are written to a small file that is mapped into memory: 8 bytes
per call, no system call, and they survive a crash of the process. A run that finds numbers of an
earlier one asks just these cases once more.
"""

from __future__ import annotations

import mmap
import pickle
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from ragbench.core.outcome import Failure, Outcome, Status
from ragbench.errors import RagbenchError, RunError
from ragbench.stages.calls import Manner, attempt
from ragbench.workers.engines import end_with_parent

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


ItemT = TypeVar("ItemT")
ValueT = TypeVar("ValueT")

TIMED_OUT = "StageTimeoutError"
"""The type of the failure of a case that gave no answer in time."""

Call = Callable[[Sequence[ItemT]], Sequence[ValueT]]


def ask_in_child(
    call: Call[ItemT, ValueT],
    item: ItemT,
    *,
    stage: str,
    timeout: float | None = None,
) -> Outcome[ValueT]:
    """Asks one case in a process of its own, which may come down.

    Args:
        timeout: seconds from the start of the process on; None for no limit.
    """
    if "fork" not in get_all_start_methods():
        raise RunError(
            "a case took the process down, and this platform cannot ask it in a process of its "
            "own: take the case out of the dataset, or start over with --fresh"
        )
    started = time.perf_counter()
    context: Any = get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_ask, args=(call, item, stage, theirs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads
        process.start()
    theirs.close()
    data = None
    try:
        data = _answer(ours, process, timeout)
    finally:
        code = _end(process, data is not None)
        ours.close()
    seconds = time.perf_counter() - started
    if data:
        found: Outcome[ValueT] | RagbenchError = pickle.loads(data)
        if isinstance(found, RagbenchError):
            raise found
        return found
    if data is None:
        return _failed(stage, TIMED_OUT, f"no answer within {timeout:g} s", seconds)
    return _failed(stage, "ProcessDied", f"took the process down ({_how(code)})", seconds)


def _failed(stage: str, kind: str, message: str, seconds: float) -> Outcome[Any]:
    failure = Failure(type=kind, message=message, stage=stage)
    return Outcome(status=Status.FAILED, failure=failure, seconds=seconds)


def _answer(ours: Any, process: Any, timeout: float | None) -> bytes | None:
    """What the process says before it ends: empty for nothing, None when it takes too long."""
    until = float("inf") if timeout is None else time.perf_counter() + timeout
    try:
        # Nobody closes the pipe for good while processes live that this one has started.
        while not ours.poll(_GLANCE) and process.is_alive():
            if time.perf_counter() > until:
                return None
        return cast("bytes", ours.recv_bytes()) if ours.poll() else b""
    except (EOFError, OSError):
        return b""


_GLANCE = 0.05
"""Seconds between two looks at whether a process is alive."""
_LAST_WORDS = 5.0
"""Seconds that a process may take to end after it has answered."""


def _end(process: Any, has_ended: bool) -> int:
    """Ends a process; its exit code, of a signal the negative number."""
    process.join(_LAST_WORDS if has_ended else 0)
    if process.exitcode is None:
        process.kill()
        process.join()
    code = cast("int", process.exitcode)
    process.close()
    return code


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        name = f", {signal.Signals(-code).name}"
    except ValueError:
        name = ""
    return f"signal {-code}{name}{': perhaps for lack of memory' if code == -9 else ''}"


# --- in the child


def _ask(call: Call[Any, Any], item: object, stage: str, answers: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    threading.Thread(target=end_with_parent, daemon=True).start()
    answers.send_bytes(_asked(call, item, stage))


def _asked(call: Call[Any, Any], item: object, stage: str) -> bytes:
    try:
        ((_, (outcome,)),) = attempt(call, [item], Manner(stage=stage))
    except RagbenchError as error:
        return pickle.dumps(error)
    try:
        return pickle.dumps(outcome)
    except Exception as error:  # noqa: BLE001  # anything may be in what a RAG returns
        failure = Failure.of(error, stage=stage)
        return pickle.dumps(replace(outcome, status=Status.FAILED, value=None, failure=failure))
