"""What labels of people make of figures, differences and losses; what labels a gate lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from statistics import stdev
from typing import Any, NamedTuple

from ragbench.core.case_table import Label, ScoredCase
from ragbench.core.gate_result import CheckKind, Drop, GateCheck, GateOutcome, Ground, LabelPlan
from ragbench.core.report import Correction, Interval
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.gate.config import GateConfig
from ragbench.gate.drops import DropQuestion
from ragbench.gate.words import worded
from ragbench.io.people import ANY, NOTHING, Key, LabelBook, value_of
from ragbench.stats.corrected import (
    ASSUMED,
    CONFIDENCE,
    LEAST,
    Corrected,
    Plan,
    corrected_difference,
    corrected_mean,
)
from ragbench.stats.mean import mean_interval, student_quantile
from ragbench.stats.power import POWER


def labelled(run: RunScores, judged: Mapping[str, Key], book: LabelBook) -> RunScores:
    """A run with what people said of its answers.

    Args:
        judged: what was judged of each case, by its id.
    """
    labels: list[dict[str, Label]] = []
    for id_ in run.table.ids:
        said = {c.name: book.of(c.name, _read(judged[id_], c)) for c in run.metrics}
        labels.append(
            {
                name: Label(
                    value,
                    people=sum(one.value is not None for one in found),
                    is_drawn=any(one.is_drawn for one in found),
                    is_of_pairs=all(one.is_of_pairs for one in found),
                )
                for name, found in said.items()
                if (value := value_of(found)) is not None
            }
        )
    known: dict[str, Sequence[Any]] = {
        "labels": labels,
        "judged": [judged[id_] for id_ in run.table.ids],
    }
    return replace(run, cases=replace(run.table, facts={**run.table.facts, **known}))


class Point(NamedTuple):
    """A case, or a pair of answers to it, that a metric measured."""

    judged: float
    """The value, or the difference."""
    label: float | None
    said: tuple[Label, ...]
    cluster: str | None
    is_same: bool = False
    """Whether both answers of a pair are the same: no label is needed of it."""


def points_of(
    column: MetricColumn, run: RunScores, earlier: RunScores | None = None
) -> list[Point]:
    """The measured cases of a run; with those of another one before it, their differences."""
    name, found = column.name, list[Point]()
    there = {} if earlier is None else {case.id: case for case in earlier.cases}
    for case in run.cases:
        value, label = case.value(name), case.labels.get(name)
        if value is None:
            continue
        if earlier is None:
            label = None if label is not None and label.is_of_pairs else label
            alone = () if label is None else (label,)
            found.append(Point(value, label and label.value, alone, case.cluster))
            continue
        before = there.get(case.id)
        then = None if before is None else before.value(name)
        if before is None or then is None:
            continue
        other = before.labels.get(name)
        said = (label, other) if label and other else ()
        known = label.value - other.value if label and other else None
        same = is_same(before, case, column)
        found.append(Point(value - then, known, said, case.cluster, same))
    return found


def is_same(first: ScoredCase, second: ScoredCase, column: MetricColumn) -> bool:
    """Whether a metric judges the same in both."""
    one, other = first.judged, second.judged
    return one is not None and other is not None and _read(one, column) == _read(other, column)


def _read(key: Key, column: MetricColumn) -> Key:
    question, answer, contexts = key
    return (
        question,
        answer if column.reads_answer else NOTHING,
        contexts if column.reads_contexts else ANY,
    )


def corrected(
    column: MetricColumn, points: Sequence[Point], runs: tuple[str, ...] = ()
) -> tuple[Corrected, Correction] | None:
    """A figure as people see it, or with two runs their difference; None without a label."""
    judged, known = [one.judged for one in points], [one.label for one in points]
    clusters = [one.cluster for one in points]
    same = [one.is_same for one in points]
    if len(runs) < 2:
        found = corrected_mean(judged, known, clusters, bounds=column.bounds)
    else:
        found = corrected_difference(judged, known, clusters, same=same, scale=column.scale)
    if found is None:
        return None
    ends = column.reach if len(runs) > 1 else (column.low, column.high)
    is_chance = column.probability and len(runs) < 2
    raw = mean_interval(judged, clusters, bounds=ends, probability=is_chance)
    used = [one.said for one in points if one.label is not None and not one.is_same]
    interval = None
    if found.low is not None and found.high is not None:
        interval = Interval(low=found.low, high=found.high, level=CONFIDENCE)
    return found, Correction(
        metric=column.name,
        judged=raw.mean or 0.0,
        judged_interval=raw.reported,
        corrected=found.mean,
        interval=interval,
        cases=found.cases,
        labels=found.labels,
        chosen=sum(not all(one.is_drawn for one in said) for said in used),
        people=max((one.people for said in used for one in said), default=0),
        correlation=found.correlation,
        unit=column.unit,
        runs=runs,
    )


def corrections(runs: Sequence[tuple[str, RunScores]]) -> Iterator[Correction]:
    """Each run's figures, then the first run against each other one, metric by metric."""
    if not any(run.has_labels for _, run in runs):
        return
    (mark, first), *others = runs
    asked: list[tuple[MetricColumn, list[Point], tuple[str, ...]]] = [
        (column, points_of(column, run), (own,) if others else ())
        for own, run in runs
        for column in run.metrics
    ]
    asked += [
        (column, points_of(column, run, first), (mark, own))
        for column in first.metrics
        for own, run in others
        if run.column(column.name) is not None
    ]
    for column, points, marks in asked:
        found = corrected(column, points, marks)
        if found is not None:
            yield found[1]


