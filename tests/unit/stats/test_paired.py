"""Two runs side by side: which cases are compared, which way a difference points, and noise."""

from __future__ import annotations

import numpy as np
import pytest

from ragbench import pair
from ragbench.errors import ConfigError, DataError, InputError
from ragbench.stats.mean import ClusterTotals, variance_components
from ragbench.stats.paired import PairedSample

# --- which cases are compared


# Only "a" and "b" have a score in both.
BASELINE = {
    "a": 1.0,
    "b": 0.5,
    "c": None,
    "d": 0.5,
    "e": None,
    "f": 0.1,
}
CANDIDATE = {
    "g": 0.3,
    "e": None,
    "d": None,
    "c": 0.2,
    "b": 0.75,
    "a": 0.0,
    "h": None,
}
SHARED_DOCUMENT = {"a": "doc", "b": "doc", "c": "doc"}


def test_only_cases_measured_in_both_are_compared() -> None:
    sample = pair(BASELINE, CANDIDATE)

    assert sample.case_ids == ("a", "b")
    assert sample.differences.tolist() == [-1.0, 0.25]
    assert sample.gained == 1
    assert sample.lost == 1


def test_means_are_of_the_compared_cases_alone() -> None:
    sample = pair(BASELINE, CANDIDATE)

    assert sample.before == (1.0 + 0.5) / 2
    assert sample.after == (0.0 + 0.75) / 2


def test_cases_that_cannot_be_compared_are_counted_by_reason() -> None:
    sample = pair(BASELINE, CANDIDATE)

    assert sample.left_out == {
        "only in the baseline": 1,  # f
        "only in this run": 2,  # g and h
        "not measured in the baseline": 1,  # c
        "not measured in this run": 1,  # d
        "not measured in either": 1,  # e
    }


def test_runs_without_a_case_in_common_have_no_means() -> None:
    sample = pair({"a": 1.0}, {"b": 1.0})

    assert sample.case_ids == ()
    assert (sample.before, sample.after) == (None, None)


def test_differences_of_a_cluster_are_summed_up() -> None:
    sample = pair(BASELINE, CANDIDATE, clusters=SHARED_DOCUMENT)

    assert sample.clusters == (0, 0)
    # -1 and .25, of two cases; the largest score is 1.
    assert sample.totals() == ClusterTotals(sums=(-0.75,), sizes=(2,), rounding=2.0**-50)


def test_samples_of_the_same_cases_name_their_clusters_alike() -> None:
    scores = {"a": 0.0, "b": 1.0}

    sample = pair(scores, scores, clusters={"a": "doc", "b": None})

    assert sample.key(0) == ("cluster", "doc")
    assert sample.key(1) == "b"


def test_a_sample_without_case_ids_names_its_clusters_by_code() -> None:
    sample = PairedSample(differences=np.zeros(2), clusters=(4, 7))

    assert sample.key(0) == 4
    assert sample.key(1) == 7


def test_every_score_that_is_no_number_is_named() -> None:
    baseline = {"a": float("nan"), "b": 1.0}
    candidate = {"b": float("inf")}

    with pytest.raises(DataError) as caught:
        pair(baseline, candidate)

    places = [(problem.path, problem.field) for problem in caught.value.problems]
    assert places == [("baseline", "a"), ("candidate", "b")]
    assert "give None" in str(caught.value)


@pytest.mark.parametrize(
    ("baseline", "candidate"),
    [
        pytest.param(-8.0, 1.0, id="a low score of the baseline"),
        pytest.param(1.0, -8.0, id="a low score of the candidate"),
        pytest.param(8.0, 1.0, id="a high score"),
    ],
)
def test_rounding_is_measured_against_the_largest_score_of_either_run(
    baseline: float, candidate: float
) -> None:
    scores_before = {"a": baseline, "b": 0.5}
    scores_after = {"a": candidate, "b": 0.5}

    sample = pair(scores_before, scores_after)

    assert sample.rounding == 8.0 * 2.0**-50


def test_without_a_score_there_is_no_rounding() -> None:
    sample = pair({}, {})

    assert sample.rounding == 0.0


# --- which way a difference points


def test_where_lower_is_better_a_lower_score_is_a_gain() -> None:
    sample = pair({"a": 4.0}, {"a": 1.0}, higher_is_better=False)

    assert sample.differences.tolist() == [3.0]
    assert sample.gained == 1
    assert sample.lost == 0


