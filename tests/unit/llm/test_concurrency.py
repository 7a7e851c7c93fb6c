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
    """A call that succeeds ("s"), meets a rate limit ("l") or fails (any other letter)."""
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
"""Rounds after which the endpoint has shown that it bears 32 calls."""


# Of each round: how its calls end.
@pytest.mark.parametrize(
    ("rounds", "least", "most"),
    [
        pytest.param(["s"] * 50, 8, 8, id="one call at a time says nothing of more"),
        pytest.param(BORNE, 32, 32, id="many calls that succeed"),
        pytest.param([*BORNE, "ll"], 16, 16, id="a burst of rate limits is one sign"),
        pytest.param([*BORNE, "ll", "s" * 16], 16, 17, id="after a limit it grows by one a round"),
        pytest.param([*BORNE, "ll", *["s" * 32] * 60], 32, 32, id="and reaches the most again"),
        pytest.param([*BORNE, *"l" * 10], 1, 1, id="ten rate limits in a row"),
        pytest.param(["f", "s", "s"] * 20, 8, 8, id="single errors say nothing of load"),
        pytest.param(["f"] * 64, 1, 3, id="errors alone"),
    ],
)
def test_the_limit_follows_what_the_endpoint_bears(
    rounds: list[str], least: int, most: int
) -> None:
    """Calls of a round are made at once."""

    async def scenario() -> None:
        limit = Concurrency(32, Clock())
        for ends in rounds:
            calls = [call(limit, end) for end in ends]
            await asyncio.gather(*calls)

        assert least <= limit.limit <= most
        assert limit.in_flight == 0
        await call(limit, "s")

    run(scenario())


async def pause(limit: Concurrency, seconds: float) -> None:
    """Three calls in a row that have to wait: then all others wait, too."""
    for _ in range(3):
        async with limit.slot() as slot:
            limit.rate_limited(slot, seconds)


def test_everybody_waits_when_several_in_a_row_have_to() -> None:
    async def scenario() -> list[float]:
        limit = Concurrency(1, Clock())
        await pause(limit, 30.0)
        starts: list[float] = []

        async def start() -> None:
            async with limit.slot():
                starts.append(asyncio.get_running_loop().time())
                limit.succeeded()

        await asyncio.gather(start(), start())
        return starts

    assert run(scenario()) == [30.0, 30.0]


def test_a_call_that_is_cancelled_after_a_pause_gives_back_no_slot_of_another_call() -> None:
    async def scenario() -> list[float]:
        limit = Concurrency(1, Clock())
        loop = asyncio.get_running_loop()
        await pause(limit, 30.0)
        starts: list[float] = []

        async def call_of_ten_seconds() -> None:
            async with limit.slot():
                starts.append(loop.time())
                await asyncio.sleep(10.0)

        holding = asyncio.create_task(call_of_ten_seconds())
        cancelled = asyncio.create_task(call_of_ten_seconds())
        loop.call_later(35.0, cancelled.cancel)  # while the first call holds the only slot
        await asyncio.sleep(36.0)
        await asyncio.gather(holding, call_of_ten_seconds())
        return starts

    assert run(scenario()) == [30.0, 40.0]


SECONDS = st.integers(0, 5)
ENDS = st.sampled_from("slec")
"""As of ``call``; besides, "c" is cancelled."""
CALLS = st.lists(st.tuples(SECONDS, ENDS), max_size=40)


@given(CALLS)
@settings(max_examples=60)
def test_slots_are_neither_lost_nor_doubled(calls: list[tuple[int, str]]) -> None:
    """Whatever ends a call: success, a rate limit, an error, or being cancelled."""

    async def scenario() -> None:
        limit = Concurrency(3, Clock())
        loop = asyncio.get_running_loop()
        tasks: list[asyncio.Task[None]] = []
        for position, (seconds, end) in enumerate(calls):
            task = asyncio.create_task(call(limit, end, 3, seconds, wait=1.0))
            tasks.append(task)
            if end == "c":
                loop.call_later(seconds * position / 7, task.cancel)

        await asyncio.gather(*tasks, return_exceptions=True)

        assert limit.in_flight == 0
        await asyncio.wait_for(call(limit, "s"), 1000)

    run(scenario())
