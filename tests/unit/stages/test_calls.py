"""How a stage's calls are made: split to find the guilty, plain and awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import Outcome, Status
from ragbench.errors import UnreachableError
from ragbench.stages.calls import Manner, attempt_async, run_plain


class Service:
    """Doubles numbers, raises for a batch that holds a guilty item, and notes what it was asked."""

    def __init__(self, guilty: frozenset[int] = frozenset()) -> None:
        self.guilty = guilty
        self.calls: list[list[int]] = []

    def __call__(self, items: Sequence[int]) -> list[int]:
        self.calls.append(list(items))
        if self.guilty.intersection(items):
            raise ValueError("a guilty item")
        return [item * 2 for item in items]

    async def later(self, items: Sequence[int]) -> list[int]:
        await asyncio.sleep(0)
        return self(items)


RETRIEVE = Manner(stage="retrieve")
PATIENCE = 30.0
"""Seconds that no call of these tests takes."""


# --- failures are narrowed down to the items that cause them


Settled = list[tuple[int, Outcome[int]]]
"""Items, each with its outcome, in the order in which they were finished."""


def settle(service: Service, items: Sequence[int]) -> Settled:
    settled: Settled = []
    for part, outcomes in run_plain(service, [items], RETRIEVE):
        settled += zip(part, outcomes, strict=True)
    return settled


def settle_async(service: Service, items: Sequence[int]) -> Settled:
    async def run() -> Settled:
        settled: Settled = []
        async for part, outcomes in attempt_async(service.later, items, RETRIEVE):
            settled += zip(part, outcomes, strict=True)
        return settled

    return asyncio.run(run())


SIZES = st.integers(1, 40)
GUILTY = st.frozensets(st.integers(0, 39))


@pytest.mark.parametrize("settle_items", [settle, settle_async])
@settings(max_examples=50)
@given(SIZES, GUILTY)
def test_exactly_the_guilty_items_fail(
    settle_items: Callable[[Service, Sequence[int]], Settled], size: int, guilty: frozenset[int]
) -> None:
    settled = settle_items(Service(guilty), range(size))

    assert [item for item, _ in settled] == list(range(size))
    for item, outcome in settled:
        if item in guilty:
            assert outcome.status is Status.FAILED
            assert outcome.failure is not None
            assert outcome.failure.type == "ValueError"
            assert outcome.failure.stage == "retrieve"
        else:
            assert outcome.status is Status.MEASURED
            assert outcome.value == item * 2


@settings(max_examples=50)
@given(SIZES, GUILTY)
def test_functions_and_coroutines_are_called_alike(size: int, guilty: frozenset[int]) -> None:
    plain = Service(guilty)
    coroutine = Service(guilty)

    settle(plain, range(size))
    settle_async(coroutine, range(size))

    assert coroutine.calls == plain.calls


def outcomes_of(
    call: Callable[[Sequence[int]], Sequence[int]], items: Sequence[int]
) -> list[Outcome[int]]:
    """The outcomes of one batch."""
    all_outcomes: list[Outcome[int]] = []
    for _, outcomes in run_plain(call, [items], RETRIEVE):
        all_outcomes += outcomes
    return all_outcomes


def statuses(call: Callable[[Sequence[int]], Sequence[int]], items: Sequence[int]) -> list[Status]:
    return [outcome.status for outcome in outcomes_of(call, items)]


def test_no_result_for_an_item_is_a_failure_that_says_so() -> None:
    def call(_: Sequence[int]) -> list[int]:
        return []

    (outcome,) = outcomes_of(call, [7])

    assert "retrieve returned 0 results for 1 queries" in str(outcome.failure)


@pytest.mark.parametrize("values", [[], [1, 2, 3]], ids=["too few", "too many"])
def test_another_number_of_results_than_items_fails_them(values: list[int]) -> None:
    assert statuses(lambda _: values, [1, 2]) == [Status.FAILED, Status.FAILED]


def test_items_are_measured_one_by_one_where_a_call_answers_one_alone() -> None:
    assert statuses(lambda _: [1], [1, 2]) == [Status.MEASURED, Status.MEASURED]


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError()])
def test_code_that_wants_to_end_the_process_ends_its_call(error: BaseException) -> None:
    def call(_: Sequence[int]) -> list[int]:
        raise error

    (outcome,) = outcomes_of(call, [1])

    assert f"retrieve: {type(error).__name__}" in str(outcome.failure)


# --- an endpoint that cannot be reached


class Unreachable:
    """A call without a connection, which notes how many items it was for."""

    def __init__(self, *, answered_before: bool) -> None:
        self.answered_before = answered_before
        self.sizes: list[int] = []

    def __call__(self, items: Sequence[int]) -> list[int]:
        self.sizes.append(len(items))
        error = UnreachableError("nobody is there")
        error.answered_before = self.answered_before
        raise error


def test_an_endpoint_that_never_answered_ends_the_run() -> None:
    call = Unreachable(answered_before=False)

    with pytest.raises(UnreachableError):
        list(run_plain(call, [range(32), range(32)], RETRIEVE))

    assert call.sizes == [32]


def test_an_endpoint_that_answered_before_fails_each_item_and_is_not_asked_in_parts() -> None:
    call = Unreachable(answered_before=True)

    results = list(run_plain(call, [range(32), range(32)], RETRIEVE))

    for _, outcomes in results:
        assert [outcome.status for outcome in outcomes] == [Status.FAILED] * 32
    assert call.sizes == [32, 32]


def test_ctrl_c_in_a_call_ends_the_run() -> None:
    def call(items: Sequence[int]) -> list[int]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run_plain(call, [[1], [2]], RETRIEVE))


# --- an event loop


def run_all(
    call: Callable[[Sequence[int]], Awaitable[Sequence[int]]],
    batches: Sequence[Sequence[int]],
    *,
    timeout: float | None = None,
) -> list[Outcome[int]]:
    """The outcomes of coroutines, in the order in which they finish."""
    all_outcomes: list[Outcome[int]] = []
    manner = Manner(stage="retrieve", timeout=timeout)

    async def ask() -> None:
        for batch in batches:
            async for _, outcomes in attempt_async(call, batch, manner):
                all_outcomes.extend(outcomes)

    asyncio.run(ask())
    return all_outcomes


def test_a_cancelled_task_of_the_rag_does_not_lose_its_batch() -> None:
    async def call(_: Sequence[int]) -> list[int]:
        inner = asyncio.ensure_future(asyncio.sleep(3600))
        inner.cancel()
        await inner
        return [1]

    (outcome,) = run_all(call, [[1]])

    assert outcome.status is Status.FAILED


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

    outcomes = run_all(call, [[1], [2], [3]], timeout=0.05)

    assert cancelled == [2]
    assert [outcome.value for outcome in outcomes] == [1, None, 3]


def test_a_timeout_error_of_the_rag_is_its_own() -> None:
    async def call(items: Sequence[int]) -> list[int]:
        raise TimeoutError("the database")

    (outcome,) = run_all(call, [[1]], timeout=PATIENCE)

    assert str(outcome.failure) == "retrieve: TimeoutError: the database"
