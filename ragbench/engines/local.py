"""Runs the batches of a stage on this machine: in turn, in threads, or in one event loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from typing import TypeVar

from ragbench.engines.attempt import attempt, attempt_async
from ragbench.engines.deadline import with_deadline
from ragbench.errors import StageTimeoutError
from ragbench.records.cells import Outcome

__all__ = ["run_async", "run_plain"]

ItemT = TypeVar("ItemT")
ValueT = TypeVar("ValueT")

Done = tuple[Sequence[ItemT], list[Outcome[ValueT]]]
"""A batch with one outcome an item."""


def run_plain(
    call: Callable[[Sequence[ItemT]], Sequence[ValueT]],
    batches: Sequence[Sequence[ItemT]],
    *,
    stage: str,
    concurrency: int = 1,
    timeout: float | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[Done[ItemT, ValueT]]:
    """Runs batches through a plain callable.

    Args:
        call: gives one value an item, in order.
        batches: none of them empty.
        stage: named in failures.
        concurrency: how many batches may be in flight, each in a thread; 1 stays in this thread.
        timeout: seconds allowed an item; None for no limit.
        stopped: asked before each batch; once true, no further batch is begun.

    Yields:
        Each batch with its outcomes, as it is finished: in order when concurrency is 1.
    """
    limited = call if timeout is None else with_deadline(call, timeout)
    if concurrency == 1 or len(batches) < 2:
        for batch in batches:
            if stopped():
                return
            yield batch, attempt(limited, batch, stage=stage)
        return
    yield from _threaded(limited, batches, stage, concurrency, stopped)


def _threaded(
    call: Callable[[Sequence[ItemT]], Sequence[ValueT]],
    batches: Sequence[Sequence[ItemT]],
    stage: str,
    concurrency: int,
    stopped: Callable[[], bool],
) -> Generator[Done[ItemT, ValueT], None, None]:
    waiting: queue.SimpleQueue[Sequence[ItemT]] = queue.SimpleQueue()
    finished: queue.SimpleQueue[Done[ItemT, ValueT] | BaseException | None] = queue.SimpleQueue()
    abandoned = threading.Event()
    for batch in batches:
        waiting.put(batch)

    def work() -> None:
        try:
            while not (stopped() or abandoned.is_set()):
                batch = waiting.get_nowait()
                finished.put((batch, attempt(call, batch, stage=stage)))
        except queue.Empty:
            pass
        except BaseException as error:  # noqa: BLE001  # raised again in the caller's thread
            finished.put(error)
        finally:
            finished.put(None)

    workers = min(concurrency, len(batches))
    for _ in range(workers):
        # Daemon threads: a second Ctrl-C must end the process although a call hangs.
        threading.Thread(target=work, name=f"ragbench-{stage}", daemon=True).start()
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


async def run_async(
    call: Callable[[Sequence[ItemT]], Awaitable[Sequence[ValueT]]],
    batches: Sequence[Sequence[ItemT]],
    *,
    stage: str,
    finished: Callable[[Sequence[ItemT], list[Outcome[ValueT]]], None],
    concurrency: int = 1,
    timeout: float | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Runs batches through a coroutine function, in the running event loop.

    Args:
        call: gives one value an item, in order.
        batches: none of them empty.
        stage: named in failures.
        finished: told of each batch and its outcomes as it is done.
        concurrency: how many calls may be in flight.
        timeout: seconds allowed an item; the call is cancelled when they are over.
        stopped: asked before each batch; once true, no further batch is begun.
    """
    remaining = iter(batches)

    async def limited(items: Sequence[ItemT]) -> Sequence[ValueT]:
        if timeout is None:
            return await call(items)
        allowed = timeout * len(items)
        limit = asyncio.timeout(allowed)
        try:
            async with limit:
                return await call(items)
        except TimeoutError as error:
            if not limit.expired():
                raise
            message = f"no answer within {allowed:g} s for {len(items)} queries"
            raise StageTimeoutError(message) from error

    async def work() -> None:
        for batch in remaining:
            if stopped():
                return
            finished(batch, await attempt_async(limited, batch, stage=stage))

    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency, len(batches))):
            group.create_task(work())
