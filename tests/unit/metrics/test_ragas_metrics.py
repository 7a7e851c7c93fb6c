from __future__ import annotations

import asyncio
import warnings
from typing import Any, cast

import pytest

from ragbench.core.outcome import Cell, Status
from ragbench.core.trace import Trace
from tests.unit.metrics.builders import answered, cell, cells, retrieved, trace, value

pytestmark = [
    pytest.mark.extra("ragas"),
    # ragas leaves a file of its own open.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def asked_directly(name: str, **fields: Any) -> float:
    from ragbench.plugins import import_ragas

    package: Any = import_ragas()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metric = getattr(package.metrics, name)()
    sample = package.SingleTurnSample(**fields)
    return float(asyncio.run(metric.single_turn_ascore(sample)))


PAIRS = [
    ("The Eiffel Tower", "The Eiffel Tower"),
    ("the tower", "The Eiffel Tower"),
    ("It is the Eiffel Tower in Paris", "Eiffel Tower"),
    ("kitten", "sitting"),
    ("北京", "北京市"),
]


@pytest.mark.parametrize(("response", "reference"), PAIRS)
@pytest.mark.parametrize(("ours", "ragas_name", "class_name"), [
    ("edit_similarity", "ragas:non_llm_string_similarity", "NonLLMStringSimilarity"),
    ("exact_match(normalise=none)", "ragas:exact_match", "ExactMatch"),
    (None, "ragas:string_presence", "StringPresence"),
    (None, "ragas:bleu", "BleuScore"), (None, "ragas:rouge", "RougeScore"),
    (None, "ragas:chrf", "ChrfScore"),
])  # fmt: skip
def test_answers_score_as_in_ragas(
    ours: str | None, ragas_name: str, class_name: str, response: str, reference: str
) -> None:
    wanted = asked_directly(class_name, response=response, reference=reference)
    assert value(ragas_name, answered(response, reference)) == wanted
    if ours is not None:
        assert value(ours, answered(response, reference)) == wanted


@pytest.mark.parametrize(("ids", "gold", "precision", "recall"), [
    (["a", "b", "a"], ["a", "c"], 1 / 2, 1 / 2),
    (["a"], ["a"], 1.0, 1.0),
    (["x"], ["a"], 0.0, 0.0),
])  # fmt: skip
def test_ids_score_as_in_ragas(
    ids: list[str], gold: list[str], precision: float, recall: float
) -> None:
    one = trace(gold=gold, retrieval=retrieved(*ids))
    names = "ragas:id_based_context_precision, ragas:id_based_context_recall"
    row = cells(f"{names}, set_precision, set_recall", one)[0]
    assert [c.value for c in row] == [precision, recall, precision, recall]
    fields = {"retrieved_context_ids": ids, "reference_context_ids": gold}
    assert asked_directly("IDBasedContextPrecision", **fields) == precision
    assert asked_directly("IDBasedContextRecall", **fields) == recall


def test_contexts_score_as_in_ragas() -> None:
    texts = ["nothing of the kind", "the gateway drops connections"]
    gold = ["the gateway drops connection"]
    one = trace(gold_texts=gold, retrieval=retrieved("a", "b", texts=texts))
    fields = {"retrieved_contexts": texts, "reference_contexts": gold}
    assert (
        value("ragas:non_llm_context_precision_with_reference", one)
        == asked_directly("NonLLMContextPrecisionWithReference", **fields)
        == pytest.approx(0.5)
    )
    assert value("ragas:non_llm_context_recall", one) == 1.0


NAN = Cell.skipped("RAGAS gave NaN: the metric is not defined for this case")


@pytest.mark.parametrize(("name", "one", "found"), [
    ("id_based_context_precision", trace(gold=["a"], retrieval=retrieved()), NAN),
    ("id_based_context_recall", trace(retrieval=retrieved("a")),
     Cell.skipped("no reference context ids")),
    # RAGAS takes the largest of no similarities, which raises.
    ("non_llm_context_recall", trace(gold_texts=["some text"], retrieval=retrieved(texts=[])),
     Cell.measured(0.0)),
])  # fmt: skip
def test_what_ragas_cannot_define_is_no_number(name: str, one: Trace, found: Cell) -> None:
    assert cell(f"ragas:{name}", one) == found


def test_what_ragas_cannot_compute_fails_alone() -> None:
    gold = ["the gateway drops connections"]
    fine = trace(gold_texts=gold, retrieval=retrieved("a", texts=gold))
    broken = trace(gold_texts=gold, retrieval=retrieved("a", texts=cast("list[str]", [3])))
    rows = cells("ragas:non_llm_context_recall", fine, broken, fine)
    assert [row[0].status for row in rows] == [Status.MEASURED, Status.FAILED, Status.MEASURED]
    assert rows[1][0].failure is not None and rows[1][0].failure.type == "ValidationError"
