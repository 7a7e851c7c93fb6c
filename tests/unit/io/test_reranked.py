"""A reranker's results are the order of its documents, in dumps and in recorded answers.

Whether a result names its document by place, by id or by text, it is the same document.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import open_source
from ragbench.errors import DataError
from ragbench.io.joined import open_dump
from tests.unit.io.traces import lines

QUERY = "When does the pool open?"
TEXTS = ["Towels cost two euros.", "The pool opens at seven.", "The sauna is for adults."]
DOCUMENTS = [{"id": f"d{at}", "text": text, "meta": {"at": at}} for at, text in enumerate(TEXTS)]
BY_ID = [{"id": "d1", "score": 0.9}, {"id": "d0", "score": 0.2}]
WHOLE = [{**DOCUMENTS[1], "score": 0.9}, {**DOCUMENTS[0], "score": 0.2}]
INNER = [
    {"document": {"text": TEXTS[1]}, "relevance_score": 0.9},
    {"document": {"text": TEXTS[0]}, "relevance_score": 0.2},
]
RECORDS: dict[str, dict[str, Any]] = {
    "FlashRank": {"passages": DOCUMENTS, "reranked": WHOLE},
    "FlashRank's results": {"passages": DOCUMENTS, "results": WHOLE},
    "ids": {"documents": DOCUMENTS, "results": BY_ID},
    "ids of our chunks": {"chunks": DOCUMENTS, "reranked": BY_ID},
    "ids of a retrieval": {"retrieved_documents": DOCUMENTS, "reranked_documents": BY_ID},
    "ids in objects": {"request": {"documents": DOCUMENTS}, "reply": {"results": BY_ID}},
    "documents in results": {"documents": DOCUMENTS, "results": INNER},
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_dump_has_the_order_of_the_results(tmp_path: Path, name: str) -> None:
    path = lines(tmp_path / "d.jsonl", [{"query": QUERY, **RECORDS[name]}])
    with open_dump(path) as dump:
        (retrieval,) = dump
    found = [(chunk.id, chunk.text, chunk.score) for chunk in retrieval.chunks]
    assert found == [("d1", TEXTS[1], 0.9), ("d0", TEXTS[0], 0.2)]
    assert [chunk.metadata for chunk in retrieval.chunks] == [{"at": 1}, {"at": 0}]


@pytest.mark.parametrize("name", RECORDS)
def test_recorded_answers_have_the_order_of_the_results_and_keep_the_answer(
    tmp_path: Path, name: str
) -> None:
    row = {"query": QUERY, "reference": "At seven.", "response": "Seven.", **RECORDS[name]}
    with open_source(lines(tmp_path / "r.jsonl", [row])) as source:
        (entry,) = source
    retrieved, generated = (entry.recorded[stage].value for stage in ("retrieve", "generate"))
    assert retrieved is not None and generated is not None
    assert (retrieved.context_ids, retrieved.contexts) == (["d1", "d0"], [TEXTS[1], TEXTS[0]])
    assert generated.response == "Seven."


@pytest.mark.parametrize(
    "reranked",
    [["d1", "d0"], [TEXTS[1], TEXTS[0]], [{"id": "d1"}, {"id": "d0"}]],
    ids=["ids", "texts", "objects"],
)
def test_the_order_of_a_list_that_is_named_as_a_ranking_counts(
    tmp_path: Path, reranked: list[Any]
) -> None:
    row = {"query": QUERY, "chunks": DOCUMENTS, "reranked": reranked}
    with open_dump(lines(tmp_path / "d.jsonl", [row])) as dump:
        (retrieval,) = dump
    assert [chunk.id for chunk in retrieval.chunks] == ["d1", "d0"]


SHARED = [{"id": "a", "text": TEXTS[0]}, {"id": "a", "text": TEXTS[1]}]
UNREAD: dict[str, tuple[dict[str, Any], str]] = {
    "unknown id": ({"results": [{"id": "d9", "score": 1}]}, "'d9' is not the id of a document"),
    "unknown text": ({"reranked": [{"text": "Else.", "score": 1}]}, "'Else.' is no document"),
    "twice": ({"results": [BY_ID[0], BY_ID[0]]}, "document 'd1' is ranked twice"),
    "two documents": (
        {"documents": SHARED, "results": [{"id": "a", "score": 1}]},
        "'a' is the id of 2 documents",
    ),
    "place against id": (
        {"results": [{"index": 0, "id": "d1", "relevance_score": 1}]},
        "by its place, 0, the document 'd0'",
    ),
    "half of the results": ({"results": [BY_ID[0], {"score": 0.2}]}, "'results' ranks the chunks"),
    "half of a ranking": ({"reranked": [BY_ID[0], {"x": 1}]}, "'reranked' ranks the chunks"),
    "scores alone": ({"rerank_scores": [0.1, 0.9, 0.3]}, "'rerank_scores' ranks the chunks"),
    "scores by id": ({"rerank": {"d0": 0.1, "d1": 0.9}}, "'rerank' ranks the chunks"),
}


@pytest.mark.parametrize("name", UNREAD)
def test_results_that_are_not_understood_are_refused_with_the_line_that_continues(
    tmp_path: Path, name: str
) -> None:
    fields, message = UNREAD[name]
    path = lines(tmp_path / "d.jsonl", [{"query": QUERY, "documents": DOCUMENTS, **fields}])
    with pytest.raises(DataError, match=message) as caught, open_dump(path):
        pass
    assert "--field chunks=documents" in str(caught.value)
    with open_dump(path, overrides={"chunks": "documents"}) as dump:
        (retrieval,) = dump
    assert retrieval.chunks[0].text == TEXTS[0]


def test_recorded_answers_with_an_unknown_id_are_refused(tmp_path: Path) -> None:
    results = [{"id": "d9", "score": 1}]
    row = {"query": QUERY, "response": "Seven.", "documents": DOCUMENTS, "results": results}
    path = lines(tmp_path / "r.jsonl", [row])
    line = "--field retrieved_contexts=documents"
    with pytest.raises(DataError, match=line), open_source(path) as source:
        list(source)


def test_scores_that_fall_beside_the_documents_are_no_other_order(tmp_path: Path) -> None:
    row = {"query": QUERY, "documents": DOCUMENTS, "rerank_scores": [0.9, 0.3, 0.1]}
    with open_dump(lines(tmp_path / "d.jsonl", [row])) as dump:
        (retrieval,) = dump
    assert [chunk.id for chunk in retrieval.chunks] == ["d0", "d1", "d2"]


def test_settings_of_a_reranker_are_no_ranking(tmp_path: Path) -> None:
    row = {"query": QUERY, "documents": DOCUMENTS, "reranker": {"top_k": 5, "threshold": 0.3}}
    with open_dump(lines(tmp_path / "d.jsonl", [row])) as dump:
        (retrieval,) = dump
    assert len(retrieval.chunks) == 3


def by_place(at: int) -> dict[str, Any]:
    return {"index": at, "relevance_score": 0.5}


def by_id(at: int) -> dict[str, Any]:
    return {"id": f"d{at}", "score": 0.5}


def by_text(at: int) -> dict[str, Any]:
    return {"text": TEXTS[at], "score": 0.5}


def whole(at: int) -> dict[str, Any]:
    return {**DOCUMENTS[at], "score": 0.5}


@settings(max_examples=30, deadline=None)
@given(
    order=st.permutations([0, 1, 2]).flatmap(
        lambda places: st.integers(1, 3).map(lambda length: places[:length])
    ),
    said=st.sampled_from([by_place, by_id, by_text, whole]),
    name=st.sampled_from(["results", "reranked", "response.results"]),
)
def test_each_way_to_name_documents_gives_the_same_chunks(
    tmp_path_factory: pytest.TempPathFactory, order: list[int], said: Any, name: str
) -> None:
    results: Any = [said(at) for at in order]
    for part in reversed(name.split(".")):
        results = {part: results}
    row = {"query": QUERY, "documents": DOCUMENTS, **results}
    with open_dump(lines(tmp_path_factory.mktemp("order") / "d.jsonl", [row])) as dump:
        (retrieval,) = dump
    assert [chunk.id for chunk in retrieval.chunks] == [f"d{at}" for at in order]
