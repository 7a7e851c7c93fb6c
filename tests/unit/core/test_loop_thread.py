"""An event loop in a thread goes on, whatever the code that runs in it does."""

from __future__ import annotations

import asyncio

import pytest

from ragbench.core.calling import LoopThread


async def _answer() -> int:
    await asyncio.sleep(0)
    return 42


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_an_exit_in_a_task_of_the_users_ends_that_call_alone(error: type[BaseException]) -> None:
    async def leave() -> None:
        raise error

    async def with_a_task() -> None:
        await asyncio.gather(leave(), asyncio.sleep(0))

    loop = LoopThread()
    try:
        with pytest.raises(error):
            loop.begin(with_a_task()).result(5)
        assert loop.begin(_answer()).result(5) == 42
    finally:
        loop.stop()


def test_users_code_that_stops_the_loop_stops_no_other_call() -> None:
    async def stop() -> int:
        asyncio.get_running_loop().stop()
        return await _answer()

    loop = LoopThread()
    try:
        assert loop.begin(stop()).result(5) == 42
        assert loop.begin(_answer()).result(5) == 42
    finally:
        loop.stop()