# Of the only case, its mean of 3 and 5, and its single score.
BEFORE = {"a": 4.0}
AFTER = {"a": 1.0}
# The scores in the candidate, then those in the baseline.
SCORES_OF_A = ((1.0, None), (3.0, 5.0))
REPEATS = {"a": SCORES_OF_A}


def test_repeats_stand_behind_their_difference() -> None:
    sample = pair(BEFORE, AFTER, repeats=REPEATS)

    assert sample.scores_by_case() == (SCORES_OF_A,)


def test_repeats_are_turned_with_their_difference() -> None:
    sample = pair(BEFORE, AFTER, repeats=REPEATS, higher_is_better=False)

    assert sample.differences.tolist() == [3.0]
    turned = ((-1.0, None), (-3.0, -5.0))
    assert sample.scores_by_case() == (turned,)


def test_without_repeats_two_scores_differ_by_the_difference() -> None:
    sample = pair(BEFORE, AFTER)

    one_of_each = ((-3.0,), (0.0,))
    assert sample.scores_by_case() == (one_of_each,)


# --- the noise of repeats


def test_the_noise_of_two_cases_by_hand() -> None:
    scores = {"a": [1.0, 3.0], "b": [5.0, 7.0]}

    parts = variance_components(scores)

    assert (parts.cases, parts.scores) == (2, 4)
    assert parts.repeats == 2.0
    # (1 + 1 + 1 + 1) / 2
    assert parts.within == 2.0
    # Means 2 and 6: between squares 2 * (4 + 4) / 1 = 16; (16 - 2) / 2.
    assert parts.between == 7.0
    # The mean of two repeats: 2 / 2 of 7 + 2 / 2.
    assert parts.share_within == 1 / 8
    # One score of a case: 7 + 2.
    assert parts.once == 9.0
    # 2 / r is at most a tenth of (7 + 2 / r) from r = 18/7 on.
    assert parts.repeats_for(0.1) == 3


def test_the_noise_of_cases_with_unlike_numbers_of_repeats_by_hand() -> None:
    scores = {"a": [0.0, 2.0], "b": [4.0], "not measured": []}

    parts = variance_components(scores)

    assert (parts.cases, parts.scores) == (2, 3)
    # 3 - (4 + 1) / 3
    assert parts.repeats == pytest.approx(4 / 3)
    # (1 + 1) / 1
    assert parts.within == 2.0
    # Means 1 and 4, centre 6 / 3 = 2: squares 2 * 1 + 1 * 4 = 6; (6 - 2) / (4 / 3).
    assert parts.between == pytest.approx(3.0)
    # 2 / (4 / 3) = 1.5 of 4.5.
    assert parts.share_within == pytest.approx(1 / 3)
    assert parts.once == pytest.approx(5.0)
    assert parts.repeats_for(0.1) == 6


def test_cases_scored_once_show_no_noise() -> None:
    parts = variance_components({"a": [1.0], "b": [2.0], "not measured": []})

    assert (parts.cases, parts.scores, parts.repeats) == (2, 2, 1.0)
    assert parts.within is None
    assert parts.between is None
    assert parts.share_within is None
    assert parts.once is None
    assert parts.repeats_for(0.1) is None


def test_a_single_case_shows_no_spread_between_cases() -> None:
    parts = variance_components({"a": [1.0, 2.0]})

    assert (parts.within, parts.repeats) == (0.5, 2.0)
    assert parts.between is None
    assert parts.share_within is None
    assert parts.once is None
    assert parts.repeats_for(0.1) is None


def test_scores_that_are_all_equal_have_no_noise() -> None:
    parts = variance_components({"a": [0.5, 0.5], "b": [0.5, 0.5]})

    assert parts.within == 0.0
    assert parts.between == 0.0
    assert parts.once == 0.0
    assert parts.share_within == 0.0
    assert parts.repeats_for(0.1) == 1


def test_without_a_case_nothing_is_known_of_noise() -> None:
    parts = variance_components({})

    assert (parts.cases, parts.scores) == (0, 0)
    assert parts.within is None
    assert parts.between is None
    assert parts.repeats is None
    assert parts.share_within is None
    assert parts.once is None
    assert parts.repeats_for(0.1) is None


def test_a_repeat_that_is_no_number_is_named() -> None:
    scores = {"a": [1.0], "b": [1.0, float("nan")]}

    with pytest.raises(InputError, match="case 'b': score 1"):
        variance_components(scores)


def test_a_share_of_noise_that_every_number_of_repeats_has_is_refused() -> None:
    parts = variance_components({"a": [1.0, 3.0]})

    with pytest.raises(ConfigError):
        parts.repeats_for(1.0)
