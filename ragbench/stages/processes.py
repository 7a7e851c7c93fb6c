"""Calls in other processes or in threads, begun ahead and taken in order, for a whole run."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import chain, islice
from multiprocessing import get_context, parent_process
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from ragbench.errors import RunError

__all__ = [
    "Batch",
    "WorkerPool",
    "available_cpus",
    "end_with_parent",
    "map_in_processes",
]

AnyT = TypeVar("AnyT")
ItemT = TypeVar("ItemT")
ValueT = TypeVar("ValueT")

_BATCH = 16
"""Items that a process is given at a time."""
_AHEAD = 3
"""Batches per process that wait or are computed: enough that none is ever idle."""
_HEAVIEST = 1 << 20
"""A batch ends early that weighs more: memory must not depend on what an item holds."""
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def available_cpus() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        return os.cpu_count() or 1


@dataclass(eq=False, slots=True)
class Batch(Generic[ItemT, ValueT]):
    """Items that a pool was given."""

    items: Sequence[ItemT]
    future: Future[list[ValueT]] | None = None
    """None while nobody works on them."""


class WorkerPool(Generic[ItemT, ValueT]):
    """Makes calls in processes or threads; results are taken in the order of the items.

    Processes are started when enough items wait to be worth them. What is taken before that is
    called in this process, when it is taken.
    """

    def __init__(
        self,
        make: Callable[[], Callable[[ItemT], ValueT]],
        *,
        workers: int,
        threads: bool = False,
        batch: int = _BATCH,
    ) -> None:
        """Starts nothing yet.

        Args:
            make: makes the call, once in each process; a function of a module, or a partial of
                one. For threads it is called once, and the call must bear several of them.
            workers: processes or threads; 1 calls in this thread.
            threads: threads in place of processes, for calls that wait for something.
            batch: items that a process is given at a time.
        """
        self._make = make
        self._workers = workers
        self._threads = threads
        self._size = 1 if threads or workers == 1 else batch
        self._fewest = 0 if threads else 2 * batch
        self.ahead = 0 if workers == 1 else workers * (2 if threads else _AHEAD) - 1
        """Batches to begin before the first one is taken, so that no worker is ever idle."""
        self._executor: Executor | None = None
        self._here: Callable[[ItemT], ValueT] | None = None
        self._waiting: deque[Batch[ItemT, ValueT]] = deque()

    def __enter__(self) -> Self:
        """The pool itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends the workers; what none of them has begun is dropped."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)

    def cut(
        self, items: Iterable[AnyT], weight: Callable[[AnyT], int] = lambda _: 0
    ) -> Iterator[list[AnyT]]:
        """Cuts items into batches; of items that are too few for processes, each is one.

        Args:
            items: read as batches are taken.
            weight: what an item holds, such as its letters.
        """
        source = iter(items)
        first = list(islice(source, self._fewest)) if self._size > 1 else []
        size = self._size if len(first) == self._fewest else 1
        taken: list[AnyT] = []
        heavy = 0
        for item in chain(first, source):
            taken.append(item)
            heavy += weight(item)
            if len(taken) >= size or heavy >= _HEAVIEST:
                yield taken
                taken, heavy = [], 0
        if taken:
            yield taken

    def begin(self, items: Sequence[ItemT]) -> Batch[ItemT, ValueT]:
        """Hands items over."""
        batch: Batch[ItemT, ValueT] = Batch(items)
        if not items:
            return batch
        self._waiting.append(batch)
        if self._executor is None and self._workers > 1:
            self._start_if_worth_it()
        if self._executor is not None:
            for waiting in self._waiting:
                waiting.future = self._submit(self._executor, waiting.items)
            self._waiting.clear()
        return batch

    def take(self, batch: Batch[ItemT, ValueT]) -> Iterator[ValueT]:
        """Yields what the calls gave, in order, once it is there.

        Raises:
            RunError: a process died, such as for lack of memory.
        """
        if not batch.items:
            return
        if batch.future is None:
            self._waiting.remove(batch)
            call = self._here = self._here or self._make()
            yield from map(call, batch.items)
            return
        try:
            found = batch.future.result()
        except BrokenProcessPool as error:
            raise RunError(
                "a worker process ended without a result, perhaps for lack of memory. Try again "
                "with --workers 1"
            ) from error
        yield from found

    def drop(self, batch: Batch[ItemT, ValueT]) -> bool:
        """Takes items back that nobody has begun to work on; False where somebody has."""
        if batch.future is not None:
            return batch.future.cancel()
        if batch in self._waiting:
            self._waiting.remove(batch)
        return True

    def _start_if_worth_it(self) -> None:
        if sum(len(waiting.items) for waiting in self._waiting) < self._fewest:
            return
        if self._threads:
            self._here = self._make()
            self._executor = ThreadPoolExecutor(self._workers)
            return
        context = get_context("spawn")  # a fork would copy locks that other threads hold
        self._executor = ProcessPoolExecutor(
            self._workers, mp_context=context, initializer=_start, initargs=(self._make,)
        )

    def _submit(self, executor: Executor, items: Sequence[ItemT]) -> Future[list[ValueT]]:
        call = self._here
        if self._threads and call is not None:
            return executor.submit(lambda: list(map(call, items)))
        try:
            return executor.submit(_call, items)
        except BrokenProcessPool as error:  # told when the batch is taken, after those before it
            broken: Future[list[ValueT]] = Future()
            broken.set_exception(error)
            return broken


def map_in_processes(
    make: Callable[[], Callable[[ItemT], ValueT]],
    items: Iterable[ItemT],
    *,
    workers: int,
    batch: int = _BATCH,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[ValueT]:
    """Yields what a call gives for each item, in the order of the items.

    Memory holds a few batches per process, however many items there are. A few items alone are
    worth no process: they are called here.

    Args:
        make: makes the call; see `WorkerPool`.
        items: read as results are taken.
        workers: processes; 1 calls in this one.
        batch: items that a process is given at a time.
        stopped: asked before items are read on; once true, what is in flight is finished.

    Raises:
        RunError: a process died, such as for lack of memory.
    """
    with WorkerPool(make, workers=workers, batch=batch) as pool:
        begun: deque[Batch[ItemT, ValueT]] = deque()
        batches = pool.cut(items)
        while True:
            while len(begun) <= pool.ahead and not stopped():
                taken = next(batches, None)
                if taken is None:
                    break
                begun.append(pool.begin(taken))
            if not begun:
                return
            try:
                yield from pool.take(begun.popleft())
            except RunError:
                if stopped():  # the signal that stops this process has ended its workers, too
                    return
                raise


_made: Callable[[Any], Any] | None = None
"""What this worker process calls."""


def _start(make: Callable[[], Callable[[Any], Any]]) -> None:
    """Prepares a worker process."""
    global _made
    for name in _ONE_THREAD:  # processes do what threads would
        os.environ.setdefault(name, "1")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    threading.Thread(target=end_with_parent, daemon=True).start()
    _made = make()


def end_with_parent() -> None:
    """Ends this process with its parent, which cannot do so when it is killed."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _call(items: Sequence[Any]) -> list[Any]:
    if _made is None:
        raise RuntimeError("the worker was not prepared")
    return [_made(item) for item in items]