def notes_of(book: LabelBook | None, runs: Sequence[RunScores]) -> Iterator[str]:
    """How many of the labels are of these answers, and whether chance chose them."""
    if book is None:
        return
    names = {column.name for run in runs for column in run.metrics}
    facts = ([run.table.fact(name) for name in ("judged", "labels")] for run in runs)
    cases = [one for known in facts for one in zip(*known, strict=False)]
    used = {(name, judged) for judged, labels in cases for name in labels}
    given = [label for _, labels in cases for label in labels.values()]
    strange = {name: n for name, n in book.by_metric().items() if name not in names and n}
    total = len({label.item for label in book.labels if label.value is not None})
    if strange:
        listed = ", ".join(f"{name or 'no name'} ({count:,})" for name, count in strange.items())
        yield (
            f"Labels of {listed} are of no metric of the run: METRIC=FILE says which they are of."
        )
    if total:
        rest = "" if len(used) >= total else "; the others are of other answers or contexts"
        whose = "these runs" if len(runs) > 1 else "this run"
        yield f"{len(used):,} of {total:,} labelled answers are of {whose}{rest}."
    passed = sum(label.value is None for label in book.labels)
    if passed:
        were = "was" if passed == 1 else "were"
        yield f"{passed:,} {were} passed over: the figures leave out what people could not tell."
    paired = sum(label.is_of_pairs for label in given)
    if paired and len(runs) == 1:
        yield (
            f"{paired:,} labels are of answers that differ between two runs: they correct the "
            "difference (ragbench compare, gate), and not the figure of one run."
        )
    chosen = sum(not label.is_drawn for label in given)
    if chosen:
        yield (
            f"{chosen:,} labels are of cases that nobody drew: corrected figures lean as their "
            "choice did. ragbench label draws them."
        )


_FIRST = 60
"""Labels whose chance is named beside the number that is enough."""


class Asked(NamedTuple):
    """A question, and what people say to it; nothing where too few labelled both sides."""

    question: DropQuestion
    points: Sequence[Point]
    found: tuple[Corrected, Correction] | None


def _asked(question: DropQuestion, run: RunScores, baseline: RunScores) -> Asked:
    points = points_of(question.column, run.on(set(question.sample.case_ids)), baseline)
    found = corrected(question.column, points, ("baseline", "run")) if points else None
    is_known = found is not None and found[1].interval is not None
    return Asked(question, points, found if is_known else None)


def split_labelled(
    questions: Sequence[DropQuestion], run: RunScores, baseline: RunScores
) -> tuple[list[Asked], list[DropQuestion]]:
    """Questions that people answer, since both sides are labelled; and the others."""
    if not run.has_labels:
        return [], [*questions]
    asked = [_asked(question, run, baseline) for question in questions]
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
        question, points, found = asked
        assert found is not None
        column = question.column
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
        check = replace(
            question.check(drop, outcome, ground),
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
    sample, sign = question.sample, question.column.sign
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
        rises=sign < 0.0,
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
        # A probability is not a judge's, and yet no fact: people can be asked.
        is_estimate = column is not None and column.probability
        if is_judged or (is_estimate and check.is_open_drop):
            plan = None
            if check.kind is CheckKind.DROP and check.drop:
                (one,) = [one for one in questions if (one.column, one.slice) == (column, None)]
                plan = _plan(_asked(one, run, baseline), run, baseline, config)
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
        margin = abs(question.column.sign * found.mean + margin)
        deviation, correlation = found.deviation, found.correlation
    plan = Plan(
        margin=margin, deviation=deviation, correlation=correlation, cases=len(differing),
        total=len(asked.points), alpha=config.alpha,
    )  # fmt: skip
    number, known = plan.needed or plan.cases, [one.rpartition("=")[2] for one in config.labels]
    into = next((one for one in known if one.endswith(".jsonl")), "")
    command = (
        f"ragbench label {quote(run.source)} --against {quote(baseline.source)} "
        f"-m {quote(question.column.name)} -n {number} --page label.html"
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
