"""The weighted mean of score, recency and metadata."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.core.fusion import min_max
from ragbench.errors import ConfigError
from ragbench.post.rerankers.fusion import standard
from ragbench.post.rerankers.weighted import Factor, WeightedReranker
from tests.unit.post.rerankers.builders import chunk, notes, query


def test_mean_by_hand() -> None:
    reranker = WeightedReranker(
        factors=[
            Factor(weight=2),
            Factor(field="recency"),
            Factor(field="likes", weight=1),
        ]
    )
    chunks = [
        chunk("a", score=0.9, timestamp=0, likes=0.3),
        chunk("b", score=0.1, timestamp=36000, likes=True),
    ]
    scores = reranker.score(query(), chunks)
    assert list(scores) == pytest.approx([(1.8 + math.exp(-1) + 0.3) / 4, (0.2 + 1 + 1) / 4])
    assert scores.notes == ("no 'now' is set: ages were counted from the newest chunk",)


def test_what_is_missing_takes_the_default_and_is_told() -> None:
    reranker = WeightedReranker(factors=[Factor(default=0.25), Factor(field="likes", default=1)])
    chunks = [chunk("a", likes="many"), chunk("b", score=0.0, likes=float("nan"))]
    assert list(reranker.score(query(), chunks)) == [0.625, 0.5]
    assert notes(reranker, query(), chunks) == (
        "1 of 2 chunks have no number for 'score': 0.25 was taken",
        "2 of 2 chunks have no number for 'likes': 1 was taken",
    )


def test_normalising_makes_scales_comparable() -> None:
    chunks = [chunk("a", score=30.0, likes=0), chunk("b", score=10.0, likes=1)]
    factors = [Factor(weight=1), Factor(field="likes", weight=3)]
    plain = WeightedReranker(factors=factors).score(query(), chunks)
    mapped = WeightedReranker(factors=factors, normalise="min_max").score(query(), chunks)
    assert list(plain) == [7.5, 3.25]
    assert list(mapped) == [0.25, 0.75]


def test_settings_at_the_ends_of_their_range_are_taken() -> None:
    chunks = [chunk("a", score=0.9, timestamp=0), chunk("b", score=0.1, timestamp=3600)]
    # A weight of 0 counts for nothing, a rate of 0 makes every dated chunk as recent as any.
    factors = [Factor(weight=0), Factor(field="recency", weight=3)]
    assert list(WeightedReranker(factors=factors, recency_rate=0).score(query(), chunks)) == [1, 1]
    for wrong in (math.inf, math.nan):
        with pytest.raises(ConfigError, match="a weight that must"):
            WeightedReranker(factors=[Factor(weight=wrong)])
        with pytest.raises(ConfigError, match="recency_rate"):
            WeightedReranker(recency_rate=wrong)


def test_by_default_it_is_the_given_score_and_a_half_where_there_is_none() -> None:
    assert list(WeightedReranker().score(query(), [chunk("a", score=0.9), chunk("b")])) == [
        0.9,
        0.5,
    ]
    assert WeightedReranker().normalise == "none"


def test_recency_falls_to_a_third_in_ten_hours_and_where_nothing_is_dated_no_age_is_counted() -> (
    None
):
    reranker = WeightedReranker(factors=[Factor(field="recency")])
    dated = [chunk("a", timestamp=0), chunk("b", timestamp=36_000), chunk("c")]
    scores = reranker.score(query(), dated)
    assert list(scores) == pytest.approx([math.exp(-1), 1, 0.5])
    assert scores.notes == (
        "1 of 3 chunks have no number for 'recency': 0.5 was taken",
        "no 'now' is set: ages were counted from the newest chunk",
    )
    assert notes(reranker, query(), [chunk("a"), chunk("b")]) == (
        "2 of 2 chunks have no number for 'recency': 0.5 was taken",
    )


def test_what_reads_the_time_says_so() -> None:
    assert WeightedReranker(factors=[Factor(), Factor(field="recency")]).reads_now
    assert not WeightedReranker(factors=[Factor(), Factor(field="likes")]).reads_now


def test_normalised_by_hand() -> None:
    assert min_max([2, 4, 3]) == [0, 1, 0.5]
    assert min_max([7, 7]) == [0.5, 0.5]
    assert standard([1, 3]) == [-1, 1]
    assert standard([5, 5, 5]) == [0, 0, 0]


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_normalising_stays_finite_and_keeps_the_order(scores: list[float]) -> None:
    for normalised in (min_max(scores), standard(scores)):
        assert all(map(math.isfinite, normalised))
        pairs = sorted(zip(scores, normalised, strict=True))
        assert [new for _, new in pairs] == sorted(normalised)
    assert all(0 <= one <= 1 for one in min_max(scores))
