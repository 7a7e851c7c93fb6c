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
from tests.unit.post.builders import FixedScores, Settings, chunk, order, query, scored

LN2 = math.log(2)
LN3 = math.log(3)
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
AT_NOON = Query(text="q", now=NOON)
THREE = [
    chunk("a", score=3.0),
    chunk("b", score=2.0),
    chunk("c", score=1.0),
]

# --- lexical: BM25 over the candidates


def slope(length: float, mean: float) -> float:
    """What BM25 adds to a count below the line: k1 = 1.2, b = 0.75."""
    return 1.2 * (0.25 + 0.75 * length / mean)


RED_AND_CAR = [chunk("a", "red car"), chunk("b", "car", title="red")]


@pytest.mark.parametrize(
    ("settings", "question", "chunks", "scores"),
    [
        pytest.param(
            # "red" stands in both, "house" in the second alone; lengths 2 and 4, mean 3.
            {},
            "red houses",
            [chunk("a", "red car"), chunk("b", "red red house roof")],
            [LN2 / (1 + slope(2, 3)), LN2 * 2 / (2 + slope(4, 3)) + LN3 / (1 + slope(4, 3))],
            id="two words",
        ),
        pytest.param(
            # Each word stands in one of three texts: ln(1 + 2.5 / 1.5), or ln 4 of rarity.
            {"method": "idf"},
            "red red house",
            [chunk("a", "red red car"), chunk("b", "a house"), chunk("c", "nothing")],
            [2 * math.log(4), math.log(4), 0],
            id="a token that is asked twice weighs twice",
        ),
        pytest.param(
            # Lengths 2 and 1 + 2, mean 2.5.
            {},
            "red",
            RED_AND_CAR,
            [LN2 / (1 + slope(2, 2.5)), LN2 * 2 / (2 + slope(3, 2.5))],
            id="a title counts twice in tokens and length",
        ),
        pytest.param(
            {"title_weight": 1, "b": 0},
            "red",
            RED_AND_CAR,
            [LN2 / 2.2, LN2 / 2.2],
            id="a title counts once, and lengths do not",
        ),
        pytest.param(
            {"title_weight": 0},
            "red",
            [chunk("b", "it", title="red")],
            [0],
            id="a title counts for nothing",
        ),
        pytest.param({}, "red", [chunk("b", "it", title=7)], [0], id="a title that is no text"),
        pytest.param(
            {"k1": 0},
            "red",
            [chunk("a", "red red"), chunk("b", "blue")],
            [LN3, 0],
            id="with k1 = 0 a token counts once however often it stands",
        ),
        pytest.param(
            {"b": 1},
            "red",
            [chunk("a", "red red car"), chunk("b", "blue")],
            [LN3 * 2 / (2 + 1.2 * 3 / 2), 0],
            id="with b = 1 a token counts by its share alone",
        ),
        pytest.param(
            {}, "red", [chunk("a", "..."), chunk("b", "!?")], [0, 0], id="texts without words"
        ),
        pytest.param({}, "", [chunk("a", "red")], [0], id="a question without words"),
    ],
)
def test_lexical_scores_by_hand(
    settings: Mapping[str, Any], question: str, chunks: list[Chunk], scores: list[float]
) -> None:
    computed = scored({"name": "lexical", **settings}, query(question), chunks)

    assert list(computed) == pytest.approx(scores, abs=1e-9)


def corpus_of(folder: Path, *texts: str) -> str:
    """The path of a corpus with these texts."""
    path = folder / "corpus.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number, text in enumerate(texts):
            document = {"id": str(number), "text": text}
            file.write(json.dumps(document) + "\n")
    return str(path)


RED_HOUSE_SEA = [
    chunk("a", "red", 1.0),
    chunk("b", "house", 1.0),
    chunk("c", "sea", 1.0),
]


def test_with_a_corpus_a_word_is_as_rare_as_it_is_there(tmp_path: Path) -> None:
    """Of four texts "red" is in 3, "house" in 1, "sea" in none."""
    corpus = corpus_of(tmp_path, "red red", "red car", "the red house", "blue")
    lexical = {"name": "lexical", "method": "idf", "corpus": corpus}

    scores = scored(lexical, query("red house sea"), RED_HOUSE_SEA)

    red_rarity = math.log(1 + 1.5 / 3.5)
    house_rarity = math.log(1 + 3.5 / 1.5)
    sea_rarity = math.log(1 + 4.5 / 0.5)
    assert list(scores) == pytest.approx([red_rarity, house_rarity, sea_rarity])


