"""The honest gain of the best of several: each chosen on some cases, measured on others.

The gain of the best of many, on the cases that chose it, is too large: luck chose it, too. Here the
cases are cut into folds; for each fold the best is chosen on all others (an outer loop around the
choice; within those cases nothing is fitted, so that the mean over any inner folds is their mean),
and its gain is measured on the fold. That is repeated over many partitions and averaged: an
unbiased estimate of what choosing in this way brings on new cases.

The estimates of folds are not independent: each fold helps to choose for the others, and intervals
that pass over that hold the truth in only 63% to 87% of samples where nothing is better than
anything (simulated; Bates, Hastie and Tibshirani 2023, arXiv:2104.00673, on cross-validation). The
error given here is the mean of the folds' own, which bounds that of their mean however they depend
on one another (Minkowski's inequality). It grows with the root of the number of folds: two are the
default.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragbench.errors import ConfigError
from ragbench.stats.mean import student_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

FOLDS = 2
"""How many folds the cases are cut into, when nobody says."""
PARTITIONS = 50
"""How often they are cut anew."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HonestGain:
    """What choosing the best brings on cases that did not choose it."""

    gain: float
    """Mean over the cases of the chosen one's value minus the first one's."""
    low: float | None
    """Lower end of the interval; None with fewer than two clusters in a fold."""
    high: float | None
    chosen: tuple[float, ...]
    """How often each was chosen, as a share; adds up to 1."""
    cases: int
    clusters: int


def honest_gain(
    values: Sequence[Mapping[str, float]],
    clusters: Mapping[str, str | None],
    *,
    folds: int = FOLDS,
    partitions: int = PARTITIONS,
    confidence: float = 0.95,
    seed: int = 0,
) -> HonestGain:
    """The gain of the best of several over the first.

    Args:
        confidence: of the interval, between 0 and 1.
    """
    import numpy as np

    totals, sizes = _by_cluster(values, clusters)
    count = len(sizes)
    if folds < 2:
        raise ConfigError(f"folds must be at least 2, not {folds}")
    if count < folds:
        raise ConfigError(f"{folds} folds need as many independent cases; there are {count}")
    gains: list[float] = []
    errors: list[float] = []
    chosen = np.zeros(len(values))
    for partition in range(partitions):
        raw = np.random.PCG64([seed, partition]).random_raw(count)
        fold = np.empty(count, dtype=np.int64)
        fold[np.argsort(raw, kind="stable")] = np.arange(count) % folds
        for at in range(folds):
            inside = fold == at
            share = float(sizes[inside].sum() / sizes.sum())
            best = int(np.argmax(totals[:, ~inside].sum(axis=1)))
            gain, error = _mean(totals[best, inside], sizes[inside])
            gains.append(share * gain)
            errors.append(share * error)
            chosen[best] += share
    gain = math.fsum(gains) / partitions
    error = math.fsum(errors) / partitions
    degrees = count // folds - 1
    reach = student_quantile(0.5 + confidence / 2, degrees) * error if degrees > 0 else None
    return HonestGain(
        gain=gain,
        low=None if reach is None else gain - reach,
        high=None if reach is None else gain + reach,
        chosen=tuple((chosen / partitions).tolist()),
        cases=int(sizes.sum()),
        clusters=count,
    )


def _by_cluster(
    values: Sequence[Mapping[str, float]], clusters: Mapping[str, str | None]
) -> tuple[Array, Array]:
    """Summed gains over the first candidate, a row a candidate and a column a cluster; and how many
    cases each cluster has. In an order that does not depend on that of the cases.
    """  # noqa: D205
    import numpy as np

    members: dict[tuple[str, str], list[str]] = defaultdict(list)
    for case in values[0]:
        label = clusters.get(case)
        members[("case", case) if label is None else ("cluster", label)].append(case)
    groups = [members[key] for key in sorted(members)]
    first = values[0]
    totals = [
        [math.fsum(one[case] - first[case] for case in group) for group in groups] for one in values
    ]
    return np.array(totals, dtype=np.float64), np.array([len(g) for g in groups], dtype=np.float64)


def _mean(totals: Array, sizes: Array) -> tuple[float, float]:
    """Mean a case, with its standard error over clusters; 0 for a single cluster."""
    cases, count = float(sizes.sum()), len(sizes)
    mean = float(totals.sum()) / cases
    if count < 2:
        return mean, 0.0
    spread = float(((totals - mean * sizes) ** 2).sum())
    return mean, math.sqrt(spread * count / (count - 1)) / cases
