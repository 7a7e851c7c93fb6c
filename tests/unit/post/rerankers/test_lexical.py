"""Words in common."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import ConfigError, DataError
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


def test_a_title_counts_twice_in_tokens_and_length() -> None:
    # Lengths 2 and 1 + 2 * 1, mean 2.5; "red" stands once in the first, twice in the second.
    chunks = [chunk("a", "red car"), chunk("b", "car", title="red")]
    scores = LexicalReranker().score(query("red"), chunks)
    first, second = 1.2 * (0.25 + 0.75 * 2 / 2.5), 1.2 * (0.25 + 0.75 * 3 / 2.5)
    wanted = [math.log(2) * 1 / (1 + first), math.log(2) * 2 / (2 + second)]
    assert list(scores) == pytest.approx(wanted)
    once = LexicalReranker(title_weight=1, b=0).score(query("red"), chunks)
    assert list(once) == pytest.approx([math.log(2) / 2.2] * 2)


def test_settings_at_the_ends_of_their_range_are_taken() -> None:
    # With k1 = 0 a token counts once, however often it stands; with b = 1 by its share alone.
    chunks = [chunk("a", "red red car"), chunk("b", "blue")]
    assert list(LexicalReranker(k1=0).score(query("red"), chunks)) == pytest.approx(
        [math.log(3), 0]
    )
    whole = LexicalReranker(b=1).score(query("red"), chunks)
    assert list(whole) == pytest.approx([math.log(3) * 2 / (2 + 1.2 * 3 / 2), 0])
    for wrong in (math.inf, math.nan):
        with pytest.raises(ConfigError, match="k1"):
            LexicalReranker(k1=wrong)
    with pytest.raises(ConfigError, match="b must"):
        LexicalReranker(b=-0.1)


def test_with_a_corpus_a_token_weighs_what_it_does_there(tmp_path: Path) -> None:
    # Of 4 documents 3 hold "red", one "house" (in its title), none "sea".
    rows = [
        {"id": "1", "text": "red red"},
        {"id": "2", "text": "red car"},
        {"id": "3", "text": "the red", "title": "House"},
        {"id": "4", "text": "blue"},
    ]
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    reranker = LexicalReranker(method="idf", corpus=str(corpus))
    chunks = [chunk("a", "red"), chunk("b", "house"), chunk("c", "sea")]
    scores = reranker.score(query("red house sea"), chunks)
    wanted = [math.log(1 + (4 - n + 0.5) / (n + 0.5)) for n in (3, 1, 0)]
    assert list(scores) == pytest.approx(wanted)
    with pytest.raises(ConfigError, match="does not exist"):
        LexicalReranker(corpus=str(tmp_path / "none"))
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match="holds no documents"):
        LexicalReranker(corpus=str(empty)).score(query("red"), chunks)


def test_a_corpus_that_changed_is_counted_again(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.txt").write_text("red", "utf-8")
    reranker, chunks = LexicalReranker(method="idf", corpus=str(folder)), [chunk("a", "red")]
    assert list(reranker.score(query("red"), chunks)) == pytest.approx([math.log(1 + 0.5 / 1.5)])
    (folder / "b.txt").write_text("blue", "utf-8")
    assert list(reranker.score(query("red"), chunks)) == pytest.approx([math.log(1 + 1.5 / 1.5)])


def test_texts_without_words_score_nothing() -> None:
    chunks = [chunk("a", "..."), chunk("b", "!?")]
    assert list(LexicalReranker().score(query("red"), chunks)) == [0, 0]
    assert list(LexicalReranker().score(query(""), [chunk("a", "red")])) == [0]


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
