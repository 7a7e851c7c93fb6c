"""Figures of a ranking: by hand, by the texts of chunks, and by documents cut in any way."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.core.outcome import Cell
from ragbench.metrics.matching import Matching
from tests.unit.metrics.builders import cell, cells, ranked, retrieved, trace, value

# --- by hand

IDS = ["a", "b", "c", "d", "e"]
GRADES = {"a": 2, "d": 1, "x": 1, "b": 0}
# Relevant: a (rank 1), d (rank 4), x (not retrieved). b is judged and not relevant; c, e are not
# judged. DCG = 2/log2(2) + 1/log2(5) = 2.430677; ideal = 2 + 1/log2(3) + 1/log2(4) = 3.130930.


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("recall@5", 2 / 3),
        ("recall(rel=2)@5", 1.0),
        ("precision@10", 2 / 10),
        ("precision(judged_only=true)@3", 2 / 3),
        ("MAP", (1 / 1 + 2 / 4) / 3),
        ("nDCG@5", 2.4306765580733933 / 3.1309297535714578),
        # 3 + 1/log2(5) against 3 + 1/log2(3) + 1/log2(4)
        ("nDCG(dcg=exp-log2)@5", 3.4306765580733933 / 4.1309297535714574),
        ("Judged@2", 1.0),
        ("Judged@5", 3 / 5),
        ("Judged@10", 3 / 5),
        # the harmonic mean of precision 2/5 and recall 2/3
        ("set_f1", 1 / 2),
    ],
)
def test_a_ranking_computed_by_hand(metric: str, expected: float) -> None:
    assert value(metric, ranked(IDS, GRADES)) == pytest.approx(expected, abs=1e-12)


# --- what counts zero, and what is not measured


@pytest.mark.parametrize("metric", ["recall@5", "precision@5", "MRR@5", "nDCG@5", "set_f1", "MAP"])
def test_nothing_retrieved_is_a_measured_zero(metric: str) -> None:
    assert cell(metric, ranked([], {"a": 1})) == Cell.measured(0.0)


def test_of_nothing_retrieved_no_share_is_judged() -> None:
    assert cell("Judged@5", ranked([], {"a": 1})) == Cell.skipped("nothing was retrieved")


RANK_METRICS = ["recall@5", "precision@5", "hit_rate@5", "MRR@5", "MAP", "set_recall", "set_f1"]


@pytest.mark.parametrize("metric", [*RANK_METRICS, "nDCG@5"])
def test_judgements_without_a_relevant_document_count_zero(metric: str) -> None:
    assert cell(metric, ranked(IDS, {"a": 0, "x": -1})) == Cell.measured(0.0)


@pytest.mark.parametrize(
    "metric",
    [
        "recall(rel=2)@5",
        "precision(rel=2)@5",
        "hit_rate(rel=2)@5",
        "MRR(rel=2)@5",
        "MAP(rel=2)",
        "set_recall(rel=2)",
        "set_f1(rel=2)",
    ],
)
def test_judgements_without_a_document_of_the_grade_count_zero(metric: str) -> None:
    assert cell(metric, ranked(["a"], {"a": 1})) == Cell.measured(0.0)


@pytest.mark.parametrize("metric", RANK_METRICS)
def test_a_document_of_grade_1_is_relevant_by_default(metric: str) -> None:
    assert value(metric, ranked(["a"], {"a": 1})) > 0


@pytest.mark.parametrize("metric", [*RANK_METRICS, "nDCG@5"])
@pytest.mark.parametrize("facts", [{"grades": {}}, {"grades": {"a": 0}, "answerable": False}])
def test_without_judgements_or_without_an_answer_nothing_is_measured(
    metric: str, facts: Mapping[str, Any]
) -> None:
    case = trace(retrieval=retrieved(*IDS), **facts)

    assert cell(metric, case) == Cell.skipped("no relevant context is known")


# --- chunks that are compared by their texts

NORTH = "The north reactor was switched off."
OUTPUT = "Its output fell to 40 percent."
SOUTH = "The south reactor never stopped."


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        # One document of gain 2 at rank 1, and a missed one of gain 1.
        ("recall@1", 2 / 3),
        ("precision@2", 1 / 2),
        ("set_f1", 4 / 7),  # the harmonic mean of precision 1/2 and recall 2/3
        ("nDCG", 2 / (2 + 1 / math.log2(3))),
        ("MAP", 1 / 2),
    ],
)
def test_a_chunk_that_holds_two_of_three_gold_contexts_finds_them_both(
    metric: str, expected: float
) -> None:
    retrieval = retrieved("0", "1", texts=[f"{NORTH} {OUTPUT}", "nothing"])
    case = trace(gold_texts=[NORTH, OUTPUT, "No others."], retrieval=retrieval)

    assert value(metric, case, matching=Matching.TEXT) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [("recall@1", 1.0), ("precision@2", 1 / 2), ("set_f1", 1.0), ("nDCG", 1.0), ("MAP", 1.0)],
)
def test_a_chunk_that_holds_all_gold_contexts_finds_everything(
    metric: str, expected: float
) -> None:
    retrieval = retrieved("0", texts=[f"{NORTH} {OUTPUT} No others."])
    case = trace(gold_texts=[NORTH, OUTPUT, "No others."], retrieval=retrieval)

    assert value(metric, case, matching=Matching.TEXT) == expected


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("recall@3", 1 / 2),
        ("recall@4", 1.0),
        ("precision@4", 3 / 4),
        ("MRR", 1 / 2),
        ("MAP", (1 / 2 + 2 / 4) / 2),
        ("nDCG", (1 / math.log2(3) + 1 / math.log2(5)) / (1 + 1 / math.log2(3))),
        ("Judged", 3 / 4),
        # Without the first chunk, which nobody has judged: north, north again, south.
        ("recall(judged_only=true)@2", 1 / 2),
        ("recall(judged_only=true)@3", 1.0),
        ("set_precision(judged_only=true)", 1.0),
        ("MAP(judged_only=true)", (1 / 1 + 2 / 3) / 2),
        ("nDCG(judged_only=true)", (1 + 1 / math.log2(4)) / (1 + 1 / math.log2(3))),
    ],
)
def test_two_chunks_of_one_passage_take_two_places(metric: str, expected: float) -> None:
    chunks = ["Nothing of it.", f"{NORTH} Once.", f"Twice. {NORTH}", SOUTH]
    retrieval = retrieved("0", "1", "2", "3", texts=chunks)
    case = trace(gold_texts=[NORTH, SOUTH], retrieval=retrieval)

    assert value(metric, case, matching=Matching.TEXT) == pytest.approx(expected)


@settings(max_examples=100, deadline=None)
@given(
    ids=st.lists(st.sampled_from("abcde"), max_size=12),
    gold=st.lists(st.sampled_from("abcde"), min_size=1, max_size=3, unique=True),
)
def test_a_chunk_retrieved_again_counts_once_by_text_as_by_id(
    ids: list[str], gold: list[str]
) -> None:
    metrics = "precision@1, precision@5, set_precision, recall@3, MRR, MAP, nDCG"
    texts = [f"Passage {id}." for id in ids]
    gold_texts = [f"Passage {id}." for id in gold]
    with_gold_ids = trace(gold=gold, retrieval=retrieved(*ids))
    with_gold_texts = trace(gold_texts=gold_texts, retrieval=retrieved(*ids, texts=texts))

    by_id = cells(metrics, with_gold_ids, matching=Matching.ID)
    by_text = cells(metrics, with_gold_texts, matching=Matching.TEXT)

    assert by_text == by_id


def test_one_text_retrieved_five_times_is_one_relevant_chunk_of_five() -> None:
    retrieval = retrieved("0", "1", "2", "3", "4", texts=[NORTH] * 5)
    case = trace(gold_texts=[NORTH], retrieval=retrieval)

    assert value("precision@5", case, matching=Matching.TEXT) == 1 / 5


# --- grades


def test_a_grade_too_high_for_exponential_gain_fails() -> None:
    failure = cell("nDCG(dcg=exp-log2)", ranked(["a"], {"a": 99})).failure

    assert failure is not None
    assert "use grades up to 15" in failure.message


def test_a_grade_too_high_for_exponential_gain_fails_alone() -> None:
    fine = ranked(["a"], {"a": 1})
    high = ranked(["a"], {"a": 99})

    exponential = cells("nDCG(dcg=exp-log2)", fine, high)
    linear = cells("nDCG", fine, high)

    assert [row[0].status for row in exponential] == ["measured", "failed"]
    assert [row[0].status for row in linear] == ["measured", "measured"]


# --- documents that are cut into chunks

DOCUMENTS = st.lists(st.sampled_from("abcdefgh"), max_size=8)
JUDGEMENTS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 3), max_size=6)
ALL_METRICS = (
    "recall@3, precision@3, hit_rate@3, MRR@3, MRR, MAP, nDCG@3, set_precision, set_recall, "
    "Judged, set_f1, nDCG(judged_only=true), MAP(judged_only=true)"
)


def whole_documents(documents: list[str], grades: dict[str, int]) -> list[tuple[Cell, ...]]:
    """The figures of a ranking in which each document is retrieved once, where it is first."""
    return cells(ALL_METRICS, ranked(list(dict.fromkeys(documents)), grades))


@settings(max_examples=50, deadline=None)
@given(DOCUMENTS, JUDGEMENTS)
def test_chunks_whose_ids_name_their_document_have_the_figures_of_documents(
    documents: list[str], grades: dict[str, int]
) -> None:
    ids = [f"{document}#{number}" for number, document in enumerate(documents)]

    case = trace(grades=grades, retrieval=retrieved(*ids))

    rows = cells(ALL_METRICS, case, matching=Matching.DOCUMENT_ID)
    assert rows == whole_documents(documents, grades)


@settings(max_examples=50, deadline=None)
@given(DOCUMENTS, JUDGEMENTS)
def test_chunks_whose_metadata_name_their_document_have_the_figures_of_documents(
    documents: list[str], grades: dict[str, int]
) -> None:
    ids = [f"row-{number}" for number in range(len(documents))]
    metadata = [{"document_id": document} for document in documents]

    case = trace(grades=grades, retrieval=retrieved(*ids, metadata=metadata))

    rows = cells(ALL_METRICS, case, matching=Matching.DOCUMENT_ID)
    assert rows == whole_documents(documents, grades)
