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

_HELD = 1_000_000
"""Numbers that are held at once; changes no result."""


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
    matrix, norms, labels = _columns(samples, null_means)
    able = [place for place, norm in enumerate(norms) if norm > 0.0]
    p_values = [1.0] * len(samples)
    if able:
        matrix, scale = matrix[able], norms[able][:, None]
        observed = -(matrix @ labels.observed())[:, None] / scale
        drawn = (-(matrix @ picks) / scale for picks in labels.draws(resamples, seed))
        joint = stepped_down(observed[:, 0], drawn)
        for place, p_value in zip(able, joint.corrected, strict=True):
            p_values[place] = p_value
    return tuple(p_values)


class _Labels(NamedTuple):
    """Which scores of a cluster are the present ones: first those that are, then others."""

    present: int
    width: int
    clusters: int

    def observed(self) -> Floats:
        """1 at the scores of the present run, 0 at the others."""
        marks = np.zeros((self.clusters, self.width))
        marks[:, : self.present] = 1.0
        return marks.reshape(-1)

    def draws(self, count: int, seed: int) -> Iterator[Floats]:
        """Labels drawn anew, in blocks: a row a column of the scores, a column a draw."""
        source = np.random.PCG64([seed, self.clusters, self.width])
        rows = self.clusters * self.width
        most = max(1, _HELD // rows)
        for start in range(0, count, most):
            size = min(most, count - start)
            picks = np.zeros((size, self.clusters, self.width))
            if self.present == 1:
                raw = np.asarray(source.random_raw(size * self.clusters), dtype=np.uint64)
                chosen = (raw % np.uint64(self.width)).astype(np.int64)
                places = chosen.reshape(size, self.clusters, 1)
            else:
                raw = np.asarray(source.random_raw(size * rows), dtype=np.uint64)
                keys = raw.reshape(size, self.clusters, self.width)
                places = np.argpartition(keys, self.present - 1, axis=2)[:, :, : self.present]
            np.put_along_axis(picks, places, 1.0, axis=2)
            yield picks.reshape(size, rows).T


def _columns(
    samples: Sequence[PairedSample], null_means: Sequence[float]
) -> tuple[Any, Floats, _Labels]:
    """A sparse row a test, with a column a cluster and score; and what the draws make of it."""
    from scipy.sparse import coo_matrix

    scores = [sample.scores_by_case() for sample in samples]
    counts_now, counts_before = {0}, {0}
    for of_sample in scores:
        for now, before in of_sample:
            counts_now.add(len(now))
            counts_before.add(len(before))
    present = max(counts_now) or 1
    width = present + (max(counts_before) or 1)

    keys = [[*map(sample.key, range(len(sample.clusters)))] for sample in samples]
    different_keys: set[Key] = set()
    for keys_of_sample in keys:
        different_keys.update(keys_of_sample)
    # In an order that does not depend on that of the cases.
    numbers = {key: number for number, key in enumerate(sorted(different_keys, key=repr))}
    rows: list[int] = []
    places: list[int] = []
    parts: list[float] = []
    for row, (sample, null_mean) in enumerate(zip(samples, null_means, strict=True)):
        for key, (now, before) in zip(keys[row], scores[row], strict=True):
            moved = [None if value is None else value - null_mean for value in now]
            for place, value in _centred(moved, before, present, sample.rounding):
                rows.append(row)
                places.append(numbers[key] * width + place)
                parts.append(value)
    shape = (len(samples), len(numbers) * width)
    matrix: Any = coo_matrix((parts, (rows, places)), shape=shape).tocsr()
    squares = np.asarray(matrix.multiply(matrix).sum(axis=1)).reshape(-1)
    norms = np.sqrt(squares * present * (width - present) / (width * max(1, width - 1)))
    return matrix, norms, _Labels(present, width, len(numbers))


def _centred(
    now: Sequence[float | None], before: Sequence[float | None], present: int, rounding: float
) -> Iterator[tuple[int, float]]:
    """Scores of a case less their mean, by column; nothing where all are alike."""
    measured: list[tuple[int, float]] = []
    for first_place, values in ((0, now), (present, before)):
        for place, value in enumerate(values, first_place):
            if value is not None:
                measured.append((place, value))
    mean = math.fsum(value for _, value in measured) / len(measured)
    for place, value in measured:
        if abs(value - mean) > rounding:
            yield place, value - mean
