"""A chunk is its id with its text, in every list of a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import Chunk, evaluate, join_answers, open_source
from ragbench.core.validation import WarningKind
from ragbench.io.chunk_identity import DistinctChunks, union
from ragbench.io.joined import open_dump
from ragbench.validators.inspect import inspect_chunks
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
        "name": name,
        "parent_id": parent,
        "context": {"trace_id": "0x1", "span_id": name},
        "start_time": "2026-09-21T10:00:00Z",
        "end_time": "2026-09-21T10:00:01Z",
        "attributes": {"openinference.span.kind": kind, **attributes},
        "status": {"status_code": "OK"},
    }


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


# --- the same rule for dumps, recorded answers, traces and validators

TWICE = [OPENS, CLOSES, OPENS, {"id": "a", "text": "The sauna is open all day."}]
NAMES = ["hours.md", "hours.md#2", "a"]


def test_a_dump_names_chunks_by_the_rule(tmp_path: Path) -> None:
    path = lines(tmp_path / "d.jsonl", [{"query": "When?", "chunks": TWICE}])
    with open_dump(path) as dump:
        (retrieval,) = dump
    assert [chunk.id for chunk in retrieval.chunks] == NAMES
    assert [(warning.kind, warning.chunk_ids) for warning in retrieval.warnings] == [
        (WarningKind.DUPLICATE_ID, ("hours.md#2",)),
        (WarningKind.DUPLICATE_ID, ("hours.md",)),
    ]


def test_validators_name_chunks_by_the_rule() -> None:
    inspected = inspect_chunks("When?", [Chunk(id=one["id"], text=one["text"]) for one in TWICE])
    assert [chunk.id for chunk in inspected.chunks] == NAMES


def test_a_text_without_an_id_is_the_chunk_of_that_text_in_a_dump(tmp_path: Path) -> None:
    chunks = [{"text": OPENS["text"]}, OPENS, {"text": CLOSES["text"]}, {"text": CLOSES["text"]}]
    path = lines(tmp_path / "d.jsonl", [{"query": "When?", "chunks": chunks}])
    with open_dump(path) as dump:
        (retrieval,) = dump
    assert [(chunk.id, chunk.text) for chunk in retrieval.chunks] == [
        ("hours.md", OPENS["text"]),
        ("#3", CLOSES["text"]),
    ]
    assert {warning.kind: warning.count for warning in retrieval.warnings} == {
        WarningKind.MISSING_ID: 1,
        WarningKind.DUPLICATE_TEXT: 2,
    }


def test_a_chunk_is_relevant_if_one_of_its_mentions_says_so(tmp_path: Path) -> None:
    chunks = [{**OPENS, "relevant": True}, {**OPENS, "relevant": False}, {**CLOSES, "relevant": 0}]
    path = lines(tmp_path / "d.jsonl", [{"query": "When?", "chunks": chunks}])
    with open_dump(path) as dump:
        (retrieval,) = dump
    assert retrieval.relevant_ids == frozenset({"hours.md"})


TEXTS = [
    "The pool opens at seven in the morning.",
    "Towels can be borrowed for two euros.",
    "Children under six swim for free here.",
    "The sauna is closed on public holidays.",
]
RETRIEVED = st.lists(
    st.fixed_dictionaries({"id": st.sampled_from("ab"), "text": st.sampled_from(TEXTS)}),
    min_size=1,
    max_size=6,
)


def recorded_row(query: str, chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"query": query, "answer": "At seven.", "retrieved_contexts": chunks}]


def dumped_row(query: str, chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    points = [{"id": one["id"], "score": 0.5, "payload": {"text": one["text"]}} for one in chunks]
    return [{"query": query, "result": {"points": points}}]


def traced_rows(query: str, chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[str, object] = {"input.value": query}
    for place, chunk in enumerate(chunks):
        found[f"retrieval.documents.{place}.document.id"] = chunk["id"]
        found[f"retrieval.documents.{place}.document.content"] = chunk["text"]
    asked = {"input.value": query, "output.value": "At seven."}
    return [span("rag", "CHAIN", None, **asked), span("one", "RETRIEVER", "rag", **found)]


GOLDS = [{"reference_contexts": TEXTS[:1]}, {"reference_context_ids": ["a"]}]
FORMS = {"recorded": recorded_row, "dump": dumped_row, "trace": traced_rows}


@pytest.mark.parametrize("gold", GOLDS, ids=["texts", "ids"])
@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=8, deadline=None)
@given(first=RETRIEVED, more=RETRIEVED)
def test_more_retrieved_chunks_never_lower_recall(
    tmp_path_factory: pytest.TempPathFactory,
    form: str,
    gold: dict[str, Any],
    first: list[dict[str, Any]],
    more: list[dict[str, Any]],
) -> None:
    folder = tmp_path_factory.mktemp("recall")
    query = "When does the pool open?"
    cases = lines(folder / "cases.jsonl", [{"query": query, **gold}])

    def recall_of(name: str, chunks: list[dict[str, Any]]) -> float:
        outputs = lines(folder / f"{name}.jsonl", FORMS[form](query, chunks))
        with join_answers(open_source(cases), open_source(outputs, is_join=True)) as source:
            report = evaluate(source, None, out=folder / name, metrics="recall@20")
        score = report.summaries[0].score
        return 0.0 if score is None else score

    assert recall_of("more", [*first, *more]) >= recall_of("first", first)
