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
    """The receipts that commands left in a folder."""
    path = folder / RECEIPTS
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().splitlines()]


# --- a command that ends


def test_a_command_that_asked_nobody_leaves_nothing(tmp_path: Path) -> None:
    CallBook(tmp_path).close(Ledger(PRICE).receipt())

    assert list(tmp_path.iterdir()) == []


def test_a_command_that_ends_leaves_a_receipt_and_no_calls(tmp_path: Path) -> None:
    book = CallBook(tmp_path)
    ledger = Ledger(PRICE, book)
    request = ledger.request("support", "m")
    ledger.answered(request, TEN, Decimal("0.002"))
    assert (tmp_path / CALLS).exists()

    book.close(ledger.receipt())

    assert not (tmp_path / CALLS).exists()
    (receipt,) = receipts(tmp_path)
    assert receipt["cost"] == "0.002"
    assert receipt["ended"] == "done"
    assert len(receipt["lines"]) == 1


# --- a command that was killed


def kill_command(folder: Path, requests: int, *, answered: int = 0) -> None:
    """A command that sent requests, had so many of them answered, and was killed."""
    ledger = Ledger(PRICE, CallBook(folder))
    for number in range(requests):
        request = ledger.request("support", "m", most=Decimal("0.01"))
        if number < answered:
            ledger.answered(request, TEN, Decimal("0.002"))
            ledger.call("support", "m")


