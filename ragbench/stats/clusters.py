"""Cases that belong together; inputs that are refused."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragbench.errors import ConfigError, InputError

LARGEST = 1e100
"""Largest size of a value; squares and sums of such values still fit a float."""


def check_finite(values: Iterable[float], *, what: str = "value") -> None:
    """Refuses NaN, infinities and sizes above :data:`LARGEST`."""
    for position, value in enumerate(values):
        if not math.isfinite(value) or abs(value) > LARGEST:
            raise InputError(
                f"{what} {position} is {value}: statistics need finite numbers of a size up to "
                f"{LARGEST:g}. Leave out unmeasured values instead of giving them a number."
            )


def check_share(value: float, *, name: str) -> None:
    """Refuses what is not strictly between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise ConfigError(f"{name} is {value}: it must lie between 0 and 1, both excluded")


Label = str | int | None
"""What a case shares with others; None makes it a cluster of its own."""

# Residuals below this share of the largest total are rounding noise, not spread.
_ROUNDING = 1e-13


def cluster_codes(labels: Sequence[Label]) -> Sequence[int]:
    """Numbers clusters from 0 in order of first appearance."""
    if all(label is None for label in labels):
        return range(len(labels))
    known: dict[str | int, int] = {}
    codes: list[int] = []
    following = 0
    for label in labels:
        code = following if label is None else known.setdefault(label, following)
        following += code == following
        codes.append(code)
    return tuple(codes)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterTotals:
    """The sum and the number of the values of each cluster: all that the tests need.

    Clusters stand in order of (sum, size), so nothing computed from here depends on the order of
    the cases or on the names of the clusters.
    """

    sums: tuple[float, ...]
    """Sum of the values, a cluster; correctly rounded."""
    sizes: tuple[int, ...]
    """Number of the values, a cluster; at least 1."""
    rounding: float = 0.0
    """By how much rounding may have moved a value."""

    @classmethod
    def of(
        cls,
        values: Sequence[float],
        labels: Sequence[Label] | None = None,
        *,
        rounding: float = 0.0,
    ) -> ClusterTotals:
        check_finite(values)
        if labels is not None and len(labels) != len(values):
            raise InputError(
                f"{len(values)} values and {len(labels)} cluster labels: give one label a value"
            )
        # Most cases of most runs stand alone: of a million of them, little more than the sums.
        if labels is None or not any(label is not None for label in labels):
            sums = tuple(sorted(map(float, values)))
            return cls(sums=sums, sizes=(1,) * len(values), rounding=rounding)
        members: dict[str | int, list[float]] = defaultdict(list)
        pairs: list[tuple[float, int]] = []
        for label, value in zip(labels, values, strict=True):
            if label is None:
                pairs.append((float(value), 1))
            else:
                members[label].append(value)
        pairs += [(math.fsum(group), len(group)) for group in members.values()]
        return cls._of_pairs(sorted(pairs), rounding)

    def turned(self) -> ClusterTotals:
        """The same with every sign turned: losses for gains."""
        pairs = sorted((-total, size) for total, size in zip(self.sums, self.sizes, strict=True))
        return ClusterTotals._of_pairs(pairs, self.rounding)

    @classmethod
    def _of_pairs(cls, pairs: Sequence[tuple[float, int]], rounding: float) -> ClusterTotals:
        sums, sizes = zip(*pairs, strict=True) if pairs else ((), ())
        return cls(sums=sums, sizes=sizes, rounding=rounding)

    @property
    def clusters(self) -> int:
        return len(self.sizes)

    @property
    def cases(self) -> int:
        return sum(self.sizes)

    @property
    def mean(self) -> float | None:
        """Mean over the values (not over the clusters); None without any."""
        return math.fsum(self.sums) / self.cases if self.sizes else None

    @property
    def standard_error(self) -> float | None:
        """Cluster-robust standard error of the mean; None with fewer than two clusters.

        With r_c the sum of the deviations from the mean in cluster c, G clusters and N values:
        ``SE^2 = G/(G-1) * sum(r_c^2) / N^2``. That is the sandwich estimator of a regression on
        a constant with the CR1 factor ``G/(G-1) * (N-1)/(N-K)``, K=1; with clusters of one it is
        the usual ``s / sqrt(N)``.

        Source: Liang & Zeger 1986; Cameron & Miller 2015, "A Practitioner's Guide to
        Cluster-Robust Inference", section II; for evaluations Miller 2024, "Adding Error Bars to
        Evals", section 2.2.
        """
        mean, count = self.mean, self.clusters
        if mean is None or count < 2:
            return None
        residuals = [total - mean * size for total, size in zip(self.sums, self.sizes, strict=True)]
        largest = max(map(abs, residuals))
        if largest <= _ROUNDING * max(map(abs, self.sums)):
            return 0.0
        # Scaled by the largest one, so that squares neither overflow nor vanish.
        squares = math.fsum((residual / largest) ** 2 for residual in residuals)
        return largest * math.sqrt(count / (count - 1) * squares) / self.cases

    def shifted(self, shift: float) -> tuple[float, ...]:
        """The sums after adding ``shift`` to every value, in the order of the clusters.

        What is left of a sum after rounding is zero.
        """
        moved = (
            (total + shift * size, size) for total, size in zip(self.sums, self.sizes, strict=True)
        )
        return tuple(0.0 if abs(sum_) <= self.rounding * size else sum_ for sum_, size in moved)
