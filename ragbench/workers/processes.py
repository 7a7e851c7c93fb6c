"""The engines of one machine: threads of this process, and processes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from typing import Any

from ragbench.workers.engine import Make, WorkerLostError


@dataclass(frozen=True, slots=True)
class Threads:
    """Calls in threads of this process, one item each; with one thread, in the caller's own."""

    threads: int = 1
    count: int = 1
    batch: int = 1

    @property
    def capacity(self) -> int:
        return 1 if self.threads == 1 else 2 * self.threads

    @property
    def fewest(self) -> int | None:
        return None if self.threads == 1 else 0

    def start(self, make: Make) -> _ThreadWorker:
        """See `Engine.start`; the call is made once, and must bear several threads."""
        return _ThreadWorker(make(), ThreadPoolExecutor(self.threads))


@dataclass(frozen=True, slots=True)
class _ThreadWorker:
    call: Callable[[Sequence[Any]], Sequence[Any]]
    executor: ThreadPoolExecutor
    ready: None = None

    def submit(self, items: Sequence[Any]) -> Future[Any]:
        return self.executor.submit(self.call, items)

    def result(self, future: Future[Any]) -> Any:
        return future.result()

    def close(self) -> None:
        self.executor.shutdown(cancel_futures=True)


@dataclass(frozen=True, slots=True)
class Processes:
    """Processes of this machine, each started anew so that it holds no locks of this one."""

    count: int
    capacity: int = 2
    batch: int = 16
    fewest: int | None = 2

    def start(self, make: Make) -> _ProcessWorker:
        # An executor for each: one that a process dies in is broken as a whole.
        context = get_context("spawn")
        executor = ProcessPoolExecutor(1, mp_context=context, initializer=_start, initargs=(make,))
        return _ProcessWorker(executor, executor.submit(_is_there))


@dataclass(frozen=True, slots=True)
class _ProcessWorker:
    executor: ProcessPoolExecutor
    ready: Future[Any]

    def submit(self, items: Sequence[Any]) -> Future[Any]:
        try:
            return self.executor.submit(_call, items)
        except BrokenProcessPool as error:
            raise WorkerLostError from error

    def result(self, future: Future[Any]) -> Any:
        try:
            return future.result()
        except BrokenProcessPool as error:
            raise WorkerLostError from error

    def close(self) -> None:
        self.executor.shutdown(cancel_futures=True)


# --- in a worker process

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_make: Make | None = None
_made: Callable[[Sequence[Any]], Sequence[Any]] | None = None


def use_one_thread() -> None:
    """Lets numeric libraries use one thread: workers do what threads would."""
    for name in _ONE_THREAD:
        os.environ.setdefault(name, "1")


def _start(make: Make) -> None:
    global _make
    use_one_thread()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    threading.Thread(target=end_with_parent, daemon=True).start()
    _make = make


def end_with_parent() -> None:
    """Ends this process with its parent, which cannot do so when it is killed."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _is_there() -> None:
    """Answered once the process is there."""


def _call(items: Sequence[Any]) -> list[Any]:
    global _made
    if _made is None:  # not when it starts: what it raises must get to the parent
        if _make is None:
            raise RuntimeError("the worker was not prepared")
        _made = _make()
    return [*_made(items)]
