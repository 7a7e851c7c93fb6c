"""What labels of people make of a run's figures, and of the differences of two runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ragbench.core.report import Correction, Interval
from ragbench.core.run_scores import Label, MetricColumn, RunScores, ScoredCase
from ragbench.io.people import ANY, NOTHING, Key, LabelBook, value_of
from ragbench.stats.corrected import CONFIDENCE, Corrected, corrected_difference, corrected_mean
from ragbench.stats.mean import mean_interval


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
    clusters, bounds = [one.cluster for one in points], column.bounds
    same = [one.is_same for one in points]
    if len(runs) < 2:
        found = corrected_mean(judged, known, clusters, bounds=bounds)
    else:
        bounds = None if column.scale is None else (-column.scale, column.scale)
        found = corrected_difference(judged, known, clusters, same=same, scale=column.scale)
    if found is None:
        return None
    raw = mean_interval(judged, clusters, bounds=bounds)
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


def notes_of(book: LabelBook, runs: Sequence[RunScores]) -> Iterator[str]:
    """How many of the labels are of these answers, and whether chance chose them."""
    names = {column.name for run in runs for column in run.metrics}
    used = {(name, case.judged) for run in runs for case in run.cases for name in case.labels}
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
        yield f"{passed:,} were passed over: the figures leave out what people could not tell."
    paired = sum(
        one.is_of_pairs for run in runs for case in run.cases for one in case.labels.values()
    )
    if paired and len(runs) == 1:
        yield (
            f"{paired:,} labels are of answers that differ between two runs: they correct the "
            "difference (ragbench compare, gate), and not the figure of one run."
        )
    chosen = sum(
        not one.is_drawn for run in runs for case in run.cases for one in case.labels.values()
    )
    if chosen:
        yield (
            f"{chosen:,} labels are of cases that nobody drew: corrected figures lean as their "
            "choice did. ragbench label draws them."
        )
