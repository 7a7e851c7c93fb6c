"""The cap on cost holds while many calls are in flight."""

from __future__ import annotations

import asyncio
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import LLMBudgetError
from ragbench.llm.budget import Budget, most_prompt_tokens
from ragbench.text.token_counter import APPROXIMATE
from tests.virtual_time import run

CENTS = st.integers(min_value=0, max_value=50).map(lambda cents: Decimal(cents) / 100)


@given(
    limit=CENTS,
    calls=st.lists(
        st.tuples(CENTS, st.floats(min_value=0, max_value=1), st.integers(0, 9)), max_size=30
    ),
)
@settings(max_examples=60)
def test_what_is_spent_and_in_flight_never_exceeds_the_limit(
    limit: Decimal, calls: list[tuple[Decimal, float, int]]
) -> None:
    async def scenario() -> None:
        budget = Budget(limit)
        refused = []

        async def call(most: Decimal, share: float, seconds: int) -> Decimal:
            try:
                await budget.reserve(most)
            except LLMBudgetError:
                refused.append(most)
                return Decimal(0)
            assert budget.spent + budget.reserved <= limit
            await asyncio.sleep(seconds)
            cost = most * Decimal(round(share * 100)) / 100
            budget.settle(most, cost)
            return cost

        costs = await asyncio.gather(*(call(*each) for each in calls))
        assert sum(costs) == budget.spent <= limit
        assert budget.reserved == 0
        for most in refused:
            assert budget.spent + most > limit  # nothing was refused that would have fitted

    run(scenario())


def test_a_call_waits_for_money_to_come_back() -> None:
    async def scenario() -> tuple[float, Decimal]:
        budget = Budget(Decimal(10))
        await budget.reserve(Decimal(8))
        asyncio.get_running_loop().call_later(60, budget.settle, Decimal(8), Decimal(1))
        await budget.reserve(Decimal(9))
        return asyncio.get_running_loop().time(), budget.spent

    assert run(scenario()) == (60.0, Decimal(1))


def test_a_call_that_is_cancelled_while_it_waits_holds_nothing() -> None:
    async def scenario() -> None:
        budget = Budget(Decimal(1))
        await budget.reserve(Decimal(1))
        waiting = asyncio.create_task(budget.reserve(Decimal(1)))
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        budget.settle(Decimal(1), Decimal(0))
        assert budget.reserved + budget.spent == 0

    run(scenario())


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_no_prompt_has_more_tokens_than_its_bound(texts: list[str]) -> None:
    """What a cap on cost rests on, against the vocabularies at hand."""
    payload = {"model": "m", "messages": [{"role": "user", "content": text} for text in texts]}
    bound = most_prompt_tokens(payload)
    assert bound >= sum(len(text.encode("utf-8", "replace")) for text in texts)
    assert bound >= sum(APPROXIMATE.count(text) + 4 for text in texts)
