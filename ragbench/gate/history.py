"""The runs of main that a baseline remembers: what became of each metric?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ragbench.core.history import Break, FittedLimit, History, MainRun, MetricHistory
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


def history_of(baseline: Baseline) -> History:
    """What became of each metric over the runs of main.

    Only runs with the same judge and matching are compared: since the last that differs. Where
    cases were added or edited, a run is linked to the one before by those that both have, as in a
    chained price index. A fall is shown where the gate's test of drift shows it.
    """
    runs, drift = baseline.runs, baseline.drift
    breaks = tuple(_breaks(runs))
    start = breaks[-1].at if breaks else 0
    columns = sorted(baseline.metrics, key=lambda one: (one.name != "answer_correct", one.name))
    falls = {} if drift is None else dict(shown_falls(drift, columns, _ALPHA))
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
                figures=tuple(_linked(runs, column.name, start)),
                fall=falls.get(column.name),
            )
            for column in columns
        ),
        followed=0 if drift is None else max((len(m.steps) + 1 for m in drift.metrics), default=0),
        least=LEAST,
    )


def _linked(runs: Sequence[MainRun], metric: str, start: int) -> list[float | None]:
    """A metric's figures; those since the last break as if on the newest run's cases."""
    figures = [run.scores.get(metric) for run in runs]
    found, shift = figures[:], 0.0
    for at in range(len(runs) - 2, start - 1, -1):
        figure, after, later = figures[at], found[at + 1], runs[at + 1]
        if later.linked:
            step = later.linked.get(metric)  # from the last one that is not kept aside
            known = (figures[place] for place in range(at, -1, -1) if not runs[place].aside)
            linked_to = next(known, None)
            if linked_to is None or after is None or step is None:
                return [*figures[:start], *[None] * (at + 1 - start), *found[at + 1 :]]
            shift = after - step - linked_to
        found[at] = None if figure is None else figure + shift
    return found


def _breaks(runs: Sequence[MainRun]) -> Iterator[Break]:
    for at, (before, run) in enumerate(pairwise(runs), 1):
        known = None not in (before.matching, run.matching)
        reasons = {
            "other cases": before.cases != run.cases and not run.linked,
            "another judge": before.judge != run.judge,
            "chunks matched another way": known and before.matching != run.matching,
        }
        if any(reasons.values()):
            yield Break(at=at, reason=", ".join(why for why, differs in reasons.items() if differs))


_GRID = 0.005
"""Tolerances are multiples of this share of a metric's scale."""


def fitted_limits(runs: Sequence[RunScores]) -> tuple[FittedLimit, ...]:
    """Measures the noise of what the gate holds, from two or more runs of one system.

    Each run is compared with the mean of the others, as a gate would. The variance found is scaled
    from ``k - 1`` runs in the baseline to all k.
    """
    count = len(runs)
    if count < 2:
        raise ConfigError(f"{count} run: the noise shows in two or more runs of one system")
    whole = baseline_of(runs)  # says what does not fit together, such as metrics of other formulas
    runs = [with_both_figures(run, whole)[0] for run in runs]
    columns = [*figures_of(runs[0], None, [])] or [*comparable_columns(runs[0], None)]
    held: list[list[PairedSample]] = []
    for place, run in enumerate(runs):
        others = baseline_of([*runs[:place], *runs[place + 1 :]])
        held.append([paired(column, run, others.beside(run)) for column in columns])
    level = family_test(
        held[0], null_means=[0.0] * len(columns), alpha=_ALPHA, resamples=1000
    ).level
    shrink = math.sqrt((1.0 + 1.0 / count) / (1.0 + 1.0 / (count - 1)))
    return tuple(
        _limit(column, [samples[place] for samples in held], shrink, level)
        for place, column in enumerate(columns)
    )


def _limit(
    column: MetricColumn, samples: Sequence[PairedSample], shrink: float, level: float
) -> FittedLimit:
    scale = column.scale or 1.0
    totals = [sample.totals() for sample in samples]
    spreads = [Spread.of(each) for each in totals]
    variances = [0.0 if one is None else one.per_cluster**2 for one in spreads]
    known = next((one for one in spreads if one is not None), None)
    clusters = min(each.clusters for each in totals)
    noise, tolerance, seen = 0.0, _GRID * scale, None
    if known is not None and clusters > 1:
        typical = replace(known, per_cluster=shrink * math.sqrt(sum(variances) / len(variances)))
        noise = typical.per_cluster / math.sqrt(clusters)
        steps = max(1, math.ceil(noise / scale / _GRID - 1e-9))
        tolerance = round(steps * _GRID, 6) * scale
        seen = detectable(typical, clusters, alpha=level)
    return FittedLimit(
        metric=column.name,
        cases=min(each.cases for each in totals),
        clusters=clusters,
        noise=noise,
        tolerance=tolerance,
        seen=None if seen is None else tolerance + seen,
    )
