"""Main over its merges: the sums that a baseline keeps, and what a gate says of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from ragbench.core.gate_result import CheckKind, GateCheck, GateOutcome, Ground
from ragbench.core.history import Drift, MainTrend, MetricDrift
from ragbench.core.record import replace
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.gate.cases import main_metrics
from ragbench.gate.config import GateConfig
from ragbench.gate.words import worded
from ragbench.stats.bets import LEAST, CaseSums, bet_on_fall, fall, stake

_MAX_METRICS = 3
"""As many main metrics has a run at most: the level of the test is shared among them."""
_TOLERATED = 0.02
"""Share of a metric's scale that a line over the runs may fall."""
_DIGITS = 6
"""Decimals of the sums in a baseline file."""

Sums = Mapping[str, CaseSums]
"""By the id of a case, what a line through main's runs needs of its scores."""


def followed(
    drift: Drift | None,
    run: RunScores,
    same: Collection[str] = (),
    *,
    anew: Collection[str] = (),
    is_aside: bool = False,
) -> Drift:
    """The record of main's drift with one more run of main: the sums that a test of it needs.

    Small losses in each merge pass a gate one by one; their sum is seen over many runs.

    Args:
        drift: what was known before the run; None where it is the first.
        same: ids of the cases that did not change; other cases begin with this run.
        anew: names of metrics that begin with this run.
        is_aside: whether the run lies aside because it was worse: the baseline then keeps its
            cases, so that none comes in or goes.
    """
    # Runs of main are counted from 0.
    number = 0 if drift is None else drift.runs + 1
    metrics: list[MetricDrift] = []
    cases: dict[str, dict[str, tuple[float, float, float, float]]] = {}
    for column in main_metrics(run.metrics):
        metric = _metric_before(drift, column)
        sums_before: Sums = {}
        if drift is not None and metric is not None:
            # The record of a metric begins anew where its formula has changed.
            sums_before = _sums_of_cases(drift, column.name)
        if metric is None:
            metric = MetricDrift(
                metric=column.name, identity=column.identity, since=run.date, commit=run.commit
            )
        if column.name in anew:
            # What the bets have won so far stays: the level is for all looks.
            # Looks and evidence stay, steps begin anew: a line must not cross the break.
            metric = replace(metric, since=run.date, commit=run.commit, steps=())
            sums_before = {}

        score_of_case = dict(zip(run.table.ids, _scores_of_cases(run, column), strict=True))
        sums, moves = _next_sums(sums_before, score_of_case, same, number, is_aside=is_aside)
        for id_, case_sums in sums.items():
            sums_by_metric = cases.setdefault(id_, {})
            sums_by_metric[column.name] = _rounded_sums(case_sums)
        # The first run of a metric has no case to move.
        if moves:
            step = round(math.fsum(moves) / len(moves), _DIGITS)
            metric = replace(metric, steps=(*metric.steps, step))
            metric = _with_look(metric, column, run, sums, number)
        metrics.append(metric)
    return Drift(runs=number, metrics=tuple(metrics), cases=cases)


def _next_sums(
    sums_before: Sums,
    scores: Mapping[str, float | None],
    same: Collection[str],
    number: int,
    *,
    is_aside: bool,
) -> tuple[dict[str, CaseSums], list[float]]:
    """Each case's sums with one more run of main, and how far the unchanged cases moved.

    Sums are what a line through a case's scores over main's runs needs, in place of all scores.

    Args:
        scores: of the new run, by case.
        same: ids of the cases that did not change.
        number: of the new run, counted from 0.
        is_aside: whether the run lies aside because it was worse: its cases are not the baseline's.
    """
    sums: dict[str, CaseSums] = {}
    moves: list[float] = []
    # The cases of a run that lies aside are none of the baseline's.
    ids = sums_before if is_aside else scores
    for id_ in ids:
        score = scores.get(id_)
        before = sums_before.get(id_)
        # Only a case that did not change makes a step from its last score.
        if before is not None and id_ in same:
            sums[id_] = before.then(number, score)
            if score is not None:
                moves.append(score - before.last)
        elif before is not None and is_aside:
            # Of a case that is kept and was asked in another way, this run says nothing.
            # None: the sums count the run as one without a score.
            sums[id_] = before.then(number, None)
        elif score is not None:
            # A new or edited case begins with this run.
            sums[id_] = CaseSums.of(number, score)
    return sums, moves


