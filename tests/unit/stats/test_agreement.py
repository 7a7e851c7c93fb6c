from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import InputError
from ragbench.stats.agreement import (
    Estimated,
    agreement,
    krippendorff_alpha,
    rank_correlation,
    resample_counts,
)


def pairs(table: list[list[int]]) -> list[tuple[int, int]]:
    cells = [(at, to, count) for at, row in enumerate(table) for to, count in enumerate(row)]
    return [(at, to) for at, to, count in cells for _ in range(count)]


def ends(found: Estimated) -> tuple[float, float, float]:
    assert found.low is not None and found.value is not None and found.high is not None
    return found.low, found.value, found.high


@pytest.mark.parametrize(
    ("table", "observed", "kappa", "quadratic"),
    [
        # Cohen's usual example: 35 of 50 agree; by chance (25*30 + 25*20) / 50^2 = 1/2.
        ([[20, 5], [10, 15]], 0.7, 0.4, 0.4),
        # One that says one thing agrees no more than by chance; where both do, nothing is known.
        ([[0, 10], [0, 90]], 0.9, 0.0, 0.0),
        ([[0, 0], [0, 9]], 1.0, None, None),
        # 14 of 20; by chance (6*8 + 8*6 + 6*6) / 20^2 = .33; the plain one counts each alike.
        ([[5, 0, 1], [2, 5, 1], [1, 1, 4]], 0.7, 0.37 / 0.67, 1 - 0.6 / 1.3),
        # Marginals 2, 1, 1 and 1, 1, 2; one of four is two apart: 4/4 of (2+16+1+2+4+1)/16.
        ([[1, 0, 1], [0, 1, 0], [0, 0, 1]], 0.75, 0.75 - 0.25 * 5 / 11, 1 - 16 / 26),
    ],
)
def test_figures_by_hand(
    table: list[list[int]], observed: float, kappa: float | None, quadratic: float | None
) -> None:
    found = agreement(pairs(table), len(table))
    assert found.observed.value == pytest.approx(observed)
    assert found.kappa.value == (None if kappa is None else pytest.approx(kappa))
    assert found.quadratic.value == (None if quadratic is None else pytest.approx(quadratic))
    with pytest.raises(InputError):
        agreement([(0, len(table))], len(table))


def test_clusters_widen_the_interval() -> None:
    labels = pairs([[30, 10], [10, 30]])
    low, _, high = ends(agreement(labels, 2).kappa)
    assert low < 0.5 < high
    blocks = [str(position // 5) for position in range(len(labels))]
    lower, _, higher = ends(agreement(labels, 2, blocks).kappa)
    assert higher - lower > high - low
    assert agreement(labels, 2, ["one"] * 80).kappa.low is None  # nothing to resample
    assert agreement(labels, 2, blocks) == agreement(labels, 2, blocks)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=60))
def test_bounds_and_symmetry(labels: list[tuple[int, int]]) -> None:
    found = agreement(labels, 3, resamples=100)
    other = agreement([(b, a) for a, b in labels], 3, resamples=100)
    for one, two in ((found.kappa, other.kappa), (found.quadratic, other.quadratic)):
        assert one.value == (None if two.value is None else pytest.approx(two.value))
        assert one.value is None or -1 - 1e-9 <= one.value <= 1 + 1e-9
        if one.low is not None and one.high is not None:
            assert one.low <= one.high
    assert sum(map(sum, found.counts)) == len(labels)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=3, max_size=12))
def test_rank_correlation_is_scipys(graded: list[tuple[int, int]]) -> None:
    stats = pytest.importorskip("scipy.stats")
    found = rank_correlation([(float(a), float(b)) for a, b in graded], resamples=10)
    if len({a for a, _ in graded}) == 1 or len({b for _, b in graded}) == 1:
        assert found.value is None
        return
    expected = stats.spearmanr([a for a, _ in graded], [b for _, b in graded]).statistic
    assert found.value == pytest.approx(expected, abs=1e-12)


