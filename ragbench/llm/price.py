"""What tokens cost."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from ragbench.errors import ConfigError
from ragbench.llm.usage import Usage

__all__ = ["Price"]

_MILLION = Decimal(1_000_000)


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """The price of a million tokens of each kind."""

    input: Decimal
    """Of the prompt."""
    output: Decimal
    """Of the answer, hidden reasoning included."""
    cached_input: Decimal | None = None
    """Of the part of the prompt that the endpoint had in its own cache; None: as ``input``."""
    currency: str = "USD"
    origin: str = "settings"
    """Where the price comes from, with its date where it has one."""

    def __post_init__(self) -> None:
        """Refuses prices that cannot be."""
        prices = (self.input, self.output, self.cached_input or Decimal(0))
        if any(not price.is_finite() or price < 0 for price in prices):
            raise ConfigError("the price of a million tokens must be a number of at least 0")

    def of(self, usage: Usage) -> Decimal:
        """What a call costs."""
        cached = min(usage.cached_prompt_tokens, usage.prompt_tokens)
        fresh = usage.prompt_tokens - cached
        known = self.input if self.cached_input is None else self.cached_input
        cost = fresh * self.input + cached * known + usage.completion_tokens * self.output
        return cost / _MILLION

    def at_most(self, *, prompt_tokens: int, completion_tokens: int) -> Decimal:
        """What a call costs when nothing is cached and the answer is as long as it may be."""
        dearest = max(self.input, self.cached_input or self.input)
        return (prompt_tokens * dearest + completion_tokens * self.output) / _MILLION