def _metric_before(drift: Drift | None, column: MetricColumn) -> MetricDrift | None:
    """The record of a metric's drift; None where the metric is new or its formula has changed.

    Scores by two formulas make no line.

    Drift is a loss of main over many merges, too small to be seen in any of them.
    """
    if drift is None:
        return None
    for metric in drift.metrics:
        if (metric.metric, metric.identity) == (column.name, column.identity):
            return metric
    return None


def _with_look(
    metric: MetricDrift, column: MetricColumn, run: RunScores, sums: Sums, number: int
) -> MetricDrift:
    """A metric's record of drift with one more look at whether main has fallen.

    A look comes after each run, once there are enough runs. The evidence is what bets on a fall
    have won: however many looks there are, the chance of a false alarm over all of them stays below
    the level (`ragbench.stats.bets`).

    Drift is a loss of main over many merges, too small to be seen in any of them.

    Args:
        number: of main's newest run, counted from 0.
    """
    # One step less than runs: with fewer runs no line is drawn.
    if len(metric.steps) < LEAST - 1:
        return metric
    # Of the run at hand: cases that it does not have are clusters of their own.
    cluster_of_case = dict(zip(run.table.ids, run.clusters, strict=True))
    clusters = [cluster_of_case.get(id_) for id_ in sums]
    bet = bet_on_fall(
        list(sums.values()),
        clusters,
        number,
        tolerance=_tolerance(column),
        steps=metric.steps,
    )
    looks = metric.looks + 1
    # A share of the level for each look, which gets smaller: all looks together keep the level.
    evidence = metric.evidence + stake(looks) * bet
    # Rounded, so that the baseline file has no digits that a rounding error made.
    return replace(metric, looks=looks, evidence=float(f"{evidence:.6g}"))


def _tolerance(column: MetricColumn) -> float:
    """How much of a metric main may lose over its runs before that counts as a fall.

    The tolerance is a share of the metric's scale, `_TOLERATED`.

    A line over many runs is exact enough to show even harmless losses.
    """
    return _TOLERATED * (column.scale or 1.0)


def _scores_of_cases(run: RunScores, column: MetricColumn) -> list[float | None]:
    """Each case's score by a metric, turned so that larger is better; None where not measured.

    Rounded to the decimals of a baseline file, so that a file that was read again gives the same
    test.
    """
    scores: list[float | None] = []
    for score in run.graded(column).tolist():
        if math.isnan(score):
            scores.append(None)
        else:
            scores.append(round(score, _DIGITS))
    return scores


def _sums_of_cases(drift: Drift, metric: str) -> dict[str, CaseSums]:
    """By case id, the sums of one metric over main's runs, as the test of drift reads them.

    The first of the four stored numbers is a run's number, and becomes an integer again.

    Drift is a loss of main over many merges, too small to be seen in any of them.
    """
    sums: dict[str, CaseSums] = {}
    for id_, sums_by_metric in drift.cases.items():
        if metric in sums_by_metric:
            first_run, total, weighted, last = sums_by_metric[metric]
            sums[id_] = CaseSums(int(first_run), total, weighted, last)
    return sums


def _rounded_sums(sums: CaseSums) -> tuple[float, float, float, float]:
    """A case's sums in the form of a baseline file, in the order in which they are read back.

    Rounded, because the file is committed: digits of rounding errors would change its lines.
    """
    return (
        sums.first,
        round(sums.total, _DIGITS),
        round(sums.weighted, _DIGITS),
        round(sums.last, _DIGITS),
    )


