import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import Chunk
from ragbench.pipeline.bm25 import Bm25Index


def index_of(*texts: str, **settings: Any) -> Bm25Index:
    return Bm25Index((Chunk(id=f"c{at}", text=text) for at, text in enumerate(texts)), **settings)


def ids(chunks: list[Chunk]) -> list[str]:
    return [chunk.id for chunk in chunks]


def test_score_is_the_formula() -> None:
    index = index_of("red apple", "red red", "blue", k1=1.2, b=0.75)
    # N = 3, "red" in two chunks, average length 5/3.
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    length = 1.2 * (1 - 0.75 + 0.75 * 2 / (5 / 3))
    found = index.search("red", 3)
    assert ids(found) == ["c1", "c0"]
    best, second = [chunk.score or 0 for chunk in found]
    assert math.isclose(best, idf * 2 / (2 + length), rel_tol=1e-6)
    assert math.isclose(second, idf * 1 / (1 + length), rel_tol=1e-6)
    assert math.isclose(index.idf("red"), idf)
    assert math.isclose(index.idf("unseen"), math.log(1 + 3.5 / 0.5))


def test_a_title_counts_as_often_as_its_weight() -> None:
    chunks = [
        Chunk(id="text", text="leave rules"),
        Chunk(id="title", text="some rules", metadata={"title": "Leave"}),
    ]
    assert ids(Bm25Index(chunks, title_weight=0).search("leave", 2)) == ["text"]
    assert ids(Bm25Index(chunks, title_weight=2).search("leave", 2)) == ["title", "text"]


@pytest.mark.parametrize("query", ["", " ?!", "unknown", "龘"])
def test_nothing_in_common_gives_nothing(query: str) -> None:
    assert index_of("an apple", "苹果").search(query, 5) == []


@pytest.mark.parametrize("texts", [(), ("",), ("...", " ")])
def test_a_corpus_without_words_gives_nothing(texts: tuple[str, ...]) -> None:
    index = index_of(*texts)
    assert len(index) == len(texts)
    assert index.search("apple", 5) == []
    assert index.idf("apple") >= 0


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("Apple 水果", ["zh"]),
        ("合同的条款", ["zh2"]),
        ("Wie groß ist die Straße?", ["de"]),
        ("STRASSE", ["de"]),
        ("ERR-4021", ["code"]),
        ("4021", []),
    ],
)
def test_languages_and_codes(query: str, found: list[str]) -> None:
    index = Bm25Index(
        [
            Chunk(id="zh", text="苹果是水果"),
            Chunk(id="zh2", text="合同条款：2023 年生效"),
            Chunk(id="de", text="Die Straße war lang."),
            Chunk(id="code", text="Error ERR-4021 means a full disk."),
        ]
    )
    assert ids(index.search(query, 5)) == found


WORDS = st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f"]), max_size=6).map(" ".join)


@given(st.lists(WORDS, max_size=8), WORDS, st.integers(1, 10))
def test_search_returns_the_best_of_all_in_a_fixed_order(
    texts: list[str], query: str, k: int
) -> None:
    everything = index_of(*texts).search(query, max(1, len(texts)))
    found = index_of(*texts).search(query, k)
    assert found == everything[:k]
    keys = [(-(chunk.score or 0), int(chunk.id[1:])) for chunk in everything]
    assert keys == sorted(keys)
    shared = {f"c{at}" for at, text in enumerate(texts) if set(text.split()) & set(query.split())}
    assert {chunk.id for chunk in everything} == shared
