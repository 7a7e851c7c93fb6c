"""Absolute limits, coverage, latency."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ragbench.core.gate_result import CheckKind, GateCheck, GateOutcome, Ground
from ragbench.core.outcome import Status
from ragbench.core.report import Interval
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.gate.config import RISE, GateConfig
from ragbench.gate.demands import Demand, on_cases
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


def coverage_check(run: RunScores, demands: Sequence[Demand], config: GateConfig) -> GateCheck:
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
    run: RunScores, demands: Sequence[Demand], config: GateConfig
) -> Iterator[GateCheck]:
    """A check for each of ``min`` and ``max`` that is given, on all cases and on slices.

    The observed figure decides, as a reader of the limit expects; the reason says when its interval
    reaches across the limit.
    """
    import numpy as np

    for demand, slice_, places in on_cases(demands, run):
        column, limits = demand.column, demand.limits
        for bound, limit in (("min", limits.minimum), ("max", limits.maximum)):
            if limit is None:
                continue
            own = run if places is None else run.at(places)
            observed, interval, count = _figure(column, own, whole=slice_ is None)
            people = corrected(column, points_of(column, own)) if own.has_labels else None
            told = None if people is None or people[1].interval is None else people[1]
            if told is not None:
                interval, observed = told.interval, told.corrected
            yield _limit_check(
                CheckKind.FLOOR if slice_ is None else CheckKind.SLICE,
                column.name, observed, limit, bound, count,
                applies=int((~np.isnan(own.cells(column.name).coverage)).sum()),
                least=config.min_cases, slice=slice_, unit=column.unit, interval=interval,
                corrected=told, is_opinion=told is None and column.is_judged,
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