def test_with_a_corpus_feedback_puts_rare_words_first(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, "red red", "red car", "the red house", "blue")
    feedback = {"name": "feedback", "by": "words", "corpus": corpus}

    assert order(feedback, query("red house sea"), RED_HOUSE_SEA) == ["c", "b", "a"]


def test_a_corpus_without_documents_is_refused(tmp_path: Path) -> None:
    lexical = {"name": "lexical", "method": "idf", "corpus": str(tmp_path)}

    with pytest.raises(DataError, match="holds no documents"):
        scored(lexical, query("red house sea"), RED_HOUSE_SEA)


# --- feedback: the query moved towards the best candidates

FLUTTER = [
    chunk("best", "wing flutter", score=3.0),
    chunk("other", "flight house", score=2.0),
    chunk("alike", "flutter", score=1.0),
]
# The best text is "wing flutter": each word is a half of it, times its rarity among three texts,
# ln(1 + 3 / 1) for "wing" and ln(1 + 3 / 2) for "flutter". The query keeps the other half.
WING_RARITY = math.log(4)
FLUTTER_RARITY = math.log(2.5)
WING = 0.5 * WING_RARITY / (WING_RARITY + FLUTTER_RARITY)
FLUT = 0.5 * FLUTTER_RARITY / (WING_RARITY + FLUTTER_RARITY)


@pytest.mark.parametrize(
    ("settings", "question", "chunks", "scores"),
    [
        pytest.param(
            {"by": "words", "examples": 1},
            query("wings"),
            FLUTTER,
            [(0.5 + WING + FLUT) / (1 + slope(2, 5 / 3)), 0, FLUT / (1 + slope(1, 5 / 3))],
            id="words of the best text",
        ),
        pytest.param(
            # Both stand in one of two texts: 2/3 and 1/3 of the query, times 1 / (1 + 1.2).
            {"by": "words", "query_weight": 1},
            query("wing wing flutter"),
            [chunk("a", "wing", 1.0), chunk("b", "flutter", 1.0)],
            [2 / 3 / 2.2, 1 / 3 / 2.2],
            id="words of the query alone",
        ),
        pytest.param(
            {"by": "words"},
            query("x"),
            [chunk("a", "..", 2.0), chunk("b", "?", 1)],
            [0, 0],
            id="texts without words",
        ),
        pytest.param(
            {"examples": 1},
            query(embedding=[2, 0], a=[0, 3], b=[1, 0], c=[1, 1]),
            THREE,
            [math.sqrt(0.5), math.sqrt(0.5), 1],
            id="the directions of the query and of the best meet halfway",
        ),
        pytest.param(
            # The mean of a and b is at 45 degrees; made as long as the query, it moves it by half.
            {},
            query(embedding=[1, 0], a=[1, 0], b=[0, 1]),
            [chunk("a"), chunk("b")],
            [math.cos(math.pi / 8), math.sin(math.pi / 8)],
            id="the mean of several is made as long as the query",
        ),
        pytest.param(
            {},
            query(embedding=[0, 1], a=[1, 0], b=[-1, 0]),
            [chunk("a"), chunk("b")],
            [0, 0],
            id="examples that cancel out leave the query",
        ),
    ],
)
def test_feedback_scores_by_hand(
    settings: Mapping[str, Any], question: Query, chunks: list[Chunk], scores: list[float]
) -> None:
    computed = scored({"name": "feedback", **settings}, question, chunks)

    assert list(computed) == pytest.approx(scores, abs=1e-9)


@pytest.mark.parametrize(
    ("settings", "question", "chunks", "ids"),
    [
        pytest.param(
            {"by": "words", "examples": 1, "query_weight": 0},
            query("?"),
            [chunk("a", "flight house", 1.0), chunk("b", "wing flutter", 3.0)],
            ["b", "a"],
            id="the best are those with the highest scores, wherever they stand",
        ),
        pytest.param(
            {"by": "words", "examples": 1, "query_weight": 0.9},
            query("wing"),
            [chunk("a", "x", 2.0), chunk("b", "y", 1.0, title="wing")],
            ["b", "a"],
            id="titles are read",
        ),
        pytest.param(
            {"examples": 1, "query_weight": 0.9},
            query(embedding=[2, 0], a=[0, 3], b=[1, 0], c=[1, 1]),
            THREE,
            ["b", "c", "a"],
            id="embeddings weigh what the query leaves them",
        ),
    ],
)
def test_feedback_orders_by_hand(
    settings: Mapping[str, Any], question: Query, chunks: list[Chunk], ids: list[str]
) -> None:
    assert order({"name": "feedback", **settings}, question, chunks) == ids


