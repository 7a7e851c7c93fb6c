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

_MOST_COUNTED = 14
"""Clusters in which anything changed, up to which all 2^k arrangements of signs are counted: no
more than are drawn otherwise, about."""
FINENESS = 20
"""The smallest p-value of drawn signs is at most the level divided by this."""
_BLOCK = 500_000
"""Numbers of a block of draws, 4 MB; another value changes no result."""
_ONE_THREAD = 200_000
"""Multiplications up to which OpenBLAS starts no further threads."""
_DENSE = 1_000_000
"""Entries up to which a matrix stores its zeros, too; another value changes no result."""


class SignFlipTest(Record):
    """One test alone, uncorrected."""

    p_value: float
    """Chance of a mean at least this far out if signs were arbitrary; 1 where nothing moved."""
    clusters: int
    """All independent clusters, those that did not move included."""
    informative: int
    """Clusters whose total differs from the null: the others say nothing about the sign."""


class FamilyTest(Record):
    """Tests of several samples, each alone and corrected for their number."""

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
    if null_means is None:
        null_means = [0.0] * len(samples)
    moved_of_tests: list[_MovedClusters] = []
    for sample, null_mean in zip(samples, null_means, strict=True):
        moved_of_tests.append(_moved_clusters(sample, null_mean))
    # The tests in which some cluster differs from the null: the others find nothing.
    testable = [test for test, moved in enumerate(moved_of_tests) if len(moved.sums)]
    alone = [1.0] * len(samples)
    corrected = [1.0] * len(samples)
    resolution = 0.0
    level = alpha
    if testable:
        testable_moved = [moved_of_tests[test] for test in testable]
        draws = max(resamples, math.ceil(FINENESS / alpha))
        step_down, is_counted = _flip_signs(testable_moved, two_sided, draws, seed)
        for row, test in enumerate(testable):
            alone[test] = step_down.alone[row]
            corrected[test] = step_down.corrected[row]
        if not is_counted:
            resolution = 1.0 / (draws + 1)
        if len(testable) > 1:
            level = _level_for_planning(step_down.largest, alpha, two_sided)

    tests: list[SignFlipTest] = []
    for sample, moved, p_value in zip(samples, moved_of_tests, alone, strict=True):
        tests.append(
            SignFlipTest(
                p_value=p_value,
                clusters=_cluster_count(sample),
                informative=len(moved.sums),
            )
        )
    return FamilyTest(
        tests=tuple(tests),
        p_values=tuple(corrected),
        resolution=resolution,
        size=len(testable),
        level=level,
    )


class StepDown(NamedTuple):
    """p-values of several tests from the same draws; see `stepped_down`."""

    alone: list[float]
    """p-value of each test by itself."""
    corrected: list[float]
    """p-value of each test, corrected for all of them."""
    largest: Floats
    """The largest statistic of each draw."""


def stepped_down(
    observed: Floats, draws: Iterable[Floats], *, slack: Any = 1e-9, is_counted: bool = False
) -> StepDown:
    """p-values of several tests from the same draws: each alone, and corrected for all of them.

    The corrected one is the share of draws whose largest statistic lies at least as far out,
    stepping down from the strongest test.

    Its correction for all tests holds however they depend on each other.

    Source: Westfall & Young 1993, "Resampling-Based Multiple Testing" (step-down maxT).

    Args:
        observed: the statistic of each test.
        draws: blocks of statistics, a row a test and a column a draw.
        slack: by how much a statistic may miss another and still tie with it.
        is_counted: whether every arrangement is among the draws, the observed one too.
    """
    # From the largest observed statistic to the smallest: a test is compared with the draws of
    # itself and of all weaker ones, since the stronger ones are rejected by then.
    order = np.argsort(-observed, kind="stable")
    within_slack = observed - slack
    thresholds = within_slack[order][:, None]
    # How many draws lie as far out: of the test alone, and of the largest statistic.
    counts_alone = np.zeros(len(order), dtype=np.int64)
    counts_largest = np.zeros(len(order), dtype=np.int64)
    largest: list[Floats] = []
    total = 0
    for block in draws:
        statistics = block[order]
        # The largest over this test and all weaker ones.
        running = np.maximum.accumulate(statistics[::-1], axis=0)[::-1]
        counts_alone += np.count_nonzero(statistics >= thresholds, axis=1)
        counts_largest += np.count_nonzero(running >= thresholds, axis=1)
        largest.append(running[0])
        total += statistics.shape[1]

    # Drawn arrangements do not include the observed one, which is as far out as itself.
    observed_ones = 1
    if is_counted:
        observed_ones = 0
    alone = np.empty(len(order))
    corrected = np.empty(len(order))
    alone[order] = (counts_alone + observed_ones) / (total + observed_ones)
    # Stepping down, no weaker test has a smaller p-value.
    p_values = (counts_largest + observed_ones) / (total + observed_ones)
    corrected[order] = np.maximum.accumulate(p_values)
    return StepDown(alone.tolist(), corrected.tolist(), np.concatenate(largest))


