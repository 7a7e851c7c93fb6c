"""How much time and patience calls have, and how many are in flight."""

from __future__ import annotations

from dataclasses import dataclass, field

from ragbench.errors import ConfigError
from ragbench.llm.retry import RetryPolicy

__all__ = ["CallLimits"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CallLimits:
    """Changes how calls are made, never what they answer."""

    timeout: float = 120.0
    """Seconds for one request."""
    deadline: float | None = None
    """Seconds for all calls together, from the moment the client is opened; None for no end."""
    concurrency: int = 32
    """The most requests in flight; fewer when the endpoint asks for it."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)

    def __post_init__(self) -> None:
        """Refuses numbers out of range."""
        if self.timeout <= 0 or (self.deadline is not None and self.deadline <= 0):
            raise ConfigError("timeout and deadline must be above 0 seconds")
        if self.concurrency < 1:
            raise ConfigError(f"concurrency must be at least 1, not {self.concurrency}")
