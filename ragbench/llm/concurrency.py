"""How many calls, when again, when no more.

Additive increase, multiplicative decrease (Chiu and Jain 1989, "Analysis of the increase and
decrease algorithms for congestion avoidance"), with TCP's slow start until the first decrease. A
rate limit halves the number. A server error says little about load: only when most of the latest
calls end in errors or time outs is the number halved for them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass

from ragbench.errors import ConfigError, InterruptedRunError, LLMStoppedError, LLMUnreachableError

_GLANCE = 0.25
"""Seconds between two looks at whether the run is stopped."""


class Clock:
    """The running event loop's time."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    stopped: Callable[[], bool] = staticmethod(lambda: False)
    """Whether the user has stopped the run: then nothing is waited for, and no more is asked."""

    async def sleep(self, seconds: float) -> None:
        self.check()
        while seconds > 0:
            await asyncio.sleep(min(seconds, _GLANCE))
            seconds -= _GLANCE
            self.check()

    def check(self) -> None:
        """Does nothing while the run goes on."""
        if self.stopped():
            raise InterruptedRunError("stopped; the same command continues")

    def limit(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """A block that raises `TimeoutError` when it takes longer; None for no limit."""
        return asyncio.timeout(seconds)


class Circuit:
    """Open means: no further call. It stays open for this run; the next run tries anew."""

    def __init__(
        self, clock: Clock, *, where: str, failures: int = 8, seconds: float = 20.0
    ) -> None:
        self._clock = clock
        self._where = where
        self._failures = failures
        self._seconds = seconds
        self._in_row = 0
        self._since = 0.0
        self._stopped: LLMStoppedError | None = None
        self.has_answered = False
        """Whether any call was answered well."""
        self.has_worked = False
        """Whether it answered an earlier command: then its restart is waited for, too."""

    def check(self) -> None:
        """Does nothing while calls may be made."""
        if self._stopped is not None:
            # One exception raised from many tasks would gather all their tracebacks.
            raise type(self._stopped)(str(self._stopped), status=self._stopped.status)

    def open(self, reason: LLMStoppedError) -> None:
        """Stops all further calls; the first reason is kept."""
        if self._stopped is None:
            self._stopped = reason

    def answered(self, *, well: bool) -> None:
        """The endpoint gave an answer, be it an error."""
        self._in_row = 0
        self.has_answered = self.has_answered or well

    def unanswered(self, detail: str) -> None:
        """A request got no answer: no connection, or none that held."""
        now = self._clock.now()
        if self._in_row == 0:
            self._since = now
        self._in_row += 1
        is_known = self.has_answered or self.has_worked
        long_enough = not is_known or now - self._since >= self._seconds
        if self._in_row >= self._failures and long_enough:
            self.open(
                LLMUnreachableError(
                    f"{self._where} gives no answer: {self._in_row} requests in a row failed "
                    f"({detail}). Earlier answers are kept; the same command goes on from "
                    "there when the endpoint is back"
                )
            )


_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
"""Seconds."""
_FIRST = 8
_WINDOW = 16
_STREAK = 3


class Concurrency:
    """Gives out slots. For one event loop."""

    def __init__(self, most: int, clock: Clock) -> None:
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

    @property
    def limit(self) -> int:
        return int(self._limit)

    @property
    def in_flight(self) -> int:
        return self._in_flight

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[int]:
        """Waits for a slot, first come first served, and holds it for the block.

        Gives how often the limit had been lowered when the call began.
        """
        await self._acquire()
        try:
            # The endpoint may have asked everybody to wait while this call stood in line.
            while (wait := self._paused_until - self._clock.now()) > 0:
                self._release()
                try:
                    await self._clock.sleep(wait)
                finally:
                    await self._acquire()
            yield self._epoch
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

    def left(self, requests: int) -> None:
        """The endpoint said how many more calls it takes just now."""
        self._limit = min(self._limit, float(max(1, requests)))

    def rate_limited(self, epoch: int, wait: float) -> None:
        """The endpoint said that there were too many calls (429).

        Args:
            wait: seconds after which that call may come again.
        """
        self._lower(epoch)
        again = self._clock.now() + wait
        self._earliest = again if not self._limited_in_row else min(self._earliest, again)
        self._limited_in_row += 1
        # Several in a row with nothing answered between: the limit is everybody's. Otherwise each
        # call that waits for its turn would use up a request to hear the same.
        if self._limited_in_row >= _STREAK:
            self._paused_until = max(self._paused_until, self._earliest)

    def failed(self, epoch: int) -> None:
        """A call ended in a server error, a lost connection or a time out."""
        self._latest.append(False)
        if len(self._latest) >= _WINDOW // 2 and sum(self._latest) * 2 < len(self._latest):
            self._lower(epoch)
            self._latest.clear()

    def _lower(self, epoch: int) -> None:
        if epoch == self._epoch:  # calls of one burst are one sign, not many
            self._limit = max(1.0, self._limit / 2)
            self._epoch += 1
            self._rising_fast = False

    async def _acquire(self) -> None:
        if self._in_flight < self.limit and not self._waiting:
            self._in_flight += 1
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

    def _release(self) -> None:
        self._in_flight -= 1
        self._wake()

    def _wake(self) -> None:
        while self._waiting and self._in_flight < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._in_flight += 1
                turn.set_result(None)


@dataclass(frozen=True, kw_only=True, slots=True)
class CallLimits:
    """Changes how calls are made, never what they answer."""

    timeout: float = 120.0
    """Seconds for one request."""
    deadline: float | None = None
    """Seconds for all calls together, from the moment the client is opened; None for no end."""
    concurrency: int = 32
    """The most requests in flight; fewer when the endpoint asks for it."""
    retries: int = 6
    """How often a request is sent again after server errors, time outs, lost connections and
    answers that are not answers; rate limits are counted apart."""
    rate_limit_wait: float = 600.0
    """Seconds that a call may spend waiting because the endpoint asks for it (429)."""

    def __post_init__(self) -> None:
        if self.timeout <= 0 or (self.deadline is not None and self.deadline <= 0):
            raise ConfigError("timeout and deadline must be above 0 seconds")
        if self.concurrency < 1:
            raise ConfigError(f"concurrency must be at least 1, not {self.concurrency}")

    def wait(self, attempt: int, spread: float) -> float:
        """Seconds before a repetition that the endpoint did not ask for; each is twice as long.

        Args:
            attempt: how many repetitions there were before, from 0.
            spread: in [0, 1]; keeps calls apart that failed together. Half of the wait depends
                on it.
        """
        whole = min(_FIRST_WAIT * 2.0 ** min(attempt, 30), _LONGEST_WAIT)
        return whole * (0.5 + 0.5 * spread)
