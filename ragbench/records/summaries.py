"""Summaries: what the cells of one metric come to over a run."""

from __future__ import annotations

from dataclasses import dataclass

from ragbench.records.metrics import Metric

__all__ = ["Interval", "Slice", "Summary"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A confidence interval of a mean."""

    low: float
    high: float
    level: float = 0.95
    """Its confidence, between 0 and 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Slice:
    """One metric over the cases that share a tag or a language."""

    by: str
    """What the cases share: ``"tag"`` or ``"language"``."""
    value: str
    """The tag, or the language's code."""
    total: int
    """Cases in the slice."""
    measured: int
    """Cases of the slice that have a value."""
    score: float | None
    """The metric's figure over those; None when none is measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """One metric over a whole run. The four counts add up to ``total``."""

    metric: Metric
    total: int
    """Cases of the run."""
    measured: int
    """Cases with a value: the only ones that ``score`` covers."""
    abstained: int
    """Cases in which the system declined to answer."""
    skipped: int
    """Cases to which the metric does not apply."""
    failed: int
    """Cases in which the metric, or a stage before it, failed."""
    score: float | None
    """The mean of the measured values, or what the definition's ``aggregate`` makes of them; None
    when nothing was measured."""
    interval: Interval | None
    """Confidence interval of the mean; None when it cannot be estimated."""
    reasons: tuple[tuple[str, int], ...] = ()
    """Why cases were skipped, abstained or failed, with counts, most frequent first."""
    slices: tuple[Slice, ...] = ()
    """By tag, then by language, each sorted by value."""
