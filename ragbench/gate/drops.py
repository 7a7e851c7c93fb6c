"""Losses against the baseline: metrics, slices and coverage, tested as one family."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragbench.core.gate_result import CheckKind, Drop, GateCheck, GateOutcome, Ground
from ragbench.core.run_scores import MetricColumn, RunScores, ScoredCase
from ragbench.gate.config import GateConfig
from ragbench.gate.words import worded
from ragbench.stats.decide import ChangeKind, Decision, RegressionQuestion, decide_family
from ragbench.stats.paired import CaseScores, PairedSample, pair

_HALF = 0.5
_FEW = 10
"""Below so many measured cases, half of them is no sign of anything."""

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
        rest = f" and {len(names) - 2} more" if len(names) > 2 else ""
        yield DropQuestion(
            kind=CheckKind.COVERAGE,
            subject=f"measured: {', '.join(names[:2])}{rest}",
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


def drop_checks(questions: Sequence[DropQuestion], config: GateConfig) -> list[GateCheck]:
    """Judges several questions as one family."""
    # By name: the signs that are drawn depend on the order.
    order = sorted(
        range(len(questions)), key=lambda at: (questions[at].subject, questions[at].slice or "")
    )
    asked = [
        RegressionQuestion(sample=one.sample, tolerance=one.tolerance, largest_drop=one.scale)
        for one in (questions[at] for at in order)
    ]
    decisions = dict(zip(order, decide_family(asked, alpha=config.alpha), strict=True))
    return [_check(one, decisions[at], config.min_cases) for at, one in enumerate(questions)]


def _check(question: DropQuestion, decision: Decision, least: int) -> GateCheck:
    count = len(question.sample.case_ids)
    drop = None if count == 0 else _drop(question, decision)
    ground = _ground(question.sample, decision, drop, least)
    passes = ground in (Ground.RULED_OUT, Ground.UNCHANGED, Ground.NONE_LOST)
    if question.kind is CheckKind.COVERAGE:
        if drop is not None and ground is not Ground.SHOWN:
            is_halved = drop.after < _HALF * drop.before and drop.before * drop.cases >= _FEW
            ground = Ground.HALVED if is_halved else ground
        passes = True  # that fewer cases are measured is no question where it is not shown
    outcome = GateOutcome.PASSED if passes else GateOutcome.INCONCLUSIVE
    if ground in (Ground.SHOWN, Ground.HALVED):
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
    )
    return worded(check, least=least)


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
    )


def _negated(value: float | None) -> float | None:
    return None if value is None else 0.0 - value
