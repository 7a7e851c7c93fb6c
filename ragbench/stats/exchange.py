"""A run among several of a baseline: could any of them have been the one that is judged?

Flipping the sign of a difference asks whether two runs can be swapped. The difference between one
score and a mean of several cannot be: of a question that is answered once in twenty times, it is
often a little below zero and rarely far above, and flips of signs then call an unchanged system
worse too often. What holds exactly is this: if nothing changed, then of all scores that a case ever
got, any could be the present one. So the label "present" is drawn anew in each cluster.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ragbench.plugins import Floats, np
from ragbench.stats.family import stepped_down
from ragbench.stats.paired import Key, PairedSample

_BLOCK = 1_000_000
"""Numbers of a block of draws, 8 MB; changes no result."""


def exchange_p_values(
    samples: Sequence[PairedSample],
    *,
    null_means: Sequence[float],
    resamples: int = 10_000,
    seed: int = 0,
) -> tuple[float, ...]:
    """p-values of "the present scores fell by more than this", against scores of several runs.

    The gate asks it of a baseline of several runs, beside the flips of signs: one score and a mean
    of several cannot be swapped.

    The statistic of a test is the sum, over cases, of the present scores less the mean of all
    scores of the case, over its standard deviation under the draws. A draw picks, for each
    cluster and in all tests alike, which of the runs are the present ones. The largest statistic
    counts, stepping down; so the chance of any p-value at most ``alpha`` is at most ``alpha`` for
    runs of one system, in samples of any size and however skewed the scores are.

    Source: Westfall & Young 1993, "Resampling-Based Multiple Testing", section 2.6; restricted
    randomization by case: Edgington & Onghena 2007, "Randomization Tests", chapter 6.
    """
    columns = _columns_of_runs(samples)
    matrix = _matrix_of_scores(samples, null_means, columns)
    deviations = _standard_deviations(matrix, columns)
    p_values = [1.0] * len(samples)
    # The tests in which any score differs from another one of its case. In the others nothing
    # moved, and their statistic would be 0 / 0.
    testable = np.flatnonzero(deviations > 0.0).tolist()
    if not testable:
        return tuple(p_values)
    testable_matrix = matrix[testable]
    scale = deviations[testable][:, None]

    statistics = partial(_standardised_losses, testable_matrix, scale)
    observed_picks = columns.observed_picks()[:, None]
    observed = statistics(observed_picks)[:, 0]
    drawn = map(statistics, columns.drawn_picks(resamples, seed))
    step_down = stepped_down(observed, drawn)
    for test, p_value in zip(testable, step_down.corrected, strict=True):
        p_values[test] = p_value
    return tuple(p_values)


def _standardised_losses(matrix: Any, scale: Floats, picks: Floats) -> Floats:
    """The statistic of each test, a row, for each pick of the present scores, a column.

    A loss is below zero, and a large statistic has to lie far out: so the sign is turned.

    Args:
        matrix: the scores less the mean of their case, a row for each test.
        scale: the standard deviation of each test's sum, as a column.
        picks: 1 for each score that counts as a present one, a column for each pick.
    """
    sums: Floats = matrix @ picks
    return -sums / scale


class _Columns(NamedTuple):
    """The columns of the matrix of scores: for each cluster the present runs, then the earlier.

    A pick is a number for each column: 1 where the score counts as a present one, else 0. So the
    product of the matrix with a pick is the sum of the present scores of each test.
    """

    present_runs: int
    runs: int
    """All runs, present and earlier: so many columns has a cluster."""
    cluster_numbers: Mapping[Key, int]
    """The position of each cluster."""

    def column(self, cluster: Key, run: int) -> int:
        """The position of the column for the score of a run in a cluster.

        The matrix of scores and the picks have the same order: clusters one after the other.

        Args:
            run: present runs are counted from 0, the earlier ones after them.
        """
        return self.cluster_numbers[cluster] * self.runs + run

    @property
    def width(self) -> int:
        """How many columns the matrix of scores has: one for each run in each cluster.

        A pick has as many numbers.
        """
        return len(self.cluster_numbers) * self.runs

    def observed_picks(self) -> Floats:
        """The pick of the runs that really are the present ones: 1 for their scores, else 0.

        The statistic under this pick is compared with those under drawn ones.
        """
        picks = np.zeros((len(self.cluster_numbers), self.runs))
        picks[:, : self.present_runs] = 1.0
        return picks.reshape(-1)

    def drawn_picks(self, draws: int, seed: int) -> Iterator[Floats]:
        """Blocks of picks in which the present runs of each cluster are drawn.

        A column for each draw.

        Only the raw output of PCG64 is used: NumPy promises that stream for all versions, and
        promises nothing of the kind for the distributions built on it (NEP 19). By that the same
        seed gives the same p-values for good; another way of drawing would change them.
        """
        clusters = len(self.cluster_numbers)
        source = np.random.PCG64([seed, clusters, self.runs])
        block_size = max(1, _BLOCK // self.width)
        for start in range(0, draws, block_size):
            size = min(block_size, draws - start)
            if self.present_runs == 1:
                # One number a cluster says which run is the present one: the common case, with
                # fewer numbers to draw.
                raw = np.asarray(source.random_raw(size * clusters), dtype=np.uint64)
                # The remainder is uneven by less than runs / 2^64, which no test can show.
                drawn_runs = (raw % np.uint64(self.runs)).astype(np.int64)
                present = drawn_runs.reshape(size, clusters, 1)
            else:
                # A number a run: those with the smallest are the present ones.
                raw = np.asarray(source.random_raw(size * self.width), dtype=np.uint64)
                ranks = raw.reshape(size, clusters, self.runs)
                order = np.argpartition(ranks, self.present_runs - 1, axis=2)
                present = order[:, :, : self.present_runs]
            picks = np.zeros((size, clusters, self.runs))
            np.put_along_axis(picks, present, 1.0, axis=2)
            yield picks.reshape(size, self.width).T


def _columns_of_runs(samples: Sequence[PairedSample]) -> _Columns:
    """The columns for the scores of all tests, by cluster and run: one draw serves all tests.

    Clusters are in an order that does not depend on that of the cases, so that draws do not,
    either. Where cases were scored in different numbers of runs, there is room for the most.
    """
    # Where cases were scored in different numbers of runs, there is room for the most.
    present_runs = 1
    earlier_runs = 1
    clusters: set[Key] = set()
    for sample in samples:
        for position, (present, earlier) in enumerate(sample.scores_by_case()):
            present_runs = max(present_runs, len(present))
            earlier_runs = max(earlier_runs, len(earlier))
            clusters.add(sample.key(position))
    # In an order that does not depend on that of the cases, so that the draws do not, either.
    ordered = sorted(clusters, key=repr)
    cluster_numbers = {cluster: number for number, cluster in enumerate(ordered)}
    return _Columns(present_runs, present_runs + earlier_runs, cluster_numbers)


def _matrix_of_scores(
    samples: Sequence[PairedSample], null_means: Sequence[float], columns: _Columns
) -> Any:
    """The scores of each test less the mean of their case, as a sparse matrix: a row for each test.

    Multiplied with a pick of present runs, it gives each test's sum of present scores.

    Deviations that only rounding makes are left out.

    Args:
        null_means: the change that each test tolerates.
    """
    from scipy.sparse import coo_matrix

    tests: list[int] = []
    places: list[int] = []
    deviations: list[float] = []
    for test, (sample, null_mean) in enumerate(zip(samples, null_means, strict=True)):
        for position, (present, earlier) in enumerate(sample.scores_by_case()):
            cluster = sample.key(position)
            # Less the tolerated change: a present score that lost exactly that has not moved.
            shifted = [None if score is None else score - null_mean for score in present]
            measured = _scores_by_run(shifted, earlier, columns.present_runs)
            mean = math.fsum(measured.values()) / len(measured)
            for run, score in measured.items():
                if abs(score - mean) > sample.rounding:
                    tests.append(test)
                    places.append(columns.column(cluster, run))
                    deviations.append(score - mean)
    shape = (len(samples), columns.width)
    return coo_matrix((deviations, (tests, places)), shape=shape).tocsr()


def _scores_by_run(
    present: Sequence[float | None], earlier: Sequence[float | None], present_runs: int
) -> dict[int, float]:
    """The scores of a case by the number of their run; without runs that did not measure it.

    Args:
        present: the scores of the present runs, which come first.
        earlier: those of the earlier runs.
        present_runs: the number from which the earlier runs are counted.
    """
    measured: dict[int, float] = {}
    for run, score in enumerate(present):
        if score is not None:
            measured[run] = score
    for run, score in enumerate(earlier, present_runs):
        if score is not None:
            measured[run] = score
    return measured


def _standard_deviations(matrix: Any, columns: _Columns) -> Floats:
    """The standard deviation of each test's sum of present scores when the present runs are drawn.

    Divided by it, the statistics of all tests have one scale. In each cluster ``present_runs`` of
    ``runs`` numbers whose sum is 0 are drawn without replacement; the variances of their sums add
    up over the clusters.
    """
    squares = np.asarray(matrix.multiply(matrix).sum(axis=1)).reshape(-1)
    present = columns.present_runs
    earlier = columns.runs - present
    variances = squares * present * earlier / (columns.runs * max(1, columns.runs - 1))
    deviations: Floats = np.sqrt(variances)
    return deviations
