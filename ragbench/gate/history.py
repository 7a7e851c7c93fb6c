"""The runs of main that a baseline remembers: what became of each metric?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from ragbench.core.history import (
    Break,
    FittedLimit,
    History,
    MainRun,
    MainTrend,
    MetricHistory,
)
from ragbench.core.record import replace
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.errors import ConfigError
from ragbench.gate.baseline_file import Baseline
from ragbench.gate.demands import comparable_columns
from ragbench.gate.drift import shown_falls
from ragbench.gate.drops import paired
from ragbench.gate.figures import figures_of, with_both_figures
from ragbench.gate.main_runs import baseline_of
from ragbench.stats.bets import LEAST
from ragbench.stats.family import family_test
from ragbench.stats.paired import PairedSample
from ragbench.stats.power import Spread, detectable

_ALPHA = 0.05
"""The level of the tests, as in a gate: the chance of any false alarm."""


def history_of(baseline: Baseline) -> History:
    """The history of each metric over main's runs: its figures, comparable ones linked, and falls.

    Only runs with the same judge and matching are compared: those since the last change of either.
    Where cases were added or edited, a run is linked to the one before by the cases that both have,
    as in a chained price index. A fall is shown where the gate's test of drift shows it.
    """
    runs = baseline.runs
    drift = baseline.drift
    breaks = tuple(_breaks(runs))
    # Since the last break, or from the first run.
    start = breaks[-1].at if breaks else 0
    falls: Mapping[str, MainTrend] = {}
    followed = 0
    # Whether answers are correct comes first, the others by name.
    columns = sorted(baseline.metrics, key=lambda column: column.name)
    # A second sort, which keeps the order of the others.
    columns.sort(key=lambda column: column.name != "answer_correct")
    if drift is not None:
        falls = dict(shown_falls(drift, columns, _ALPHA))
        for metric in drift.metrics:
            # A step leads from one run to the next.
            followed = max(followed, len(metric.steps) + 1)
    metrics: list[MetricHistory] = []
    for column in columns:
        metrics.append(
            MetricHistory(
                metric=column.name,
                direction=column.direction,
                scale=column.scale,
                figures=tuple(_linked_figures(runs, column.name, start)),
                fall=falls.get(column.name),
            )
        )
    return History(
        dataset=baseline.dataset,
        rag=baseline.rag,
        runs=runs,
        breaks=breaks,
        metrics=tuple(metrics),
        followed=followed,
        least=LEAST,
    )


def _linked_figures(runs: Sequence[MainRun], metric: str, start: int) -> list[float | None]:
    """A metric's figures over main's runs, those since the last break as if on the newest cases.

    Without this, cases that were added or edited would look like a change of the system.

    Args:
        start: place of the first run since the last break.
    """
    figures = [run.scores.get(metric) for run in runs]
    linked = list(figures)
    # How much higher the newest run's cases would have scored than those of the run at hand.
    shift = 0.0
    # From the newest run but one back to the last break.
    for place in range(len(runs) - 2, start - 1, -1):
        next_run = runs[place + 1]
        if next_run.linked:
            # The next run has other cases: it lies so far from this one on those of both.
            next_figure = linked[place + 1]
            step = next_run.linked.get(metric)
            # Runs that lie aside are left out of the chain: they were worse.
            figure_before = _figure_before(runs, figures, place)
            if figure_before is None or next_figure is None or step is None:
                # The chain is broken: of the runs before nothing is known on these cases.
                unknown = [None] * (place + 1 - start)
                return [*figures[:start], *unknown, *linked[place + 1 :]]
            shift = next_figure - step - figure_before
        figure = figures[place]
        # A run without the figure has none, and the chain goes on.
        if figure is not None:
            linked[place] = figure + shift
    return linked


def _figure_before(
    runs: Sequence[MainRun], figures: Sequence[float | None], place: int
) -> float | None:
    """The figure of the last run, up to a position, that does not lie aside; None without one.

    A run that lies aside was worse: the runs after it are not compared with it.
    """
    for earlier in range(place, -1, -1):
        if not runs[earlier].aside:
            return figures[earlier]
    return None


def _breaks(runs: Sequence[MainRun]) -> Iterator[Break]:
    """The positions from which on main's runs do not compare with earlier runs, with the reasons.

    A history draws no line across such a position.
    """
    for place, (before, run) in enumerate(pairwise(runs), start=1):
        reasons: list[str] = []
        has_other_cases = before.cases != run.cases
        # With a link, other cases are compared by those in common.
        if has_other_cases and not run.linked:
            reasons.append("other cases")
        if before.judge != run.judge:
            reasons.append("another judge")
        # Older files do not say how chunks were matched.
        is_known = before.matching is not None and run.matching is not None
        if is_known and before.matching != run.matching:
            reasons.append("chunks matched another way")
        if reasons:
            yield Break(at=place, reason=", ".join(reasons))


_GRID = 0.005
"""Tolerances are multiples of this share of a metric's scale."""


