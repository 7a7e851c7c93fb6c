"""Losses against the baseline: metrics, slices and coverage, tested as one family."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ragbench.core.case_table import Cells
from ragbench.core.gate_result import CheckKind, Drop, GateCheck, GateOutcome, Ground
from ragbench.core.metric import Direction
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.gate.config import GateConfig
from ragbench.gate.demands import Demand, on_cases
from ragbench.gate.figures import DERIVED, MEASURED
from ragbench.gate.words import worded
from ragbench.plugins import Integers, np
from ragbench.stats.decide import ChangeKind, Decision, RegressionQuestion, decide_family
from ragbench.stats.mean import MeanInterval, mean_interval
from ragbench.stats.paired import CaseScores, PairedSample, paired_columns

_HALF = 0.5
"""With less than this share of what there was, a loss needs no test."""
_FEW = 10
"""Below so many independent observations of what there was, half of them is no sign of anything."""
_LEFT = 0.05
"""Up to this share of what there was, nothing is left."""
LEAST = 3
"""So many documents, or cases without one, a noisy system loses by chance in 4% at most, if
nothing is left."""
_DOCUMENTS = 8
"""On no more documents than that a metric of which nothing is left never passes, though chance may
explain it. On more a test can show it, and many metrics need more to be lost."""
_OF_SLICE = (5, 0.8)
"""A slice fails without a test only if nothing is left of it, of at least so many observations of
what there was, and of at least such a mean: of many slices chance easily empties one."""
_ALONE = 0.2
"""Share of the level that slices have, apart from the metrics; benchmarks/gate_power.py."""
UNCHANGED = 0.4
"""Share of the level at which a system that did not change may be called worse; at the level itself
it is one that lost exactly what is tolerated. benchmarks/gate_noise.py."""
OF_LIMITS = 0.2
"""Share of the level of figures beyond a limit that the baseline was better in."""


class DropQuestion(RegressionQuestion):
    """Did this metric fall by more than is tolerated, on all cases or on a slice?"""

    kind: CheckKind
    """A drop on all cases, on a slice, or of coverage."""
    column: MetricColumn
    slice: str | None = None
    """Its name; None for all cases."""
    same: tuple[str, ...] = ()
    """Metrics that are the same number on every case."""

    def check(self, drop: Drop | None, outcome: GateOutcome, ground: Ground) -> GateCheck:
        """The check that answers this question, whether a metric fell by more than is tolerated.

        Tables, words and the verdict of a gate are made of such checks.

        Args:
            drop: the numbers; None where no case was measured in both runs.
            ground: the reason for the outcome, of which the check's sentences are made.
        """
        return GateCheck(
            kind=self.kind,
            subject=self.column.name,
            outcome=outcome,
            ground=ground,
            observed=None if drop is None else drop.after,
            limit=self.tolerance,
            bound="max_drop",
            cases=0 if drop is None else drop.cases,
            slice=self.slice,
            unit=self.column.unit,
            drop=drop,
            same=self.same,
        )


def drop_questions(
    demands: Sequence[Demand], run: RunScores, baseline: RunScores
) -> Iterator[DropQuestion]:
    """A question for each demanded ``max_drop``: whether the metric fell by more than that.

    A question is of all cases or of a slice. All are asked before any is judged: they are tested as
    one family, whose level they share.
    """
    for demand, name, places in on_cases(demands, run):
        if demand.limits.max_drop is not None:
            yield DropQuestion(
                kind=CheckKind.DROP if name is None else CheckKind.SLICE,
                column=demand.column,
                tolerance=demand.limits.max_drop,
                largest_drop=demand.column.scale,
                sample=paired(demand.column, run, baseline, places=places),
                slice=name,
            )


class _SameNumbers(NamedTuple):
    """What two questions share where their metrics are the same number on every case."""

    slice: str | None
    tolerance: float
    largest_drop: float | None
    group: str
    """Metrics of two groups are the same number only by chance."""
    sign: float
    """1 where more is better, else -1."""
    unit: str
    differences: int
    """Digest of the measured places and of the differences there."""
    before: float | None
    after: float | None
    name: str
    """Of a metric that no case measured, which is the same as no other; else empty."""

    @classmethod
    def of(cls, question: DropQuestion) -> _SameNumbers:
        """The numbers of a question, equal for two metrics that are the same in every case.

        Questions with equal numbers are tested once: a second test of the same numbers would cost
        the others power for nothing.
        """
        sample = question.sample
        column = question.column
        # As bytes of one type: equal places give equal bytes.
        places = np.asarray(sample.places, np.int64).tobytes()
        return cls(
            slice=question.slice,
            tolerance=question.tolerance,
            largest_drop=question.largest_drop,
            group=column.group,
            sign=column.sign,
            unit=column.unit,
            # Within one process only, where equal bytes hash alike: the number is not stored.
            differences=hash((places, sample.differences.tobytes())),
            before=sample.before,
            after=sample.after,
            # Metrics without any case all have the same numbers, and are not the same: their names
            # keep them apart.
            name="" if len(sample.places) else column.name,
        )


def one_row_each(questions: Iterable[DropQuestion]) -> Iterator[DropQuestion]:
    """The questions, with those merged whose metrics are the same number in every case.

    With one relevant chunk for each case, recall and hit rate are one number: they become one row
    of the gate and one test. The first of them is kept, and names the others.
    """
    questions_of_numbers: dict[_SameNumbers, list[DropQuestion]] = {}
    for question in questions:
        numbers = _SameNumbers.of(question)
        questions_of_numbers.setdefault(numbers, []).append(question)
    # In the order of the first question of each group.
    for shown, *repeated in questions_of_numbers.values():
        names = [question.column.name for question in repeated]
        yield replace(shown, same=tuple(names))


def paired(
    column: MetricColumn, run: RunScores, baseline: RunScores, *, places: Integers | None = None
) -> PairedSample:
    """The scores of one metric in two runs, paired case by case for a test.

    Pairs take out how hard each case is, so that a test sees smaller changes.

    Args:
        baseline: with the same cases in the same order.
        places: positions of the cases that are paired; all of them when not given.
    """
    before = baseline.cells(column.name)
    now = run.cells(column.name)
    ids = run.table.ids
    clusters = run.clusters
    if places is not None:
        # Cells of a slice are a copy: the table itself stays whole.
        before = before.take(places)
        now = now.take(places)
        chosen: list[int] = places.tolist()
        ids = [ids[place] for place in chosen]
        clusters = [clusters[place] for place in chosen]

    repeats = None
    # Only where some case was asked several times: the test then asks for the times case by case.
    if now.repeats or before.repeats:
        repeats = partial(_scores_each_time, now, before)
    return paired_columns(
        before.values,
        now.values,
        ids=ids,
        labels=clusters,
        higher_is_better=column.sign > 0.0,
        repeats=repeats,
    )


def _scores_each_time(now: Cells, before: Cells, place: int) -> CaseScores:
    """A case's scores each time that it was asked, in this run and in the baseline.

    The scatter between times is a part of the noise that a test reckons with.

    Args:
        now: this run's cells of a metric.
        before: the baseline's, with the same cases in the same order.
        place: position of the case.
    """
    return now.asked(place).values, before.asked(place).values


def coverage_questions(
    columns: Iterable[MetricColumn], run: RunScores, baseline: RunScores, tolerance: float
) -> Iterator[DropQuestion]:
    """For each metric the question whether fewer cases are measured than in the baseline.

    A system that declines what it used to get wrong has a better mean, and is not better. All cases
    that either run measured are looked at: of those that the baseline measured alone, every later
    run measures fewer, as each run measures some that the other does not. Metrics that are measured
    on the same cases are asked about once.

    Args:
        columns: the metrics that are held.
        tolerance: largest loss of the share of measured cases that is accepted.
    """
    # By the bytes of the two columns of coverage, which are equal where the columns are.
    names_by_coverage: dict[tuple[bytes, bytes], list[str]] = {}
    for column in columns:
        if column.name in DERIVED:
            continue  # measured on every case that they apply to
        before = baseline.cells(column.name).coverage
        after = run.cells(column.name).coverage
        # Nothing was measured before: nothing can be lost.
        if not np.nansum(before):
            continue
        # A case that one run measures, and to which the metric does not even apply in the other,
        # counts as not measured there.
        lost = np.isnan(after) & (before > 0.0)
        # `coverage` is made anew at each reading, so that the table is not changed here.
        gained = np.isnan(before) & (after > 0.0)
        after[lost] = 0.0
        before[gained] = 0.0
        coverage = (before.tobytes(), after.tobytes())
        names_by_coverage.setdefault(coverage, []).append(column.name)
    for (before_bytes, after_bytes), (name, *same_names) in names_by_coverage.items():
        sample = paired_columns(
            np.frombuffer(before_bytes),
            np.frombuffer(after_bytes),
            ids=run.table.ids,
            labels=run.clusters,
            repeats=_coverage_each_time(run.cells(name), baseline.cells(name)),
            # By the first of the metrics: the others are measured on the same cases.
        )
        yield DropQuestion(
            kind=CheckKind.COVERAGE,
            column=replace(_COVERAGE, name=f"{MEASURED}{name}"),
            same=tuple(same_names),
            tolerance=tolerance,
            largest_drop=_COVERAGE.scale,
            sample=sample,
        )


def shown_checks(
    columns: Iterable[MetricColumn], run: RunScores, baseline: RunScores
) -> Iterator[GateCheck]:
    """Checks of metrics of which nothing is demanded: how they moved, without a verdict.

    Each further test would cost the metrics that are held some of their power.
    """
    for column in columns:
        sample = paired(column, run, baseline)
        # Not measured in both runs on any case.
        if not len(sample.places):
            continue
        question = DropQuestion(
            kind=CheckKind.DROP,
            column=column,
            tolerance=0.0,
            largest_drop=column.scale,
            sample=sample,
        )
        # Without a test, the interval is that of the mean difference alone.
        interval = mean_interval(sample.totals(), bounds=column.reach)
        drop = _untested_drop(question, interval)
        yield worded(question.check(drop, GateOutcome.NOT_JUDGED, Ground.NOT_HELD))


_COVERAGE = MetricColumn(
    name="", version=1, group="", direction=Direction.HIGHER, low=0.0, high=1.0, unit="share"
)
"""The share of cases that a metric measures, as a metric of its own; it gets a name by metric."""


def _coverage_each_time(now: Cells, earlier: Cells) -> Callable[[int], CaseScores] | None:
    """A function that gives whether a case was measured each time; None if no run asked repeatedly.

    The scatter between times is a part of the noise that a test of coverage reckons with.
    """
    if not now.repeats and not earlier.repeats:
        return None

    return partial(_coverage_of_case, now, earlier)


def _coverage_of_case(now: Cells, earlier: Cells, place: int) -> CaseScores:
    """Whether a case was measured, 1 or 0, each time that it was asked: in this run and before.

    A test of coverage takes the scatter between these times for noise.

    Args:
        now: this run's cells of a metric.
        earlier: the baseline's, with the same cases in the same order.
        place: position of the case.
    """
    after = now.asked(place).coverage
    before = earlier.asked(place).coverage
    # As for the means: where the metric applies in one run alone, the other did not measure.
    if any(before) and not _applies(after):
        after = (0.0,) * len(after)
    if any(after) and not _applies(before):
        before = (0.0,) * len(before)
    return after, before


def _applies(coverage: Sequence[float | None]) -> bool:
    """Whether a metric applied to a case any of the times that it was asked.

    To a case without it, nothing could be measured: it is not counted as unmeasured.
    """
    return any(measured is not None for measured in coverage)


def drop_checks(
    questions: Sequence[DropQuestion], config: GateConfig, *, part: float = 1.0
) -> list[GateCheck]:
    """Judges metrics and their coverage as one family of tests, and slices as another.

    Each family has a level of its own: as one family, fifty slices would cost the metrics most of
    their power.

    The shares of the level, `UNCHANGED` and `_ALONE`, were measured by benchmarks/gate_noise.py and
    benchmarks/gate_power.py.

    Args:
        part: share of the level that these questions have; labels of people may have the rest.
    """
    on_slices: list[DropQuestion] = []
    unmoved: list[DropQuestion] = []
    on_all_cases: list[DropQuestion] = []
    for question in questions:
        # Of coverage, whether any case is measured in one run only.
        has_moved = question.sample.differences.any()
        if question.slice is not None:
            on_slices.append(question)
        elif question.kind is CheckKind.COVERAGE and not has_moved:
            # Where the same cases are measured there is nothing to find, whichever run is the
            # baseline: it costs the others no power.
            unmoved.append(question)
        else:
            on_all_cases.append(question)

    alpha = config.alpha * part
    return [
        *_family_checks(on_all_cases, config, alpha, alpha_unchanged=alpha * UNCHANGED),
        *_family_checks(on_slices, config, alpha * _ALONE, alpha_unchanged=None),
        *_family_checks(unmoved, config, alpha, alpha_unchanged=None),
    ]


def _family_checks(
    family: Sequence[DropQuestion],
    config: GateConfig,
    alpha: float,
    *,
    alpha_unchanged: float | None,
) -> list[GateCheck]:
    """The checks of questions that are tested together and share one level, in their order.

    With one level for all, they together give a false alarm as rarely as one test alone would.

    A question asks whether a metric fell by more than is tolerated.

    Args:
        alpha: the level at which a loss is shown.
        alpha_unchanged: the level for a system that did not change; None: none of its own.
    """
    if not family:
        return []
    # By name: the signs that are drawn depend on the order.
    ordered = sorted(family, key=lambda question: (question.column.name, question.slice or ""))
    decided = decide_family(
        ordered, alpha=alpha, alpha_not_worse=config.alpha, alpha_unchanged=alpha_unchanged
    )
    decisions = dict(zip(ordered, decided, strict=True))
    # Each row is one more chance of a false one.
    # Coverage is no row of its own: it is judged beside its metric.
    rows = [question for question in family if question.kind is not CheckKind.COVERAGE]
    enough = _FEW * (1.0 + math.log2(max(len(rows), 1)))
    checks: list[GateCheck] = []
    for question in family:
        checks.append(_check_of_question(question, decisions[question], config.min_cases, enough))
    return checks


def _check_of_question(
    question: DropQuestion, decision: Decision, least: int, enough: float
) -> GateCheck:
    """The check of a question: the ground that its test gives, and the outcome of that ground.

    A loss that is too large for chance fails even where the test is open.

    A question asks whether a metric fell by more than is tolerated; a ground is the reason for an
    outcome.

    Args:
        least: measured cases that are demanded.
        enough: observations of what there was, from which on losing half of them is no chance.
    """
    drop = None
    if len(question.sample.places):
        drop = _tested_drop(question, decision)
    ground = _ground_of_test(question.sample, decision, drop, least)
    # A test that shows the loss needs no other sign; too few cases excuse any.
    if drop is not None and ground not in (Ground.SHOWN, Ground.TOO_FEW_CASES):
        ground = _too_much(question, drop, enough) or ground
    # A metric that rose has lost nothing, however unsure the test is.
    if drop is not None and drop.loss < 0.0 and ground in _NOT_SHOWN:
        ground = Ground.NOT_LOWER

    passes = ground in _PASSING
    if question.kind is CheckKind.COVERAGE:  # what is tolerated is no question
        # Measuring fewer cases fails only where it is shown or too much.
        passes = drop is None or drop.loss <= drop.tolerance
    if ground in (Ground.SHOWN, Ground.HALVED, Ground.ALL_LOST):
        outcome = GateOutcome.FAILED
    elif passes:
        outcome = GateOutcome.PASSED
    else:
        outcome = GateOutcome.INCONCLUSIVE
    # Worded last: the sentences are made of outcome and ground.
    return worded(question.check(drop, outcome, ground), least=least)


_PASSING = (Ground.RULED_OUT, Ground.UNCHANGED, Ground.NONE_LOST, Ground.NOT_LOWER)
"""Grounds on which a check of a drop passes."""
_NOT_SHOWN = (Ground.OPEN, Ground.RARE_LOSSES, Ground.TOO_FEW_CLUSTERS)
"""Grounds that leave a loss open; of a metric that did not fall, there is no loss to be open."""


def _too_much(question: DropQuestion, drop: Drop, enough: float) -> Ground | None:
    """The ground of a loss that is too large to need a test; None for any other loss.

    On few cases no test can show even that everything was lost. The least numbers of cases keep a
    noisy system from failing by chance.

    A ground is the reason for an outcome.

    Args:
        enough: observations of what there was, from which on losing half of them is no chance.
    """
    is_halved = drop.after < _HALF * drop.before
    if question.kind is CheckKind.COVERAGE:
        measured_before = drop.before * drop.cases
        return Ground.HALVED if is_halved and measured_before >= _FEW else None
    # Half of a mean is half of what there was only where 0 is the worst value.
    if question.column.low != 0.0 or drop.rises or drop.loss <= drop.tolerance:
        return None

    # How much there was: a mean of 0.5 over 8 documents is 4.
    had = drop.before * drop.clusters
    is_all = drop.after <= _LEFT * drop.before
    if question.slice is not None:
        least_had, least_share = _OF_SLICE
        is_lost = is_all and had >= least_had and drop.before >= least_share
        return Ground.ALL_LOST if is_lost else None

    are_few = drop.clusters <= _DOCUMENTS
    if is_all:
        # Every metric is one more chance of a false loss. Where a test can show a loss, too, many
        # metrics need more documents that lose.
        # Documents on which something was lost.
        losing = sum(total < 0.0 for total in question.sample.totals().sums)
        # Of more than `_DOCUMENTS` more must lose, the more metrics there are.
        needed = LEAST if are_few else LEAST - 1.0 + enough / _FEW
        if losing >= needed:
            return Ground.ALL_LOST
    if is_halved and had >= enough:
        return Ground.HALVED
    return Ground.ALL_OF_FEW_LOST if is_all and are_few else None


def _ground_of_test(
    sample: PairedSample, decision: Decision, drop: Drop | None, least: int
) -> Ground:
    """The ground that the test of a question gives: the reason for an outcome.

    The more telling grounds come first, so that the order of the lines matters.

    Args:
        drop: None where nothing was measured.
        least: measured cases that are demanded.
    """
    if drop is None:
        return Ground.NOTHING_MEASURED
    if drop.cases < least:
        return Ground.TOO_FEW_CASES
    if decision.change is ChangeKind.WORSE:
        return Ground.SHOWN
    if decision.change is ChangeKind.NOT_WORSE:
        return Ground.RULED_OUT
    if sample.lost == 0:
        # Without a case that lost, the metric is unchanged, or better.
        return Ground.UNCHANGED if sample.gained == 0 else Ground.NONE_LOST
    if decision.test.informative == 0:
        return Ground.EXACTLY_TOLERATED
    # A few large gains may hide a loss of most cases.
    if decision.hides_rare_gains:
        return Ground.RARE_GAINS
    # On so few documents no test of this level could ever show a loss.
    if not decision.can_show:
        return Ground.TOO_FEW_CLUSTERS
    interval = decision.difference
    # An interval without an end has its mean as the only guide.
    low = interval.mean if interval.low is None else interval.low
    if low is not None and low > -drop.tolerance:
        return Ground.RARE_LOSSES  # the interval holds no such loss, and yet one may be rare
    return Ground.OPEN


def _tested_drop(question: DropQuestion, decision: Decision) -> Drop:
    """The numbers of a drop that was tested, as a verdict shows them.

    The p-values and the smallest drop that the cases could show are of the test.
    """
    untested = _untested_drop(question, decision.difference)
    return replace(
        untested,
        tolerance=decision.tolerance,
        p_worse=decision.p_worse,
        resolution=decision.resolution,
        p_not_worse=decision.p_not_worse,
        family=decision.family,
        can_show=decision.can_show,
        detectable_drop=decision.detectable_drop,
        needed=decision.needed,
    )


def _untested_drop(question: DropQuestion, interval: MeanInterval) -> Drop:
    """The numbers of a metric's drop, how it moved and on which cases, without those of a test.

    Every drop begins so. `_tested_drop` puts the numbers of its test in their place; a metric of
    which nothing is demanded (`shown_checks`) stays so. Numbers that a test would give have values
    that claim nothing: a p-value of 1, no tolerance, a family of none.

    Args:
        interval: of the mean difference, in which a loss is negative.
    """
    sample = question.sample
    difference = interval.mean or 0.0
    low = interval.low
    high = interval.high
    rises = question.column.sign < 0.0
    # A metric of which less is better: its mean rises with a loss.
    if rises:
        # Tests count a loss as negative; a verdict speaks in the metric's own direction.
        difference = -difference
        # Subtracted from 0.0, so that no -0.0 comes out; the ends change places.
        low = None if interval.high is None else 0.0 - interval.high
        high = None if interval.low is None else 0.0 - interval.low
    return Drop(
        before=sample.before or 0.0,  # None without any case
        after=sample.after or 0.0,
        difference=difference + 0.0,  # never -0.0, which JSON would show
        low=low,
        high=high,
        confidence=interval.confidence,
        tolerance=0.0,
        p_worse=1.0,
        resolution=0.0,
        p_not_worse=1.0,
        family=0,
        cases=interval.cases,
        clusters=interval.clusters,
        can_show=False,
        better=sample.gained,
        worse=sample.lost,
        left_out=sample.left_out,
        detectable_drop=None,
        needed=None,
        rises=rises,
    )


def is_lower(column: MetricColumn, run: RunScores, baseline: RunScores, alpha: float) -> bool:
    """Whether a test shows the baseline to be better in a metric, by however little.

    A figure beyond its absolute limit fails for this reason, too.

    Args:
        alpha: level of the whole gate.
    """
    sample = paired(column, run, baseline)
    return has_lost(sample, column.scale, alpha)


def has_lost(sample: PairedSample, scale: float | None, alpha: float) -> bool:
    """Whether a test shows a loss of any size between two runs.

    A figure beyond a limit fails then: its loss is no noise.

    Args:
        scale: the largest loss of one case; None when unbounded.
        alpha: level of the whole gate, of which the test has a share, `OF_LIMITS`.
    """
    if not len(sample.places):
        return False
    # Without a tolerance: a loss of any size is asked for.
    question = RegressionQuestion(sample=sample, largest_drop=scale)
    (decision,) = decide_family([question], alpha=alpha * OF_LIMITS)
    return decision.change is ChangeKind.WORSE
