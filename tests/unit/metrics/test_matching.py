from __future__ import annotations

from typing import Any

import pytest

from ragbench.core.outcome import Cell
from ragbench.metrics.matching import Matching, comparable_ids, decide_matching, holds, normalised
from tests.unit.metrics.builders import SKIPPED, cell, failed, retrieved, trace, value

LONG = "The Orion gateway drops idle connections after 300 seconds unless keep-alive is on."


@pytest.mark.parametrize(
    ("chunk", "gold", "expected"),
    [
        ("see: ORION  drops\nidle connections", "Orion drops idle", True),
        ("ｆｕｌｌ－ｗｉｄｔｈ ＯＲＩＯＮ", "full-width Orion", True),
        ("short", "shorter", False),
        # a piece of the gold text, and a text with some words changed
        (LONG[10:], LONG, True),
        (LONG.replace("drops", "ends"), LONG, True),
        (f"Note. {LONG.replace('gateway', 'gatewy')} And more of the same.", LONG, True),
        # a near-duplicate that says another number
        (LONG.replace("300", "600"), LONG, False),
        (
            "A quite different sentence about gardens, flowers and the rain in May.",
            LONG,
            False,
        ),
        # 30 characters are too few to be recognised when they are not verbatim
        ("idle connections drop after 30", "idle connections drop after 3 s", False),
        ("奥里昂网关在三百秒后断开空闲连接。", "网关在三百秒后断开", True),
    ],
)
def test_when_a_chunk_holds_a_gold_text(chunk: str, gold: str, expected: bool) -> None:
    assert holds(normalised(chunk), normalised(gold)) is expected


def test_auto_compares_ids_where_both_sides_have_them() -> None:
    assert value("recall@1", trace(gold=["a"], retrieval=retrieved("a"))) == 1.0
    assert value("recall@1", trace(gold=["a"], retrieval=retrieved("b"))) == 0.0


def test_auto_compares_texts_where_ids_are_missing() -> None:
    one = trace(
        gold=["a"], gold_texts=[LONG], retrieval=retrieved("z", texts=[LONG], with_ids=False)
    )
    assert value("recall@1", one) == 1.0
    other = trace(gold_texts=[LONG], retrieval=retrieved("z", texts=["nothing of it"]))
    assert value("recall@1", other) == 0.0


def test_what_cannot_be_compared_says_why() -> None:
    no_ids = trace(gold=["a"], retrieval=retrieved("a", with_ids=False))
    assert cell("recall@1", no_ids) == Cell.skipped(
        "retrieval gave no context ids, and no relevant text is known to compare with"
    )
    nothing_known = trace(retrieval=retrieved("a"))
    assert cell("recall@1", nothing_known) == Cell.skipped("no relevant context is known")
    no_texts = trace(gold=["a"], retrieval=retrieved("a"))
    assert cell("recall@1", no_texts, matching=Matching.TEXT) == Cell.skipped(
        "no relevant context is known"
    )


def test_an_unanswerable_case_has_no_recall() -> None:
    one = trace(gold=[], gold_texts=[], retrieval=retrieved("a"))
    for matching in Matching:
        assert cell("recall@1", one, matching=matching) == Cell.skipped(
            "no relevant context is known"
        )


def test_evidence_is_the_gold_unless_it_turns_up_by_chance() -> None:
    page = f"{LONG} The owner is Mara Lind, see the directory for her telephone number."
    texts = ["Mara Lind", LONG, page]
    one = trace(
        gold_texts=[page],
        evidence=["the owner is mara lind, see"],
        retrieval=retrieved(*"abc", texts=texts),
    )
    assert value("MRR", one, matching=Matching.TEXT) == 1 / 3
    # "Mara Lind" alone is found anywhere: the reference context decides, and a piece of it holds.
    short = trace(
        gold_texts=[page], evidence=["Mara Lind"], retrieval=retrieved(*"abc", texts=texts)
    )
    assert value("MRR", short, matching=Matching.TEXT) == 1 / 2
    only = trace(evidence=["Mara Lind"], retrieval=retrieved(*"abc", texts=texts))
    assert value("MRR", only, matching=Matching.TEXT) == 1.0


def chunk_of(**metadata: Any) -> Any:
    return retrieved("doc#3", metadata=[metadata])


@pytest.mark.parametrize("key", ["document_id", "doc_id", "source"])
def test_a_chunk_is_found_by_the_document_that_its_metadata_names(key: str) -> None:
    one = trace(gold=["doc"], retrieval=chunk_of(**{key: "doc"}))
    assert decide_matching([one]) is Matching.DOCUMENT_ID
    assert value("recall@1", one, matching=Matching.DOCUMENT_ID) == 1.0
    assert value("recall@1", one, matching=Matching.ID) == 0.0


def test_two_chunks_of_a_document_find_it_once() -> None:
    one = trace(
        gold=["doc", "other"],
        retrieval=retrieved("doc#1", "doc#2", metadata=[{"source": "doc"}, {"source": "doc"}]),
    )
    assert value("recall@2", one, matching=Matching.DOCUMENT_ID) == 1 / 2
    assert value("precision@2", one, matching=Matching.DOCUMENT_ID) == 1.0
    assert value("nDCG@2", one, matching=Matching.DOCUMENT_ID) < 1.0


def test_the_way_to_compare_is_decided_from_all_cases_together() -> None:
    miss = trace(gold=["a"], retrieval=retrieved("b"))
    hit_of_another_case = trace(gold=["b"], retrieval=retrieved("z"))
    assert not comparable_ids([miss])
    assert comparable_ids([miss, hit_of_another_case])
    assert decide_matching([miss, hit_of_another_case]) is Matching.ID


def test_foreign_ids_are_compared_by_text_if_texts_are_known() -> None:
    foreign = trace(gold=["a"], gold_texts=[LONG], retrieval=retrieved("uuid-1", texts=[LONG]))
    assert decide_matching([foreign]) is Matching.TEXT
    without = trace(gold=["a"], retrieval=retrieved("uuid-1"))
    assert decide_matching([without]) is Matching.ID
    assert decide_matching([]) is Matching.ID
    assert decide_matching([trace(gold=["a"], retrieval=failed("retrieve"))]) is Matching.ID
    assert decide_matching([trace(gold=["a"], retrieval=SKIPPED)]) is Matching.ID
