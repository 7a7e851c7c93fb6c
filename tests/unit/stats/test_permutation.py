from __future__ import annotations

import importlib
import itertools
import random
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import ConfigError, InputError
from ragbench.stats.clusters import ClusterTotals, Label
from ragbench.stats.permutation import Alternative, SignFlipMethod, SignFlipTest, sign_flip_tests

TIED = st.sampled_from([-1.0, -2 / 3, -0.5, -1 / 3, 0.0, 0.1, 0.2, 0.3, 1 / 3, 0.5, 1.0])
SMALL = st.lists(TIED, max_size=9)
SIDE = st.sampled_from(get_args(Alternative))


def sign_flip_test(
    values: list[float],
    clusters: list[Label] | None = None,
    *,
    null_mean: float = 0.0,
    **options: Any,
) -> SignFlipTest:
    (found,) = sign_flip_tests(
        [ClusterTotals.of(values, clusters)], null_means=[null_mean], **options
    )
    return found


def counted(values: list[float], side: str) -> float:
    """The definition: every arrangement of signs."""
    total = sum(values)
    flipped = [
        sum(sign * value for sign, value in zip(signs, values, strict=True))
        for signs in itertools.product((1, -1), repeat=len(values))
    ]
    if side == "two-sided":
        hits = sum(abs(each) >= abs(total) - 1e-9 for each in flipped)
    elif side == "less":
        hits = sum(each <= total + 1e-9 for each in flipped)
    else:
        hits = sum(each >= total - 1e-9 for each in flipped)
    return hits / len(flipped)


def test_by_hand() -> None:
    # Three losses of different size: only the observed arrangement is as low, 1/8.
    test = sign_flip_test([-0.1, -0.2, -0.4], alternative="less")
    assert test.p_value == pytest.approx(1 / 8)
    assert test.method is SignFlipMethod.EXACT
    assert (test.resamples, test.seed) == (None, None)


@given(SMALL, SIDE)
def test_it_is_the_share_of_all_arrangements(values: list[float], side: Alternative) -> None:
    p_value = sign_flip_test(values, alternative=side).p_value
    assert p_value == pytest.approx(counted(values, side))


def test_it_is_the_exact_test_of_scipy() -> None:
    stats: Any = importlib.import_module("scipy.stats")
    values = np.array([0.31, -0.12, 0.44, 0.05, -0.27, 0.6, 0.2, -0.03])
    for side in get_args(Alternative):
        expected = stats.permutation_test(
            (values,), np.mean, permutation_type="samples", n_resamples=np.inf, alternative=side
        )
        found = sign_flip_test([float(value) for value in values], alternative=side)
        assert found.p_value == pytest.approx(float(expected.pvalue))


def test_clusters_flip_as_one() -> None:
    values = [-0.1, -0.2, -0.1, -0.3]
    clusters: list[Label] = ["a", "a", "b", "b"]
    test = sign_flip_test(values, clusters, alternative="less")
    assert (test.p_value, test.clusters) == (0.25, 2)
    assert sign_flip_test(values, alternative="less").p_value == 1 / 16


def test_a_tolerated_drop_is_subtracted() -> None:
    drops = [-0.3, -0.4, -0.35, -0.5, -0.45]
    beyond = sign_flip_test(drops, null_mean=-0.1, alternative="less")
    within = sign_flip_test(drops, null_mean=-0.6, alternative="greater")
    assert beyond.p_value == within.p_value == 1 / 32
    # Exactly what is tolerated is not evidence at all.
    assert sign_flip_test([-0.1] * 9, null_mean=-0.1, alternative="less").p_value == 1.0


@pytest.mark.parametrize("values", [[], [0.0], [0.0] * 40])
def test_nothing_to_flip_is_no_evidence(values: list[float]) -> None:
    for side in get_args(Alternative):
        assert sign_flip_test(values, alternative=side).p_value == 1.0


def test_exact_counting_and_drawing_agree() -> None:
    draw = np.random.default_rng(2)
    values = [float(value) for value in draw.normal(-0.2, 1.0, 28)]
    exact = sign_flip_test(values, alternative="less")
    # A case of almost no weight, three times, makes them too many to count.
    drawn = sign_flip_test([*values, 1e-9, 2e-9, 3e-9], alternative="less", resamples=40_000)
    assert exact.method is SignFlipMethod.EXACT
    assert drawn.method is SignFlipMethod.MONTE_CARLO
    error = (exact.p_value * (1 - exact.p_value) / 40_000) ** 0.5
    assert abs(drawn.p_value - exact.p_value) < 4 * error


def test_drawn_p_values_are_the_same_numbers_everywhere() -> None:
    values = [((7 * place) % 23 - 12) / 10 for place in range(50)]
    test = sign_flip_test(values, alternative="less", resamples=999, seed=4)
    assert test.method is SignFlipMethod.MONTE_CARLO
    assert test.p_value * 1000 == pytest.approx(157.0)
    other = sign_flip_test(values, alternative="less", resamples=999, seed=5)
    assert other.p_value != test.p_value


@settings(max_examples=25)
@given(st.lists(TIED, min_size=40, max_size=90), st.randoms(use_true_random=False))
def test_order_does_not_matter(values: list[float], chance: random.Random) -> None:
    shuffled = list(values)
    chance.shuffle(shuffled)
    first, second = (
        sign_flip_test(each, alternative="less", resamples=200) for each in (values, shuffled)
    )
    assert first == second