def _flip_signs(
    moved_of_tests: Sequence[_MovedClusters], two_sided: bool, draws: int, seed: int
) -> tuple[StepDown, bool]:
    """p-values of several tests by flipping the signs of shared clusters, in all tests at once.

    Args:
        moved_of_tests: the clusters of each test that differ from its null; none is empty.
        two_sided: whether gains count as far out, too.
        draws: how many arrangements of signs are drawn where not all are counted.

    Returns:
        The p-values, and whether every arrangement of signs was counted.
    """
    sums_of_tests = [moved.sums for moved in moved_of_tests]
    if two_sided and _first_imbalance(sums_of_tests) < 0.0:
        # In all tests, so that two runs that are swapped have the same draws.
        sums_of_tests = [-sums for sums in sums_of_tests]
    keys_of_tests = (moved.keys() for moved in moved_of_tests)
    matrix = _Matrix.of(keys_of_tests, sums_of_tests)
    is_counted = matrix.clusters <= _MOST_COUNTED
    observed_list: list[float] = []
    norm_list: list[float] = []
    size_list: list[int] = []
    for sums in sums_of_tests:
        observed_list.append(math.fsum(sums))
        norm_list.append(math.sqrt(math.fsum(sums * sums)))
        size_list.append(len(sums))
    observed_sums = np.array(observed_list)[:, None]
    # The roots of the sums of squares, which flips of signs leave alone.
    norms = np.array(norm_list)

    # By so much whole numbers, rounded from sums that tie, may differ.
    slack = 2.0 * np.array(size_list) / norms + 1e-12
    observed = _standardised(observed_sums, norms, two_sided)[:, 0]
    drawn = _drawn_statistics(matrix, observed_sums, norms, two_sided, draws, seed)
    step_down = stepped_down(observed, drawn, slack=slack, is_counted=is_counted)
    return step_down, is_counted


def _standardised(sums: Floats, norms: Floats, two_sided: bool) -> Floats:
    """The statistics of a family's sign-flip tests, in the shape of their sums.

    A large statistic lies far out. The norms make tests of different metrics comparable, so that
    the largest statistic of the family can be looked at under each arrangement of signs.

    Args:
        sums: a test's sum of cluster totals, under one arrangement of signs for each column.
        norms: the root of each test's sum of squared totals, which makes tests comparable.
        two_sided: whether gains lie far out, too; else only losses do, which are below zero.
    """
    distances = np.abs(sums) if two_sided else -sums
    standardised: Floats = distances / norms[:, None]
    return standardised


def _drawn_statistics(
    matrix: _Matrix,
    observed_sums: Floats,
    norms: Floats,
    two_sided: bool,
    draws: int,
    seed: int,
) -> Iterator[Floats]:
    """Blocks of the statistics of all tests under drawn signs: a row a test, a column a draw.

    Args:
        matrix: the totals of clusters, by test.
        observed_sums: each test's sum with the signs as they are, as a column.
        norms: the root of each test's sum of squared totals.
        two_sided: whether gains lie far out, too.
        draws: how many arrangements of signs are drawn, where not all are counted.
    """
    factors = matrix.factors()
    for flips in _blocks_of_flips(matrix, draws, seed):
        turned_sums = _product_in_parts(factors, flips)
        # To turn the sign of a total takes it away twice.
        yield _standardised(observed_sums - 2.0 * turned_sums, norms, two_sided)


