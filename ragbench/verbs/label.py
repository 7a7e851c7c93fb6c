"""Answers of stored runs for people to label, and what their labels make of the figures."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from ragbench.core.case_table import Cells
from ragbench.core.labels import ANSWER_PRESENT, Drawn, Judged, LabelTask, Raters
from ragbench.core.metric import Metric
from ragbench.core.outcome import Cell
from ragbench.core.record import Record, field
from ragbench.core.report import Report
from ragbench.core.run_scores import MetricColumn, RunScores, unchanged, under_ids_of
from ragbench.core.trace import Trace
from ragbench.errors import ConfigError
from ragbench.gate.labels import corrections, is_same, labelled, notes_of
from ragbench.gate.runs import read_run
from ragbench.io.people import HumanLabel, Key, LabelBook, key_of
from ragbench.ledger.folder import RunFolder, metrics_of, read_manifest, run_around
from ragbench.stats.agreement import cohen_kappa, krippendorff_alpha
from ragbench.verbs.report import open_traces


def with_labels(run: RunScores, book: LabelBook | None, *, validated: bool = False) -> RunScores:
    """A run with the labels of its answers; a baseline file holds no answers, and gets none.

    Args:
        validated: its validator's verdicts are a metric, too: ``answer_present``.
    """
    folder = run_around(Path(run.source))
    if book is None or not folder.is_dir():
        return run
    judged: dict[str, Key] = {}
    present: dict[str, float] = {}
    for traced in open_traces(folder):
        trace = traced.trace
        judged[trace.case.id] = key_of(trace.case.query, *_given(trace))
        if trace.validation is not None and trace.validation.value is not None:
            present[trace.case.id] = float(trace.validation.value.answer_present)
    return labelled(_validated(run, present) if validated else run, judged, book)


def _validated(run: RunScores, present: Mapping[str, float]) -> RunScores:
    """A run whose validator's verdicts are a metric, where it has some."""
    if not present:
        return run
    column = MetricColumn.of(ANSWER_PRESENT)
    cells = Cells.of(
        [Cell.measured(present[id]) if id in present else None for id in run.table.ids], {}
    )
    table = replace(run.table, cells={**run.table.cells, column.name: cells})
    return replace(run, metrics=(*run.metrics, column), cases=table)


def _given(trace: Trace) -> tuple[str, tuple[str, ...]]:
    """The answer and the contexts that people are shown."""
    made, found = trace.generation.value, trace.context.value
    return "" if made is None else made.response, () if found is None else tuple(found.contexts)


def corrected_report(report: Report, run: Path, book: LabelBook) -> Report:
    """A run's report, with its figures corrected by labels."""
    scored = with_labels(read_run(run), book, validated=True)
    notes = notes_of(book, [scored])
    return replace(
        report, corrections=tuple(corrections([("", scored)])), notes=(*report.notes, *notes)
    )


