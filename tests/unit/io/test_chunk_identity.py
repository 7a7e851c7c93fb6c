"""A chunk is its id with its text, in every list of a trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import Chunk, evaluate, join_answers, open_source
from ragbench.core.validation import RetrievalDump, WarningKind
from ragbench.io.chunk_identity import DistinctChunks
from ragbench.io.joined import open_dump
from ragbench.validators.inspect import inspect_chunks
from tests.unit.io.traces import lines

Chunks = list[dict[str, Any]]

OPENS = {"id": "hours.md", "text": "The pool opens at seven."}
CLOSES = {"id": "hours.md", "text": "The pool closes at nine."}

# --- mentions of chunks in several lists


def union(lists: list[Chunks]) -> Chunks:
    """The chunks of several lists, as mentions that come one after the other."""
    return DistinctChunks().add(chain.from_iterable(lists))


def test_two_chunks_of_a_document_are_two_chunks() -> None:
    assert union([[OPENS], [CLOSES]]) == [OPENS, {**CLOSES, "id": "hours.md#2"}]


def test_a_chunk_that_two_searches_find_is_one_chunk() -> None:
    assert union([[OPENS, CLOSES], [CLOSES]]) == [OPENS, {**CLOSES, "id": "hours.md#2"}]


def test_an_id_alone_is_the_chunk_of_that_id() -> None:
    whole = {"id": "a", "text": "x"}

    assert union([[{"id": "a"}], [whole]]) == [whole]


def test_a_text_alone_is_the_chunk_of_that_text() -> None:
    whole = {"id": "a", "text": "x"}

    assert union([[{"text": "x"}], [whole]]) == [whole]


def test_a_reranker_names_a_chunk_as_the_search_does_and_keeps_its_own_score() -> None:
    chunks = DistinctChunks()
    chunks.add([{**OPENS, "score": 0.2}, {**CLOSES, "score": 0.1}])

    reranked = chunks.add([{**CLOSES, "score": 0.9}])

    assert reranked == [{**CLOSES, "id": "hours.md#2", "score": 0.9}]


MENTIONS = st.fixed_dictionaries(
    {}, optional={"id": st.sampled_from("ab"), "text": st.sampled_from(["x", "y", "z"])}
).filter(bool)
WHOLE_CHUNKS = st.lists(
    st.fixed_dictionaries({"id": st.sampled_from("ab"), "text": st.sampled_from("xyz")}), max_size=6
)


@given(st.lists(st.lists(MENTIONS, max_size=5), max_size=4))
def test_names_are_unique(lists: list[Chunks]) -> None:
    names = [chunk["id"] for chunk in union(lists) if "id" in chunk]

    assert len(names) == len(set(names))


@given(st.lists(WHOLE_CHUNKS, max_size=4))
def test_a_union_of_a_union_is_the_same(lists: list[Chunks]) -> None:
    chunks = union(lists)

    assert union([chunks]) == chunks


@given(st.lists(WHOLE_CHUNKS, max_size=4))
def test_each_chunk_survives_once(lists: list[Chunks]) -> None:
    mentioned: set[tuple[str, str]] = set()
    for chunks in lists:
        mentioned.update((chunk["id"], chunk["text"]) for chunk in chunks)

    survivors = union(lists)

    assert len(survivors) == len(mentioned)
    assert {chunk["text"] for chunk in survivors} == {text for _, text in mentioned}


# --- several searches of a trace


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
    """A span of a search that found chunks of one document."""
    attributes: dict[str, object] = {"input.value": "hours"}
    for position, text in enumerate(texts):
        prefix = f"retrieval.documents.{position}.document"
        attributes[f"{prefix}.content"] = text
        attributes[f"{prefix}.metadata"] = json.dumps({"source": "hours.md"})
    return span(name, "RETRIEVER", "rag", **attributes)


QUESTION = "When does the pool open?"
CHAIN = span("rag", "CHAIN", None, **{"input.value": QUESTION, "output.value": "At seven."})
HIT = search("hit", [OPENS["text"], CLOSES["text"]])
MISS = search("miss", ["The sauna is open all day.", "The bar is closed."])


@pytest.mark.parametrize("searches", [[HIT, MISS], [MISS, HIT]], ids=["hit first", "miss first"])
def test_a_further_search_never_lowers_recall(
    tmp_path: Path, searches: list[dict[str, Any]]
) -> None:
    trace = lines(tmp_path / "trace.jsonl", [CHAIN, *searches])
    gold = {"query": QUESTION, "reference_contexts": [OPENS["text"]]}
    cases = lines(tmp_path / "cases.jsonl", [gold])

    with join_answers(open_source(cases), open_source(trace, is_join=True)) as source:
        report = evaluate(source, None, out=tmp_path / "run", metrics="recall@5")

    assert report.summaries[0].score == 1.0


# --- the same rule for dumps, recorded answers, traces and validators


TWICE = [OPENS, CLOSES, OPENS, {"id": "a", "text": "The sauna is open all day."}]
NAMES = ["hours.md", "hours.md#2", "a"]


def dumped(folder: Path, chunks: list[Any]) -> RetrievalDump:
    """The retrieval of a dump that holds these chunks."""
    path = lines(folder / "d.jsonl", [{"query": "When?", "chunks": chunks}])
    with open_dump(path) as dump:
        (retrieval,) = dump
    return retrieval


def test_a_dump_names_chunks_by_the_rule(tmp_path: Path) -> None:
    retrieval = dumped(tmp_path, TWICE)

    assert [chunk.id for chunk in retrieval.chunks] == NAMES


def test_a_dump_warns_of_an_id_of_two_chunks_and_of_a_chunk_twice(tmp_path: Path) -> None:
    retrieval = dumped(tmp_path, TWICE)

    warnings = [(warning.kind, warning.chunk_ids) for warning in retrieval.warnings]
    assert warnings == [
        (WarningKind.DUPLICATE_ID, ("hours.md#2",)),
        (WarningKind.DUPLICATE_ID, ("hours.md",)),
    ]


def test_validators_name_chunks_by_the_rule() -> None:
    chunks = [Chunk(id=chunk["id"], text=chunk["text"]) for chunk in TWICE]

    inspected = inspect_chunks("When?", chunks)

    assert [chunk.id for chunk in inspected.chunks] == NAMES


TEXTS_TWICE = [
    {"text": OPENS["text"]},
    OPENS,
    {"text": CLOSES["text"]},
    {"text": CLOSES["text"]},
]


def test_a_text_without_an_id_is_the_chunk_of_that_text_in_a_dump(tmp_path: Path) -> None:
    retrieval = dumped(tmp_path, TEXTS_TWICE)

    assert [(chunk.id, chunk.text) for chunk in retrieval.chunks] == [
        ("hours.md", OPENS["text"]),
        ("#3", CLOSES["text"]),
    ]


def test_a_dump_warns_of_texts_twice(tmp_path: Path) -> None:
    retrieval = dumped(tmp_path, TEXTS_TWICE)

    counts = {warning.kind: warning.count for warning in retrieval.warnings}
    assert counts == {WarningKind.MISSING_ID: 1, WarningKind.DUPLICATE_TEXT: 2}


def test_a_chunk_is_relevant_if_a_mention_of_it_is(tmp_path: Path) -> None:
    retrieval = dumped(
        tmp_path,
        [
            {**OPENS, "relevant": True},
            {**OPENS, "relevant": False},
            {**CLOSES, "relevant": 0},
        ],
    )

    assert retrieval.relevant_ids == frozenset({"hours.md"})


# --- more chunks, in each form


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


def recorded_rows(chunks: Chunks) -> Chunks:
    return [{"query": QUESTION, "answer": "At seven.", "retrieved_contexts": chunks}]


def dumped_rows(chunks: Chunks) -> Chunks:
    points: Chunks = []
    for chunk in chunks:
        payload = {"text": chunk["text"]}
        points.append({"id": chunk["id"], "score": 0.5, "payload": payload})
    return [{"query": QUESTION, "result": {"points": points}}]


def traced_rows(chunks: Chunks) -> Chunks:
    attributes: dict[str, object] = {"input.value": QUESTION}
    for position, chunk in enumerate(chunks):
        prefix = f"retrieval.documents.{position}.document"
        attributes[f"{prefix}.id"] = chunk["id"]
        attributes[f"{prefix}.content"] = chunk["text"]
    return [CHAIN, span("search", "RETRIEVER", "rag", **attributes)]


GOLD: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{"reference_contexts": TEXTS[:1]}, {"reference_context_ids": ["a"]}]
)


@pytest.mark.parametrize(
    "rows_of", [recorded_rows, dumped_rows, traced_rows], ids=["recorded", "dump", "trace"]
)
@settings(max_examples=8, deadline=None)
@given(gold=GOLD, chunks=RETRIEVED, further=RETRIEVED)
def test_more_retrieved_chunks_never_lower_recall(
    tmp_path_factory: pytest.TempPathFactory,
    rows_of: Callable[[Chunks], Chunks],
    gold: dict[str, Any],
    chunks: Chunks,
    further: Chunks,
) -> None:
    folder = tmp_path_factory.mktemp("recall")
    cases = lines(folder / "cases.jsonl", [{"query": QUESTION, **gold}])

    def recall_of(name: str, retrieved: Chunks) -> float:
        outputs = lines(folder / f"{name}.jsonl", rows_of(retrieved))
        with join_answers(open_source(cases), open_source(outputs, is_join=True)) as source:
            report = evaluate(source, None, out=folder / name, metrics="recall@20")
        return report.summaries[0].score or 0.0

    assert recall_of("further", [*chunks, *further]) >= recall_of("alone", chunks)
