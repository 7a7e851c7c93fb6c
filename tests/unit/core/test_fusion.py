"""One fusion: by hand, and the same in retrieval, in merging and in reranking."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import Chunk
from ragbench.core.fusion import ScoreOrders, reciprocal_rank_fusion, reciprocal_rank_scores, rises
from ragbench.post.augment import fuse
from ragbench.post.operator import RankedChunk, in_order


def chunks(ids: Sequence[str]) -> list[Chunk]:
    return [Chunk(id=id, text=id) for id in ids]


def ids_of(ranking: Sequence[Chunk]) -> list[str]:
    return [chunk.id for chunk in ranking]


# --- by hand


def test_each_ranking_adds_one_over_sixty_and_the_rank() -> None:
    scores = reciprocal_rank_scores([["a", "b"], ["b", "c"]])

    assert scores == pytest.approx({"a": 1 / 61, "b": 1 / 62 + 1 / 61, "c": 1 / 62})


def test_an_id_that_a_ranking_repeats_counts_once_at_its_first_rank() -> None:
    scores = reciprocal_rank_scores([["b", "c", "b"]])

    assert scores == pytest.approx({"b": 1 / 61, "c": 1 / 62})


def test_a_ranking_counts_by_its_weight_and_the_constant_can_be_set() -> None:
    scores = reciprocal_rank_scores([["a"], ["a", "b"]], weights=[2, 0.5], rrf_k=1)

    assert scores == pytest.approx({"a": 2 / 2 + 0.5 / 2, "b": 0.5 / 3})


def test_weights_of_another_number_than_the_rankings_are_refused() -> None:
    with pytest.raises(ValueError, match="argument"):
        reciprocal_rank_scores([["a"]], weights=[1, 2])


@pytest.mark.parametrize(
    ("rankings", "fused"),
    [
        # Each letter is the id of a chunk; x is the second in both.
        (["bx", "ax"], ["x", "a", "b"]),
        (["b", "a"], ["a", "b"]),
    ],
)
def test_of_equal_scores_the_lower_id_comes_first(rankings: list[str], fused: list[str]) -> None:
    chunk_rankings = [chunks(ids) for ids in rankings]

    result = reciprocal_rank_fusion(chunk_rankings)

    assert ids_of(result) == fused


def test_only_the_top_chunks_are_given() -> None:
    fused = reciprocal_rank_fusion([chunks(["b", "a"])], top_k=1)

    assert ids_of(fused) == ["b"]


# --- for any rankings

IDS = st.lists(st.sampled_from("abcdefgh"), unique=True)
RANKINGS = st.lists(IDS, min_size=1, max_size=3)


def unscored(chunk: Chunk) -> RankedChunk:
    """A chunk as a merge takes it, before it has a rank."""
    return RankedChunk(chunk=chunk, score=None, rank=1, initial_score=None, initial_rank=None)


@given(RANKINGS)
def test_retrieval_and_merging_fuse_alike(rankings: list[list[str]]) -> None:
    weights = [1.0, 0.5, 2.0][: len(rankings)]
    chunk_rankings = [chunks(ids) for ids in rankings]
    entry_rankings: list[Sequence[RankedChunk]] = []
    for ranking in chunk_rankings:
        entries = [unscored(chunk) for chunk in ranking]
        entry_rankings.append(in_order(entries))

    retrieved = reciprocal_rank_fusion(chunk_rankings, weights=weights)
    merged = fuse(entry_rankings, "rrf", weights)

    retrieved_scores = [(chunk.id, chunk.score) for chunk in retrieved]
    merged_scores = [(entry.chunk.id, entry.score) for entry in merged]
    assert merged_scores == retrieved_scores


@given(IDS, IDS)
def test_every_chunk_is_given_once(dense: list[str], sparse: list[str]) -> None:
    fused = reciprocal_rank_fusion([chunks(dense), chunks(sparse)])

    assert sorted(ids_of(fused)) == sorted({*dense, *sparse})


@given(IDS, IDS, st.integers(1, 100))
def test_the_order_of_the_rankings_changes_nothing(
    dense: list[str], sparse: list[str], rrf_k: int
) -> None:
    fused = reciprocal_rank_fusion([chunks(dense), chunks(sparse)], rrf_k=rrf_k)
    swapped = reciprocal_rank_fusion([chunks(sparse), chunks(dense)], rrf_k=rrf_k)

    assert ids_of(fused) == ids_of(swapped)


@given(IDS)
def test_a_ranking_beside_one_of_no_weight_stays_as_it_is(ids: list[str]) -> None:
    fused = reciprocal_rank_fusion([chunks(ids), chunks(ids)], weights=[1, 0])

    assert ids_of(fused) == ids


# --- whether the best score is the highest or the lowest


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


OPPOSITE = {True: False, False: True, None: None}


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_a_list_read_backwards_goes_the_other_way(scores: list[float]) -> None:
    assert rises(scores[::-1]) is OPPOSITE[rises(scores)]


def note_of(*, rising: int, falling: int, mixed: int) -> str | None:
    """The note on a run with so many lists of each direction, and fifty of equal scores."""
    orders = ScoreOrders()
    for _ in range(rising):
        orders.add((1, 2))
    for _ in range(falling):
        orders.add((2, 1))
    for _ in range(mixed):
        orders.add((1, 3, 2))
    for _ in range(50):
        orders.add((1, 1))
    return orders.note()


@pytest.mark.parametrize(("falling", "mixed"), [(1, 0), (0, 1)])
def test_where_nine_lists_of_ten_rise_it_is_noted(falling: int, mixed: int) -> None:
    note = note_of(rising=9, falling=falling, mixed=mixed)

    assert note is not None
    assert note.startswith("In 9 of 10 retrievals with different scores these rise")


@pytest.mark.parametrize(
    ("rising", "falling", "mixed"),
    [(8, 1, 0), (8, 0, 1), (0, 0, 0)],
    ids=["8 of 9", "8 of 9, one mixed", "equal scores alone"],
)
def test_where_fewer_lists_rise_nothing_is_noted(rising: int, falling: int, mixed: int) -> None:
    assert note_of(rising=rising, falling=falling, mixed=mixed) is None
