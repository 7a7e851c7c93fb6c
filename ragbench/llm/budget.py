"""A cap on cost that holds while many calls are in flight."""

from __future__ import annotations

import asyncio
import threading
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
    """What may be spent, by all clients together, in however many event loops and threads.

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
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def reserve(self, amount: Decimal) -> Reservation:
        """Sets money aside, waiting for requests in flight to give some back where that can help.

        Args:
            amount: the most that the request can cost.

        Raises:
            LLMBudgetError: not even then would it fit.
        """
        while (changed := self._set_aside(amount)) is not None:
            await changed.wait()
        return Reservation(self, amount)

    def _set_aside(self, amount: Decimal) -> asyncio.Event | None:
        """Sets money aside, or gives what tells when some has come back."""
        with self._lock:
            if self.spent + self.reserved + amount <= self.limit:
                self.reserved += amount
                return None
            if self.spent + amount > self.limit:
                raise LLMBudgetError(
                    f"the cost is capped at {self.limit:f}; {self.spent:.6f} is spent, and the "
                    f"next call may cost up to {amount:.6f}. What was answered is kept: a higher "
                    "cap goes on from there"
                )
            changed = asyncio.Event()
            self._waiting.append((asyncio.get_running_loop(), changed))
            return changed

    def _settle(self, amount: Decimal, cost: Decimal) -> None:
        with self._lock:
            self.reserved -= amount
            self.spent += cost
            waiting, self._waiting = self._waiting, []
        for loop, changed in waiting:
            if not loop.is_closed():  # who waited there has been cancelled
                loop.call_soon_threadsafe(changed.set)