def test_examples_of_feedback_count_by_their_scores() -> None:
    """9, 5 and 1 are 1, 1/2 and 0 of the scale: shares of 2/3, 1/3 and none."""
    chunks = [
        chunk("a", "red", 9.0),
        chunk("b", "blue", 5.0),
        chunk("c", "green", 1.0),
    ]
    feedback = {"name": "feedback", "by": "words", "examples": 3, "query_weight": 0}

    red, blue, green = scored(feedback, query("?"), chunks)

    assert red / blue == pytest.approx(2)
    assert green == 0


def test_only_the_heaviest_words_are_added_by_feedback() -> None:
    chunks = [chunk("a", "red red blue", 1.0), chunk("b", "blue", 0.0)]
    feedback = {"name": "feedback", "by": "words", "terms": 1, "examples": 1}

    red_text, blue_text = scored(feedback, query("x"), chunks)

    assert red_text > 0
    assert blue_text == 0


# --- rrf and linear: several rerankers in one

# 0, 10 and 5 have the mean 5; their squared distances of it are 25, 25 and 0.
DEVIATION = math.sqrt(50 / 3)


@pytest.mark.parametrize(
    ("settings", "scores"),
    [
        pytest.param(
            {
                "name": "rrf",
                "rerankers": [FixedScores(1, 2, 3), FixedScores(9, 5, 7)],
                "weights": [1, 2],
            },
            [1 / 63 + 2 / 61, 1 / 62 + 2 / 63, 1 / 61 + 2 / 62],
            id="rrf by places and weights",
        ),
        pytest.param(
            # The member's places are 1, 2 and 3 by the present order, whose own weight is a half.
            {"name": "rrf", "rerankers": [FixedScores(5, 5, 5)], "given_weight": 0.5, "k": 0},
            [1.5, 0.75, 0.5],
            id="the present order can take part in rrf, and breaks ties",
        ),
        pytest.param(
            # The present scores 3, 2 and 1 are 1, 1/2 and 0 of their scale.
            {
                "name": "linear",
                "rerankers": [FixedScores(0, 10, 5)],
                "weights": [3],
                "given_weight": 1,
                "normalise": "min_max",
            },
            [1 / 4, 3.5 / 4, 1.5 / 4],
            id="linear over scores between 0 and 1",
        ),
        pytest.param(
            {"name": "linear", "rerankers": [FixedScores(0, 10, 5)]},
            [-5 / DEVIATION, 5 / DEVIATION, 0],
            id="linear over distances from the mean",
        ),
    ],
)
def test_fused_scores_by_hand(settings: Mapping[str, Any], scores: list[float]) -> None:
    computed = scored(settings, query(), THREE)

    assert list(computed) == pytest.approx(scores, abs=1e-9)


@pytest.mark.parametrize("name", ["rrf", "linear"])
@pytest.mark.parametrize(
    "member",
    [FixedScores(1, 2), FixedScores(1, float("nan"), 2)],
    ids=["two scores for three", "nan"],
)
def test_a_member_with_unusable_scores_is_named(name: str, member: FixedScores) -> None:
    with pytest.raises(InterfaceError, match="'fixed'"):
        scored({"name": name, "rerankers": [member]}, query(), THREE)


FLOATS = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20)


@pytest.mark.parametrize("normalise", [min_max, standard])
@settings(deadline=None, max_examples=50)
@given(scores=FLOATS)
def test_normalising_stays_finite_and_keeps_the_order(normalise: Any, scores: list[float]) -> None:
    normalised = list(normalise(scores))

    assert np.isfinite(normalised).all()
    in_order_of_scores = [new for _, new in sorted(zip(scores, normalised, strict=True))]
    assert in_order_of_scores == sorted(normalised)


@settings(deadline=None, max_examples=50)
@given(FLOATS)
def test_min_max_stays_between_zero_and_one(scores: list[float]) -> None:
    normalised = list(min_max(scores))

    assert min(normalised) >= 0
    assert max(normalised) <= 1


# --- mmr: relevance less what is like the chunks before


@pytest.mark.parametrize(
    ("balance", "chunks", "scores"),
    [
        pytest.param(
            # Relevance 1, 0.5, 0; a first: 0.5. Then b costs 1, c costs 0; b is last.
            0.5,
            [chunk("a", "red car", 4.0), chunk("b", "red car", 3.0), chunk("c", "blue sea", 2.0)],
            [0.5, -0.25, 0.0],
            id="a twin costs its likeness",
        ),
        pytest.param(
            1,
            [chunk("a", "red", -1.0), chunk("b", "blue", 0.0), chunk("c", "old", 1)],
            [0, 0.5, 1],
            id="a score of zero is a score",
        ),
    ],
)
def test_mmr_scores_by_hand(balance: float, chunks: list[Chunk], scores: list[float]) -> None:
    computed = scored({"name": "mmr", "balance": balance}, query(), chunks)

    assert list(computed) == pytest.approx(scores, abs=1e-9)


