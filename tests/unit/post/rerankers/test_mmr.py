"""Maximal marginal relevance: by hand and against the definition, written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import Query
from ragbench.post.rerankers.mmr import MmrReranker, lexical_similarity
from tests.unit.post.rerankers.builders import chunk, notes, order, query

Vectors = list[tuple[int, int, int]]


def test_a_repetition_comes_after_something_new() -> None:
    chunks = [chunk("a"), chunk("again"), chunk("new")]
    asked = query(embedding=[1, 0.2], a=[1, 0], again=[1, 0], new=[0, 1])
    assert order(MmrReranker(balance=0.3), asked, chunks) == ["a", "new", "again"]
    assert order(MmrReranker(balance=1), asked, chunks) == ["a", "again", "new"]


def test_scores_by_hand() -> None:
    chunks = [chunk("a", "red car", 4.0), chunk("b", "red car", 3.0), chunk("c", "blue sea", 2.0)]
    # Relevance 1, 0.5, 0; a first: 0.5. Then b costs 1, c costs 0; b is last.
    scores = MmrReranker(balance=0.5).score(query(), chunks)
    assert list(scores) == pytest.approx([0.5, -0.25, 0.0])


def test_words_stand_in_for_embeddings() -> None:
    chunks = [chunk("a", "red car", 4.0), chunk("b", "red car", 3.0), chunk("c", "blue sea", 2.9)]
    assert order(MmrReranker(), query(), chunks) == ["a", "c", "b"]
    reranker = MmrReranker(relevance="embedding", similarity="embedding")
    assert notes(reranker, query(), chunks) == (
        "the query or a chunk has no embedding: the given scores were used",
        "a chunk has no embedding: chunks were compared by their words",
    )


def test_without_scores_the_present_order_is_the_relevance() -> None:
    chunks = [chunk("a", "red car"), chunk("b", "blue sea"), chunk("c", "old house")]
    assert order(MmrReranker(), query(), chunks) == ["a", "b", "c"]
    assert notes(MmrReranker(), query(), chunks) == (
        "a chunk has no score: relevance was taken from the present order",
    )


def test_a_chunk_without_a_score_makes_all_count_by_their_places() -> None:
    """Relevance 1, 0.5, 0, halved: 0.5 first; no two share a word, so that nothing is taken off."""
    chunks = [chunk("a", "red car", 0.1), chunk("b", "blue sea"), chunk("c", "old house", 0.9)]
    assert list(MmrReranker().score(query(), chunks)) == pytest.approx([0.5, 0.25, 0.0])
    assert notes(MmrReranker(), query(), chunks) == (
        "a chunk has no score: relevance was taken from the present order",
    )


def test_a_score_of_zero_is_one() -> None:
    """Of -1, 0 and 1 the relevance is 0, 0.5 and 1."""
    chunks = [chunk("a", "red car", -1.0), chunk("b", "blue sea", 0.0), chunk("c", "old", 1.0)]
    assert list(MmrReranker(balance=1).score(query(), chunks)) == pytest.approx([0.0, 0.5, 1.0])


def test_scores_or_words_are_taken_where_they_are_asked_for_and_embeddings_are_there() -> None:
    """By their embeddings b is relevant and a's twin; by score and words c is a's twin."""
    chunks = [chunk("a", "red car", 3.0), chunk("b", "blue sea", 1.0), chunk("c", "red car", 2.0)]
    asked = query(embedding=[0, 1], a=[1, 0.1], b=[1, 0.2], c=[-1, 0])
    by_score = MmrReranker(balance=1, relevance="score")
    assert order(by_score, asked, chunks) == ["a", "c", "b"]
    assert order(MmrReranker(balance=1), asked, chunks) == ["b", "a", "c"]
    by_words = MmrReranker(balance=0.4, relevance="score", similarity="lexical")
    assert order(by_words, asked, chunks) == ["a", "b", "c"]
    # 0.4 * 0.5 of c and no likeness, against 0 of b and one of nearly 1.
    assert order(MmrReranker(balance=0.4, relevance="score"), asked, chunks) == ["a", "c", "b"]
    assert order(MmrReranker(balance=0.4, similarity="lexical"), asked, chunks) == ["b", "a", "c"]


def test_embeddings_of_some_chunks_are_none() -> None:
    """Without that of c, scores and words count for all."""
    chunks = [chunk("a", "red car", 3.0), chunk("b", "red car", 2.0), chunk("c", "sea", 1.0)]
    for asked in (query(embedding=[0, 1]), query(embedding=[0, 1], a=[1, 0], b=[0, 1])):
        assert list(MmrReranker().score(asked, chunks)) == pytest.approx([0.5, -0.25, 0.0])


def test_embeddings_are_needed_where_they_are_asked_for() -> None:
    assert MmrReranker(relevance="embedding").needs_embeddings
    assert MmrReranker(similarity="embedding").needs_embeddings
    assert not MmrReranker(relevance="score", similarity="lexical").needs_embeddings
    assert not MmrReranker().needs_embeddings


@settings(deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(-3, 3)] * 3).filter(any), min_size=1, max_size=7),
    st.tuples(*[st.integers(-3, 3)] * 3).filter(any),
    st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]),
)
def test_the_order_is_that_of_the_definition(
    vectors: Vectors, asked: tuple[int, int, int], balance: float
) -> None:
    def cosine(one: tuple[int, ...], other: tuple[int, ...]) -> float:
        a, b = np.array(one, float), np.array(other, float)
        return round(float(a @ b / np.sqrt(a @ a) / np.sqrt(b @ b)), 9)

    values = MmrReranker(balance=balance).score(
        Query(
            text="question",
            embedding=asked,
            chunk_embeddings={str(at): vector for at, vector in enumerate(vectors)},
        ),
        [chunk(str(at)) for at in range(len(vectors))],
    )
    picked: list[int] = []
    for place in sorted(range(len(vectors)), key=lambda at: -values[at]):
        worth = {
            at: balance * cosine(vectors[at], asked)
            - (1 - balance) * max((cosine(vectors[at], vectors[p]) for p in picked), default=0)
            for at in range(len(vectors))
            if at not in picked
        }
        # Any of those that are equal but for rounding.
        assert worth[place] == pytest.approx(max(worth.values()), abs=1e-8)
        picked.append(place)


def test_lexical_similarity_by_hand() -> None:
    found = lexical_similarity(["red red car", "red sea", "blue car", "", "sky"])
    # Five texts; red and car are in two of them, sea, blue and sky in one.
    two, one = math.log(1 + 5 / 2), math.log(1 + 5)
    twice = (1 + math.log(2)) * two
    first, second, third = math.hypot(twice, two), math.hypot(two, one), math.hypot(one, two)
    assert found[0, 1] == pytest.approx(twice * two / (first * second))
    assert found[0, 2] == pytest.approx(two * two / (first * third))
    assert found[1, 2] == 0.0
    # A text without words is like none; one whose word stands nowhere else is like itself.
    assert [float(found[at, at]) for at in range(5)] == [1.0, 1.0, 1.0, 0.0, 1.0]
    assert not found[4, :4].any()
    assert (found == found.T).all()
