"""Sign-flip tests: would these differences be strange if the two runs could be swapped?

Metrics of one pair of runs, and slices of one metric, rise and fall together. Correcting each
p-value for their number (Bonferroni, Holm) pays for tests that are nearly the same one, and
multiplies the smallest p-value that drawn signs can give. Here a draw flips the signs of a cluster
in *all* tests at once, and each test is compared with the largest statistic of the draw: the level
of the whole family is exact, however its tests depend on one another, and no p-value is multiplied.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ragbench.core.record import Record
from ragbench.errors import ConfigError
from ragbench.plugins import Floats, Integers, NDArray, np
from ragbench.stats.paired import Key, PairedSample

_ALL = 14
"""Up to as many clusters in which anything changed, all 2^k arrangements are counted: no more than
else are drawn, about."""
FINENESS = 20
"""The smallest p-value of drawn signs is at most the level divided by this."""
_HELD = 500_000
"""Numbers that are held at once; changes no result."""
_ALONE = 200_000
"""Up to as many multiplications OpenBLAS does in one thread."""
_DENSE = 1_000_000
"""Up to as many, zeros are held, too; changes no result."""


class SignFlipTest(Record):
    """One test alone, uncorrected."""

    p_value: float
    """Chance of a mean at least this far out if signs were arbitrary; 1 where nothing moved."""
    clusters: int
    informative: int
    """Clusters whose total differs from the null: the others say nothing about the sign."""


class FamilyTest(Record):
    tests: tuple[SignFlipTest, ...]
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

    If the two runs were the same system, then swapping them within a cluster would change nothing:
    every arrangement of signs is as likely as the observed one. The p-value is the share of
    arrangements that lie at least as far out. It is exact for any such distribution, ties and tiny
    samples included. Against a null mean below 0 (a tolerated drop) it has at most the nominal
    level for runs that can be swapped, because the p-value only grows when values are raised;
    otherwise it assumes symmetry around the null mean.

    The statistic of a test is the sum of its cluster totals over the root of the sum of their
    squares, which flips of signs leave alone; so all tests have one scale. With D_r the largest
    statistic of draw r over the tests that are not yet rejected, ``p = (1 + #{D_r >= observed}) /
    (1 + draws)``, stepping down from the largest observed one. Up to 14 clusters that differ from
    the null, all arrangements are counted instead.

    Tests in which no cluster differs from the null have a p-value of 1. Slices that are too small
    to reach the level need no other care: their statistic is at most the root of the number of
    their clusters, which the largest of many tests exceeds.

    Source: Fisher 1935, "The Design of Experiments", section 21; in information retrieval Smucker,
    Allan & Carterette 2007; Westfall & Young 1993, "Resampling-Based Multiple Testing", sections
    2.6 and 6.2 (step-down maxT); (b + 1) / (m + 1): Phipson & Smyth 2010.

    Args:
        null_means: look for a mean below this, one a test; None: for one away from 0.
    """
    if resamples < 1:
        raise ConfigError(f"resamples is {resamples}: at least 1 is needed")
    if seed < 0:
        raise ConfigError(f"seed is {seed}: it must not be negative")
    two_sided = null_means is None
    nulls = [0.0] * len(samples) if null_means is None else null_means
    totals = [_totals(sample, null) for sample, null in zip(samples, nulls, strict=True)]
    # Tests in which some cluster differs from the null: the others find nothing.
    able = [place for place, each in enumerate(totals) if len(each.sums)]
    alone = [1.0] * len(samples)
    corrected = [1.0] * len(samples)
    resolution, level = 0.0, alpha
    if able:
        draws = max(resamples, math.ceil(FINENESS / alpha))
        joint, is_counted = _joint([totals[place] for place in able], two_sided, draws, seed)
        for row, place in enumerate(able):
            alone[place] = joint.alone[row]
            corrected[place] = joint.corrected[row]
        if not is_counted:
            resolution = 1.0 / (draws + 1)
        if len(able) > 1:
            level = _level(joint.largest, alpha, two_sided)
    tests: list[SignFlipTest] = []
    for p_value, each in zip(alone, totals, strict=True):
        clusters = _cluster_count(each.sample)
        tests.append(SignFlipTest(p_value=p_value, clusters=clusters, informative=len(each.sums)))
    return FamilyTest(
        tests=tuple(tests),
        p_values=tuple(corrected),
        resolution=resolution,
        size=len(able),
        level=level,
    )


class Stepped(NamedTuple):
    """Statistics against those of the draws; see `stepped_down`."""

    alone: list[float]
    """p-value of each test by itself."""
    corrected: list[float]
    """For all tests."""
    largest: Floats
    """The largest statistic of each draw."""


