"""Metrics of several runs, and of the variants of one: figures, and differences that hold."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from ragbench.core.ablation import CaseLoss, VariantEffect
from ragbench.core.comparison import Difference, MetricComparison, RunFigure
from ragbench.core.left_out import LEFT_OUT
from ragbench.core.metric import Direction, Metric
from ragbench.core.outcome import Status
from ragbench.core.record import Record, replace
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.gate.cases import interval_of
from ragbench.stats.family import family_test
from ragbench.stats.mean import mean_interval
from ragbench.stats.paired import PairedSample, pair, paired_columns

ALPHA = 0.05
"""Level of the whole family of tests."""
CONFIDENCE = 0.95
"""Of the intervals, which are not corrected."""

Marked = tuple[str, RunScores]
"""A run under its letter."""


def metric_comparisons(
    runs: Sequence[Marked], columns: Sequence[MetricColumn], *, restricted: bool
) -> tuple[tuple[MetricComparison, ...], int]:
    """Compares runs of the same cases, metric by metric, and tests each difference.

    Each pair of runs is tested by flipping signs of whole clusters, two-sided, in all metrics
    jointly (`ragbench.stats.family`); p-values are multiplied by the number of pairs. Metrics on so
    few independent cases that they could never be significant are left out of the correction.

    Without the correction, some of many metrics would seem to differ by chance.

    Args:
        runs: each under its letter.
        restricted: whether cases were left out, so that a run's own figure is of more cases.

    Returns:
        The comparisons, and how many tests they are corrected for.
    """
    # By metric a reason, or None where it is tested.
    untested = {column.name: _why_untested(column, runs) for column in columns}
    tested = [column for column in columns if untested[column.name] is None]
    # By name: the signs that a test draws depend on the order.
    tested.sort(key=lambda column: column.name)
    differences, family = _differences(runs, tested)
    comparisons: list[MetricComparison] = []
    for column in columns:
        # Metrics that are not tested have no difference, but are listed.
        metric_differences = differences.get(column.name, [])
        figures = [_figure_of_run(mark, run, column.name, restricted) for mark, run in runs]
        comparisons.append(
            MetricComparison(
                name=column.name,
                group=column.group,
                direction=column.direction,
                unit=column.unit,
                figures=_with_beaten_runs(figures, metric_differences, column.direction),
                differences=tuple(metric_differences),
                untested=untested[column.name],
            )
        )
    return tuple(comparisons), family


OTHER_VERSION = "the runs measured it by formulas of different versions"
OTHER_CODE = "the code that computes it has changed between the runs"
"""Why two runs' figures of a metric do not compare, like `OTHER_VERSION`."""


def _why_untested(column: MetricColumn, runs: Sequence[Marked]) -> str | None:
    """The reason why no difference of a metric is tested; None where it is.

    A comparison shows the reason in place of a difference, so that no reader takes it for none.
    """
    if column.no_mean:
        return column.no_mean
    runs_with_metric = 0
    versions: set[int] = set()
    identities: set[str] = set()
    for _, run in runs:
        column_of_run = run.column(column.name)
        # A run that lacks the metric does not keep the others from being compared.
        if column_of_run is not None:
            runs_with_metric += 1
            versions.add(column_of_run.version)
            identities.add(column_of_run.identity)
    # Versions first: an updated formula has other code as well.
    if len(versions) > 1:
        return OTHER_VERSION
    if len(identities) > 1:
        return OTHER_CODE
    if runs_with_metric < 2:
        return "only one run measured it"
    return None


def _differences(
    runs: Sequence[Marked], columns: Sequence[MetricColumn]
) -> tuple[Mapping[str, list[Difference]], int]:
    """By metric, the differences of each pair of runs; and how many tests they are corrected for.

    Metrics of one pair of runs are tested jointly; several pairs are corrected by their number.
    Signs may be flipped in all metrics of two runs that can be swapped. Of three runs that can be,
    the differences of the three pairs need not all turn around together.
    """
    pairs: list[tuple[Marked, Marked, list[MetricColumn]]] = []
    for first_marked, second_marked in combinations(runs, 2):
        _, first_run = first_marked
        _, second_run = second_marked
        shared_columns: list[MetricColumn] = []
        for column in columns:
            # The runs of a pair, whatever the others measured.
            if first_run.column(column.name) and second_run.column(column.name):
                shared_columns.append(column)
        if shared_columns:
            pairs.append((first_marked, second_marked, shared_columns))

    differences: dict[str, list[Difference]] = defaultdict(list)
    family = 0
    # All runs have the same cases, and so the same clusters.
    _, any_run = runs[0]
    clusters = any_run.clusters
    for (first_mark, first_run), (second_mark, second_run), shared_columns in pairs:
        samples: list[PairedSample] = []
        for column in shared_columns:
            sample = paired_columns(
                first_run.cells(column.name).values,
                second_run.cells(column.name).values,
                ids=first_run.table.ids,
                labels=clusters,
            )
            samples.append(sample)
        # Each pair has its part of the level.
        joint = family_test(samples, alpha=ALPHA / len(pairs))
        family += joint.size
        for place, column in enumerate(shared_columns):
            difference = _difference_of_pair(
                (first_mark, second_mark),
                column,
                samples[place],
                p_value=joint.tests[place].p_value,
                # Bonferroni over the pairs, on top of the correction within each.
                p_corrected=min(1.0, len(pairs) * joint.p_values[place]),
                resolution=len(pairs) * joint.resolution,
            )
            differences[column.name].append(difference)
    return differences, family


