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
from ragbench.core.run_scores import MetricColumn, RunScores

SYSTEM = {"dataset": "d1", "rag": "r", "settings": "s"}
Score = float | str
"""A number, or the status of a cell without one."""


def config(changes: Mapping[str, Any] | None = None, **metrics: Any) -> GateConfig:
    """Limits of each metric, as its gate or as the values of its limits."""
    demands = {
        name: found if isinstance(found, MetricGate) else MetricGate(limits=FigureLimits(**found))
        for name, found in metrics.items()
    }
    return replace(GateConfig(metrics=demands), **(changes or {}))


def column(name: str, **changes: Any) -> MetricColumn:
    """A metric between 0 and 1, higher is better."""
    known: dict[str, Any] = {"low": 0.0, "high": 1.0, "direction": Direction.HIGHER}
    known |= {"version": 1, "group": "retriever"}
    return MetricColumn(name=name, **(known | changes))


def with_cases(run: RunScores, cases: Iterable[ScoredCase], **changes: Any) -> RunScores:
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

    known: Sequence[CaseTexts]

    def of(self, places: Iterable[int]) -> Iterator[CaseTexts]:
        return (self.known[place] for place in places)

    def marks(self) -> NDArray[np.int64]:
        return np.array([(hash(one.retrieved_ids), hash(one.response)) for one in self.known])

    def at(self, places: Sequence[int]) -> KnownTexts:
        return KnownTexts([*self.of(places)])


def told(run: RunScores, texts: Mapping[str, CaseTexts]) -> RunScores:
    """A run with these texts of its cases."""
    known = KnownTexts([texts.get(id_, CaseTexts()) for id_ in run.table.ids])
    return replace(run, cases=replace(run.table, texts=known))


def run(
    scores: Mapping[str, Iterable[Score]],
    *metrics: MetricColumn,
    clusters: Iterable[str | None] | None = None,
    languages: Iterable[str | None] | None = None,
    **changes: Any,
) -> RunScores:
    """A run with scores by metric, one a case; the cases are called q1, q2 ..."""
    columns = {name: list(values) for name, values in scores.items()}
    size = len(next(iter(columns.values())))
    shared = list(clusters) if clusters is not None else [None] * size
    spoken = list(languages) if languages is not None else [None] * size
    known = {metric.name: metric for metric in metrics}
    cases = [
        ScoredCase(
            id=f"q{row + 1}",
            fingerprint=f"f{row + 1}",
            scores={name: _cell(values[row]) for name, values in columns.items()},
            cluster=shared[row],
            language=spoken[row],
        )
        for row in range(size)
    ]
    figured = [
        _figured(known.get(name) or column(name), values) for name, values in columns.items()
    ]
    return run_of(cases, *figured, **changes)


def _figured(metric: MetricColumn, values: list[Score]) -> MetricColumn:
    numbers = [value for value in values if not isinstance(value, str)]
    return replace(metric, score=sum(numbers) / len(numbers) if numbers else None)


def _cell(score: Score) -> Cell:
    if isinstance(score, str):
        return Cell(status=Status(score), reason=f"why {score}")
    return Cell.measured(score)


def main_run(scores: Any, *, day: int = 1, **changes: Any) -> RunScores:
    """A run of one system, of the metric m."""
    facts = {"fingerprints": SYSTEM, "date": f"2026-03-{day:02}T10:00:00+00:00"}
    return run({"m": scores}, **(facts | changes))