# By embeddings b is relevant and a's twin; by score and words c is a's twin.
RED = [
    chunk("a", "red car", 3.0),
    chunk("b", "blue sea", 1.0),
    chunk("c", "red car", 2.0),
]
TOWARDS_B = query(embedding=[0, 1], a=[1, 0.1], b=[1, 0.2], c=[-1, 0])


@pytest.mark.parametrize(
    ("settings", "ids"),
    [
        ({"balance": 1, "relevance": "score"}, ["a", "c", "b"]),
        ({"balance": 1}, ["b", "a", "c"]),
        ({"balance": 0.4, "relevance": "score", "similarity": "lexical"}, ["a", "b", "c"]),
        ({"balance": 0.4, "relevance": "score"}, ["a", "c", "b"]),
        ({"balance": 0.4, "similarity": "lexical"}, ["b", "a", "c"]),
    ],
)
def test_mmr_weighs_relevance_and_likeness_as_it_is_set(
    settings: Mapping[str, Any], ids: list[str]
) -> None:
    assert order({"name": "mmr", **settings}, TOWARDS_B, RED) == ids


def test_mmr_uses_words_and_scores_where_a_chunk_has_no_embedding() -> None:
    without_c = query(embedding=[0, 1], a=[1, 0], b=[0, 1])

    assert order("mmr", without_c, RED) == ["a", "b", "c"]


Vector = tuple[int, int, int]
COORDINATES = st.integers(-3, 3)
NONZERO = st.tuples(COORDINATES, COORDINATES, COORDINATES).filter(any)


def cosine(left: Vector, right: Vector) -> float:
    left_vector = np.array(left, float)
    right_vector = np.array(right, float)
    lengths = np.linalg.norm(left_vector) * np.linalg.norm(right_vector)
    return round(float(left_vector @ right_vector / lengths), 9)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(NONZERO, min_size=1, max_size=7),
    NONZERO,
    st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]),
)
def test_mmr_picks_what_the_definition_picks(
    vectors: list[Vector], direction: Vector, balance: float
) -> None:
    embeddings = {str(row): vector for row, vector in enumerate(vectors)}
    question = Query(text="question", embedding=direction, chunk_embeddings=embeddings)
    chunks = [chunk(id) for id in embeddings]

    scores = scored({"name": "mmr", "balance": balance}, question, chunks)

    def worth(row: int, picked: list[int]) -> float:
        relevance = cosine(vectors[row], direction)
        cosines = [cosine(vectors[row], vectors[before]) for before in picked]
        likeness = max(cosines, default=0)
        return balance * relevance - (1 - balance) * likeness

    picked: list[int] = []
    remaining = list(range(len(vectors)))
    for row in sorted(remaining, key=lambda row: -scores[row]):
        best = max(worth(candidate, picked) for candidate in remaining)
        # Of those that are equal but for rounding any may be the next.
        assert worth(row, picked) == pytest.approx(best, abs=1e-8)
        picked.append(row)
        remaining.remove(row)


# "red" and "car" are each in two of five texts, "sea", "blue" and "sky" in one.
TEXTS = ["red red car", "red sea", "blue car", "", "sky"]
IN_TWO = math.log(1 + 5 / 2)
IN_ONE = math.log(1 + 5)
RED_TWICE = (1 + LN2) * IN_TWO


def test_lexical_similarity_is_the_cosine_of_rare_words() -> None:
    similarity = lexical_similarity(TEXTS)

    red_red_car = math.hypot(RED_TWICE, IN_TWO)
    red_sea = math.hypot(IN_TWO, IN_ONE)
    blue_car = math.hypot(IN_ONE, IN_TWO)
    assert similarity[0, 1] == pytest.approx(RED_TWICE * IN_TWO / (red_red_car * red_sea))
    assert similarity[0, 2] == pytest.approx(IN_TWO * IN_TWO / (red_red_car * blue_car))
    assert similarity[1, 2] == 0.0
    assert (similarity == similarity.T).all()


def test_a_text_without_words_is_like_none_and_one_of_an_own_word_like_itself() -> None:
    similarity = lexical_similarity(TEXTS)

    assert similarity.diagonal().tolist() == [1.0, 1.0, 1.0, 0.0, 1.0]
    assert similarity[3].tolist() == [0.0, 0.0, 0.0, 0.0, 0.0]
    assert similarity[4].tolist() == [0.0, 0.0, 0.0, 0.0, 1.0]


# --- ppr: a walk over links and neighbours