def _first_imbalance(sums_of_tests: Sequence[Floats]) -> float:
    """The total of the first test in which losses and gains do not cancel out; 1 without any.

    The total's sign says which of two runs is ahead. By that sign a two-sided test gives the same
    p-values when the runs are swapped.
    """
    for sums in sums_of_tests:
        total = float(sums.sum())
        if total:
            return total
    return 1.0


def _product_in_parts(factors: Any, flips: Floats) -> Floats:
    """The product of totals and signs, in parts so small that BLAS starts no threads.

    Threads mostly wait here, and take the processors from other work. Numbers are whole, so parts
    add up exactly.

    Args:
        factors: totals, a row for each test; dense, or sparse, which is multiplied without BLAS.
        flips: 1 for each sign that turns, a column for each arrangement.
    """
    tests, clusters = factors.shape
    draws = flips.shape[1]
    step = clusters  # a sparse matrix is multiplied without BLAS
    if isinstance(factors, np.ndarray):
        step = max(1, _ONE_THREAD // (tests * draws))
    product: Floats = factors[:, :step] @ flips[:step]
    for start in range(step, clusters, step):
        end = start + step
        product += factors[:, start:end] @ flips[start:end]
    return product


class _MovedClusters(NamedTuple):
    """The clusters of a sample whose total differs from the null: only these have a sign."""

    sample: PairedSample
    """Where the clusters are from: it names them."""
    first_cases: NDArray[np.int32]
    """The place of the first case of each cluster."""
    sums: Floats
    """The total of each cluster less the null, as a whole number."""

    def keys(self) -> Iterator[Key]:
        """A name for each moved cluster, by which `_Matrix.of` finds it again in the other samples.

        A draw must flip the sign of a cluster in all tests at once. A cluster's number is no such
        name: each sample numbers its own clusters. So a case of the cluster gives the name, here
        its first one: the label that it shares with the others, or its id where it shares none
        (`PairedSample.key`).
        """
        return map(self.sample.key, map(int, self.first_cases))


def _moved_clusters(sample: PairedSample, null_mean: float) -> _MovedClusters:
    """The clusters of a sample whose total differs from the null by more than rounding.

    Only moved clusters have a sign that can be flipped. Their totals become whole numbers, which
    add up exactly in any order.

    Args:
        null_mean: the change of a case that counts as none.
    """
    if sample.stands_alone:
        sums = sample.differences
        sizes = np.ones(1)  # one size for all
        first_cases = np.arange(len(sums), dtype=np.int32)
    else:
        cases_by_code: dict[int, list[int]] = defaultdict(list)
        for case, code in enumerate(sample.clusters):
            cases_by_code[code].append(case)
        clusters = cases_by_code.values()
        differences = sample.differences.tolist()
        cluster_sums: list[float] = []
        for cases in clusters:
            cluster_sums.append(math.fsum(differences[case] for case in cases))
        sums = np.array(cluster_sums)
        sizes = np.array([len(cases) for cases in clusters])
        first_cases = np.array([cases[0] for cases in clusters], np.int32)
    totals = sums - null_mean * sizes
    (moved,) = np.nonzero(np.abs(totals) > sample.rounding * sizes)
    # Whole numbers add up exactly, in any order.
    whole_totals = to_fixed_point(totals[moved], len(moved))
    return _MovedClusters(sample, first_cases[moved], whole_totals)


def _cluster_count(sample: PairedSample) -> int:
    """How many independent clusters a sample of a test has, those that did not move included.

    Reports show it as the size of the sample, of which only moved clusters decide.
    """
    if sample.stands_alone:
        return len(sample.clusters)
    return len(set(sample.clusters))


class _Matrix(NamedTuple):
    """Whole numbers of tests (rows) and clusters (columns), without zeros.

    In lists with an array for each test: copies of one array with all numbers, as sorting makes,
    take most of the memory of a large gate.
    """

    columns: Sequence[NDArray[np.int32]]
    """Of each test, the columns of its numbers."""
    numbers: Sequence[Floats]
    """Of each test, its numbers."""
    clusters: int
    """How many columns there are."""

    @classmethod
    def of(cls, keys_of_tests: Iterable[Iterable[Key]], sums_of_tests: Sequence[Floats]) -> _Matrix:
        """The totals of several tests in columns by cluster: clusters of one key share a column.

        The order of the columns does not depend on that of the cases, so that draws do not, either.

        Args:
            keys_of_tests: the key of each cluster of each test.
            sums_of_tests: the total of each of these clusters.
        """
        column_of: dict[Key, int] = {}
        columns: list[NDArray[np.int32]] = []
        for keys, sums in zip(keys_of_tests, sums_of_tests, strict=True):
            numbered = (column_of.setdefault(key, len(column_of)) for key in keys)
            columns.append(np.fromiter(numbered, np.int32, len(sums)))
        clusters = len(column_of)
        del column_of  # large where there are many cases
        # So far the columns are in order of first appearance; from here on in an order that does
        # not change with the order of the cases.
        order = _canonical_order(columns, sums_of_tests, clusters)
        rank_of_column = np.argsort(order).astype(np.int32)
        ordered_columns = [rank_of_column[columns_of_test] for columns_of_test in columns]
        return cls(ordered_columns, sums_of_tests, clusters)

    def factors(self) -> Any:
        """The totals as a matrix to multiply with signs: tests are rows, clusters columns.

        Dense where zeros take less than SciPy's 25 MB, else sparse. Results are the same.
        """
        tests = len(self.numbers)
        shape = (tests, self.clusters)
        stored = sum(map(len, self.numbers))
        # A sparse entry takes 12 bytes, a number with its column, and a dense one 8.
        if tests * self.clusters <= max(_DENSE, 1.5 * stored):
            dense = np.zeros(shape)
            for row, columns, numbers in zip(dense, self.columns, self.numbers, strict=True):
                row[columns] = numbers
            return dense
        from scipy.sparse import csr_matrix

        numbers = np.concatenate(self.numbers)
        columns = np.concatenate(self.columns)
        row_ends = np.cumsum([0, *map(len, self.numbers)])
        return csr_matrix((numbers, columns, row_ends), shape)


def _canonical_order(
    columns_of_tests: Sequence[NDArray[np.int32]], sums_of_tests: Sequence[Floats], clusters: int
) -> Integers:
    """The order of clusters by test and total, which does not depend on that of the cases.

    Draws go by this order: the same data in another order has to give the same p-values. Each
    cluster is a list of pairs (test, total), and these lists are sorted as words are.

    Args:
        columns_of_tests: the cluster of each total, by test.
        sums_of_tests: the totals.
        clusters: how many there are.
    """
    length = np.zeros(clusters, np.int32)
    for columns in columns_of_tests:
        length[columns] += 1
    # A row for each pair of the lists. NumPy sorts by the last key first, so the first pairs stand
    # in the last row. A list that has ended sorts before all others: -1 is below every test.
    row = np.full(clusters, length.max())
    tests = np.full((length.max(), clusters), -1, np.int32)
    totals = np.full(tests.shape, -1.0)
    for test, (columns, sums) in enumerate(zip(columns_of_tests, sums_of_tests, strict=True)):
        row[columns] -= 1
        tests[row[columns], columns] = test
        totals[row[columns], columns] = sums
    sort_keys: list[NDArray[Any]] = []
    for totals_of_row, tests_of_row in zip(totals, tests, strict=True):
        sort_keys += [totals_of_row, tests_of_row]
    order: Integers = np.lexsort(sort_keys)
    return order


def _blocks_of_flips(matrix: _Matrix, draws: int, seed: int) -> Iterator[Floats]:
    """Blocks of drawn signs: a row for each cluster, a column for each arrangement; 1 turns a sign.

    Of few clusters every arrangement is counted once. Else the bits are those of PCG64's raw
    stream, which NumPy promises for all versions: another use of it changes all p-values.

    Args:
        draws: how many arrangements are drawn where not all are counted.
    """
    clusters = matrix.clusters
    block_size = max(1, _BLOCK // (2 * len(matrix.numbers) + clusters))
    if clusters <= _MOST_COUNTED:
        # Every arrangement: the bits of a number say which signs turn.
        for start in range(0, 2**clusters, block_size):
            end = min(start + block_size, 2**clusters)
            arrangements = np.arange(start, end, dtype=np.int64)
            flips = [(arrangements >> cluster) & 1 for cluster in range(clusters)]
            yield np.array(flips, dtype=np.float64)
        return
    # A bit of the raw stream for each sign. An arrangement starts with a fresh word of 64 bits, so
    # that it does not depend on how many are in a block.
    source = np.random.PCG64([seed, _digest_of_totals(matrix)])
    words_each = math.ceil(clusters / 64)
    for start in range(0, draws, block_size):
        count = min(block_size, draws - start)
        raw = np.asarray(source.random_raw(count * words_each), dtype="<u8").view(np.uint8)
        octets = raw.reshape(count, words_each * 8)
        bits = np.unpackbits(octets, axis=1, bitorder="little")
        yield bits[:, :clusters].T.astype(np.float64)


def _digest_of_totals(matrix: _Matrix) -> int:
    """A number from the totals of all tests, by which drawn signs depend on the data, too.

    With one stream for all data, the luck of a seed would lift or lower every comparison alike. A
    change of the digest changes all drawn p-values.
    """
    import hashlib

    digest = hashlib.blake2b(digest_size=8)
    # In the order of the columns: the order of the cases must not change the digest.
    orders = [columns.argsort() for columns in matrix.columns]
    for numbers, order in zip(matrix.numbers, orders, strict=True):
        digest.update(numbers[order].astype("<i8").tobytes())
    for columns, order in zip(matrix.columns, orders, strict=True):
        digest.update(columns[order].astype("<i8").tobytes())
    return int.from_bytes(digest.digest(), "little")


def _level_for_planning(largest: Floats, alpha: float, two_sided: bool) -> float:
    """The level of a single test that asks as much as the family does of its strongest test.

    With this level the sample size of a family is planned by formulas for one test. The level is
    the tail of a normal distribution beyond what the family's largest statistic must reach.

    Args:
        largest: the largest statistic of each draw.
        alpha: the level of the family.
    """
    from statistics import NormalDist

    # The statistic that at most a share of alpha of the draws exceed.
    position = math.ceil((1.0 - alpha) * len(largest))
    last_position = len(largest) - 1
    critical = float(np.sort(largest)[min(position, last_position)])
    tail = 1.0 - NormalDist().cdf(critical)
    if two_sided:
        tail *= 2.0
    # Above 0, since a level of 0 could not be planned for.
    return min(alpha, max(tail, 1e-12))


def to_fixed_point(values: Floats, largest_count: int) -> Floats:
    """Values as whole multiples of one power of two, which add up exactly in any order.

    The unit is the finest one for which a sum of ``largest_count`` values of the largest size
    stays within 2^52. Whole numbers of that size add up exactly in floating point, whatever the
    order, the block size, the number of threads or fused instructions of a matrix product: a
    resampled sum is the same number on every machine, and equal sums compare as equal.
    """
    largest = float(np.max(np.abs(values), initial=0.0))
    _, bits_of_largest = math.frexp(largest)
    bits_of_count = (max(largest_count, 1) - 1).bit_length()
    exponent_of_unit = bits_of_largest + bits_of_count - 52
    whole: Floats = np.rint(np.ldexp(values, -exponent_of_unit))
    return whole