def test_an_item_without_a_cluster_stands_alone() -> None:
    """Twelve items of which two share a cluster: eleven, as if each other had one of its own."""
    labels = pairs([[4, 2], [2, 4]])
    some: list[str | None] = ["both", "both", *[None] * 10]
    named = ["both", "both", *(f"c{at}" for at in range(10))]
    assert agreement(labels, 2, some) == agreement(labels, 2, named) != agreement(labels, 2)
    graded = [(float(one), float(other) + 0.1 * at) for at, (one, other) in enumerate(labels)]
    mixed = rank_correlation(graded, some, resamples=200)
    assert mixed == rank_correlation(graded, named, resamples=200)
    assert mixed != rank_correlation(graded, resamples=200)


@pytest.mark.parametrize(("items", "has_interval"), [(9, False), (10, True)])
def test_ten_clusters_are_the_fewest_with_an_interval(items: int, has_interval: bool) -> None:
    labels = [(at % 2, (at // 2) % 2) for at in range(items)]
    assert (agreement(labels, 2).observed.low is not None) is has_interval
    graded = [(float(at), float(at % 4)) for at in range(items)]
    assert (rank_correlation(graded, resamples=50).low is not None) is has_interval


def test_the_interval_of_a_share_is_that_of_the_binomial() -> None:
    """80 of 100 agree: resampling draws a binomial share, whose 90% lie within 73 and 86."""
    scipy = pytest.importorskip("scipy.stats")
    labels = pairs([[40, 10], [10, 40]])
    for confidence in (0.9, 0.95):
        found = agreement(labels, 2, confidence=confidence, resamples=20_000).observed
        tail = (1 - confidence) / 2
        expected = [scipy.binom.ppf(share, 100, 0.8) / 100 for share in (tail, 1 - tail)]
        assert [found.low, found.high] == pytest.approx(expected, abs=0.0101)


def test_where_more_than_one_in_twenty_resamples_has_no_kappa_there_is_no_interval() -> None:
    """One item of twelve is of another level: (11/12)^12, a third of all resamples, lack it."""
    found = agreement([(0, 0)] * 11 + [(1, 1)], 2)
    assert (found.kappa.value, found.kappa.low) == (1.0, None)
    # Six of twelve are: 2 / 2^12 lack one level.
    found = agreement([(0, 0)] * 6 + [(1, 1)] * 6, 2)
    assert (found.kappa.value, found.kappa.low, found.kappa.high) == (1.0, 1.0, 1.0)


def test_the_intervals_of_three_levels_lie_around_their_figures() -> None:
    """Each is made of the same figure's resamples: the plain kappa's holds no quadratic one."""
    labels = pairs([[60, 0, 20], [0, 60, 0], [20, 0, 60]])
    found = agreement(labels, 3)
    by_chance = (80 * 80 * 2 + 60 * 60) / 220**2
    assert found.kappa.value == pytest.approx(1 - (40 / 220) / (1 - by_chance))
    for one in (found.observed, found.kappa, found.quadratic):
        low, value, high = ends(one)
        assert low < value < high
    assert ends(found.quadratic)[2] < ends(found.kappa)[0]


@pytest.mark.parametrize(
    ("ratings", "alpha"),
    [
        # One of three pairs differs: 1 - 2 / (18 / 5), of the 9 pairs of unlike values.
        ([[1, 1], [0, 1], [0, 0]], 1 - 2 / 3.6),
        ([[1, 1, 1], [0, 0], [0.5]], 1.0),  # what one person rated says nothing
        ([[0, 1], [1, 0]], 1 - 4 / (8 / 3)),  # worse than chance
        ([[1, 1], [1, 1]], None),
        ([[1], [0]], None),
    ],
)
def test_alpha_by_hand(ratings: list[list[float]], alpha: float | None) -> None:
    found = krippendorff_alpha(ratings)
    assert found == (None if alpha is None else pytest.approx(alpha))


def test_the_stream_is_the_same_on_every_machine_and_version() -> None:
    (counts,) = resample_counts(0, 2, 5)
    assert counts.tolist() == [[0.0, 2.0, 1.0, 1.0, 1.0], [3.0, 0.0, 0.0, 1.0, 1.0]]
