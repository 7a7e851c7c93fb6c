"""Stops all calls once it is plain that none will be answered."""

from __future__ import annotations

from ragbench.errors import LLMStoppedError, LLMUnreachableError
from ragbench.llm.clock import Clock

__all__ = ["Circuit"]


class Circuit:
    """Open means: no further call. It stays open for this run; the next run tries anew."""

    def __init__(
        self, clock: Clock, *, where: str, failures: int = 8, seconds: float = 20.0
    ) -> None:
        """Starts closed.

        Args:
            clock: the time.
            where: the endpoint, as messages name it.
            failures: how many calls in a row that got no answer at all open it.
            seconds: how long no answer came, at the least, before it opens; not asked of an
                endpoint that has never answered. A restart of a server is waited for.
        """
        self._clock = clock
        self._where = where
        self._failures = failures
        self._seconds = seconds
        self._in_row = 0
        self._since = 0.0
        self._stopped: LLMStoppedError | None = None
        self.has_answered = False
        """Whether any call was answered well."""

    @property
    def is_open(self) -> bool:
        """Whether all calls are stopped."""
        return self._stopped is not None

    def check(self) -> None:
        """Does nothing while calls may be made.

        Raises:
            LLMStoppedError: they may not, with the reason.
        """
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
        long_enough = not self.has_answered or now - self._since >= self._seconds
        if self._in_row >= self._failures and long_enough:
            self.open(
                LLMUnreachableError(
                    f"{self._where} gives no answer: {self._in_row} requests in a row failed "
                    f"({detail}). What was answered before is kept; the same command goes on from "
                    "there when the endpoint is back"
                )
            )
