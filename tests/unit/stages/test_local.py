from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from ragbench import Outcome
from ragbench.stages.calls import run_async, run_plain

PATIENCE = 30.0
"""Seconds after which a test that waits for another thread gives up."""


def echo(items: Sequence[int]) -> list[int]:
    return list(items)


def collect(
    batches: Sequence[Sequence[int]], concurrency: int = 1
) -> list[tuple[list[int], list[int | None]]]:
    done = run_plain(echo, batches, stage="retrieve", concurrency=concurrency)
    return [(list(part), [o.value for o in outcomes]) for part, outcomes in done]


@pytest.mark.parametrize("concurrency", [2, 3, 50])
def test_threads_lose_no_batch(concurrency: int) -> None:
    found = collect([[n] for n in range(20)], concurrency)
    assert sorted(found) == [([n], [n]) for n in range(20)]


def test_no_more_threads_than_allowed() -> None:
    lock, inside, most = threading.Lock(), 0, 0

    def call(items: Sequence[int]) -> list[int]:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        with lock:
            inside -= 1
        return list(items)

    list(run_plain(call, [[n] for n in range(50)], stage="retrieve", concurrency=2))
    assert most <= 2


def test_a_stop_among_threads_finishes_what_is_in_flight() -> None:
    both, stop = threading.Barrier(2), threading.Event()
    asked: list[int] = []

    def call(items: Sequence[int]) -> list[int]:
        asked.extend(items)
        stop.set()
        both.wait(PATIENCE)
        return list(items)

    def stopped() -> bool:
        return stop.is_set() and len(asked) >= 2

    batches = [[n] for n in range(10)]
    done = list(run_plain(call, batches, stage="retrieve", concurrency=2, stopped=stopped))
    assert sorted(part[0] for part, _ in done) == [0, 1] == sorted(asked)


@pytest.mark.parametrize("concurrency", [1, 2])
def test_ctrl_c_in_a_call_ends_the_run(concurrency: int) -> None:
    def call(items: Sequence[int]) -> list[int]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run_plain(call, [[1], [2]], stage="retrieve", concurrency=concurrency))


def run_all(
    call: Callable[[Sequence[int]], Awaitable[Sequence[int]]],
    batches: Sequence[Sequence[int]],
    **options: Any,
) -> list[tuple[list[int], list[Outcome[int]]]]:
    done: list[tuple[list[int], list[Outcome[int]]]] = []

    def finished(part: Sequence[int], outcomes: list[Outcome[int]]) -> None:
        done.append((list(part), outcomes))

    asyncio.run(run_async(call, batches, stage="retrieve", finished=finished, **options))
    return done


def test_a_coroutine_that_hangs_is_cancelled() -> None:
    cancelled: list[int] = []

    async def call(items: Sequence[int]) -> list[int]:
        if 2 in items:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.extend(items)
                raise
        return list(items)

    done = run_all(call, [[1], [2], [3]], timeout=0.05)
    assert cancelled == [2]
    assert [o.value for _, os in done for o in os] == [1, None, 3]


def test_a_timeout_error_of_the_rag_is_its_own() -> None:
    async def call(items: Sequence[int]) -> list[int]:
        raise TimeoutError("the database")

    ((_, (outcome,)),) = run_all(call, [[1]], timeout=PATIENCE)
    assert outcome.failure is not None
    assert (outcome.failure.type, outcome.failure.message) == ("TimeoutError", "the database")


def test_what_storing_raises_comes_out_as_it_is() -> None:
    async def call(items: Sequence[int]) -> list[int]:
        return list(items)

    def finished(part: Sequence[int], outcomes: list[Outcome[int]]) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        asyncio.run(run_async(call, [[1], [2]], stage="r", finished=finished, concurrency=2))
