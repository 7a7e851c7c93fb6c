"""What is spent is written down before and after each request; a cap holds while many are sent."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.core.chat import Usage
from ragbench.errors import LLMBudgetError, LLMCacheError
from ragbench.llm.budget import CALLS, RECEIPTS, Budget, CallBook, Ledger, most_prompt_tokens
from ragbench.text.token_counter import APPROXIMATE
from tests.unit.llm.builders import PRICE
from tests.virtual_time import run

TEN = Usage(prompt_tokens=10, completion_tokens=5, cached_prompt_tokens=2, reasoning_tokens=1)


def receipts(folder: Path) -> list[dict[str, Any]]:
    path = folder / RECEIPTS
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def killed(folder: Path, requests: int, *, answered: int = 0) -> None:
    """A command that sent requests, had so many of them answered, and was killed."""
    ledger = Ledger(PRICE, CallBook(folder))
    for number in range(requests):
        request = ledger.request("support", "m", most=Decimal("0.01"))
        if number < answered:
            ledger.answered(request, TEN, Decimal("0.002"))
            ledger.call("support", "m")


def test_a_command_that_ends_leaves_one_line_and_none_where_nobody_was_asked(
    tmp_path: Path,
) -> None:
    CallBook(tmp_path).close(Ledger(PRICE).receipt())
    assert list(tmp_path.iterdir()) == []
    book = CallBook(tmp_path)
    ledger = Ledger(PRICE, book)
    ledger.answered(ledger.request("support", "m"), TEN, Decimal("0.002"))
    assert (tmp_path / CALLS).exists()
    book.close(ledger.receipt())
    assert not (tmp_path / CALLS).exists()
    [found] = receipts(tmp_path)
    assert (found["cost"], found["ended"], len(found["lines"])) == ("0.002", "done", 1)


def test_of_a_killed_command_the_next_one_makes_the_receipt(tmp_path: Path) -> None:
    killed(tmp_path, 3, answered=1)
    killed(tmp_path, 2, answered=1)
    book = CallBook(tmp_path)
    book.open()
    first, second = receipts(tmp_path)
    assert (first["ended"], first["in_flight"], second["in_flight"]) == ("killed", 2, 1)
    assert (first["currency"], first["unconfirmed_estimate"]) == ("USD", "0.004")
    assert first["lines"] == [
        {
            "purpose": "support",
            "model": "m",
            "calls": 1,
            "cached": 0,
            "failed": 0,
            "requests": 3,
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "reasoning_tokens": 1,
            "cost": "0.002",
            "unconfirmed": "0.02",
            "unconfirmed_requests": 2,
            "unconfirmed_estimate": "0.004",
        }
    ]
    assert book.spent_before == Decimal("0.002") + Decimal("0.02") + Decimal("0.012")


def test_each_end_of_a_request_counts_as_what_it_is(tmp_path: Path) -> None:
    ledger = Ledger(PRICE, CallBook(tmp_path))
    ledger.answered(ledger.request("p", "m", most=Decimal(1)), TEN, Decimal("0.5"))
    ledger.ended(ledger.request("p", "m", most=Decimal(2)), billed=True)
    ledger.ended(ledger.request("p", "m", most=Decimal(4)), billed=False)
    ledger.request("p", "m", most=Decimal(8))
    ledger.call("p", "m", cached=True)
    book = CallBook(tmp_path)
    book.open()
    [line] = receipts(tmp_path)[0]["lines"]
    assert (line["requests"], line["unconfirmed_requests"]) == (4, 2)
    assert (line["calls"], line["cached"], line["failed"]) == (1, 1, 0)
    assert book.spent_before == Decimal("0.5") + 2 + 8


def test_an_unknown_cost_stays_unknown(tmp_path: Path) -> None:
    ledger = Ledger(None, CallBook(tmp_path))
    ledger.answered(ledger.request("p", "m"), TEN, None)
    CallBook(tmp_path).open()
    [found] = receipts(tmp_path)
    assert (found["cost"], found["lines"][0]["cost"], found["unconfirmed"]) == (None, None, "0")
    lost = Ledger(None)
    lost.ended(lost.request("p", "m"), billed=True)
    assert (lost.receipt().cost, lost.receipt().unconfirmed) == (Decimal(0), None)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_process_may_die_at_any_byte(tmp_path_factory: Any, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("book")
    book = CallBook(folder)
    ledger = Ledger(PRICE, book)
    for _ in range(data.draw(st.integers(0, 12))):
        request = ledger.request("p", "m", most=Decimal("0.01"))
        if data.draw(st.booleans()):
            ledger.answered(request, TEN, Decimal("0.002"))
    book.open()
    path = folder / CALLS
    raw = path.read_bytes()
    cut = data.draw(st.integers(0, 5000)) % (len(raw) + 1)  # a line holds a time of any length
    junk = data.draw(st.sampled_from([b"", b"\xff\x00", b"[1]\n", b'["a",9']))
    path.write_bytes(raw[:cut] + junk)
    CallBook(folder).open()
    [found] = receipts(folder)
    requests = sum(line["requests"] for line in found["lines"])
    answered = requests - found["in_flight"]
    whole = [json.loads(line) for line in raw[: raw.rfind(b"\n", 0, cut) + 1].splitlines()]
    # A line is whole in all but its line end, too.
    assert requests - sum(line[0] == "s" for line in whole) in (0, 1)
    assert answered - sum(line[0] == "a" for line in whole) in (0, 1)


def test_a_book_that_cannot_be_written_stops_the_buying(tmp_path: Path) -> None:
    with pytest.raises(LLMCacheError, match="cannot be written"):
        Ledger(PRICE, CallBook(tmp_path / "missing")).request("p", "m")


CENTS = st.integers(min_value=0, max_value=50).map(lambda cents: Decimal(cents) / 100)


@given(CENTS, st.lists(st.tuples(CENTS, st.floats(0, 1), st.integers(0, 9)), max_size=30))
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
