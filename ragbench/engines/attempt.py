"""One batch through a stage: a batch that fails is split until the guilty items are found."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, TypeVar, cast

from ragbench.interface.partial import PartialBatchError
from ragbench.records.cells import Failure, Outcome, Status

__all__ = ["attempt", "attempt_async"]

ItemT = TypeVar("ItemT")
ValueT = TypeVar("ValueT")

_Steps = Generator[Sequence[Any], "Sequence[Any] | BaseException", list[Outcome[Any]]]
"""Yields the part to call for, is sent its values or what it raised."""

# sys.exit() in a user's code ends that call, not the run.
_CAUGHT = (Exception, SystemExit)


def attempt(
    call: Callable[[Sequence[ItemT]], Sequence[ValueT]], items: Sequence[ItemT], *, stage: str
) -> list[Outcome[ValueT]]:
    """Calls a stage for a batch and, where it raises, for ever smaller parts of it.

    Args:
        call: gives one value an item, in order.
        items: the batch; not empty.
        stage: named in the failures.

    Returns:
        One outcome an item, in order. Only items whose own call raised are failed. Exceptions
        that do not derive from `Exception` (Ctrl-C) pass through.
    """
    steps = _split(items, stage)
    part = next(steps)
    while True:
        answer: Sequence[ValueT] | BaseException
        try:
            answer = call(part)
        except _CAUGHT as error:
            answer = error
        try:
            part = steps.send(answer)
        except StopIteration as stop:
            return cast("list[Outcome[ValueT]]", stop.value)


async def attempt_async(
    call: Callable[[Sequence[ItemT]], Awaitable[Sequence[ValueT]]],
    items: Sequence[ItemT],
    *,
    stage: str,
) -> list[Outcome[ValueT]]:
    """`attempt` for a coroutine."""
    steps = _split(items, stage)
    part = next(steps)
    while True:
        answer: Sequence[ValueT] | BaseException
        try:
            answer = await call(part)
        except _CAUGHT as error:
            answer = error
        try:
            part = steps.send(answer)
        except StopIteration as stop:
            return cast("list[Outcome[ValueT]]", stop.value)


def _split(items: Sequence[Any], stage: str) -> _Steps:
    started = time.perf_counter()
    answer = yield items
    seconds = (time.perf_counter() - started) / len(items)
    values = answer.outcomes if isinstance(answer, PartialBatchError) else answer
    if not isinstance(values, BaseException):
        return [_outcome(value, stage, seconds) for value in values]
    if len(items) == 1:
        return [_outcome(values, stage, seconds)]
    middle = len(items) // 2
    first = yield from _split(items[:middle], stage)
    second = yield from _split(items[middle:], stage)
    return first + second


def _outcome(value: Any, stage: str, seconds: float) -> Outcome[Any]:
    if isinstance(value, BaseException):
        failure = Failure.of(value, stage=stage)
        return Outcome(status=Status.FAILED, failure=failure, seconds=seconds)
    return Outcome(status=Status.MEASURED, value=value, seconds=seconds)