def fitted_limits(runs: Sequence[RunScores]) -> tuple[FittedLimit, ...]:
    """The tolerance of each metric that fits the noise of a system, from two or more of its runs.

    A tolerance below the noise fails unchanged systems. Each run is compared with the mean of the
    others, as a gate would do. The variance is then scaled from ``k - 1`` runs in the baseline to
    all k.

    Raises:
        ConfigError: there are fewer than two runs.
    """
    count = len(runs)
    if count < 2:
        raise ConfigError(f"{count} run: the noise shows in two or more runs of one system")
    mean_of_all = baseline_of(runs)  # refuses what does not fit together, such as other formulas
    # Each run with the mean beside it, so that the figures of both are made by one rule.
    runs_with_figures: list[RunScores] = []
    for run in runs:
        run_with_figures, _ = with_both_figures(run, mean_of_all)
        runs_with_figures.append(run_with_figures)
    first_run = runs_with_figures[0]
    # The figures that a gate would hold by itself.
    columns = list(figures_of(first_run, None, []))
    if not columns:
        columns = list(comparable_columns(first_run, None))
    samples_of_metric: dict[str, list[PairedSample]] = {column.name: [] for column in columns}
    for place, run in enumerate(runs_with_figures):
        other_runs = [*runs_with_figures[:place], *runs_with_figures[place + 1 :]]
        # In the order of the run: pairs are by position.
        mean_of_others = baseline_of(other_runs).beside(run)
        for column in columns:
            sample = paired(column, run, mean_of_others)
            samples_of_metric[column.name].append(sample)
    # The level that one test of a gate has, of all that it makes together.
    first_samples = [samples[0] for samples in samples_of_metric.values()]
    level = family_test(
        # A metric's test has this level within the family.
        first_samples,
        null_means=[0.0] * len(columns),
        alpha=_ALPHA,
        resamples=1000,
    ).level
    # A difference from a mean of n runs has 1 + 1 / n times the variance of a run.
    shrink = math.sqrt((1.0 + 1.0 / count) / (1.0 + 1.0 / (count - 1)))
    limits: list[FittedLimit] = []
    for column in columns:
        limits.append(_fitted_limit(column, samples_of_metric[column.name], shrink, level))
    return tuple(limits)


def _fitted_limit(
    column: MetricColumn, samples: Sequence[PairedSample], shrink: float, level: float
) -> FittedLimit:
    """The smallest tolerance that covers the noise of a metric, and the smallest loss then seen.

    The tolerance is a multiple of `_GRID` of the metric's scale. A smaller one would fail runs of
    an unchanged system.

    Args:
        samples: each run against the others.
        shrink: from the noise against one run less to that against all.
        level: of the test of one metric.
    """
    scale = column.scale or 1.0
    totals = [sample.totals() for sample in samples]
    clusters = min(total.clusters for total in totals)
    noise = 0.0
    tolerance = _GRID * scale
    least_seen = None
    spreads = [Spread.of(total) for total in totals]
    # As numbers: a run that equals the others has a variance of 0.
    variances = [0.0 if spread is None else spread.per_cluster**2 for spread in spreads]
    # Runs that are all alike have no spread: they count as a variance of 0.
    spread = next((spread for spread in spreads if spread is not None), None)
    if spread is not None and clusters > 1:
        per_cluster = shrink * math.sqrt(sum(variances) / len(variances))
        mean_spread = replace(spread, per_cluster=per_cluster)
        noise = per_cluster / math.sqrt(clusters)
        # Up to the next multiple; a hair above one is a rounding error.
        steps = max(1, math.ceil(noise / scale / _GRID - 1e-9))
        tolerance = round(steps * _GRID, 6) * scale
        least_seen = detectable(mean_spread, clusters, alpha=level)
    seen = None
    if least_seen is not None:
        # More than tolerance and noise together is what a gate would see.
        seen = tolerance + least_seen
    return FittedLimit(
        metric=column.name,
        cases=min(total.cases for total in totals),
        clusters=clusters,
        noise=noise,
        tolerance=tolerance,
        seen=seen,
    )