@pytest.mark.parametrize(
    ("settings", "chunks", "scores"),
    [
        pytest.param(
            {"seeds": "rank"},
            [chunk("a", "", 0.0), chunk("b", "", 1)],
            [2 / 3, 1 / 3],
            id="seeds by rank",
        ),
        pytest.param(
            {"links_field": None, "neighbours": 0},
            [chunk("a", "x", 1.0, links=["b"]), chunk("b", "y", 0.0)],
            [1, 0],
            id="links that are not read",
        ),
        pytest.param(
            # b lists nothing, a and c list it with the weight 1:
            # b = 0.5 + 0.5 (a + c), a = c = 0.25 b.
            {"damping": 0.5},
            [
                chunk("a", "x", 1.0, links=["b"]),
                chunk("b", "y", 2.0),
                chunk("c", "z", 1.0, links={"b": 1.0}),
            ],
            [1 / 6, 2 / 3, 1 / 6],
            id="links lead in both directions",
        ),
        pytest.param(
            {},
            [chunk("a", "x", 1.0, embedding=[1, 0]), chunk("b", "x", 1.0, embedding=[1, 0])],
            [0.5, 0.5],
            id="neighbours by embeddings",
        ),
    ],
)
def test_ppr_scores_by_hand(
    settings: Mapping[str, Any], chunks: list[Chunk], scores: list[float]
) -> None:
    computed = scored({"name": "ppr", **settings}, query(), chunks)

    assert list(computed) == pytest.approx(scores, abs=1e-9)


def test_ppr_lifts_a_chunk_that_the_best_one_links_to() -> None:
    chunks = [
        chunk("a", "", 3.0, links=["c"]),
        chunk("b", "", 2.0),
        chunk("c", "", 1.9),
    ]

    assert order("ppr", query(), chunks) == ["a", "c", "b"]


def test_ppr_lifts_a_neighbour_of_the_best_chunk() -> None:
    chunks = [
        chunk("a", score=3.0),
        chunk("b", score=2.0),
        chunk("c", score=1.0),
    ]
    ppr = {"name": "ppr", "neighbours": 1, "damping": 0.6, "links_field": None}
    c_beside_a = query(a=[1, 0], b=[0, 1], c=[1, 0.1])

    assert order(ppr, c_beside_a, chunks) == ["a", "c", "b"]


def test_ppr_may_start_from_the_chunks_that_are_like_the_query() -> None:
    ppr = {"name": "ppr", "seeds": "similarity", "damping": 0}
    towards_b = query(embedding=[0, 1], a=[1, 0], b=[0, 1])

    assert order(ppr, towards_b, THREE[:2]) == ["b", "a"]


def scores_with_links(links: object, *, directed: bool = False) -> list[float]:
    """The scores of a, b and c by a walk that starts by rank, where a has these links.

    b is a chunk of the document doc.
    """
    ppr = {"name": "ppr", "damping": 0.5, "seeds": "rank", "directed": directed}
    chunks = [
        chunk("a", links=links),
        replace(chunk("b"), document_id="doc"),
        chunk("c"),
    ]
    return list(scored(ppr, query(), chunks))


@pytest.mark.parametrize(
    "links",
    [["doc"], {"b": 1.0}, ["b", "b", "a", "zz"]],
    ids=["its document", "a weight of 1", "repeated, to itself, to an unknown one"],
)
def test_links_that_lead_to_the_same_chunk_weigh_the_same(links: object) -> None:
    assert scores_with_links(links) == scores_with_links(["b"])


def test_a_heavier_link_carries_more() -> None:
    _, with_heavy_link, _ = scores_with_links({"b": 9.0, "c": 1.0})
    _, with_equal_links, _ = scores_with_links({"b": 1.0, "c": 1.0})

    assert with_heavy_link > with_equal_links


def test_a_directed_link_gives_nothing_back() -> None:
    directed, _, _ = scores_with_links(["c"], directed=True)
    undirected, _, _ = scores_with_links(["c"])

    assert directed < undirected


def test_links_of_none_are_no_links() -> None:
    assert scores_with_links(None) == scores_with_links([])


@pytest.mark.parametrize(
    "links",
    ["b", 7, {"b": -1}, {"b": "heavy"}, {"b": float("nan")}, {"b": float("inf")}],
    ids=["a text", "a number", "negative", "a word", "nan", "infinite"],
)
def test_links_that_cannot_be_followed_name_their_chunk(links: object) -> None:
    with pytest.raises(InterfaceError, match="'a'"):
        scores_with_links(links)


