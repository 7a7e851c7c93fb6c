"""Losses against the baseline: metrics, slices and coverage, tested as one family."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ragbench.core.gate_result import CheckKind, Drop, GateCheck, GateOutcome, Ground
from ragbench.core.run_scores import MetricColumn, RunScores, ScoredCase
from ragbench.gate.config import GateConfig
from ragbench.gate.words import worded
from ragbench.stats.decide import ChangeKind, Decision, RegressionQuestion, decide_family
from ragbench.stats.paired import CaseScores, PairedSample, pair

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

Clusters = Mapping[str, str | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class DropQuestion:
    """Did this figure fall by more than is tolerated?"""

    kind: CheckKind
    subject: str
    tolerance: float
    scale: float | None
    """Largest drop that one case can take."""
    sample: PairedSample
    higher_is_better: bool = True
    slice: str | None = None
    unit: str = ""
    same: tuple[str, ...] = ()
    """Metrics that are the same number on every case."""
    group: str = ""
    """Of the metric: of other groups none is the same number but by chance."""
    counts_from_zero: bool = False
    """Whether 0 is its worst value, so that half of a mean is half of what there was."""


def one_row_each(questions: Iterable[DropQuestion]) -> Iterator[DropQuestion]:
    """The questions, those about metrics that are one number as one: recall, hit rate, MRR ..."""
    groups: dict[tuple[Any, ...], list[DropQuestion]] = {}
    for one in questions:
        sample = one.sample
        figures = (sample.case_ids, sample.differences, sample.before, sample.after)
        limits = (one.group, one.slice, one.tolerance, one.scale, one.higher_is_better, one.unit)
        key = (*limits, *(figures if sample.case_ids else (one.subject,)))
        groups.setdefault(key, []).append(one)
    for first, *others in groups.values():
        yield replace(first, same=tuple(other.subject for other in others))


def paired(
    column: MetricColumn,
    run: RunScores,
    baseline: RunScores,
    clusters: Clusters,
    *,
    higher_is_better: bool = True,
    ids: Sequence[str] | None = None,
) -> PairedSample:
    """One metric of two runs, which are restricted to comparable cases; or of some of these."""
    name, earlier = column.name, baseline.by_case(baseline.cases)
    if ids is None:
        cases: Sequence[ScoredCase] = run.cases
        before, after = baseline.values(name), run.values(name)
    else:
        now = run.by_case(run.cases)
        cases = [now[id_] for id_ in ids]
        before = {id_: earlier[id_].value(name) for id_ in ids}
        after = {case.id: case.value(name) for case in cases}
    repeats: dict[str, CaseScores] = {}
    if any(case.repeats or earlier[case.id].repeats for case in cases):
        repeats = {
            case.id: (case.asked(name).values, earlier[case.id].asked(name).values)
            for case in cases
        }
    return pair(
        before, after, clusters=clusters, higher_is_better=higher_is_better, repeats=repeats
    )


def coverage_questions(
    run: RunScores, baseline: RunScores, clusters: Clusters, tolerance: float
) -> Iterator[DropQuestion]:
    """Asks whether fewer cases are measured than the baseline measured.

    A system that declines what it used to get wrong has a better mean, and is not better. Metrics
    that are measured on the same cases are asked about once.

    Args:
        tolerance: largest loss of the share of measured cases that is accepted.
    """
    groups: dict[tuple[Any, ...], list[str]] = {}
    earlier = baseline.by_case(baseline.cases)
    for column in run.metrics:
        name = column.name
        before = tuple(earlier[case.id].coverage(name) for case in run.cases)
        if any(before):
            # None where the metric never applied to the case, now or before.
            covered = zip(before, (case.coverage(name) for case in run.cases), strict=True)
            after = tuple(0.0 if new is None and old else new for old, new in covered)
            groups.setdefault((before, after), []).append(name)
    for (before, after), names in groups.items():
        yield DropQuestion(
            kind=CheckKind.COVERAGE,
            subject=f"measured: {names[0]}",
            same=tuple(names[1:]),
            tolerance=tolerance,
            scale=1.0,
            sample=pair(
                run.by_case(before),
                run.by_case(after),
                clusters=clusters,
                repeats=_covered_repeatedly(names[0], run, earlier),
            ),
            unit="share",
        )


def _covered_repeatedly(
    metric: str, run: RunScores, earlier: Mapping[str, ScoredCase]
) -> dict[str, CaseScores]:
    """By case whether it was measured each time; empty where neither run asked repeatedly."""
    if not any(case.repeats or earlier[case.id].repeats for case in run.cases):
        return {}
    found: dict[str, CaseScores] = {}
    for case in run.cases:
        states, before = case.asked(metric).coverage, earlier[case.id].asked(metric).coverage
        if any(before) and not any(state is not None for state in states):
            states = (0.0,) * len(states)  # measured before, and lost
        found[case.id] = (states, before)
    return found


def drop_checks(
    questions: Sequence[DropQuestion], config: GateConfig, *, part: float = 1.0
) -> list[GateCheck]:
    """Judges the metrics as one family and the slices as another, which share the level.

    As one family fifty slices would cost the metrics most of their power.

    Args:
        part: of the level, where other questions have the rest.
    """
    slices = [one for one in questions if one.slice is not None]
    shared = _ALONE if slices else 0.0
    whole = [one for one in questions if one.slice is None]
    return [
        *_judged(whole, config, config.alpha * part * (1.0 - shared)),
        *_judged(slices, config, config.alpha * part * shared),
    ]


def _judged(questions: Sequence[DropQuestion], config: GateConfig, alpha: float) -> list[GateCheck]:
    if not questions:
        return []
    # By name: the signs that are drawn depend on the order.
    order = sorted(
        range(len(questions)), key=lambda at: (questions[at].subject, questions[at].slice or "")
    )
    asked = [
        RegressionQuestion(sample=one.sample, tolerance=one.tolerance, largest_drop=one.scale)
        for one in (questions[at] for at in order)
    ]
    decided = decide_family(asked, alpha=alpha, alpha_not_worse=config.alpha)
    decisions = dict(zip(order, decided, strict=True))
    enough = _FEW * (1.0 + math.log2(len(questions)))  # each row is one more chance of a false one
    return [
        _check(one, decisions[at], config.min_cases, enough) for at, one in enumerate(questions)
    ]


def _check(question: DropQuestion, decision: Decision, least: int, enough: float) -> GateCheck:
    count = len(question.sample.case_ids)
    drop = None if count == 0 else _drop(question, decision)
    ground = _ground(question.sample, decision, drop, least)
    if drop is not None and ground not in (Ground.SHOWN, Ground.TOO_FEW_CASES):
        ground = _too_much(question, drop, enough) or ground
    passes = ground in (Ground.RULED_OUT, Ground.UNCHANGED, Ground.NONE_LOST)
    if question.kind is CheckKind.COVERAGE:  # what is tolerated is no question
        passes = drop is None or drop.loss <= drop.tolerance
    outcome = GateOutcome.PASSED if passes else GateOutcome.INCONCLUSIVE
    if ground in (Ground.SHOWN, Ground.HALVED, Ground.ALL_LOST):
        outcome = GateOutcome.FAILED
    check = GateCheck(
        kind=question.kind,
        subject=question.subject,
        outcome=outcome,
        ground=ground,
        observed=None if drop is None else drop.after,
        limit=question.tolerance,
        bound="max_drop",
        cases=count,
        slice=question.slice,
        unit=question.unit,
        drop=drop,
        same=question.same,
    )
    return worded(check, least=least)


def _too_much(question: DropQuestion, drop: Drop, enough: float) -> Ground | None:
    """Whether more was lost than needs a test; the floors hold the level of noisy systems.

    Args:
        enough: observations of what there was, from which on losing half of them is no chance.
    """
    left, is_half = drop.after, drop.after < _HALF * drop.before
    if question.kind is CheckKind.COVERAGE:
        return Ground.HALVED if is_half and drop.before * drop.cases >= _FEW else None
    if not question.counts_from_zero or drop.rises or drop.loss <= drop.tolerance:
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
    difference, sample = decision.difference, question.sample
    mean = difference.mean or 0.0
    # Decisions count a loss as negative; a verdict speaks in the metric's own direction.
    low, high = difference.low, difference.high
    if not question.higher_is_better:
        mean, low, high = -mean, _negated(high), _negated(low)
    return Drop(
        before=sample.before or 0.0,
        after=sample.after or 0.0,
        difference=mean + 0.0,
        low=low,
        high=high,
        confidence=difference.confidence,
        tolerance=decision.tolerance,
        p_worse=decision.p_worse,
        resolution=decision.resolution,
        p_not_worse=decision.p_not_worse,
        family=decision.family,
        cases=difference.cases,
        clusters=difference.clusters,
        can_show=decision.can_show,
        better=sample.gained,
        worse=sample.lost,
        left_out=sample.left_out,
        detectable_drop=decision.detectable_drop,
        needed=decision.needed,
        rises=not question.higher_is_better,
    )


def _negated(value: float | None) -> float | None:
    return None if value is None else 0.0 - value
