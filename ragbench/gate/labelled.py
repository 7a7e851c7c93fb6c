"""Losses that people's labels decide, and what labels a gate lacks where a judge alone speaks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from statistics import stdev
from typing import NamedTuple

from ragbench.core.gate_result import CheckKind, Drop, GateCheck, GateOutcome, Ground, LabelPlan
from ragbench.core.report import Correction
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.gate.config import GateConfig
from ragbench.gate.drops import DropQuestion
from ragbench.gate.labels import Point, corrected, points_of
from ragbench.gate.words import worded
from ragbench.stats.corrected import ASSUMED, CONFIDENCE, LEAST, Corrected, Plan
from ragbench.stats.mean import student_quantile
from ragbench.stats.power import POWER

_ESTIMATED = frozenset({"answer_correct"})
"""Not a judge's, and yet no fact: people can be asked."""
_FIRST = 60
"""Labels whose chance is named beside the number that is enough."""


class Asked(NamedTuple):
    """A question, and what people say to it; nothing where too few labelled both sides."""

    question: DropQuestion
    column: MetricColumn
    points: Sequence[Point]
    found: tuple[Corrected, Correction] | None


def asked_of(
    questions: Iterable[DropQuestion], run: RunScores, baseline: RunScores
) -> Iterator[Asked]:
    for question in questions:
        column, ids = run.column(question.subject), set(question.sample.case_ids)
        if column is not None:
            points = points_of(column, run.on(ids), baseline)
            found = corrected(column, points, ("baseline", "run")) if points else None
            is_known = found is not None and found[1].interval is not None
            yield Asked(question, column, points, found if is_known else None)


def split_labelled(
    questions: Sequence[DropQuestion], run: RunScores, baseline: RunScores
) -> tuple[list[Asked], list[DropQuestion]]:
    """Questions that people answer, since both sides are labelled; and the others."""
    if not run.has_labels:
        return [], [*questions]
    asked = [*asked_of(questions, run, baseline)]
    return (
        [one for one in asked if one.found is not None],
        [one.question for one in asked if one.found is None],
    )


def labelled_checks(
    people: Sequence[Asked], run: RunScores, baseline: RunScores, config: GateConfig, family: int
) -> Iterator[GateCheck]:
    """The corrected difference of each against what is tolerated, by Student's t.

    Args:
        family: how many questions share the level: each of these has its part (Bonferroni).
    """
    for asked in people:
        question, column, points, found = asked
        assert found is not None
        ids = set(question.sample.case_ids)
        before = corrected(column, points_of(column, baseline.on(ids)))
        drop = _drop(question, points, found[0], family, before and before[0].mean)
        ground, outcome = Ground.OPEN, GateOutcome.INCONCLUSIVE
        if drop.cases < config.min_cases:
            ground = Ground.TOO_FEW_CASES
        elif drop.p_worse <= config.alpha:
            ground, outcome = Ground.SHOWN, GateOutcome.FAILED
        elif drop.p_not_worse <= config.alpha:
            ground, outcome = Ground.RULED_OUT, GateOutcome.PASSED
        is_lacking = ground is Ground.OPEN and question.kind is CheckKind.DROP
        check = GateCheck(
            kind=question.kind,
            subject=question.subject,
            outcome=outcome,
            ground=ground,
            observed=drop.after,
            limit=question.tolerance,
            bound="max_drop",
            cases=drop.cases,
            slice=question.slice,
            unit=question.unit,
            drop=drop,
            corrected=found[1],
            plan=_plan(asked, run, baseline, config) if is_lacking else None,
        )
        yield worded(check, least=config.min_cases)


def _drop(
    question: DropQuestion,
    points: Sequence[Point],
    found: Corrected,
    family: int,
    before: float | None,
) -> Drop:
    sample, sign = question.sample, 1.0 if question.higher_is_better else -1.0
    p_not_worse = replace(found, mean=sign * found.mean).p_above(-question.tolerance)
    level = student_quantile(0.95, found.degrees) + student_quantile(POWER, found.degrees)
    changes = [sign * one.label for one in points if one.label is not None]
    level_before = before if before is not None else question.sample.before or 0.0
    return Drop(
        before=level_before,
        after=level_before + found.mean,
        difference=found.mean,
        low=found.low,
        high=found.high,
        confidence=CONFIDENCE,
        tolerance=question.tolerance,
        p_worse=min(1.0, family * (1.0 - p_not_worse)),
        resolution=0.0,
        p_not_worse=p_not_worse,
        family=family,
        cases=len(points),
        clusters=found.degrees + 2,
        can_show=True,
        better=sum(change > 0 for change in changes),
        worse=sum(change < 0 for change in changes),
        left_out=sample.left_out,
        detectable_drop=question.tolerance + level * found.standard_error,
        needed=None,
        rises=not question.higher_is_better,
    )


def opinions(
    checks: Iterable[GateCheck],
    questions: Sequence[DropQuestion],
    run: RunScores,
    baseline: RunScores,
    config: GateConfig,
) -> Iterator[GateCheck]:
    """The checks that a judge alone decides, called its opinion; with the labels they lack."""
    for check in checks:
        column = run.column(check.subject)
        is_judged = column is not None and column.is_judged
        if is_judged or (check.subject in _ESTIMATED and check.is_open_drop):
            asked = (one for one in questions if (one.subject, one.slice) == (check.subject, None))
            plans = (_plan(one, run, baseline, config) for one in asked_of(asked, run, baseline))
            plan = next(plans, None) if check.kind is CheckKind.DROP and check.drop else None
            check = replace(check, is_opinion=is_judged, plan=plan)
            check = worded(check, least=config.min_cases)
        yield check


def _plan(
    asked: Asked, run: RunScores, baseline: RunScores, config: GateConfig
) -> LabelPlan | None:
    """How many labels would settle it, and the command that asks for them.

    Before the first labels the systems are taken to be equal, and people to vary as the judge does
    and with it as judges of answers do.
    """
    question, found = asked.question, None if asked.found is None else asked.found[0]
    differing = [one.judged for one in asked.points if not one.is_same]
    have = 0 if found is None else found.labels
    # A baseline file holds no answers; where all are labelled nobody is left to ask.
    if len(differing) < LEAST or Path(baseline.source).is_file() or have >= len(differing):
        return None
    margin, deviation, correlation = question.tolerance, stdev(differing), ASSUMED
    if found is not None and found.correlation is not None:
        margin = abs((found.mean if question.higher_is_better else -found.mean) + margin)
        deviation, correlation = found.deviation, found.correlation
    plan = Plan(
        margin=margin, deviation=deviation, correlation=correlation, cases=len(differing),
        total=len(asked.points), alpha=config.alpha,
    )  # fmt: skip
    number, known = plan.needed or plan.cases, [one.rpartition("=")[2] for one in config.labels]
    into = next((one for one in known if one.endswith(".jsonl")), "")
    command = (
        f"ragbench label {quote(run.source)} --against {quote(baseline.source)} "
        f"-m {quote(question.subject)} -n {number} --page label.html"
        + (f" -o {quote(into)}" if into else "")
    )
    return LabelPlan(
        labels=have,
        pairs=plan.cases,
        chances=tuple(
            (step, plan.chance(step)) for step in sorted({min(max(_FIRST, have), number), number})
        ),
        needed=plan.needed,
        command=command,
    )
