"""How a stage's calls are made: split to find the guilty, in threads, in an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import Outcome, Status
from ragbench.errors import UnreachableError
from ragbench.stages.calls import Manner, attempt_async, run_plain


class Service:
    """Doubles numbers, raises for a batch that holds a guilty one, and notes what it was asked."""

    def __init__(self, guilty: frozenset[int] = frozenset()) -> None:
        self.guilty = guilty
        self.calls: list[list[int]] = []

    def __call__(self, items: Sequence[int]) -> list[int]:
        self.calls.append(list(items))
        if self.guilty.intersection(items):
            raise ValueError("a guilty one")
        return [item * 2 for item in items]

    async def later(self, items: Sequence[int]) -> list[int]:
        await asyncio.sleep(0)
        return self(items)


RETRIEVE = Manner(stage="retrieve")


def settle(service: Service, items: Sequence[int]) -> list[tuple[int, Outcome[int]]]:
    done = run_plain(service, [items], RETRIEVE)
    return [pair for part, outcomes in done for pair in zip(part, outcomes, strict=True)]


def settle_async(service: Service, items: Sequence[int]) -> list[tuple[int, Outcome[int]]]:
    async def run() -> list[tuple[int, Outcome[int]]]:
        done = attempt_async(service.later, items, RETRIEVE)
        return [pair async for part, found in done for pair in zip(part, found, strict=True)]

    return asyncio.run(run())


@settings(max_examples=50)
@given(st.integers(1, 40), st.sets(st.integers(0, 39)))
def test_exactly_the_guilty_items_fail_of_functions_and_coroutines(
    size: int, guilty: set[int]
) -> None:
    services = Service(frozenset(guilty)), Service(frozenset(guilty))
    for found in (settle(services[0], range(size)), settle_async(services[1], range(size))):
        assert [item for item, _ in found] == list(range(size))
        for item, outcome in found:
            failure = outcome.failure
            if item in guilty:
                assert failure is not None and outcome.status is Status.FAILED
                assert (failure.type, failure.stage) == ("ValueError", "retrieve")
            else:
                assert (outcome.status, outcome.value) == (Status.MEASURED, item * 2)
    assert services[0].calls == services[1].calls


@pytest.mark.parametrize("values", [[], [1], [1, 2, 3]])
def test_another_number_of_results_than_items_fails_them(values: list[int]) -> None:
    ((_, outcomes),) = run_plain(lambda _: values[:0], [[7]], RETRIEVE)
    assert "retrieve returned 0 results for 1 queries" in str(outcomes[0].failure)
    found = list(run_plain(lambda _: values, [[1, 2]], RETRIEVE))
    expected = Status.MEASURED if len(values) == 1 else Status.FAILED
    assert [o.status for _, outcomes in found for o in outcomes] == [expected, expected]


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError()])
def test_code_that_wants_to_end_the_process_ends_its_call(error: BaseException) -> None:
    def call(_: Sequence[int]) -> list[int]:
        raise error

    ((_, (outcome,)),) = run_plain(call, [[1]], RETRIEVE)
    assert f"retrieve: {type(error).__name__}" in str(outcome.failure)


def test_a_cancelled_task_of_the_rag_does_not_lose_its_batch() -> None:
    async def call(_: Sequence[int]) -> list[int]:
        inner = asyncio.ensure_future(asyncio.sleep(3600))
        inner.cancel()
        await inner
        return [1]

    ((_, (outcome,)),) = run_all(call, [[1]])
    assert outcome.status is Status.FAILED


PATIENCE = 30.0
"""Seconds after which a test that waits for another thread gives up."""


def test_ctrl_c_in_a_call_ends_the_run() -> None:
    def call(items: Sequence[int]) -> list[int]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run_plain(call, [[1], [2]], Manner(stage="retrieve")))


def run_all(
    call: Callable[[Sequence[int]], Awaitable[Sequence[int]]],
    batches: Sequence[Sequence[int]],
    **options: Any,
) -> list[tuple[list[int], list[Outcome[int]]]]:
    done: list[tuple[list[int], list[Outcome[int]]]] = []

    async def ask() -> None:
        for batch in batches:
            async for part, outcomes in attempt_async(
                call, batch, Manner(stage="retrieve", **options)
            ):
                done.append((list(part), outcomes))

    asyncio.run(ask())
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
    assert str(outcome.failure) == "retrieve: TimeoutError: the database"


@pytest.mark.parametrize("answered_before", [False, True])
def test_what_cannot_be_reached_is_not_asked_in_parts(answered_before: bool) -> None:
    asked: list[int] = []

    def call(items: Sequence[int]) -> list[int]:
        asked.append(len(items))
        error = UnreachableError("nobody is there")
        error.answered_before = answered_before
        raise error

    done = run_plain(call, [range(32), range(32)], Manner(stage="retrieve"))
    if answered_before:  # each case has failed, the run may go on
        found = [outcome for _, outcomes in done for outcome in outcomes]
        assert [outcome.status for outcome in found] == [Status.FAILED] * 64
        assert asked == [32, 32]
    else:
        with pytest.raises(UnreachableError):
            list(done)
        assert asked == [32]
