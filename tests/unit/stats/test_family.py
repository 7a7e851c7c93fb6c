"""The joint test of several metrics and slices."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import ConfigError
from ragbench.stats.family import SignFlipTest, family_test
from ragbench.stats.paired import PairedSample
from tests.unit.stats.builders import sample, stepped_down

Differences = dict[str, list[float]]
"""Of each cluster: the differences of its cases."""


def loss_test(values: list[float], *, resamples: int = 10_000, seed: int = 0) -> SignFlipTest:
    """The test of a single sample for a mean below 0."""
    family = family_test([sample(values)], null_means=[0.0], resamples=resamples, seed=seed)
    return family.tests[0]


def counted_p_values(
    tests: list[Differences], null_means: list[float], *, two_sided: bool
) -> list[float]:
    """Step-down p-values by every arrangement of the clusters' signs."""
    clusters: set[str] = set()
    for test in tests:
        clusters.update(test)
    names = sorted(clusters)

    # A row for each test, a column for each cluster: how far its cases are from the null together.
    rows: list[list[float]] = []
    for test, null_mean in zip(tests, null_means, strict=True):
        row: list[float] = []
        for name in names:
            distances = [value - null_mean for value in test.get(name, [])]
            row.append(sum(distances))
        rows.append(row)
    totals = np.array(rows)

    # The small number keeps a test in which nothing moved from 0 / 0.
    norms = np.linalg.norm(totals, axis=1, keepdims=True) + 1e-300
    # The first arrangement, of which every sign is 1, is the observed one.
    arrangements = list(product((1.0, -1.0), repeat=len(names)))
    statistics = (totals / norms) @ np.array(arrangements).T
    if two_sided:
        return stepped_down(np.abs(statistics))
    return stepped_down(-statistics)


# --- one test


# Few values, so that many arrangements have the same statistic.
LOSSES = [-1.0, -2 / 3, -0.5, -1 / 3]
GAINS = [0.1, 0.2, 0.3, 1 / 3, 0.5, 1.0]
TIED_VALUES = st.lists(st.sampled_from([*LOSSES, 0.0, *GAINS]), min_size=1, max_size=9)


def each_in_a_cluster(values: list[float]) -> Differences:
    return {str(case): [value] for case, value in enumerate(values)}


@given(TIED_VALUES)
def test_a_p_value_of_a_loss_is_the_share_of_all_arrangements(values: list[float]) -> None:
    family = family_test([sample(values)], null_means=[0.0])

    differences = each_in_a_cluster(values)
    expected = counted_p_values([differences], [0.0], two_sided=False)
    assert list(family.p_values) == pytest.approx(expected)


@given(TIED_VALUES)
def test_a_p_value_of_a_change_is_the_share_of_all_arrangements(values: list[float]) -> None:
    family = family_test([sample(values)])

    differences = each_in_a_cluster(values)
    expected = counted_p_values([differences], [0.0], two_sided=True)
    assert list(family.p_values) == pytest.approx(expected)


def test_three_losses_by_hand() -> None:
    # One of the 2^3 arrangements is as low; for a change, so is the one with all signs turned.
    three_losses = sample([-1.0, -1.0, -1.0])

    test_of_a_loss = family_test([three_losses], null_means=[0.0])
    test_of_a_change = family_test([three_losses])

    assert test_of_a_loss.p_values == (1 / 8,)
    assert test_of_a_change.p_values == (2 / 8,)


def test_where_nothing_moved_the_p_value_is_one() -> None:
    family = family_test([sample([0.0, 0.0, 0.0])])

    assert family.p_values == (1.0,)
    assert family.size == 0
    assert family.tests[0].informative == 0


# Too many clusters to count all 2^36 arrangements.
LOST_24_OF_36 = [-1.0] * 24 + [1.0] * 12


def test_a_drawn_p_value_is_near_the_exact_one() -> None:
    """Of 36 signs at most 12 are gains: a binomial tail."""
    stats = pytest.importorskip("scipy.stats")
    exact = float(stats.binom.cdf(12, 36, 0.5))

    drawn = loss_test(LOST_24_OF_36, resamples=40_000).p_value

    standard_error = (exact / 40_000) ** 0.5
    assert abs(drawn - exact) < 4 * standard_error


def test_the_order_of_the_cases_changes_no_drawn_p_value() -> None:
    in_order = loss_test(LOST_24_OF_36)
    in_reverse = loss_test(LOST_24_OF_36[::-1])

    assert in_order == in_reverse


def test_another_seed_draws_another_p_value() -> None:
    assert loss_test(LOST_24_OF_36, seed=5) != loss_test(LOST_24_OF_36, seed=6)


@pytest.mark.parametrize(
    ("resamples", "seed", "option"),
    [
        (0, 0, "resamples"),
        (1, -1, "seed"),
    ],
)
def test_a_bad_option_is_named(resamples: int, seed: int, option: str) -> None:
    with pytest.raises(ConfigError, match=option):
        family_test([sample([0.1])], resamples=resamples, seed=seed)