@settings(max_examples=25)
@given(st.lists(TIED, max_size=60), SIDE)
def test_turning_all_signs_turns_the_sides(values: list[float], side: Alternative) -> None:
    turned: dict[Alternative, Alternative] = {"less": "greater", "greater": "less"}
    first = sign_flip_test(values, alternative=side, resamples=500)
    second = sign_flip_test(
        [-value for value in values], alternative=turned.get(side, side), resamples=500
    )
    assert 0.0 < first.p_value <= 1.0
    tolerance = 0.0 if first.resamples is None else 0.2
    assert first.p_value == pytest.approx(second.p_value, abs=tolerance + 1e-12)


@settings(max_examples=25)
@given(SMALL, st.floats(0.0, 1.0))
def test_tolerating_more_never_makes_it_worse(values: list[float], tolerance: float) -> None:
    strict = sign_flip_test(values, alternative="less")
    lenient = sign_flip_test(values, null_mean=-tolerance, alternative="less")
    assert lenient.p_value >= strict.p_value - 1e-12


@settings(max_examples=10)
@given(st.sampled_from([1e-80, 1e-3, 1e80]))
def test_units_do_not_matter(scale: float) -> None:
    draw = np.random.default_rng(8)
    values = [float(value) for value in draw.integers(-4, 5, 60) / 8]
    plain, scaled = (
        sign_flip_test([value * factor for value in values], resamples=2000)
        for factor in (1.0, scale)
    )
    # Other numbers, other draws: the same up to the error of drawing.
    assert plain.p_value == pytest.approx(scaled.p_value, abs=0.05)
    assert sign_flip_test(values[:20]).p_value == pytest.approx(
        sign_flip_test([value * scale for value in values[:20]]).p_value
    )


def test_tests_that_share_their_draws_are_those_alone() -> None:
    draw = np.random.default_rng(6)
    samples = [
        [float(value) for value in draw.normal(size=size)] for size in (40, 300, 5, 64, 65, 129)
    ]
    together = sign_flip_tests(
        [ClusterTotals.of(each) for each in samples], null_means=[-0.05] * 6, resamples=300
    )
    assert list(together) == [
        sign_flip_test(each, null_mean=-0.05, resamples=300) for each in samples
    ]


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError):
        sign_flip_test([float("nan")])
    with pytest.raises(InputError, match="null means"):
        sign_flip_tests([], null_means=[0.0])
    with pytest.raises(ConfigError, match="resamples"):
        sign_flip_test([0.1], resamples=0)
    with pytest.raises(ConfigError, match="seed"):
        sign_flip_test([0.1], seed=-1)


def test_gains_and_losses_of_one_size_are_the_sign_test_however_many() -> None:
    """30 of 40 lost: the binomial share of as few gains or fewer, without a draw."""
    stats: Any = importlib.import_module("scipy.stats")
    test = sign_flip_test([-0.5] * 30 + [0.5] * 10 + [0.0] * 5, alternative="less")
    assert test.p_value == pytest.approx(float(stats.binom.cdf(10, 40, 0.5)))
    assert (test.method, test.informative, test.clusters) == (SignFlipMethod.BINOMIAL, 40, 45)
    assert (test.resamples, test.seed) == (None, None)


@pytest.mark.parametrize(("side", "sign"), [("less", -1.0), ("greater", 1.0)])
def test_no_p_value_that_was_drawn_is_below_one_of_the_draws(
    side: Alternative, sign: float
) -> None:
    """Forty cases all moved one way: no arrangement that is drawn moved as far."""
    values = [sign * (1.0 + place / 100) for place in range(40)]
    test = sign_flip_test(values, alternative=side, resamples=999, seed=7)
    assert test.p_value == 1 / 1000
    assert (test.resamples, test.seed) == (999, 7)


COUNT = st.integers(0, 60)


def flips(gained: int, lost: int, side: Any) -> float:
    found = sign_flip_test([1.0] * gained + [-1.0] * lost + [0.0] * 9, alternative=side)
    assert found.method is SignFlipMethod.BINOMIAL
    return found.p_value


def test_yes_no_scores_by_hand() -> None:
    # Five losses and no gain: 1/32 on one side.
    assert flips(0, 5, "less") == pytest.approx(1 / 32)
    assert flips(0, 5, "two-sided") == pytest.approx(1 / 16)
    assert flips(0, 5, "greater") == pytest.approx(1.0)


@pytest.mark.extra("dev", package="statsmodels")
@given(COUNT, COUNT)
def test_of_yes_no_scores_two_sided_is_that_of_statsmodels(gained: int, lost: int) -> None:
    reference: Any = importlib.import_module("statsmodels.stats.contingency_tables")
    expected = reference.mcnemar([[3, gained], [lost, 4]], exact=True)
    assert flips(gained, lost, "two-sided") == pytest.approx(float(expected.pvalue))


@given(COUNT, COUNT, st.sampled_from(["less", "greater", "two-sided"]))
def test_of_yes_no_scores_every_side_is_the_binomial_test_of_scipy(
    gained: int, lost: int, side: Any
) -> None:
    if gained + lost == 0:
        assert flips(0, 0, side) == 1.0
        return
    stats: Any = importlib.import_module("scipy.stats")
    expected = stats.binomtest(gained, gained + lost, 0.5, alternative=side).pvalue
    assert flips(gained, lost, side) == pytest.approx(float(expected))
