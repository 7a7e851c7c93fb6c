"""A stage's calls: in turn, in threads, in a loop; the guilty item found."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ragbench.core.calling import with_async_deadline, with_deadline
from ragbench.core.outcome import Failure, Outcome, Status
from ragbench.errors import InterfaceError, LLMStoppedError, NoContextsError, UnreachableError
from ragbench.rag.fallback import PartialBatchError

ItemT = TypeVar("ItemT")
ValueT = TypeVar("ValueT")

Done = tuple[Sequence[ItemT], list[Outcome[ValueT]]]
"""A batch, or a part of one, with one outcome an item."""

# sys.exit() in a user's code ends that call, not the run; so does a cancelled task of its own.
_CAUGHT = (Exception, SystemExit, asyncio.CancelledError)


@dataclass(frozen=True, kw_only=True, slots=True)
class Manner:
    """How a stage's calls are made."""

    stage: str
    concurrency: int = 1
    """Calls in flight."""
    timeout: float | None = None
    """Seconds allowed per item; None for no limit."""
    stopped: Callable[[], bool] = lambda: False
    begun: Callable[[Sequence[Any]], None] = lambda _: None
    """Given the items of each call before it is made, in any thread."""
    split: Callable[[int, BaseException], None] = lambda _size, _error: None
    """Given how many items a call was for that failed and is made again in parts, and why."""


def attempt(
    call: Callable[[Sequence[ItemT]], Sequence[ValueT]], items: Sequence[ItemT], manner: Manner
) -> Iterator[Done[ItemT, ValueT]]:
    """Calls a stage for a batch and, where it raises, for ever smaller parts of it."""
    waiting = [items]
    while waiting and not manner.stopped():
        part = waiting.pop()
        manner.begun(part)
        started = time.perf_counter()
        answer: Sequence[ValueT] | BaseException
        try:
            answer = call(part)
        except LLMStoppedError:
            raise
        except _CAUGHT as error:
            if isinstance(error, UnreachableError) and not error.answered_before:
                raise
            answer = error
        if outcomes := _outcomes(answer, part, waiting, manner, time.perf_counter() - started):
            yield part, outcomes


async def attempt_async(
    call: Callable[[Sequence[ItemT]], Awaitable[Sequence[ValueT]]],
    items: Sequence[ItemT],
    manner: Manner,
) -> AsyncIterator[Done[ItemT, ValueT]]:
    waiting = [items]
    while waiting and not manner.stopped():
        part = waiting.pop()
        manner.begun(part)
        started = time.perf_counter()
        answer: Sequence[ValueT] | BaseException
        try:
            answer = await call(part)
        except LLMStoppedError:
            raise
        except _CAUGHT as error:
            if isinstance(error, UnreachableError) and not error.answered_before:
                raise
            # Only a task that the user's code waited for may have been cancelled, not this one.
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
                raise
            answer = error
        if outcomes := _outcomes(answer, part, waiting, manner, time.perf_counter() - started):
            yield part, outcomes


def _outcomes(
    answer: Sequence[Any] | BaseException,
    part: Sequence[ItemT],
    waiting: list[Sequence[ItemT]],
    manner: Manner,
    seconds: float,
) -> list[Outcome[Any]]:
    """One outcome an item; none where the call failed and its halves are to be called instead."""
    stage, size = manner.stage, len(part)
    values = answer.outcomes if isinstance(answer, PartialBatchError) else answer
    if not isinstance(values, BaseException) and len(values) != size:
        values = InterfaceError(f"{stage} returned {len(values)} results for {size} queries")
    if isinstance(values, BaseException):
        if size > 1 and not isinstance(values, UnreachableError):
            manner.split(size, values)
            waiting += [part[size // 2 :], part[: size // 2]]  # the last is taken next
            return []
        values = [values] * size
    took: dict[str, Any] = {"seconds": seconds / size, "sharing": size}
    found: list[Outcome[Any]] = []
    for value in values:
        if isinstance(value, NoContextsError):
            found.append(Outcome(status=Status.SKIPPED, reason=str(value), **took))
        elif isinstance(value, BaseException):
            failure = Failure.of(value, stage=stage)
            found.append(Outcome(status=Status.FAILED, failure=failure, **took))
        else:
            found.append(Outcome(status=Status.MEASURED, value=value, **took))
    return found


def run_plain(
    call: Callable[[Sequence[ItemT]], Sequence[ValueT]],
    batches: Sequence[Sequence[ItemT]],
    manner: Manner,
) -> Iterator[Done[ItemT, ValueT]]:
    """Runs batches through a plain callable."""
    limited = call if manner.timeout is None else with_deadline(call, manner.timeout)
    if manner.concurrency == 1 or len(batches) < 2:
        for batch in batches:
            yield from attempt(limited, batch, manner)
        return
    yield from _threaded(limited, batches, manner)


_Finished = queue.SimpleQueue[Done[ItemT, ValueT] | BaseException | None]
"""Batches that are done; an error that ends the run; None when a thread has no more to do."""


def _threaded(
    call: Callable[[Sequence[ItemT]], Sequence[ValueT]],
    batches: Sequence[Sequence[ItemT]],
    manner: Manner,
) -> Iterator[Done[ItemT, ValueT]]:
    waiting: queue.SimpleQueue[Sequence[ItemT]] = queue.SimpleQueue()
    finished: _Finished[ItemT, ValueT] = queue.SimpleQueue()
    abandoned = threading.Event()
    for batch in batches:
        waiting.put(batch)
    halted = replace(manner, stopped=lambda: abandoned.is_set() or manner.stopped())
    workers = min(manner.concurrency, len(batches))
    name, given = f"ragbench-{manner.stage}", (call, waiting, finished, halted)
    for _ in range(workers):
        # Daemon threads: a second Ctrl-C must end the process although a call hangs.
        threading.Thread(target=_work, args=given, name=name, daemon=True).start()
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
    manner: Manner,
) -> None:
    try:
        while not manner.stopped():
            for done in attempt(call, waiting.get_nowait(), manner):
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
    manner: Manner,
    finished: Callable[[Sequence[ItemT], list[Outcome[ValueT]]], None],
) -> None:
    """Runs batches through a coroutine function, in the running event loop.

    A call that takes too long is cancelled.
    """
    limited = call if manner.timeout is None else with_async_deadline(call, manner.timeout)
    remaining = iter(batches)

    async def work() -> None:
        for batch in remaining:
            async for done in attempt_async(limited, batch, manner):
                finished(*done)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(manner.concurrency, len(batches))):
                group.create_task(work())
    except BaseExceptionGroup as errors:
        first = errors.exceptions[0]
        raise first from first.__cause__
