"""Absolute limits, coverage, latency."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ragbench.core.gate_result import CheckKind, GateCheck, GateOutcome, Ground
from ragbench.core.metric import Direction
from ragbench.core.outcome import Status
from ragbench.core.report import Interval
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.errors import ConfigError
from ragbench.gate.cases import named_columns
from ragbench.gate.config import RISE, FigureLimits, GateConfig, MetricGate
from ragbench.gate.labels import corrected, points_of
from ragbench.gate.words import figure, worded
from ragbench.stats.mean import mean_interval

_CONFIDENCE = 0.95
"""Of the interval of a figure."""
_TOKENS = "total_tokens"
_TAKEN = {"tokens": _TOKENS, "cost": "generation_cost"}
"""Metrics of what the RAG says that it took."""
_NO_RISE = "figure of it that the baseline holds, too"
_SLOWER, _DEARER, _NOTICED = 1.5, 1.2, 0.01
"""From how many times as much a note says so; and seconds that somebody notices."""
_HALF = 0.5
"""With less of the cases that a metric applies to, a figure that holds says nothing."""


@dataclass(frozen=True, slots=True)
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
    cases and has a better side and a scale is held to the configuration's ``max_drop``: of times
    there is no share, and another machine is no loss. One that neither run measured on any case is
    left out.
    """
    demands: tuple[MetricDemand, ...] = ()
    if config.metrics:
        lacks, all_ = f"{run.source} does not measure", "It measures"
        columns = named_columns(run.metrics, tuple(config.metrics), lacks, all_)
        demands = tuple(map(MetricDemand, columns, config.metrics.values()))
    elif baseline is not None or config.baseline is not None:
        demands = tuple(
            MetricDemand(
                column, MetricGate(limits=FigureLimits(max_drop=config.max_drop * column.scale))
            )
            for column in run.metrics
            if column.scale and not _why_no_drop(column) and _is_measured(column, baseline)
        )
    wrong = [text for demand in demands for text in _impossible(demand)]
    stages = [stage.stage for stage in run.stages]
    wrong += [
        f"max_latency: the run has no stage '{budget.stage}'; it has {', '.join(stages)}"
        for budget in config.latency
        if budget.stage not in stages
    ]
    if wrong:
        raise ConfigError("\n".join(wrong))
    others = config.latency or config.max_cost or config.max_tokens or config.must_pass
    if not demands and not others:
        raise ConfigError(
            "no checks are configured. Name a baseline (--baseline RUN) to check for drops, set "
            "limits (--min 'recall@5=0.8'), or write either into ragbench.yaml"
        )
    return demands


def _is_measured(column: MetricColumn, baseline: RunScores | None) -> bool:
    earlier = None if baseline is None else baseline.column(column.name)
    return column.score is not None or (earlier is not None and earlier.score is not None)


def _impossible(demand: MetricDemand) -> Iterator[str]:
    """What can never be judged, or would never fail, or always."""
    column, name = demand.column, demand.column.name
    low, high, scale = column.low, column.high, column.scale
    if demand.drops and (why := _why_no_drop(column)):
        yield f"{name}: a max_drop cannot be judged, since {why}"
    if demand.gate.slices and not column.has_cells:
        yield f"{name}: slices cannot be judged, since a report holds no per-case values of it"
    for limits in (demand.gate.limits, *(piece.limits for piece in demand.gate.slices)):
        if limits is None:
            continue
        if limits.minimum is not None and high is not None and limits.minimum > high:
            yield f"{name}: min is {limits.minimum:g}, and its largest value is {high:g}"
        if limits.maximum is not None and low is not None and limits.maximum < low:
            yield f"{name}: max is {limits.maximum:g}, and its smallest value is {low:g}"
        if limits.max_drop is not None and scale is not None and limits.max_drop >= scale:
            yield (
                f"{name}: max_drop is {limits.max_drop:g}, and it cannot fall by more than "
                f"{scale:g}: nothing would ever fail"
            )


def _why_no_drop(column: MetricColumn) -> str:
    if column.no_mean:
        return f"{column.no_mean}; give min or max" if column.has_cells else column.no_mean
    if column.direction is Direction.NEITHER:
        return "neither of its sides is better; give min or max"
    return ""


