"""Questions of differences alone, and step-down p-values written out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ragbench import RegressionQuestion, pair
from ragbench.stats.paired import PairedSample


def sample(
    differences: Iterable[float], clusters: Sequence[str | None] | None = None, first: int = 0
) -> PairedSample:
    """Cases from ``first`` on, each of which moved from 0 by so much."""
    after = {str(at): float(value) for at, value in enumerate(differences, first)}
    labels = None if clusters is None else dict(zip(after, clusters, strict=True))
    return pair(dict.fromkeys(after, 0.0), after, clusters=labels)


def question(
    differences: Iterable[float],
    *,
    tolerance: float = 0.05,
    largest_drop: float | None = 1.0,
    clusters: Sequence[str | None] | None = None,
) -> RegressionQuestion:
    found = sample(differences, clusters)
    return RegressionQuestion(sample=found, tolerance=tolerance, largest_drop=largest_drop)


def stepped_down(drawn: np.ndarray) -> list[float]:
    """P-values of tests (rows) by everything that could have been (columns); the first one was."""
    observed = drawn[:, 0]
    order = np.argsort(-observed)
    found, largest = [0.0] * len(drawn), 0.0
    for step, test in enumerate(order):
        highest = drawn[order[step:]].max(axis=0)
        largest = max(largest, float((highest >= observed[test] - 1e-9).mean()))
        found[int(test)] = largest
    return found