def test_the_next_command_writes_the_receipt_of_a_killed_one(tmp_path: Path) -> None:
    kill_command(tmp_path, 3, answered=1)

    CallBook(tmp_path).open()

    (receipt,) = receipts(tmp_path)
    assert receipt["ended"] == "killed"
    assert receipt["in_flight"] == 2
    assert receipt["currency"] == "USD"
    # Two requests that cost .002 each, if they were like the answered one.
    assert receipt["unconfirmed_estimate"] == "0.004"
    assert receipt["lines"] == [
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


def test_each_killed_command_has_a_receipt_of_its_own(tmp_path: Path) -> None:
    kill_command(tmp_path, 3, answered=1)
    kill_command(tmp_path, 2, answered=1)

    CallBook(tmp_path).open()

    in_flight = [receipt["in_flight"] for receipt in receipts(tmp_path)]
    assert in_flight == [2, 1]


def test_requests_without_an_answer_count_as_spent_with_the_most_that_they_may_cost(
    tmp_path: Path,
) -> None:
    kill_command(tmp_path, 3, answered=1)
    kill_command(tmp_path, 2, answered=1)
    book = CallBook(tmp_path)

    book.open()

    # .002 + 2 * .01, and .002 + .01
    assert book.spent_before == Decimal("0.022") + Decimal("0.012")


def test_each_end_of_a_request_counts_as_what_it_is(tmp_path: Path) -> None:
    ledger = Ledger(PRICE, CallBook(tmp_path))
    answered = ledger.request("p", "m", most=Decimal(1))
    ledger.answered(answered, TEN, Decimal("0.5"))
    billed = ledger.request("p", "m", most=Decimal(2))
    ledger.ended(billed, billed=True)
    not_billed = ledger.request("p", "m", most=Decimal(4))
    ledger.ended(not_billed, billed=False)
    ledger.request("p", "m", most=Decimal(8))
    ledger.call("p", "m", cached=True)
    book = CallBook(tmp_path)

    book.open()

    (receipt,) = receipts(tmp_path)
    (line,) = receipt["lines"]
    assert line["requests"] == 4
    assert line["unconfirmed_requests"] == 2
    assert line["calls"] == 1
    assert line["cached"] == 1
    assert line["failed"] == 0
    # The answered one, the billed one and the one in flight.
    assert book.spent_before == Decimal("0.5") + 2 + 8


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_process_may_die_at_any_byte(tmp_path_factory: Any, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("book")
    book = CallBook(folder)
    ledger = Ledger(PRICE, book)
    requests_sent = data.draw(st.integers(0, 12))
    for _ in range(requests_sent):
        request = ledger.request("p", "m", most=Decimal("0.01"))
        if data.draw(st.booleans()):
            ledger.answered(request, TEN, Decimal("0.002"))
    book.open()
    path = folder / CALLS
    content = path.read_bytes()
    # Not drawn up to the length itself: a line holds a time of any length.
    drawn = data.draw(st.integers(0, 5000))
    cut = drawn % (len(content) + 1)
    junk = data.draw(st.sampled_from([b"", b"\xff\x00", b"[1]\n", b'["a",9']))
    path.write_bytes(content[:cut] + junk)

    CallBook(folder).open()

    (receipt,) = receipts(folder)
    requests = sum(line["requests"] for line in receipt["lines"])
    answered = requests - receipt["in_flight"]
    last_end = content.rfind(b"\n", 0, cut) + 1
    whole_lines = [json.loads(line) for line in content[:last_end].splitlines()]
    written_requests = sum(line[0] == "s" for line in whole_lines)
    written_answers = sum(line[0] == "a" for line in whole_lines)
    # One more, where a line was cut before its line end alone.
    assert requests - written_requests in (0, 1)
    assert answered - written_answers in (0, 1)


# --- costs that are not known, books that cannot be written


def test_an_unknown_cost_stays_unknown(tmp_path: Path) -> None:
    ledger = Ledger(None, CallBook(tmp_path))
    request = ledger.request("p", "m")
    ledger.answered(request, TEN, None)

    CallBook(tmp_path).open()

    (receipt,) = receipts(tmp_path)
    assert receipt["cost"] is None
    assert receipt["lines"][0]["cost"] is None
    assert receipt["unconfirmed"] == "0"


def test_an_unknown_cost_of_a_lost_answer_stays_unknown() -> None:
    ledger = Ledger(None)
    request = ledger.request("p", "m")
    ledger.ended(request, billed=True)

    receipt = ledger.receipt()

    assert receipt.cost == Decimal(0)
    assert receipt.unconfirmed is None


def test_a_book_that_cannot_be_written_stops_the_buying(tmp_path: Path) -> None:
    ledger = Ledger(PRICE, CallBook(tmp_path / "missing"))

    with pytest.raises(LLMCacheError, match="cannot be written"):
        ledger.request("p", "m")


# --- a cap


CENTS = st.integers(min_value=0, max_value=50).map(lambda cents: Decimal(cents) / 100)
SHARE = st.floats(0, 1)
SECONDS = st.integers(0, 9)
# The most that a call may cost, the share of it that it costs, and its seconds.
CALLS_WITH_COSTS = st.lists(st.tuples(CENTS, SHARE, SECONDS), max_size=30)


@given(CENTS, CALLS_WITH_COSTS)
@settings(max_examples=60)
def test_what_is_spent_and_in_flight_never_exceeds_the_limit(
    limit: Decimal, calls: list[tuple[Decimal, float, int]]
) -> None:
    async def scenario() -> None:
        budget = Budget(limit)
        refused_costs: list[Decimal] = []

        async def call(most: Decimal, share: float, seconds: int) -> Decimal:
            try:
                await budget.reserve(most)
            except LLMBudgetError:
                refused_costs.append(most)
                return Decimal(0)
            assert budget.spent + budget.reserved <= limit
            await asyncio.sleep(seconds)
            cost = most * Decimal(round(share * 100)) / 100
            budget.settle(most, cost)
            return cost

        costs = await asyncio.gather(*[call(*arguments) for arguments in calls])

        assert sum(costs) == budget.spent
        assert budget.spent <= limit
        assert budget.reserved == 0
        # Nothing was refused that would have fitted.
        for cost in refused_costs:
            assert budget.spent + cost > limit

    run(scenario())


def test_a_call_waits_for_money_to_come_back() -> None:
    async def scenario() -> tuple[float, Decimal]:
        budget = Budget(Decimal(10))
        loop = asyncio.get_running_loop()
        await budget.reserve(Decimal(8))
        loop.call_later(60, budget.settle, Decimal(8), Decimal(1))

        await budget.reserve(Decimal(9))

        return loop.time(), budget.spent

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

        assert budget.reserved == 0
        assert budget.spent == 0

    run(scenario())


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_no_prompt_has_more_tokens_than_its_bound(texts: list[str]) -> None:
    """A cap on cost rests on it; checked against the vocabularies at hand."""
    messages = [{"role": "user", "content": text} for text in texts]

    bound = most_prompt_tokens({"model": "m", "messages": messages})

    byte_lengths = [len(text.encode("utf-8", "replace")) for text in texts]
    assert bound >= sum(byte_lengths)
    tokens = [APPROXIMATE.count(text) + 4 for text in texts]
    assert bound >= sum(tokens)
