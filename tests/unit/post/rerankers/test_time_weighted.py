"""Scores that fade with age, and the times they are counted from."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import Query
from ragbench.errors import ConfigError
from ragbench.post.rerankers.weighted import TimeWeightedReranker
from ragbench.post.times import ages_in_hours, parse_time
from tests.unit.post.rerankers.builders import chunk, query

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def test_score_times_exponential_of_age_in_hours() -> None:
    chunks = [
        chunk("new", score=0.5, timestamp="2024-05-01T12:00:00Z"),
        chunk("day", score=1.0, timestamp="2024-04-30T12:00:00+00:00"),
    ]
    scores = TimeWeightedReranker(rate=0.1).score(Query(text="q", now=NOON), chunks)
    assert list(scores) == pytest.approx([0.5, math.exp(-2.4)])
    assert scores.notes == ()


def test_ages_count_from_the_newest_chunk_when_no_time_is_given() -> None:
    chunks = [chunk("old", score=1, timestamp=0), chunk("new", score=1, timestamp=3600)]
    first = TimeWeightedReranker(rate=1).score(query(), chunks)
    assert list(first) == pytest.approx([math.exp(-1), 1])


def test_a_chunk_without_a_time_or_a_score_is_told() -> None:
    chunks = [chunk("a", score=2.0), chunk("b", timestamp="2024-05-01")]
    scores = TimeWeightedReranker().score(Query(text="q", now=NOON), chunks)
    assert list(scores) == pytest.approx([1.0, 0.5 * math.exp(-0.12)])
    assert scores.notes == (
        "1 of 2 chunks had no score: 0.5 was taken",
        "1 of 2 chunks have no time in 'timestamp': their scores were multiplied by 0.5",
    )


def test_fading_never_raises_a_score_below_zero() -> None:
    chunks = [chunk("old", score=-1.0, timestamp=0), chunk("new", score=-0.5, timestamp=10**6)]
    scores = TimeWeightedReranker().score(query(), chunks)
    assert list(scores) == [0.0, 0.5]
    assert scores.notes[0] == "scores below 0 cannot fade: all were raised by 1"


def test_settings_at_the_ends_of_their_range_are_taken() -> None:
    chunks = [chunk("old", score=1.0, timestamp=0), chunk("new", score=1.0, timestamp=7200)]
    assert list(TimeWeightedReranker(rate=0).score(query(), chunks)) == [1.0, 1.0]
    undated = [chunk("a", score=0.8)]
    for share, score in ((0, 0.0), (1, 0.8)):
        assert list(TimeWeightedReranker(undated=share).score(query(), undated)) == [score]
    with pytest.raises(ConfigError, match="undated"):
        TimeWeightedReranker(undated=-0.1)


def test_a_score_of_zero_is_no_score_below_zero() -> None:
    chunks = [chunk("a", score=0.0, timestamp=0), chunk("b", score=1.0, timestamp=0)]
    scores = TimeWeightedReranker().score(Query(text="q", now=NOON), chunks)
    assert list(scores) == pytest.approx([0.0, 0.0]) and scores.notes == ()


def test_ages_are_counted_from_the_newest_chunk_only_where_one_is_dated() -> None:
    scores = TimeWeightedReranker().score(query(), [chunk("a", score=1.0)])
    assert list(scores) == [0.5]
    assert scores.notes == (
        "1 of 1 chunks have no time in 'timestamp': their scores were multiplied by 0.5",
    )
    mixed = [chunk("a", score=1.0), chunk("b", score=1.0, timestamp=0)]
    assert TimeWeightedReranker().score(query(), mixed).notes[-1] == (
        "no 'now' is set: ages were counted from the newest chunk"
    )
    # 0.01 an hour, as the setting says: 69 hours halve a score.
    old = [chunk("a", score=1.0, timestamp=0), chunk("b", score=1.0, timestamp=69 * 3600)]
    assert TimeWeightedReranker().score(query(), old)[0] == pytest.approx(0.5, abs=0.002)


def test_the_future_counts_as_now() -> None:
    chunks = [chunk("later", score=1.0, timestamp=NOON + timedelta(days=9))]
    assert list(TimeWeightedReranker().score(Query(text="q", now=NOON), chunks)) == [1.0]


@pytest.mark.parametrize(
    "value",
    [
        NOON,
        NOON.replace(tzinfo=None),
        NOON.astimezone(timezone(timedelta(hours=8))),
        "2024-05-01T12:00:00",
        " 2024-05-01T14:00:00+02:00 ",
        1714564800,
        1714564800.0,
        1714564800000,
        "1714564800",
    ],
)
def test_one_point_in_time_in_many_spellings(value: object) -> None:
    assert parse_time(value) == NOON


def test_a_date_is_its_midnight() -> None:
    assert parse_time(date(2024, 5, 1)) == parse_time("2024-05-01") == NOON - timedelta(hours=12)


@pytest.mark.parametrize("value", [None, True, "yesterday", "", [], float("nan"), 1e300, "inf"])
def test_what_is_no_time(value: object) -> None:
    assert parse_time(value) is None


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(0, 10**9)), min_size=1, max_size=8))
def test_ages_are_never_negative(times: list[int | None]) -> None:
    ages = ages_in_hours([chunk(str(at), t=time) for at, time in enumerate(times)], "t", None)
    assert [age is None for age in ages] == [time is None for time in times]
    assert all(age is None or age >= 0 for age in ages)
    assert not [age for age in ages if age is not None] or 0 in ages
