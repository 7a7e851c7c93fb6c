"""As many calls in flight as the endpoint bears."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.llm.concurrency import Clock, Concurrency
from tests.virtual_time import run


async def good(limit: Concurrency, seconds: float = 1.0) -> None:
    async with limit.slot():
        await asyncio.sleep(seconds)
        limit.succeeded()


async def all_of(*work: Coroutine[Any, Any, None]) -> None:
    await asyncio.gather(*work)


def test_it_rises_to_the_most_and_a_rate_limit_halves_it_once_a_burst() -> None:
    async def scenario() -> None:
        limit = Concurrency(32, Clock())
        for _ in range(50):
            await good(limit)
        assert limit.limit == 8  # nobody has tried whether more are borne
        await all_of(*(good(limit) for _ in range(200)))
        assert (limit.limit, limit.peak, limit.in_flight) == (32, 32, 0)

        async def limited() -> None:
            async with limit.slot() as slot:
                await asyncio.sleep(1)
                limit.rate_limited(slot, 0.0)

        await all_of(limited(), limited())
        assert limit.limit == 16
        await all_of(*(good(limit) for _ in range(16)))
        assert limit.limit in (16, 17)  # by one a round, no longer by doubling
        await all_of(*(good(limit) for _ in range(2000)))
        assert limit.limit == 32
        for _ in range(10):
            async with limit.slot() as slot:
                limit.rate_limited(slot, 0.0)
        assert limit.limit == 1
        await good(limit)

    run(scenario())


def test_single_errors_say_nothing_of_load_but_many_do() -> None:
    async def scenario(every: int) -> int:
        limit = Concurrency(8, Clock())
        for number in range(64):
            async with limit.slot() as slot:
                if number % every == 0:
                    limit.failed(slot)
                else:
                    limit.succeeded()
        return limit.limit

    assert run(scenario(3)) == 8
    assert run(scenario(1)) < 4


def test_everybody_waits_when_several_in_a_row_have_to() -> None:
    async def scenario() -> list[float]:
        limit = Concurrency(1, Clock())
        loop = asyncio.get_running_loop()
        for _ in range(3):
            async with limit.slot() as slot:
                limit.rate_limited(slot, 30.0)
        began: list[float] = []

        async def next_one() -> None:
            async with limit.slot():
                began.append(loop.time())
                limit.succeeded()

        await all_of(next_one(), next_one())
        return began

    assert run(scenario()) == [30.0, 30.0]


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("slec")), max_size=40))
@settings(max_examples=60)
def test_slots_are_neither_lost_nor_doubled(calls: list[tuple[int, str]]) -> None:
    """Whatever ends a call: success, a rate limit, an error, or being cancelled."""

    async def scenario() -> None:
        limit = Concurrency(3, Clock())

        async def call(seconds: int, end: str) -> None:
            async with limit.slot() as slot:
                assert limit.in_flight <= 3
                await asyncio.sleep(seconds)
                if end == "s":
                    limit.succeeded()
                elif end == "l":
                    limit.rate_limited(slot, 1.0)
                else:
                    limit.failed(slot)

        tasks = [asyncio.create_task(call(*each)) for each in calls]
        for position, (seconds, end) in enumerate(calls):
            if end == "c":
                asyncio.get_running_loop().call_later(
                    seconds * position / 7, tasks[position].cancel
                )
        await asyncio.gather(*tasks, return_exceptions=True)
        assert limit.in_flight == 0
        await asyncio.wait_for(good(limit), 1000)

    run(scenario())