def raters(labels: Iterable[HumanLabel]) -> Iterator[Raters]:
    """By metric, in the order of the file; nothing of one that nobody labelled twice."""
    said: dict[str, dict[Key, dict[str, float]]] = {}
    for label in labels:
        if label.value is not None:
            said.setdefault(label.metric, {}).setdefault(label.key, {})[label.by] = label.value
    for metric, items in said.items():
        shared = [known for known in items.values() if len(known) > 1]
        if not shared:
            continue
        people = sorted({who for known in shared for who in known})
        total, count = 0.0, 0
        for one, other in combinations(people, 2):
            both = [(k[one], k[other]) for k in shared if one in k and other in k]
            if (kappa := cohen_kappa(both)) is not None:
                total, count = total + kappa * len(both), count + len(both)
        yield Raters(
            metric=metric,
            people=len(people),
            items=len(shared),
            kappa=total / count if count else None,
            alpha=krippendorff_alpha([list(known.values()) for known in shared]),
        )


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
    named = _metric(sides[0], metric)
    if against is not None:
        sides.append(_Side.of(Path(against)).beside(sides[0].scores))
    column = sides[0].scores.column(named.name)
    known = [side.scores.values(named.name) for side in sides]
    ids = [id for id in known[0] if all(values.get(id) is not None for values in known)]
    measured = len(ids)
    if against is not None and column is not None:
        ids = _differing(ids, sides, column)
    if not ids:
        what = "answers" if against is None else "pairs of different answers"
        raise ConfigError(f"there are no {what} that both have and {named.name} is measured on")
    source = random.Random(seed)
    order = source.sample(ids, len(ids))
    if stratified:
        order = _in_proportion(order, known[0], count, source)
    texts = [side.traces(set(order[:count])) for side in sides]
    tasks: list[LabelTask] = []
    for id in order[:count]:
        case = texts[0][id].case
        answers = [
            side.judged(found[id], values[id])
            for side, found, values in zip(sides, texts, known, strict=True)
        ]
        source.shuffle(answers)
        tasks.append(LabelTask(case=id, question=case.query, references=case.references,
                               answers=tuple(answers)))  # fmt: skip
    differing = len(ids) < measured
    return Drawn(metric=named, tasks=tuple(tasks), seed=seed, of=len(ids), differing=differing)


def _differing(ids: Sequence[str], sides: Sequence[_Side], column: MetricColumn) -> list[str]:
    same = unchanged(*(side.scores for side in sides))
    now, then = ({case.id: case for case in side.scores.cases} for side in sides)
    return [id for id in ids if id in same and not is_same(then[id], now[id], column)]


def _in_proportion(
    order: Sequence[str], values: Mapping[str, float | None], count: int, source: random.Random
) -> list[str]:
    """Every so-many-th case by value from a drawn start: each case has the same chance."""
    ranked = sorted(order, key=lambda id: values[id] or 0.0)
    step, start = max(1.0, len(ranked) / count), source.random()
    taken = [ranked[int((start + at) * step)] for at in range(min(count, len(ranked)))]
    return source.sample(taken, len(taken))


class _Side(Record):
    folder: Path
    scores: RunScores
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """The run's own ids by those of the other one, where they differ."""

    @classmethod
    def of(cls, path: Path) -> _Side:
        folder = run_around(path)
        if not folder.is_dir():
            raise ConfigError(f"{path} holds no answers to label: name the folder of a run")
        scores = with_labels(read_run(path), LabelBook(()), validated=True)
        return cls(folder=folder, scores=scores)

    def beside(self, other: RunScores) -> _Side:
        scores, names = under_ids_of(other, self.scores)
        return replace(self, scores=scores, names=names)

    def judged(self, trace: Trace, value: float | None) -> Judged:
        answer, contexts = _given(trace)
        key, run = key_of(trace.case.query, answer, contexts), self.scores.source
        return Judged(answer=answer, contexts=contexts, key=key, value=value or 0.0, run=run)

    def traces(self, ids: Set[str]) -> dict[str, Trace]:
        own = {self.names.get(id, id): id for id in ids}
        traces = (traced.trace for traced in open_traces(self.folder))
        return {own[one.case.id]: one for one in traces if one.case.id in own}


def _metric(side: _Side, name: str) -> Metric:
    run = side.folder
    metrics = [*metrics_of(read_manifest(RunFolder(path=run).manifest))]
    metrics += [ANSWER_PRESENT] * (side.scores.column(ANSWER_PRESENT.name) is not None)
    found = next((one for one in metrics if name in (one.name, one.definition.name)), None)
    if found is None:
        known = ", ".join(metric.name for metric in metrics)
        raise ConfigError(f"{run} does not measure {name}. It measures {known}")
    if found.definition.aggregate or None in (found.definition.low, found.definition.high):
        raise ConfigError(f"{found.name} cannot be labelled: single answers have no scale of it")
    return found
