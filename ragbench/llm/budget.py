"""The cap on cost, who spent what, the table of prices."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple, cast

from ragbench.core.chat import Usage
from ragbench.errors import ConfigError, LLMBudgetError
from ragbench.llm.book import CallBook
from ragbench.llm.endpoint import Endpoint, LongPrompt, Price


class Reservation:
    """Money set aside for one request; settled exactly once."""

    def __init__(self, budget: Budget, amount: Decimal) -> None:
        self._budget = budget
        self.amount = amount
        """The most that the request can cost."""
        self._open = True

    def settle(self, cost: Decimal) -> None:
        """Books what the request cost and gives the rest back; a second call does nothing."""
        if self._open:
            self._open = False
            self._budget._settle(self.amount, cost)  # pyright: ignore[reportPrivateUsage]


class Budget:
    """What may be spent, by all clients together, in however many event loops and threads.

    Before a request is sent, the most that it can cost is set aside; afterwards what it did cost is
    booked. So the sum of what was spent and of what is in flight never exceeds the limit, however
    many calls there are at once.
    """

    def __init__(
        self,
        limit: Decimal | None,
        *,
        spent: Decimal = Decimal(0),
        run_limit: Decimal | None = None,
        book: CallBook | None = None,
    ) -> None:
        amounts = [amount for amount in (limit, run_limit, spent) if amount is not None]
        if any(not amount.is_finite() or amount < 0 for amount in amounts):
            raise ConfigError("a cost must be a number of at least 0")
        self.limit = limit
        self.run_limit = run_limit
        self.book = book
        self.spent = spent
        """What requests that are over cost, those included whose cost was never told."""
        self.reserved = Decimal(0)
        """Set aside for requests in flight."""
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    @property
    def is_capped(self) -> bool:
        """Whether there is a limit: then nothing may be asked whose cost nobody knows."""
        return self.limit is not None or self.run_limit is not None

    async def reserve(self, amount: Decimal) -> Reservation:
        """Reserves money, waiting for requests in flight to return some where that can help."""
        while (changed := self._set_aside(amount)) is not None:
            await changed.wait()
        return Reservation(self, amount)

    def _set_aside(self, amount: Decimal) -> asyncio.Event | None:
        """Sets money aside, or gives what tells when some has come back."""
        if self.book is not None:
            self.book.open()  # tells what earlier commands spent
        with self._lock:
            if self.spent + self.reserved + amount <= self._left_at_first():
                self.reserved += amount
                return None
            if self.spent + amount > self._left_at_first():
                raise LLMBudgetError(self._told(amount))
            changed = asyncio.Event()
            self._waiting.append((asyncio.get_running_loop(), changed))
            return changed

    def _left_at_first(self) -> Decimal:
        limits = [Decimal("Infinity") if self.limit is None else self.limit]
        if self.run_limit is not None:
            limits.append(self.run_limit - self._before)
        return min(limits)

    @property
    def _before(self) -> Decimal:
        return Decimal(0) if self.book is None else self.book.spent_before

    def _told(self, amount: Decimal) -> str:
        of_run = self.run_limit is not None and self._left_at_first() != self.limit
        limit = self.run_limit if of_run else self.limit
        spent = self.spent + (self._before if of_run else Decimal(0))
        what = "the cost of all commands of this run" if of_run else "the cost"
        return (
            f"{what} is capped at {limit:f}; {spent:.6f} is spent, and the next call may cost up "
            f"to {amount:.6f}. What was answered is kept: a higher cap goes on from there"
        )

    def _settle(self, amount: Decimal, cost: Decimal) -> None:
        with self._lock:
            self.reserved -= amount
            self.spent += cost
            waiting, self._waiting = self._waiting, []
        for loop, changed in waiting:
            if not loop.is_closed():  # who waited there has been cancelled
                loop.call_soon_threadsafe(changed.set)


_DOLLARS = "USD"
"""In which endpoints report what they charge."""
_DATED = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|20\d{6})$")


def price_for(endpoint: Endpoint) -> Price | None:
    """What an endpoint's tokens cost. None when it is not known."""
    if endpoint.price is not None:
        return endpoint.price
    table = _table().get(endpoint.host, {})
    name = endpoint.model.removeprefix("models/")  # as Gemini lists its own
    return table.get(name) or table.get(_DATED.sub("", name))


