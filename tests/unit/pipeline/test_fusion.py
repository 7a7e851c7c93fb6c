"""Reciprocal rank fusion, by hand and in general."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import Chunk
from ragbench.core.fusion import reciprocal_rank_fusion


def ranking(*ids: str) -> list[Chunk]:
    return [Chunk(id=id_, text=id_.upper(), score=9.0) for id_ in ids]


def test_scores_are_sums_of_reciprocal_ranks() -> None:
    fused = reciprocal_rank_fusion([ranking("a", "b"), ranking("b", "c")])
    assert [chunk.id for chunk in fused] == ["b", "a", "c"]
    scores = [chunk.score or 0.0 for chunk in fused]
    assert scores == pytest.approx([1 / 62 + 1 / 61, 1 / 61, 1 / 62])
    assert fused[0].text == "B"


def test_weights_and_k() -> None:
    fused = reciprocal_rank_fusion([ranking("a"), ranking("b")], weights=[1, 3], rrf_k=1, top_k=1)
    assert [(chunk.id, chunk.score) for chunk in fused] == [("b", 1.5)]


def test_ties_are_broken_by_id() -> None:
    fused = reciprocal_rank_fusion([ranking("b", "c"), ranking("a", "d")])
    assert [chunk.id for chunk in fused] == ["a", "b", "c", "d"]


IDS = st.lists(st.sampled_from("abcdefgh"), unique=True)


@given(first=IDS, second=IDS, k=st.integers(1, 100))
def test_it_holds_every_chunk_once_and_does_not_care_for_the_order_of_rankings(
    first: list[str], second: list[str], k: int
) -> None:
    fused = reciprocal_rank_fusion([ranking(*first), ranking(*second)], rrf_k=k)
    assert {chunk.id for chunk in fused} == {*first, *second}
    assert len(fused) == len({*first, *second})
    swapped = reciprocal_rank_fusion([ranking(*second), ranking(*first)], rrf_k=k)
    assert [chunk.id for chunk in fused] == [chunk.id for chunk in swapped]


@given(ids=IDS)
def test_one_ranking_stays_as_it_is(ids: list[str]) -> None:
    fused = reciprocal_rank_fusion([ranking(*ids), ranking(*ids)], weights=[1, 0])
    assert [chunk.id for chunk in fused] == ids
