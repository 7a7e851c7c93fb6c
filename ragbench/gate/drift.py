"""Main over its merges: the sums that a baseline keeps, and what a gate says of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate

from ragbench.core.gate_result import CheckKind, GateCheck, GateOutcome, Ground, MainTrend
from ragbench.core.history import Drift, MetricDrift
from ragbench.core.metric import Direction
from ragbench.core.outcome import Status
from ragbench.core.run_scores import MetricColumn, RunScores, ScoredCase
from ragbench.gate.cases import main_metrics
from ragbench.gate.config import GateConfig
from ragbench.gate.words import worded
from ragbench.stats.drift import LEAST, CaseSums, bet_on_fall, fall, stake

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
    now = {case.id: case for case in run.cases}
    metrics: list[MetricDrift] = []
    cases: dict[str, dict[str, tuple[float, ...]]] = {}
    for column in main_metrics(run.metrics):
        old = None if column.name in anew else known.get((column.name, column.identity))
        before = {} if drift is None or old is None else _sums(drift, column.name)
        kept = before if is_aside else now
        scores = {id_: _score(now.get(id_), column) for id_ in kept}
        sums: dict[str, CaseSums] = {}
        moved: list[float] = []
        for id_, score in scores.items():
            if id_ in before and id_ in same:
                sums[id_] = before[id_].then(number, score)
                moved += [] if score is None else [score - before[id_].last]
            elif score is not None and not is_aside:
                sums[id_] = CaseSums.of(number, score)
        for id_, one in sums.items():
            cases.setdefault(id_, {})[column.name] = _written(one)
        metrics.append(_with_look(column, old, run, sums, moved, number))
    return Drift(runs=number, metrics=tuple(metrics), cases=cases)


def _with_look(
    column: MetricColumn,
    old: MetricDrift | None,
    run: RunScores,
    sums: Sums,
    moved: Sequence[float],
    number: int,
) -> MetricDrift:
    steps = () if old is None else old.steps
    if moved:
        steps = (*steps, round(math.fsum(moved) / len(moved), _DIGITS))
    looks, evidence = (0, 0.0) if old is None else (old.looks, old.evidence)
    if len(steps) >= LEAST - 1 and sums:
        looks += 1
        clusters = run.clusters()
        bet = bet_on_fall(
            list(sums.values()),
            [clusters.get(id_) for id_ in sums],
            number,
            tolerance=_TOLERATED * (column.scale or 1.0),
            steps=steps,
        )
        evidence += stake(looks) * bet
    return MetricDrift(
        metric=column.name,
        identity=column.identity,
        since=run.date if old is None else old.since,
        commit=run.commit if old is None else old.commit,
        steps=steps,
        looks=looks,
        evidence=float(f"{evidence:.6g}"),
    )


def _score(case: ScoredCase | None, column: MetricColumn) -> float | None:
    """Larger is better; what was declined has the worst value, what failed or was skipped none."""
    cell = None if case is None else case.scores.get(column.name)
    if cell is None:
        return None
    is_higher = column.direction is Direction.HIGHER
    value = cell.value
    if cell.status is Status.ABSTAINED:
        value = column.low if is_higher else column.high
    return None if value is None else round(value if is_higher else -value, _DIGITS)


def _sums(drift: Drift, metric: str) -> dict[str, CaseSums]:
    found = {id_: known[metric] for id_, known in drift.cases.items() if metric in known}
    return {id_: CaseSums(int(one[0]), *one[1:]) for id_, one in found.items()}


def _written(one: CaseSums) -> tuple[float, ...]:
    numbers = (one.first, one.total, one.weighted, one.last)
    return tuple(round(number, _DIGITS) for number in numbers)


def drift_checks(run: RunScores, baseline: RunScores, config: GateConfig) -> Iterator[GateCheck]:
    """Whether main has fallen over its merges, and this run does not bring it back.

    Args:
        run: the judged run, on the cases that it shares with the baseline.
    """
    drift = baseline.drift
    for one in () if drift is None else drift.metrics:
        column, sums = run.column(one.metric), {} if drift is None else _sums(drift, one.metric)
        demand = config.metrics.get(one.metric)
        tolerance = None if demand is None else demand.limits.max_drop
        if column is not None and not config.metrics:
            tolerance = _TOLERATED * (column.scale or 1.0)
        scores = {case.id: _score(case, column) for case in run.cases} if column else {}
        both = {
            id_: sums[id_] for id_, score in scores.items() if score is not None and id_ in sums
        }
        is_same = column is not None and column.identity == one.identity
        if drift is not None and is_same and tolerance is not None and one.looks and both:
            now = math.fsum(scores[id_] or 0.0 for id_ in both) / len(both)
            yield _check(one, list(both.values()), drift.runs, now, tolerance, config.alpha)


def _check(
    one: MetricDrift,
    sums: Sequence[CaseSums],
    number: int,
    now: float,
    tolerance: float,
    alpha: float,
) -> GateCheck:
    fallen, count = fall(sums, number), len(sums)
    span = number - min(case.first for case in sums)
    ages = [number - case.first for case in sums]
    means = [case.total / (age + 1) for case, age in zip(sums, ages, strict=True)]
    end = math.fsum(means) / count - fallen / max(span, 1) * math.fsum(ages) / count / 2.0
    p_value = min(1.0, _METRICS / one.evidence) if one.evidence else 1.0
    is_shown = p_value <= alpha and fallen > tolerance
    is_back = now >= end + fallen - tolerance
    last = math.fsum(case.last for case in sums) / count
    levels = [last - step for step in accumulate((0.0, *one.steps[::-1]))][::-1]
    return worded(
        GateCheck(
            kind=CheckKind.DRIFT,
            subject=f"drift: {one.metric}",
            outcome=GateOutcome.FAILED if is_shown and not is_back else GateOutcome.PASSED,
            ground=Ground.SHOWN if is_shown else Ground.HOLDS,
            observed=abs(now),
            limit=tolerance,
            bound="max_drop",
            cases=count,
            trend=MainTrend(
                start=abs(end + fallen),
                end=abs(end),
                runs=len(one.steps) + 1,
                since=one.since,
                commit=one.commit,
                p_value=p_value,
                is_back=is_back,
                levels=tuple(round(abs(level), _DIGITS) for level in levels),
            ),
        )
    )
