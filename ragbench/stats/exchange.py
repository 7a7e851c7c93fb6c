"""A run among several of a baseline: could any of them have been the one that is judged?

Flipping the sign of a difference asks whether two runs can be swapped. The difference between one
score and a mean of several cannot be: of a question that is answered once in twenty times, it is
often a little below zero and rarely far above, and flips of signs then call an unchanged system
worse too often. What holds exactly is this: if nothing changed, then of all scores that a case ever
got, any could be the present one. So the label "present" is drawn anew in each cluster.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ragbench.plugins import Floats, np
from ragbench.stats.family import stepped_down
from ragbench.stats.paired import Key, PairedSample

_BLOCK = 1_000_000
"""Numbers in memory at once; changes no result."""


def exchange_p_values(
    samples: Sequence[PairedSample],
    *,
    null_means: Sequence[float],
    resamples: int = 10_000,
    seed: int = 0,
) -> tuple[float, ...]:
    """p-values of "the scores fell by more than this", against scores that were repeated.

    The statistic of a test is the sum, over cases, of the present scores less the mean of all
    scores of the case, over its standard deviation under the draws. A draw picks, for each
    cluster and in all tests alike, which of the runs are the present ones. The largest statistic
    counts, stepping down; so the chance of any p-value at most ``alpha`` is at most ``alpha`` for
    runs of one system, in samples of any size and however skewed the scores are.

    Source: Westfall & Young 1993, "Resampling-Based Multiple Testing", section 2.6; restricted
    randomization by case: Edgington & Onghena 2007, "Randomization Tests", chapter 6.
    """
    matrix, deviations, layout = _matrix(samples, null_means)
    p_values = [1.0] * len(samples)
    # Places of the tests in which any score differs from another one of its case.
    testable = [place for place, deviation in enumerate(deviations) if deviation > 0.0]
    if not testable:
        return tuple(p_values)
    matrix = matrix[testable]
    scale = deviations[testable][:, None]

    def statistics(picks: Floats) -> Floats:
        # A loss is below zero, and a large statistic lies far out.
        standardised: Floats = -(matrix @ picks) / scale
        return standardised

    observed = statistics(layout.observed_picks()[:, None])[:, 0]
    drawn = (statistics(picks) for picks in layout.drawn_picks(resamples, seed))
    step_down = stepped_down(observed, drawn)
    for place, p_value in zip(testable, step_down.corrected, strict=True):
        p_values[place] = p_value
    return tuple(p_values)


class _Layout(NamedTuple):
    """Where the scores of a cluster stand in a row: first those of the present runs, then others.

    A pick is a 1 at every score that counts as a present one, and a 0 at the others.
    """

    present: int
    """Present runs."""
    width: int
    """All runs: columns of a cluster."""
    clusters: int

    def observed_picks(self) -> Floats:
        """The scores of the runs that are the present ones."""
        picks = np.zeros((self.clusters, self.width))
        picks[:, : self.present] = 1.0
        return picks.reshape(-1)

    def drawn_picks(self, count: int, seed: int) -> Iterator[Floats]:
        """Picks drawn anew, in blocks: a row a column of the scores, a column a draw."""
        source = np.random.PCG64([seed, self.clusters, self.width])
        columns = self.clusters * self.width
        block_size = max(1, _BLOCK // columns)
        for start in range(0, count, block_size):
            size = min(block_size, count - start)
            picks = np.zeros((size, self.clusters, self.width))
            if self.present == 1:
                # One number a cluster says which run is the present one.
                raw = np.asarray(source.random_raw(size * self.clusters), dtype=np.uint64)
                runs = (raw % np.uint64(self.width)).astype(np.int64)
                places = runs.reshape(size, self.clusters, 1)
            else:
                # A number a run: those with the smallest are the present ones.
                raw = np.asarray(source.random_raw(size * columns), dtype=np.uint64)
                ranks = raw.reshape(size, self.clusters, self.width)
                order = np.argpartition(ranks, self.present - 1, axis=2)
                places = order[:, :, : self.present]
            np.put_along_axis(picks, places, 1.0, axis=2)
            yield picks.reshape(size, columns).T


def _matrix(
    samples: Sequence[PairedSample], null_means: Sequence[float]
) -> tuple[Any, Floats, _Layout]:
    """The scores less the mean of their case: a row a test, a column a cluster and run.

    Returns:
        The sparse matrix; the standard deviation under the draws of each row's statistic; where
        the runs of a cluster stand.
    """
    from scipy.sparse import coo_matrix

    scores_by_sample = [sample.scores_by_case() for sample in samples]
    # Where cases were scored in different numbers of runs, there is room for the most.
    present = 1
    earlier = 1
    for scores_of_cases in scores_by_sample:
        for now, before in scores_of_cases:
            present = max(present, len(now))
            earlier = max(earlier, len(before))
    width = present + earlier

    keys_by_sample: list[list[Key]] = []
    all_keys: set[Key] = set()
    for sample in samples:
        keys = [sample.key(place) for place in range(len(sample.clusters))]
        keys_by_sample.append(keys)
        all_keys.update(keys)
    # In an order that does not depend on that of the cases.
    numbers = {key: number for number, key in enumerate(sorted(all_keys, key=repr))}

    rows: list[int] = []
    columns: list[int] = []
    entries: list[float] = []
    for row, (sample, null_mean) in enumerate(zip(samples, null_means, strict=True)):
        for key, (now, before) in zip(keys_by_sample[row], scores_by_sample[row], strict=True):
            # Less what is tolerated: a present score that lost just so much has not moved.
            shifted = [None if score is None else score - null_mean for score in now]
            for place, deviation in _deviations(shifted, before, present, sample.rounding):
                rows.append(row)
                columns.append(numbers[key] * width + place)
                entries.append(deviation)
    shape = (len(samples), len(numbers) * width)
    matrix: Any = coo_matrix((entries, (rows, columns)), shape=shape).tocsr()
    # The variance of a sum of `present` numbers drawn from `width` without replacement whose own
    # sum is 0, added up over the clusters.
    squares = np.asarray(matrix.multiply(matrix).sum(axis=1)).reshape(-1)
    deviations = np.sqrt(squares * present * (width - present) / (width * max(1, width - 1)))
    return matrix, deviations, _Layout(present, width, len(numbers))


def _deviations(
    now: Sequence[float | None], before: Sequence[float | None], present: int, rounding: float
) -> Iterator[tuple[int, float]]:
    """Scores of a case less their mean, by place in the layout; nothing where all are alike.

    Args:
        now: in the present runs; None where the case was not measured.
        before: in the earlier runs, which stand behind so many ``present`` ones.
    """
    measured: list[tuple[int, float]] = []
    for first_place, scores in ((0, now), (present, before)):
        for place, score in enumerate(scores, first_place):
            if score is not None:
                measured.append((place, score))
    mean = math.fsum(score for _, score in measured) / len(measured)
    for place, score in measured:
        if abs(score - mean) > rounding:
            yield place, score - mean