DIRECTIONS = {
    "a": [1.0, 0.0],
    "b": [0.8, 0.6],
    "c": [0.0, 1.0],
    "d": [-0.6, 0.8],
}
"""Unit vectors: the lowest cosine is -0.6, of a and d."""


def walk_from_a(damping: float, neighbours: int, sharpness: float) -> list[float]:
    """The definition: nearest neighbours, weights, both directions, the walk solved at once."""
    vectors = np.array(list(DIRECTIONS.values()))
    cosines = vectors @ vectors.T
    weights = np.zeros((4, 4))
    for row in range(4):
        by_nearness = [int(column) for column in np.argsort(-cosines[row]) if column != row]
        for column in by_nearness[:neighbours]:
            share = ((cosines[row, column] + 0.6) / 1.6) ** sharpness
            weight = max(share, weights[row, column])
            weights[row, column] = weight
            weights[column, row] = weight
    steps = weights / weights.sum(axis=1, keepdims=True)
    start = np.array([1.0, 0.0, 0.0, 0.0])
    shares = np.linalg.solve(np.eye(4) - damping * steps.T, (1 - damping) * start)
    return [float(share) for share in shares]


def chunks_with_directions() -> list[Chunk]:
    """Of the four a alone has a score above 0: the walk starts there."""
    return [
        chunk("a", "", 1.0, embedding=DIRECTIONS["a"]),
        chunk("b", "", 0.0, embedding=DIRECTIONS["b"]),
        chunk("c", "", 0.0, embedding=DIRECTIONS["c"]),
        chunk("d", "", 0.0, embedding=DIRECTIONS["d"]),
    ]


@pytest.mark.parametrize(
    ("neighbours", "sharpness", "damping"),
    [(1, 0.0, 0.5), (2, 1.0, 0.5), (3, 4.0, 0.5), (2, 0.0, 0.1)],
)
def test_neighbours_weigh_by_their_cosines(
    neighbours: int, sharpness: float, damping: float
) -> None:
    ppr = {
        "name": "ppr",
        "neighbours": neighbours,
        "sharpness": sharpness,
        "damping": damping,
    }

    scores = scored(ppr, query(), chunks_with_directions())

    expected = walk_from_a(damping, neighbours, sharpness)
    assert list(scores) == pytest.approx(expected, abs=1e-8)


def test_ppr_walks_over_five_neighbours_by_default() -> None:
    """Each chunk has three here, which are all taken."""
    scores = scored("ppr", query(), chunks_with_directions())

    expected = walk_from_a(damping=0.3, neighbours=3, sharpness=4.0)
    assert list(scores) == pytest.approx(expected, abs=1e-8)


# --- semantic: cosines of embeddings


@pytest.mark.parametrize(
    ("settings", "question", "chunks", "scores"),
    [
        pytest.param(
            {},
            query(embedding=[2, 0], a=[5, 0], b=[0, 1], c=[-1, 0]),
            THREE,
            [1, 0, -1],
            id="along, across and against the query",
        ),
        pytest.param(
            {}, query(embedding=[2, 0], a=[1, 1]), [chunk("a")], [math.sqrt(0.5)], id="45 degrees"
        ),
        pytest.param(
            {},
            query(embedding=[1, 0], a=[1, 0]),
            [chunk("a", embedding=[0, 1])],
            [1],
            id="an embedding beside the query comes before that of the metadata",
        ),
        pytest.param(
            {}, query(embedding=[0, 0], a=[1, 0]), [chunk("a")], [0], id="a query of zeros"
        ),
        pytest.param(
            {}, query(embedding=[1, 0], a=[0, 0]), [chunk("a")], [0], id="a chunk of zeros"
        ),
        pytest.param(
            {"embedding_field": "vector"},
            query(embedding=[1, 0]),
            [chunk("a", vector=(1.0, 0.0))],
            [1],
            id="a field of the user",
        ),
    ],
)
def test_semantic_scores_by_hand(
    settings: Mapping[str, Any], question: Query, chunks: list[Chunk], scores: list[float]
) -> None:
    computed = scored({"name": "semantic", **settings}, question, chunks)

    assert list(computed) == pytest.approx(scores, abs=1e-9)


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
def test_an_embedding_that_cannot_be_used_names_its_chunk(embedding: object, message: str) -> None:
    chunks = [chunk("a", embedding=[1, 0]), chunk("b", embedding=embedding)]

    with pytest.raises(InterfaceError, match=message):
        scored("semantic", query(embedding=[1, 0]), chunks)


def test_an_embedding_of_the_query_that_is_not_finite_is_refused() -> None:
    question = query(embedding=[float("inf"), 0], a=[1, 0])

    with pytest.raises(InterfaceError, match="the embedding of the query"):
        scored("semantic", question, [chunk("a")])


