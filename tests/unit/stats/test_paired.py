from __future__ import annotations

import numpy as np
import pytest

from ragbench import pair
from ragbench.errors import ConfigError, DataError, InputError
from ragbench.stats.mean import ClusterTotals, variance_components
from ragbench.stats.paired import LEFT_OUT, PairedSample


def test_only_cases_measured_in_both_are_compared_and_the_rest_is_counted() -> None:
    sample = pair(
        {"a": 1.0, "b": 0.5, "c": None, "d": 0.5, "e": None, "f": 0.1},
        {"g": 0.3, "e": None, "d": None, "c": 0.2, "b": 0.75, "a": 0.0, "h": None},
        clusters={"a": "doc", "b": "doc", "c": "doc"},
    )
    assert sample.case_ids == ("a", "b")
    assert sample.differences.tolist() == [-1.0, 0.25]
    assert sample.clusters == (0, 0)
    assert (sample.gained, sample.lost) == (1, 1)
    assert sample.left_out == dict(zip(LEFT_OUT, (1, 2, 1, 1, 1), strict=True))
    assert (sample.before, sample.after) == (0.75, 0.375)
    assert sample.totals() == ClusterTotals(sums=(-0.75,), sizes=(2,), rounding=2.0**-50)


def test_all_scores_that_are_no_numbers_are_named() -> None:
    with pytest.raises(DataError) as caught:
        pair({"a": float("nan"), "b": 1.0}, {"b": float("inf")})
    found = [(each.path, each.field) for each in caught.value.problems]
    assert found == [("baseline", "a"), ("candidate", "b")]
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
    assert turned.differences.tolist() == [3.0]
    assert turned.scores_by_case() == (((-1.0, None), (-3.0, -5.0)),)
    once = pair({"a": 4.0}, {"a": 1.0})
    assert once.scores_by_case() == (((-3.0,), (0.0,)),)


def test_samples_of_the_same_cases_name_their_clusters_alike() -> None:
    scores = {"a": 0.0, "b": 1.0}
    sample = pair(scores, scores, clusters={"a": "doc", "b": None})
    assert [sample.key(place) for place in (0, 1)] == [("cluster", "doc"), "b"]
    coded = PairedSample(differences=np.zeros(2), clusters=(4, 4))
    assert coded.key(1) == 4


@pytest.mark.parametrize(
    ("scores", "expected", "needed"),
    [
        # Within: (1 + 1 + 1 + 1) / 2 = 2. Means 2 and 6: between squares 2 * (4 + 4) / 1 = 16;
        # (16 - 2) / 2 = 7. 2 / r is at most a tenth of (7 + 2 / r) from r = 18/7 on.
        ([[1.0, 3.0], [5.0, 7.0]], (2.0, 7.0, 2.0, 1 / 8, 9.0), 3),
        # Means 1 and 4, within 2 / 1. Centre 6 / 3 = 2: squares 2 * 1 + 1 * 4 = 6, and
        # n0 = 3 - (4 + 1) / 3 = 4 / 3, so that between = (6 - 2) / (4 / 3). 2 / (4 / 3)
        # = 1.5 of 4.5.
        ([[0.0, 2.0], [4.0], []], (2.0, 3.0, 4 / 3, 1 / 3, 5.0), 6),
        ([[1.0], [2.0], []], (None, None, 1.0, None, None), None),
        ([[1.0, 2.0]], (0.5, None, 2.0, None, None), None),
        ([[0.5, 0.5], [0.5, 0.5]], (0.0, 0.0, 2.0, 0.0, 0.0), 1),
        ([], (None, None, None, None, None), None),
    ],
)
def test_the_noise_of_repeats_by_hand(
    scores: list[list[float]], expected: tuple[float | None, ...], needed: int | None
) -> None:
    parts = variance_components({str(at): each for at, each in enumerate(scores)})
    assert (parts.cases, parts.scores) == (sum(map(bool, scores)), sum(map(len, scores)))
    found = (parts.within, parts.between, parts.repeats, parts.share_within, parts.once)
    assert found == pytest.approx(expected)
    assert parts.repeats_for(0.1) == needed


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="case 'b': score 1"):
        variance_components({"a": [1.0], "b": [1.0, float("nan")]})
    with pytest.raises(ConfigError):
        variance_components({"a": [1.0, 3.0]}).repeats_for(1.0)
