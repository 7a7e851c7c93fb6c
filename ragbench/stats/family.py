"""Several paired tests of the same two runs as one: signs flipped jointly, the largest one counts.

Metrics of one pair of runs, and slices of one metric, rise and fall together. Correcting each
p-value for their number (Bonferroni, Holm) pays for tests that are nearly the same one, and
multiplies the smallest p-value that drawn signs can give. Here a draw flips the signs of a cluster
in *all* tests at once, and each test is held against the largest statistic of the draw: the level
of the whole family is exact, however its tests depend on one another, and no p-value is multiplied.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ragbench.stats.draws import to_fixed_point
from ragbench.stats.paired import PairedSample
from ragbench.stats.permutation import SignFlipTest, sign_flip_tests

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_ALL = 12
"""Up to as many clusters in which anything changed, all 2^k arrangements are counted."""
FINENESS = 20
"""The smallest p-value of drawn signs is at most the level divided by this."""
_HELD = 4_000_000
"""Numbers that are held at once; changes no result."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FamilyTest:
    """Outcome of a joint test."""

    tests: tuple[SignFlipTest, ...]
    """Each test alone, uncorrected."""
    p_values: tuple[float, ...]
    """Corrected for the family; none is smaller than that of the test alone."""
    resolution: float
    """Smallest p-value that drawn signs can give; 0 where every arrangement was counted."""
    size: int
    """Tests in which anything differs from the null: the family that the correction is for."""
    level: float
    """Level of a single test that asks as much as the family does of its strongest one. For
    planning: ``alpha / size`` where the tests are independent, ``alpha`` where they are one."""