def _difference_of_pair(
    marks: tuple[str, str],
    column: MetricColumn,
    sample: PairedSample,
    *,
    p_value: float,
    p_corrected: float,
    resolution: float,
) -> Difference:
    """How a metric differs between two runs, with its interval, and whether that may be chance.

    Tables mark a difference as significant by this record; they test nothing.

    Args:
        marks: the letters of the two runs.
        p_corrected: the p-value corrected for all metrics and pairs.
        resolution: the smallest p-value that is possible on so few cases.
    """
    first_mark, second_mark = marks
    interval = mean_interval(sample.totals(), confidence=CONFIDENCE, bounds=column.reach)
    # By the marks of the runs that lack a value: the first one, the second one, or both.
    left_out: dict[str, int] = {}
    lacking_marks = (first_mark, second_mark, f"{first_mark}, {second_mark}")
    # The last three reasons of `LEFT_OUT`, in this order.
    for lacking, reason in zip(lacking_marks, LEFT_OUT[2:], strict=True):
        if reason in sample.left_out:
            left_out[lacking] = sample.left_out[reason]
    return Difference(
        first=first_mark,
        second=second_mark,
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
        left_out=left_out,
    )


def _figure_of_run(mark: str, run: RunScores, metric: str, restricted: bool) -> RunFigure:
    """A metric's figure in one run, with its interval and how many cases were measured or not.

    The counts show a reader which figures rest on few cases, or on others than the next run's.

    Args:
        mark: the run's letter.
        restricted: whether cases were left out, so that the run's own figure is of more cases: then
            the mean over the remaining cases is shown.
    """
    cells = run.cells(metric)
    column = run.column(metric)
    score = None
    interval = None
    if column is not None:
        # A figure over the whole run has neither mean nor interval of cases.
        if not column.no_mean:
            estimate = interval_of(run, column)
            score = estimate.mean
            interval = estimate.reported
        # The figure as the run reported it; with fewer cases, the mean over those that are left.
        if not restricted:
            score = column.score
    return RunFigure(
        run=mark,
        score=score,
        interval=interval,
        measured=int(cells.has(Status.MEASURED).sum()),
        abstained=int(cells.has(Status.ABSTAINED).sum()),
        skipped=int(cells.has(Status.SKIPPED).sum()),
        failed=int(cells.has(Status.FAILED).sum()),
    )


def _with_beaten_runs(
    figures: Sequence[RunFigure], differences: Sequence[Difference], direction: Direction
) -> tuple[RunFigure, ...]:
    """The figures of a metric, each with the letters of the runs that it significantly beats.

    Tables print these letters behind a figure.
    """
    beaten_runs: dict[str, list[str]] = {figure.run: [] for figure in figures}
    # A metric without a better side is marked as if higher were better.
    is_higher_better = direction is not Direction.LOWER
    for difference in differences:
        if not difference.is_significant or not difference.difference:
            continue
        # The difference is the second run's figure less the first one's.
        has_risen = difference.difference > 0
        if has_risen is is_higher_better:
            beaten_runs[difference.second].append(difference.first)
        else:
            beaten_runs[difference.first].append(difference.second)
    marked_figures: list[RunFigure] = []
    for figure in figures:
        better_than = tuple(beaten_runs[figure.run])
        marked_figures.append(replace(figure, better_than=better_than))
    return tuple(marked_figures)


_MAX_LOSSES = 1000
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
    """The score of each variant of a system, and how it differs from the first variant.

    A variant is the same system with one part changed. All comparisons of variants that acted form
    one family. Their p-values are those of two-sided sign flips of whole clusters, corrected for
    the family by its largest statistic; see `ragbench.stats.family`. The intervals are Student-t's
    over paired differences with cluster-robust errors, at the level that the family leaves to a
    single test. A variant that did not act has no difference that chance could explain, and is not
    tested.

    Args:
        confidence: of the whole family, between 0 and 1.
    """
    alpha = 1 - confidence
    original = variants[0]
    samples: dict[tuple[int, int], PairedSample] = {}
    """By the places of the variant and of the metric."""
    tested: list[tuple[int, int]] = []
    for place, variant in enumerate(variants[1:], start=1):
        for position in range(len(metrics)):
            sample = pair(original.values[position], variant.values[position], clusters=clusters)
            samples[place, position] = sample
            # A variant that left everything as it was cannot differ but by chance of the metric.
            if variant.acted and len(sample.clusters):
                tested.append((place, position))
    # All variants and metrics are one family.
    joint = family_test([samples[key] for key in tested], alpha=alpha)
    p_values: dict[tuple[int, int], tuple[float, float]] = {}
    for key, test, corrected in zip(tested, joint.tests, joint.p_values, strict=True):
        p_values[key] = test.p_value, corrected

    effects: list[tuple[VariantEffect, ...]] = []
    for place, variant in enumerate(variants):
        effects_of_variant: list[VariantEffect] = []
        for position, metric in enumerate(metrics):
            values = variant.values[position]
            effect = _effect_of_variant(metric, values)
            if place > 0:
                sample = samples[place, position]
                effect = _with_difference(effect, sample, confidence, 1 - joint.level)
                losses = _losses_of_variant(sample, metric, original.values[position], values)
                effect = replace(effect, losses=tuple(losses))
            # Variants that did not act have no p-value.
            if (place, position) in p_values:
                p_value, corrected = p_values[place, position]
                effect = replace(
                    effect,
                    p_value=p_value,
                    p_corrected=corrected,
                    is_significant=corrected <= alpha,
                )
            effects_of_variant.append(effect)
        effects.append(tuple(effects_of_variant))
    return effects, len(tested)


