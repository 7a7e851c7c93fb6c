"""Several rerankers as one: by ranks and by scores."""

from __future__ import annotations

import pytest

from ragbench.errors import InterfaceError
from ragbench.post.rerank import Reranker
from ragbench.post.rerankers.fusion import (
    LinearFusionReranker,
    ReciprocalRankFusionReranker,
    standard,
)
from ragbench.post.rerankers.semantic import SemanticReranker
from tests.unit.post.rerankers.builders import FixedScores, chunk, notes, query

THREE = [chunk("a", score=3.0), chunk("b", score=2.0), chunk("c", score=1.0)]


def test_reciprocal_ranks_by_hand() -> None:
    fused = ReciprocalRankFusionReranker(
        rerankers=[FixedScores(1, 2, 3), FixedScores(0.9, 0.5, 0.7)], weights=[1, 2]
    )
    assert list(fused.score(query(), THREE)) == pytest.approx(
        [1 / 63 + 2 / 61, 1 / 62 + 2 / 63, 1 / 61 + 2 / 62]
    )


def test_the_present_order_can_take_part_and_breaks_ties() -> None:
    fused = ReciprocalRankFusionReranker(rerankers=[FixedScores(5, 5, 5)], given_weight=0.5, k=0)
    assert list(fused.score(query(), THREE)) == pytest.approx([1.5, 0.75, 0.5])


def test_linear_by_hand() -> None:
    fused = LinearFusionReranker(
        rerankers=[FixedScores(0, 10, 5)], weights=[3], given_weight=1, normalise="min_max"
    )
    assert list(fused.score(query(), THREE)) == [1 / 4, 3.5 / 4, 1.5 / 4]
    standardised = LinearFusionReranker(rerankers=[FixedScores(0, 10, 5)])
    deviation = (2 / 3) ** 0.5 * 5
    assert list(standardised.score(query(), THREE)) == pytest.approx(
        [-5 / deviation, 5 / deviation, 0]
    )


def test_linear_takes_the_lowest_for_a_missing_given_score() -> None:
    chunks = [chunk("a"), chunk("b", score=4.0), chunk("c", score=2.0)]
    fused = LinearFusionReranker(
        rerankers=[FixedScores(1, 1, 1)], given_weight=1, normalise="min_max"
    )
    assert list(fused.score(query(), chunks)) == [0.25, 0.75, 0.25]
    assert notes(fused, query(), chunks) == ("1 of 3 chunks had no score: 2 was taken",)


@pytest.mark.parametrize("kind", [ReciprocalRankFusionReranker, LinearFusionReranker])
def test_notes_of_members_carry_their_names(
    kind: type[ReciprocalRankFusionReranker | LinearFusionReranker],
) -> None:
    fused = kind(rerankers=[SemanticReranker(), FixedScores(1, 2, 3)])
    assert notes(fused, query(), THREE) == (
        "semantic: the query has no embedding: the given scores were kept",
    )


@pytest.mark.parametrize("kind", [ReciprocalRankFusionReranker, LinearFusionReranker])
@pytest.mark.parametrize(
    "member", [FixedScores(1, 2), FixedScores(1, float("nan"), 2)], ids=["short", "nan"]
)
def test_a_member_with_unusable_scores_is_named(
    kind: type[ReciprocalRankFusionReranker | LinearFusionReranker], member: Reranker
) -> None:
    with pytest.raises(InterfaceError, match="'fixed'"):
        kind(rerankers=[member]).score(query(), THREE)


def test_standard_scores_by_hand() -> None:
    """Of 1, 2, 3 the mean is 2 and the deviation the root of 2/3; equal ones say nothing."""
    assert standard([1.0, 2.0, 3.0]) == pytest.approx([-(1.5**0.5), 0.0, 1.5**0.5])
    assert standard([7.0, 7.0]) == [0.0, 0.0]
