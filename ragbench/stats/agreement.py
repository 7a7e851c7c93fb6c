"""How far raters agree beyond chance, and how far two rankings of systems do.

Judge cards and the label command compare a judge with people; the fidelity command compares the
order in which two sets of questions rank systems. Intervals are percentiles of resamples of whole
clusters (Davison & Hinkley 1997).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from ragbench.core.record import Record
from ragbench.errors import InputError
from ragbench.plugins import Floats, Integers, np
from ragbench.stats.mean import Label, cluster_codes

_FEWEST_CLUSTERS = 10
"""Resamples of fewer clusters are too alike for an interval."""
_SHARE_DEFINED = 0.95
"""Share of the resamples that must have a value for an interval."""


class Estimated(Record):
    """A figure with its interval."""

    value: float | None
    """None when it is not defined: both raters know one level only."""
    low: float | None = None
    """None with ``high`` when there are too few clusters, or it is not defined in too many
    resamples."""
    high: float | None = None


class Agreement(Record):
    """How far two raters agree."""

    count: int
    """Items that both rated."""
    counts: tuple[tuple[int, ...], ...]
    """Items by the first rater's level (row) and the second's (column)."""
    observed: Estimated
    """Share of items with the same level."""
    base_rate: float
    """Share of items with the first rater's most frequent level: what always saying that one
    would agree."""
    kappa: Estimated
    """Cohen's, -1 to 1: 0 is what chance gives at these shares."""
    quadratic: Estimated
    """Cohen's kappa, weighted by the square of the distance between levels: on a scale, 4 for 5
    is a smaller disagreement than 1 for 5."""