# --- time_weighted: scores fade with age


@pytest.mark.parametrize(
    ("settings", "chunks", "scores"),
    [
        pytest.param(
            {"rate": 0.1},
            [
                chunk("new", score=0.5, timestamp="2024-05-01T12:00:00Z"),
                chunk("day", score=1.0, timestamp="2024-04-30T12:00:00+00:00"),
            ],
            [0.5, math.exp(-2.4)],
            id="0.1 an hour over 24 hours",
        ),
        pytest.param(
            {},
            [chunk("a", score=1.0, timestamp=NOON + timedelta(days=9))],
            [1],
            id="the future counts as now",
        ),
        pytest.param(
            {"rate": 0}, [chunk("a", score=1.0, timestamp=0)], [1], id="a rate of 0 fades nothing"
        ),
        pytest.param({}, [chunk("a", score=0.0, timestamp=0)], [0], id="a score of 0"),
        pytest.param(
            {},
            [chunk("a", score=1.0, timestamp=NOON - timedelta(hours=69))],
            [math.exp(-0.69)],
            id="0.01 an hour by default: a half in 69 hours",
        ),
        pytest.param({"undated": 0}, [chunk("a", score=0.8)], [0], id="undated is worth nothing"),
        pytest.param({"undated": 1}, [chunk("a", score=0.8)], [0.8], id="undated does not fade"),
    ],
)
def test_time_weighted_scores_by_hand(
    settings: Mapping[str, Any], chunks: list[Chunk], scores: list[float]
) -> None:
    computed = scored({"name": "time_weighted", **settings}, AT_NOON, chunks)

    assert list(computed) == pytest.approx(scores, abs=1e-9)


# --- weighted: a mean of the chunk's own numbers

SCORE_AND_LIKES = [chunk("a", score=30.0, likes=0), chunk("b", score=10.0, likes=1)]


@pytest.mark.parametrize(
    ("settings", "chunks", "scores"),
    [
        pytest.param(
            # b is ten hours newer: a's recency is e^-1 by 0.1 an hour. True is 1.
            {"factors": [{"weight": 2}, {"field": "recency"}, {"field": "likes", "weight": 1}]},
            [
                chunk("a", score=0.9, timestamp=0, likes=0.3),
                chunk("b", score=0.1, timestamp=36000, likes=True),
            ],
            [(1.8 + math.exp(-1) + 0.3) / 4, (0.2 + 1 + 1) / 4],
            id="score, recency and likes",
        ),
        pytest.param(
            {}, [chunk("a", score=0.9), chunk("b")], [0.9, 0.5], id="the score alone by default"
        ),
        pytest.param(
            {"factors": [{}, {"field": "likes", "weight": 3}]},
            SCORE_AND_LIKES,
            [7.5, 3.25],
            id="numbers as they are",
        ),
        pytest.param(
            {"factors": [{}, {"field": "likes", "weight": 3}], "normalise": "min_max"},
            SCORE_AND_LIKES,
            [0.25, 0.75],
            id="numbers brought to one scale",
        ),
        pytest.param(
            {"factors": [{"weight": 0}, {"field": "recency", "weight": 3}], "recency_rate": 0},
            [chunk("a", timestamp=0), chunk("b", timestamp=3600)],
            [1, 1],
            id="a weight of 0 counts for nothing, a rate of 0 fades nothing",
        ),
    ],
)
def test_weighted_scores_by_hand(
    settings: Mapping[str, Any], chunks: list[Chunk], scores: list[float]
) -> None:
    computed = scored({"name": "weighted", **settings}, query(), chunks)

    assert list(computed) == pytest.approx(scores, abs=1e-9)


# --- what is missing is noted

NEWEST = "no 'now' is set: ages were counted from the newest chunk"


