from __future__ import annotations

import pytest

from ragbench import pair
from ragbench.errors import DataError
from ragbench.stats.clusters import ClusterTotals
from ragbench.stats.paired import LEFT_OUT, PairedSample


def test_only_cases_measured_in_both_are_compared_and_the_rest_is_counted() -> None:
    sample = pair(
        {"a": 1.0, "b": 0.5, "c": None, "d": 0.5, "e": None, "f": 0.1},
        {"g": 0.3, "e": None, "d": None, "c": 0.2, "b": 0.75, "a": 0.0, "h": None},
        clusters={"a": "doc", "b": "doc", "c": "doc"},
    )
    assert sample.case_ids == ("a", "b")
    assert sample.differences == (-1.0, 0.25)
    assert sample.clusters == (0, 0)
    assert (sample.gained, sample.lost) == (1, 1)
    assert sample.left_out == dict(zip(LEFT_OUT, (1, 2, 1, 1, 1), strict=True))
    assert (sample.before, sample.after) == (0.75, 0.375)
    assert sample.totals() == ClusterTotals(sums=(-0.75,), sizes=(2,), rounding=2.0**-50)


def test_all_scores_that_are_no_numbers_are_named() -> None:
    with pytest.raises(DataError) as caught:
        pair({"a": float("nan"), "b": 1.0}, {"b": float("inf")})
    assert [(each.path, each.field) for each in caught.value.problems] == [
        ("baseline", "a"),
        ("candidate", "b"),
    ]
    assert "give None" in str(caught.value)


def test_rounding_is_measured_against_the_largest_score_of_either_run() -> None:
    for baseline, candidate in ((-8.0, 1.0), (1.0, -8.0), (8.0, 1.0)):
        sample = pair({"a": baseline, "b": 0.5}, {"a": candidate, "b": 0.5})
        assert sample.rounding == 8.0 * 2.0**-50
    assert pair({}, {}).rounding == 0.0


def test_repeats_are_turned_with_their_difference() -> None:
    repeats = {"a": ((1.0, None), (3.0, 5.0))}
    kept = pair({"a": 4.0}, {"a": 1.0}, repeats=repeats)
    assert kept.scores_by_case() == (((1.0, None), (3.0, 5.0)),)
    turned = pair({"a": 4.0}, {"a": 1.0}, repeats=repeats, higher_is_better=False)
    assert turned.differences == (3.0,)
    assert turned.scores_by_case() == (((-1.0, None), (-3.0, -5.0)),)
    once = pair({"a": 4.0}, {"a": 1.0})
    assert once.scores_by_case() == (((-3.0,), (0.0,)),)


def test_samples_of_the_same_cases_name_their_clusters_alike() -> None:
    scores = {"a": 0.0, "b": 1.0}
    sample = pair(scores, scores, clusters={"a": "doc", "b": None})
    assert [sample.key(place) for place in (0, 1)] == [("cluster", "doc"), "b"]
    coded = PairedSample(case_ids=("a", "b"), differences=(0.0, 0.0), clusters=(4, 4))
    assert coded.key(1) == 4