def agreement(
    pairs: Sequence[tuple[int, int]],
    levels: int,
    clusters: Sequence[str | None] | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> Agreement:
    """How far two raters, such as a judge and a person, agree beyond chance, with intervals.

    Agreement alone misleads: raters who nearly always give the same level agree often by chance.

    Source: Cohen 1960, "A Coefficient of Agreement for Nominal Scales"; with weights, Cohen 1968,
    "Weighted Kappa".

    Args:
        pairs: the level that each gave, item by item; from 0.
        levels: how many levels the scale has.
        clusters: what an item shares with others, such as its question: whole clusters are
            resampled, since such items are not independent. None: a cluster of its own.
    """
    if not pairs:
        raise InputError("there is nothing that both rated")
    for pair in pairs:
        if min(pair) < 0 or max(pair) >= levels:
            raise InputError(f"a level is not in 0 .. {levels - 1}")

    codes = cluster_codes(clusters or [None] * len(pairs))
    # A row for each cluster: its counts of pairs of levels, flat, so that a resample of clusters
    # is a product with this matrix.
    tables = np.zeros((max(codes) + 1, levels * levels))
    for code, (level_of_first, level_of_second) in zip(codes, pairs, strict=True):
        tables[code, level_of_first * levels + level_of_second] += 1
    whole = tables.sum(axis=0)[None]
    resampled: Floats | None = None
    if len(tables) >= _FEWEST_CLUSTERS:
        blocks = resample_counts(seed, resamples, len(tables))
        resampled = np.concatenate([counts @ tables for counts in blocks])

    estimate = partial(_estimate, whole=whole, resampled=resampled, confidence=confidence)
    table = whole[0].reshape(levels, levels)
    counts_of_levels = table.astype(int).tolist()
    most_frequent = float(table.sum(axis=1).max())
    return Agreement(
        count=len(pairs),
        counts=tuple(map(tuple, counts_of_levels)),
        observed=estimate(_share_equal),
        base_rate=most_frequent / len(pairs),
        kappa=estimate(partial(_kappa, power=0)),
        quadratic=estimate(partial(_kappa, power=2)),
    )


def _estimate(
    figure: Callable[[Floats], Floats],
    *,
    whole: Floats,
    resampled: Floats | None,
    confidence: float,
) -> Estimated:
    """A figure of how far raters agree, with its interval from resamples of clusters.

    Args:
        figure: computes it from flat tables of counts of pairs of levels, a row each.
        whole: the one table of all items.
        resampled: a table for each resample; None where there are too few clusters.
        confidence: share of repetitions whose interval shall hold the true figure.
    """
    value = float(figure(whole)[0])
    samples = None
    if resampled is not None:
        samples = figure(resampled)
    return _with_interval(value, samples, confidence)


def cohen_kappa(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Cohen's kappa of two raters' values for each item; None where it is not defined.

    It is their agreement beyond chance. Values of any scale, of which only whether two are the same
    counts.
    """
    if not pairs:
        return None
    values: set[float] = set()
    for pair in pairs:
        values.update(pair)
    # Numbers from 0, as `_kappa` takes levels; without weights their order does not count.
    positions = {value: position for position, value in enumerate(sorted(values))}
    table = np.zeros((len(positions), len(positions)))
    for value_of_first, value_of_second in pairs:
        table[positions[value_of_first], positions[value_of_second]] += 1
    kappas = _kappa(table.reshape(1, -1), power=0)
    kappa = float(kappas[0])
    if math.isnan(kappa):
        return None
    return kappa


def krippendorff_alpha(ratings: Sequence[Sequence[float]]) -> float | None:
    """Krippendorff's alpha, up to 1: how far any number of raters agree beyond chance.

    Ratings are numbers on a scale: larger distances count as their squares. People who label share
    some items, and alpha says whether they mean the same.

    None where all ratings are the same, or no item has two.

    Source: Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", interval data.

    Args:
        ratings: the ratings of each item; of those rated once nothing agrees or disagrees.
    """
    items = [values for values in ratings if len(values) > 1]
    if not items:
        return None
    all_values: list[float] = []
    for values in items:
        all_values += values
    expected = _squared_distances(all_values)
    # All ratings are the same: there is no disagreement by chance to compare with.
    if not expected:
        return None
    observed = math.fsum(map(_squared_distances, items))
    return 1.0 - observed / expected


def _squared_distances(values: Sequence[float]) -> float:
    """The squared distances of all ordered pairs of ratings, divided by the number of others.

    Divided so, an item weighs by the number of its ratings in Krippendorff's alpha.
    """
    total = math.fsum(values)
    squares = math.fsum(value**2 for value in values)
    # The sum of (a - b)^2 over all pairs, without a loop over them.
    squared_distances = 2.0 * (len(values) * squares - total**2)
    return squared_distances / (len(values) - 1)


def rank_correlation(
    pairs: Sequence[tuple[float, float]],
    clusters: Sequence[str | None] | None = None,
    *,
    resamples: int = 1_000,
    seed: int = 0,
) -> Estimated:
    """Spearman's rank correlation of two raters' grades, -1 to 1; equal grades share their rank.

    The correlation says whether a judge orders answers as people do, whatever scale either uses.

    Source: Spearman 1904, "The Proof and Measurement of Association between Two Things"; with ties,
    the product-moment correlation of mid-ranks (Kendall & Gibbons 1990, section 3.8). The interval
    holds 95% of the correlations in resamples of whole clusters.
    """
    codes = np.array(cluster_codes(clusters or [None] * len(pairs)))
    # The rows of each cluster: all rows in the order of their clusters, cut where the next begins.
    rows_by_code = codes.argsort(kind="stable")
    ends = np.bincount(codes).cumsum()
    rows_of_clusters = np.split(rows_by_code, ends[:-1])
    grades = np.array(pairs, dtype=float).reshape(-1, 2)
    value = _spearman(grades)
    # Of so few clusters the resamples are too alike: the value alone is given.
    if len(rows_of_clusters) < _FEWEST_CLUSTERS:
        return _with_interval(value, None)
    samples: list[float] = []
    for block in resample_counts(seed, resamples, len(rows_of_clusters)):
        for counts in block:
            rows: list[Integers] = []
            for cluster_rows, count in zip(rows_of_clusters, counts, strict=True):
                rows += [cluster_rows] * int(count)
            resampled_grades = grades[np.concatenate(rows)]
            samples.append(_spearman(resampled_grades))
    return _with_interval(value, np.array(samples))


def _spearman(grades: Floats) -> float:
    """Spearman's rank correlation of two columns of grades; NaN where one of them does not vary.

    Equal grades share their mean rank.

    Args:
        grades: a row for each item, a column for each rater.
    """
    # Late, since SciPy takes long to import.
    stats: Any = import_module("scipy.stats")
    ranks: Floats = stats.rankdata(grades, axis=0)
    ranks -= ranks.mean(axis=0)
    first = ranks[:, 0]
    second = ranks[:, 1]
    # 0 where a column does not vary, since its ranks are all the mean.
    scale = math.sqrt(float((first**2).sum() * (second**2).sum()))
    if not scale:
        return math.nan
    return float((first * second).sum()) / scale


def _share_equal(tables: Floats) -> Floats:
    """The share of items that two raters gave the same level, one for each table of counts.

    This share is the plain agreement; kappa is the agreement beyond what chance alone would give.

    Args:
        tables: a row for each table of counts of pairs of levels, flat.
    """
    levels = math.isqrt(tables.shape[1])
    squares = tables.reshape(-1, levels, levels)
    # Where both gave the same level, on the diagonal.
    same = squares.trace(axis1=1, axis2=2)
    shares: Floats = same / tables.sum(axis=1)
    return shares


def _kappa(tables: Floats, power: int) -> Floats:
    """Cohen's kappa of two raters: 1 - observed disagreement / disagreement by chance.

    NaN where chance gives no disagreement: both raters know one level only.

    Args:
        tables: a row for each table of counts of pairs of levels, flat.
        power: of the distance between two levels, by which a disagreement is weighted; 0: all
            disagreements weigh the same.
    """
    levels = math.isqrt(tables.shape[1])
    cells = tables.reshape(-1, levels, levels)
    level_numbers = np.arange(levels)
    distances = np.abs(np.subtract.outer(level_numbers, level_numbers)).astype(float)
    if power:
        weights = distances**power
    else:
        weights = (distances > 0).astype(float)
    # By chance, a cell holds the product of how often each rater gave its level.
    of_first = cells.sum(axis=2)
    of_second = cells.sum(axis=1)
    totals = cells.sum(axis=(1, 2))
    cells_by_chance = np.einsum("ni,nj->nij", of_first, of_second) / totals[:, None, None]
    observed = (cells * weights).sum(axis=(1, 2))
    by_chance = (cells_by_chance * weights).sum(axis=(1, 2))
    # A division by 0 gives no warning: its result is not taken.
    with np.errstate(divide="ignore", invalid="ignore"):
        kappas: Floats = np.where(by_chance > 0, 1 - observed / by_chance, np.nan)
    return kappas


def _with_interval(value: float, samples: Floats | None, confidence: float = 0.95) -> Estimated:
    """A figure of agreement with the percentiles of its resamples as its interval.

    There is no interval where too few resamples have a value (`_SHARE_DEFINED`): those that have
    one are too alike, and the interval would be too short.

    Args:
        value: NaN where it is not defined.
        samples: the figure in each resample, NaN likewise; None where there are too few clusters.
    """
    if math.isnan(value):
        return Estimated(value=None)
    if samples is None:
        return Estimated(value=value)
    defined = samples[~np.isnan(samples)]
    if len(defined) < _SHARE_DEFINED * len(samples):
        return Estimated(value=value)
    tail = (1 - confidence) / 2
    low, high = np.quantile(defined, [tail, 1 - tail])
    return Estimated(value=value, low=float(low), high=float(high))


_BLOCK = 65_536
"""Draws in memory at once: few enough for a processor cache. Changes no result."""


def resample_counts(seed: int, resamples: int, clusters: int) -> Iterator[Floats]:
    """Draws clusters with replacement: how often each is drawn, a row for each resample.

    There are as many draws in a resample as there are clusters.

    This is a bootstrap: what is computed from each row of counts shows how far chance moves it.

    Each half of a raw draw is scaled to an index by a multiplication (Lemire 2019); the uneven
    rest, below clusters / 2^32, is far under anything that a resample can show.

    Only the raw 64-bit output of PCG64 is used: NumPy promises that stream for all versions, and
    promises nothing of the kind for the distributions built on it (NEP 19).

    Yields:
        Blocks of shape (rows, clusters); each row sums to ``clusters``.

    Another use of the stream would change every stored interval: the order and number of the draws
    stay.
    """
    source = np.random.PCG64(seed)
    # A draw takes half of a 64-bit word. Every resample starts with a fresh word, so that its draws
    # do not depend on how many resamples a block holds.
    words_each = (clusters + 1) // 2
    block_size = max(1, _BLOCK // clusters)
    for start in range(0, resamples, block_size):
        rows = min(block_size, resamples - start)
        words = np.asarray(source.random_raw(rows * words_each), dtype="<u8")
        halves = words.view("<u4").reshape(rows, 2 * words_each)
        draws = halves[:, :clusters].astype(np.uint64)
        scaled = (draws * np.uint64(clusters)) >> np.uint64(32)
        indices = scaled.astype(np.int64)
        # Each row has numbers of its own, so that one bincount counts all of them.
        indices += np.arange(rows, dtype=np.int64)[:, None] * clusters
        counts = np.bincount(indices.ravel(), minlength=rows * clusters)
        yield counts.reshape(rows, clusters).astype(np.float64)


# --- how alike two sets of questions rank the same systems, and how far chance moves that

_PLACES = 9
"""Decimals to which means are compared: what differs less is rounding."""


class Scored(Record, eq=False):
    """Scores of questions on several systems, summed up by cluster.

    The fidelity command asks by it whether synthetic questions rank the systems as real ones do.
    """

    sums: Floats
    """A row for each cluster, a column for each system."""
    sizes: Floats
    """Questions in each cluster."""

    @classmethod
    def of(cls, table: Sequence[Sequence[float]], clusters: Sequence[Label]) -> Scored:
        """Sums up a table of scores, with a row for each question and a column for each system.

        Args:
            clusters: what each question shares with others; None makes it a cluster of its own.
        """
        codes = np.array(cluster_codes(clusters))
        sums = np.zeros((int(codes.max()) + 1, len(table[0])))
        np.add.at(sums, codes, np.array(table))
        return cls(sums=sums, sizes=np.bincount(codes).astype(float))

    @property
    def means(self) -> Floats:
        """The mean score of each system over all questions: by these the systems are ranked."""
        means: Floats = self.sums.sum(axis=0) / self.sizes.sum()
        return means

    def resampled(self, seed: int, resamples: int) -> Floats:
        """The systems' mean scores over clusters of questions drawn with replacement, a row a draw.

        The draws show how far chance moves the order of the systems. The same seed gives the same
        draws.
        """
        means: list[Floats] = []
        for counts in resample_counts(seed, resamples, len(self.sizes)):
            sums = counts @ self.sums
            questions = counts @ self.sizes
            means.append(sums / questions[:, None])
        return np.concatenate(means)

    def parts(self, count: int, draws: int, seed: int) -> Iterator[tuple[Floats, Floats]]:
        """Mean scores over about ``count`` questions, drawn by cluster, and over all the others.

        The two sets of means show how well so few real questions rank the systems as all other real
        ones do. Synthetic questions are measured beside that.
        """
        source = random.Random(seed)
        clusters = range(len(self.sizes))
        for _ in range(draws):
            order = np.array(source.sample(clusters, len(clusters)))
            questions_so_far = self.sizes[order].cumsum()
            # The first place at which so many questions are reached, and one beyond it as an end.
            needed = int(np.searchsorted(questions_so_far, count)) + 1
            # At least one cluster is left to compare with.
            end = min(needed, len(order) - 1)
            yield self._means_of(order[:end]), self._means_of(order[end:])

    def _means_of(self, clusters: Integers) -> Floats:
        """The mean score of each system over the questions of some clusters.

        Args:
            clusters: their rows in `sums`.
        """
        means: Floats = self.sums[clusters].sum(axis=0) / self.sizes[clusters].sum()
        return means


def best_of(means: Floats) -> Floats:
    """The share of each system in being the best of a draw: 1, or less where several are equal.

    Summed over draws it says how surely a system is the best one.

    Args:
        means: a row for each draw of questions, a column for each system.
    """
    rounded = np.round(np.atleast_2d(means), _PLACES)
    is_highest = rounded == rounded.max(axis=1, keepdims=True)
    shares: Floats = is_highest / is_highest.sum(axis=1, keepdims=True)
    return shares


def kendall_tau(first: Floats, second: Floats) -> Floats:
    """Kendall's tau-b, -1 to 1: how far two sets of questions rank the same systems alike.

    It says whether made questions choose between systems as real ones do.

    NaN where one side does not tell any two systems apart.

    Source: Kendall 1945, "The Treatment of Ties in Ranking Problems".

    Args:
        first: the systems' means over one set; several draws as rows.
        second: their means over the other set.
    """
    first_signs = _signs_of_pairs(np.atleast_2d(first))
    second_signs = _signs_of_pairs(np.atleast_2d(second))
    # How many pairs each side tells apart.
    first_pairs = (first_signs**2).sum(axis=1)
    second_pairs = (second_signs**2).sum(axis=1)
    agreeing_less_opposed = (first_signs * second_signs).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        taus: Floats = agreeing_less_opposed / np.sqrt(first_pairs * second_pairs)
    return taus


def _signs_of_pairs(means: Floats) -> Floats:
    """For each pair of systems, which one scores higher: 1 the left, -1 the right, 0 neither.

    Kendall's tau counts these pairs.

    Args:
        means: a row for each draw of questions, a column for each system. If two differ in their
            last digits alone, that is rounding, and they count as equal.
    """
    left_systems, right_systems = np.triu_indices(means.shape[1], 1)
    differences = means[:, left_systems] - means[:, right_systems]
    signs: Floats = np.sign(np.round(differences, _PLACES))
    return signs


def tau_interval(value: float, samples: Floats) -> Estimated:
    """A 95% interval of Kendall's tau of two orders of systems, from resampled questions.

    Resampling blurs orders once more, and so moves tau: the percentile interval of 95% holds the
    tau of all questions in 84% of draws. Joined with its mirror image around the value, at 99%, it
    does so in 95% (benchmarks/fidelity.py; the worst of 96 settings 80%).
    """
    if np.isnan(value):
        return Estimated(value=None)
    # NaN in a resample: one side does not tell any two systems apart in it.
    percentiles = np.nanquantile(samples, [0.005, 0.995])
    low = float(percentiles[0])
    high = float(percentiles[1])
    joined_low = min(low, 2 * value - high)
    joined_high = max(high, 2 * value - low)
    return Estimated(value=value, low=max(-1.0, joined_low), high=min(1.0, joined_high))
