"""Who spent what: calls, tokens and cost of each purpose and model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from ragbench.llm.price import Price
from ragbench.llm.usage import Usage

__all__ = ["Ledger", "Receipt", "ReceiptLine"]


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
        """See `ReceiptLine.unconfirmed`."""
        return _sum([line.unconfirmed for line in self.lines])


@dataclass(kw_only=True, slots=True)
class _Account:
    calls: int = 0
    cached: int = 0
    failed: int = 0
    requests: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: Decimal = Decimal(0)
    unconfirmed: Decimal = Decimal(0)
    unconfirmed_requests: int = 0


class Ledger:
    """Books calls as they happen."""

    def __init__(self, price: Price | None) -> None:
        """Empty.

        Args:
            price: of the tokens; None when it is not known.
        """
        self._price = price
        self._accounts: dict[tuple[str, str], _Account] = {}

    def request(self, purpose: str, model: str) -> None:
        """A request is sent."""
        self._account(purpose, model).requests += 1

    def billed(self, purpose: str, model: str, usage: Usage) -> None:
        """A request was answered and its tokens told."""
        account = self._account(purpose, model)
        account.usage += usage
        if self._price is not None:
            account.cost += self._price.of(usage)

    def unconfirmed(self, purpose: str, model: str, most: Decimal | None) -> None:
        """A request may have been billed; how much is not known.

        Args:
            purpose: what it was for.
            model: which model it asked.
            most: the most that it can have cost; None when that is not known either.
        """
        account = self._account(purpose, model)
        account.unconfirmed += most or Decimal(0)
        account.unconfirmed_requests += 1

    def call(self, purpose: str, model: str, *, cached: bool = False, failed: bool = False) -> None:
        """A question is over."""
        account = self._account(purpose, model)
        account.calls += 1
        account.cached += cached
        account.failed += failed

    def receipt(self) -> Receipt:
        """What was booked so far."""
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
                    cost=None if price is None else account.cost,
                    unconfirmed=None if price is None else account.unconfirmed,
                    unconfirmed_requests=account.unconfirmed_requests,
                )
                for (purpose, model), account in sorted(self._accounts.items())
            ),
            currency=None if price is None else price.currency,
            price_origin=None if price is None else price.origin,
        )

    def _account(self, purpose: str, model: str) -> _Account:
        return self._accounts.setdefault((purpose, model), _Account())


def _sum(amounts: list[Decimal | None]) -> Decimal | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known, Decimal(0)) if len(known) == len(amounts) else None
