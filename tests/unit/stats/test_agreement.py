"""How far raters agree: figures by hand, intervals, and what has neither."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import InputError
from ragbench.stats.agreement import (
    Agreement,
    Estimated,
    agreement,
    cohen_kappa,
    krippendorff_alpha,
    rank_correlation,
    resample_counts,
)


def pairs(table: list[list[int]]) -> list[tuple[int, int]]:
    """The rated items of a table of counts: a row for each level of the first rater."""
    items: list[tuple[int, int]] = []
    for first_level, row in enumerate(table):
        for second_level, count in enumerate(row):
            items += [(first_level, second_level)] * count
    return items


def ends(figure: Estimated) -> tuple[float, float, float]:
    """The low end, the value and the high end of a figure that has all three."""
    assert figure.low is not None
    assert figure.value is not None
    assert figure.high is not None
    return figure.low, figure.value, figure.high


# --- figures by hand


@pytest.mark.parametrize(
    ("table", "observed", "kappa", "quadratic"),
    [
        # Cohen's usual example: 35 of 50 agree; by chance (25*30 + 25*20) / 50^2 = 1/2.
        pytest.param(
            [[20, 5], [10, 15]],
            0.7,
            0.4,
            0.4,
            id="two levels",
        ),
        pytest.param(
            [[0, 10], [0, 90]],
            0.9,
            0.0,
            0.0,
            id="a rater of one level: chance",
        ),
        pytest.param(
            [[0, 0], [0, 9]],
            1.0,
            None,
            None,
            id="both of one level: undefined",
        ),
        # 14 of 20; by chance (6*8 + 8*6 + 6*6) / 20^2 = .33; the plain one counts each alike.
        pytest.param(
            [[5, 0, 1], [2, 5, 1], [1, 1, 4]],
            0.7,
            0.37 / 0.67,
            1 - 0.6 / 1.3,
            id="three levels",
        ),
        # Marginals 2, 1, 1 and 1, 1, 2; one of four is two apart: 4/4 of (2+16+1+2+4+1)/16.
        pytest.param(
            [[1, 0, 1], [0, 1, 0], [0, 0, 1]],
            0.75,
            0.75 - 0.25 * 5 / 11,
            1 - 16 / 26,
            id="two levels apart",
        ),
    ],
)
def test_figures_by_hand(
    table: list[list[int]], observed: float, kappa: float | None, quadratic: float | None
) -> None:
    result = agreement(pairs(table), levels=len(table))

    assert result.observed.value == pytest.approx(observed)
    assert result.kappa.value == pytest.approx(kappa)
    assert result.quadratic.value == pytest.approx(quadratic)


# The first rater says level 0 three times of four, the second level 1.
FOUR_ITEMS = [(0, 1), (0, 1), (0, 0), (1, 1)]


def test_the_counts_have_a_row_for_each_level_of_the_first_rater() -> None:
    result = agreement(FOUR_ITEMS, levels=2)

    assert result.count == 4
    assert result.counts == ((1, 2), (0, 1))


def test_the_base_rate_is_that_of_the_first_raters_most_frequent_level() -> None:
    result = agreement(FOUR_ITEMS, levels=2)

    assert result.base_rate == 0.75


@pytest.mark.parametrize("pair", [(0, 2), (2, 0), (-1, 0)])
def test_a_level_outside_of_the_scale_is_refused(pair: tuple[int, int]) -> None:
    with pytest.raises(InputError, match=r"not in 0 \.\. 1"):
        agreement([pair], levels=2)


def test_no_items_are_refused() -> None:
    with pytest.raises(InputError, match="nothing that both rated"):
        agreement([], levels=2)


@pytest.mark.parametrize(
    ("ratings", "kappa"),
    [
        # 35 of 50 agree; by chance 1/2.
        pytest.param(
            pairs([[20, 5], [10, 15]]),
            0.4,
            id="two levels",
        ),
        # 3 of 4 agree; by chance (2 * 1 + 1 * 1 + 1 * 2) / 16 = 5/16.
        pytest.param(
            [(0.0, 0.0), (0.0, 1.0), (0.5, 0.5), (1.0, 1.0)],
            0.75 - 0.25 * 5 / 11,
            id="scores",
        ),
        pytest.param(
            [(0.5, 0.5), (0.5, 0.5)],
            None,
            id="both of one level: undefined",
        ),
        pytest.param([], None, id="nothing rated: undefined"),
    ],
)
def test_kappa_of_any_scores_by_hand(
    ratings: list[tuple[float, float]], kappa: float | None
) -> None:
    assert cohen_kappa(ratings) == pytest.approx(kappa)


LEVEL_PAIRS = st.tuples(st.integers(0, 2), st.integers(0, 2))


def assert_bounds(figure: Estimated) -> None:
    if figure.value is not None:
        assert -1 - 1e-9 <= figure.value <= 1 + 1e-9
    if figure.low is not None and figure.high is not None:
        assert figure.low <= figure.high


@given(st.lists(LEVEL_PAIRS, min_size=1, max_size=60))
def test_kappas_lie_between_minus_one_and_one(labels: list[tuple[int, int]]) -> None:
    result = agreement(labels, levels=3, resamples=100)

    assert_bounds(result.kappa)
    assert_bounds(result.quadratic)


@given(st.lists(LEVEL_PAIRS, min_size=1, max_size=60))
def test_raters_can_change_places(labels: list[tuple[int, int]]) -> None:
    swapped_labels = [(label_b, label_a) for label_a, label_b in labels]

    result = agreement(labels, levels=3, resamples=100)
    swapped = agreement(swapped_labels, levels=3, resamples=100)

    assert result.kappa.value == pytest.approx(swapped.kappa.value)
    assert result.quadratic.value == pytest.approx(swapped.quadratic.value)


@pytest.mark.parametrize(
    ("ratings", "alpha"),
    [
        # One of three pairs differs: 1 - 2 / (18 / 5), of the 9 pairs of unlike values.
        pytest.param(
            [[1, 1], [0, 1], [0, 0]],
            1 - 2 / 3.6,
            id="one of three differs",
        ),
        pytest.param(
            [[1, 1, 1], [0, 0], [0.5]],
            1.0,
            id="an item rated once says nothing",
        ),
        pytest.param(
            [[0, 1], [1, 0]],
            1 - 4 / (8 / 3),
            id="worse than chance",
        ),
        pytest.param(
            [[1, 1], [1, 1]],
            None,
            id="all ratings the same: undefined",
        ),
        pytest.param(
            [[1], [0]],
            None,
            id="no item rated twice: undefined",
        ),
    ],
)
def test_alpha_by_hand(ratings: list[list[float]], alpha: float | None) -> None:
    assert krippendorff_alpha(ratings) == pytest.approx(alpha)


GRADE_PAIRS = st.tuples(st.integers(0, 4), st.integers(0, 4))


@settings(max_examples=40, deadline=None)
@given(st.lists(GRADE_PAIRS, min_size=3, max_size=12))
def test_rank_correlation_is_scipys(graded: list[tuple[int, int]]) -> None:
    stats = pytest.importorskip("scipy.stats")
    grades_a = [float(grade) for grade, _ in graded]
    grades_b = [float(grade) for _, grade in graded]
    grade_pairs = list(zip(grades_a, grades_b, strict=True))

    correlation = rank_correlation(grade_pairs, resamples=10)

    if len(set(grades_a)) == 1 or len(set(grades_b)) == 1:
        # A rater who gives every item the same grade ranks nothing.
        assert correlation.value is None
    else:
        expected = stats.spearmanr(grades_a, grades_b).statistic
        assert correlation.value == pytest.approx(expected, abs=1e-12)


# --- intervals


def test_clusters_widen_the_interval() -> None:
    # 80 items in the order of the table, so that the five of a cluster are rated alike.
    labels = pairs([[30, 10], [10, 30]])
    clusters = [str(position // 5) for position in range(80)]

    alone = agreement(labels, levels=2)
    clustered = agreement(labels, 2, clusters)

    low, _, high = ends(alone.kappa)
    clustered_low, _, clustered_high = ends(clustered.kappa)
    assert low < 0.5 < high
    assert clustered_high - clustered_low > high - low


def test_a_single_cluster_has_no_interval() -> None:
    labels = pairs([[30, 10], [10, 30]])

    kappa = agreement(labels, 2, ["document"] * 80).kappa

    assert kappa.value == 0.5
    assert (kappa.low, kappa.high) == (None, None)


def test_the_same_items_have_the_same_interval_every_time() -> None:
    labels = pairs([[30, 10], [10, 30]])

    assert agreement(labels, levels=2) == agreement(labels, levels=2)


# Twelve items of which two share a cluster: eleven clusters, if each of the ten has its own.
LABELS_OF_TWELVE = pairs([[4, 2], [2, 4]])
SHARED_OR_NONE: list[str | None] = ["shared", "shared", *[None] * 10]
SHARED_OR_OWN = ["shared", "shared", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]


def test_an_item_without_a_cluster_stands_alone_in_an_agreement() -> None:
    result = agreement(LABELS_OF_TWELVE, 2, SHARED_OR_NONE)

    assert result == agreement(LABELS_OF_TWELVE, 2, SHARED_OR_OWN)
    assert result != agreement(LABELS_OF_TWELVE, 2)


def test_an_item_without_a_cluster_stands_alone_in_a_rank_correlation() -> None:
    graded: list[tuple[float, float]] = []
    for position, (label_a, label_b) in enumerate(LABELS_OF_TWELVE):
        grade_b = label_b + 0.1 * position  # no two items have the same
        graded.append((float(label_a), grade_b))

    shared_or_none = rank_correlation(graded, SHARED_OR_NONE, resamples=200)
    shared_or_own = rank_correlation(graded, SHARED_OR_OWN, resamples=200)
    all_own = rank_correlation(graded, resamples=200)

    assert shared_or_none == shared_or_own
    assert shared_or_none != all_own


@pytest.mark.parametrize(("items", "has_interval"), [(9, False), (10, True)])
def test_ten_clusters_are_the_fewest_with_an_interval(items: int, has_interval: bool) -> None:
    labels: list[tuple[int, int]] = []
    graded: list[tuple[float, float]] = []
    for position in range(items):
        labels.append((position % 2, position // 2 % 2))
        graded.append((float(position), float(position % 4)))

    observed = agreement(labels, levels=2).observed
    correlation = rank_correlation(graded, resamples=50)

    assert (observed.low is not None) is has_interval
    assert (correlation.low is not None) is has_interval


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_the_interval_of_a_share_is_that_of_the_binomial(confidence: float) -> None:
    """80 of 100 agree: resampling draws a binomial share, whose 90% lie within 73 and 86."""
    stats = pytest.importorskip("scipy.stats")
    labels = pairs([[40, 10], [10, 40]])
    tail = (1 - confidence) / 2

    observed = agreement(labels, 2, confidence=confidence, resamples=20_000).observed

    fewest_agreed = stats.binom.ppf(tail, 100, 0.8)
    most_agreed = stats.binom.ppf(1 - tail, 100, 0.8)
    # One item of the hundred is the step between two shares.
    assert observed.low == pytest.approx(fewest_agreed / 100, abs=0.0101)
    assert observed.high == pytest.approx(most_agreed / 100, abs=0.0101)


def test_where_more_than_one_in_twenty_resamples_has_no_kappa_there_is_no_interval() -> None:
    # One item of twelve is of another level: (11/12)^12, a third of all resamples, lack it.
    labels = [(0, 0)] * 11 + [(1, 1)]

    kappa = agreement(labels, levels=2).kappa

    assert kappa == Estimated(value=1.0, low=None, high=None)


def test_where_few_resamples_have_no_kappa_there_is_an_interval() -> None:
    # Six of twelve items are of each level: 2 / 2^12 of all resamples lack one.
    labels = [(0, 0)] * 6 + [(1, 1)] * 6

    kappa = agreement(labels, levels=2).kappa

    assert kappa == Estimated(value=1.0, low=1.0, high=1.0)


@pytest.fixture(name="three_levels")
def agreement_of_three_levels() -> Agreement:
    """220 items, of which the 40 that are rated unlike are two levels apart."""
    table = [
        [60, 0, 20],
        [0, 60, 0],
        [20, 0, 60],
    ]
    return agreement(pairs(table), levels=3)


def test_kappa_of_three_levels_by_hand(three_levels: Agreement) -> None:
    agreed_by_chance = (80 * 80 + 60 * 60 + 80 * 80) / 220**2
    disagreed = 40 / 220

    kappa = 1 - disagreed / (1 - agreed_by_chance)
    assert three_levels.kappa.value == pytest.approx(kappa)


@pytest.mark.parametrize("name", ["observed", "kappa", "quadratic"])
def test_an_interval_lies_around_its_figure(three_levels: Agreement, name: str) -> None:
    low, value, high = ends(getattr(three_levels, name))

    assert low < value < high


def test_each_interval_is_made_of_resamples_of_its_own_figure(three_levels: Agreement) -> None:
    # Disagreements two levels apart: the quadratic kappa is far below the plain one.
    plain_low, _, _ = ends(three_levels.kappa)
    _, _, quadratic_high = ends(three_levels.quadratic)

    assert quadratic_high < plain_low


def test_the_stream_is_the_same_on_every_machine_and_version() -> None:
    (counts,) = resample_counts(seed=0, resamples=2, clusters=5)

    assert counts.tolist() == [
        [0.0, 2.0, 1.0, 1.0, 1.0],
        [3.0, 0.0, 0.0, 1.0, 1.0],
    ]
