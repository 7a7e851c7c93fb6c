"""How many calls may be in flight: as many as whoever answers them bears.

The number follows additive increase, multiplicative decrease (Chiu and Jain 1989, "Analysis of the
increase and decrease algorithms for congestion avoidance"), with TCP's slow start until the first
decrease. A rate limit halves the number. A server error says little about load: only when most of
the latest calls end in errors or time outs is the number halved for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

_WINDOW = 16
"""How many of the latest calls say whether most of them fail."""
_STREAK = 3
"""Rate limits in a row after which nobody calls until the first of the waits is over."""


class AdaptiveLimit:
    """The number of calls that may be in flight, as their ends show it. For one thread."""

    def __init__(self, most: int, *, first: int, now: Callable[[], float]) -> None:
        """Begins with the first number of calls in flight, or the most where that is less.

        Args:
            most: the number that is never exceeded.
            first: calls in flight to begin with.
            now: gives the time in seconds.
        """
        self.most = most
        self._now = now
        self._limit = float(min(first, most))
        """How many calls may be in flight: the whole part; the fraction grows towards one more."""
        self.in_flight = 0
        """Calls that have begun and not ended; whoever makes the calls counts them here."""
        self.epoch = 0
        """How often the limit was lowered: of calls that were in flight together, only the first
        refused one lowers it."""
        self._rising_fast = True
        """Whether the limit has never been lowered: then it doubles with each round of calls."""
        self._latest: deque[bool] = deque(maxlen=_WINDOW)
        """Whether each of the latest calls was answered."""
        self._limited_in_row = 0
        """How many calls in a row were refused because of a rate limit."""
        self._earliest = 0.0
        """The first time at which one of these refused calls may be made again."""
        self._paused_until = 0.0
        """Until when no call is made, since many in a row were refused; 0 without a pause."""

    @property
    def limit(self) -> int:
        """How many calls may be in flight just now: a whole number, at least 1.

        The fraction that the limit has inside lets it grow by less than one call at a time.
        """
        return int(self._limit)

    @property
    def pause(self) -> float:
        """Seconds for which no call may begin; at most 0 where there is no pause.

        A service that refuses several calls in a row is left alone for as long.
        """
        return self._paused_until - self._now()

    def succeeded(self, left: int | None = None) -> None:
        """Notes that a call was answered, and so lets a little more calls be in flight.

        The limit only rises while at least half as many calls are in flight: with fewer, nothing
        shows whether so many are borne. Until it is first lowered, the limit doubles with each
        round of calls; then it rises by one a round.

        Args:
            left: how many more calls the endpoint reports that it takes just now.
        """
        self._latest.append(True)
        self._limited_in_row = 0
        # An answer ends a pause: the endpoint takes calls again.
        self._paused_until = 0.0
        # With fewer in flight, nobody has tried whether as many as the limit are borne.
        if self.in_flight * 2 >= self._limit:
            step = 1.0 if self._rising_fast else 1.0 / self._limit
            self._limit = min(self._limit + step, float(self.most))
            self._rose()
        if left is not None:
            # At least one: without calls, nothing would be answered that lets the limit rise.
            self._limit = min(self._limit, float(max(1, left)))

    def rate_limited(self, epoch: int, wait: float) -> None:
        """Notes that a call was refused as one too many (429), and halves the limit.

        Several refusals in a row with nothing answered between them mean a pause of all calls until
        the first of the refused calls may come again.

        Args:
            epoch: the limit's ``epoch`` when the call began.
            wait: seconds after which that call may come again.
        """
        self._lower(epoch)
        may_return = self._now() + wait
        # Of several refused calls in a row, the one counts that may come again first.
        if self._limited_in_row:
            may_return = min(self._earliest, may_return)
        self._earliest = may_return
        self._limited_in_row += 1
        # Several refusals in a row with nothing answered between: the limit is everybody's.
        # Without a pause each waiting call would use up a request, to be refused alike.
        if self._limited_in_row >= _STREAK:
            self._paused_until = max(self._paused_until, self._earliest)

    def failed(self, epoch: int) -> None:
        """Notes that a call ended in a server error, a lost connection or a time out.

        One such end shows little about load: the limit is halved only when most of the latest calls
        failed, of at least half a window of them.

        Args:
            epoch: the limit's ``epoch`` when the call began.
        """
        self._latest.append(False)
        calls = len(self._latest)
        most_failed = sum(self._latest) * 2 < calls
        if calls >= _WINDOW // 2 and most_failed:
            self._lower(epoch)
            # The window begins anew, or the same failures would lower the limit twice.
            self._latest.clear()

    def _lower(self, epoch: int) -> None:
        """Halves the number of calls in flight, unless that has happened since the call began.

        Args:
            epoch: as it was when the call began. Calls of one burst are one sign, not many.
        """
        if epoch == self.epoch:
            self._limit = max(1.0, self._limit / 2)
            self.epoch += 1
            self._rising_fast = False

    def _rose(self) -> None:
        """Does nothing: a subclass in which calls wait for their turn wakes them here.

        Called each time when more calls may be in flight than before.
        """
