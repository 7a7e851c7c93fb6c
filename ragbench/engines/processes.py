"""Calls in several processes: in order, with a bounded number in flight."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from multiprocessing import get_context, parent_process
from typing import Any, TypeVar

from ragbench.engines.ordered import in_order
from ragbench.errors import RunError

__all__ = ["available_cpus", "map_in_processes"]

ItemT = TypeVar("ItemT")
ValueT = TypeVar("ValueT")

_AHEAD = 3
"""Batches a process that wait or are computed: enough that none is ever idle."""
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def available_cpus() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        return os.cpu_count() or 1


def map_in_processes(
    make: Callable[[], Callable[[ItemT], ValueT]],
    items: Iterable[ItemT],
    *,
    workers: int,
    batch: int = 16,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[ValueT]:
    """Yields what a call gives for each item, in the order of the items.

    Memory holds a few batches a process, however many items there are. A few items alone are worth
    no process: they are called here.

    Args:
        make: makes the call, once in each process; a function of a module, or a partial of one.
        items: read as results are taken.
        workers: processes; 1 calls in this one.
        batch: items that a process is given at a time.
        stopped: asked before items are read on; once true, what is in flight is finished.

    Raises:
        RunError: a process died, such as for lack of memory.
    """
    source = iter(items)
    first = list(islice(source, batch * 2)) if workers > 1 else []
    if len(first) < batch * 2:
        yield from _here(make, first, source, stopped)
        return
    context = get_context("spawn")  # a fork would copy locks that other threads hold
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start, initargs=(make,))
    try:
        yield from in_order(
            lambda taken: pool.submit(_call, taken),
            chain(first, source),
            in_flight=workers * _AHEAD,
            batch=batch,
            stopped=stopped,
        )
    except BrokenProcessPool as error:
        if stopped():  # the signal that stops this process has ended its workers, too
            return
        raise RunError(
            "a worker process ended without a result, perhaps for lack of memory. Try again with "
            "--workers 1"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _here(
    make: Callable[[], Callable[[ItemT], ValueT]],
    first: Sequence[ItemT],
    rest: Iterator[ItemT],
    stopped: Callable[[], bool],
) -> Iterator[ValueT]:
    call = make()
    for item in first:
        if stopped():
            return
        yield call(item)
    while not stopped():
        for item in islice(rest, 1):
            yield call(item)
            break
        else:
            return


_made: Callable[[Any], Any] | None = None
"""What this worker process calls."""


def _start(make: Callable[[], Callable[[Any], Any]]) -> None:
    """Prepares a worker process."""
    global _made
    for name in _ONE_THREAD:  # processes do what threads would
        os.environ.setdefault(name, "1")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _made = make()


def _end_with_parent() -> None:
    """A parent that was killed cannot end its workers."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _call(items: Sequence[Any]) -> list[Any]:
    if _made is None:
        raise RuntimeError("the worker was not prepared")
    return [_made(item) for item in items]
