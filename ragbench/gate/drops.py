"""Losses against the baseline: tested together, told one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragbench.core.gate_result import CheckKind, Drop, GateCheck, GateOutcome
from ragbench.core.run_scores import RunScores
from ragbench.gate.checks import MetricDemand, figure, span
from ragbench.gate.checks import cases as told_cases
from ragbench.gate.config import Correction, GateConfig
from ragbench.stats.decide import ChangeKind, Decision, RegressionQuestion, decide_family
from ragbench.stats.paired import LeftOut, PairedSample, pair
from ragbench.stats.power import SampleSize

__all__ = [
    "DropQuestion",
    "drop_checks",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class DropQuestion:
    """One metric on all cases or on those of a slice."""

    demand: MetricDemand
    tolerance: float
    slice: str | None = None
    ids: frozenset[str] | None = None
    """Cases of the slice; None: all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Paired:
    question: DropQuestion
    sample: PairedSample
    before: Mapping[str, float | None]
    after: Mapping[str, float | None]


def drop_checks(
    questions: Sequence[DropQuestion], run: RunScores, baseline: RunScores, config: GateConfig
) -> list[GateCheck]:
    """Judges several questions as one family.

    Questions on fewer independent cases than could ever show a loss stay outside of the family:
    they cannot raise a false alarm, and would only make the correction stricter for the others.

    Args:
        questions: what is asked.
        run: the run that is judged, restricted to comparable cases.
        baseline: the run that it is held against, likewise.
        config: level, power, correction, whether clusters count.

    Returns:
        A check a question, in order.
    """
    clusters = run.clusters() if config.cluster else None
    pairs = [_paired(question, run, baseline, clusters) for question in questions]
    able = [p for p in pairs if 0.5 ** min(len(set(p.sample.clusters)), 1000) <= config.alpha]
    families = [able] if config.correction is Correction.HOLM else [[p] for p in able]
    families += [[p] for p in pairs if p not in able]
    checks: dict[int, GateCheck] = {}
    for family in families:
        decisions = _decide(family, config)
        for paired, decision in zip(family, decisions, strict=True):
            checks[id(paired)] = _check(paired, decision, len(family), config)
    return [checks[id(paired)] for paired in pairs]


def _paired(
    question: DropQuestion,
    run: RunScores,
    baseline: RunScores,
    clusters: Mapping[str, str | None] | None,
) -> _Paired:
    name, ids = question.demand.column.name, question.ids
    before, after = baseline.values(name), run.values(name)
    if ids is not None:
        before = {id_: value for id_, value in before.items() if id_ in ids}
        after = {id_: value for id_, value in after.items() if id_ in ids}
    sample = pair(
        before, after, clusters=clusters, higher_is_better=question.demand.higher_is_better
    )
    return _Paired(question=question, sample=sample, before=before, after=after)


def _decide(family: Sequence[_Paired], config: GateConfig) -> tuple[Decision, ...]:
    return decide_family(
        [
            RegressionQuestion(
                sample=paired.sample,
                tolerance=paired.question.tolerance,
                largest_drop=paired.question.demand.column.scale,
            )
            for paired in family
        ],
        alpha=config.alpha,
        power=config.power,
        confidence=config.confidence,
        resamples=config.resamples,
        seed=config.seed,
    )


def _check(paired: _Paired, decision: Decision, family: int, config: GateConfig) -> GateCheck:
    question, count = paired.question, len(paired.sample.case_ids)
    drop = None if count == 0 else _drop(paired, decision, family)
    outcome, reason = _judge(paired.sample, decision, drop, config)
    return GateCheck(
        kind=CheckKind.DROP if question.slice is None else CheckKind.SLICE,
        subject=question.demand.column.name,
        outcome=outcome,
        reason=reason,
        observed=None if drop is None else drop.after,
        limit=question.tolerance,
        bound="max_drop",
        cases=count,
        slice=question.slice,
        informational=question.demand.gate.informational,
        unit=question.demand.column.unit,
        drop=drop,
    )


