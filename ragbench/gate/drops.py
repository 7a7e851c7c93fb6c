"""Losses against the baseline: metrics, slices and coverage, tested as one family."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ragbench.core.gate_result import CheckKind, Drop, GateCheck, GateOutcome, Ground
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.gate.config import GateConfig
from ragbench.gate.words import worded
from ragbench.stats.decide import ChangeKind, Decision, RegressionQuestion, decide_family
from ragbench.stats.paired import CaseScores, PairedSample, pair

_HALF = 0.5
_FEW = 10
"""Below so many measured cases, half of them is no sign of anything."""

Values = Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class DropQuestion:
    """Did this figure fall by more than is tolerated?"""

    kind: CheckKind
    subject: str
    tolerance: float
    scale: float | None
    """Largest drop that one case can take."""
    before: Values
    after: Values
    higher_is_better: bool = True
    slice: str | None = None
    unit: str = ""
    repeats: Mapping[str, CaseScores] = field(default_factory=dict[str, CaseScores])
    """The scores that both runs' are the means of; empty where no case was scored repeatedly."""

    def on(self, slice: str, ids: Iterable[str], tolerance: float) -> DropQuestion:
        """The same question about the cases of a slice."""
        kept = list(ids)
        return replace(
            self,
            kind=CheckKind.SLICE,
            slice=slice,
            tolerance=tolerance,
            before={id_: self.before[id_] for id_ in kept},
            after={id_: self.after[id_] for id_ in kept},
            repeats={id_: self.repeats[id_] for id_ in kept if id_ in self.repeats},
        )

    def paired(self, clusters: Mapping[str, str | None]) -> PairedSample:
        return pair(
            self.before,
            self.after,
            clusters=clusters,
            higher_is_better=self.higher_is_better,
            repeats=self.repeats,
        )


def drop_question(
    column: MetricColumn,
    run: RunScores,
    baseline: RunScores,
    *,
    tolerance: float = 0.0,
    higher_is_better: bool = True,
) -> DropQuestion:
    """About all cases of two runs, which are restricted to comparable ones."""
    return DropQuestion(
        kind=CheckKind.DROP,
        subject=column.name,
        tolerance=tolerance,
        scale=column.scale,
        before=baseline.values(column.name),
        after=run.values(column.name),
        higher_is_better=higher_is_better,
        unit=column.unit,
        repeats=_repeats(column.name, run, baseline),
    )


def _repeats(
    metric: str, run: RunScores, baseline: RunScores, *, coverage: bool = False
) -> dict[str, CaseScores]:
    """By case what it scored each time; empty where neither run asked repeatedly."""
    if not any(case.repeats for one in (run, baseline) for case in one.cases):
        return {}
    earlier = baseline.by_case(baseline.cases)
    found: dict[str, CaseScores] = {}
    for case in run.cases:
        now, before = case.asked(metric), earlier[case.id].asked(metric)
        found[case.id] = (now.values, before.values)
        if coverage:
            states = now.coverage
            if any(before.coverage) and not any(state is not None for state in states):
                states = (0.0,) * len(states)  # measured before, and lost
            found[case.id] = (states, before.coverage)
    return found


def coverage_questions(
    run: RunScores, baseline: RunScores, tolerance: float
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
            before=run.by_case(before),
            after=run.by_case(after),
            unit="share",
            repeats=_repeats(names[0], run, baseline, coverage=True),
        )


def drop_checks(
    questions: Sequence[DropQuestion],
    clusters: Mapping[str, str | None],
    config: GateConfig,
) -> list[GateCheck]:
    """Judges several questions as one family."""
    samples = [question.paired(clusters) for question in questions]
    # By name: the signs that are drawn depend on the order.
    order = sorted(
        range(len(questions)), key=lambda at: (questions[at].subject, questions[at].slice or "")
    )
    asked = [
        RegressionQuestion(
            sample=samples[at], tolerance=questions[at].tolerance, largest_drop=questions[at].scale
        )
        for at in order
    ]
    decisions = decide_family(asked, alpha=config.alpha)
    checks = {
        at: _check(questions[at], samples[at], decision, config.min_cases)
        for at, decision in zip(order, decisions, strict=True)
    }
    return [checks[at] for at in range(len(questions))]


def _check(
    question: DropQuestion, sample: PairedSample, decision: Decision, least: int
) -> GateCheck:
    count = len(sample.case_ids)
    drop = None if count == 0 else _drop(question, sample, decision)
    ground = _ground(sample, decision, drop, least)
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


def _drop(question: DropQuestion, sample: PairedSample, decision: Decision) -> Drop:
    difference = decision.difference
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
