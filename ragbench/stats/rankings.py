"""How alike two sets of questions rank the same systems, and how far chance moves that."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragbench.stats.agreement import Estimated, resample_counts
from ragbench.stats.mean import Label, cluster_codes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_PLACES = 9
"""Decimals to which means are compared: what differs less is rounding."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Scored:
    """Scores of questions on several systems, summed up by cluster."""

    sums: Array
    """A row for each cluster, a column for each system."""
    sizes: Array
    """Questions in each cluster."""

    @classmethod
    def of(cls, table: Sequence[Sequence[float]], clusters: Sequence[Label]) -> Scored:
        """Of a table with a row for each question and a column for each system."""
        import numpy as np

        codes = np.array(cluster_codes(clusters))
        sums = np.zeros((int(codes.max()) + 1, len(table[0])))
        np.add.at(sums, codes, np.array(table))
        return cls(sums=sums, sizes=np.bincount(codes).astype(float))

    @property
    def means(self) -> Array:
        found: Array = self.sums.sum(axis=0) / self.sizes.sum()
        return found

    def resampled(self, seed: int, resamples: int) -> Array:
        """Means of as many clusters drawn with replacement; a row for each draw."""
        import numpy as np

        blocks = resample_counts(seed, resamples, len(self.sizes))
        return np.concatenate([(one @ self.sums) / (one @ self.sizes)[:, None] for one in blocks])

    def parts(self, count: int, draws: int, seed: int) -> Iterator[tuple[Array, Array]]:
        """Means of about so many questions, drawn by cluster, and those of all the others."""
        import numpy as np

        source, clusters = random.Random(seed), range(len(self.sizes))
        for _ in range(draws):
            order = np.array(source.sample(clusters, len(clusters)))
            enough = int(np.searchsorted(self.sizes[order].cumsum(), count)) + 1
            first = min(enough, len(order) - 1)
            yield self._means(order[:first]), self._means(order[first:])

    def _means(self, clusters: NDArray[np.int64]) -> Array:
        found: Array = self.sums[clusters].sum(axis=0) / self.sizes[clusters].sum()
        return found


def best_of(means: Array) -> Array:
    """Which system is the best; of several that are equally good each has its share."""
    import numpy as np

    rounded = np.round(np.atleast_2d(means), _PLACES)
    highest = rounded == rounded.max(axis=1, keepdims=True)
    found: Array = highest / highest.sum(axis=1, keepdims=True)
    return found


def kendall_tau(first: Array, second: Array) -> Array:
    """Kendall's tau-b of two orders of the same systems; rows of several at once.

    Source: Kendall 1945, "The Treatment of Ties in Ranking Problems". NaN where one side does not
    tell any two systems apart.
    """
    import numpy as np

    signs = [_signs(np.atleast_2d(one)) for one in (first, second)]
    scale = np.sqrt(np.prod([(one**2).sum(axis=1) for one in signs], axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Array = (signs[0] * signs[1]).sum(axis=1) / scale
    return found


def _signs(means: Array) -> Array:
    """Of each pair of systems, which one is higher."""
    import numpy as np

    left, right = np.triu_indices(means.shape[1], 1)
    found: Array = np.sign(np.round(means[:, left] - means[:, right], _PLACES))
    return found


def tau_interval(value: float, samples: Array) -> Estimated:
    """A 95% interval of tau, from resampled questions.

    Resampling blurs orders once more, and so moves tau: the percentile interval of 95% holds the
    tau of all questions in 84% of draws. Joined with its mirror image around the value, at 99%, it
    does so in 95% (benchmarks/fidelity.py; the worst of 96 settings 80%).
    """
    import numpy as np

    if np.isnan(value):
        return Estimated(value=None)
    low, high = map(float, np.nanquantile(samples, [0.005, 0.995]))
    ends = min(low, 2 * value - high), max(high, 2 * value - low)
    return Estimated(value=value, low=max(-1.0, ends[0]), high=min(1.0, ends[1]))
