"""A metric's figure against absolute limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragbench.gate.config import FloorRule, GateConfig, Limits
from ragbench.gate.demands import Demand
from ragbench.gate.wording import cases as told_cases
from ragbench.gate.wording import figure, span
from ragbench.records.run_scores import ScoredCase
from ragbench.records.summaries import Interval
from ragbench.records.verdicts import Check, CheckKind, GateOutcome
from ragbench.stats.mean import mean_interval

__all__ = ["floor_checks"]


def floor_checks(
    demand: Demand,
    limits: Limits,
    cases: Sequence[ScoredCase],
    config: GateConfig,
    *,
    slice: str | None = None,
) -> Iterator[Check]:
    """A check for each of ``min`` and ``max`` that is given.

    By default the observed figure decides, as a reader of the limit expects; the reason says when
    its interval reaches across the limit. With `FloorRule.SHOWN` the whole interval must lie on
    one side.

    Args:
        demand: the metric.
        limits: what it is held against.
        cases: all cases of the run, or those of the slice.
        config: the rule, the confidence, the smallest number of cases.
        slice: the slice's name.
    """
    for bound, limit in (("min", limits.minimum), ("max", limits.maximum)):
        if limit is not None:
            observed, interval, count = _figure(demand, cases, config, whole=slice is None)
            outcome, reason = _judge(bound, limit, observed, interval, count, config)
            yield Check(
                kind=CheckKind.FLOOR if slice is None else CheckKind.SLICE,
                subject=demand.column.name,
                outcome=outcome,
                reason=reason,
                observed=observed,
                limit=limit,
                bound=bound,
                cases=count,
                slice=slice,
                informational=demand.gate.informational,
                unit=demand.column.unit,
                interval=interval,
            )


def _figure(
    demand: Demand, cases: Sequence[ScoredCase], config: GateConfig, *, whole: bool
) -> tuple[float | None, Interval | None, int]:
    """The figure, its interval, and the number of cases that it rests on."""
    column = demand.column
    if not column.has_cells:
        return column.score, None, len(cases)
    measured = [case for case in cases if case.scores[column.name].value is not None]
    values = [case.scores[column.name].value or 0.0 for case in measured]
    if column.aggregate is not None:
        return (column.score if whole else None), None, len(measured)
    found = mean_interval(
        values,
        [case.cluster for case in measured] if config.cluster else None,
        config.confidence,
        bounds=None if column.high is None else (column.low, column.high),
    )
    if found.low is None or found.high is None:
        return found.mean, None, len(measured)
    interval = Interval(low=found.low, high=found.high, level=config.confidence)
    return found.mean, interval, len(measured)


def _judge(
    bound: str,
    limit: float,
    observed: float | None,
    interval: Interval | None,
    count: int,
    config: GateConfig,
) -> tuple[GateOutcome, str]:
    if observed is None:
        return GateOutcome.INCONCLUSIVE, "no case was measured"
    if count < config.min_cases:
        told = f"only {told_cases(count)} measured, fewer than min_cases ({config.min_cases:,})"
        return GateOutcome.INCONCLUSIVE, told
    sign = 1.0 if bound == "min" else -1.0
    holds = sign * (observed - limit) >= 0
    side = ("at least" if bound == "min" else "at most") if holds else _wrong_side(bound)
    told = f"{figure(observed)} is {side} {figure(limit)}"
    straddles = interval is not None and interval.low < limit < interval.high
    if interval is not None and straddles:
        told += f", but its interval ({span(interval.low, interval.high)}) lies on both sides"
    if config.floors is FloorRule.SHOWN and (interval is None or straddles):
        if interval is None:
            told += ", but it has no interval to show it"
        return GateOutcome.INCONCLUSIVE, told
    return (GateOutcome.PASSED if holds else GateOutcome.FAILED), told


def _wrong_side(bound: str) -> str:
    return "below" if bound == "min" else "above"
