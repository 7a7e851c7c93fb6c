"""Losses that people's labels decide, and what labels a gate lacks where a judge alone speaks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from shlex import quote

from ragbench.core.gate_result import CheckKind, Drop, GateCheck, GateOutcome, Ground, LabelPlan
from ragbench.core.report import Correction
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.gate.config import GateConfig
from ragbench.gate.drops import DropQuestion
from ragbench.gate.labels import Pairs, corrected_floor, corrected_pairs, pairs_of, plan_of
from ragbench.gate.words import worded
from ragbench.stats.corrected import LEAST, Corrected
from ragbench.stats.mean import student_quantile
from ragbench.stats.power import POWER

_ESTIMATED = frozenset({"answer_correct"})
"""Not a judge's, and yet no fact: people can be asked."""
_FIRST = 60
"""Labels whose chance is named beside the number that is enough."""

Labelled = tuple[DropQuestion, Pairs, Corrected, Correction]


def split_labelled(
    questions: Iterable[DropQuestion], run: RunScores, baseline: RunScores
) -> tuple[list[Labelled], list[DropQuestion]]:
    """Questions that people answer, since both sides are labelled; and the others."""
    people: list[Labelled] = []
    rest: list[DropQuestion] = []
    for question in questions:
        column, found = run.column(question.subject), None
        if column is not None and any(case.labels for case in run.cases):
            pairs = _asked(question, column, run, baseline)
            found = corrected_pairs(pairs, column, ("baseline", "run"))
            if found is not None:
                people.append((question, pairs, *found))
        if found is None:
            rest.append(question)
    return people, rest


def _asked(
    question: DropQuestion, column: MetricColumn, run: RunScores, baseline: RunScores
) -> Pairs:
    ids = set(question.sample.case_ids)
    return pairs_of(baseline.on(ids), run.on(ids), column)


def labelled_checks(
    people: Sequence[Labelled], run: RunScores, baseline: RunScores, config: GateConfig, family: int
) -> Iterator[GateCheck]:
    """The corrected difference of each against what is tolerated, by Student's t.

    Args:
        family: how many questions share the level: each of these has its part (Bonferroni).
    """
    for question, pairs, found, correction in people:
        column = run.column(question.subject)
        assert column is not None
        drop = _drop(question, pairs, found, family)
        ground = Ground.OPEN
        if drop.cases < config.min_cases:
            ground = Ground.TOO_FEW_CASES
        elif drop.p_worse <= config.alpha:
            ground = Ground.SHOWN
        elif drop.p_not_worse <= config.alpha:
            ground = Ground.RULED_OUT
        before = corrected_floor(column, baseline.on(set(pairs.ids)).cases)
        level = drop.before if before is None else before[1].corrected
        drop = replace(drop, before=level, after=level + drop.difference)
        outcomes = {Ground.SHOWN: GateOutcome.FAILED, Ground.RULED_OUT: GateOutcome.PASSED}
        check = GateCheck(
            kind=question.kind,
            subject=question.subject,
            outcome=outcomes.get(ground, GateOutcome.INCONCLUSIVE),
            ground=ground,
            observed=drop.after,
            limit=question.tolerance,
            bound="max_drop",
            cases=drop.cases,
            slice=question.slice,
            unit=question.unit,
            drop=drop,
            corrected=correction,
        )
        if ground is Ground.OPEN and question.kind is CheckKind.DROP:
            check = replace(check, plan=_plan(question, pairs, found, run, baseline, config))
        yield worded(check, least=config.min_cases)


def _drop(question: DropQuestion, pairs: Pairs, found: Corrected, family: int) -> Drop:
    sample, sign = question.sample, 1.0 if question.higher_is_better else -1.0
    p_not_worse = replace(found, mean=sign * found.mean).p_above(-question.tolerance)
    level = student_quantile(0.95, found.degrees) + student_quantile(POWER, found.degrees)
    changes = [sign * value for value in pairs.labels if value is not None]
    return Drop(
        before=sample.before or 0.0,
        after=sample.after or 0.0,
        difference=found.mean,
        low=found.low,
        high=found.high,
        confidence=found.confidence,
        tolerance=question.tolerance,
        p_worse=min(1.0, family * (1.0 - p_not_worse)),
        resolution=0.0,
        p_not_worse=p_not_worse,
        family=family,
        cases=len(pairs.judged),
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
        if column is None or not (column.is_judged or _is_asked(check, column)):
            yield check
            continue
        question = next(
            (one for one in questions if (one.subject, one.slice) == (check.subject, check.slice)),
            None,
        )
        check = replace(check, is_opinion=column.is_judged)
        if question is not None and check.kind is CheckKind.DROP and check.drop is not None:
            pairs = _asked(question, column, run, baseline)
            check = replace(check, plan=_plan(question, pairs, None, run, baseline, config))
        yield worded(check, least=config.min_cases)


def _is_asked(check: GateCheck, column: MetricColumn) -> bool:
    return column.name in _ESTIMATED and check.is_open_drop


def _plan(
    question: DropQuestion,
    pairs: Pairs,
    found: Corrected | None,
    run: RunScores,
    baseline: RunScores,
    config: GateConfig,
) -> LabelPlan | None:
    """How many labels would settle it, and the command that asks for them."""
    sign = 1.0 if question.higher_is_better else -1.0
    loss = 0.0 if found is None else -sign * found.mean
    plan = plan_of(pairs, found, question.tolerance, loss=loss, alpha=config.alpha)
    have, needed = 0 if found is None else found.labels, plan.needed
    # A baseline file holds no answers; where all are labelled nobody is left to ask.
    if plan.cases < LEAST or baseline.made_of or have >= plan.cases:
        return None
    number = needed or plan.cases
    steps = sorted({min(max(_FIRST, have), number), number})
    command = (
        f"ragbench label {quote(run.source)} --against {quote(baseline.source)} "
        f"-m {quote(question.subject)} -n {number} --page label.html"
        + (f" -o {quote(config.labels[-1].rpartition('=')[2])}" if config.labels else "")
    )
    return LabelPlan(
        labels=have,
        pairs=plan.cases,
        chances=tuple((step, plan.chance(step)) for step in steps),
        needed=needed,
        command=command,
    )
