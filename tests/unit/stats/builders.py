"""Questions of differences alone, and step-down p-values written out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ragbench import RegressionQuestion, pair
from ragbench.stats.paired import PairedSample


def sample(
    differences: Iterable[float], clusters: Sequence[str | None] | None = None, first: int = 0
) -> PairedSample:
    """Cases from the number ``first`` on, each of which moved from 0 by its difference."""
    after: dict[str, float] = {}
    for number, difference in enumerate(differences, first):
        after[str(number)] = float(difference)
    before = dict.fromkeys(after, 0.0)
    if clusters is None:
        return pair(before, after)
    cluster_of = dict(zip(after, clusters, strict=True))
    return pair(before, after, clusters=cluster_of)


def question(
    differences: Iterable[float],
    *,
    tolerance: float = 0.05,
    largest_drop: float | None = 1.0,
    clusters: Sequence[str | None] | None = None,
) -> RegressionQuestion:
    """Whether cases that each moved from 0 by its difference are down by more than tolerated."""
    return RegressionQuestion(
        sample=sample(differences, clusters),
        tolerance=tolerance,
        largest_drop=largest_drop,
    )


def stepped_down(statistics: np.ndarray) -> list[float]:
    """P-values corrected for several tests, from the strongest one to the weakest.

    Args:
        statistics: a row for each test, a column for each arrangement; the first column is the
            observed one.
    """
    observed = statistics[:, 0]
    strongest_first = np.argsort(-observed)
    p_values = [0.0] * len(statistics)
    largest_p_value = 0.0
    for step, test in enumerate(strongest_first):
        # The tests that are rejected already do not count.
        highest = statistics[strongest_first[step:]].max(axis=0)
        # Less a little, so that rounding does not part equal statistics.
        is_as_far_out = highest >= observed[test] - 1e-9
        # No test has a smaller p-value than a stronger one.
        largest_p_value = max(largest_p_value, float(is_as_far_out.mean()))
        p_values[int(test)] = largest_p_value
    return p_values
