from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from ragbench.core.calling import with_async_deadline, with_deadline
from ragbench.core.outcome import Outcome, Status
from ragbench.errors import StageTimeoutError
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


def test_one_at_a_time_keeps_the_order() -> None:
    assert collect([[1, 2], [3]]) == [([1, 2], [1, 2]), ([3], [3])]


def test_no_batches_no_work() -> None:
    assert collect([]) == []
    assert collect([], concurrency=4) == []


@pytest.mark.parametrize("concurrency", [2, 3, 50])
def test_threads_lose_no_batch(concurrency: int) -> None:
    found = collect([[n] for n in range(20)], concurrency)
    assert sorted(found) == [([n], [n]) for n in range(20)]


def test_threads_overlap() -> None:
    together = threading.Barrier(3)

    def call(items: Sequence[int]) -> list[int]:
        together.wait(PATIENCE)  # breaks unless three calls are in flight at once
        return list(items)

    done = list(run_plain(call, [[1], [2], [3]], stage="retrieve", concurrency=3))
    assert all(o.status is Status.MEASURED for _, outcomes in done for o in outcomes)


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


def test_a_stop_leaves_what_is_finished() -> None:
    asked: list[int] = []

    def call(items: Sequence[int]) -> list[int]:
        asked.extend(items)
        return list(items)

    done = run_plain(
        call, [[n] for n in range(10)], stage="retrieve", stopped=lambda: len(asked) >= 4
    )
    assert [part for part, _ in done] == [[0], [1], [2], [3]]


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


def test_a_plain_call_that_hangs_is_left_behind() -> None:
    release = threading.Event()

    def call(items: Sequence[int]) -> list[int]:
        if 2 in items:
            release.wait(PATIENCE)
        return list(items)

    done = list(run_plain(call, [[1, 2]], stage="generate", timeout=0.05))
    release.set()
    outcomes = {item: o for part, os in done for item, o in zip(part, os, strict=True)}
    assert outcomes[1].value == 1
    failure = outcomes[2].failure
    assert failure is not None
    assert failure.type == "StageTimeoutError"
    assert failure.message == "no answer within 0.05 s for one query"


def test_a_deadline_hands_on_what_the_call_raised() -> None:
    def call(items: Sequence[int]) -> list[int]:
        raise SystemExit(1)

    with pytest.raises(SystemExit):
        with_deadline(call, PATIENCE)([1])


def test_a_deadline_hands_on_an_empty_result() -> None:
    def call(items: Sequence[int]) -> list[int]:
        return []

    assert with_deadline(call, PATIENCE)([1]) == []


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


def test_coroutines_overlap() -> None:
    async def main() -> int:
        arrived, everyone = 0, asyncio.Event()
        done = 0

        async def call(items: Sequence[int]) -> list[int]:
            nonlocal arrived
            arrived += 1
            if arrived == 3:
                everyone.set()
            await asyncio.wait_for(everyone.wait(), PATIENCE)
            return list(items)

        def finished(part: Sequence[int], outcomes: list[Outcome[int]]) -> None:
            nonlocal done
            done += all(o.status is Status.MEASURED for o in outcomes)

        await run_async(call, [[1], [2], [3]], stage="r", finished=finished, concurrency=3)
        return done

    assert asyncio.run(main()) == 3


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


def test_an_async_deadline_says_what_was_late() -> None:
    async def call(items: Sequence[int]) -> list[int]:
        await asyncio.Event().wait()
        return list(items)

    async def run() -> Sequence[int]:
        return await with_async_deadline(call, 0.01)([1, 2])

    with pytest.raises(StageTimeoutError, match=r"no answer within 0.02 s for 2 queries"):
        asyncio.run(run())


def test_what_storing_raises_comes_out_as_it_is() -> None:
    async def call(items: Sequence[int]) -> list[int]:
        return list(items)

    def finished(part: Sequence[int], outcomes: list[Outcome[int]]) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        asyncio.run(run_async(call, [[1], [2]], stage="r", finished=finished, concurrency=2))


def test_a_stop_leaves_finished_coroutines() -> None:
    asked: list[int] = []

    async def call(items: Sequence[int]) -> list[int]:
        asked.extend(items)
        return list(items)

    done = run_all(call, [[n] for n in range(9)], stopped=lambda: len(asked) >= 3)
    assert [part for part, _ in done] == [[0], [1], [2]]
