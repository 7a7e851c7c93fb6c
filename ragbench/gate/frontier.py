"""Which variants no other one beats in quality, time and money together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ragbench.core.ablation import Frontier, FrontierPoint
from ragbench.core.metric import Direction, Metric

_TIE = 0.1
"""Wall times that differ by no larger share of the longer one count as equal: they vary as much
from one execution to the next."""


def frontier_of(
    metric: Metric, points: Sequence[FrontierPoint], *, currency: str | None = None
) -> Frontier:
    """Holds every variant against every other one.

    A variant is beaten by another that is at least as good on every axis and better on one: the
    rest is the Pareto frontier. The figures are compared as they are; whether two of them can be
    told apart is what the test of their difference says.
    """
    measured = [one for one in points if one.quality is not None]
    axes = ["quality"]
    if all(one.seconds is not None for one in measured):
        axes.append("seconds")
    is_priced = bool(measured) and all(one.cost is not None for one in measured)
    axes.append("cost" if is_priced else "tokens")
    sign = -1 if metric.definition.direction is Direction.LOWER else 1
    best_first = sorted(measured, key=lambda one: -sign * (one.quality or 0.0))
    held = [replace(one, beaten_by=_beater(one, best_first, axes, sign)) for one in points]
    return Frontier(
        metric=metric,
        axes=tuple(axes),
        currency=currency if is_priced else None,
        points=tuple(held),
    )


def _beater(
    point: FrontierPoint, others: Sequence[FrontierPoint], axes: Sequence[str], sign: int
) -> str | None:
    if point.quality is None:
        return None
    for other in others:
        signs = [_better(axis, other, point, sign) for axis in axes]
        if min(signs) >= 0 and max(signs) > 0:
            return other.variant
    return None


def _better(axis: str, one: FrontierPoint, other: FrontierPoint, sign: int) -> int:
    """1 where the one is better on an axis, -1 where it is worse, 0 where they are equal."""
    first: float = getattr(one, axis)
    second: float = getattr(other, axis)
    if axis == "seconds" and abs(first - second) <= _TIE * max(first, second):
        return 0
    gain = sign * (first - second) if axis == "quality" else second - first
    return (gain > 0) - (gain < 0)