def coverage_check(
    run: RunScores, demands: Sequence[MetricDemand], config: GateConfig
) -> GateCheck:
    """Whether too many cases failed for the scores of the others to speak for all.

    A case counts when one of its stages failed, or one of the demanded metrics for it.
    """
    import numpy as np

    broken = np.zeros(len(run.cases), bool)
    for place, stages in enumerate(run.table.fact("stages")):
        broken[place] = Status.FAILED in stages.values()
    for demand in demands:
        broken |= run.cells(demand.column.name).has(Status.FAILED)
    failed = int(broken.sum())
    share = failed / len(run.cases) if run.cases else 0.0
    return _limit_check(
        CheckKind.COVERAGE, "error rate", share, config.max_error_rate, "max", len(run.cases),
        counted="cases failed", unit="share",
    )  # fmt: skip


def common_check(common: int, baseline: RunScores, config: GateConfig) -> GateCheck:
    """Whether enough of the baseline's cases are in the run, unchanged, to speak for it."""
    count = len(baseline.cases)
    share = common / count if count else 0.0
    return _limit_check(
        CheckKind.COVERAGE, "cases in common", share, config.min_common, "min", count,
        counted="cases of the baseline are in this run, unchanged", unit="share",
    )  # fmt: skip


def _limit_check(
    kind: CheckKind,
    subject: str,
    observed: float | None,
    limit: float,
    bound: str,
    count: int,
    *,
    lacking: Ground = Ground.NOTHING_MEASURED,
    least: int = 0,
    **facts: Any,
) -> GateCheck:
    """A figure against an absolute limit; ``lacking`` says why there may be none."""
    check = GateCheck(
        kind=kind, subject=subject, outcome=GateOutcome.INCONCLUSIVE, ground=lacking,
        observed=observed, limit=limit, bound=bound, cases=count, **facts,
    )  # fmt: skip
    if observed is not None and count < least:
        check = replace(check, ground=Ground.TOO_FEW_CASES)
    elif check.holds and count < _HALF * check.applies:
        check = replace(check, ground=Ground.HARDLY_MEASURED)
    elif check.holds:
        check = replace(check, ground=Ground.HOLDS, outcome=GateOutcome.PASSED)
    elif observed is not None:
        check = replace(check, ground=Ground.BROKEN, outcome=GateOutcome.FAILED)
    return worded(check, least=least)


def budget_checks(
    run: RunScores, baseline: RunScores | None, config: GateConfig
) -> Iterator[GateCheck]:

    by_stage = {latency.stage: latency for latency in run.latencies}
    rises = {what: now / before - 1.0 for what, now, before, _ in _spent(run, baseline)}
    for budget in config.latency:
        subject, observed, count, missing = f"{budget.stage} {budget.figure}", None, 0, "times"
        latency, unit = by_stage.get(budget.stage), "s"
        if latency is not None:
            total = latency.mean * latency.count
            observed = total if budget.figure == "total" else getattr(latency, budget.figure, None)
            count = latency.count
            if latency.sharing > 1:
                missing = f"times of single cases (up to {latency.sharing} shared a call)"
        if budget.figure == RISE:
            observed, unit, missing = rises.get(budget.stage), "share", _NO_RISE
        yield _budget_check(subject, observed, budget.seconds, count, unit, missing)
    tokens = [value for value in run.cells(_TOKENS).values.tolist() if value == value]
    for what, missing, limits, spent, count, unit in (
        ("cost of judging", "cost of judging", config.max_cost, run.judge_cost, len(run.cases),
         run.currency or ""),
        ("tokens", f"tokens (metric {_TOKENS})", config.max_tokens,
         math.fsum(tokens) if tokens else None, len(tokens), "tokens"),
    ):  # fmt: skip
        for extent, limit in limits.items():
            if extent == RISE:
                rise = rises.get("tokens")
                yield _budget_check("tokens rise", rise, limit, count, "share", _NO_RISE)
                continue
            subject = f"{what} ({'in all' if extent == 'all' else 'per case'})"
            share = spent if spent is None or extent == "all" else spent / max(count, 1)
            yield _budget_check(subject, share, limit, count, unit, missing)


