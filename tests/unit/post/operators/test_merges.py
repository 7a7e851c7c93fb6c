"""Merges: what is asked of the service, and how rankings become one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ragbench.errors import ConfigError, InterfaceError
from ragbench.post.merge import Fusion, LinkExpand, QueryMerge, SecondaryQuery, fuse, newcomers
from ragbench.post.operator import ranked
from tests.unit.post.operators.builders import Shelf, apply, chunk, ids

GIVEN = (chunk("a", score=0.9), chunk("b", score=0.5), chunk("c", score=0.1))
FOUND = (chunk("x", score=8.0), chunk("b", score=6.0), chunk("y", score=4.0))


# rrf: a = 1/61, b = 1/62 + 1/62, c = 1/63, x = 1/61, y = 1/63: b first, then x and a tie.
# weighted: a = 1, b = 0.5 + 0.5, c = 0, x = 1, y = 0: a, x and b tie at 1.
@pytest.mark.parametrize(
    ("fusion", "expected"),
    [("concat", "abcxy"), ("interleave", "axbcy"), ("weighted", "abxcy"), ("rrf", "baxcy")],
)
def test_two_rankings_become_one(fusion: Fusion, expected: str) -> None:
    fused = fuse([ranked(GIVEN), newcomers(FOUND)], fusion, (1.0, 1.0))
    assert "".join(ids(fused)) == expected
    assert [entry.rank for entry in fused] == [1, 2, 3, 4, 5]


def test_scores_of_a_fusion() -> None:
    fused = fuse([ranked(GIVEN), newcomers(FOUND)], "rrf", (1.0, 0.5))
    scores = {entry.chunk.id: entry.score for entry in fused}
    assert scores["b"] == pytest.approx(1 / 62 + 0.5 / 62)
    assert scores["x"] == pytest.approx(0.5 / 61)
    weighted = fuse([ranked(GIVEN), newcomers(FOUND)], "weighted", (1.0, 0.5))
    assert {entry.chunk.id: entry.score for entry in weighted} == pytest.approx(
        {"a": 1.0, "b": 0.75, "x": 0.5, "c": 0.0, "y": 0.0}
    )


def test_concat_and_interleave_leave_scores_and_records_alone() -> None:
    fused = fuse([ranked(GIVEN), newcomers(FOUND)], "concat", (1.0, 1.0))
    by_id = {entry.chunk.id: entry for entry in fused}
    assert by_id["b"].chunk is GIVEN[1]
    assert (by_id["b"].score, by_id["b"].initial_rank) == (0.5, 2)
    assert (by_id["x"].score, by_id["x"].initial_rank) == (8.0, None)


def test_a_ranking_without_scores_counts_by_places() -> None:
    bare = newcomers([chunk("x"), chunk("b", score=1.0), chunk("y")])
    fused = fuse([ranked(GIVEN), bare], "weighted", (0.0, 3.0))
    scores = {entry.chunk.id: entry.score for entry in fused}
    assert scores == pytest.approx({"x": 3.0, "b": 2.0, "y": 1.0, "a": 0.0, "c": 0.0})


def test_equal_scores_are_in_the_middle_as_in_every_fusion() -> None:
    fused = fuse([ranked([chunk("a", score=2.0), chunk("b", score=2.0)])], "weighted", (1.0,))
    assert [entry.score for entry in fused] == [0.5, 0.5]


def test_the_ends_of_the_number_line_do_not_overflow() -> None:
    fused = fuse(
        [ranked([chunk("a", score=1.7e308), chunk("b", score=-1.7e308)])], "weighted", (1.0,)
    )
    assert [entry.score for entry in fused] == [1.0, 0.0]


@pytest.mark.parametrize("fusion", ["concat", "interleave", "weighted", "rrf"])
def test_nothing_fused_with_nothing_is_nothing(fusion: Fusion) -> None:
    assert fuse([[], []], fusion, (1.0, 1.0)) == ()


def test_an_id_that_a_ranking_repeats_counts_once_and_where_it_stands_best() -> None:
    """Of 3, 2 and 1 the first "a" has 1; the second one's half is not added."""
    twice = newcomers([chunk("a", score=3.0), chunk("a", score=2.0), chunk("b", score=1.0)])
    fused = fuse([twice], "weighted", (1.0,))
    assert {entry.chunk.id: entry.score for entry in fused} == {"a": 1.0, "b": 0.0}


