"""A chunk is its id with its text, in every list of a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import evaluate, join_answers, open_source
from ragbench.io.chunk_identity import DistinctChunks, union
from tests.unit.io.traces import lines

OPENS = {"id": "hours.md", "text": "The pool opens at seven."}
CLOSES = {"id": "hours.md", "text": "The pool closes at nine."}
MENTIONS = st.fixed_dictionaries(
    {}, optional={"id": st.sampled_from("ab"), "text": st.sampled_from(["x", "y", "z"])}
).filter(bool)
LISTS = st.lists(st.lists(MENTIONS, max_size=5), max_size=4)
WHOLE = st.lists(
    st.fixed_dictionaries({"id": st.sampled_from("ab"), "text": st.sampled_from("xyz")}), max_size=6
)


def test_two_chunks_of_a_document_are_two_chunks() -> None:
    assert union([[OPENS], [CLOSES]]) == [OPENS, {**CLOSES, "id": "hours.md#2"}]


def test_a_chunk_that_two_searches_find_is_one_chunk() -> None:
    assert union([[OPENS, CLOSES], [CLOSES]]) == [OPENS, {**CLOSES, "id": "hours.md#2"}]


def test_an_id_alone_is_the_chunk_of_that_id() -> None:
    assert union([[{"id": "a"}], [{"id": "a", "text": "x"}]]) == [{"id": "a", "text": "x"}]


def test_a_text_alone_is_the_chunk_of_that_text() -> None:
    assert union([[{"text": "x"}], [{"id": "a", "text": "x"}]]) == [{"text": "x", "id": "a"}]


def test_a_reranker_names_a_chunk_as_the_search_does_and_keeps_its_own_score() -> None:
    chunks = DistinctChunks()
    chunks.add([{**OPENS, "score": 0.2}, {**CLOSES, "score": 0.1}])
    reranked = chunks.add([{**CLOSES, "score": 0.9}])
    assert reranked == [{**CLOSES, "id": "hours.md#2", "score": 0.9}]


@given(LISTS)
def test_names_are_unique(lists: list[list[dict[str, Any]]]) -> None:
    names = [chunk["id"] for chunk in union(lists) if "id" in chunk]
    assert len(names) == len(set(names))


@given(st.lists(WHOLE, max_size=4))
def test_a_union_of_a_union_is_the_same(lists: list[list[dict[str, Any]]]) -> None:
    chunks = union(lists)
    assert union([chunks]) == chunks


@given(st.lists(WHOLE, max_size=4))
def test_each_chunk_survives_once(lists: list[list[dict[str, Any]]]) -> None:
    mentioned = {(chunk["id"], chunk["text"]) for many in lists for chunk in many}
    chunks = union(lists)
    assert len(chunks) == len(mentioned)
    assert {chunk["text"] for chunk in chunks} == {text for _, text in mentioned}


def span(name: str, kind: str, parent: str | None, **attributes: object) -> dict[str, Any]:
    return {
        "name": name, "parent_id": parent,
        "context": {"trace_id": "0x1", "span_id": name},
        "start_time": "2026-09-21T10:00:00Z", "end_time": "2026-09-21T10:00:01Z",
        "attributes": {"openinference.span.kind": kind, **attributes},
        "status": {"status_code": "OK"},
    }  # fmt: skip


def search(name: str, texts: list[str]) -> dict[str, Any]:
    attributes: dict[str, object] = {"input.value": "hours"}
    for place, text in enumerate(texts):
        prefix = f"retrieval.documents.{place}.document"
        attributes[f"{prefix}.content"] = text
        attributes[f"{prefix}.metadata"] = json.dumps({"source": "hours.md"})
    return span(name, "RETRIEVER", "rag", **attributes)


@pytest.mark.parametrize("first", [0, 1], ids=["found first", "found last"])
def test_a_further_search_never_lowers_recall(tmp_path: Path, first: int) -> None:
    asked = {"input.value": "When does the pool open?", "output.value": "At seven."}
    searches = [
        search("one", [OPENS["text"], CLOSES["text"]]),
        search("two", ["The sauna is open all day.", "The bar is closed."]),
    ]
    if first:
        searches.reverse()
    trace = lines(tmp_path / "trace.jsonl", [span("rag", "CHAIN", None, **asked), *searches])
    gold = {"query": "When does the pool open?", "reference_contexts": [OPENS["text"]]}
    cases = lines(tmp_path / "cases.jsonl", [gold])
    with join_answers(open_source(cases), open_source(trace, is_join=True)) as source:
        report = evaluate(source, None, out=tmp_path / "run", metrics="recall@5")
    assert report.summaries[0].score == 1.0
