"""Metrics of several runs: each run's figure, and the difference of every pair of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from ragbench.core.comparison import Difference, MetricComparison, RunFigure
from ragbench.core.metric import Direction
from ragbench.core.outcome import Status
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.stats.family import family_test
from ragbench.stats.mean import mean_interval
from ragbench.stats.paired import LEFT_OUT, PairedSample, paired_columns

ALPHA = 0.05
"""Level of the whole family of tests."""
CONFIDENCE = 0.95
"""Of the intervals, which are not corrected."""

Marked = tuple[str, RunScores]
"""A run under its letter."""


def metric_comparisons(
    runs: Sequence[Marked], columns: Sequence[MetricColumn], *, restricted: bool
) -> tuple[tuple[MetricComparison, ...], int]:
    """Compares runs of the same cases, metric by metric.

    Each pair of runs is tested by flipping signs of whole clusters, two-sided, in all metrics
    jointly (`ragbench.stats.family`); p-values are multiplied by the number of pairs. Metrics on so
    few independent cases that they could never be significant are left out of the correction.
    """
    labels = runs[0][1].clusters
    untested = {column.name: _untested(column, runs) for column in columns}
    tested = sorted((c for c in columns if untested[c.name] is None), key=lambda c: c.name)
    differences, family = _differences(runs, tested)
    listed: list[MetricComparison] = []
    for column in columns:
        found = [one for name, one in differences if name == column.name]
        figures = [_figure(mark, run, column.name, labels, restricted) for mark, run in runs]
        listed.append(
            MetricComparison(
                name=column.name,
                group=column.group,
                direction=column.direction,
                unit=column.unit,
                figures=_marked(figures, found, column.direction),
                differences=tuple(found),
                untested=untested[column.name],
            )
        )
    return tuple(listed), family


def _untested(column: MetricColumn, runs: Sequence[Marked]) -> str | None:
    if column.no_mean:
        return column.no_mean
    others = [run.column(column.name) for _, run in runs]
    known = [other for other in others if other is not None]
    if len({other.version for other in known}) > 1:
        return "the runs measured it by formulas of different versions"
    if len({other.identity for other in known}) > 1:
        return "the code that computes it has changed between the runs"
    return "only one run measured it" if len(known) < 2 else None


def _differences(
    runs: Sequence[Marked], columns: Sequence[MetricColumn]
) -> tuple[list[tuple[str, Difference]], int]:
    """By metric, with the size of the family.

    Metrics of one pair of runs are tested jointly; several pairs are corrected by their number.
    Signs may be flipped in all metrics of two runs that can be swapped. Of three runs that can be,
    the differences of the three pairs need not all turn around together.
    """
    groups: list[tuple[Marked, Marked, list[MetricColumn]]] = []
    for first, second in combinations(runs, 2):
        shared = [c for c in columns if first[1].column(c.name) and second[1].column(c.name)]
        if shared:
            groups.append((first, second, shared))
    found: list[tuple[str, Difference]] = []
    family = 0
    for (mark, run), (other_mark, other), shared in groups:
        samples = [
            paired_columns(
                run.cells(column.name).values,
                other.cells(column.name).values,
                ids=run.table.ids,
                labels=runs[0][1].clusters,
            )
            for column in shared
        ]
        joint = family_test(samples, alpha=ALPHA / len(groups))
        family += joint.size
        for column, sample, test, p_value in zip(
            shared, samples, joint.tests, joint.p_values, strict=True
        ):
            difference = _difference(
                (mark, other_mark),
                column,
                sample,
                p_value=test.p_value,
                p_corrected=min(1.0, len(groups) * p_value),
                resolution=len(groups) * joint.resolution,
            )
            found.append((column.name, difference))
    return found, family


def _difference(
    marks: tuple[str, str],
    column: MetricColumn,
    sample: PairedSample,
    *,
    p_value: float,
    p_corrected: float,
    resolution: float,
) -> Difference:
    first, second = marks
    bounds = None if column.scale is None else (-column.scale, column.scale)
    interval = mean_interval(sample.totals(), confidence=CONFIDENCE, bounds=bounds)
    unmeasured = zip((first, second, f"{first}, {second}"), LEFT_OUT[2:], strict=True)
    return Difference(
        first=first,
        second=second,
        before=sample.before,
        after=sample.after,
        difference=interval.mean,
        low=interval.low,
        high=interval.high,
        confidence=CONFIDENCE,
        p_value=p_value,
        p_corrected=p_corrected,
        resolution=resolution,
        is_significant=p_corrected <= ALPHA,
        cases=interval.cases,
        clusters=interval.clusters,
        higher=sample.gained,
        lower=sample.lost,
        left_out={
            where: sample.left_out[reason]
            for where, reason in unmeasured
            if reason in sample.left_out
        },
    )


def _figure(
    mark: str, run: RunScores, metric: str, labels: Sequence[str | None], restricted: bool
) -> RunFigure:
    import numpy as np

    cells, own = run.cells(metric), run.column(metric)
    places = np.flatnonzero(~np.isnan(cells.values)).tolist()
    score, interval = None, None
    if own is not None and not own.no_mean:
        values, of_case = cells.values[places].tolist(), [labels[place] for place in places]
        found = mean_interval(values, of_case, CONFIDENCE, bounds=own.bounds)
        score, interval = found.mean, found.reported
    if own is not None and not restricted:
        score = own.score
    return RunFigure(
        run=mark,
        score=score,
        interval=interval,
        measured=int(cells.has(Status.MEASURED).sum()),
        abstained=int(cells.has(Status.ABSTAINED).sum()),
        skipped=int(cells.has(Status.SKIPPED).sum()),
        failed=int(cells.has(Status.FAILED).sum()),
    )


def _marked(
    figures: Sequence[RunFigure], differences: Sequence[Difference], direction: Direction
) -> tuple[RunFigure, ...]:
    """The figures, each with the runs that it is better than."""
    beaten: dict[str, list[str]] = {figure.run: [] for figure in figures}
    for found in differences:
        if found.is_significant and found.difference:
            is_second = (found.difference > 0) is (direction is not Direction.LOWER)
            runs = (found.second, found.first) if is_second else (found.first, found.second)
            beaten[runs[0]].append(runs[1])
    return tuple(replace(figure, better_than=tuple(beaten[figure.run])) for figure in figures)
