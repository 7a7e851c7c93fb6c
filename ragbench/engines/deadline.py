"""A time limit on calls, plain and async."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from ragbench.errors import StageTimeoutError

__all__ = ["with_async_deadline", "with_deadline"]

ItemT = TypeVar("ItemT")
ValueT = TypeVar("ValueT")


def with_deadline(
    call: Callable[[Sequence[ItemT]], Sequence[ValueT]], seconds_per_item: float
) -> Callable[[Sequence[ItemT]], Sequence[ValueT]]:
    """Wraps a call so that it raises when it takes too long.

    The call runs in a thread of its own. A plain Python call cannot be stopped from outside: one
    that exceeds its time is left behind and its result ignored. Such threads do not keep the
    process alive.

    Args:
        call: the call to limit.
        seconds_per_item: time allowed an item; a batch of n items has n times as long.

    Raises:
        StageTimeoutError: from the wrapped call, when the time is over.
    """

    def limited(items: Sequence[ItemT]) -> Sequence[ValueT]:
        values: list[Sequence[ValueT]] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                values.append(call(items))
            except BaseException as error:  # noqa: BLE001  # raised again in the caller's thread
                errors.append(error)

        allowed = seconds_per_item * len(items)
        thread = threading.Thread(target=work, name="ragbench-call", daemon=True)
        thread.start()
        thread.join(allowed)
        if errors:
            raise errors[0]
        if not values:
            raise _late(allowed, len(items))
        return values[0]

    return limited


def with_async_deadline(
    call: Callable[[Sequence[ItemT]], Awaitable[Sequence[ValueT]]], seconds_per_item: float
) -> Callable[[Sequence[ItemT]], Awaitable[Sequence[ValueT]]]:
    """`with_deadline` for a coroutine function; a call that takes too long is cancelled.

    Args:
        call: the call to limit.
        seconds_per_item: time allowed an item; a batch of n items has n times as long.

    Raises:
        StageTimeoutError: from the wrapped call, when the time is over.
    """

    async def limited(items: Sequence[ItemT]) -> Sequence[ValueT]:
        allowed = seconds_per_item * len(items)
        limit = asyncio.timeout(allowed)
        try:
            async with limit:
                return await call(items)
        except TimeoutError as error:
            if not limit.expired():
                raise  # the RAG's own
            raise _late(allowed, len(items)) from error

    return limited


def _late(allowed: float, size: int) -> StageTimeoutError:
    queries = "one query" if size == 1 else f"{size} queries"
    return StageTimeoutError(f"no answer within {allowed:g} s for {queries}")
