"""Metrics of several runs, and of the variants of one: figures, and differences that hold."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from ragbench.core.ablation import CaseLoss, VariantEffect
from ragbench.core.comparison import Difference, MetricComparison, RunFigure
from ragbench.core.metric import Direction, Metric
from ragbench.core.outcome import Status
from ragbench.core.record import Record, replace
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.gate.cases import interval_of
from ragbench.stats.family import family_test
from ragbench.stats.mean import mean_interval
from ragbench.stats.paired import LEFT_OUT, PairedSample, pair, paired_columns

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
    untested = {column.name: _untested(column, runs) for column in columns}
    tested = sorted((c for c in columns if untested[c.name] is None), key=lambda c: c.name)
    differences, family = _differences(runs, tested)
    listed: list[MetricComparison] = []
    for column in columns:
        found = differences.get(column.name, [])
        figures = [_figure(mark, run, column.name, restricted) for mark, run in runs]
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
) -> tuple[Mapping[str, list[Difference]], int]:
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
    found, family = defaultdict[str, list[Difference]](list), 0
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
            corrected = min(1.0, len(groups) * p_value)
            difference = _difference(
                (mark, other_mark), column, sample,
                p_value=test.p_value, p_corrected=corrected,
                resolution=len(groups) * joint.resolution, is_significant=corrected <= ALPHA,
            )  # fmt: skip
            found[column.name].append(difference)
    return found, family


def _difference(
    marks: tuple[str, str], column: MetricColumn, sample: PairedSample, **tested: Any
) -> Difference:
    first, second = marks
    interval = mean_interval(sample.totals(), confidence=CONFIDENCE, bounds=column.reach)
    lacks = zip((first, second, f"{first}, {second}"), LEFT_OUT[2:], strict=True)
    return Difference(
        first=first,
        second=second,
        before=sample.before,
        after=sample.after,
        difference=interval.mean,
        low=interval.low,
        high=interval.high,
        confidence=CONFIDENCE,
        cases=interval.cases,
        clusters=interval.clusters,
        higher=sample.gained,
        lower=sample.lost,
        left_out={m: sample.left_out[why] for m, why in lacks if why in sample.left_out},
        **tested,
    )


def _figure(mark: str, run: RunScores, metric: str, restricted: bool) -> RunFigure:
    cells, own = run.cells(metric), run.column(metric)
    score, interval = None, None
    if own is not None and not own.no_mean:
        found = interval_of(run, own)
        score, interval = found.mean, found.reported
    if own is not None and not restricted:
        score = own.score
    counts: Any = {status.value: int(cells.has(status).sum()) for status in _COUNTED}
    return RunFigure(run=mark, score=score, interval=interval, **counts)


_COUNTED = (Status.MEASURED, Status.ABSTAINED, Status.SKIPPED, Status.FAILED)


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


_LOSSES = 1000
"""How many lost cases are kept a variant and metric."""

Values = Mapping[str, float | None]
"""By case id: its value; None without one."""


class Measured(Record):
    """What one variant measured."""

    name: str
    acted: bool
    """Whether it left anything else than the first variant in any case."""
    values: Sequence[Values]
    """One a metric."""


def variant_effects(
    metrics: Sequence[Metric],
    variants: Sequence[Measured],
    clusters: Mapping[str, str | None],
    *,
    confidence: float,
) -> tuple[list[tuple[VariantEffect, ...]], int]:
    """What each variant came to, and how it differs from the first one.

    All comparisons of variants that acted form one family. Their p-values are those of two-sided
    sign flips of whole clusters, corrected for the family by its largest statistic; see
    `ragbench.stats.family`. The intervals are Student-t's over paired differences with
    cluster-robust errors, at the level that the family leaves to a single test. A variant that did
    not act has no difference that chance could explain, and is not tested.

    Args:
        confidence: of the whole family, between 0 and 1.
    """
    first, places = variants[0].values, range(len(metrics))
    samples: dict[tuple[int, int], PairedSample] = {
        (at, place): pair(first[place], variants[at].values[place], clusters=clusters)
        for at in range(1, len(variants))
        for place in places
    }
    tested = [key for key, one in samples.items() if variants[key[0]].acted and len(one.clusters)]
    joint = family_test([samples[key] for key in tested], alpha=1 - confidence)
    raw = (test.p_value for test in joint.tests)
    p_values = dict(zip(tested, zip(raw, joint.p_values, strict=True), strict=True))
    rows = [
        [_scored(metric, values) for metric, values in zip(metrics, one.values, strict=True)]
        for one in variants
    ]
    for (at, place), sample in samples.items():
        p_value, corrected = p_values.get((at, place), (None, None))
        compared = _compared(rows[at][place], sample, confidence, 1 - joint.level)
        sign, after = _sign(metrics[place]), variants[at].values[place]
        rows[at][place] = replace(
            compared,
            p_value=p_value,
            p_corrected=corrected,
            is_significant=corrected is not None and corrected <= 1 - confidence,
            losses=tuple(_losses(sample, sign, first[place], after)),
        )
    return [tuple(row) for row in rows], len(tested)


def _scored(metric: Metric, values: Values) -> VariantEffect:
    known = [value for value in values.values() if value is not None]
    score = math.fsum(known) / len(known) if known else None
    return VariantEffect(metric=metric, score=score, measured=len(known))


def _compared(
    effect: VariantEffect, sample: PairedSample, confidence: float, together: float
) -> VariantEffect:
    totals, reach = sample.totals(), MetricColumn.of(effect.metric).reach
    alone = mean_interval(totals, confidence=confidence, bounds=reach)
    found = mean_interval(totals, confidence=together, bounds=reach)
    return replace(
        effect,
        compared=len(sample.clusters),
        difference=found.mean,
        low=found.low,
        high=found.high,
        alone=None if alone.low is None or alone.high is None else (alone.low, alone.high),
        gained=sample.gained,
        lost=sample.lost,
    )


def _sign(metric: Metric) -> int:
    return -1 if metric.definition.direction is Direction.LOWER else 1


def _losses(sample: PairedSample, sign: int, before: Values, after: Values) -> Iterator[CaseLoss]:
    changes = zip(sample.differences.tolist(), sample.case_ids, strict=True)
    losses = sorted((sign * change, case) for change, case in changes if sign * change < 0)
    for _, case in losses[:_LOSSES]:
        yield CaseLoss(case=case, before=before[case] or 0.0, after=after[case] or 0.0)


def what_to_keep(variants: Sequence[Measured], effects: Sequence[Sequence[VariantEffect]]) -> str:
    """What the first metric shows of the variants, in a sentence.

    Kept is the variant with the best score among those that are better than the first one beyond
    chance; the first one where there is none.
    """
    first, metric = variants[0].name, effects[0][0].metric
    better, worse, unclear, idle = dict[str, float](), list[str](), list[str](), list[str]()
    for variant, (effect, *_) in zip(variants[1:], effects[1:], strict=True):
        gain = _sign(metric) * (effect.difference or 0.0) if effect.is_significant else 0.0
        if gain > 0:
            better[variant.name] = gain
        else:
            (worse if gain < 0 else unclear if variant.acted else idle).append(variant.name)
    kept = max(better, key=better.__getitem__, default=first)
    said = {
        f"also better than {first}": [name for name in better if name != kept],
        f"inconclusive against {first}": unclear,
        f"worse than {first}": worse,
        "did not act": idle,
    }
    parts = [f"{', '.join(names)}: {result}" for result, names in said.items() if names]
    return f"By {metric.name}: {'; '.join([f'keep {kept}', *parts])}."
