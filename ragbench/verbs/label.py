"""Answers of stored runs for people to label, and what their labels make of the figures."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from ragbench.core.attribution import Cause
from ragbench.core.case_table import Cells
from ragbench.core.labels import ANSWER_PRESENT, Drawn, Judged, LabelTask, Raters
from ragbench.core.metric import Metric
from ragbench.core.outcome import Cell
from ragbench.core.record import Record, field
from ragbench.core.report import Correction, Report, Summary
from ragbench.core.run_scores import MetricColumn, RunScores, unchanged, under_ids_of
from ragbench.core.trace import Trace
from ragbench.errors import ConfigError
from ragbench.gate.labels import corrections, is_same, labelled, notes_of
from ragbench.gate.runs import read_run
from ragbench.io.people import HumanLabel, Key, LabelBook, key_of
from ragbench.ledger.folder import RunFolder, metrics_of, read_manifest, run_around
from ragbench.stages.run_tally import CauseTally
from ragbench.stats.agreement import cohen_kappa, krippendorff_alpha
from ragbench.verbs.report import RunCases, open_traces


def with_labels(run: RunScores, book: LabelBook | None, *, validated: bool = False) -> RunScores:
    """A run's scores with people's labels of its answers, which correct figures and decide causes.

    A label is kept by what people were shown, not by a run, so it holds for every run that gave the
    same answer. A baseline file holds no answers, and gets no labels.

    Args:
        validated: whether the verdicts of the run's validator become a metric, ``answer_present``.
    """
    folder = run_around(Path(run.source))
    # Of a baseline file, `run_around` gives the file itself, which is no folder.
    if book is None or not folder.is_dir():
        return run
    keys: dict[str, Key] = {}
    answers_present: dict[str, float] = {}
    causes: dict[str, Cause] = {}
    tally = CauseTally()
    # Reads each case with its answer, and decides its cause by the labels.
    cases = RunCases.of(folder, book)
    for row, attribution in cases.attributed():
        trace = row.trace
        id = trace.case.id
        tally.add(id, attribution)
        causes[id] = attribution.cause
        answer, contexts = _answer_and_contexts(trace)
        keys[id] = key_of(trace.case.query, answer, contexts)
        if trace.validation is not None and trace.validation.value is not None:
            verdict = trace.validation.value
            answers_present[id] = float(verdict.answer_present)
    if validated:
        run = _with_verdicts(run, answers_present)
    run = labelled(run, keys, book)
    # What people decide about an answer decides its cause, too.
    # In the order of the scores' cases, as all columns of the table are.
    facts = {**run.table.facts, "cause": [causes[id] for id in run.table.ids]}
    table = replace(run.table, facts=facts)
    return replace(run, cases=table, causes=tally.causes(), answers=tally.answers())


def _with_verdicts(run: RunScores, answers_present: Mapping[str, float]) -> RunScores:
    """A run with its validator's verdicts as a metric, so that people can label and correct them.

    Returned as it is where it has no verdicts.

    Args:
        answers_present: by case id, 1 where the validator says that the answer is in the chunks.
    """
    if not answers_present:
        return run
    column = MetricColumn.of(ANSWER_PRESENT)
    column_cells: list[Cell | None] = []
    for id in run.table.ids:
        # A case without a verdict has no cell of the metric.
        cell = None
        value = answers_present.get(id)
        if value is not None:
            cell = Cell.measured(value)
        column_cells.append(cell)
    cells = {**run.table.cells, column.name: Cells.of(column_cells, {})}
    table = replace(run.table, cells=cells)
    return replace(run, metrics=(*run.metrics, column), cases=table)


def _answer_and_contexts(trace: Trace) -> tuple[str, tuple[str, ...]]:
    """The answer and the contexts of a case, as people are shown them to label the answer.

    The key of a label is made of both: with another form, stored labels no longer match.
    """
    answer = ""
    generation = trace.generation.value
    if generation is not None:
        answer = generation.response
    contexts: tuple[str, ...] = ()
    context = trace.context.value
    if context is not None:
        contexts = tuple(context.contexts)
    return answer, contexts


def corrected_report(report: Report, run: Path, book: LabelBook) -> Report:
    """A run's report, with its figures and causes as labels of people have them.

    A label decides about its answer, and with enough of them they correct the figures of all. The
    stored report stays as it is: labels are in a file of their own.
    """
    # Read from the folder again: the report holds no answers that labels could be found by.
    scored = with_labels(read_run(run), book, validated=True)
    # One run, so that its figures need no name.
    figures = tuple(corrections([("", scored)]))
    cases = RunCases.of(run_around(run), book)
    return replace(
        report,
        summaries=tuple(_corrected_summaries(report.summaries, figures)),
        causes=scored.causes,
        answers=scored.answers,
        corrections=figures,
        notes=(*report.notes, *notes_of(book, [scored])),
        rows=cases.rows,
        find=cases.rows,
        index=cases.index,
    )


def _corrected_summaries(
    summaries: Iterable[Summary], figures: Iterable[Correction]
) -> Iterator[Summary]:
    """The figures of metrics, each corrected where people's labels are enough for its interval.

    With fewer labels, a figure stays the judge's own.
    """
    corrected_figures: dict[str, Correction] = {}
    for figure in figures:
        # Without an interval the labels are too few.
        if figure.interval is not None:
            corrected_figures[figure.metric] = figure
    for summary in summaries:
        correction = corrected_figures.get(summary.metric.name)
        if correction is None:
            yield summary
            continue
        yield replace(
            summary,
            score=correction.corrected,
            interval=correction.interval,
            labels=correction.labels,
        )


def raters(labels: Iterable[HumanLabel]) -> Iterator[Raters]:
    """How far people agree in their labels, by metric, in the order of the label file.

    No judge can be expected to agree with people more than they do with each other. A metric by
    which no answer was labelled by two people is left out.
    """
    items_by_metric: dict[str, dict[Key, dict[str, float]]] = {}
    for label in labels:
        if label.value is not None:
            items = items_by_metric.setdefault(label.metric, {})
            values_by_person = items.setdefault(label.key, {})
            # A person's later label takes the place of the earlier one.
            values_by_person[label.by] = label.value
    for metric, items in items_by_metric.items():
        # Answers that at least two people labelled.
        shared = [values for values in items.values() if len(values) > 1]
        if not shared:
            continue
        people: set[str] = set()
        for values in shared:
            people.update(values)
        alpha = krippendorff_alpha([list(values.values()) for values in shared])
        yield Raters(
            metric=metric,
            people=len(people),
            items=len(shared),
            kappa=_mean_kappa(sorted(people), shared),
            alpha=alpha,
        )


def _mean_kappa(people: Sequence[str], items: Sequence[Mapping[str, float]]) -> float | None:
    """The mean of Cohen's kappa over all pairs of people, weighted by the answers a pair shares.

    Kappa is defined for two people only. None where no pair has one.

    Args:
        items: for each answer the labels, by person.
    """
    total = 0.0
    count = 0
    # In a fixed order of names, so that floats are added alike in each process.
    for person, colleague in combinations(people, 2):
        pairs: list[tuple[float, float]] = []
        for values in items:
            if person in values and colleague in values:
                pairs.append((values[person], values[colleague]))
        kappa = cohen_kappa(pairs)
        if kappa is not None:
            # A pair that shares more answers counts more.
            total += kappa * len(pairs)
            count += len(pairs)
    if not count:
        return None
    return total / count


def draw(
    run: str | Path,
    metric: str,
    count: int,
    *,
    against: str | Path | None = None,
    seed: int = 0,
    stratified: bool = False,
) -> Drawn:
    """Draws cases of a run, or pairs of two runs' answers, at random.

    A larger draw with the same seed holds the smaller one. Of pairs, those whose answers are the
    same are left out: people see no difference.

    Args:
        against: another run of the same cases.
        stratified: in proportion to the metric's values, so that each of them is among the drawn.

    Raises:
        ConfigError: the run does not measure the metric on any case.
    """
    sides = [_Side.of(Path(run))]
    labelled_metric = _labelled_metric(sides[0], metric)
    name = labelled_metric.name
    if against is not None:
        sides.append(_Side.of(Path(against)).under_ids_of(sides[0].scores))
    # For each run of `sides` its values of the metric, by case id.
    values = [side.scores.values(name) for side in sides]
    ids: list[str] = []
    # In the order of the run's cases, on which the draw depends.
    for id in values[0]:
        is_measured = all(values_of_side.get(id) is not None for values_of_side in values)
        if is_measured:
            ids.append(id)
    measured = len(ids)
    column = sides[0].scores.column(name)
    # Of pairs, only those with different answers.
    if against is not None and column is not None:
        ids = _differing_cases(ids, sides, column)
    if not ids:
        subject = "answers" if against is None else "pairs of different answers"
        raise ConfigError(f"there are no {subject} that both have and {name} is measured on")

    # All cases are put in a drawn order, so that a larger draw begins with a smaller one.
    source = random.Random(seed)
    order = source.sample(ids, len(ids))
    # Drawn from the same source, after the order: the same seed draws the same.
    if stratified:
        order = _drawn_in_proportion(order, values[0], count, source)
    drawn_ids = order[:count]
    # One reading of each run for all drawn cases.
    traces = [side.traces(set(drawn_ids)) for side in sides]
    tasks: list[LabelTask] = []
    for id in drawn_ids:
        answers: list[Judged] = []
        for side, side_traces, side_values in zip(sides, traces, values, strict=True):
            answer = side.judged(side_traces[id], side_values[id])
            answers.append(answer)
        # People must not know which run an answer is of.
        source.shuffle(answers)
        case = traces[0][id].case
        task = LabelTask(
            case=id, question=case.query, references=case.references, answers=tuple(answers)
        )
        tasks.append(task)
    return Drawn(
        metric=labelled_metric,
        tasks=tuple(tasks),
        seed=seed,
        of=len(ids),
        differing=len(ids) < measured,
    )


def _differing_cases(ids: Sequence[str], sides: Sequence[_Side], column: MetricColumn) -> list[str]:
    """Ids of the cases that two runs have in the same words, and answer differently.

    People asked which of two equal answers is better would only be tired by it.
    """
    run, baseline = (side.scores for side in sides)
    same = unchanged(run, baseline)
    cases = {case.id: case for case in run.cases}
    baseline_cases = {case.id: case for case in baseline.cases}
    differing: list[str] = []
    for id in ids:
        if id in same and not is_same(baseline_cases[id], cases[id], column):
            differing.append(id)
    return differing


def _drawn_in_proportion(
    order: Sequence[str], values: Mapping[str, float | None], count: int, source: random.Random
) -> list[str]:
    """Draws cases in proportion to a metric's values: every so-many-th case by value.

    Each case has the same chance. A plain draw of few cases may miss a rare value, such as the few
    answers that are wrong.

    Args:
        order: ids of all cases, in a drawn order.
        values: the metric's value of each.
        source: of random numbers; the same state gives the same draw.
    """
    # Of equal values in the drawn order: sorting leaves it.
    # A case without a value was left out before; 0.0 satisfies the type.
    ids_by_value = sorted(order, key=lambda id: values[id] or 0.0)
    # At least 1: of fewer cases than wanted each is taken once.
    step = max(1.0, len(ids_by_value) / count)
    start = source.random()
    drawn: list[str] = []
    for draw_number in range(min(count, len(ids_by_value))):
        # A random start and equal steps: each value gets its share of the draw.
        position = int((start + draw_number) * step)
        drawn.append(ids_by_value[position])
    # Shuffled, so that people do not see the answers in the order of their values.
    return source.sample(drawn, len(drawn))


class _Side(Record):
    """A run whose answers are labelled, alone or beside another one's."""

    folder: Path
    scores: RunScores
    """With the validator's verdicts as a metric."""
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """The run's own ids by those of the other one, where they differ."""

    @classmethod
    def of(cls, path: Path) -> _Side:
        """The run of a folder whose answers are to be labelled.

        A baseline file holds no answers, and is refused.
        """
        folder = run_around(path)
        if not folder.is_dir():
            raise ConfigError(f"{path} holds no answers to label: name the folder of a run")
        # An empty book: labels that are there already do not matter for what is drawn.
        # Verdicts of a validator become a metric here, so that people can label them.
        scores = with_labels(read_run(path), LabelBook(()), validated=True)
        return cls(folder=folder, scores=scores)

    def under_ids_of(self, run: RunScores) -> _Side:
        """The run with its cases under the ids that another run gives the same cases.

        By these ids the answers of two runs to one question can be shown beside each other.
        """
        scores, names = under_ids_of(run, self.scores)
        return replace(self, scores=scores, names=names)

    def judged(self, trace: Trace, value: float | None) -> Judged:
        """A case's answer as people are shown it to label, with its score and the label's key.

        Args:
            value: the metric's value of the case.
        """
        answer, contexts = _answer_and_contexts(trace)
        return Judged(
            answer=answer,
            contexts=contexts,
            key=key_of(trace.case.query, answer, contexts),
            value=value or 0.0,
            run=self.scores.source,
        )

    def traces(self, ids: Set[str]) -> dict[str, Trace]:
        """The stored cases of the run with some ids, in one reading of its journal.

        The ids are those that both sides share. A run may hold more cases than fit in memory.
        """
        # By the run's own ids, with the ids that both sides share.
        shared_ids = {self.names.get(id, id): id for id in ids}
        traces: dict[str, Trace] = {}
        for traced in open_traces(self.folder):
            own_id = traced.trace.case.id
            if own_id in shared_ids:
                traces[shared_ids[own_id]] = traced.trace
        return traces


def _labelled_metric(side: _Side, name: str) -> Metric:
    """The run's metric of a name, which must have a scale on which people can label.

    Raises:
        ConfigError: the run has no such metric, or single answers have no value of it.
    """
    manifest = read_manifest(RunFolder(path=side.folder).manifest)
    # The validator's verdicts are no metric of the manifest.
    metrics = list(metrics_of(manifest))
    if side.scores.column(ANSWER_PRESENT.name) is not None:
        metrics.append(ANSWER_PRESENT)
    for metric in metrics:
        definition = metric.definition
        # Also the name without arguments, such as "rouge" for "rouge(...)".
        if name not in (metric.name, definition.name):
            continue
        # A metric without bounds, or of the whole run, has no value that people could give.
        if definition.aggregate or None in (definition.low, definition.high):
            raise ConfigError(
                f"{metric.name} cannot be labelled: single answers have no scale of it"
            )
        return metric
    measured = ", ".join(metric.name for metric in metrics)
    raise ConfigError(f"{side.folder} does not measure {name}. It measures {measured}")
