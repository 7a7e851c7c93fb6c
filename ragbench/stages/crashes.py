"""Cases that take the process down: found by the next run, and asked in a process of their own.

The numbers of the calls in flight are written to a small file that is mapped into memory: no system
call, and they survive a crash of the process. A run that finds numbers of an
earlier one asks just these cases once more.
"""

from __future__ import annotations

import mmap
import signal
import threading
import time
import warnings
from array import array
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from ragbench.core.outcome import Failure, Outcome, Status
from ragbench.errors import RagbenchError, RunError
from ragbench.stages.calls import Manner, attempt


@dataclass(slots=True)
class InFlight:
    """The numbers of the cases that are being asked: 8 bytes each, and 1 more, so that 0 is free.

    A case is in it once, however many parts of its batch are asked: it never needs more room than
    for all cases of the run.
    """

    left_over: Sequence[int]
    """The cases that an earlier process was asking when it ended.

    They stay in the file until `end` takes them out, and in this list for as long as it is
    open: what was lost with that process may be a stage before the one that ended it."""
    _slots: memoryview[int]
    _place: dict[int, int]
    _free: list[int]
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    @contextmanager
    def opened(cls, path: Path, cases: int) -> Generator[InFlight]:
        """The file, for the length of a block; without a case in it, it is removed at the end."""
        try:
            kept = path.read_bytes() if path.exists() else b""
            numbers = {number for number in memoryview(kept[: len(kept) // 8 * 8]).cast("Q")}
            left_over = sorted(number - 1 for number in numbers - {0})
            place = {number: at for at, number in enumerate(left_over)}
            free = list(range(len(place), len(place) + max(cases, 1)))
            # In full: to write into a hole of a mapped file on a full disk ends the process.
            path.write_bytes(array("Q", [number + 1 for number in left_over] + [0] * len(free)))
            with path.open("r+b") as file:
                mapped = mmap.mmap(file.fileno(), 0)
        except OSError as error:
            raise RunError(f"{path} cannot be written: {error.strerror}") from error
        found = cls(left_over, memoryview(mapped).cast("Q"), place, free)
        try:
            yield found
        except BaseException:
            found.end(place.keys() - set(left_over))
            raise
        finally:
            with found._lock:
                found._slots.release()
                mapped.close()
                if not place:
                    path.unlink(missing_ok=True)

    def begin(self, numbers: Iterable[int]) -> None:
        """Notes cases before they are asked; any thread may call it."""
        with self._lock:
            for number in numbers:
                if number not in self._place:
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


ItemT = TypeVar("ItemT")
ValueT = TypeVar("ValueT")

TIMED_OUT = "StageTimeoutError"
"""The type of the failure of a case that gave no answer in time."""

Call = Callable[[Sequence[ItemT]], Sequence[ValueT]]


def ask_in_child(
    call: Call[ItemT, ValueT], item: ItemT, *, stage: str, timeout: float | None = None
) -> Outcome[ValueT]:
    """Asks one case in a process of its own, which may come down.

    Args:
        timeout: seconds from the start of the process on; None for no limit.
    """
    import pickle  # hardly ever is anybody asked in a child
    from multiprocessing import get_all_start_methods, get_context

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
        process.join(0 if data is None else _LAST_WORDS)
        if process.exitcode is None:
            process.kill()
            process.join()
        code = cast("int", process.exitcode)
        process.close()
        ours.close()
    if data:
        found: Outcome[ValueT] | RagbenchError = pickle.loads(data)
        if isinstance(found, RagbenchError):
            raise found
        return found
    kind, message = "ProcessDied", f"took the process down ({_how(code)})"
    if data is None:
        kind, message = TIMED_OUT, f"no answer within {timeout:g} s"
    failure = Failure(type=kind, message=message, stage=stage)
    return Outcome(status=Status.FAILED, failure=failure, seconds=time.perf_counter() - started)


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
    import pickle

    from ragbench.workers.engines import end_with_parent

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        ((_, (outcome,)),) = attempt(call, [item], Manner(stage=stage))
        data = pickle.dumps(outcome)
    except RagbenchError as error:
        data = pickle.dumps(error)
    except Exception as error:  # noqa: BLE001  # anything may be in what a RAG returns
        failure = Failure.of(error, stage=stage)
        failed: Outcome[Any] = Outcome(status=Status.FAILED, failure=failure)
        data = pickle.dumps(failed)
    answers.send_bytes(data)
