"""Whether an answer's confidence says how often such answers are correct."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ragbench.records.cells import Cell
from ragbench.records.metrics import Metric
from ragbench.runs.trace import Trace
from ragbench.scoring.answer import answer_measure, best
from ragbench.scoring.measured import measured

__all__ = ["CalibrationScorer", "expected_calibration_error"]


class CalibrationScorer:
    """Computes brier and ECE.

    A case's value of brier is (confidence - correct)^2, of ECE it is correct - confidence, in
    [-1, 1]: positive when the system was too modest, negative when too sure of itself.
    """

    def score(self, metrics: Sequence[Metric], traces: Sequence[Trace]) -> list[list[Cell]]:
        """One list a metric, one cell a trace."""
        return [[_cell(metric, trace) for trace in traces] for metric in metrics]


def expected_calibration_error(metric: Metric, gaps: Iterable[float]) -> float:
    """The mean over bins of |accuracy - mean confidence|, weighted by the bins' sizes.

    Since accuracy minus mean confidence, times the bin's size, is the sum of the bin's gaps, the
    gaps alone are enough: a positive gap tells that the answer was correct and its confidence
    1 - gap, a negative one that it was wrong and its confidence -gap. A gap of 0 adds nothing,
    whichever bin it is in. Bins are [0, 1/n), [1/n, 2/n) ... [(n-1)/n, 1].

    Args:
        metric: ECE with its number of bins.
        gaps: correct - confidence of each case; at least one.

    Returns:
        A value in [0, 1].
    """
    bins = int(metric.parameter("bins"))
    sums: dict[int, list[float]] = {}
    total = 0
    for gap in gaps:
        total += 1
        confidence = 1 - gap if gap > 0 else -gap
        # 1 - (1 - 0.3) is a little more than 0.3: rounding keeps it in its bin.
        position = min(math.floor(round(confidence * bins, 9)), bins - 1)
        sums.setdefault(position, []).append(gap)
    return sum(abs(math.fsum(sums[position])) for position in sorted(sums)) / total


def _cell(metric: Metric, trace: Trace) -> Cell:
    result = trace.generation.value
    if result is None or result.confidence is None:
        return Cell.skipped("generation gave no confidence")
    measure = answer_measure(str(metric.parameter("by")))
    score = best(measure, result.response, trace.case.references)
    correct = float(score >= float(metric.parameter("threshold")))
    if metric.definition.name == "brier":
        return measured((result.confidence - correct) ** 2)
    return measured(correct - result.confidence)