@pytest.mark.parametrize(
    ("reranker", "question", "chunks", "scores", "notes"),
    [
        pytest.param(
            "semantic",
            query(),
            [chunk("a", score=0.0, embedding=[1]), chunk("b", score=7.0), chunk("c")],
            [0.0, 7.0, 0.5],
            [
                "the query has no embedding: the given scores were kept",
                "1 of 3 chunks had no score: 0.5 was taken",
            ],
            id="semantic without the query's embedding",
        ),
        pytest.param(
            "semantic",
            query(embedding=[0, 1]),
            [chunk("a", score=0.3), chunk("b", embedding=[0, 1]), chunk("c")],
            [0.3, 1.0, 0.5],
            [
                "2 of 3 chunks had no embedding: their given scores were kept",
                "1 of 2 chunks had no score: 0.5 was taken",
            ],
            id="semantic without embeddings of chunks",
        ),
        pytest.param(
            {"name": "feedback", "by": "embeddings", "query_weight": 1},
            query("wing", embedding=[1, 0]),
            [chunk("a", "wing")],
            [1 / 2.2],
            [
                "a chunk has no score: the first ones were taken for the best",
                "the query or a chunk has no embedding: words were compared",
            ],
            id="feedback without an embedding",
        ),
        pytest.param(
            {"name": "mmr", "relevance": "embedding", "similarity": "embedding"},
            query(),
            [chunk("a", "red", 4.0), chunk("b", "sea", 3.0)],
            [0.5, 0.0],
            [
                "the query or a chunk has no embedding: the given scores were used",
                "a chunk has no embedding: chunks were compared by their words",
            ],
            id="mmr without an embedding",
        ),
        pytest.param(
            # All count by their places: 1, 0.5 and 0, halved.
            "mmr",
            query(),
            [chunk("a", "red", 0.1), chunk("b", "sea"), chunk("c", "house", 0.9)],
            [0.5, 0.25, 0.0],
            ["a chunk has no score: relevance was taken from the present order"],
            id="mmr without a score",
        ),
        pytest.param(
            "ppr",
            query(),
            [chunk("a"), chunk("b", score=9.0)],
            [2 / 3, 1 / 3],
            [
                "a chunk has no score: the walk starts by ranks",
                "no chunk is linked to another: the order is that of the seeds",
            ],
            id="ppr without a score",
        ),
        pytest.param(
            {"name": "ppr", "seeds": "similarity", "neighbours": 0},
            query(a=[1, 0], b=[0, 1]),
            [chunk("a"), chunk("b")],
            [2 / 3, 1 / 3],
            [
                "the query or a chunk has no embedding: the walk starts by ranks",
                "no chunk is linked to another: the order is that of the seeds",
            ],
            id="ppr without the query's embedding",
        ),
        pytest.param(
            "time_weighted",
            AT_NOON,
            [chunk("a", score=2.0), chunk("b", timestamp="2024-05-01")],
            [1.0, 0.5 * math.exp(-0.12)],
            [
                "1 of 2 chunks had no score: 0.5 was taken",
                "1 of 2 chunks had no time in 'timestamp': their scores were multiplied by 0.5",
            ],
            id="time_weighted without a score, and without a time",
        ),
        pytest.param(
            "time_weighted",
            query(),
            [chunk("a", score=-1.0, timestamp=0), chunk("b", score=-0.5, timestamp=10**6)],
            [0.0, 0.5],
            ["scores below 0 cannot fade: all were raised by 1", NEWEST],
            id="time_weighted below zero, and without now",
        ),
        pytest.param(
            "time_weighted",
            query(),
            [chunk("a", score=1.0)],
            [0.5],
            ["1 of 1 chunk had no time in 'timestamp': their scores were multiplied by 0.5"],
            id="time_weighted without any time counts no ages",
        ),
        pytest.param(
            {"name": "weighted", "factors": [{"default": 0.25}, {"field": "likes", "default": 1}]},
            query(),
            [chunk("a", likes="many"), chunk("b", score=0.0, likes=float("nan"))],
            [0.625, 0.5],
            [
                "1 of 2 chunks had no number for 'score': 0.25 was taken",
                "2 of 2 chunks had no number for 'likes': 1 was taken",
            ],
            id="weighted without numbers",
        ),
        pytest.param(
            {"name": "weighted", "factors": [{"field": "recency"}]},
            query(),
            [chunk("a", timestamp=0), chunk("b", timestamp=36_000), chunk("c")],
            [math.exp(-1), 1, 0.5],
            ["1 of 3 chunks had no number for 'recency': 0.5 was taken", NEWEST],
            id="weighted without a time",
        ),
        pytest.param(
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
            id="linear without a score",
        ),
        pytest.param(
            {"name": "rrf", "rerankers": ["semantic"]},
            query(),
            [chunk("a", score=1.0)],
            [1 / 61],
            ["semantic: the query has no embedding: the given scores were kept"],
            id="a member of rrf",
        ),
        pytest.param(
            {"name": "linear", "rerankers": ["semantic"]},
            query(),
            [chunk("a", score=1.0)],
            [0.0],
            ["semantic: the query has no embedding: the given scores were kept"],
            id="a member of linear",
        ),
    ],
)
def test_what_is_missing_is_noted_and_scored_by_hand(
    reranker: Settings,
    question: Query,
    chunks: Sequence[Chunk],
    scores: list[float],
    notes: list[str],
) -> None:
    computed = scored(reranker, question, chunks)

    assert list(computed) == pytest.approx(scores)
    assert list(computed.notes) == notes
