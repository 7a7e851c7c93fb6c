"""Thresholds from probabilities and labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def smallest_at_precision(probabilities: Matrix, labels: Matrix, precision: float) -> float:
    """The smallest threshold whose precision is reached, where most positives are found."""
    values, hits, named = _curve(probabilities, labels)
    enough = hits / named >= precision
    if not enough.any():
        return float(values[0])
    return float(values[np.flatnonzero(enough)[-1]])


def best_f1(probabilities: Matrix, labels: Matrix) -> float:
    """The threshold of the best F1."""
    values, hits, named = _curve(probabilities, labels)
    return float(values[int(np.argmax(2 * hits / (named + labels.sum())))])


def relevant_from(probabilities: Matrix, labels: Matrix, present: float) -> float:
    """The threshold of the best F1, at most a quarter of the odds of the lowest ``present``."""
    odds = present / (1 - present) / 4
    return min(best_f1(probabilities, labels), odds / (1 + odds))


def _curve(probabilities: Matrix, labels: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """Distinct thresholds, highest first; positives and all that reach each."""
    order = np.argsort(-probabilities, kind="stable")
    sorted_values = probabilities[order]
    last = np.append(sorted_values[1:] != sorted_values[:-1], True)
    hits = np.cumsum(labels[order])[last]
    named = np.arange(1.0, len(labels) + 1)[last]
    return sorted_values[last], hits, named