def stepped_down(
    observed: Floats, draws: Iterable[Floats], *, slack: Any = 1e-9, is_counted: bool = False
) -> Stepped:
    """The share of draws whose largest statistic lies at least as far out, stepping down.

    Source: Westfall & Young 1993, "Resampling-Based Multiple Testing" (step-down maxT).

    Args:
        draws: blocks of statistics, a row a test and a column a draw.
        slack: by how much a statistic may miss another and still tie with it.
        is_counted: whether every arrangement is among the draws, the observed one too.
    """
    order = np.argsort(-observed, kind="stable")
    reached = (observed - slack)[order][:, None]
    # How many draws lie as far out: of the test alone, and of the largest statistic.
    counts_alone = np.zeros(len(order), dtype=np.int64)
    counts_largest = np.zeros(len(order), dtype=np.int64)
    largest: list[Floats] = []
    total = 0
    for block in draws:
        statistics = block[order]
        # The largest over this test and all weaker ones.
        running = np.maximum.accumulate(statistics[::-1], axis=0)[::-1]
        counts_alone += np.count_nonzero(statistics >= reached, axis=1)
        counts_largest += np.count_nonzero(running >= reached, axis=1)
        largest.append(running[0])
        total += statistics.shape[1]
    # Drawn arrangements do not hold the observed one, which is as far out as itself.
    added = 0 if is_counted else 1
    alone, corrected = np.empty(len(order)), np.empty(len(order))
    alone[order] = (counts_alone + added) / (total + added)
    # Stepping down, no weaker test has a smaller p-value.
    corrected[order] = np.maximum.accumulate((counts_largest + added) / (total + added))
    return Stepped(alone.tolist(), corrected.tolist(), np.concatenate(largest))


def _joint(
    totals: Sequence[_Totals], two_sided: bool, draws: int, seed: int
) -> tuple[Stepped, bool]:
    """The p-values of tests as rows over shared clusters; whether every arrangement is counted."""
    parts = [each.sums for each in totals]
    if two_sided and _first_total(parts) < 0.0:
        # All of them, so that two runs that are swapped have the same draws.
        parts = [-part for part in parts]
    matrix = _Matrix.of((each.keys() for each in totals), parts)
    product = matrix.product()
    norms = np.array([math.sqrt(math.fsum(part * part)) for part in parts])
    is_counted = matrix.clusters <= _ALL

    def statistics(sums: Floats) -> Floats:
        distances = np.abs(sums) if two_sided else -sums
        standardised: Floats = distances / norms[:, None]
        return standardised

    def drawn() -> Iterator[Floats]:
        for flips in _flips(matrix, draws, seed):
            # To turn a sign takes a total away twice.
            yield statistics(whole - 2.0 * _times(product, flips))

    whole = np.array([[math.fsum(part)] for part in parts])
    # By so much whole numbers, rounded from sums that tie, may differ.
    slack = np.array([2.0 * len(part) for part in parts]) / norms + 1e-12
    joint = stepped_down(statistics(whole)[:, 0], drawn(), slack=slack, is_counted=is_counted)
    return joint, is_counted


def _first_total(parts: Sequence[Floats]) -> float:
    """The total of the first test in which losses and gains do not cancel out."""
    for part in parts:
        total = float(part.sum())
        if total:
            return total
    return 1.0


