"""Metrics of several candidate answers to one question."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from ragbench.records.cells import Cell
from ragbench.records.metrics import Metric
from ragbench.runs.trace import Trace
from ragbench.scoring.answer import AnswerMeasure, answer_measure, best, token_f1
from ragbench.scoring.measured import measured

__all__ = ["CandidateScorer", "best_of_n", "candidate_agreement"]

_TOO_FEW = Cell.skipped("fewer than two candidates")


def best_of_n(
    measure: AnswerMeasure, candidates: Sequence[str], references: Sequence[str], n: int = 0
) -> float:
    """The score of the best of the first n candidates: what a perfect choice among them gives.

    Args:
        measure: scores one candidate against one reference.
        candidates: at least one, best first.
        references: at least one; the best fitting one counts.
        n: how many candidates to look at; 0 looks at all.
    """
    chosen = candidates[:n] if n else candidates
    return max(best(measure, candidate, references) for candidate in chosen)


def candidate_agreement(candidates: Sequence[str]) -> float:
    """Mean token F1 over all pairs of candidates, in [0, 1].

    Args:
        candidates: at least two.
    """
    pairs = list(combinations(candidates, 2))
    return sum(token_f1(one, other) for one, other in pairs) / len(pairs)


class CandidateScorer:
    """Computes best_of_n and candidate_agreement."""

    def score(self, metrics: Sequence[Metric], traces: Sequence[Trace]) -> list[list[Cell]]:
        """One list a metric, one cell a trace."""
        return [[_cell(metric, trace) for trace in traces] for metric in metrics]


def _cell(metric: Metric, trace: Trace) -> Cell:
    result = trace.generation.value
    candidates = (result.multi_responses if result is not None else None) or ()
    if metric.definition.name == "candidate_agreement":
        return measured(candidate_agreement(candidates)) if len(candidates) > 1 else _TOO_FEW
    measure = answer_measure(str(metric.parameter("metric")))
    n = int(metric.parameter("n"))
    return measured(best_of_n(measure, candidates, trace.case.references, n))