def drift_checks(run: RunScores, baseline: RunScores, config: GateConfig) -> Iterator[GateCheck]:
    """A check for each main metric of whether main fell over its merges and this run is still down.

    Main may lose a little with each merge that passes. A run that is back at the old level passes.

    Args:
        run: the judged run, on the cases that it shares with the baseline.
    """
    drift = baseline.drift
    if drift is None:
        return
    for metric in drift.metrics:
        column = run.column(metric.metric)
        # Of another formula, or not looked at yet: nothing is known of a fall.
        if column is None or column.identity != metric.identity or not metric.looks:
            continue
        tolerance = _tolerance(column)
        # Where metrics are named, main is held by those with a max_drop alone.
        if config.metrics:
            demand = config.metrics.get(metric.metric)
            if demand is None or demand.limits.max_drop is None:
                continue
            tolerance = demand.limits.max_drop

        sums_by_id = _sums_of_cases(drift, metric.metric)
        scores: list[float] = []
        sums: list[CaseSums] = []
        for id_, score in zip(run.table.ids, _scores_of_cases(run, column), strict=True):
            if score is not None and id_ in sums_by_id:
                # Only cases with a score in this run and a line through main's.
                scores.append(score)
                sums.append(sums_by_id[id_])
        if not scores:
            continue
        mean_now = math.fsum(scores) / len(scores)
        trend = _trend_of_metric(metric, column, sums, drift.runs, mean_now, tolerance)
        is_shown = _is_fall_shown(trend, tolerance, config.alpha)
        is_lost = is_shown and not trend.is_back
        yield worded(
            GateCheck(
                kind=CheckKind.DRIFT,
                subject=f"drift: {metric.metric}",
                outcome=GateOutcome.FAILED if is_lost else GateOutcome.PASSED,
                # Shown, and yet passed: this run is back at the old level.
                ground=Ground.SHOWN if is_shown else Ground.HOLDS,
                # In the metric's own direction: scores were turned so that larger is better.
                observed=column.sign * mean_now,
                limit=tolerance,
                bound="max_drop",
                cases=len(scores),
                trend=trend,
            )
        )


def shown_falls(
    drift: Drift, columns: Sequence[MetricColumn], alpha: float
) -> Iterator[tuple[str, MainTrend]]:
    """The main metrics that fell over all runs of main, by more than `_TOLERATED` of their scale.

    A history shows them, each with the line of its fall.

    Args:
        alpha: the level of the test.
    """
    column_of_identity = {column.identity: column for column in columns}
    for metric in drift.metrics:
        column = column_of_identity.get(metric.identity)
        sums = list(_sums_of_cases(drift, metric.metric).values())
        if column is None or not sums:
            continue
        tolerance = _tolerance(column)
        # No run is judged here: whether one is back at the old level is not asked.
        trend = _trend_of_metric(metric, column, sums, drift.runs, 0.0, tolerance)
        if _is_fall_shown(trend, tolerance, alpha):
            yield metric.metric, trend


def _is_fall_shown(trend: MainTrend, tolerance: float, alpha: float) -> bool:
    """Whether a fall of main is shown by its test, and is larger than the tolerance.

    The trend's start and end are in the metric's own direction: the p-value is of a fall alone.
    """
    is_significant = trend.p_value <= alpha
    is_large = abs(trend.start - trend.end) > tolerance
    return is_significant and is_large


def _trend_of_metric(
    metric: MetricDrift,
    column: MetricColumn,
    sums: Sequence[CaseSums],
    number: int,
    mean_now: float,
    tolerance: float,
) -> MainTrend:
    """The line of a metric through main's runs, over the cases that the judged run also has.

    The line's slope is that of all cases together; its end is the level of main's newest run.

    A check of drift shows this line, so that a reader sees since when main falls.

    Args:
        sums: of each case.
        number: of main's newest run, counted from 0.
        mean_now: the judged run's mean over the cases, turned so that larger is better.
        tolerance: how far below the line's start the judged run may lie and count as back.
    """
    fallen = fall(sums, number)
    count = len(sums)
    ages: list[int] = []
    means: list[float] = []
    for case in sums:
        age = number - case.first
        ages.append(age)
        means.append(case.total / (age + 1))
    # A case's mean lies at the middle of its runs, the end of the line half its age later.
    # The fall is that since the oldest case came in; a lone first run has the age 0.
    slope = fallen / max(*ages, 1)
    end = math.fsum(means) / count - slope * math.fsum(ages) / count / 2.0
    # The steps lead from the newest level back to the first one.
    newest_level = math.fsum(case.last for case in sums) / count
    levels = [newest_level]
    risen = 0.0
    for step in reversed(metric.steps):
        risen += step
        levels.append(newest_level - risen)
    levels.reverse()
    sign = column.sign
    p_value = 1.0
    if metric.evidence:
        # Evidence is that of bets: its inverse is a p-value, here for the most metrics at once.
        p_value = min(1.0, _MAX_METRICS / metric.evidence)
    return MainTrend(
        start=sign * (end + fallen),
        end=sign * end,
        runs=len(metric.steps) + 1,
        since=metric.since,
        commit=metric.commit,
        p_value=p_value,
        is_back=mean_now >= end + fallen - tolerance,
        levels=tuple(round(sign * level, _DIGITS) for level in levels),
    )
