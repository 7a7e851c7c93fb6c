"""Losses against the baseline: metrics, slices and coverage, tested as one family."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ragbench.core.case_table import Cells
from ragbench.core.gate_result import CheckKind, Drop, GateCheck, GateOutcome, Ground
from ragbench.core.metric import Direction
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.gate.config import GateConfig
from ragbench.gate.demands import Demand, on_cases
from ragbench.gate.figures import DERIVED
from ragbench.gate.words import worded
from ragbench.plugins import Integers, np
from ragbench.stats.decide import ChangeKind, Decision, RegressionQuestion, decide_family
from ragbench.stats.mean import Interval, mean_interval
from ragbench.stats.paired import CaseScores, PairedSample, paired_columns

_HALF = 0.5
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
"""The same of a slice, of which there are many; and the least share of it that was had."""
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
    column: MetricColumn
    slice: str | None = None
    same: tuple[str, ...] = ()
    """Metrics that are the same number on every case."""

    def check(self, drop: Drop | None, outcome: GateOutcome, ground: Ground) -> GateCheck:
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
    for demand, name, places in on_cases(demands, run):
        if demand.limits.max_drop is not None:
            yield DropQuestion(
                kind=CheckKind.DROP if name is None else CheckKind.SLICE,
                column=demand.column,
                tolerance=demand.limits.max_drop,
                largest_drop=demand.column.scale,
                sample=paired(demand.column, run, baseline, at=places),
                slice=name,
            )


def one_row_each(questions: Iterable[DropQuestion]) -> Iterator[DropQuestion]:
    """The questions, those about metrics that are one number as one: recall, hit rate, MRR ..."""
    groups: dict[tuple[Any, ...], list[DropQuestion]] = {}
    for one in questions:
        sample, column = one.sample, one.column
        places = np.asarray(sample.places, np.int64).tobytes()
        figures = (hash((places, sample.differences.tobytes())), sample.before, sample.after)
        limits = (one.slice, one.tolerance, one.largest_drop)
        # Of other groups none is the same number but by chance.
        kind = (column.group, column.sign, column.unit)
        key = (*limits, *kind, *(figures if len(sample.places) else (column.name,)))
        groups.setdefault(key, []).append(one)
    for first, *others in groups.values():
        yield replace(first, same=tuple(other.column.name for other in others))


def paired(
    column: MetricColumn, run: RunScores, baseline: RunScores, *, at: Integers | None = None
) -> PairedSample:
    """One metric of two runs of the same cases in the same order; or of some of these."""
    before, now = baseline.cells(column.name), run.cells(column.name)
    ids, labels = run.table.ids, run.clusters
    if at is not None:
        order: list[int] = at.tolist()
        before, now = before.take(at), now.take(at)
        ids, labels = [ids[place] for place in order], [labels[place] for place in order]
    return paired_columns(
        before.values,
        now.values,
        ids=ids,
        labels=labels,
        higher_is_better=column.sign > 0.0,
        repeats=(lambda at: (now.asked(at).values, before.asked(at).values))
        if now.repeats or before.repeats
        else None,
    )


def coverage_questions(
    columns: Iterable[MetricColumn], run: RunScores, baseline: RunScores, tolerance: float
) -> Iterator[DropQuestion]:
    """Asks whether fewer cases are measured than in the baseline, of the cases that either has.

    A system that declines what it used to get wrong has a better mean, and is not better. Were
    only the cases looked at that the baseline measured, each run would seem to measure fewer, as
    each measures some that the other does not. Metrics that are measured on the same cases are
    asked about once.

    Args:
        columns: the metrics that are held.
        tolerance: largest loss of the share of measured cases that is accepted.
    """
    groups: dict[tuple[bytes, bytes], list[str]] = {}
    for column in columns:
        if column.name in DERIVED:
            continue  # measured on every case that they apply to
        before, after = (one.cells(column.name).coverage for one in (baseline, run))
        if np.nansum(before):
            lost, won = np.isnan(after) & (before > 0.0), np.isnan(before) & (after > 0.0)
            after[lost], before[won] = 0.0, 0.0
            groups.setdefault((before.tobytes(), after.tobytes()), []).append(column.name)
    for (old, new), (name, *others) in groups.items():
        yield DropQuestion(
            kind=CheckKind.COVERAGE,
            column=replace(_COVERAGE, name=f"measured: {name}"),
            same=tuple(others),
            tolerance=tolerance,
            largest_drop=_COVERAGE.scale,
            sample=paired_columns(
                np.frombuffer(old),
                np.frombuffer(new),
                ids=run.table.ids,
                labels=run.clusters,
                repeats=_covered_repeatedly(run.cells(name), baseline.cells(name)),
            ),
        )


def shown_checks(
    columns: Iterable[MetricColumn], run: RunScores, baseline: RunScores
) -> Iterator[GateCheck]:
    """Metrics of which nothing is demanded: how they moved, and no verdict."""
    for column in columns:
        sample = paired(column, run, baseline)
        if not len(sample.places):
            continue
        question = DropQuestion(
            kind=CheckKind.DROP,
            column=column,
            tolerance=0.0,
            largest_drop=column.scale,
            sample=sample,
        )
        seen = mean_interval(sample.totals(), bounds=column.reach)
        facts = _seen(question, seen)
        drop = Drop(
            **facts,
            tolerance=0.0,
            p_worse=1.0,
            resolution=0.0,
            p_not_worse=1.0,
            family=0,
            can_show=False,
            detectable_drop=None,
            needed=None,
        )
        yield worded(question.check(drop, GateOutcome.NOT_JUDGED, Ground.NOT_HELD))


_COVERAGE = MetricColumn(
    name="", version=1, group="", direction=Direction.HIGHER, low=0.0, high=1.0, unit="share"
)


def _covered_repeatedly(now: Cells, earlier: Cells) -> Callable[[int], CaseScores] | None:
    """Whether a case was measured each time; None where neither run asked repeatedly."""
    if not now.repeats and not earlier.repeats:
        return None

    def found(at: int) -> CaseScores:
        states, before = now.asked(at).coverage, earlier.asked(at).coverage
        # Measured in one of the runs, and in the other it did not even apply.
        if any(before) and not any(state is not None for state in states):
            states = (0.0,) * len(states)
        if any(states) and not any(state is not None for state in before):
            before = (0.0,) * len(before)
        return states, before

    return found


def drop_checks(
    questions: Sequence[DropQuestion], config: GateConfig, *, part: float = 1.0
) -> list[GateCheck]:
    """Judges metrics and their coverage as one family and slices as another, each at its level.

    As one family fifty slices would cost the metrics most of their power.

    Args:
        part: of the level, where other questions have the rest.
    """
    slices = [one for one in questions if one.slice is not None]
    # Where the same cases are measured there is nothing to find, whichever run is the baseline.
    still = [one for one in questions if _is_still(one)]
    whole = [one for one in questions if one.slice is None and one not in still]
    found: list[GateCheck] = []
    for family, share in ((whole, 1.0), (slices, _ALONE), (still, 1.0)):
        if not family:
            continue
        # By name: the signs that are drawn depend on the order.
        order = sorted(family, key=lambda one: (one.column.name, one.slice or ""))
        alpha = config.alpha * part * share
        decided = decide_family(
            order,
            alpha=alpha,
            alpha_not_worse=config.alpha,
            alpha_unchanged=alpha * UNCHANGED if family is whole else None,
        )
        decisions = dict(zip(order, decided, strict=True))
        # Each row is one more chance of a false one.
        rows = sum(one.kind is not CheckKind.COVERAGE for one in family)
        enough = _FEW * (1.0 + math.log2(max(rows, 1)))
        found += [_check(one, decisions[one], config.min_cases, enough) for one in family]
    return found


def _is_still(question: DropQuestion) -> bool:
    return question.kind is CheckKind.COVERAGE and not question.sample.differences.any()


def _check(question: DropQuestion, decision: Decision, least: int, enough: float) -> GateCheck:
    drop = _drop(question, decision) if len(question.sample.places) else None
    ground = _ground(question.sample, decision, drop, least)
    if drop is not None and ground not in (Ground.SHOWN, Ground.TOO_FEW_CASES):
        ground = _too_much(question, drop, enough) or ground
    if drop is not None and drop.loss < 0.0 and ground in _NOT_SHOWN:
        ground = Ground.NOT_LOWER
    passes = ground in _PASSING
    if question.kind is CheckKind.COVERAGE:  # what is tolerated is no question
        passes = drop is None or drop.loss <= drop.tolerance
    outcome = GateOutcome.PASSED if passes else GateOutcome.INCONCLUSIVE
    if ground in (Ground.SHOWN, Ground.HALVED, Ground.ALL_LOST):
        outcome = GateOutcome.FAILED
    return worded(question.check(drop, outcome, ground), least=least)


_PASSING = (Ground.RULED_OUT, Ground.UNCHANGED, Ground.NONE_LOST, Ground.NOT_LOWER)
_NOT_SHOWN = (Ground.OPEN, Ground.RARE_LOSSES, Ground.TOO_FEW_CLUSTERS)


def _too_much(question: DropQuestion, drop: Drop, enough: float) -> Ground | None:
    """Whether more was lost than needs a test; the floors hold the level of noisy systems.

    Args:
        enough: observations of what there was, from which on losing half of them is no chance.
    """
    left, is_half = drop.after, drop.after < _HALF * drop.before
    if question.kind is CheckKind.COVERAGE:
        return Ground.HALVED if is_half and drop.before * drop.cases >= _FEW else None
    # Half of a mean is half of what there was only where 0 is the worst value.
    if question.column.low != 0.0 or drop.rises or drop.loss <= drop.tolerance:
        return None
    had, is_all = drop.before * drop.clusters, left <= _LEFT * drop.before
    losing = sum(total < 0.0 for total in question.sample.totals().sums) if is_all else 0
    if question.slice is not None:
        is_red = is_all and had >= _OF_SLICE[0] and drop.before >= _OF_SLICE[1]
        return Ground.ALL_LOST if is_red else None
    if losing >= (LEAST if drop.clusters <= _DOCUMENTS else LEAST - 1.0 + enough / _FEW):
        return Ground.ALL_LOST
    if is_half and had >= enough:
        return Ground.HALVED
    return Ground.ALL_OF_FEW_LOST if is_all and drop.clusters <= _DOCUMENTS else None


def _ground(sample: PairedSample, decision: Decision, drop: Drop | None, least: int) -> Ground:
    if drop is None:
        return Ground.NOTHING_MEASURED
    if drop.cases < least:
        return Ground.TOO_FEW_CASES
    if decision.change is ChangeKind.WORSE:
        return Ground.SHOWN
    if decision.change is ChangeKind.NOT_WORSE:
        return Ground.RULED_OUT
    if sample.lost == 0:
        return Ground.UNCHANGED if sample.gained == 0 else Ground.NONE_LOST
    if decision.test.informative == 0:
        return Ground.EXACTLY_TOLERATED
    if decision.hides_rare_gains:
        return Ground.RARE_GAINS
    if not decision.can_show:
        return Ground.TOO_FEW_CLUSTERS
    seen = decision.difference
    low = seen.mean if seen.low is None else seen.low
    return Ground.RARE_LOSSES if low is not None and low > -drop.tolerance else Ground.OPEN


def _drop(question: DropQuestion, decision: Decision) -> Drop:
    decided = {name: getattr(decision, name) for name in _DECIDED}
    return Drop(**_seen(question, decision.difference), **decided)


def _seen(question: DropQuestion, difference: Interval) -> dict[str, Any]:
    """What a drop says besides its tests."""
    sample, mean = question.sample, difference.mean or 0.0
    # Decisions count a loss as negative; a verdict speaks in the metric's own direction.
    low, high = difference.low, difference.high
    rises = question.column.sign < 0.0
    if rises:
        mean = -mean
        low, high = (None if end is None else 0.0 - end for end in (high, low))
    return {
        "before": sample.before or 0.0,
        "after": sample.after or 0.0,
        "difference": mean + 0.0,
        "low": low,
        "high": high,
        "confidence": difference.confidence,
        "cases": difference.cases,
        "clusters": difference.clusters,
        "better": sample.gained,
        "worse": sample.lost,
        "left_out": sample.left_out,
        "rises": rises,
    }


def is_lower(column: MetricColumn, run: RunScores, baseline: RunScores, alpha: float) -> bool:
    """Whether the baseline is shown to be better in a metric, by however little.

    Args:
        alpha: level of the whole gate.
    """
    return has_lost(paired(column, run, baseline), column.scale, alpha)


def has_lost(sample: PairedSample, scale: float | None, alpha: float) -> bool:
    """Whether a loss of any size is shown."""
    if not len(sample.places):
        return False
    question = RegressionQuestion(sample=sample, largest_drop=scale)
    (decision,) = decide_family([question], alpha=alpha * OF_LIMITS)
    return decision.change is ChangeKind.WORSE


_DECIDED = (
    *("tolerance", "p_worse", "resolution", "p_not_worse", "family", "can_show"),
    *("detectable_drop", "needed"),
)
"""Facts of a decision that a row shows as they are."""
