"""Absolute limits, coverage, latency."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragbench.core.gate_result import CheckKind, GateCheck, GateOutcome
from ragbench.core.metric import Direction
from ragbench.core.outcome import Status
from ragbench.core.report import Interval
from ragbench.core.run_scores import MetricColumn, RunScores, ScoredCase
from ragbench.errors import ConfigError
from ragbench.gate.config import FigureLimits, FloorRule, GateConfig, MetricGate
from ragbench.stats.mean import mean_interval

__all__ = [
    "MetricDemand",
    "budget_checks",
    "cases",
    "coverage_check",
    "demands_of",
    "figure",
    "floor_checks",
    "span",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricDemand:
    """A metric of the run with what is demanded of it."""

    column: MetricColumn
    gate: MetricGate

    @property
    def higher_is_better(self) -> bool:
        """Which way a loss goes."""
        return self.column.direction is Direction.HIGHER

    @property
    def drops(self) -> bool:
        """Whether a drop is looked for, on all cases or on a slice."""
        slices = (piece.limits for piece in self.gate.slices)
        limits = [self.gate.limits, *(found for found in slices if found is not None)]
        return any(limit.max_drop is not None for limit in limits)


def demands_of(
    run: RunScores, baseline: RunScores | None, config: GateConfig
) -> tuple[MetricDemand, ...]:
    """What is demanded, in the order of the configuration.

    Where it names no metric and a baseline is named or given, every metric that is a mean over
    cases and has a better side is held to the configuration's ``max_drop``. One that neither run
    measured on any case is left out.

    Args:
        run: the run that is judged.
        baseline: the run that it is held against.
        config: what is demanded.

    Raises:
        ConfigError: nothing is demanded, or something that cannot be judged; holds all of it.
    """
    if config.metrics:
        demands = _named(run, config)
    else:
        compared = baseline is not None or config.baseline is not None
        demands = tuple(_all(run, baseline, config)) if compared else ()
    wrong = [text for demand in demands for text in _impossible(demand)]
    stages = [stage.stage for stage in run.stages]
    wrong += [
        f"max_latency: the run has no stage '{budget.stage}'; it has {', '.join(stages)}"
        for budget in config.latency
        if budget.stage not in stages
    ]
    if wrong:
        raise ConfigError("\n".join(wrong))
    if not demands and not config.latency:
        raise ConfigError(
            "nothing is demanded of this run. Name a baseline (--baseline) to look for drops, or "
            "limits (--min 'recall@5=0.8'), or write them into ragbench.yaml"
        )
    return demands


def _named(run: RunScores, config: GateConfig) -> tuple[MetricDemand, ...]:
    by_name = {column.name.casefold(): column for column in run.metrics}
    found: list[MetricDemand] = []
    wrong: list[str] = []
    for name, gate in config.metrics.items():
        column = by_name.get(name.casefold())
        if column is None:
            near = difflib.get_close_matches(name.casefold(), by_name, n=1)
            meant = f" Did you mean {by_name[near[0]].name}?" if near else ""
            wrong.append(f"{run.source} does not measure '{name}'.{meant}")
        else:
            found.append(MetricDemand(column=column, gate=gate))
    if wrong:
        known = ", ".join(column.name for column in run.metrics)
        raise ConfigError("\n".join([*wrong, f"It measures: {known}"]))
    return tuple(found)


def _all(run: RunScores, baseline: RunScores | None, config: GateConfig) -> Iterator[MetricDemand]:
    for column in run.metrics:
        earlier = None if baseline is None else baseline.column(column.name)
        is_measured = column.score is not None or (
            earlier is not None and earlier.score is not None
        )
        if is_measured and not _why_no_drop(column):
            drop = config.max_drop * (column.scale or 0.0)
            yield MetricDemand(column=column, gate=MetricGate(limits=FigureLimits(max_drop=drop)))


def _impossible(demand: MetricDemand) -> Iterator[str]:
    """What can never be judged, or would never fail, or always."""
    column, name = demand.column, demand.column.name
    if demand.drops and (why := _why_no_drop(column)):
        yield f"{name}: a max_drop cannot be judged, since {why}"
    if demand.gate.slices and not column.has_cells:
        yield f"{name}: slices cannot be judged, since a report holds no per-case values of it"
    for piece in (demand.gate.limits, *(piece.limits for piece in demand.gate.slices)):
        if piece is not None:
            yield from _out_of_range(piece, column)


def _why_no_drop(column: MetricColumn) -> str:
    if not column.has_cells:
        return "a report holds no per-case values of it"
    if column.aggregate is not None:
        return "its figure is not a mean over cases; give min or max"
    if column.direction is Direction.NEITHER:
        return "neither of its sides is better; give min or max"
    return ""


def _out_of_range(limits: FigureLimits, column: MetricColumn) -> Iterator[str]:
    low, high, scale = column.low, column.high, column.scale
    if limits.minimum is not None and high is not None and limits.minimum > high:
        yield f"{column.name}: min is {limits.minimum:g}, and its largest value is {high:g}"
    if limits.maximum is not None and low is not None and limits.maximum < low:
        yield f"{column.name}: max is {limits.maximum:g}, and its smallest value is {low:g}"
    if limits.max_drop is not None and scale is not None and limits.max_drop >= scale:
        yield (
            f"{column.name}: max_drop is {limits.max_drop:g}, and it cannot fall by more than "
            f"{scale:g}: nothing would ever fail"
        )


def figure(value: float, unit: str = "") -> str:
    """A figure, to three places or three digits."""
    text = f"{value:.3f}" if abs(value) < 10 and not unit else f"{value:,.3g}"
    if abs(value) >= 1000:
        text = f"{value:,.0f}"
    if 0 < abs(value) < 0.0005:
        text = f"{value:.2g}"
    return f"{text} {unit}" if unit else text


def span(low: float | None, high: float | None, unit: str = "") -> str:
    """An interval."""
    if low is None or high is None:
        return "unknown"
    return f"{figure(low)} to {figure(high, unit)}"


def cases(count: int) -> str:
    """A number of cases."""
    return "1 case" if count == 1 else f"{count:,} cases"


def coverage_check(
    run: RunScores, demands: Sequence[MetricDemand], config: GateConfig
) -> GateCheck:
    """Whether too many cases failed for the scores of the others to speak for all.

    A case counts when one of its stages failed, or one of the demanded metrics for it.
    """
    names = [demand.column.name for demand in demands]
    failed = sum(_has_failed(case, names) for case in run.cases)
    share = failed / len(run.cases) if run.cases else 0.0
    exceeds = share > config.max_error_rate
    told = f"{failed:,} of {cases(len(run.cases))} failed ({share:.1%})"
    return GateCheck(
        kind=CheckKind.COVERAGE,
        subject="error rate",
        outcome=GateOutcome.FAILED if exceeds else GateOutcome.PASSED,
        reason=f"{told}, {'more than' if exceeds else 'at most'} {config.max_error_rate:.1%}",
        observed=share,
        limit=config.max_error_rate,
        bound="max",
        cases=len(run.cases),
    )


def budget_checks(run: RunScores, config: GateConfig) -> Iterator[GateCheck]:
    """A check for each budget of time."""
    by_stage = {latency.stage: latency for latency in run.latencies}
    for budget in config.latency:
        latency = by_stage.get(budget.stage)
        observed = None
        outcome, reason = GateOutcome.INCONCLUSIVE, "no times are stored with this run"
        if latency is not None:
            observed = float(getattr(latency, budget.figure))
            holds = observed <= budget.seconds
            outcome = GateOutcome.PASSED if holds else GateOutcome.FAILED
            side = "at most" if holds else "above"
            reason = f"{figure(observed, 's')} is {side} {figure(budget.seconds, 's')}"
        yield GateCheck(
            kind=CheckKind.BUDGET,
            subject=f"{budget.stage} {budget.figure}",
            outcome=outcome,
            reason=reason,
            observed=observed,
            limit=budget.seconds,
            bound="max",
            cases=0 if latency is None else latency.count,
            unit="s",
        )


def _has_failed(case: ScoredCase, metrics: Sequence[str]) -> bool:
    cells = (case.scores.get(metric) for metric in metrics)
    return Status.FAILED in case.stages.values() or any(
        cell is not None and cell.status is Status.FAILED for cell in cells
    )


def floor_checks(
    demand: MetricDemand,
    limits: FigureLimits,
    cases: Sequence[ScoredCase],
    config: GateConfig,
    *,
    slice: str | None = None,
) -> Iterator[GateCheck]:
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
            yield GateCheck(
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
    demand: MetricDemand, cases: Sequence[ScoredCase], config: GateConfig, *, whole: bool
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
        bounds=None if column.low is None or column.high is None else (column.low, column.high),
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
        told = f"only {cases(count)} measured, fewer than min_cases ({config.min_cases:,})"
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
