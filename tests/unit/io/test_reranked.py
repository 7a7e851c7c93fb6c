"""A reranker's results are the order of its documents, in dumps and in recorded answers.

Whether a result names its document by place, by id or by text, it is the same document.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import open_source
from ragbench.core.validation import RetrievalDump
from ragbench.errors import DataError
from ragbench.io.joined import open_dump
from tests.unit.io.traces import lines

QUERY = "When does the pool open?"
TEXTS = ["Towels cost two euros.", "The pool opens at seven.", "The sauna is for adults."]
DOCUMENTS: list[dict[str, Any]] = [
    {"id": "d0", "text": TEXTS[0], "meta": {"number": 0}},
    {"id": "d1", "text": TEXTS[1], "meta": {"number": 1}},
    {"id": "d2", "text": TEXTS[2], "meta": {"number": 2}},
]


def retrieval_of(path: Path, record: dict[str, Any], **options: Any) -> RetrievalDump:
    """The retrieval of a dump of one record."""
    with open_dump(lines(path, [{"query": QUERY, **record}]), **options) as dump:
        (retrieval,) = dump
    return retrieval


# --- the order of the results


BY_ID = [{"id": "d1", "score": 0.9}, {"id": "d0", "score": 0.2}]
WHOLE = [{**DOCUMENTS[1], "score": 0.9}, {**DOCUMENTS[0], "score": 0.2}]
IN_RESULTS = [
    {"document": {"text": TEXTS[1]}, "relevance_score": 0.9},
    {"document": {"text": TEXTS[0]}, "relevance_score": 0.2},
]
# Each ranks d1 before d0, and leaves d2 out.
RANKINGS = pytest.mark.parametrize(
    "record",
    [
        pytest.param({"passages": DOCUMENTS, "reranked": WHOLE}, id="FlashRank"),
        pytest.param({"passages": DOCUMENTS, "results": WHOLE}, id="FlashRank's results"),
        pytest.param({"documents": DOCUMENTS, "results": BY_ID}, id="ids"),
        pytest.param({"chunks": DOCUMENTS, "reranked": BY_ID}, id="ids of our chunks"),
        pytest.param(
            {"retrieved_documents": DOCUMENTS, "reranked_documents": BY_ID},
            id="ids of a retrieval",
        ),
        pytest.param(
            {"request": {"documents": DOCUMENTS}, "reply": {"results": BY_ID}},
            id="ids in objects",
        ),
        pytest.param({"documents": DOCUMENTS, "results": IN_RESULTS}, id="documents in results"),
    ],
)


@RANKINGS
def test_a_dump_has_the_order_of_the_results(tmp_path: Path, record: dict[str, Any]) -> None:
    retrieval = retrieval_of(tmp_path / "d.jsonl", record)

    chunks = [(chunk.id, chunk.text, chunk.score) for chunk in retrieval.chunks]
    assert chunks == [("d1", TEXTS[1], 0.9), ("d0", TEXTS[0], 0.2)]


@RANKINGS
def test_a_dump_has_the_metadata_of_the_documents(tmp_path: Path, record: dict[str, Any]) -> None:
    retrieval = retrieval_of(tmp_path / "d.jsonl", record)

    assert [chunk.metadata for chunk in retrieval.chunks] == [{"number": 1}, {"number": 0}]


@RANKINGS
def test_recorded_answers_have_the_order_of_the_results_and_keep_the_answer(
    tmp_path: Path, record: dict[str, Any]
) -> None:
    row = {"query": QUERY, "reference": "At seven.", "response": "Seven.", **record}

    with open_source(lines(tmp_path / "r.jsonl", [row])) as source:
        (entry,) = source

    retrieval = entry.recorded["retrieve"].value
    generation = entry.recorded["generate"].value
    assert retrieval is not None
    assert generation is not None
    assert retrieval.context_ids == ["d1", "d0"]
    assert retrieval.contexts == [TEXTS[1], TEXTS[0]]
    assert generation.response == "Seven."


@pytest.mark.parametrize(
    "reranked",
    [["d1", "d0"], [TEXTS[1], TEXTS[0]], [{"id": "d1"}, {"id": "d0"}]],
    ids=["ids", "texts", "objects"],
)
def test_the_order_of_a_list_that_is_named_as_a_ranking_counts(
    tmp_path: Path, reranked: list[Any]
) -> None:
    retrieval = retrieval_of(tmp_path / "d.jsonl", {"chunks": DOCUMENTS, "reranked": reranked})

    assert [chunk.id for chunk in retrieval.chunks] == ["d1", "d0"]


def test_scores_that_fall_beside_the_documents_are_no_other_order(tmp_path: Path) -> None:
    retrieval = retrieval_of(
        tmp_path / "d.jsonl", {"documents": DOCUMENTS, "rerank_scores": [0.9, 0.3, 0.1]}
    )

    assert [chunk.id for chunk in retrieval.chunks] == ["d0", "d1", "d2"]


def test_settings_of_a_reranker_are_no_ranking(tmp_path: Path) -> None:
    retrieval = retrieval_of(
        tmp_path / "d.jsonl",
        {"documents": DOCUMENTS, "reranker": {"top_k": 5, "threshold": 0.3}},
    )

    assert [chunk.id for chunk in retrieval.chunks] == ["d0", "d1", "d2"]


# --- results that are not understood


OF_ONE_ID = [{"id": "a", "text": TEXTS[0]}, {"id": "a", "text": TEXTS[1]}]
UNREADABLE = pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param(
            {"results": [{"id": "d9", "score": 1}]},
            "'d9' is not the id of a document",
            id="an unknown id",
        ),
        pytest.param(
            {"reranked": [{"text": "Else.", "score": 1}]},
            "'Else.' is no document",
            id="an unknown text",
        ),
        pytest.param(
            {"results": [BY_ID[0], BY_ID[0]]}, "document 'd1' is ranked twice", id="twice"
        ),
        pytest.param(
            {"documents": OF_ONE_ID, "results": [{"id": "a", "score": 1}]},
            "'a' is the id of 2 documents",
            id="an id of two documents",
        ),
        pytest.param(
            {"results": [{"index": 0, "id": "d1", "relevance_score": 1}]},
            "by its place, 0, the document 'd0'",
            id="a place and an id that disagree",
        ),
        pytest.param(
            {"results": [BY_ID[0], {"score": 0.2}]},
            "'results' ranks the chunks",
            id="half of the results",
        ),
        pytest.param(
            {"reranked": [BY_ID[0], {"x": 1}]},
            "'reranked' ranks the chunks",
            id="half of a ranking",
        ),
        pytest.param(
            {"rerank_scores": [0.1, 0.9, 0.3]},
            "'rerank_scores' ranks the chunks",
            id="scores alone",
        ),
        pytest.param(
            {"rerank": {"d0": 0.1, "d1": 0.9}}, "'rerank' ranks the chunks", id="scores by id"
        ),
    ],
)


@UNREADABLE
def test_results_that_are_not_understood_are_refused_with_the_line_that_continues(
    tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        retrieval_of(tmp_path / "d.jsonl", {"documents": DOCUMENTS, **fields})

    assert "--field chunks=documents" in str(caught.value)


@UNREADABLE
def test_the_line_that_continues_reads_the_documents_in_their_own_order(
    tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    retrieval = retrieval_of(
        tmp_path / "d.jsonl",
        {"documents": DOCUMENTS, **fields},
        overrides={"chunks": "documents"},
    )

    assert retrieval.chunks[0].text == TEXTS[0]


def test_recorded_answers_with_an_unknown_id_are_refused_with_the_line_that_continues(
    tmp_path: Path,
) -> None:
    row = {
        "query": QUERY,
        "response": "Seven.",
        "documents": DOCUMENTS,
        "results": [{"id": "d9", "score": 1}],
    }
    path = lines(tmp_path / "r.jsonl", [row])

    message = "--field retrieved_contexts=documents"
    with pytest.raises(DataError, match=message), open_source(path) as source:
        list(source)


# --- each way to name a document


def by_place(number: int) -> dict[str, Any]:
    return {"index": number, "relevance_score": 0.5}


def by_id(number: int) -> dict[str, Any]:
    return {"id": f"d{number}", "score": 0.5}


def by_text(number: int) -> dict[str, Any]:
    return {"text": TEXTS[number], "score": 0.5}


def whole(number: int) -> dict[str, Any]:
    return {**DOCUMENTS[number], "score": 0.5}


@st.composite
def orders(draw: st.DrawFn) -> list[int]:
    """Some of the three documents, in any order."""
    numbers = draw(st.permutations([0, 1, 2]))
    return numbers[: draw(st.integers(1, 3))]


@settings(max_examples=30, deadline=None)
@given(
    order=orders(),
    name_document=st.sampled_from([by_place, by_id, by_text, whole]),
    field=st.sampled_from(["results", "reranked", "response.results"]),
)
def test_each_way_to_name_documents_gives_the_same_chunks(
    tmp_path_factory: pytest.TempPathFactory,
    order: list[int],
    name_document: Callable[[int], dict[str, Any]],
    field: str,
) -> None:
    results: Any = [name_document(number) for number in order]
    for name in reversed(field.split(".")):
        results = {name: results}
    path = tmp_path_factory.mktemp("order") / "d.jsonl"

    retrieval = retrieval_of(path, {"documents": DOCUMENTS, **results})

    assert [chunk.id for chunk in retrieval.chunks] == [f"d{number}" for number in order]