@cache
def _table() -> dict[str, dict[str, Price]]:
    text = files("ragbench.llm").joinpath("prices.json").read_text("utf-8")
    raw = cast("dict[str, Any]", json.loads(text))
    return {table["host"]: _prices(table) for table in raw["tables"]}


def _prices(table: dict[str, Any]) -> dict[str, Price]:
    note = f", {table['note']}" if "note" in table else ""
    origin = f"list price of {table['host']}, {table['as_of']}{note}"
    return {
        model: Price(
            input=Decimal(entry["input"]),
            output=Decimal(entry["output"]),
            cached_input=_optional(entry, "cached_input"),
            long_prompt=_long_prompt(entry.get("long_prompt")),
            origin=origin,
        )
        for model, entry in table["models"].items()
    }


def _optional(entry: dict[str, Any], name: str) -> Decimal | None:
    return Decimal(entry[name]) if name in entry else None


def _long_prompt(entry: dict[str, Any] | None) -> LongPrompt | None:
    if entry is None:
        return None
    return LongPrompt(
        above=entry["above"],
        input=Decimal(entry["input"]),
        output=Decimal(entry["output"]),
        cached_input=_optional(entry, "cached_input"),
    )


def check_cap(endpoint: Endpoint) -> None:
    """Refuses an endpoint of which nobody knows beforehand the most that a call can cost."""
    if price_for(endpoint) is None:
        raise ConfigError(
            f"the cost cannot be capped: the price of {endpoint.model} at {endpoint.base_url} is "
            "not known. Give price_input and price_output, per million tokens (0 where it costs "
            "nothing)"
        )
    if endpoint.max_tokens is None:
        raise ConfigError("the cost cannot be capped without max_tokens: no answer has a limit")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReceiptLine:
    """What one purpose took from one model."""

    purpose: str
    """What the calls were for, such as a metric's name."""
    model: str
    calls: int
    """Questions asked; one that needed several requests counts once."""
    cached: int
    """Of those, answered from the cache, at no cost."""
    failed: int
    """Of those, that ended in an error."""
    requests: int
    """Requests sent, repetitions included."""
    usage: Usage
    """Tokens of all requests that were answered; not of cached calls."""
    cost: Decimal | None
    """None when the price is not known: that is not 0."""
    unconfirmed: Decimal | None
    """The most that requests may have cost whose answer never came, or did not tell its tokens. Not
    part of ``cost``. None when the price is not known."""
    unconfirmed_requests: int
    """How many such requests there were."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    """What was spent, by purpose and model."""

    lines: tuple[ReceiptLine, ...]
    """In the order of purpose and model."""
    currency: str | None
    """None when no price is known."""
    price_origin: str | None
    """Where the price comes from, with its date; None when it is not known."""

    @classmethod
    def of(cls, receipts: Iterable[Receipt]) -> Receipt:
        """Several receipts as one. Prices in two currencies are not added up."""
        known = tuple(receipts)
        lines = sorted(
            (line for receipt in known for line in receipt.lines),
            key=lambda line: (line.purpose, line.model),
        )
        currencies = {receipt.currency for receipt in known if receipt.currency is not None}
        origins = {receipt.price_origin: None for receipt in known if receipt.price_origin}
        return cls(
            lines=tuple(lines),
            currency=currencies.pop() if len(currencies) == 1 else None,
            price_origin="; ".join(origin for origin in origins if origin) or None,
        )

    @property
    def cost(self) -> Decimal | None:
        """All together; None when the price of anything is not known."""
        return _sum([line.cost for line in self.lines])

    @property
    def unconfirmed(self) -> Decimal | None:
        return _sum([line.unconfirmed for line in self.lines])


REPORTED = "as the endpoint reports"
"""Where a cost comes from that is no matter of a price."""


@dataclass(kw_only=True, slots=True)
class _Account:
    calls: int = 0
    cached: int = 0
    failed: int = 0
    requests: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: Decimal = Decimal(0)
    unpriced: int = 0
    """Answered requests whose cost is not known."""
    unconfirmed: Decimal = Decimal(0)
    unconfirmed_requests: int = 0


class BookedRequest(NamedTuple):
    """A request that was booked when it was sent."""

    purpose: str
    model: str
    most: Decimal | None
    number: int
    """In the book; 0 without one."""


class Ledger:
    """Books calls as they happen."""

    def __init__(self, price: Price | None, book: CallBook | None = None) -> None:
        self._price = price
        self._book = book
        self._reported = False
        self._accounts: dict[tuple[str, str], _Account] = {}

    @property
    def is_kept(self) -> bool:
        """Whether requests are written down as they happen."""
        return self._book is not None

    def request(
        self, purpose: str, model: str, *, key: str = "", most: Decimal | None = None
    ) -> BookedRequest:
        self._account(purpose, model).requests += 1
        number = 0 if self._book is None else self._book.sent(purpose, model, key, most)
        return BookedRequest(purpose, model, most, number)

    def billed(self, request: BookedRequest, usage: Usage, cost: Decimal | None) -> None:
        """A request was answered, and its tokens or its cost told."""
        if self._book is not None:
            self._book.answered(request.number, usage, cost)
        account = self._account(request.purpose, request.model)
        account.usage += usage
        account.cost += cost or Decimal(0)
        account.unpriced += cost is None
        self._reported = self._reported or (self._price is None and cost is not None)

    def unconfirmed(self, request: BookedRequest) -> None:
        """A request may have been billed; how much is not known."""
        if self._book is not None:
            self._book.ended(request.number, billed=True)
        account = self._account(request.purpose, request.model)
        account.unconfirmed += request.most or Decimal(0)
        account.unconfirmed_requests += 1

    def free(self, request: BookedRequest) -> None:
        """A request was not answered, and cost nothing."""
        if self._book is not None:
            self._book.ended(request.number, billed=False)

    def call(self, purpose: str, model: str, *, cached: bool = False, failed: bool = False) -> None:
        if self._book is not None:
            self._book.question(purpose, model, cached=cached, failed=failed)
        account = self._account(purpose, model)
        account.calls += 1
        account.cached += cached
        account.failed += failed

    def receipt(self) -> Receipt:
        price = self._price
        return Receipt(
            lines=tuple(
                ReceiptLine(
                    purpose=purpose,
                    model=model,
                    calls=account.calls,
                    cached=account.cached,
                    failed=account.failed,
                    requests=account.requests,
                    usage=account.usage,
                    cost=self._cost(account),
                    unconfirmed=None if price is None else account.unconfirmed,
                    unconfirmed_requests=account.unconfirmed_requests,
                )
                for (purpose, model), account in sorted(self._accounts.items())
            ),
            currency=(_DOLLARS if self._reported else None) if price is None else price.currency,
            price_origin=(REPORTED if self._reported else None) if price is None else price.origin,
        )

    def _cost(self, account: _Account) -> Decimal | None:
        """None where any part of it is not known; nothing asked costs nothing at a known price."""
        known = self._price is not None or (self._reported and not account.unpriced)
        return account.cost if known else None

    def _account(self, purpose: str, model: str) -> _Account:
        return self._accounts.setdefault((purpose, model), _Account())


def _sum(amounts: list[Decimal | None]) -> Decimal | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known, Decimal(0)) if len(known) == len(amounts) else None