# --- several tests


@pytest.mark.parametrize(("metrics", "cases"), [(2, 6), (9, 7)])
def test_equal_metrics_are_one_test(metrics: int, cases: int) -> None:
    """All cases lost: 2^-n however often they are asked about; Holm would multiply it."""
    all_lost = sample([-1.0] * cases)

    family = family_test([all_lost] * metrics, null_means=[0.0] * metrics)

    by_chance = 2**-cases
    assert family.p_values == (by_chance,) * metrics
    assert family.size == metrics
    assert family.resolution == 0.0


def test_metrics_that_are_nearly_equal_share_a_level() -> None:
    """Eight metrics, all down together: a level far above 0.05 / 8 = 0.00625."""
    draw = np.random.default_rng(3)
    shared = draw.normal(-0.05, 0.2, 100)
    samples: list[PairedSample] = []
    for _ in range(8):
        noise = draw.normal(0, 0.02, 100)
        samples.append(sample(shared + noise))

    family = family_test(samples, null_means=[0.0] * 8)

    assert 0.025 < family.level <= 0.05


def test_independent_metrics_divide_the_level_by_their_number() -> None:
    draw = np.random.default_rng(3)
    samples: list[PairedSample] = []
    for _ in range(8):
        samples.append(sample(draw.normal(0, 0.2, 100)))

    family = family_test(samples, null_means=[0.0] * 8)

    # 0.05 / 8 = 0.00625
    assert 0.004 < family.level < 0.009


def sample_of_clusters(test: Differences) -> PairedSample:
    differences: list[float] = []
    clusters: list[str] = []
    for name, values in test.items():
        differences += values
        clusters += [name] * len(values)
    return sample(differences, clusters)


def four_tests() -> list[Differences]:
    """Ten clusters of one to three cases; two tests that are alike, a noisy one, one of eight."""
    draw = np.random.default_rng(21)
    names = [f"document {number}" for number in range(10)]
    down: Differences = {}
    for number, name in enumerate(names):
        size = 1 + number % 3
        down[name] = draw.normal(-0.3, 0.5, size).tolist()
    alike: Differences = {}
    for name, values in down.items():
        alike[name] = [value + draw.normal(0, 0.3) for value in values]
    noisy: Differences = {}
    for name in names:
        noisy[name] = draw.normal(0.1, 5.0, 2).tolist()
    of_eight: Differences = {}
    for name in names[:8]:
        of_eight[name] = draw.normal(-0.4, 0.4, 2).tolist()
    return [down, alike, noisy, of_eight]


@pytest.mark.parametrize(
    ("null_means", "two_sided"),
    [
        pytest.param([0.0, 0.0, 0.0, 0.0], True, id="changes"),
        pytest.param([0.0, -0.1, 0.5, -0.05], False, id="losses, each with a limit of its own"),
    ],
)
def test_several_tests_step_down_over_every_arrangement(
    null_means: list[float], two_sided: bool
) -> None:
    tests = four_tests()
    samples = [sample_of_clusters(test) for test in tests]

    family = family_test(samples, null_means=None if two_sided else null_means)

    expected = counted_p_values(tests, null_means, two_sided=two_sided)
    assert list(family.p_values) == pytest.approx(expected)
    assert family.size == 4
    assert family.resolution == 0.0
    # Else the tests would not show that each step has a p-value of its own.
    different_p_values = {round(p_value, 6) for p_value in expected}
    assert len(different_p_values) >= 3


def test_slices_of_many_documents_have_the_same_p_values_without_the_zeros_being_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of ten slices each has a tenth of the cases: nine of ten entries are zeros."""
    draw = np.random.default_rng(7)
    slices: list[PairedSample] = []
    for number in range(10):
        differences = draw.normal(-0.1, 0.2, 10)
        slices.append(sample(differences, first=10 * number))
    with_zeros = family_test(slices, null_means=[0.0] * 10, resamples=500)

    monkeypatch.setattr("ragbench.stats.family._DENSE", 0)
    without_zeros = family_test(slices, null_means=[0.0] * 10, resamples=500)

    assert without_zeros.p_values == with_zeros.p_values
    assert without_zeros.level == pytest.approx(with_zeros.level)


def test_what_is_drawn_has_no_p_value_below_one_of_the_draws() -> None:
    """Of thirty losses no arrangement that is drawn is as extreme."""
    # Cases 0 to 29 and 30 to 59: the two tests have no cluster in common.
    thirty_losses = [-1.0] * 30
    samples = [
        sample(thirty_losses, first=0),
        sample(thirty_losses, first=30),
    ]

    family = family_test(samples, null_means=[0.0, 0.0], resamples=20_000)

    smallest = 1 / 20_001
    assert family.p_values == (smallest, smallest)
    assert family.resolution == smallest
