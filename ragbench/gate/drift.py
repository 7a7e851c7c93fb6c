"""Main over its merges: the sums that a baseline keeps, and what a gate says of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate

from ragbench.core.gate_result import CheckKind, GateCheck, GateOutcome, Ground
from ragbench.core.history import Drift, MainTrend, MetricDrift
from ragbench.core.record import replace
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.gate.cases import main_metrics
from ragbench.gate.config import GateConfig
from ragbench.gate.words import worded
from ragbench.stats.bets import LEAST, CaseSums, bet_on_fall, fall, stake

_METRICS = 3
"""Main metrics at most: the level is shared among them."""
_TOLERATED = 0.02
"""Share of a metric's scale that a line over the runs may fall."""
_DIGITS = 6
"""Of the sums, which a file keeps."""

Sums = Mapping[str, CaseSums]


def followed(
    drift: Drift | None,
    run: RunScores,
    same: Collection[str] = (),
    *,
    anew: Collection[str] = (),
    is_aside: bool = False,
) -> Drift:
    """With one more run of main.

    Args:
        same: the cases that are what they were; others begin with this run.
        anew: metrics that begin with this run.
        is_aside: whether the baseline keeps its cases, so that none comes in or goes.
    """
    number = 0 if drift is None else drift.runs + 1
    known = {} if drift is None else {(one.metric, one.identity): one for one in drift.metrics}
    first = MetricDrift(metric="", identity="", since=run.date, commit=run.commit)
    metrics: list[MetricDrift] = []
    cases: dict[str, dict[str, tuple[float, float, float, float]]] = {}
    for column in main_metrics(run.metrics):
        one = known.get((column.name, column.identity))
        before = {} if drift is None or one is None else _sums(drift, column.name)
        one = one or replace(first, metric=column.name, identity=column.identity)
        if column.name in anew:  # what the bets have won so far stays: the level is for all looks
            one, before = replace(one, since=run.date, commit=run.commit, steps=()), {}
        now = dict(zip(run.table.ids, _scores(run, column), strict=True))
        sums: dict[str, CaseSums] = {}
        moved: list[float] = []
        for id_ in before if is_aside else now:
            score = now.get(id_)
            if id_ in before and (id_ in same or is_aside):
                score = score if id_ in same else None
                sums[id_] = before[id_].then(number, score)
                moved += [] if score is None else [score - before[id_].last]
            elif score is not None:
                sums[id_] = CaseSums.of(number, score)
        for id_, found in sums.items():
            cases.setdefault(id_, {})[column.name] = _written(found)
        if moved:
            steps = (*one.steps, round(math.fsum(moved) / len(moved), _DIGITS))
            one = _looked_at(replace(one, steps=steps), column, run, sums, number)
        metrics.append(one)
    return Drift(runs=number, metrics=tuple(metrics), cases=cases)


def _looked_at(
    one: MetricDrift, column: MetricColumn, run: RunScores, sums: Sums, number: int
) -> MetricDrift:
    if len(one.steps) < LEAST - 1:
        return one
    clusters = dict(zip(run.table.ids, run.clusters, strict=True))
    labels, tolerance = [clusters.get(id_) for id_ in sums], _TOLERATED * (column.scale or 1.0)
    bet = bet_on_fall([*sums.values()], labels, number, tolerance=tolerance, steps=one.steps)
    won = one.evidence + stake(one.looks + 1) * bet
    return replace(one, looks=one.looks + 1, evidence=float(f"{won:.6g}"))


def _scores(run: RunScores, column: MetricColumn) -> list[float | None]:
    found = run.graded(column).tolist()
    return [None if value != value else round(value, _DIGITS) for value in found]


def _sums(drift: Drift, metric: str) -> dict[str, CaseSums]:
    found = {id_: known[metric] for id_, known in drift.cases.items() if metric in known}
    return {id_: CaseSums(int(one[0]), *one[1:]) for id_, one in found.items()}


def _written(one: CaseSums) -> tuple[float, float, float, float]:
    total, weighted, last = (round(n, _DIGITS) for n in (one.total, one.weighted, one.last))
    return one.first, total, weighted, last


def drift_checks(run: RunScores, baseline: RunScores, config: GateConfig) -> Iterator[GateCheck]:
    """Whether main has fallen over its merges, and this run does not bring it back.

    Args:
        run: the judged run, on the cases that it shares with the baseline.
    """
    if (drift := baseline.drift) is None:
        return
    for one in drift.metrics:
        column, demand = run.column(one.metric), config.metrics.get(one.metric)
        if column is None or column.identity != one.identity or not one.looks:
            continue
        tolerance = _TOLERATED * (column.scale or 1.0)
        if config.metrics:
            if demand is None or demand.limits.max_drop is None:
                continue
            tolerance = demand.limits.max_drop
        known = _sums(drift, one.metric)
        scores = zip(run.table.ids, _scores(run, column), strict=True)
        both = {id_: score for id_, score in scores if id_ in known and score is not None}
        if both:
            now = math.fsum(both.values()) / len(both)
            trend = _trend(one, column, [known[id_] for id_ in both], drift.runs, now, tolerance)
            is_shown = _is_shown(trend, tolerance, config.alpha)
            is_lost = is_shown and not trend.is_back
            yield worded(
                GateCheck(
                    kind=CheckKind.DRIFT,
                    subject=f"drift: {one.metric}",
                    outcome=GateOutcome.FAILED if is_lost else GateOutcome.PASSED,
                    ground=Ground.SHOWN if is_shown else Ground.HOLDS,
                    observed=column.sign * now,
                    limit=tolerance,
                    bound="max_drop",
                    cases=len(both),
                    trend=trend,
                )
            )


def shown_falls(
    drift: Drift, columns: Sequence[MetricColumn], alpha: float
) -> Iterator[tuple[str, MainTrend]]:
    """The main metrics that fell over all runs of main, by more than a fiftieth of their scale."""
    known = {column.identity: column for column in columns}
    for one in drift.metrics:
        column, sums = known.get(one.identity), [*_sums(drift, one.metric).values()]
        if column is not None and sums:
            tolerance = _TOLERATED * (column.scale or 1.0)
            trend = _trend(one, column, sums, drift.runs, 0.0, tolerance)
            if _is_shown(trend, tolerance, alpha):
                yield one.metric, trend


def _is_shown(trend: MainTrend, tolerance: float, alpha: float) -> bool:
    return trend.p_value <= alpha and abs(trend.start - trend.end) > tolerance


def _trend(
    one: MetricDrift,
    column: MetricColumn,
    sums: Sequence[CaseSums],
    number: int,
    now: float,
    tolerance: float,
) -> MainTrend:
    """The line through main's runs, on the cases that the judged run has, too."""
    fallen, count = fall(sums, number), len(sums)
    ages = [number - case.first for case in sums]
    means = [case.total / (age + 1) for case, age in zip(sums, ages, strict=True)]
    later = fallen / max(*ages, 1) * math.fsum(ages) / count / 2.0
    end = math.fsum(means) / count - later
    last = math.fsum(case.last for case in sums) / count
    levels = [last - step for step in accumulate((0.0, *one.steps[::-1]))][::-1]
    sign = column.sign
    return MainTrend(
        start=sign * (end + fallen),
        end=sign * end,
        runs=len(one.steps) + 1,
        since=one.since,
        commit=one.commit,
        p_value=min(1.0, _METRICS / one.evidence) if one.evidence else 1.0,
        is_back=now >= end + fallen - tolerance,
        levels=tuple(round(sign * level, _DIGITS) for level in levels),
    )