def _effect_of_variant(metric: Metric, values: Values) -> VariantEffect:
    """The mean of a metric over the cases that a variant measured, before any comparison.

    The first variant has nothing to be compared with, and stays so.
    """
    measured_values = [value for value in values.values() if value is not None]
    score = None
    if measured_values:
        score = math.fsum(measured_values) / len(measured_values)
    return VariantEffect(metric=metric, score=score, measured=len(measured_values))


def _with_difference(
    effect: VariantEffect, sample: PairedSample, confidence: float, together: float
) -> VariantEffect:
    """A variant's effect with its difference from the first variant and two intervals.

    One interval holds together with those of all variants, and one by itself.

    The first allows statements on all variants together, the second on this one alone.

    Args:
        confidence: of the interval by itself.
        together: confidence of each interval with which the intervals of all hold together.
    """
    totals = sample.totals()
    reach = MetricColumn.of(effect.metric).reach
    # At the level that the family leaves to one test.
    interval = mean_interval(totals, confidence=together, bounds=reach)
    single = mean_interval(totals, confidence=confidence, bounds=reach)
    single_interval = None
    if single.low is not None and single.high is not None:
        single_interval = (single.low, single.high)
    return replace(
        effect,
        before=sample.before,
        after=sample.after,
        compared=len(sample.clusters),
        difference=interval.mean,
        low=interval.low,
        high=interval.high,
        alone=single_interval,
        gained=sample.gained,
        lost=sample.lost,
    )


def _sign_of_gain(metric: Metric) -> int:
    """1 where a higher value of the metric is better, else -1.

    A difference times this sign is a gain where it is positive.
    """
    if metric.definition.direction is Direction.LOWER:
        return -1
    return 1


def _losses_of_variant(
    sample: PairedSample, metric: Metric, before: Values, after: Values
) -> Iterator[CaseLoss]:
    """The cases that a variant made worse by a metric, the largest loss first.

    At most `_MAX_LOSSES`: a report of millions of cases must stay readable.
    """
    sign = _sign_of_gain(metric)
    losses: list[tuple[float, str]] = []
    for difference, case in zip(sample.differences.tolist(), sample.case_ids, strict=True):
        gain = sign * difference
        if gain < 0:
            losses.append((gain, case))
    losses.sort()  # the most negative gain first; of equal ones, by id
    for _, case in losses[:_MAX_LOSSES]:
        # Neither value is None: a pair is made only of two values.
        yield CaseLoss(case=case, before=before[case] or 0.0, after=after[case] or 0.0)


def what_to_keep(variants: Sequence[Measured], effects: Sequence[Sequence[VariantEffect]]) -> str:
    """A sentence that says which variant to keep, by the first metric.

    The sentence names the variant with the best score among those that are better than the first
    one beyond chance; the first variant where there is none.

    A user who tried variants wants this answer first.
    """
    original = variants[0].name
    metric = effects[0][0].metric
    gains: dict[str, float] = {}
    worse: list[str] = []
    unclear: list[str] = []
    idle: list[str] = []
    for variant, effects_of_variant in zip(variants[1:], effects[1:], strict=True):
        effect = effects_of_variant[0]
        gain = 0.0
        # Only what is significant counts as a gain or a loss.
        if effect.is_significant:
            gain = _sign_of_gain(metric) * (effect.difference or 0.0)
        if gain > 0:
            gains[variant.name] = gain
        elif gain < 0:
            worse.append(variant.name)
        elif variant.acted:
            unclear.append(variant.name)
        else:
            idle.append(variant.name)

    # Without a better one the first stays.
    best = max(gains, key=gains.__getitem__, default=original)
    also_better = [name for name in gains if name != best]
    names_by_result = {
        f"also better than {original}": also_better,
        f"inconclusive against {original}": unclear,
        f"worse than {original}": worse,
        "did not act": idle,
    }
    parts = [f"keep {best}"]
    for result, names in names_by_result.items():
        if names:
            parts.append(f"{', '.join(names)}: {result}")
    return f"By {metric.name}: {'; '.join(parts)}."