def family_test(
    samples: Sequence[PairedSample],
    *,
    null_means: Sequence[float] | None = None,
    alpha: float = 0.05,
    resamples: int = 10_000,
    seed: int = 0,
) -> FamilyTest:
    """Tests the means of several paired samples of the same cases, as one family.

    The statistic of a test is the sum of its cluster totals over the root of the sum of their
    squares, which flips of signs leave alone; so all tests have one scale. With D_r the largest
    statistic of draw r over the tests that are not yet rejected, ``p = (1 + #{D_r >= observed}) /
    (1 + draws)``, stepping down from the largest observed one.

    Tests in which no cluster differs from the null have a p-value of 1. Slices that are too small
    to reach the level need no other care: their statistic is at most the root of the number of
    their clusters, which the largest of many tests exceeds.

    Source: Westfall & Young 1993, "Resampling-Based Multiple Testing", sections 2.6 and 6.2
    (step-down maxT); (b + 1) / (m + 1): Phipson & Smyth 2010.

    Args:
        null_means: look for a mean below this, one a test; None: for one away from 0.
    """
    two_sided = null_means is None
    nulls = [0.0] * len(samples) if null_means is None else null_means
    draws = max(resamples, math.ceil(FINENESS / alpha))
    totals = [sample.totals() for sample in samples]
    if two_sided:  # drawn signs would give a difference and its reverse other last digits
        totals = [each.turned() if (each.mean or 0.0) < 0.0 else each for each in totals]
    alone = sign_flip_tests(
        totals,
        null_means=nulls,
        alternative="two-sided" if two_sided else "less",
        resamples=draws,
        seed=seed,
    )
    able = [place for place, test in enumerate(alone) if test.informative]
    p_values = [1.0] * len(alone)
    if len(able) < 2:
        for position in able:
            p_values[position] = alone[position].p_value
        drawn = any(alone[position].resamples for position in able)
        return FamilyTest(
            tests=alone,
            p_values=tuple(p_values),
            resolution=1.0 / (draws + 1) if drawn else 0.0,
            size=len(able),
            level=alpha,
        )
    joint = _Joint.of([samples[p] for p in able], [nulls[p] for p in able], two_sided)
    found, level = joint.p_values(draws, seed, alpha)
    running = 0.0
    for place in joint.order:
        running = max(running, found[place], alone[able[place]].p_value)
        p_values[able[place]] = running
    return FamilyTest(
        tests=alone,
        p_values=tuple(p_values),
        resolution=0.0 if joint.is_small else 1.0 / (draws + 1),
        size=len(able),
        level=level,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Joint:
    """Tests as columns over shared clusters; only what changed is held."""

    columns: Any
    """Sparse: a row a test, a column a cluster; whole numbers, so that sums are exact."""
    norms: Array
    observed: Array
    order: tuple[int, ...]
    """Places of the tests, the largest observed statistic first."""
    slacks: Array
    """By how much a statistic may miss another and still tie with it: what rounding moves."""
    two_sided: bool

    @classmethod
    def of(
        cls, samples: Sequence[PairedSample], null_means: Sequence[float], two_sided: bool
    ) -> _Joint:
        import numpy as np
        from scipy.sparse import coo_matrix

        numbers: dict[tuple[str, str | int], int] = {}
        rows: list[int] = []
        places: list[int] = []
        parts: list[Array] = []
        for row, (sample, null_mean) in enumerate(zip(samples, null_means, strict=True)):
            keys, totals = _totals(sample, null_mean)
            fixed, _ = to_fixed_point(np.array(totals, dtype=np.float64), len(totals))
            places += [numbers.setdefault(key, len(numbers)) for key in keys]
            rows += [row] * len(keys)
            parts.append(fixed)
        shape = (len(samples), len(numbers))
        if two_sided and next((total for part in parts if (total := part.sum())), 1.0) < 0.0:
            parts = [-part for part in parts]  # all of them: two runs that are swapped
        matrix: Any = coo_matrix((np.concatenate(parts), (rows, places)), shape=shape).tocsr()
        matrix = matrix[:, _canonical(matrix)]
        matrix.sort_indices()
        norms = np.array([math.sqrt(math.fsum(part * part)) for part in parts])
        sums = np.array([math.fsum(part) for part in parts])
        statistics = (np.abs(sums) if two_sided else -sums) / norms
        return cls(
            columns=matrix,
            norms=norms,
            observed=statistics,
            order=tuple(sorted(range(len(samples)), key=lambda place: (-statistics[place], place))),
            slacks=np.array([2.0 * len(part) for part in parts]) / norms + 1e-12,
            two_sided=two_sided,
        )

    @property
    def is_small(self) -> bool:
        """Whether every arrangement of signs is counted."""
        clusters: int = self.columns.shape[1]
        return clusters <= _ALL

    def p_values(self, draws: int, seed: int, alpha: float) -> tuple[list[float], float]:
        """Of each test, corrected; and the level of a single test that asks as much."""
        import numpy as np

        order = list(self.order)
        observed = (self.observed - self.slacks)[order]
        counts = np.zeros(len(order), dtype=np.int64)
        largest: list[Array] = []
        total = 0
        for signs in _signs(self.columns, draws, seed):
            found = (self.columns @ signs) / self.norms[:, None]
            found = (np.abs(found) if self.two_sided else -found)[order]
            # The largest over this test and all weaker ones.
            running = np.maximum.accumulate(found[::-1], axis=0)[::-1]
            counts += np.count_nonzero(running >= observed[:, None], axis=1)
            largest.append(running[0])
            total += signs.shape[1]
        # Where all are counted, the observed arrangement is among them.
        shares = counts / total if self.is_small else (counts + 1) / (total + 1)
        p_values = [0.0] * len(order)
        for place, share in zip(order, shares, strict=True):
            p_values[place] = float(share)
        return p_values, _level(np.concatenate(largest), alpha, self.two_sided)


def _totals(
    sample: PairedSample, null_mean: float
) -> tuple[list[tuple[str, str | int]], list[float]]:
    """The clusters whose total differs from the null, with that total."""
    members: dict[tuple[str, str | int], list[float]] = defaultdict(list)
    for key, difference in zip(sample.keys(), sample.differences, strict=True):
        members[key].append(difference)
    keys: list[tuple[str, str | int]] = []
    totals: list[float] = []
    for key, values in members.items():
        total = math.fsum(values) - null_mean * len(values)
        if abs(total) > sample.rounding * len(values):
            keys.append(key)
            totals.append(total)
    return keys, totals


def _canonical(matrix: Any) -> list[int]:
    """The clusters in an order that does not depend on that of the cases."""
    columns = matrix.tocsc()
    ends = columns.indptr
    contents = [
        tuple(sorted(zip(columns.indices[a:b].tolist(), columns.data[a:b].tolist(), strict=True)))
        for a, b in pairwise(ends)
    ]
    return sorted(range(len(contents)), key=contents.__getitem__)


def _signs(matrix: Any, draws: int, seed: int) -> Iterator[Array]:
    """Arrangements of signs in blocks: a row a cluster, a column an arrangement."""
    import numpy as np

    tests, clusters = matrix.shape
    if clusters <= _ALL:
        numbers = np.arange(2**clusters, dtype=np.int64)
        flips = [(numbers >> cluster) & 1 for cluster in range(clusters)]
        yield 1.0 - 2.0 * np.array(flips, dtype=np.float64)
        return
    source = np.random.PCG64([seed, _digest(matrix)])
    words = -(-clusters // 64)
    most = max(1, _HELD // (2 * tests + clusters))
    for start in range(0, draws, most):
        count = min(most, draws - start)
        raw = np.asarray(source.random_raw(count * words), dtype="<u8").view(np.uint8)
        bits = np.unpackbits(raw.reshape(count, words * 8), axis=1, bitorder="little")
        yield 1.0 - 2.0 * bits[:, :clusters].T.astype(np.float64)


def _digest(matrix: Any) -> int:
    """The draws depend on the data, so that the luck of one seed does not lift all alike."""
    import hashlib

    content = matrix.data.astype("<i8").tobytes() + matrix.indices.astype("<i8").tobytes()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def _level(largest: Array, alpha: float, two_sided: bool) -> float:
    """The tail of a normal distribution behind what the family's largest statistic must reach."""
    from statistics import NormalDist

    import numpy as np

    critical = float(
        np.sort(largest)[min(len(largest) - 1, math.ceil((1.0 - alpha) * len(largest)))]
    )
    tail = (2.0 if two_sided else 1.0) * (1.0 - NormalDist().cdf(critical))
    return min(alpha, max(tail, 1e-12))
