"""What labels of people make of a run's figures, and of the differences of two runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ragbench.core.report import Correction, Interval
from ragbench.core.run_scores import Label, MetricColumn, RunScores, ScoredCase
from ragbench.io.people import ANY, NOTHING, Key, LabelBook, value_of
from ragbench.stats.corrected import ASSUMED, Corrected, Plan, corrected_difference, corrected_mean
from ragbench.stats.mean import Interval as MeanInterval
from ragbench.stats.mean import mean_interval


def labelled(run: RunScores, judged: Mapping[str, Key], book: LabelBook) -> RunScores:
    """A run with what people said of its answers.

    Args:
        judged: what was judged of each case, by its id.
    """
    cases: list[ScoredCase] = []
    for case in run.cases:
        key = judged[case.id]
        said = {column.name: book.of(column.name, _read(key, column)) for column in run.metrics}
        labels = {
            name: Label(value, sum(one.value is not None for one in found), found[0].is_drawn)
            for name, found in said.items()
            if (value := value_of(found)) is not None
        }
        cases.append(replace(case, labels=labels, judged=key))
    return replace(run, cases=tuple(cases))


def corrections(run: RunScores) -> Iterator[Correction]:
    """A run's figures, as far as people labelled its answers."""
    for column in run.metrics:
        if (found := _corrected(column, run.cases)) is not None:
            yield found[1]


def _corrected(
    column: MetricColumn, cases: Sequence[ScoredCase]
) -> tuple[Corrected, Correction] | None:
    name = column.name
    measured = [case for case in cases if case.value(name) is not None]
    labels = [case.labels.get(name) for case in measured]
    values = [value for case in measured if (value := case.value(name)) is not None]
    clusters = [case.cluster for case in measured]
    known = [None if label is None else label.value for label in labels]
    found = corrected_mean(values, known, clusters, bounds=column.bounds)
    if found is None:
        return None
    raw = mean_interval(values, clusters, bounds=column.bounds)
    return found, _correction(column, raw, found, [one for one in labels if one is not None])


def corrected_floor(
    column: MetricColumn, cases: Sequence[ScoredCase]
) -> tuple[Interval, Correction] | None:
    """The figure that a floor is held against; None where too few are labelled."""
    found = _corrected(column, cases)
    if found is None or found[1].interval is None:
        return None
    return found[1].interval, found[1]


class Pairs(NamedTuple):
    """The cases of two runs that one metric measured in both, second minus first."""

    judged: list[float]
    labels: list[float | None]
    same: list[bool]
    clusters: list[str | None]
    said: list[Label]
    ids: list[str]


def pairs_of(first: RunScores, second: RunScores, column: MetricColumn) -> Pairs:
    """The pairs, whose labels both sides need; none where both answers are the same."""
    name, found = column.name, Pairs([], [], [], [], [], [])
    earlier = first.by_case(first.cases)
    for case in second.cases:
        before = earlier[case.id]
        now, then = case.value(name), before.value(name)
        if now is None or then is None:
            continue
        mine, other = case.labels.get(name), before.labels.get(name)
        found.ids.append(case.id)
        found.judged.append(now - then)
        found.clusters.append(case.cluster)
        found.same.append(is_same(before, case, column))
        found.labels.append(mine.value - other.value if mine and other else None)
        if mine and other and not found.same[-1]:
            found.said.extend((mine, other))
    return found


def is_same(first: ScoredCase, second: ScoredCase, column: MetricColumn) -> bool:
    """Whether a metric judges the same in both: no label is needed of them."""
    one, other = first.judged, second.judged
    return one is not None and other is not None and _read(one, column) == _read(other, column)


def _read(key: Key, column: MetricColumn) -> Key:
    """What a metric reads of what was judged."""
    question, answer, contexts = key
    return (
        question,
        answer if column.reads_answer else NOTHING,
        contexts if column.reads_contexts else ANY,
    )


def corrected_pairs(
    pairs: Pairs, column: MetricColumn, runs: tuple[str, str]
) -> tuple[Corrected, Correction] | None:
    """The difference of two runs as people see it; None where too few pairs are labelled."""
    if not pairs.judged:
        return None
    found = corrected_difference(
        pairs.judged, pairs.labels, pairs.clusters, same=pairs.same, scale=column.scale
    )
    if found is None or found.low is None:
        return None
    bounds = None if column.scale is None else (-column.scale, column.scale)
    raw = mean_interval(pairs.judged, pairs.clusters, bounds=bounds)
    made = _correction(column, raw, found, pairs.said)
    return found, replace(made, runs=runs)


def _correction(
    column: MetricColumn, raw: MeanInterval, found: Corrected, said: Iterable[Label]
) -> Correction:
    labels = list(said)
    share = found.labels / len(labels) if labels else 0.0  # of a pair there are two
    return Correction(
        metric=column.name,
        judged=raw.mean or 0.0,
        judged_interval=raw.reported,
        corrected=found.mean,
        interval=None
        if found.low is None or found.high is None
        else Interval(low=found.low, high=found.high, level=found.confidence),
        cases=found.cases,
        labels=found.labels,
        chosen=round(sum(not one.is_drawn for one in labels) * share),
        people=max((one.people for one in labels), default=0),
        correlation=found.correlation,
        unit=column.unit,
    )


def compared_corrections(runs: Sequence[tuple[str, RunScores]]) -> Iterator[Correction]:
    """Each run's figures, and the first run against each other one, metric by metric."""
    (mark, first), *others = runs
    for own, run in runs:
        yield from (replace(found, runs=(own,)) for found in corrections(run))
    for column in first.metrics:
        for other, run in others:
            if run.column(column.name) is not None:
                found = corrected_pairs(pairs_of(first, run, column), column, (mark, other))
                if found is not None:
                    yield found[1]


def plan_of(
    pairs: Pairs, found: Corrected | None, tolerance: float, *, loss: float, alpha: float
) -> Plan:
    """What labels can be expected to show of a loss.

    Before the first labels the systems are taken to be equal, and people to vary as the judge does
    and with it as judges of answers do.

    Args:
        loss: what the labels so far say.
    """
    open_ = [value for value, same in zip(pairs.judged, pairs.same, strict=True) if not same]
    mean = math.fsum(open_) / len(open_) if open_ else 0.0
    spread = math.sqrt(math.fsum((v - mean) ** 2 for v in open_) / max(1, len(open_) - 1))
    known = found is not None and found.correlation is not None and found.deviation > 0.0
    return Plan(
        margin=abs(loss - tolerance) if known else tolerance,
        deviation=found.deviation if known and found is not None else spread,
        correlation=(found.correlation or 0.0) if known and found is not None else ASSUMED,
        cases=len(open_),
        total=len(pairs.judged),
        alpha=alpha,
    )


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
    chosen = sum(
        not one.is_drawn for run in runs for case in run.cases for one in case.labels.values()
    )
    if chosen:
        yield (
            f"{chosen:,} labels are of cases that nobody drew: corrected figures lean as their "
            "choice did. ragbench label draws them."
        )
