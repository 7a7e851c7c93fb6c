"""What judging took and how steady it was: part of a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

__all__ = ["JudgeLine", "JudgeReport", "Steadiness"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Steadiness:
    """How far repeated judgings of the same case differ."""

    cases: int
    """Cases with at least two values: the only ones that the figures cover."""
    deviation: float
    """Standard deviation within a case, pooled: the root of the mean variance of a case's
    values."""
    changed: int
    """Of those cases, that did not get the same value each time."""
    error: float
    """Standard error of the metric's mean that the judge alone causes, at this many
    repetitions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeLine:
    """What one metric took: the answers that its cells rest on, whenever they were paid for."""

    metric: str
    answers: int
    """Answers of the language model."""
    prompt_tokens: int
    completion_tokens: int
    unreported: int
    """Answers whose tokens the endpoint did not tell; they are not in the sums."""
    cost: Decimal | None
    """None when the price, or the tokens of an answer, is not known."""
    steadiness: Steadiness | None
    """None when no case was judged more than once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeReport:
    """Who judged, what it took, how steady it was."""

    judge: Mapping[str, Any]
    """See the manifest's ``judge``."""
    lines: tuple[JudgeLine, ...]
    """A judged metric each, in the report's order."""
    currency: str | None
    """None when the price is not known."""
    price_origin: str | None
