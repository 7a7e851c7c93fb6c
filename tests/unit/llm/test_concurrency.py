"""As many calls in flight as the endpoint bears."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.llm.transport import Clock, Concurrency
from tests.virtual_time import run


async def call(
    limit: Concurrency, end: str, most: int = 32, seconds: float = 1.0, wait: float = 0.0
) -> None:
    """Succeeds, meets a rate limit, or fails."""
    async with limit.slot() as slot:
        assert limit.in_flight <= most
        await asyncio.sleep(seconds)
        if end == "s":
            limit.succeeded()
        elif end == "l":
            limit.rate_limited(slot, wait)
        else:
            limit.failed(slot)


BORNE = ["s" * 32] * 7


@pytest.mark.parametrize(
    ("rounds", "least", "most"),
    [
        (["s"] * 50, 8, 8),  # nobody has tried whether more are borne
        (BORNE, 32, 32),
        ([*BORNE, "ll"], 16, 16),  # one burst is one sign
        ([*BORNE, "ll", "s" * 16], 16, 17),  # by one a round, no longer by doubling
        ([*BORNE, "ll", *["s" * 32] * 60], 32, 32),
        ([*BORNE, *"l" * 10], 1, 1),
        (["f", "s", "s"] * 20, 8, 8),  # single errors say nothing of load
        (["f"] * 64, 1, 3),
    ],
)
def test_the_limit_follows_what_the_endpoint_bears(
    rounds: list[str], least: int, most: int
) -> None:
    """Calls of a round are made at once."""

    async def scenario() -> None:
        limit = Concurrency(32, Clock())
        for ends in rounds:
            await asyncio.gather(*(call(limit, end) for end in ends))
        assert least <= limit.limit <= most
        assert limit.in_flight == 0
        await call(limit, "s")

    run(scenario())


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

        await asyncio.gather(next_one(), next_one())
        return began

    assert run(scenario()) == [30.0, 30.0]


def test_a_call_that_is_cancelled_after_a_pause_gives_back_no_slot_of_another_call() -> None:
    async def scenario() -> list[float]:
        limit = Concurrency(1, Clock())
        loop = asyncio.get_running_loop()
        for _ in range(3):
            async with limit.slot() as slot:
                limit.rate_limited(slot, 30.0)
        began: list[float] = []

        async def call_of_ten_seconds() -> None:
            async with limit.slot():
                began.append(loop.time())
                await asyncio.sleep(10.0)

        first = asyncio.create_task(call_of_ten_seconds())
        cancelled = asyncio.create_task(call_of_ten_seconds())
        loop.call_later(35.0, cancelled.cancel)  # while the first call holds the only slot
        await asyncio.sleep(36.0)
        await asyncio.gather(first, call_of_ten_seconds())
        return began

    assert run(scenario()) == [30.0, 40.0]


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("slec")), max_size=40))
@settings(max_examples=60)
def test_slots_are_neither_lost_nor_doubled(calls: list[tuple[int, str]]) -> None:
    """Whatever ends a call: success, a rate limit, an error, or being cancelled."""

    async def scenario() -> None:
        limit, loop = Concurrency(3, Clock()), asyncio.get_running_loop()
        made = (call(limit, end, 3, seconds, wait=1.0) for seconds, end in calls)
        tasks = [asyncio.create_task(one) for one in made]
        for position, (seconds, end) in enumerate(calls):
            if end == "c":
                loop.call_later(seconds * position / 7, tasks[position].cancel)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert limit.in_flight == 0
        await asyncio.wait_for(call(limit, "s"), 1000)

    run(scenario())