@pytest.mark.parametrize("settings", [{}, {"weight": 0.2}])
def test_neighbours_weigh_half_of_what_stood_unless_another_weight_is_given(
    settings: dict[str, Any],
) -> None:
    shelf = Shelf(linked={"a": [chunk("x"), chunk("b")]})
    found = apply(LinkExpand(service=shelf, first=1, fusion="rrf", **settings), *GIVEN)
    weight = settings.get("weight", 0.5)
    assert {entry.chunk.id: entry.score for entry in found.chunks} == pytest.approx(
        {"a": 1 / 61, "b": 1 / 62 + weight / 62, "c": 1 / 63, "x": weight / 61}
    )


def test_further_queries_weigh_what_they_say() -> None:
    shelf = Shelf(found={"p": [chunk("x")], "q": [chunk("y"), chunk("a")]})
    queries = (SecondaryQuery(query="p"), SecondaryQuery(query="q", weight=0.5))
    found = apply(QueryMerge(service=shelf, queries=queries, fusion="rrf"), *GIVEN[:1])
    assert {entry.chunk.id: entry.score for entry in found.chunks} == pytest.approx(
        {"a": 1 / 61 + 0.5 / 62, "x": 1 / 61, "y": 0.5 / 61}
    )


# --- link_expand

LINKS: Mapping[str, list[Any]] = {
    "a": [chunk("x"), chunk("b")],
    "b": [chunk("y"), chunk("x")],
    "x": [chunk("z")],
    "z": [chunk("far")],
}


@pytest.mark.parametrize(
    ("settings", "expected", "asked"),
    [
        ({"first": 1}, "abcx", "a"),
        ({"first": 2}, "abcxy", "ab"),
        ({"first": 9}, "abcxy", "abc"),
        ({"first": 1, "depth": 2}, "abcxyz", "axb"),
        ({"first": 1, "top_k": 1}, "abcx", "a"),
    ],
)
def test_links_are_followed_in_breadth(settings: dict[str, int], expected: str, asked: str) -> None:
    shelf = Shelf(linked=LINKS)
    found = apply(LinkExpand(service=shelf, **settings), *GIVEN)  # type: ignore[arg-type]
    assert sorted(ids(found)) == sorted(expected)
    assert ids(found)[:3] == ["a", "b", "c"]
    assert "".join(id for _, id, _ in shelf.asked) == asked
    assert {method for method, *_ in shelf.asked} == {"neighbours"}


def test_links_in_a_circle_are_asked_once() -> None:
    shelf = Shelf(linked={"a": [chunk("b")], "b": [chunk("a")]})
    apply(LinkExpand(service=shelf, first=2, depth=5), *GIVEN[:2])
    assert [id for _, id, _ in shelf.asked] == ["a", "b"]


def test_neighbours_of_nothing_are_nothing() -> None:
    shelf = Shelf(linked=LINKS)
    assert ids(apply(LinkExpand(service=shelf))) == []
    assert shelf.asked == []


@pytest.mark.parametrize(
    "settings", [{"first": 0}, {"depth": 0}, {"top_k": -1}, {"fusion": "mix"}, {"weight": 0}]
)
def test_link_expand_refuses_bad_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        LinkExpand(service=Shelf(), **settings)


# --- multi_query


def test_each_query_is_filled_and_asked() -> None:
    shelf = Shelf(found={"Who? history": FOUND[:2], "plain": FOUND[2:]})
    queries = (SecondaryQuery(query="{question} history", top_k=2), SecondaryQuery(query="plain"))
    found = apply(QueryMerge(service=shelf, queries=queries), *GIVEN, question="Who?")
    assert ids(found) == ["a", "b", "c", "x", "y"]
    assert shelf.asked == [("search", "Who? history", 2), ("search", "plain", 5)]
    assert found.notes == ("2 chunks were added",)


def test_a_service_that_gives_more_than_asked_for_is_cut() -> None:
    shelf = Shelf(found={"q": FOUND})
    queries = (SecondaryQuery(query="q", top_k=1),)
    assert ids(apply(QueryMerge(service=shelf, queries=queries))) == ["x"]


@pytest.mark.parametrize(
    ("given", "message"),
    [(["text"], "gave str, not a Chunk"), ([chunk("n", score=float("nan"))], "'n' score nan")],
)
def test_what_a_service_gives_is_looked_at(given: list[Any], message: str) -> None:
    queries = (SecondaryQuery(query="q"),)
    with pytest.raises(InterfaceError, match=message):
        apply(QueryMerge(service=Shelf(found={"q": given}), queries=queries))


def test_multi_query_refuses_bad_settings() -> None:
    with pytest.raises(ConfigError, match="queries must not be empty"):
        QueryMerge(service=Shelf(), queries=())
    with pytest.raises(
        ConfigError, match=r"query must not be empty\ntop_k must be .*\nweight must"
    ):
        SecondaryQuery(query=" ", top_k=0, weight=-1)
