"""When a request is sent again, and after how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from ragbench.errors import ConfigError

__all__ = ["RetryPolicy", "retry_after"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryPolicy:
    """How patient the client is with one call. Rate limits and errors are counted apart."""

    retries: int = 6
    """How often a request is sent again after server errors, time outs, lost connections and
    answers that are no answers."""
    rate_limit_wait: float = 600.0
    """Seconds that a call may spend waiting because the endpoint asks for it (429)."""
    first_wait: float = 0.5
    """Seconds before the first repetition; each further wait is twice as long."""
    longest_wait: float = 30.0
    """The longest wait that the endpoint did not ask for, in seconds."""

    def __post_init__(self) -> None:
        """Refuses numbers out of range."""
        waits = (self.rate_limit_wait, self.first_wait, self.longest_wait)
        if self.retries < 0 or any(wait < 0 for wait in waits):
            raise ConfigError("retries and waiting times must be at least 0")

    def wait(self, attempt: int, spread: float) -> float:
        """Seconds before a repetition.

        Args:
            attempt: how many repetitions there were before, from 0.
            spread: in [0, 1]; keeps calls apart that failed together. Half of the wait depends
                on it.
        """
        whole = min(self.first_wait * 2.0 ** min(attempt, 30), self.longest_wait)
        return whole * (0.5 + 0.5 * spread)


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that an answer asks to wait.

    Args:
        headers: of the answer, names in lower case. ``retry-after-ms`` in milliseconds goes before
            ``retry-after`` (RFC 9110, 10.2.3), in seconds or as a date.
        now: the time of day; the clock's by default.

    Returns:
        At least 0; None when nothing is asked for, or nothing that can be read.
    """
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        try:
            seconds = float(text) * unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    aware = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (aware - (now or datetime.now(UTC))).total_seconds())
