"""The runs of main that a baseline remembers: what became of each metric?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ragbench.core.history import Break, Change, FittedLimit, History, MainRun, MetricHistory
from ragbench.core.metric import Direction
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.errors import ConfigError
from ragbench.gate.baseline_file import Baseline
from ragbench.gate.main_runs import baseline_of
from ragbench.stats.decide import RegressionQuestion, decide_family
from ragbench.stats.paired import PairedSample, pair
from ragbench.stats.power import POWER, Spread, detectable
from ragbench.stats.trend import LEAST, Trend, trends


def history_of(
    baseline: Baseline, *, alpha: float = 0.05, resamples: int = 10_000, seed: int = 0
) -> History:
    """What became of each metric over the runs of main.

    Only runs on the same cases, with the same judge and matching, are compared: since the last of
    them that differs. A change is shown where `ragbench.stats.trend.trends` says so, over all
    metrics together.
    """
    runs = baseline.runs
    breaks = tuple(_breaks(runs))
    start = breaks[-1].at if breaks else 0
    columns = sorted(baseline.metrics, key=lambda column: column.name)
    series = [[run.scores.get(column.name) for run in runs] for column in columns]
    found = trends([figures[start:] for figures in series], resamples=resamples, seed=seed)
    return History(
        dataset=baseline.dataset,
        rag=baseline.rag,
        runs=runs,
        breaks=breaks,
        metrics=tuple(
            MetricHistory(
                metric=column.name,
                direction=column.direction,
                scale=column.scale,
                figures=tuple(figures),
                change=None if trend is None else _change(trend, start, alpha),
            )
            for column, figures, trend in zip(columns, series, found, strict=True)
        ),
        alpha=alpha,
        least=LEAST,
    )


def _change(trend: Trend, start: int, alpha: float) -> Change:
    return Change(
        is_shown=trend.p_value <= alpha,
        at=None if trend.step is None else start + trend.step,
        before=trend.before,
        after=trend.after,
        p_value=trend.p_value,
    )


def _breaks(runs: Sequence[MainRun]) -> list[Break]:
    found: list[Break] = []
    for at in range(1, len(runs)):
        before, run = runs[at - 1], runs[at]
        reasons = [
            reason
            for reason, differs in (
                ("other cases", before.cases != run.cases),
                ("another judge", before.judge != run.judge),
                (
                    "chunks matched another way",
                    None not in (before.matching, run.matching) and before.matching != run.matching,
                ),
            )
            if differs
        ]
        if reasons:
            found.append(Break(at=at, reason=", ".join(reasons)))
    return found


_GRID = 0.005
"""Tolerances are multiples of this share of a metric's scale."""


def fitted_limits(
    runs: Sequence[RunScores], *, alpha: float = 0.05, power: float = POWER
) -> tuple[FittedLimit, ...]:
    """Measures the noise of a system on its dataset, from two or more of its runs.

    Each run is compared with the mean of the others, as a gate would. The variance found is scaled
    from ``k - 1`` runs in the baseline to all k.

    Args:
        power: share of comparisons in which a drop is to be seen.
    """
    count = len(runs)
    if count < 2:
        raise ConfigError(f"{count} run: the noise shows in two or more runs of one system")
    baseline_of(runs)  # says what does not fit together, such as metrics of other formulas
    columns = [column for column in runs[0].metrics if _is_usable(column, runs[0])]
    held = [_held_out(runs, place, columns) for place in range(count)]
    decisions = decide_family(
        [
            RegressionQuestion(sample=sample, largest_drop=column.scale)
            for column, sample in zip(columns, held[0], strict=True)
        ],
        alpha=alpha,
        resamples=1000,
    )
    shrink = math.sqrt((1.0 + 1.0 / count) / (1.0 + 1.0 / (count - 1)))
    return tuple(
        _limit(column, [samples[place] for samples in held], shrink, decisions[place].level, power)
        for place, column in enumerate(columns)
    )


def _is_usable(column: MetricColumn, run: RunScores) -> bool:
    return (
        column.has_cells
        and column.aggregate is None
        and column.direction is not Direction.NEITHER
        and column.scale is not None
        and any(value is not None for value in run.values(column.name).values())
    )


def _held_out(
    runs: Sequence[RunScores], place: int, columns: Sequence[MetricColumn]
) -> list[PairedSample]:
    """One run against the mean of the others, a sample a metric."""
    others: Baseline = baseline_of([run for at, run in enumerate(runs) if at != place])
    mean = others.scores("the others")
    return [
        pair(
            mean.values(column.name),
            runs[place].values(column.name),
            clusters=runs[place].clusters(),
            higher_is_better=column.direction is Direction.HIGHER,
        )
        for column in columns
    ]


def _limit(
    column: MetricColumn,
    samples: Sequence[PairedSample],
    shrink: float,
    level: float,
    power: float,
) -> FittedLimit:
    scale = column.scale or 1.0
    totals = [sample.totals() for sample in samples]
    spreads = [Spread.of(each) for each in totals]
    variances = [0.0 if one is None else one.per_cluster**2 for one in spreads]
    known = next((one for one in spreads if one is not None), None)
    clusters = min(each.clusters for each in totals)
    cases = min(each.cases for each in totals)
    if known is None or clusters < 2:
        return FittedLimit(
            metric=column.name, cases=cases, clusters=clusters, noise=0.0,
            tolerance=_GRID * scale, seen=None,
        )  # fmt: skip
    typical = replace(known, per_cluster=shrink * math.sqrt(sum(variances) / len(variances)))
    noise = typical.per_cluster / math.sqrt(clusters)
    tolerance = _rounded_up(noise / scale) * scale
    found = detectable(typical, clusters, alpha=level, power=power)
    return FittedLimit(
        metric=column.name,
        cases=cases,
        clusters=clusters,
        noise=noise,
        tolerance=tolerance,
        seen=None if found is None else tolerance + found,
    )


def _rounded_up(share: float) -> float:
    return round(max(1, math.ceil(share / _GRID - 1e-9)) * _GRID, 6)
