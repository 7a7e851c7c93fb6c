"""Metrics of several runs: each run's figure, and the difference of every pair of runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from ragbench.core.comparison import Difference, MetricComparison, RunFigure
from ragbench.core.metric import Direction
from ragbench.core.outcome import Status
from ragbench.core.report import Interval
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.stats.family import SignFlipTest, family_test
from ragbench.stats.mean import mean_interval, student_interval
from ragbench.stats.paired import PairedSample, pair

ALPHA = 0.05
"""Level of the whole family of tests."""
CONFIDENCE = 0.95
"""Of the intervals, which are not corrected."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Pair:
    """A metric on two runs."""

    metric: int
    marks: tuple[str, str]
    column: MetricColumn
    sample: PairedSample
    before: Mapping[str, float | None]
    after: Mapping[str, float | None]


def metric_comparisons(
    runs: Sequence[tuple[str, RunScores]],
    columns: Sequence[MetricColumn],
    *,
    restricted: bool,
) -> tuple[tuple[MetricComparison, ...], int]:
    """Compares runs of the same cases, metric by metric.

    Each pair of runs is tested by flipping signs of whole clusters, two-sided, in all metrics
    jointly (`ragbench.stats.family`); p-values are multiplied by the number of pairs. Metrics on so
    few independent cases that they could never be significant are left out of the correction.
    """
    clusters = runs[0][1].clusters()
    untested = [_untested(column, runs) for column in columns]
    pairs = [
        found
        for position, column in enumerate(columns)
        if untested[position] is None
        for found in _pairs(position, column, runs, clusters)
    ]
    differences, family = _differences(pairs)
    listed: list[MetricComparison] = []
    for position, column in enumerate(columns):
        mine = [
            difference
            for found, difference in zip(pairs, differences, strict=True)
            if found.metric == position
        ]
        figures = tuple(_figure(mark, run, column.name, clusters, restricted) for mark, run in runs)
        listed.append(
            MetricComparison(
                name=column.name,
                group=column.group,
                direction=column.direction,
                unit=column.unit,
                figures=_marked(figures, mine, column.direction),
                differences=tuple(mine),
                untested=untested[position],
            )
        )
    return tuple(listed), family


def _untested(column: MetricColumn, runs: Sequence[tuple[str, RunScores]]) -> str | None:
    if column.no_mean:
        return column.no_mean
    others = [run.column(column.name) for _, run in runs]
    known = [other for other in others if other is not None]
    if len({other.version for other in known}) > 1:
        return "the runs measured it by formulas of different versions"
    if len({other.identity for other in known}) > 1:
        return "the code that computes it has changed between the runs"
    if sum(other is not None for other in others) < 2:
        return "only one run measured it"
    return None


def _pairs(
    position: int,
    column: MetricColumn,
    runs: Sequence[tuple[str, RunScores]],
    clusters: Mapping[str, str | None],
) -> Iterator[_Pair]:
    measured = [(mark, run) for mark, run in runs if run.column(column.name) is not None]
    for (mark, run), (other_mark, other) in combinations(measured, 2):
        before, after = run.values(column.name), other.values(column.name)
        yield _Pair(
            metric=position,
            marks=(mark, other_mark),
            column=column,
            sample=pair(before, after, clusters=clusters),
            before=before,
            after=after,
        )


def _differences(pairs: Sequence[_Pair]) -> tuple[list[Difference], int]:
    """Metrics of one pair of runs are tested jointly; several pairs are corrected by their number.

    Signs may be flipped in all metrics of two runs that can be swapped. Of three runs that can be,
    the differences of the three pairs need not all turn around together.
    """
    groups: dict[tuple[str, str], list[int]] = {}
    for position, found in enumerate(pairs):
        groups.setdefault(found.marks, []).append(position)
    listed: dict[int, Difference] = {}
    family = 0
    for found_on in groups.values():
        members = sorted(found_on, key=lambda position: pairs[position].column.name)
        joint = family_test(
            [pairs[position].sample for position in members],
            alpha=ALPHA / len(groups),
        )
        family += joint.size
        for position, test, p_value in zip(members, joint.tests, joint.p_values, strict=True):
            corrected = min(1.0, len(groups) * p_value)
            resolution = len(groups) * joint.resolution
            listed[position] = _difference(pairs[position], test, corrected, resolution)
    return [listed[position] for position in range(len(pairs))], family


def _difference(
    found: _Pair, test: SignFlipTest, corrected: float, resolution: float
) -> Difference:
    sample, scale = found.sample, found.column.scale
    bounds = None if scale is None else (-scale, scale)
    interval = student_interval(sample.totals(), CONFIDENCE, bounds=bounds)
    ids = sample.case_ids
    return Difference(
        first=found.marks[0],
        second=found.marks[1],
        before=_mean(found.before[id_] for id_ in ids),
        after=_mean(found.after[id_] for id_ in ids),
        difference=interval.mean,
        low=interval.low,
        high=interval.high,
        confidence=CONFIDENCE,
        p_value=test.p_value,
        p_corrected=corrected,
        resolution=resolution,
        is_significant=corrected <= ALPHA,
        cases=len(ids),
        clusters=interval.clusters,
        higher=sample.gained,
        lower=sample.lost,
        left_out=_left_out(found),
    )


def _left_out(found: _Pair) -> dict[str, int]:
    first, second = found.marks
    left = found.sample.left_out
    counts = {
        first: left.unmeasured_in_baseline,
        second: left.unmeasured_in_candidate,
        f"{first}, {second}": left.unmeasured_in_both,
    }
    return {marks: count for marks, count in counts.items() if count}


def _figure(
    mark: str,
    run: RunScores,
    metric: str,
    clusters: Mapping[str, str | None],
    restricted: bool,
) -> RunFigure:
    cells = {case.id: case.scores.get(metric) for case in run.cases}
    statuses = [cell.status for cell in cells.values() if cell is not None]
    own = run.column(metric)
    values = {id_: c.value for id_, c in cells.items() if c is not None and c.value is not None}
    score, interval = None, None
    if own is not None and not own.no_mean:
        found = mean_interval(
            list(values.values()),
            [clusters.get(id_) for id_ in values],
            CONFIDENCE,
            bounds=own.bounds,
        )
        score = found.mean
        if found.low is not None and found.high is not None:
            interval = Interval(low=found.low, high=found.high, level=CONFIDENCE)
    if own is not None and not restricted:
        score = own.score
    return RunFigure(
        run=mark,
        score=score,
        interval=interval,
        measured=statuses.count(Status.MEASURED),
        abstained=statuses.count(Status.ABSTAINED),
        skipped=statuses.count(Status.SKIPPED),
        failed=statuses.count(Status.FAILED),
    )


def _marked(
    figures: Sequence[RunFigure], differences: Sequence[Difference], direction: Direction
) -> tuple[RunFigure, ...]:
    beaten: dict[str, list[str]] = {figure.run: [] for figure in figures}
    for found in differences:
        if found.is_significant and found.difference:
            rises = found.difference > 0
            is_second = rises is (direction is not Direction.LOWER)
            better, worse = (
                (found.second, found.first) if is_second else (found.first, found.second)
            )
            beaten[better].append(worse)
    return tuple(replace(figure, better_than=tuple(beaten[figure.run])) for figure in figures)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
