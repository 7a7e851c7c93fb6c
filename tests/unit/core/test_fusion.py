"""One fusion: by hand, and the same in retrieval, in merging and in reranking."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import Chunk
from ragbench.core.fusion import ScoreOrders, reciprocal_rank_fusion, reciprocal_rank_scores, rises
from ragbench.post.augment import fuse
from ragbench.post.operator import RankedChunk, in_order

RANKINGS = st.lists(
    st.lists(st.sampled_from("abcdef"), max_size=6, unique=True), min_size=1, max_size=3
)


def chunks(ids: list[str]) -> list[Chunk]:
    return [Chunk(id=id, text=id) for id in ids]


def test_reciprocal_ranks_by_hand() -> None:
    found = reciprocal_rank_scores([["a", "b"], ["b", "c", "b"]])
    assert found == pytest.approx({"a": 1 / 61, "b": 1 / 62 + 1 / 61, "c": 1 / 62})
    found = reciprocal_rank_scores([["a"], ["a", "b"]], weights=[2, 0.5], rrf_k=1)
    assert found == pytest.approx({"a": 2 / 2 + 0.5 / 2, "b": 0.5 / 3})
    with pytest.raises(ValueError, match="argument"):
        reciprocal_rank_scores([["a"]], weights=[1, 2])


def test_of_equal_scores_the_lower_id_comes_first() -> None:
    found = reciprocal_rank_fusion([chunks(["b", "x"]), chunks(["a", "x"])])
    assert [one.id for one in found] == ["x", "a", "b"]
    assert [one.id for one in reciprocal_rank_fusion([chunks(["b"]), chunks(["a"])])] == ["a", "b"]
    assert [one.id for one in reciprocal_rank_fusion([chunks(["b", "a"])], top_k=1)] == ["b"]


@given(RANKINGS)
def test_retrieval_and_merging_fuse_alike(rankings: list[list[str]]) -> None:
    weights = [1.0, 0.5, 2.0][: len(rankings)]
    retrieved = reciprocal_rank_fusion([chunks(ids) for ids in rankings], weights=weights)
    plain: Any = {"score": None, "rank": 1, "initial_score": None, "initial_rank": None}
    entries = [
        in_order([RankedChunk(chunk=one, **plain) for one in chunks(ids)]) for ids in rankings
    ]
    merged = [(one.chunk.id, one.score) for one in fuse(entries, "rrf", weights)]
    assert merged == [(one.id, one.score) for one in retrieved]


IDS = st.lists(st.sampled_from("abcdefgh"), unique=True)


@given(first=IDS, second=IDS, k=st.integers(1, 100))
def test_every_chunk_is_held_once_whatever_the_order_of_the_rankings(
    first: list[str], second: list[str], k: int
) -> None:
    fused = reciprocal_rank_fusion([chunks(first), chunks(second)], rrf_k=k)
    assert sorted(one.id for one in fused) == sorted({*first, *second})
    swapped = reciprocal_rank_fusion([chunks(second), chunks(first)], rrf_k=k)
    assert [one.id for one in fused] == [one.id for one in swapped]
    alone = reciprocal_rank_fusion([chunks(first), chunks(first)], weights=[1, 0])
    assert [one.id for one in alone] == first


@pytest.mark.parametrize(
    ("scores", "rising"),
    [
        ([0.9, 0.5, 0.1], False),
        ([0.1, 0.5, 0.9], True),
        ([0.1, 0.1, 0.9], True),
        ([0.9, 0.1, 0.5], None),
        ([0.5, 0.5], None),
        ([0.5], None),
        ([], None),
    ],
)
def test_the_direction_of_a_list(scores: list[float], rising: bool | None) -> None:
    assert rises(scores) is rising


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_a_list_read_backwards_goes_the_other_way(scores: list[float]) -> None:
    there, back = rises(scores), rises(scores[::-1])
    assert (there is None) is (back is None)
    assert there is None or there is not back


@pytest.mark.parametrize(
    ("rising", "falling", "mixed", "said"),
    [(9, 1, 0, True), (9, 0, 1, True), (8, 1, 0, False), (8, 0, 1, False), (0, 0, 0, False)],
)
def test_nine_lists_of_ten_must_rise(rising: int, falling: int, mixed: int, said: bool) -> None:
    orders = ScoreOrders()
    for scores, times in (((1, 2), rising), ((2, 1), falling), ((1, 3, 2), mixed), ((1, 1), 50)):
        for _ in range(times):
            orders.add(scores)
    note = orders.note()
    assert (note is not None) is said
    assert note is None or note.startswith("In 9 of 10 retrievals with different scores these rise")
