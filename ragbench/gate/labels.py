"""What labels of people make of figures, differences and losses; what labels a gate lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from statistics import stdev
from typing import NamedTuple

from ragbench.core.case_table import Label, ScoredCase
from ragbench.core.gate_result import CheckKind, Drop, GateCheck, GateOutcome, Ground, LabelPlan
from ragbench.core.report import WORDS_RIGHT, Correction, Interval
from ragbench.core.run_scores import MetricColumn, RunScores
from ragbench.gate.config import GateConfig
from ragbench.gate.drops import DropQuestion
from ragbench.gate.words import worded
from ragbench.io.people import ANY, NOTHING, Key, LabelBook, value_of
from ragbench.safe_text import counted
from ragbench.stats.corrected import (
    ASSUMED,
    CONFIDENCE,
    FEWEST_LABELS,
    Corrected,
    Plan,
    corrected_difference,
    corrected_mean,
)
from ragbench.stats.mean import mean_interval, student_quantile
from ragbench.stats.power import POWER


def labelled(run: RunScores, judged: Mapping[str, Key], book: LabelBook) -> RunScores:
    """A run with the labels that people gave its answers, as one more fact of its cases.

    Figures, differences and checks that a judge made can then be corrected by them.

    Args:
        judged: by a case's id, the key of the question, answer and contexts that were judged.
        book: all labels.
    """
    keys: list[Key] = []
    labels: list[dict[str, Label]] = []
    for id_ in run.table.ids:
        # Every case of the run has a key, also one that nobody labelled.
        key = judged[id_]
        labels_of_case: dict[str, Label] = {}  # by metric
        for column in run.metrics:
            label = _label_of_case(book, column, key)
            if label is not None:
                labels_of_case[column.name] = label
        keys.append(key)
        labels.append(labels_of_case)
    # As two facts of the table, in the order of its cases.
    facts = {**run.table.facts, "labels": labels, "judged": keys}
    table = replace(run.table, facts=facts)
    return replace(run, cases=table)


def _label_of_case(book: LabelBook, column: MetricColumn, judged: Key) -> Label | None:
    """The label of a case by all people who labelled it, on a metric's scale; None without any.

    One number for each case is needed, whoever and however many labelled it.

    Raises:
        ConfigError: a label is not on the scale, such as 4 of 5 stars for a metric up to 1.
    """
    opinions = book.of(column.name, _read_by_metric(judged, column))
    # A label beyond the scale is refused before it is averaged with others.
    for opinion in opinions:
        opinion.check_scale(column.name, column.low, column.high)
    value = value_of(opinions)
    if value is None:
        return None
    return Label(
        value,
        # "Cannot tell" has no value, and is no opinion.
        people=sum(opinion.value is not None for opinion in opinions),
        is_drawn=any(opinion.is_drawn for opinion in opinions),
        is_of_pairs=all(opinion.is_of_pairs for opinion in opinions),
    )


class Point(NamedTuple):
    """A case, or a pair of answers to it, that a metric measured."""

    judged: float
    """The value, or the difference."""
    label: float | None
    """The same by people; None where they did not label it, or only one side."""
    labels: tuple[Label, ...]
    """Those that it rests on."""
    cluster: str | None
    """What makes the case depend on others; None where nothing does."""
    is_same: bool = False
    """Whether both answers of a pair are the same: no label is needed of it."""


def points_of(
    column: MetricColumn, run: RunScores, earlier: RunScores | None = None
) -> list[Point]:
    """The points of a metric: each measured case with the judge's number and people's label.

    With an earlier run, a point is a pair of answers and its numbers are differences. The points
    with both numbers show how the judge errs, and so correct its figure over all cases.
    """
    points: list[Point] = []
    if earlier is None:
        for case in run.cases:
            value = case.value(column.name)
            label = case.labels.get(column.name)
            if value is None:
                continue
            # With or without a label the case gives a point: the judge's number counts for the mean
            # over all cases.
            # Labels of answers that differ between two runs say nothing of all answers of one.
            if label is None or label.is_of_pairs:
                points.append(Point(value, None, (), case.cluster))
            else:
                points.append(Point(value, label.value, (label,), case.cluster))
        return points

    cases_before = {case.id: case for case in earlier.cases}
    for case in run.cases:
        before = cases_before.get(case.id)
        if before is not None:
            point = _pair_point(column, before, case)
            if point is not None:
                # A case that only one run measured makes no point.
                points.append(point)
    return points


def _pair_point(column: MetricColumn, before: ScoredCase, now: ScoredCase) -> Point | None:
    """How a case moved between two runs, by the judge and by people.

    None where the case was not measured in both runs.

    The difference of both numbers shows how the judge errs.
    """
    value_before = before.value(column.name)
    value_now = now.value(column.name)
    if value_before is None or value_now is None:
        return None
    label_before = before.labels.get(column.name)
    label_now = now.labels.get(column.name)
    difference: float | None = None
    labels: tuple[Label, ...] = ()
    # One labelled side says nothing of the difference.
    if label_before is not None and label_now is not None:
        difference = label_now.value - label_before.value
        labels = (label_now, label_before)
    same = is_same(before, now, column)
    return Point(value_now - value_before, difference, labels, now.cluster, same)


def is_same(first: ScoredCase, second: ScoredCase, column: MetricColumn) -> bool:
    """Whether a metric reads the same of two answers to a case, so that one label is enough.

    Without it people would label unchanged answers twice.
    """
    # Without a label book the runs hold no keys.
    if first.judged is None or second.judged is None:
        return False
    read_of_first = _read_by_metric(first.judged, column)
    read_of_second = _read_by_metric(second.judged, column)
    return read_of_first == read_of_second


def _read_by_metric(key: Key, column: MetricColumn) -> Key:
    """The parts of a question, answer and contexts that a metric reads; the others are blanked.

    A label of a metric that reads no contexts then also holds for the same answer with other
    contexts.
    """
    question, answer, contexts = key
    # Blanked parts are equal in all keys, and so do not keep two answers apart.
    if not column.reads_answer:
        answer = NOTHING
    if not column.reads_contexts:
        contexts = ANY
    return question, answer, contexts


def corrected(
    column: MetricColumn, points: Sequence[Point], runs: tuple[str, ...] = ()
) -> tuple[Corrected, Correction] | None:
    """A metric's figure as people see it, or the difference of two runs; None without a label.

    A judge errs: on the labelled cases its error is known, and is taken off its figure over all
    cases.

    Args:
        points: of the one run, or of the pairs of two runs.
        runs: marks of the runs; two for a difference.

    Returns:
        The estimate for tests, and the same for reports.
    """
    judged = [point.judged for point in points]
    labels = [point.label for point in points]
    clusters = [point.cluster for point in points]
    is_difference = len(runs) > 1
    if is_difference:
        # Pairs of the same answer have the difference 0, which needs no label.
        same = [point.is_same for point in points]
        estimate = corrected_difference(judged, labels, clusters, same=same, scale=column.scale)
        raw = mean_interval(judged, clusters, bounds=column.reach)
    else:
        estimate = corrected_mean(judged, labels, clusters, bounds=column.bounds)
        raw = mean_interval(
            judged, clusters, bounds=(column.low, column.high), probability=column.probability
        )
    if estimate is None:
        return None

    chosen = 0
    people = 0
    for point in points:
        if point.label is not None and not point.is_same:
            # A case that people picked themselves: its label leans as their choice did.
            chosen += not all(label.is_drawn for label in point.labels)
            people = max(people, *(label.people for label in point.labels))
    interval = None
    if estimate.low is not None and estimate.high is not None:
        interval = Interval(low=estimate.low, high=estimate.high, level=CONFIDENCE)
    # The level of an uncorrected figure may be off, by as much in both runs: in their difference
    # that falls out.
    has_known_level = is_difference or column.has_known_level
    return estimate, Correction(
        metric=column.name,
        judged=raw.mean or 0.0,
        judged_interval=raw.reported if has_known_level else None,
        corrected=estimate.mean,
        interval=interval,
        cases=estimate.cases,
        labels=estimate.labels,
        chosen=chosen,
        people=people,
        correlation=estimate.correlation,
        unit=column.unit,
        runs=runs,
    )


def corrections(runs: Sequence[tuple[str, RunScores]]) -> Iterator[Correction]:
    """The figures that labels of people correct, by run; then the differences to the first run.

    A judge errs by a system's style: people's labels show by how much, for each run.

    Args:
        runs: each with its mark.
    """
    if not any(run.has_labels for _, run in runs):
        return
    for mark, run in runs:
        for column in run.metrics:
            # A run by itself needs no name.
            marks = (mark,) if len(runs) > 1 else ()
            figure = corrected(column, points_of(column, run), marks)
            if figure is not None:
                yield figure[1]
    first_mark, first_run = runs[0]
    for column in first_run.metrics:
        for mark, run in runs[1:]:
            if run.column(column.name) is None:
                continue
            points = points_of(column, run, first_run)
            difference = corrected(column, points, (first_mark, mark))
            if difference is not None:
                yield difference[1]


def notes_of(book: LabelBook | None, runs: Sequence[RunScores]) -> Iterator[str]:
    """Notes on the labels of runs: how many are of these answers, and whether by chance.

    Labels of hand-picked cases shift a corrected figure, and labels of other answers say nothing.

    Args:
        book: all labels; None without any.
    """
    if book is None:
        return
    # All runs together: a label may be of a metric that only one of them has.
    names = {column.name for run in runs for column in run.metrics}
    unknown: list[str] = []
    for name, count in book.by_metric().items():
        if count and name not in names:
            unknown.append(f"{name or 'no name'} ({count:,})")
    if unknown:
        yield (
            f"Labels of {', '.join(unknown)} are of no metric of the run: METRIC=FILE says which "
            "they are of."
        )

    yield from _one_sided_ratings(book)
    # Each labelled answer once, however many runs gave it.
    used, labels = _labels_of(runs)
    labelled_items = {label.item for label in book.labels if label.value is not None}
    total = len(labelled_items)
    if total:
        judged = "these runs" if len(runs) > 1 else "this run"
        note = f"{len(used):,} of {total:,} labelled answers are of {judged}"
        # Labels are by content: an answer that was given otherwise since has none.
        if len(used) < total:
            note += "; the others are of other answers or contexts"
        yield f"{note}."
    passed_over = [label for label in book.labels if label.value is None]
    if passed_over:
        verb = "was" if len(passed_over) == 1 else "were"
        yield (
            f"{len(passed_over):,} {verb} passed over: the figures leave out what people could not "
            "tell."
        )
    labels_of_pairs = [label for label in labels if label.is_of_pairs]
    # In one run such labels correct nothing, and nobody would see why.
    if labels_of_pairs and len(runs) == 1:
        subject = counted(len(labels_of_pairs), "label")
        yield (
            f"{subject} of answers that differ between two runs: such a label "
            "corrects the difference (ragbench compare, gate), and not the figure of one run."
        )
    chosen_labels = [label for label in labels if not label.is_drawn]
    if chosen_labels:
        subject = counted(len(chosen_labels), "label")
        yield (
            f"{subject} of cases that nobody drew: corrected figures lean as the "
            "choice of these cases did. ragbench label draws them."
        )


def _one_sided_ratings(book: LabelBook) -> Iterator[str]:
    """Names the bounds on ratings by which all answers are right, or all wrong.

    A bound beyond the end of the scale, such as ``>=6`` on ratings of 1 to 5, would otherwise print
    0 % right without a word.
    """
    for metric, bound in book.bounds.items():
        values = [
            label.value
            for label in book.labels
            if label.metric == metric and label.value is not None
        ]
        # A single rating is no sign of a wrong bound.
        if len(values) > 1 and len(set(values)) == 1:
            side = "right" if values[0] else "wrong"
            yield (
                f"By {metric}{bound} all {len(values):,} rated answers are {side}: the number may "
                "lie beyond the scale of the ratings."
            )


def words_notes(runs: Sequence[RunScores]) -> Iterator[str]:
    """A note that comparing words understates differences, where no label corrects them.

    A reader would take a difference for small that people would call large.
    """
    if len(runs) < 2 or not all(run.column(WORDS_RIGHT) for run in runs):
        return
    for run in runs:
        # The first label found is enough: then labels correct these differences.
        for labels_of_case in run.table.fact("labels"):
            if WORDS_RIGHT in labels_of_case:
                return
    yield (
        f"{WORDS_RIGHT} compares words, and understates differences: judged by people, those of "
        "labelled systems were 1.9 to 2.6 times as large."
    )


def _labels_of(runs: Sequence[RunScores]) -> tuple[set[tuple[str, Key]], list[Label]]:
    """The labelled answers of runs, as pairs of metric and key; and all labels of their cases.

    Notes count by them how many labels a run uses, and which of these chance did not choose.
    """
    used: set[tuple[str, Key]] = set()
    labels: list[Label] = []
    for run in runs:
        keys = run.table.fact("judged")
        labels_by_case = run.table.fact("labels")
        # Not strict: a run without labels has neither fact.
        for key, labels_of_case in zip(keys, labels_by_case, strict=False):
            used.update((metric, key) for metric in labels_of_case)
            labels += labels_of_case.values()
    return used, labels


_FEW_LABELS = 60
"""Labels whose chance is named beside the number that is enough."""


class LabelledQuestion(NamedTuple):
    """A question, and what people say to it."""

    question: DropQuestion
    points: Sequence[Point]
    answer: tuple[Corrected, Correction] | None
    """None where too few labelled both sides."""


def _with_labels(question: DropQuestion, run: RunScores, baseline: RunScores) -> LabelledQuestion:
    """A drop's question with its points and the answer that labels of people give.

    The answer is None where too few people labelled both sides.

    A point is a case with the judge's number and, where there is one, people's.

    Args:
        question: whether a metric fell by more than is tolerated.
    """
    # The cases that the question compares; of a slice, these alone.
    ids = set(question.sample.case_ids)
    points = points_of(question.column, run.on(ids), baseline)
    answer = None
    if points:
        answer = corrected(question.column, points, ("baseline", "run"))
    if answer is not None:
        _, correction = answer
        # Without an interval labels decide nothing: the test of values is made.
        if correction.interval is None:
            answer = None
    return LabelledQuestion(question, points, answer)


def split_labelled(
    questions: Sequence[DropQuestion], run: RunScores, baseline: RunScores
) -> tuple[list[LabelledQuestion], list[DropQuestion]]:
    """The questions about drops that labels of people answer, and the questions left to a test.

    Where both runs have labels enough, people decide, and no test of a judge's numbers is made.
    """
    if not run.has_labels:
        return [], [*questions]
    by_people: list[LabelledQuestion] = []
    others: list[DropQuestion] = []
    for question in questions:
        labelled_question = _with_labels(question, run, baseline)
        if labelled_question.answer is None:
            others.append(question)
        else:
            by_people.append(labelled_question)
    return by_people, others


def labelled_checks(
    questions: Sequence[LabelledQuestion],
    run: RunScores,
    baseline: RunScores,
    config: GateConfig,
    family: int,
) -> Iterator[GateCheck]:
    """Checks of drops by labels of people: the corrected difference against the tolerance.

    The test is Student's t.

    People outweigh a judge: these checks replace those of the judge's numbers.

    Args:
        family: how many questions share the level: each of these has its part (Bonferroni).
    """
    for labelled_question in questions:
        question, points, answer = labelled_question
        # A tuple whose answer may be None: the type does not show that none is.
        assert answer is not None  # `split_labelled` leaves no other among these
        estimate, correction = answer
        ids = set(question.sample.case_ids)
        level_before = question.sample.before or 0.0
        points_before = points_of(question.column, baseline.on(ids))
        # The baseline's figure by people, if they labelled it; else as judged.
        figure_before = corrected(question.column, points_before)
        if figure_before is not None:
            estimate_before, _ = figure_before
            level_before = estimate_before.mean
        drop = _drop_by_people(question, points, estimate, family, level_before)
        ground = Ground.OPEN
        outcome = GateOutcome.INCONCLUSIVE
        if drop.cases < config.min_cases:
            ground = Ground.TOO_FEW_CASES
        elif drop.p_worse <= config.alpha:
            # p-values are corrected for the family already.
            ground = Ground.SHOWN
            outcome = GateOutcome.FAILED
        elif drop.p_not_worse <= config.alpha:
            ground = Ground.RULED_OUT
            outcome = GateOutcome.PASSED
        elif drop.loss < 0.0:
            # Neither shown nor excluded, but the figure rose.
            ground = Ground.NOT_LOWER
            outcome = GateOutcome.PASSED
        # Labels are asked for only where some more can decide.
        plan = None
        if ground is Ground.OPEN and question.kind is CheckKind.DROP:
            plan = _label_plan(labelled_question, run, baseline, config)
        check = replace(question.check(drop, outcome, ground), corrected=correction, plan=plan)
        yield worded(check, least=config.min_cases)


def _drop_by_people(
    question: DropQuestion,
    points: Sequence[Point],
    estimate: Corrected,
    family: int,
    before: float,
) -> Drop:
    """The numbers of a drop as labels of people give them, with a t-test in place of sign flips.

    A drop has the same fields whoever judged it, so that all verdicts read alike.

    Args:
        family: how many questions share the level: p-values are multiplied by it (Bonferroni).
        before: the baseline's figure, by people where they labelled it.
    """
    sign = question.column.sign
    # The test counts a loss as negative, whichever side of the metric is better.
    signed_estimate = replace(estimate, mean=sign * estimate.mean)
    p_not_worse = signed_estimate.p_above(-question.tolerance)
    # A true loss of so many standard errors beyond what is tolerated is shown with the usual power.
    quantiles = student_quantile(0.95, estimate.degrees) + student_quantile(POWER, estimate.degrees)
    detectable_drop = question.tolerance + quantiles * estimate.standard_error
    changes = [sign * point.label for point in points if point.label is not None]
    return Drop(
        before=before,
        after=before + estimate.mean,
        difference=estimate.mean,
        low=estimate.low,
        high=estimate.high,
        confidence=CONFIDENCE,
        tolerance=question.tolerance,
        # Bonferroni, and never above 1.
        p_worse=min(1.0, family * (1.0 - p_not_worse)),
        resolution=0.0,
        p_not_worse=p_not_worse,
        family=family,
        cases=len(points),
        clusters=estimate.degrees + 2,
        can_show=True,
        better=sum(change > 0 for change in changes),
        worse=sum(change < 0 for change in changes),
        left_out=question.sample.left_out,
        detectable_drop=detectable_drop,
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
    """The checks; one that a judge alone decides is marked as opinion, with the labels it lacks.

    A judge's word must not be read as a fact.

    Args:
        questions: the drops that were tested, from which the labels to ask for are planned.
    """
    for check in checks:
        column = run.column(check.subject)
        is_judged = column is not None and column.is_judged
        # A probability is not a judge's, and yet no fact: people can be asked.
        is_estimate = column is not None and column.probability
        if not is_judged and not (is_estimate and check.is_open_drop):
            yield check
            continue
        plan = None
        if check.kind is CheckKind.DROP and check.drop is not None:
            for question in questions:
                # Of all cases: labels are not planned for slices.
                if question.column == column and question.slice is None:
                    labelled_question = _with_labels(question, run, baseline)
                    plan = _label_plan(labelled_question, run, baseline, config)
        opinion = replace(check, is_opinion=is_judged, plan=plan)
        yield worded(opinion, least=config.min_cases)


def _label_plan(
    labelled_question: LabelledQuestion,
    run: RunScores,
    baseline: RunScores,
    config: GateConfig,
) -> LabelPlan | None:
    """How many labels of people would settle an open check, and the command that asks for them.

    None where labels cannot settle it: too few answers differ, all are labelled, or a baseline file
    holds no answers. Before the first labels the systems are taken to be equal, and people to vary
    as the judge does and to agree with it as usual (`ASSUMED`).
    """
    question, points, answer = labelled_question
    differing = [point.judged for point in points if not point.is_same]
    estimate: Corrected | None = None
    labels = 0
    if answer is not None:
        estimate, _ = answer
        labels = estimate.labels
    # With fewer, no interval could be made of any labels.
    if len(differing) < FEWEST_LABELS:
        return None
    if Path(baseline.source).is_file():  # a baseline file holds no answers
        return None
    if labels >= len(differing):  # all are labelled: nobody is left to ask
        return None

    margin = question.tolerance
    deviation = stdev(differing)
    correlation = ASSUMED
    if estimate is not None and estimate.correlation is not None:
        # How far the corrected figure is from the tolerance: the nearer, the more labels it takes.
        margin = abs(question.column.sign * estimate.mean + margin)
        deviation = estimate.deviation
        correlation = estimate.correlation
    plan = Plan(
        margin=margin,
        deviation=deviation,
        correlation=correlation,
        cases=len(differing),
        total=len(points),
        alpha=config.alpha,
    )
    # None: not even all pairs are enough, and all are asked about.
    number = plan.needed or plan.cases
    # The chance with a few labels, at least those that are there, beside that with enough.
    # Two numbers, or one where they are the same.
    few = min(max(_FEW_LABELS, labels), number)
    chances = [(count, plan.chance(count)) for count in sorted({few, number})]
    return LabelPlan(
        labels=labels,
        pairs=plan.cases,
        chances=tuple(chances),
        needed=plan.needed,
        command=_label_command(question, run, baseline, config, number),
    )


def _label_command(
    question: DropQuestion, run: RunScores, baseline: RunScores, config: GateConfig, number: int
) -> str:
    """The command that asks people about pairs of answers, with the labels going to a file in use.

    A user copies it from the verdict, so it names the files and the metric completely.

    Args:
        number: how many pairs are asked about.
    """
    command = (
        f"ragbench label {quote(run.source)} --against {quote(baseline.source)} "
        f"-m {quote(question.column.name)} -n {number} --page label.html"
    )
    # The first file of labels that can be added to.
    for entry in config.labels:
        file = entry.rpartition("=")[2]  # METRIC=FILE, or a file alone
        if file.endswith(".jsonl"):
            return f"{command} -o {quote(file)}"
    return command
