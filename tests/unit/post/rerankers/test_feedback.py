"""Relevance feedback from the best candidates."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from ragbench.post.rerankers.feedback import FeedbackReranker
from ragbench.post.rerankers.lexical import LexicalReranker
from tests.unit.post.rerankers.builders import chunk, notes, order, query

CHUNKS = [
    chunk("best", "wing flutter", score=3.0),
    chunk("other", "flight house", score=2.0),
    chunk("alike", "flutter", score=1.0),
]


def corpus(folder: Path, *texts: str) -> str:
    file = folder / "corpus.jsonl"
    rows = [{"id": str(at), "text": text} for at, text in enumerate(texts)]
    file.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return str(file)


def test_words_of_the_best_by_hand() -> None:
    # One example; "wing" and "flutter" each a half of it. Rarity ln(1 + 3 / 1) and ln(1 + 3 / 2),
    # so that the added weights are w and f with w + f = 1/2, and "wing" has the query's half.
    rare, common = math.log(4), math.log(2.5)
    wing, flutter = 0.5 * rare / (rare + common), 0.5 * common / (rare + common)
    mean = 5 / 3
    two, one = (1 / (1 + 1.2 * (0.25 + 0.75 * size / mean)) for size in (2, 1))
    scores = FeedbackReranker(by="words", examples=1).score(query("wings"), CHUNKS)
    assert list(scores) == pytest.approx([(0.5 + wing + flutter) * two, 0, flutter * one])
    assert scores.notes == ()


def test_what_resembles_the_best_rises() -> None:
    assert order(FeedbackReranker(by="words", examples=1), query("wings"), CHUNKS) == [
        "best",
        "alike",
        "other",
    ]
    only_query = FeedbackReranker(by="words", query_weight=1)
    assert order(only_query, query("wings"), CHUNKS) == ["best", "other", "alike"]


def test_examples_count_by_their_scores() -> None:
    chunks = [chunk("a", "red", score=9.0), chunk("b", "blue", score=5.0), chunk("c", score=1.0)]
    scores = FeedbackReranker(by="words", examples=3, query_weight=0).score(query("?"), chunks)
    # Shares 2/3 and 1/3, the last candidate's is 0.
    assert scores[0] / scores[1] == pytest.approx(2)
    assert scores[2] == 0


def test_only_the_heaviest_words_are_added() -> None:
    chunks = [chunk("a", "red red blue", score=1.0), chunk("b", "blue", score=0.0)]
    few = FeedbackReranker(by="words", terms=1, examples=1).score(query("x"), chunks)
    assert few[0] > 0
    assert few[1] == 0


def test_titles_are_read() -> None:
    chunks = [chunk("a", "x", score=2.0), chunk("b", "y", score=1.0, title="wing")]
    reranker = FeedbackReranker(by="words", examples=1, query_weight=0.9)
    assert order(reranker, query("wing"), chunks)[0] == "b"


def test_embeddings_by_hand() -> None:
    # The query's direction (1, 0) and that of the best (0, 1) meet halfway.
    chunks = [chunk("a", score=3.0), chunk("b", score=2.0), chunk("c", score=1.0)]
    asked = query(embedding=[2, 0], a=[0, 3], b=[1, 0], c=[1, 1])
    scores = FeedbackReranker(examples=1).score(asked, chunks)
    assert list(scores) == pytest.approx([math.sqrt(0.5), math.sqrt(0.5), 1])
    narrow = FeedbackReranker(examples=1, query_weight=0.9)
    assert order(narrow, asked, chunks) == ["b", "c", "a"]


def test_the_mean_of_several_embeddings_is_made_as_long_as_the_query() -> None:
    """(1, 0) and (0, 1) meet at 45 degrees, that and the query at 22.5."""
    asked = query(embedding=[1, 0], a=[1, 0], b=[0, 1])
    scores = FeedbackReranker().score(asked, [chunk("a"), chunk("b")])
    assert list(scores) == pytest.approx([math.cos(math.pi / 8), math.sin(math.pi / 8)])


def test_embeddings_that_cancel_out_leave_the_query() -> None:
    asked = query(embedding=[0, 1], a=[1, 0], b=[-1, 0])
    scores = FeedbackReranker().score(asked, [chunk("a"), chunk("b")])
    assert list(scores) == pytest.approx([0, 0])


def test_the_best_are_those_with_the_highest_scores_wherever_they_stand() -> None:
    chunks = [chunk("low", "flight house", score=1.0), chunk("high", "wing flutter", score=3.0)]
    reranker = FeedbackReranker(by="words", examples=1, query_weight=0)
    assert order(reranker, query("?"), chunks) == ["high", "low"]


def test_equal_scores_count_alike() -> None:
    chunks = [chunk(name, name, score=2.0) for name in ("red", "blue")]
    scores = FeedbackReranker(by="words", query_weight=0).score(query("?"), chunks)
    assert scores[0] == pytest.approx(scores[1])
    assert scores[0] > 0


def test_a_word_that_is_asked_twice_weighs_twice() -> None:
    """Both stand in one of two texts: 2/3 and 1/3 of the query, times 1 / (1 + 1.2)."""
    chunks = [chunk("a", "wing", score=1.0), chunk("b", "flutter", score=1.0)]
    scores = FeedbackReranker(by="words", query_weight=1).score(query("wing wing flutter"), chunks)
    assert list(scores) == pytest.approx([2 / 3 / 2.2, 1 / 3 / 2.2])


@pytest.mark.parametrize("texts", [("...", "?!"), ("...", "wing")])
def test_texts_without_words_are_no_trouble(texts: tuple[str, str]) -> None:
    chunks = [chunk("a", texts[0], score=2.0), chunk("b", texts[1], score=1.0)]
    scores = list(FeedbackReranker(by="words").score(query("wing"), chunks))
    assert scores[0] == 0
    assert math.isfinite(scores[1])


def test_missing_embeddings_and_scores_are_told() -> None:
    asked = query(embedding=[1, 0], best=[1, 0])
    by_words = FeedbackReranker(by="words").score(asked, CHUNKS)
    assert list(FeedbackReranker().score(asked, CHUNKS)) == list(by_words)
    assert notes(FeedbackReranker(), asked, CHUNKS) == ()
    assert notes(FeedbackReranker(by="embeddings"), asked, [*CHUNKS, chunk("d")]) == (
        "a chunk has no score: the first ones were taken for the best",
        "the query or a chunk has no embedding: words were compared",
    )


def test_rarity_comes_from_the_corpus_where_it_is_given(tmp_path: Path) -> None:
    file = corpus(tmp_path, "flutter", "flutter", "flutter of a house", "wing")
    # Among these candidates both words stand once; in the corpus "wing" is rarer.
    chunks = [chunk("f", "flutter", score=1.0), chunk("w", "wing", score=1.0)]
    asked = query("flutter wing")
    assert order(LexicalReranker(), asked, chunks) == ["f", "w"]
    scores = LexicalReranker(corpus=file, method="idf").score(asked, chunks)
    assert list(scores) == pytest.approx([math.log(1 + 1.5 / 3.5), math.log(1 + 3.5 / 1.5)])
    reranker = FeedbackReranker(by="words", corpus=file)
    assert order(reranker, asked, chunks) == ["w", "f"]
    # A file that has changed is read again.
    corpus(tmp_path, "flutter", "wing", "wing", "wing", "wing")
    assert order(reranker, asked, chunks) == ["f", "w"]