def _times(product: Any, flips: Floats) -> Floats:
    """The product of both, in parts so small that BLAS starts no threads, which mostly wait."""
    tests, clusters = product.shape
    draws = flips.shape[1]
    step = clusters  # a sparse matrix is multiplied without BLAS
    if isinstance(product, np.ndarray):
        step = max(1, _ALONE // (tests * draws))
    sums: Floats = product[:, :step] @ flips[:step]
    for start in range(step, clusters, step):
        sums += product[:, start : start + step] @ flips[start : start + step]
    return sums


class _Totals(NamedTuple):
    """The clusters whose total differs from the null, with that total as a whole number."""

    sample: PairedSample
    firsts: NDArray[np.int32]
    """The first case of each."""
    sums: Floats

    def keys(self) -> Iterator[Key]:
        return map(self.sample.key, map(int, self.firsts))


def _totals(sample: PairedSample, null_mean: float) -> _Totals:
    sums, sizes, firsts = _summed(sample)
    totals = np.asarray(sums, dtype=np.float64) - null_mean * np.asarray(sizes)
    (moved,) = np.nonzero(np.abs(totals) > sample.rounding * np.asarray(sizes))
    sums = to_fixed_point(totals[moved], len(moved))  # so that they add up exactly
    return _Totals(sample, np.asarray(firsts, np.int32)[moved], sums)


def _summed(sample: PairedSample) -> tuple[Any, Any, Any]:
    """Sum, size and first case of each cluster."""
    count = len(sample.differences)
    if sample.stands_alone:
        return sample.differences, 1, range(count)
    members: dict[int, list[int]] = defaultdict(list)
    for place, code in enumerate(sample.clusters):
        members[code].append(place)
    groups = members.values()
    values = sample.differences.tolist()
    sums = [math.fsum(values[place] for place in group) for group in groups]
    return sums, [len(group) for group in groups], [group[0] for group in groups]


def _cluster_count(sample: PairedSample) -> int:
    return len(sample.clusters) if sample.stands_alone else len(set(sample.clusters))


class _Matrix(NamedTuple):
    """Whole numbers of tests (rows) and clusters (columns), without zeros.

    In lists of a row each: copies of one array with all of them, as sorting makes, take most of the
    memory of a large gate.
    """

    columns: Sequence[NDArray[np.int32]]
    data: Sequence[Floats]
    clusters: int

    @classmethod
    def of(cls, keys: Iterable[Iterable[Key]], parts: Sequence[Floats]) -> _Matrix:
        numbers: dict[Key, int] = {}
        columns: list[NDArray[np.int32]] = []
        for keys_of_row, part in zip(keys, parts, strict=True):
            numbered = (numbers.setdefault(key, len(numbers)) for key in keys_of_row)
            columns.append(np.fromiter(numbered, np.int32, len(part)))
        clusters = len(numbers)
        del numbers  # large where there are many cases
        places = np.argsort(_canonical(columns, parts, clusters)).astype(np.int32)
        return cls([places[row] for row in columns], parts, clusters)

    def product(self) -> Any:
        """What is multiplied with signs: without SciPy's 25 MB where zeros take less."""
        shape = (len(self.data), self.clusters)
        if shape[0] * shape[1] <= max(_DENSE, 1.5 * sum(map(len, self.data))):
            dense = np.zeros(shape)
            for row, columns, data in zip(dense, self.columns, self.data, strict=True):
                row[columns] = data
            return dense
        from scipy.sparse import csr_matrix

        ends = np.cumsum([0, *map(len, self.data)])
        return csr_matrix((np.concatenate(self.data), np.concatenate(self.columns), ends), shape)


def _canonical(
    columns: Sequence[NDArray[np.int32]], parts: Sequence[Floats], clusters: int
) -> Integers:
    """The clusters in an order that does not depend on that of the cases: by test and total."""
    depth = np.zeros(clusters, np.int32)
    for row in columns:
        depth[row] += 1
    # What is compared first stands last, as NumPy sorts; and what has ended before all others.
    level = np.full(clusters, depth.max())
    tests = np.full((depth.max(), clusters), -1, np.int32)
    totals = np.full(tests.shape, -1.0)
    for test, (row, part) in enumerate(zip(columns, parts, strict=True)):
        level[row] -= 1
        tests[level[row], row] = test
        totals[level[row], row] = part
    sort_keys: list[NDArray[Any]] = []
    for totals_of_level, tests_of_level in zip(totals, tests, strict=True):
        sort_keys += [totals_of_level, tests_of_level]
    order: Integers = np.lexsort(sort_keys)
    return order


def _flips(matrix: _Matrix, draws: int, seed: int) -> Iterator[Floats]:
    """Which signs turn, in blocks: a row a cluster, a column an arrangement; 1 where one does."""
    clusters = matrix.clusters
    most = max(1, _HELD // (2 * len(matrix.data) + clusters))
    if clusters <= _ALL:
        for start in range(0, 2**clusters, most):
            numbers = np.arange(start, min(start + most, 2**clusters), dtype=np.int64)
            flips = [(numbers >> cluster) & 1 for cluster in range(clusters)]
            yield np.array(flips, dtype=np.float64)
        return
    source = np.random.PCG64([seed, _digest(matrix)])
    words = -(-clusters // 64)
    for start in range(0, draws, most):
        count = min(most, draws - start)
        raw = np.asarray(source.random_raw(count * words), dtype="<u8").view(np.uint8)
        bits = np.unpackbits(raw.reshape(count, words * 8), axis=1, bitorder="little")
        yield bits[:, :clusters].T.astype(np.float64)


def _digest(matrix: _Matrix) -> int:
    """The draws depend on the data, so that the luck of one seed does not lift all alike."""
    import hashlib

    digest = hashlib.blake2b(digest_size=8)
    orders = [columns.argsort() for columns in matrix.columns]
    for row, order in zip(matrix.data, orders, strict=True):
        digest.update(row[order].astype("<i8").tobytes())
    for columns, order in zip(matrix.columns, orders, strict=True):
        digest.update(columns[order].astype("<i8").tobytes())
    return int.from_bytes(digest.digest(), "little")


def _level(largest: Floats, alpha: float, two_sided: bool) -> float:
    """The tail of a normal distribution behind what the family's largest statistic must reach."""
    from statistics import NormalDist

    place = min(len(largest) - 1, math.ceil((1.0 - alpha) * len(largest)))
    critical = float(np.sort(largest)[place])
    tail = 1.0 - NormalDist().cdf(critical)
    if two_sided:
        tail *= 2.0
    return min(alpha, max(tail, 1e-12))


def to_fixed_point(values: Floats, largest_count: int) -> Floats:
    """Rounds values to whole multiples of a power of two, and counts those.

    The unit is the finest one for which a sum of ``largest_count`` values of the largest size
    stays within 2^52. Whole numbers of that size add up exactly in floating point, whatever the
    order, the block size, the number of threads or fused instructions of a matrix product: a
    resampled sum is the same number on every machine, and equal sums compare as equal.
    """
    peak = float(np.max(np.abs(values), initial=0.0))
    exponent = math.frexp(peak)[1] + (max(largest_count, 1) - 1).bit_length() - 52
    whole: Floats = np.rint(np.ldexp(values, -exponent))
    return whole
