"""Rerankers that compute: scores by hand, and what they say where something is missing."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import Chunk, Query
from ragbench.core.fusion import min_max
from ragbench.errors import DataError, InterfaceError
from ragbench.post.rerankers.fusion import standard
from ragbench.post.rerankers.semantic import lexical_similarity
from tests.unit.post.builders import FixedScores, chunk, order, query, scored

LN2, LN3, LN4, LN2_5 = math.log(2), math.log(3), math.log(4), math.log(2.5)
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
NOW = Query(text="q", now=NOON)
NEWEST = "no 'now' is set: ages were counted from the newest chunk"
THREE = [chunk("a", score=3.0), chunk("b", score=2.0), chunk("c", score=1.0)]
TWO = [chunk("a", "red car"), chunk("b", "red red house roof")]
FLUTTER = [
    chunk("best", "wing flutter", score=3.0),
    chunk("other", "flight house", score=2.0),
    chunk("alike", "flutter", score=1.0),
]


def slope(length: float, mean: float) -> float:
    return 1.2 * (0.25 + 0.75 * length / mean)


# One example with "wing" and "flutter" each a half of it; rarity ln(1 + 3 / 1) and ln(1 + 3 / 2).
WING, FLUT = 0.5 * LN4 / (LN4 + LN2_5), 0.5 * LN2_5 / (LN4 + LN2_5)
DEVIATION = (2 / 3) ** 0.5 * 5
MANY = {"factors": [{"weight": 2}, {"field": "recency"}, {"field": "likes", "weight": 1}]}

ByHand = tuple[str, Mapping[str, Any], Query, Sequence[Chunk], Sequence[float]]
BY_HAND: list[ByHand] = [
    # "red" stands in both, "house" in the second alone; lengths 2 and 4, mean 3.
    (
        "lexical",
        {},
        query("red houses"),
        TWO,
        [LN2 / (1 + slope(2, 3)), LN2 * 2 / (2 + slope(4, 3)) + LN3 / (1 + slope(4, 3))],
    ),
    # A token that is asked twice weighs twice.
    (
        "lexical",
        {"method": "idf"},
        query("red red house"),
        [chunk("a", "red red car"), chunk("b", "a house"), chunk("c", "nothing")],
        [2 * LN4, LN4, 0],
    ),
    # A title counts twice in tokens and length: lengths 2 and 1 + 2, mean 2.5.
    (
        "lexical",
        {},
        query("red"),
        [chunk("a", "red car"), chunk("b", "car", title="red")],
        [LN2 / (1 + slope(2, 2.5)), LN2 * 2 / (2 + slope(3, 2.5))],
    ),
    (
        "lexical",
        {"title_weight": 1, "b": 0},
        query("red"),
        [chunk("a", "red car"), chunk("b", "car", title="red")],
        [LN2 / 2.2] * 2,
    ),
    ("lexical", {"title_weight": 0}, query("red"), [chunk("b", "it", title="red")], [0]),
    ("lexical", {}, query("red"), [chunk("b", "it", title=7)], [0]),
    # With k1 = 0 a token counts once, however often it stands; with b = 1 by its share alone.
    ("lexical", {"k1": 0}, query("red"), [chunk("a", "red red"), chunk("b", "blue")], [LN3, 0]),
    (
        "lexical",
        {"b": 1},
        query("red"),
        [chunk("a", "red red car"), chunk("b", "blue")],
        [LN3 * 2 / (2 + 1.2 * 3 / 2), 0],
    ),
    ("lexical", {}, query("red"), [chunk("a", "..."), chunk("b", "!?")], [0, 0]),
    ("lexical", {}, query(""), [chunk("a", "red")], [0]),
    (
        "feedback",
        {"by": "words", "examples": 1},
        query("wings"),
        FLUTTER,
        [(0.5 + WING + FLUT) / (1 + slope(2, 5 / 3)), 0, FLUT / (1 + slope(1, 5 / 3))],
    ),
    # Both stand in one of two texts: 2/3 and 1/3 of the query, times 1 / (1 + 1.2).
    (
        "feedback",
        {"by": "words", "query_weight": 1},
        query("wing wing flutter"),
        [chunk("a", "wing", 1.0), chunk("b", "flutter", 1.0)],
        [2 / 3 / 2.2, 1 / 3 / 2.2],
    ),
    ("feedback", {"by": "words"}, query("x"), [chunk("a", "..", 2.0), chunk("b", "?", 1)], [0, 0]),
    # The query's direction (1, 0) and that of the best (0, 1) meet halfway.
    (
        "feedback",
        {"examples": 1},
        query(embedding=[2, 0], a=[0, 3], b=[1, 0], c=[1, 1]),
        THREE,
        [math.sqrt(0.5), math.sqrt(0.5), 1],
    ),
    # The mean of several is made as long as the query: 45 degrees, and half of that.
    (
        "feedback",
        {},
        query(embedding=[1, 0], a=[1, 0], b=[0, 1]),
        [chunk("a"), chunk("b")],
        [math.cos(math.pi / 8), math.sin(math.pi / 8)],
    ),
    # Those that cancel out leave the query.
    (
        "feedback",
        {},
        query(embedding=[0, 1], a=[1, 0], b=[-1, 0]),
        [chunk("a"), chunk("b")],
        [0, 0],
    ),
    (
        "rrf",
        {"rerankers": [FixedScores(1, 2, 3), FixedScores(9, 5, 7)], "weights": [1, 2]},
        query(),
        THREE,
        [1 / 63 + 2 / 61, 1 / 62 + 2 / 63, 1 / 61 + 2 / 62],
    ),
    # The present order can take part, and breaks ties.
    (
        "rrf",
        {"rerankers": [FixedScores(5, 5, 5)], "given_weight": 0.5, "k": 0},
        query(),
        THREE,
        [1.5, 0.75, 0.5],
    ),
    (
        "linear",
        {
            "rerankers": [FixedScores(0, 10, 5)],
            "weights": [3],
            "given_weight": 1,
            "normalise": "min_max",
        },
        query(),
        THREE,
        [1 / 4, 3.5 / 4, 1.5 / 4],
    ),
    (
        "linear",
        {"rerankers": [FixedScores(0, 10, 5)]},
        query(),
        THREE,
        [-5 / DEVIATION, 5 / DEVIATION, 0],
    ),
    # Relevance 1, 0.5, 0; a first: 0.5. Then b costs 1, c costs 0; b is last.
    (
        "mmr",
        {"balance": 0.5},
        query(),
        [chunk("a", "red car", 4.0), chunk("b", "red car", 3.0), chunk("c", "blue sea", 2.0)],
        [0.5, -0.25, 0.0],
    ),
    # A score of zero is one: of -1, 0 and 1 the relevance is 0, 0.5 and 1.
    (
        "mmr",
        {"balance": 1},
        query(),
        [chunk("a", "red", -1.0), chunk("b", "blue", 0.0), chunk("c", "old", 1)],
        [0, 0.5, 1],
    ),
    ("ppr", {"seeds": "rank"}, query(), [chunk("a", "", 0.0), chunk("b", "", 1)], [2 / 3, 1 / 3]),
    (
        "ppr",
        {"links_field": None, "neighbours": 0},
        query(),
        [chunk("a", "x", 1.0, links=["b"]), chunk("b", "y", 0.0)],
        [1, 0],
    ),
    # b lists nothing, a and c list it with the weight 1: b = 0.5 + 0.5 (a + c), a = c = 0.25 b.
    (
        "ppr",
        {"damping": 0.5},
        query(),
        [
            chunk("a", "x", 1.0, links=["b"]),
            chunk("b", "y", 2.0),
            chunk("c", "z", 1.0, links={"b": 1.0}),
        ],
        [1 / 6, 2 / 3, 1 / 6],
    ),
    (
        "ppr",
        {},
        query(),
        [chunk("a", "x", 1.0, embedding=[1, 0]), chunk("b", "x", 1.0, embedding=[1, 0])],
        [0.5, 0.5],
    ),
    ("semantic", {}, query(embedding=[2, 0], a=[5, 0], b=[0, 1], c=[-1, 0]), THREE, [1, 0, -1]),
    ("semantic", {}, query(embedding=[2, 0], a=[1, 1]), [chunk("a")], [0.5**0.5]),
    # Those given with the query come before those in the metadata; zeros are like nothing.
    ("semantic", {}, query(embedding=[1, 0], a=[1, 0]), [chunk("a", embedding=[0, 1])], [1]),
    ("semantic", {}, query(embedding=[0, 0], a=[1, 0]), [chunk("a")], [0]),
    ("semantic", {}, query(embedding=[1, 0], a=[0, 0]), [chunk("a")], [0]),
    (
        "semantic",
        {"embedding_field": "vector"},
        query(embedding=[1, 0]),
        [chunk("a", vector=(1.0, 0.0))],
        [1],
    ),
    (
        "time_weighted",
        {"rate": 0.1},
        NOW,
        [
            chunk("new", score=0.5, timestamp="2024-05-01T12:00:00Z"),
            chunk("day", score=1.0, timestamp="2024-04-30T12:00:00+00:00"),
        ],
        [0.5, math.exp(-2.4)],
    ),
    # The future counts as now; a rate of 0 fades nothing; 0.01 an hour halves in 69 hours.
    ("time_weighted", {}, NOW, [chunk("a", score=1.0, timestamp=NOON + timedelta(days=9))], [1]),
    ("time_weighted", {"rate": 0}, NOW, [chunk("a", score=1.0, timestamp=0)], [1]),
    ("time_weighted", {}, NOW, [chunk("a", score=0.0, timestamp=0)], [0]),
    (
        "time_weighted",
        {},
        NOW,
        [chunk("a", score=1.0, timestamp=NOON - timedelta(hours=69))],
        [math.exp(-0.69)],
    ),
    ("time_weighted", {"undated": 0}, NOW, [chunk("a", score=0.8)], [0]),
    ("time_weighted", {"undated": 1}, NOW, [chunk("a", score=0.8)], [0.8]),
    (
        "weighted",
        MANY,
        query(),
        [
            chunk("a", score=0.9, timestamp=0, likes=0.3),
            chunk("b", score=0.1, timestamp=36000, likes=True),
        ],
        [(1.8 + math.exp(-1) + 0.3) / 4, (0.2 + 1 + 1) / 4],
    ),
    ("weighted", {}, query(), [chunk("a", score=0.9), chunk("b")], [0.9, 0.5]),
    (
        "weighted",
        {"factors": [{}, {"field": "likes", "weight": 3}]},
        query(),
        [chunk("a", score=30.0, likes=0), chunk("b", score=10.0, likes=1)],
        [7.5, 3.25],
    ),
    (
        "weighted",
        {"factors": [{}, {"field": "likes", "weight": 3}], "normalise": "min_max"},
        query(),
        [chunk("a", score=30.0, likes=0), chunk("b", score=10.0, likes=1)],
        [0.25, 0.75],
    ),
    # A weight of 0 counts for nothing, a rate of 0 makes every dated chunk as recent as any.
    (
        "weighted",
        {"factors": [{"weight": 0}, {"field": "recency", "weight": 3}], "recency_rate": 0},
        query(),
        [chunk("a", timestamp=0), chunk("b", timestamp=3600)],
        [1, 1],
    ),
]


@pytest.mark.parametrize("row", BY_HAND, ids=lambda row: row[0])
def test_scores_by_hand(row: ByHand) -> None:
    name, given, asked, chunks, scores = row
    found = scored({"name": name, **given}, asked, chunks)
    assert list(found) == pytest.approx(list(scores), abs=1e-9)


HALF = {"name": "mmr", "relevance": "embedding", "similarity": "embedding"}
Noted = tuple[str | Mapping[str, Any], Query, Sequence[Chunk], Sequence[float], list[str]]
NOTED: list[Noted] = [
    (
        "semantic",
        query(),
        [chunk("a", score=0.0, embedding=[1]), chunk("b", score=7.0), chunk("c")],
        [0.0, 7.0, 0.5],
        [
            "the query has no embedding: the given scores were kept",
            "1 of 3 chunks had no score: 0.5 was taken",
        ],
    ),
    (
        "semantic",
        query(embedding=[0, 1]),
        [chunk("a", score=0.3), chunk("b", embedding=[0, 1]), chunk("c")],
        [0.3, 1.0, 0.5],
        [
            "2 of 3 chunks had no embedding: their given scores were kept",
            "1 of 2 chunks had no score: 0.5 was taken",
        ],
    ),
    (
        {"name": "feedback", "by": "embeddings", "query_weight": 1},
        query("wing", embedding=[1, 0]),
        [chunk("a", "wing")],
        [1 / 2.2],
        [
            "a chunk has no score: the first ones were taken for the best",
            "the query or a chunk has no embedding: words were compared",
        ],
    ),
    (
        HALF,
        query(),
        [chunk("a", "red", 4.0), chunk("b", "sea", 3.0)],
        [0.5, 0.0],
        [
            "the query or a chunk has no embedding: the given scores were used",
            "a chunk has no embedding: chunks were compared by their words",
        ],
    ),
    # A chunk without a score makes all count by their places: 1, 0.5 and 0, halved.
    (
        "mmr",
        query(),
        [chunk("a", "red", 0.1), chunk("b", "sea"), chunk("c", "house", 0.9)],
        [0.5, 0.25, 0.0],
        ["a chunk has no score: relevance was taken from the present order"],
    ),
    (
        "ppr",
        query(),
        [chunk("a"), chunk("b", score=9.0)],
        [2 / 3, 1 / 3],
        [
            "a chunk has no score: the walk starts by ranks",
            "no chunk is linked to another: the order is that of the seeds",
        ],
    ),
    (
        {"name": "ppr", "seeds": "similarity", "neighbours": 0},
        query(a=[1, 0], b=[0, 1]),
        [chunk("a"), chunk("b")],
        [2 / 3, 1 / 3],
        [
            "the query or a chunk has no embedding: the walk starts by ranks",
            "no chunk is linked to another: the order is that of the seeds",
        ],
    ),
    (
        "time_weighted",
        NOW,
        [chunk("a", score=2.0), chunk("b", timestamp="2024-05-01")],
        [1.0, 0.5 * math.exp(-0.12)],
        [
            "1 of 2 chunks had no score: 0.5 was taken",
            "1 of 2 chunks had no time in 'timestamp': their scores were multiplied by 0.5",
        ],
    ),
    (
        "time_weighted",
        query(),
        [chunk("a", score=-1.0, timestamp=0), chunk("b", score=-0.5, timestamp=10**6)],
        [0.0, 0.5],
        ["scores below 0 cannot fade: all were raised by 1", NEWEST],
    ),
    # Ages are counted from the newest chunk only where one is dated.
    (
        "time_weighted",
        query(),
        [chunk("a", score=1.0)],
        [0.5],
        ["1 of 1 chunk had no time in 'timestamp': their scores were multiplied by 0.5"],
    ),
    (
        {"name": "weighted", "factors": [{"default": 0.25}, {"field": "likes", "default": 1}]},
        query(),
        [chunk("a", likes="many"), chunk("b", score=0.0, likes=float("nan"))],
        [0.625, 0.5],
        [
            "1 of 2 chunks had no number for 'score': 0.25 was taken",
            "2 of 2 chunks had no number for 'likes': 1 was taken",
        ],
    ),
    (
        {"name": "weighted", "factors": [{"field": "recency"}]},
        query(),
        [chunk("a", timestamp=0), chunk("b", timestamp=36_000), chunk("c")],
        [math.exp(-1), 1, 0.5],
        ["1 of 3 chunks had no number for 'recency': 0.5 was taken", NEWEST],
    ),
    (
        {
            "name": "linear",
            "rerankers": [FixedScores(1, 1, 1)],
            "given_weight": 1,
            "normalise": "min_max",
        },
        query(),
        [chunk("a"), chunk("b", score=4.0), chunk("c", score=2.0)],
        [0.25, 0.75, 0.25],
        ["1 of 3 chunks had no score: 2 was taken"],
    ),
    *(
        (
            {"name": name, "rerankers": ["semantic"]},
            query(),
            [chunk("a", score=1.0)],
            scores,
            ["semantic: the query has no embedding: the given scores were kept"],
        )
        for name, scores in (("rrf", [1 / 61]), ("linear", [0.0]))
    ),
]


@pytest.mark.parametrize("row", NOTED)
def test_what_is_missing_is_reported(row: Noted) -> None:
    given, asked, chunks, scores, notes = row
    found = scored(given, asked, chunks)
    assert list(found) == pytest.approx(list(scores))
    assert list(found.notes) == notes


RED = [chunk("a", "red car", 3.0), chunk("b", "blue sea", 1.0), chunk("c", "red car", 2.0)]
ASKED = query(embedding=[0, 1], a=[1, 0.1], b=[1, 0.2], c=[-1, 0])
LINKED = [chunk("a", "", 3.0, links=["c"]), chunk("b", "", 2.0), chunk("c", "", 1.9)]
NEAR = query(a=[1, 0], b=[0, 1], c=[1, 0.1])
ORDERS: list[tuple[str | Mapping[str, Any], Query, Sequence[Chunk], str]] = [
    # By embeddings b is relevant and a's twin; by score and words c is a's twin.
    ({"name": "mmr", "balance": 1, "relevance": "score"}, ASKED, RED, "acb"),
    ({"name": "mmr", "balance": 1}, ASKED, RED, "bac"),
    (
        {"name": "mmr", "balance": 0.4, "relevance": "score", "similarity": "lexical"},
        ASKED,
        RED,
        "abc",
    ),
    ({"name": "mmr", "balance": 0.4, "relevance": "score"}, ASKED, RED, "acb"),
    ({"name": "mmr", "balance": 0.4, "similarity": "lexical"}, ASKED, RED, "bac"),
    # Without the embedding of every chunk, words and scores count for all.
    ("mmr", query(embedding=[0, 1], a=[1, 0], b=[0, 1]), RED, "abc"),
    ("ppr", query(), LINKED, "acb"),
    ({"name": "ppr", "neighbours": 1, "damping": 0.6}, NEAR, LINKED[:2] + THREE[2:], "acb"),
    (
        {"name": "ppr", "seeds": "similarity", "damping": 0},
        query(embedding=[0, 1], a=[1, 0], b=[0, 1]),
        THREE[:2],
        "ba",
    ),
    # The best are those with the highest scores, wherever they are.
    (
        {"name": "feedback", "by": "words", "examples": 1, "query_weight": 0},
        query("?"),
        [chunk("a", "flight house", 1.0), chunk("b", "wing flutter", 3.0)],
        "ba",
    ),
    # Titles are read, and embeddings weigh what the query leaves them.
    (
        {"name": "feedback", "by": "words", "examples": 1, "query_weight": 0.9},
        query("wing"),
        [chunk("a", "x", 2.0), chunk("b", "y", 1.0, title="wing")],
        "ba",
    ),
    (
        {"name": "feedback", "examples": 1, "query_weight": 0.9},
        query(embedding=[2, 0], a=[0, 3], b=[1, 0], c=[1, 1]),
        THREE,
        "bca",
    ),
]


@pytest.mark.parametrize(("given", "asked", "chunks", "wanted"), ORDERS)
def test_orders_by_hand(
    given: str | Mapping[str, Any], asked: Query, chunks: Sequence[Chunk], wanted: str
) -> None:
    assert "".join(order(given, asked, chunks)) == wanted


# --- words and corpora


def test_with_a_corpus_a_word_weighs_what_it_does_there(tmp_path: Path) -> None:
    chunks = [chunk("a", "red", 1.0), chunk("b", "house", 1.0), chunk("c", "sea", 1.0)]
    texts = ("red red", "red car", "the red house", "blue")
    rows = [json.dumps({"id": str(at), "text": text}) for at, text in enumerate(texts)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(rows), "utf-8")
    file = str(tmp_path / "corpus.jsonl")
    given = {"name": "lexical", "method": "idf", "corpus": file}
    asked = query("red house sea")
    wanted = [math.log(1 + (4 - n + 0.5) / (n + 0.5)) for n in (3, 1, 0)]
    assert list(scored(given, asked, chunks)) == pytest.approx(wanted)
    feedback = {"name": "feedback", "by": "words", "corpus": file}
    assert order(feedback, asked, chunks) == ["c", "b", "a"]
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match="holds no documents"):
        scored({**given, "corpus": str(empty)}, asked, chunks)


def test_examples_count_by_their_scores_and_only_the_heaviest_words_are_added() -> None:
    chunks = [chunk("a", "red", 9.0), chunk("b", "blue", 5.0), chunk("c", "green", 1.0)]
    by_words = {"name": "feedback", "by": "words"}
    shares = scored({**by_words, "examples": 3, "query_weight": 0}, query("?"), chunks)
    assert shares[0] / shares[1] == pytest.approx(2)  # 2/3 and 1/3, the last candidate's is 0
    assert shares[2] == 0
    chunks = [chunk("a", "red red blue", 1.0), chunk("b", "blue", 0.0)]
    few = scored({**by_words, "terms": 1, "examples": 1}, query("x"), chunks)
    assert few[0] > 0 == few[1]


# --- diversity


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


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(*[st.integers(-3, 3)] * 3).filter(any), min_size=1, max_size=7),
    st.tuples(*[st.integers(-3, 3)] * 3).filter(any),
    st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]),
)
def test_mmr_picks_what_the_definition_picks(
    vectors: list[tuple[int, int, int]], asked: tuple[int, int, int], balance: float
) -> None:
    def cosine(one: tuple[int, ...], other: tuple[int, ...]) -> float:
        a, b = np.array(one, float), np.array(other, float)
        return round(float(a @ b / np.sqrt(a @ a) / np.sqrt(b @ b)), 9)

    stored = {str(at): vector for at, vector in enumerate(vectors)}
    question = Query(text="question", embedding=asked, chunk_embeddings=stored)
    values = scored({"name": "mmr", "balance": balance}, question, [*map(chunk, stored)])
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


# --- walks


def test_links_go_to_chunks_and_documents_with_weights_and_directions() -> None:
    def scores(links: object, *, directed: bool = False) -> list[float]:
        given = {"name": "ppr", "damping": 0.5, "seeds": "rank", "directed": directed}
        of_doc = replace(chunk("b"), document_id="doc")
        chunks = [chunk("a", links=links), of_doc, chunk("c")]
        return list(scored(given, query(), chunks))

    assert scores(["doc"]) == scores(["b"]) == scores({"b": 1.0}) == scores(["b", "b", "a", "zz"])
    assert scores({"b": 9.0, "c": 1.0})[1] > scores({"b": 1.0, "c": 1.0})[1]
    assert scores(["c"], directed=True)[0] < scores(["c"])[0]
    assert scores(None) == scores([])
    for wrong in ("b", 7, {"b": -1}, {"b": "heavy"}, {"b": float("nan")}, {"b": float("inf")}):
        with pytest.raises(InterfaceError, match="'a'"):
            scores(wrong)


DIRECTIONS = {"a": [1.0, 0.0], "b": [0.8, 0.6], "c": [0.0, 1.0], "d": [-0.6, 0.8]}
"""Unit vectors: the lowest cosine is -0.6, of a and d."""


def written_out(damping: float, neighbours: int, sharpness: float) -> list[float]:
    """The definition: nearest neighbours, weights, both directions, the walk solved at once."""
    names = list(DIRECTIONS)
    cosine = [[float(np.dot(DIRECTIONS[i], DIRECTIONS[j])) for j in names] for i in names]
    weight = np.zeros((4, 4))
    for i in range(4):
        nearest = sorted((j for j in range(4) if j != i), key=lambda j: -cosine[i][j])
        for j in nearest[:neighbours]:
            share = ((cosine[i][j] + 0.6) / 1.6) ** sharpness
            weight[i, j] = weight[j, i] = max(share, weight[i, j])
    walk = weight / weight.sum(axis=1, keepdims=True)
    start = np.array([1.0, 0.0, 0.0, 0.0])
    found = np.linalg.solve(np.eye(4) - damping * walk.T, (1 - damping) * start)
    return [float(one) for one in found]


def test_neighbours_weigh_by_their_cosines() -> None:
    chunks = [chunk(one, "", float(one == "a"), embedding=v) for one, v in DIRECTIONS.items()]
    shapes = [(1, 0.0, 0.5), (2, 1.0, 0.5), (3, 4.0, 0.5), (3, 4.0, 0.3), (2, 0.0, 0.1)]
    for n, s, damping in shapes:
        given = {"name": "ppr", "neighbours": n, "sharpness": s, "damping": damping}
        found = scored(given if damping != 0.3 else {"name": "ppr"}, query(), chunks)
        assert list(found) == pytest.approx(written_out(damping, n, s), abs=1e-8)


# --- embeddings, scales and members


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
        scored("semantic", query(embedding=[1, 0]), chunks)
    with pytest.raises(InterfaceError, match="the embedding of the query"):
        scored("semantic", query(embedding=[float("inf"), 0], a=[1, 0]), [chunk("a")])


@pytest.mark.parametrize("name", ["rrf", "linear"])
def test_a_member_with_unusable_scores_is_named(name: str) -> None:
    for member in (FixedScores(1, 2), FixedScores(1, float("nan"), 2)):
        with pytest.raises(InterfaceError, match="'fixed'"):
            scored({"name": name, "rerankers": [member]}, query(), THREE)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_normalising_stays_finite_and_keeps_the_order(scores: list[float]) -> None:
    for normalised in (min_max(scores), standard(scores)):
        assert all(map(math.isfinite, normalised))
        pairs = sorted(zip(scores, normalised, strict=True))
        assert [new for _, new in pairs] == sorted(normalised)
    assert all(0 <= one <= 1 for one in min_max(scores))
