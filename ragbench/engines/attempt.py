"""One batch through a stage: a batch that fails is split until the guilty items are found."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

from ragbench.errors import InterfaceError, LLMStoppedError
from ragbench.interface.partial import PartialBatchError
from ragbench.records.cells import Failure, Outcome, Status

__all__ = ["Done", "attempt", "attempt_async", "never"]

ItemT = TypeVar("ItemT")
ValueT = TypeVar("ValueT")

Done = tuple[Sequence[ItemT], list[Outcome[ValueT]]]
"""A batch, or a part of one, with one outcome an item."""

# sys.exit() in a user's code ends that call, not the run; so does a cancelled task of its own.
_CAUGHT = (Exception, SystemExit, asyncio.CancelledError)


def never() -> bool:
    """Asks for no stop."""
    return False


def attempt(
    call: Callable[[Sequence[ItemT]], Sequence[ValueT]],
    items: Sequence[ItemT],
    *,
    stage: str,
    stopped: Callable[[], bool] = never,
) -> Iterator[Done[ItemT, ValueT]]:
    """Calls a stage for a batch and, where it raises, for ever smaller parts of it.

    Args:
        call: gives one value an item, in order.
        items: the batch; not empty.
        stage: named in the failures.
        stopped: asked before each call; once true, no further call is made.

    Yields:
        Each part as it is finished, in order: what a part gave is known, and can be stored, before
        the next one is called. Only items whose own call raised are failed.

    Raises:
        LLMStoppedError: the call raised it: no model answers any more, and to call all the others
            a failure would lose what a later run can still do.
        BaseException: one that does not derive from `Exception` (Ctrl-C) passes through.
    """
    waiting = [items]
    while waiting and not stopped():
        part = waiting.pop()
        started = time.perf_counter()
        answer: Sequence[ValueT] | BaseException
        try:
            answer = call(part)
        except LLMStoppedError:
            raise
        except _CAUGHT as error:
            answer = error
        outcomes = _outcomes(answer, len(part), stage, time.perf_counter() - started)
        if outcomes is None:
            waiting += _halves(part)
        else:
            yield part, outcomes


async def attempt_async(
    call: Callable[[Sequence[ItemT]], Awaitable[Sequence[ValueT]]],
    items: Sequence[ItemT],
    *,
    stage: str,
    stopped: Callable[[], bool] = never,
) -> AsyncIterator[Done[ItemT, ValueT]]:
    """`attempt` for a coroutine function."""
    waiting = [items]
    while waiting and not stopped():
        part = waiting.pop()
        started = time.perf_counter()
        answer: Sequence[ValueT] | BaseException
        try:
            answer = await call(part)
        except LLMStoppedError:
            raise
        except _CAUGHT as error:
            if isinstance(error, asyncio.CancelledError) and _being_cancelled():
                raise
            answer = error
        outcomes = _outcomes(answer, len(part), stage, time.perf_counter() - started)
        if outcomes is None:
            waiting += _halves(part)
        else:
            yield part, outcomes


def _being_cancelled() -> bool:
    """Whether this task itself is asked to end, not a task that the user's code waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _halves(part: Sequence[ItemT]) -> list[Sequence[ItemT]]:
    """The second half, then the first: the first is taken next."""
    middle = len(part) // 2
    return [part[middle:], part[:middle]]


def _outcomes(
    answer: Sequence[Any] | BaseException, size: int, stage: str, seconds: float
) -> list[Outcome[Any]] | None:
    """One outcome an item, or None when the call failed and may be split."""
    values: Sequence[Any] | BaseException = (
        answer.outcomes if isinstance(answer, PartialBatchError) else answer
    )
    if not isinstance(values, BaseException) and len(values) != size:
        values = InterfaceError(f"{stage} returned {len(values)} results for {size} queries")
    if not isinstance(values, BaseException):
        share = seconds / size
        return [_outcome(value, stage, share) for value in values]
    return [_outcome(values, stage, seconds)] if size == 1 else None


def _outcome(value: Any, stage: str, seconds: float) -> Outcome[Any]:
    if isinstance(value, BaseException):
        failure = Failure.of(value, stage=stage)
        return Outcome(status=Status.FAILED, failure=failure, seconds=seconds)
    return Outcome(status=Status.MEASURED, value=value, seconds=seconds)
