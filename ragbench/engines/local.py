"""Runs the batches of a stage on this machine: in turn, in threads, or in one event loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from typing import TypeVar

from ragbench.engines.attempt import Done, attempt, attempt_async, never
from ragbench.engines.deadline import with_async_deadline, with_deadline
from ragbench.records.cells import Outcome

__all__ = ["run_async", "run_plain"]

ItemT = TypeVar("ItemT")
ValueT = TypeVar("ValueT")


def run_plain(
    call: Callable[[Sequence[ItemT]], Sequence[ValueT]],
    batches: Sequence[Sequence[ItemT]],
    *,
    stage: str,
    concurrency: int = 1,
    timeout: float | None = None,
    stopped: Callable[[], bool] = never,
) -> Iterator[Done[ItemT, ValueT]]:
    """Runs batches through a plain callable.

    Args:
        call: gives one value an item, in order.
        batches: none of them empty.
        stage: named in failures.
        concurrency: how many batches may be in flight, each in a thread; 1 stays in this thread.
        timeout: seconds allowed an item; None for no limit.
        stopped: asked before each call; once true, no further call is made.

    Yields:
        Each batch, or part of one that had to be split, with its outcomes, as it is finished: in
        order when concurrency is 1.
    """
    limited = call if timeout is None else with_deadline(call, timeout)
    if concurrency == 1 or len(batches) < 2:
        for batch in batches:
            yield from attempt(limited, batch, stage=stage, stopped=stopped)
        return
    yield from _threaded(limited, batches, stage, concurrency, stopped)


_Finished = queue.SimpleQueue[Done[ItemT, ValueT] | BaseException | None]
"""Batches that are done; an error that ends the run; None when a thread has no more to do."""


def _threaded(
    call: Callable[[Sequence[ItemT]], Sequence[ValueT]],
    batches: Sequence[Sequence[ItemT]],
    stage: str,
    concurrency: int,
    stopped: Callable[[], bool],
) -> Generator[Done[ItemT, ValueT], None, None]:
    waiting: queue.SimpleQueue[Sequence[ItemT]] = queue.SimpleQueue()
    finished: _Finished[ItemT, ValueT] = queue.SimpleQueue()
    abandoned = threading.Event()
    for batch in batches:
        waiting.put(batch)

    def halted() -> bool:
        return abandoned.is_set() or stopped()

    workers = min(concurrency, len(batches))
    for _ in range(workers):
        # Daemon threads: a second Ctrl-C must end the process although a call hangs.
        threading.Thread(
            target=_work,
            args=(call, waiting, finished, stage, halted),
            name=f"ragbench-{stage}",
            daemon=True,
        ).start()
    try:
        while workers:
            done = finished.get()
            if done is None:
                workers -= 1
            elif isinstance(done, BaseException):
                raise done
            else:
                yield done
    finally:
        abandoned.set()


def _work(
    call: Callable[[Sequence[ItemT]], Sequence[ValueT]],
    waiting: queue.SimpleQueue[Sequence[ItemT]],
    finished: _Finished[ItemT, ValueT],
    stage: str,
    halted: Callable[[], bool],
) -> None:
    """What each thread does: takes batches until there are none."""
    try:
        while not halted():
            batch = waiting.get_nowait()
            for done in attempt(call, batch, stage=stage, stopped=halted):
                finished.put(done)
    except queue.Empty:
        pass
    except BaseException as error:  # noqa: BLE001  # raised again in the caller's thread
        finished.put(error)
    finally:
        finished.put(None)


async def run_async(
    call: Callable[[Sequence[ItemT]], Awaitable[Sequence[ValueT]]],
    batches: Sequence[Sequence[ItemT]],
    *,
    stage: str,
    finished: Callable[[Sequence[ItemT], list[Outcome[ValueT]]], None],
    concurrency: int = 1,
    timeout: float | None = None,
    stopped: Callable[[], bool] = never,
) -> None:
    """Runs batches through a coroutine function, in the running event loop.

    Args:
        call: gives one value an item, in order.
        batches: none of them empty.
        stage: named in failures.
        finished: told of each batch, or part of one, and its outcomes as it is done.
        concurrency: how many calls may be in flight.
        timeout: seconds allowed an item; the call is cancelled when they are over.
        stopped: asked before each call; once true, no further call is made.

    Raises:
        Exception: what ``finished`` raised.
    """
    limited = call if timeout is None else with_async_deadline(call, timeout)
    remaining = iter(batches)

    async def work() -> None:
        for batch in remaining:
            async for done in attempt_async(limited, batch, stage=stage, stopped=stopped):
                finished(*done)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(batches))):
                group.create_task(work())
    except BaseExceptionGroup as errors:
        first = errors.exceptions[0]
        raise first from first.__cause__
