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
        ("set_f1", 2 * (2 / 5) * (2 / 3) / (2 / 5 + 2 / 3)),
    ],
)
def test_a_ranking_computed_by_hand(metric: str, expected: float) -> None:
    assert value(metric, ranked(IDS, GRADES)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("metric", ["recall@5", "precision@5", "MRR@5", "nDCG@5", "set_f1", "MAP"])
def test_nothing_retrieved_is_a_measured_zero(metric: str) -> None:
    assert cell(metric, ranked([], {"a": 1})) == Cell.measured(0.0)
    assert cell("Judged@5", ranked([], {"a": 1})) == Cell.skipped("nothing was retrieved")


RANK_METRICS = ("recall@5", "precision@5", "hit_rate@5", "MRR@5", "MAP", "set_recall", "set_f1")


@pytest.mark.parametrize("metric", [*RANK_METRICS, "nDCG@5"])
def test_judgements_without_a_relevant_document_count_zero(metric: str) -> None:
    assert cell(metric, ranked(IDS, {"a": 0, "x": -1})) == Cell.measured(0.0)


@pytest.mark.parametrize("metric", RANK_METRICS)
def test_judgements_without_a_document_of_the_grade_count_zero(metric: str) -> None:
    name, _, cutoff = metric.partition("@")
    graded = f"{name}(rel=2){cutoff and '@'}{cutoff}"
    assert cell(graded, ranked(["a"], {"a": 1})) == Cell.measured(0.0)
    assert value(metric, ranked(["a"], {"a": 1})) > 0


@pytest.mark.parametrize("metric", [*RANK_METRICS, "nDCG@5"])
@pytest.mark.parametrize("case", [{"grades": {}}, {"grades": {"a": 0}, "answerable": False}])
def test_without_judgements_or_without_an_answer_nothing_is_measured(
    metric: str, case: Mapping[str, Any]
) -> None:
    asked = trace(retrieval=retrieved(*IDS), **case)
    assert cell(metric, asked) == Cell.skipped("no relevant context is known")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # One document of gain 2 at rank 1, and a missed one of gain 1.
        ("recall@1", 2 / 3),
        ("precision@2", 1 / 2),
        ("set_f1", 2 * (1 / 2) * (2 / 3) / (1 / 2 + 2 / 3)),
        ("nDCG", 2 / (2 + 1 / math.log2(3))),
        ("MAP", 1 / 2),
    ],
)
def test_a_chunk_that_holds_several_gold_contexts_finds_them_all(
    name: str, expected: float
) -> None:
    gold = ["The north reactor was switched off.", "Its output fell to 40 percent.", "No others."]
    one = trace(
        gold_texts=gold, retrieval=retrieved("0", "1", texts=[f"{gold[0]} {gold[1]}", "nothing"])
    )
    assert value(name, one, matching=Matching.TEXT) == pytest.approx(expected)
    whole = trace(gold_texts=gold, retrieval=retrieved("0", texts=[" ".join(gold)]))
    perfect = 1 / 2 if name == "precision@2" else 1.0
    assert value(name, whole, matching=Matching.TEXT) == perfect


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("recall@3", 1 / 2),
        ("recall@4", 1.0),
        ("precision@4", 3 / 4),
        ("MRR", 1 / 2),
        ("MAP", (1 / 2 + 2 / 4) / 2),
        ("nDCG", (1 / math.log2(3) + 1 / math.log2(5)) / (1 + 1 / math.log2(3))),
        ("Judged", 3 / 4),
        # Without the first chunk, which nobody has judged: a, a again, b.
        ("recall(judged_only=true)@2", 1 / 2),
        ("recall(judged_only=true)@3", 1.0),
        ("set_precision(judged_only=true)", 1.0),
        ("MAP(judged_only=true)", (1 / 1 + 2 / 3) / 2),
        ("nDCG(judged_only=true)", (1 + 1 / math.log2(4)) / (1 + 1 / math.log2(3))),
    ],
)
def test_two_chunks_of_one_passage_take_two_places(name: str, expected: float) -> None:
    first, second = "The north reactor was switched off.", "The south reactor never stopped."
    chunks = ["Nothing of it.", f"{first} Once.", f"Twice. {first}", second]
    one = trace(gold_texts=[first, second], retrieval=retrieved(*"0123", texts=chunks))
    assert value(name, one, matching=Matching.TEXT) == pytest.approx(expected)


@settings(max_examples=100, deadline=None)
@given(
    ids=st.lists(st.sampled_from("abcde"), max_size=12),
    gold=st.lists(st.sampled_from("abcde"), min_size=1, max_size=3, unique=True),
)
def test_a_chunk_retrieved_again_counts_once_by_text_as_by_id(
    ids: list[str], gold: list[str]
) -> None:
    texts = {id: f"Passage {id}." for id in "abcde"}
    by_id = trace(gold=gold, retrieval=retrieved(*ids))
    by_text = trace(
        gold_texts=[texts[id] for id in gold],
        retrieval=retrieved(*ids, texts=[texts[id] for id in ids]),
    )
    names = "precision@1, precision@5, set_precision, recall@3, MRR, MAP, nDCG"
    assert cells(names, by_text, matching=Matching.TEXT) == cells(
        names, by_id, matching=Matching.ID
    )


def test_one_text_retrieved_five_times_is_one_relevant_chunk_of_five() -> None:
    text = "The north reactor was switched off."
    one = trace(gold_texts=[text], retrieval=retrieved(*"01234", texts=[text] * 5))
    assert value("precision@5", one, matching=Matching.TEXT) == 1 / 5


def test_a_grade_too_high_for_exponential_gain_fails_alone() -> None:
    fine, high = ranked(["a"], {"a": 1}), ranked(["a"], {"a": 99})
    rows = cells("nDCG(dcg=exp-log2), nDCG", fine, high)
    assert [c.status for row in rows for c in row] == ["measured", "measured", "failed", "measured"]
    assert rows[1][0].failure is not None and "use grades up to 15" in rows[1][0].failure.message


# --- parity with a plain recomputation, and with ir_measures

RANKING = st.lists(st.sampled_from("abcdefgh"), max_size=8)
JUDGED = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 3), max_size=6)
NAMES = "recall@3, precision@3, hit_rate@3, MRR@3, MRR, MAP, nDCG@3, set_precision, set_recall"


@settings(max_examples=100, deadline=None)
@given(ids=RANKING, grades=JUDGED, named=st.booleans())
def test_however_documents_are_cut_the_figures_are_those_of_documents(
    ids: list[str], grades: dict[str, int], named: bool
) -> None:
    names = f"{NAMES}, Judged, set_f1, nDCG(judged_only=true), MAP(judged_only=true)"
    whole = cells(names, ranked(list(dict.fromkeys(ids)), grades))
    chunks = retrieved(
        *(f"row-{n}" if named else f"{id}#{n}" for n, id in enumerate(ids)),
        metadata=[{"document_id": id} for id in ids] if named else None,
    )
    cut = trace(grades=grades, retrieval=chunks)
    assert cells(names, cut, matching=Matching.DOCUMENT_ID) == whole
