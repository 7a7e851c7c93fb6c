"""Runs with hand-made scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragbench import FigureLimits, GateConfig, MetricGate
from ragbench.core.case_table import CaseTable, CaseTexts, ScoredCase
from ragbench.core.metric import Direction
from ragbench.core.outcome import Cell, Status
from ragbench.core.report import Latency, StageCount
from ragbench.core.run_scores import MetricColumn, RunScores

SYSTEM = {"dataset": "d1", "rag": "r", "settings": "s"}
Score = float | str
"""A number, or the status of a cell without one."""


def config(changes: Mapping[str, Any] | None = None, **metrics: Any) -> GateConfig:
    """Limits of each metric, as its gate or as the values of its limits."""
    gates: dict[str, MetricGate] = {}
    for name, limits in metrics.items():
        if isinstance(limits, MetricGate):
            gates[name] = limits
        else:
            gates[name] = MetricGate(limits=FigureLimits(**limits))
    return replace(GateConfig(metrics=gates), **(changes or {}))


def column(name: str, **changes: Any) -> MetricColumn:
    """A metric between 0 and 1, higher is better."""
    facts: dict[str, Any] = {
        "low": 0.0,
        "high": 1.0,
        "direction": Direction.HIGHER,
        "version": 1,
        "group": "retriever",
    }
    return MetricColumn(name=name, **(facts | changes))


def with_cases(run: RunScores, cases: Iterable[ScoredCase], **changes: Any) -> RunScores:
    """The run with these cases in place of its own; the scores of its metrics stay."""
    return replace(run, cases=CaseTable.of(cases), **changes)


def run_of(cases: Iterable[ScoredCase], *metrics: MetricColumn, **changes: Any) -> RunScores:
    """A run of these cases."""
    facts: dict[str, Any] = {
        "source": "run",
        "dataset": "quiz",
        "rag": "rag",
        "fingerprints": {"dataset": "d1"},
        "matching": "id",
        "commit": None,
        "dirty": False,
        "cases": CaseTable.of(cases),
        "metrics": tuple(sorted(metrics, key=lambda metric: metric.name)),
    }
    return RunScores(**(facts | changes))


@dataclass(frozen=True, slots=True)
class KnownTexts:
    """Texts of cases that are made by hand."""

    texts: Sequence[CaseTexts]

    def of(self, places: Iterable[int]) -> Iterator[CaseTexts]:
        return (self.texts[place] for place in places)

    def marks(self) -> NDArray[np.int64]:
        """Two numbers per case: equal ones mean the same retrieved ids, the same answer."""
        marks: list[tuple[int, int]] = []
        for texts in self.texts:
            marks.append((hash(texts.retrieved_ids), hash(texts.response)))
        return np.array(marks)

    def at(self, places: Sequence[int]) -> KnownTexts:
        return KnownTexts([*self.of(places)])


def with_texts(run: RunScores, texts: Mapping[str, CaseTexts]) -> RunScores:
    """The run with these texts by the ids of its cases."""
    texts_of_cases = [texts.get(case_id, CaseTexts()) for case_id in run.table.ids]
    table = replace(run.table, texts=KnownTexts(texts_of_cases))
    return replace(run, cases=table)


def run(
    scores: Mapping[str, Iterable[Score]],
    *metrics: MetricColumn,
    clusters: Iterable[str | None] | None = None,
    languages: Iterable[str | None] | None = None,
    **changes: Any,
) -> RunScores:
    """A run with scores by metric, one per case; the cases are called q1, q2 ..."""
    scores_of = {name: list(values) for name, values in scores.items()}
    size = len(next(iter(scores_of.values())))
    cluster_of = list(clusters) if clusters is not None else [None] * size
    language_of = list(languages) if languages is not None else [None] * size

    cases: list[ScoredCase] = []
    for row in range(size):
        cells: dict[str, Cell] = {}
        for name, values in scores_of.items():
            cells[name] = _cell(values[row])
        case = ScoredCase(
            id=f"q{row + 1}",
            fingerprint=f"f{row + 1}",
            scores=cells,
            cluster=cluster_of[row],
            language=language_of[row],
        )
        cases.append(case)

    column_of = {metric.name: metric for metric in metrics}
    columns: list[MetricColumn] = []
    for name, values in scores_of.items():
        metric = column_of.get(name) or column(name)
        columns.append(_with_mean(metric, values))
    return run_of(cases, *columns, **changes)


def _with_mean(metric: MetricColumn, values: list[Score]) -> MetricColumn:
    """The metric with the mean of what was measured; None where nothing was."""
    numbers = [value for value in values if not isinstance(value, str)]
    if not numbers:
        return replace(metric, score=None)
    return replace(metric, score=sum(numbers) / len(numbers))


def _cell(score: Score) -> Cell:
    if isinstance(score, str):
        return Cell(status=Status(score), reason=f"why {score}")
    return Cell.measured(score)


def main_run(scores: Any, *, day: int = 1, **changes: Any) -> RunScores:
    """A run of one system, of the metric m."""
    facts = {"fingerprints": SYSTEM, "date": f"2026-03-{day:02}T10:00:00+00:00"}
    return run({"m": scores}, **(facts | changes))


def timed(stage: str, cases: int, seconds: float, **changes: Any) -> dict[str, Any]:
    """The facts of a run whose stage took so many seconds in each case."""
    figures: dict[str, Any] = {
        "mean": seconds,
        "p50": seconds,
        "p95": seconds,
        "longest": seconds,
    }
    latency = Latency(stage=stage, count=cases, **(figures | changes))
    count = StageCount(stage=stage, measured=cases, abstained=0, skipped=0, failed=0)
    return {"latencies": (latency,), "stages": (count,)}
