"""One batch through a stage: a batch that fails is split until the guilty items are found."""

from __future__ import annotations

import time
import traceback
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, TypeVar, cast

from ragbench.records.cells import Failure, Outcome, Status

__all__ = ["attempt", "attempt_async", "failure_of"]

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
    if not isinstance(answer, BaseException):
        return [Outcome(status=Status.MEASURED, value=value, seconds=seconds) for value in answer]
    if len(items) == 1:
        failure = failure_of(answer, stage)
        return [Outcome(status=Status.FAILED, failure=failure, seconds=seconds)]
    middle = len(items) // 2
    first = yield from _split(items[:middle], stage)
    second = yield from _split(items[middle:], stage)
    return first + second


def failure_of(error: BaseException, stage: str) -> Failure:
    """What is kept of an exception: type, message, chain of causes, traceback."""
    return Failure(
        type=type(error).__name__,
        message=_readable(str(error)),
        stage=stage,
        cause=" <- ".join(_causes(error)) or None,
        traceback=_readable("".join(traceback.format_exception(error))),
    )


def _causes(error: BaseException) -> list[str]:
    found: list[str] = []
    seen: set[int] = {id(error)}
    following: BaseException | None = _behind(error)
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        found.append(_readable(f"{type(following).__name__}: {following}"))
        following = _behind(following)
    return found


def _behind(error: BaseException) -> BaseException | None:
    if error.__cause__ is not None:
        return error.__cause__
    return None if error.__suppress_context__ else error.__context__


def _readable(text: Any) -> str:
    # A message may quote broken text; what is stored must be valid UTF-8.
    return str(text).encode("utf-8", "backslashreplace").decode()
