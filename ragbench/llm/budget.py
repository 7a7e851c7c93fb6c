"""A cap on cost that holds while many calls are in flight."""

from __future__ import annotations

import asyncio
from decimal import Decimal

from ragbench.errors import ConfigError, LLMBudgetError

__all__ = ["Budget", "Reservation"]


class Reservation:
    """Money set aside for one request; settled exactly once."""

    def __init__(self, budget: Budget, amount: Decimal) -> None:
        """Made by `Budget.reserve`."""
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
    """What may be spent. For one event loop.

    Before a request is sent, the most that it can cost is set aside; afterwards what it did cost is
    booked. So the sum of what was spent and of what is in flight never exceeds the limit, however
    many calls there are at once.
    """

    def __init__(self, limit: Decimal, *, spent: Decimal = Decimal(0)) -> None:
        """Nothing is in flight yet.

        Args:
            limit: the most that may be spent, at least 0.
            spent: what was spent of it before.

        Raises:
            ConfigError: an amount is negative or no number.
        """
        if not limit.is_finite() or limit < 0 or not spent.is_finite() or spent < 0:
            raise ConfigError("a cost must be a number of at least 0")
        self.limit = limit
        self.spent = spent
        """What requests that are over cost, those included whose cost was never told."""
        self.reserved = Decimal(0)
        """Set aside for requests in flight."""
        self._changed: asyncio.Event | None = None

    async def reserve(self, amount: Decimal) -> Reservation:
        """Sets money aside, waiting for requests in flight to give some back where that can help.

        Args:
            amount: the most that the request can cost.

        Raises:
            LLMBudgetError: not even then would it fit.
        """
        while self.spent + self.reserved + amount > self.limit:
            if self.spent + amount > self.limit:
                raise LLMBudgetError(
                    f"the cost is capped at {self.limit:f}; {self.spent:.6f} is spent, and the "
                    f"next call may cost up to {amount:.6f}. What was answered is kept: a higher "
                    "cap goes on from there"
                )
            if self._changed is None:
                self._changed = asyncio.Event()
            await self._changed.wait()
        self.reserved += amount
        return Reservation(self, amount)

    def _settle(self, amount: Decimal, cost: Decimal) -> None:
        self.reserved -= amount
        self.spent += cost
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set()
