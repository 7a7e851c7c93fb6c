"""Cosines of stored embeddings, and what happens where there are none."""

from __future__ import annotations

import numpy as np
import pytest

from ragbench.errors import InterfaceError
from ragbench.post.rerankers.semantic import SemanticReranker, similarities
from tests.unit.post.rerankers.builders import chunk, notes, order, query

SEMANTIC = SemanticReranker()


def test_cosines_by_hand() -> None:
    chunks = [chunk("same"), chunk("right"), chunk("opposite"), chunk("half")]
    asked = query(embedding=[2, 0], same=[5, 0], right=[0, 1], opposite=[-1, 0], half=[1, 1])
    scores = SEMANTIC.score(asked, chunks)
    assert list(scores) == pytest.approx([1, 0, -1, 0.5**0.5])
    assert scores.notes == ()


def test_embeddings_may_stand_in_the_metadata() -> None:
    chunks = [chunk("a", embedding=[0, 1]), chunk("b", embedding=(1.0, 0.0))]
    asked = query(embedding=np.array([1, 0]))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # arrays have the parts of a sequence that count
    assert order(SEMANTIC, asked, chunks) == ["b", "a"]
    other = [chunk("a", vector=[0, 1]), chunk("b", vector=[1, 0])]
    assert order(SemanticReranker(embedding_field="vector"), query(embedding=[1, 0]), other) == [
        "b",
        "a",
    ]


def test_those_given_with_the_query_win() -> None:
    assert list(
        SEMANTIC.score(query(embedding=[1, 0], a=[1, 0]), [chunk("a", embedding=[0, 1])])
    ) == [1]


def test_without_a_query_embedding_given_scores_are_kept_and_it_is_said() -> None:
    chunks = [chunk("a", score=0.0, embedding=[1]), chunk("b", score=7.0), chunk("c")]
    scores = SEMANTIC.score(query(), chunks)
    assert list(scores) == [0.0, 7.0, 0.5]
    assert scores.notes == (
        "the query has no embedding: the given scores were kept",
        "1 of 3 chunks had no score: 0.5 was taken",
    )


def test_a_chunk_without_an_embedding_keeps_its_given_score() -> None:
    chunks = [chunk("a", score=0.3), chunk("b", embedding=[0, 1]), chunk("c")]
    scores = SEMANTIC.score(query(embedding=[0, 1]), chunks)
    assert list(scores) == [0.3, 1.0, 0.5]
    assert scores.notes == (
        "2 of 3 chunks have no embedding: their given scores were kept",
        "1 of 2 chunks had no score: 0.5 was taken",
    )
    assert notes(SEMANTIC, query(embedding=[1]), [chunk("a", score=1)]) == (
        "1 of 1 chunks have no embedding: their given scores were kept",
    )


def test_zeros_are_like_nothing() -> None:
    assert list(SEMANTIC.score(query(embedding=[0, 0], a=[1, 0]), [chunk("a")])) == [0]
    assert list(SEMANTIC.score(query(embedding=[1, 0], a=[0, 0]), [chunk("a")])) == [0]


@pytest.mark.parametrize(
    ("embedding", "message"),
    [
        ("text", "the embedding of chunk 'b' is not a list of numbers"),
        ([[1, 2]], "the embedding of chunk 'b' is not a list of numbers"),
        ([], "the embedding of chunk 'b' is not a list of numbers"),
        ([1, float("nan")], "the embedding of chunk 'b' holds a number that is not finite"),
        ([1, 2, 3], "the embedding of chunk 'b' has 3 dimensions, those before it 2"),
    ],
)
def test_an_embedding_that_cannot_be_used_is_named(embedding: object, message: str) -> None:
    chunks = [chunk("a", embedding=[1, 0]), chunk("b", embedding=embedding)]
    with pytest.raises(InterfaceError, match=message):
        SEMANTIC.score(query(embedding=[1, 0]), chunks)


def test_another_models_query_embedding_is_refused() -> None:
    with pytest.raises(InterfaceError, match="3 dimensions, those of the chunks 2"):
        SEMANTIC.score(query(embedding=[1, 0, 0], a=[1, 0]), [chunk("a")])
    with pytest.raises(InterfaceError, match="the embedding of the query"):
        SEMANTIC.score(query(embedding=[float("inf"), 0], a=[1, 0]), [chunk("a")])


@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (300, 100), (700, 400)])
def test_similarities_are_the_products_of_all_pairs(shape: tuple[int, int]) -> None:
    """As one block, as blocks of eight rows, and as a matrix that is multiplied whole."""
    rows = np.random.default_rng(7).normal(size=shape)
    found = similarities(rows)
    assert found.shape == (shape[0], shape[0])
    assert np.abs(found - np.einsum("id,jd->ij", rows, rows)).max() < 1e-9
