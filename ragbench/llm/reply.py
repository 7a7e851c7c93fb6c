"""A model's answer, with all that is known of how it came about."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Generic, TypeVar

from ragbench.llm.usage import Usage

__all__ = ["Reply"]

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply(Generic[T_co]):
    """A whole answer, as it was asked for."""

    value: T_co
    """The structure that was asked for; the text when none was."""
    text: str
    """What the model said, word by word."""
    usage: Usage
    """Tokens of all its requests together. Of a cached answer: what it took when it was asked."""
    cost: Decimal | None
    """What those tokens cost, or cost then; None when the price or the tokens are not known."""
    model: str
    """The model, as the endpoint names it."""
    finish_reason: str
    cached: bool
    """Whether it came out of the cache, or from an equal question in flight: nothing was paid."""
    repaired: bool
    """Whether the first answer was not as asked, and the model was asked to mend it."""
    attempts: int
    """Requests that it took."""
    seconds: float
    """From the question to the answer, waiting included. Of a cached answer: what it took then."""
    key: bytes
    """Name of the question; see `cache_key`."""
