"""Words in common."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import ConfigError
from ragbench.post.rerankers.lexical import LexicalReranker
from ragbench.post.rerankers.mmr import lexical_similarity
from tests.unit.post.rerankers.builders import chunk, order, query


def test_bm25_by_hand() -> None:
    # Lengths 2 and 4, mean 3; "red" stands in both, "house" in the second alone.
    chunks = [chunk("a", "red car"), chunk("b", "red red house roof")]
    scores = LexicalReranker(k1=1.2, b=0.75).score(query("red houses"), chunks)
    short, long = 1.2 * (0.25 + 0.75 * 2 / 3), 1.2 * (0.25 + 0.75 * 4 / 3)
    assert list(scores) == pytest.approx(
        [
            math.log(2) * 1 / (1 + short),
            math.log(2) * 2 / (2 + long) + math.log(3) * 1 / (1 + long),
        ]
    )


def test_idf_is_the_weight_covered() -> None:
    chunks = [chunk("a", "red red car"), chunk("b", "a house"), chunk("c", "nothing")]
    scores = LexicalReranker(method="idf").score(query("red red house"), chunks)
    assert list(scores) == pytest.approx([2 * math.log(4), math.log(4), 0])


def test_titles_count_unless_told_otherwise() -> None:
    chunks = [chunk("a", "about it", title=7), chunk("b", "about it", title="The red house")]
    assert order(LexicalReranker(), query("red"), chunks) == ["b", "a"]
    assert order(LexicalReranker(title_weight=0), query("red"), chunks) == ["a", "b"]


def test_texts_without_words_score_nothing() -> None:
    chunks = [chunk("a", "..."), chunk("b", "!?")]
    assert list(LexicalReranker().score(query("red"), chunks)) == [0, 0]
    assert list(LexicalReranker().score(query(""), [chunk("a", "red")])) == [0]


@pytest.mark.parametrize("wrong", [{"k1": -1}, {"b": 2}, {"title_weight": -1}])
def test_settings_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="lexical"):
        LexicalReranker(**wrong)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # a field by name


def test_similarity_by_hand() -> None:
    similarity = lexical_similarity(["red car", "car red", "blue sea", "..."])
    assert similarity.tolist() == [
        pytest.approx([1, 1, 0, 0]),
        pytest.approx([1, 1, 0, 0]),
        pytest.approx([0, 0, 1, 0]),
        [0, 0, 0, 0],
    ]


@settings(deadline=None)
@given(st.lists(st.text("ab c", max_size=8), min_size=1, max_size=5))
def test_similarity_is_symmetric_and_in_range(texts: list[str]) -> None:
    similarity = lexical_similarity(texts)
    assert similarity.shape == (len(texts), len(texts))
    assert (abs(similarity - similarity.T) < 1e-12).all()
    assert (similarity >= 0).all()
    assert (similarity <= 1 + 1e-9).all()