def _spent(run: RunScores, baseline: RunScores | None) -> Iterator[tuple[str, float, float, float]]:
    """By stage, of tokens and cost: what a case took now and before; from which rise on it shows.

    Times are those of any machine that ran them; the others are of the cases that both runs have.
    """
    if baseline is None:
        return
    earlier = {one.stage: one.mean for one in baseline.latencies if one.sharing == 1}
    for one in run.latencies:
        if one.sharing == 1 and earlier.get(one.stage):
            yield one.stage, one.mean, earlier[one.stage], _SLOWER
    for what, metric in _TAKEN.items():
        if metric not in run.table.cells or metric not in baseline.table.cells:
            continue
        before = baseline.values(metric)
        both = [
            (now, old)
            for id_, now in run.values(metric).items()
            if now is not None and (old := before.get(id_)) is not None
        ]
        if both and (total := math.fsum(old for _, old in both)):
            yield what, math.fsum(now for now, _ in both) / len(both), total / len(both), _DEARER


def dearer_notes(run: RunScores, baseline: RunScores | None) -> Iterator[str]:
    """What a case takes more than in the baseline, whether or not there is a budget for it."""
    for what, now, before, least in _spent(run, baseline):
        name, unit, times = {
            "tokens": ("Tokens per case", "tokens", 1),
            "cost": ("Cost of the RAG per 1,000 cases", "", 1000),
        }.get(what, (f"Time of {what} per case", "s", 1))
        if now > before * least and (unit != "s" or now - before > _NOTICED):
            ends = f"{figure(now * times, unit)}, before {figure(before * times, unit)}"
            yield f"{name}: {ends} (+{now / before - 1.0:.0%})."


def _budget_check(
    subject: str, observed: float | None, limit: float, count: int, unit: str, missing: str
) -> GateCheck:
    return _limit_check(
        CheckKind.BUDGET, subject, observed, limit, "max", count,
        lacking=Ground.NOT_STORED, unit=unit, missing=missing,
    )  # fmt: skip


def floor_checks(
    demand: MetricDemand,
    limits: FigureLimits,
    run: RunScores,
    config: GateConfig,
    slice: str | None = None,
) -> Iterator[GateCheck]:
    """A check for each of ``min`` and ``max`` that is given.

    The observed figure decides, as a reader of the limit expects; the reason says when its interval
    reaches across the limit.

    Args:
        run: with the cases of the slice.
    """
    import numpy as np

    for bound, limit in (("min", limits.minimum), ("max", limits.maximum)):
        if limit is not None:
            observed, interval, count = _figure(demand.column, run, whole=slice is None)
            name, people = demand.column.name, None
            if run.has_labels:
                people = corrected(demand.column, points_of(demand.column, run))
            if people is not None and (known := people[1].interval) is not None:
                interval, observed = known, people[1].corrected
            else:
                people = None
            applies = int((~np.isnan(run.cells(name).coverage)).sum())
            yield _limit_check(
                CheckKind.FLOOR if slice is None else CheckKind.SLICE,
                name, observed, limit, bound, count, applies=applies,
                least=config.min_cases, slice=slice, unit=demand.column.unit, interval=interval,
                corrected=None if people is None else people[1],
                is_opinion=people is None and demand.column.is_judged,
            )  # fmt: skip


def _figure(
    column: MetricColumn, run: RunScores, *, whole: bool
) -> tuple[float | None, Interval | None, int]:
    """The figure, its interval, and the number of cases that it rests on."""
    import numpy as np

    if not column.has_cells:
        return column.score, None, len(run.cases)
    values = run.cells(column.name).values
    places = np.flatnonzero(~np.isnan(values)).tolist()
    if column.aggregate is not None:
        return (column.score if whole else None), None, len(places)
    labels = [run.clusters[place] for place in places]
    found = mean_interval(values[places].tolist(), labels, _CONFIDENCE, bounds=column.bounds)
    return found.mean, found.reported, len(places)
