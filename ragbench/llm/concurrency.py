"""How many calls are in flight: as many as the endpoint bears, found out while it works.

Additive increase, multiplicative decrease (Chiu and Jain 1989, "Analysis of the increase and
decrease algorithms for congestion avoidance"), with TCP's slow start until the first decrease. A
rate limit halves the number. A server error says little about load: only when most of the latest
calls end in errors or time outs is the number halved for them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from ragbench.errors import ConfigError
from ragbench.llm.clock import Clock

__all__ = ["Concurrency", "Slot"]

_FIRST = 8
_WINDOW = 16
_STREAK = 3


@dataclass(frozen=True, slots=True)
class Slot:
    """One call's leave to be in flight."""

    epoch: int
    """How often the limit had been lowered when the call began."""


class Concurrency:
    """Gives out slots. For one event loop."""

    def __init__(self, most: int, clock: Clock) -> None:
        """Starts low.

        Args:
            most: never more calls in flight than that.
            clock: the time.

        Raises:
            ConfigError: ``most`` is less than 1.
        """
        if most < 1:
            raise ConfigError(f"the number of calls in flight must be at least 1, not {most}")
        self._most = most
        self._clock = clock
        self._limit = float(min(_FIRST, most))
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._epoch = 0
        self._rising_fast = True
        self._latest: deque[bool] = deque(maxlen=_WINDOW)
        self._limited_in_row = 0
        self._paused_until = 0.0
        self._earliest = 0.0
        self.peak = 0
        """The most calls that were in flight at once."""

    @property
    def limit(self) -> int:
        """How many calls may be in flight now."""
        return int(self._limit)

    @property
    def in_flight(self) -> int:
        """How many calls are in flight."""
        return self._in_flight

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[Slot]:
        """Waits for a slot, first come first served, and holds it for the block."""
        await self._acquire()
        try:
            # The endpoint may have asked everybody to wait while this call stood in line.
            while (wait := self._paused_until - self._clock.now()) > 0:
                self._release()
                try:
                    await self._clock.sleep(wait)
                finally:
                    await self._acquire()
            yield Slot(self._epoch)
        finally:
            self._release()

    def succeeded(self) -> None:
        """A call was answered: a little more may be in flight."""
        self._latest.append(True)
        self._limited_in_row = 0
        self._paused_until = 0.0
        if self._in_flight * 2 < self._limit:
            return  # nobody has tried whether that many are borne
        step = 1.0 if self._rising_fast else 1.0 / self._limit
        self._limit = min(self._limit + step, float(self._most))
        self._wake()

    def rate_limited(self, slot: Slot, wait: float) -> None:
        """The endpoint said that there were too many calls (429).

        Args:
            slot: the call's.
            wait: seconds after which that call may come again.
        """
        self._lower(slot)
        again = self._clock.now() + wait
        self._earliest = again if not self._limited_in_row else min(self._earliest, again)
        self._limited_in_row += 1
        # Several in a row with nothing answered between: the limit is everybody's. Otherwise each
        # call that waits for its turn would use up a request to be told the same.
        if self._limited_in_row >= _STREAK:
            self._paused_until = max(self._paused_until, self._earliest)

    def failed(self, slot: Slot) -> None:
        """A call ended in a server error, a lost connection or a time out."""
        self._latest.append(False)
        if len(self._latest) >= _WINDOW // 2 and sum(self._latest) * 2 < len(self._latest):
            self._lower(slot)
            self._latest.clear()

    def _lower(self, slot: Slot) -> None:
        if slot.epoch == self._epoch:  # calls of one burst tell one thing, not many
            self._limit = max(1.0, self._limit / 2)
            self._epoch += 1
            self._rising_fast = False

    async def _acquire(self) -> None:
        if self._in_flight < self.limit and not self._waiting:
            self._take()
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()  # it was this call's turn already
            else:
                with suppress(ValueError):  # passed over already
                    self._waiting.remove(turn)
            raise

    def _take(self) -> None:
        self._in_flight += 1
        self.peak = max(self.peak, self._in_flight)

    def _release(self) -> None:
        self._in_flight -= 1
        self._wake()

    def _wake(self) -> None:
        while self._waiting and self._in_flight < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._take()
                turn.set_result(None)
