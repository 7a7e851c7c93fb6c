"""The filter language: what it says, how it is written, what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from ragbench.core.filter_form import parse_filters
from ragbench.core.filters import Equals, Filter, Range, folded, instant, matches
from ragbench.errors import ConfigError
from tests.unit.core import filter_cases

DOCUMENT = {
    "year": 2023,
    "score": 0.5,
    "source": "policy.pdf",
    "draft": False,
    "tags": ["hr", "law", 7, None, ["nested"]],
    "day": "2023-05-01",
    "at": "2023-05-01T02:00:00+02:00",
    "nothing": None,
    "inner": {"year": 2023},
    "any": 1,
}


# --- what a filter says, written as plain data


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ({}, True),
        ({"year": 2023}, True),
        ({"year": 2023.0}, True),
        ({"year": "2023"}, False),
        ({"draft": False}, True),
        ({"draft": 0}, False),
        ({"source": {"prefix": "policy"}}, True),
        ({"source": {"prefix": "policy.pdf "}}, False),
        ({"source": {"prefix": "Policy"}}, False),
        ({"source": {"prefix": ""}}, True),
        ({"tags": {"prefix": "la"}}, True),
        ({"tags": {"prefix": "nest"}}, False),
        ({"year": {"prefix": "20"}}, False),
        ({"nothing": {"prefix": ""}}, False),
        ({"source": "policy.pdf", "year": 2023}, True),
        ({"source": {"in": ["a.pdf", "policy.pdf"]}}, True),
        ({"source": {"in": []}}, False),
        ({"source": {"eq": "policy.pdf"}}, True),
        ({"tags": "law"}, True),
        ({"tags": 7}, True),
        ({"tags": "nested"}, False),
        ({"tags": {"in": ["x", "hr"]}}, True),
        ({"tags": {"gte": 0}}, False),
        ({"year": {"gte": 2023, "lt": 2024}}, True),
        ({"year": {"gt": 2023}}, False),
        ({"year": {"lte": 2023}}, True),
        ({"year": {"lt": 2023}}, False),
        ({"year": {"gte": "2020"}}, False),
        ({"draft": {"lt": 1}}, False),
        ({"score": {"gt": 0.4, "in": [0.5, 0.6]}}, True),
        ({"day": {"gte": "2023-05", "lt": "2023-06"}}, True),
        ({"day": {"gt": "2023-05-01"}}, False),
        ({"at": {"lte": "2023-05-01"}}, True),
        ({"at": {"gt": "2023-04-30T23:59:59.999Z"}}, True),
        ({"source": {"gte": "2020"}}, False),
        ({"missing": 1}, False),
        ({"missing": {"gte": 0}}, False),
        ({"not": {"missing": {"gte": 0}}}, True),
        ({"nothing": "None"}, False),
        ({"inner": "year"}, False),
        ({"inner.year": 2023}, True),
        ({"inner.year": {"gt": 2023}}, False),
        ({"year": {"exists": True}}, True),
        ({"inner": {"exists": True}}, True),
        ({"inner.year": {"exists": True}}, True),
        ({"nothing": {"exists": True}}, False),
        ({"missing": {"exists": False}}, True),
        ({"not": {"year": 2023}}, False),
        ({"any": [{"year": 1}, {"tags": "hr"}]}, True),
        ({"any": []}, False),
        ({"all": []}, True),
        ({"all": [{"year": 2023}, {"not": {"draft": True}}]}, True),
        ({"field": {"any": 1}}, True),
        ({"field": {"any": {"gt": 1}}}, False),
    ],
)
def test_a_filter_holds_or_does_not(plain: dict[str, Any], expected: bool) -> None:
    assert matches(parse_filters(plain), DOCUMENT) is expected


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ([], "filter: expected a mapping of fields such as {year: 2023}, found a list"),
        ("year", "filter: expected a mapping"),
        ({"year": None}, "filter.year: expected a text, a number, true or false, found null"),
        ({"year": [1, 2]}, "filter.year: .*found a list: write {in: "),
        ({"year": {}}, "filter.year: no condition; known: eq, in, prefix, exists, gt, gte, lt"),
        ({"year": {"$gte": 1}}, r"filter.year: unknown condition '\$gte'; known: eq"),
        ({"year": {"exists": 1}}, "filter.year.exists: expected true or false, found int '1'"),
        ({"year": {"prefix": 20}}, "filter.year.prefix: expected a text, found int '20'"),
        ({"year": {"in": 3}}, "filter.year.in: expected a list of values, found int '3'"),
        ({"year": {"in": [{}]}}, r"filter.year.in\[0\]: expected a text"),
        ({"year": {"gte": None}}, "filter.year.gte: expected a number or an ISO 8601 date"),
        ({"year": {"gte": "soon"}}, "filter on 'year': gte is a number or an ISO 8601 date"),
        ({"year": {"gte": True}}, "filter on 'year': gte is not a number: True"),
        ({"year": {"gte": float("nan")}}, "filter on 'year': gte is not a number: nan"),
        ({"year": {"gte": 1, "lt": "2023"}}, "the bounds are of numbers and of dates"),
        ({"year": float("inf")}, "filter on 'year': expected a text, a number"),
        ({1: 2}, "filter: a field is named by a text, found 1: quote it"),
        ({"any": {"year": 1}}, "filter.any: expected a list of filters, found a mapping"),
        ({"all": [{"not": 3}]}, r"filter.all\[0\].not: expected a mapping"),
        ({"field": 3}, "filter.field: expected {NAME: condition}"),
    ],
)
def test_what_is_no_filter_is_refused_with_its_place(plain: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_filters(plain)


def test_a_filter_that_is_nested_too_deep_is_refused() -> None:
    plain: dict[str, Any] = {"year": 1}
    for _ in range(2000):
        plain = {"not": plain}

    with pytest.raises(ConfigError, match="nested more than 50 levels deep"):
        parse_filters(plain)


def test_a_range_without_bounds_is_refused() -> None:
    with pytest.raises(ConfigError, match="the bounds are none"):
        Range(field="year")


def test_a_comparison_with_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="'year': expected a text"):
        Equals(field="year", value=None)  # type: ignore[arg-type]


# --- dates


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970", 0),
        ("1970-02", 2_678_400_000),
        ("1969-12-31T23:59:59.9999Z", -1),
        ("1970-01-01 00:00:01,5", 1500),
        ("1970-01-01T00:30-0130", 7_200_000),
        ("0001-01-01T00:00+01:00", -62_135_600_400_000),
    ],
)
def test_dates_are_moments(text: str, milliseconds: int) -> None:
    """In milliseconds after the start of 1970 in UTC."""
    assert instant(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "1970-01-01T00:30+00:61",
        "2023-02-30",
        "2023-5-1",
        "20230501",
        "2023-05-01T",
        "２０２３",
        2023,
    ],
)
def test_what_is_no_iso_8601_date_is_no_moment(text: object) -> None:
    assert instant(text) is None


# --- simpler filters of the same meaning


@given(filter_cases.filters, filter_cases.metadata)
def test_folding_changes_no_meaning(filters: Filter, metadata: dict[str, Any]) -> None:
    simple = folded(filters)

    if isinstance(simple, bool):
        # Every document meets the filter, or none does.
        assert matches(filters, metadata) is simple
    else:
        assert matches(filters, metadata) is matches(simple, metadata)