def _judge(
    sample: PairedSample, decision: Decision, drop: Drop | None, config: GateConfig
) -> tuple[GateOutcome, str]:
    if drop is None:
        return GateOutcome.INCONCLUSIVE, "no case was measured in both runs"
    if drop.cases < config.min_cases:
        told = f"only {told_cases(drop.cases)} measured in both runs, fewer than min_cases"
        return GateOutcome.INCONCLUSIVE, f"{told} ({config.min_cases:,})"
    tolerated = f"the tolerated {figure(drop.tolerance)}"
    moved = _moved(drop)
    if decision.change is ChangeKind.WORSE:
        told = f"{moved}: a loss of more than {tolerated} is shown (p = {drop.p_worse:.2g})"
        return GateOutcome.FAILED, told
    if decision.change is ChangeKind.NOT_WORSE:
        told = f"{moved}: a loss of more than {tolerated} is ruled out"
        return GateOutcome.PASSED, f"{told} (p = {drop.p_not_worse:.2g})"
    if sample.lost == 0:
        same = "changed" if sample.gained == 0 else "lost"
        return GateOutcome.PASSED, f"{moved}: none of {told_cases(drop.cases)} {same}"
    told = f"{moved}: a loss of more than {tolerated} is neither shown nor ruled out"
    if decision.difference.low is not None and decision.difference.low > -drop.tolerance:
        told = (
            f"{moved}: a loss of more than {tolerated} is unlikely, but {drop.clusters:,} "
            "independent cases are too few to rule out a rare large one"
        )
    return GateOutcome.INCONCLUSIVE, f"{told}. {_settling(drop)}"


def _moved(drop: Drop) -> str:
    if drop.difference == 0:
        return f"{figure(drop.after)} as before"
    way = "up" if drop.difference > 0 else "down"
    interval = span(drop.low, drop.high)
    return (
        f"{way} {figure(abs(drop.difference))} from {figure(drop.before)} to {figure(drop.after)} "
        f"({drop.confidence:.0%} interval {interval})"
    )


def _settling(drop: Drop) -> str:
    parts: list[str] = []
    if drop.needed_cases is not None:
        parts.append(f"about {told_cases(drop.needed_cases)} would settle it at this difference")
    if drop.needed_if_unchanged is not None:
        told = told_cases(drop.needed_if_unchanged)
        parts.append(f"{'' if parts else 'about '}{told} if nothing had changed")
    if not parts:
        return "No number of cases would settle it: tolerate more than nothing"
    text = ", ".join(parts)
    return f"{text[:1].upper()}{text[1:]}"


def _drop(paired: _Paired, decision: Decision, family: int) -> Drop:
    sample, difference = paired.sample, decision.difference
    ids = sample.case_ids
    mean = difference.mean or 0.0
    # Decisions count a loss as negative; a verdict speaks in the metric's own direction.
    low, high = difference.low, difference.high
    if not paired.question.demand.higher_is_better:
        mean, low, high = -mean, _negated(high), _negated(low)
    return Drop(
        before=_mean([paired.before[id_] for id_ in ids]),
        after=_mean([paired.after[id_] for id_ in ids]),
        difference=mean + 0.0,
        low=low,
        high=high,
        confidence=difference.confidence,
        tolerance=decision.tolerance,
        p_worse=decision.p_worse,
        p_not_worse=decision.p_not_worse,
        family=family,
        method=decision.test.method.value,
        cases=difference.cases,
        clusters=difference.clusters,
        better=sample.gained,
        worse=sample.lost,
        left_out=_left_out(sample.left_out),
        detectable_drop=decision.detectable_drop,
        needed_cases=_count(decision.needed_as_observed),
        needed_if_unchanged=_count(decision.needed_if_unchanged),
    )


def _negated(value: float | None) -> float | None:
    return None if value is None else 0.0 - value


def _count(size: SampleSize | None) -> int | None:
    return None if size is None else size.cases


def _mean(values: Sequence[float | None]) -> float:
    return math.fsum(value for value in values if value is not None) / len(values)


def _left_out(left: LeftOut) -> dict[str, int]:
    counts = {
        "only in the baseline": left.only_in_baseline,
        "only in this run": left.only_in_candidate,
        "not measured in the baseline": left.unmeasured_in_baseline,
        "not measured in this run": left.unmeasured_in_candidate,
        "not measured in either": left.unmeasured_in_both,
    }
    return {reason: count for reason, count in counts.items() if count}
