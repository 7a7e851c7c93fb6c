"""A field has a role because of its name, of a form that is recognised whole, or of --field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragbench import evaluate, open_source
from ragbench.errors import DataError
from ragbench.io.fields import says_gold
from ragbench.io.joined import open_dump
from tests.unit.io.traces import lines

TEXT = "The pool opens at seven."
SHAPES: dict[str, Any] = {
    "langchain": [{"page_content": TEXT, "metadata": {"source": "a"}}],
    "haystack": [{"id": "a", "content": TEXT, "meta": {"name": "a"}, "score": 0.9}],
    "llamaindex": [{"node": {"id_": "a", "text": TEXT, "metadata": {}}, "score": 0.8}],
    "scored": [{"id": "a", "text": TEXT, "score": 1}],
    "tevatron": [{"docid": "a", "title": "Pool", "text": TEXT}],
    "qdrant": {"result": {"points": [{"id": "a", "score": 0.9, "payload": {"text": TEXT}}]}},
    "elasticsearch": {"hits": {"hits": [{"_id": "a", "_score": 3, "_source": {"text": TEXT}}]}},
    "chroma": {"ids": [["a"]], "documents": [[TEXT]], "distances": [[0.1]]},
}
WORDS = ("gold", "golden", "expected", "relevant", "positive", "hard_negative", "supporting")
NOUNS = ("documents", "docs", "passages", "ctxs", "chunks", "nodes")


def dataset(path: Path, field: str, value: object) -> Path:
    """A case with its gold, and with one field more."""
    row = {
        "query": "When does the pool open?",
        "answer": "At seven.",
        "relevant_ids": ["a"],
        field: value,
    }
    return lines(path, [row])


# --- fields of a dataset that are not what a system retrieved


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    word=st.sampled_from(WORDS),
    noun=st.sampled_from(NOUNS),
    shape=st.sampled_from(list(SHAPES)),
    spelling=st.sampled_from(["{0}_{1}", "{1}_{0}", "{0}-{1}", "{0}.{1}"]),
    is_nested=st.booleans(),
)
def test_what_a_dataset_calls_gold_is_recorded_as_nothing(
    tmp_path: Path, word: str, noun: str, shape: str, spelling: str, is_nested: bool
) -> None:
    field = spelling.format(word, noun)
    value = SHAPES[shape]
    if is_nested:
        value = {field: value}
        field = "about"

    with open_source(dataset(tmp_path / "cases.jsonl", field, value)) as source:
        assert source.info.recorded == {}


def wrong_rag(question: str) -> dict[str, Any]:
    """Retrieves a chunk that is not the gold."""
    return {"answer": "No idea.", "contexts": ["Towels cost two euros."], "ids": ["c"]}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_rag_is_asked_whatever_an_unknown_field_holds(tmp_path: Path, shape: str) -> None:
    """Else the gold in that field would pass for what the RAG retrieved."""
    cases = dataset(tmp_path / "cases.jsonl", "linked_pages", SHAPES[shape])

    report = evaluate(cases, wrong_rag, out=tmp_path / "run", metrics="recall@5")

    (recall,) = report.summaries
    assert recall.score is None  # an id that no gold has cannot be compared
    (retrieve,) = [stage for stage in report.stages if stage.stage == "retrieve"]
    assert retrieve.measured == 1
    assert retrieve.recorded == 0


@pytest.mark.parametrize(
    "name", ["goldDocs", "docs_gold", "expectedDocuments", "hardNegatives", "QA.positive_ctxs"]
)
def test_a_word_for_gold_counts_in_any_spelling(name: str) -> None:
    assert says_gold(name)


@pytest.mark.parametrize("name", ["retrieved_documents", "marigold_docs", "golf", "positions"])
def test_a_word_that_only_begins_so_does_not_count(name: str) -> None:
    assert not says_gold(name)


def texts_of_dump(path: Path, **options: Any) -> list[str]:
    """The texts of a dump of one retrieval."""
    with open_dump(path, **options) as dump:
        (retrieval,) = dump
    return [chunk.text for chunk in retrieval.chunks]


def test_a_dump_of_an_unknown_field_is_refused_with_the_line_that_names_it(tmp_path: Path) -> None:
    path = lines(tmp_path / "dump.jsonl", [{"query": "When?", "my_list": SHAPES["scored"]}])

    with pytest.raises(DataError, match="--field chunks=my_list"):
        texts_of_dump(path)


def test_a_dump_of_a_field_that_the_user_names_is_read(tmp_path: Path) -> None:
    path = lines(tmp_path / "dump.jsonl", [{"query": "When?", "my_list": SHAPES["scored"]}])

    assert texts_of_dump(path, overrides={"chunks": "my_list"}) == [TEXT]


def test_an_answer_beside_another_right_answer_is_refused_with_both_readings(
    tmp_path: Path,
) -> None:
    row = {"query": "When?", "answer": "At nine.", "truth": "Seven"}
    path = lines(tmp_path / "r.jsonl", [row])

    with open_source(path) as source, pytest.raises(DataError) as raised:
        list(source)

    message = raised.value.problems[0].message
    assert "--field reference=truth --field response=answer" in message
    assert "--field reference=answer" in message


# --- results of Azure


@pytest.mark.parametrize(
    ("context", "ids"),
    [
        ("pool.md: Opens at seven.\nsauna.md: For adults.", ["pool.md", "sauna.md"]),
        ('{"4": {"text": "Opens at seven."}, "9": {"text": "For adults."}}', ["4", "9"]),
    ],
    ids=["lines", "JSON text"],
)
def test_results_of_azure_are_the_systems(tmp_path: Path, context: str, ids: list[str]) -> None:
    row = {"question": "When?", "truth": "Seven", "answer": "Nine", "context": context}

    with open_source(lines(tmp_path / "r.jsonl", [row])) as source:
        (entry,) = source

    assert entry.case.reference == "Seven"
    generation = entry.recorded["generate"].value
    retrieval = entry.recorded["retrieve"].value
    assert generation is not None
    assert generation.response == "Nine"
    assert retrieval is not None
    assert list(retrieval.context_ids) == ids
    assert list(retrieval.contexts) == ["Opens at seven.", "For adults."]


# --- rankings that name places


DOCUMENTS = ["Towels cost two euros.", "The sauna is for adults.", TEXT]
PLACES = [{"index": 2, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]


@pytest.mark.parametrize(
    "record",
    [
        {"documents": DOCUMENTS, "results": PLACES},
        {"documents": DOCUMENTS, "response": {"results": PLACES}},
        {"documents": DOCUMENTS, "response": {"data": PLACES}},
        {"texts": DOCUMENTS, "output": [{"index": 2, "score": 0.9}, {"index": 0, "score": 0.1}]},
        {"request": {"documents": DOCUMENTS}, "response": {"results": PLACES}},
    ],
    ids=["flat", "Cohere", "Voyage", "TEI", "request"],
)
def test_places_of_a_reranker_are_the_order(tmp_path: Path, record: dict[str, Any]) -> None:
    path = lines(tmp_path / "d.jsonl", [{"query": "When does the pool open?", **record}])

    with open_dump(path) as dump:
        (retrieval,) = dump

    assert [chunk.text for chunk in retrieval.chunks] == [TEXT, DOCUMENTS[0]]
    assert [chunk.score for chunk in retrieval.chunks] == [0.9, 0.1]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"results": [{"index": 7, "relevance_score": 1}]}, "7 is not the place of a document"),
        ({"results": [{"index": -1, "relevance_score": 1}]}, "-1 is not the place"),
        ({"results": [PLACES[0], PLACES[0]]}, "ranked twice"),
        ({"ranking": [2, 0]}, "'ranking' ranks the chunks in 'documents'"),
        ({"reranked": [{"position": 2}, {"position": 0}]}, "'reranked' ranks the chunks"),
    ],
    ids=["out of range", "negative", "twice", "places alone", "unknown form"],
)
def test_a_ranking_that_is_not_understood_is_refused(
    tmp_path: Path, record: dict[str, Any], message: str
) -> None:
    row = {"query": "When does the pool open?", "documents": DOCUMENTS, **record}
    path = lines(tmp_path / "d.jsonl", [row])

    with pytest.raises(DataError, match=message):
        texts_of_dump(path)


# --- fields of a text


def test_chunks_that_are_all_empty_are_refused_with_the_field_that_holds_text(
    tmp_path: Path,
) -> None:
    chunk = {"id": "a", "text": "", "summary": {"long": TEXT}}
    path = lines(tmp_path / "d.jsonl", [{"query": "When?", "chunks": [chunk]}])

    with pytest.raises(DataError, match=r"--field text=summary\.long"):
        texts_of_dump(path)


def test_hits_of_milvus_hold_their_text_under_any_documented_name(tmp_path: Path) -> None:
    hits = [{"distance": 0.9, "id": 5, "chunk": TEXT}]
    row = {"query": "When does the pool open?", "response": {"code": 0, "data": hits}}
    path = lines(tmp_path / "d.jsonl", [row])

    assert texts_of_dump(path) == [TEXT]


def test_documents_without_a_role_are_shown_with_the_line_that_gives_them_one(
    tmp_path: Path,
) -> None:
    row = {"query": "When?", "reference": "At seven.", "golden_documents": SHAPES["langchain"]}

    with open_source(lines(tmp_path / "c.jsonl", [row])) as source:
        notes = source.info.notes

    (note,) = [note for note in notes if "golden_documents" in note]
    assert "--field reference_contexts=golden_documents" in note
    assert "page_content" in note


@pytest.mark.parametrize("shape", ["langchain", "haystack", "scored", "tevatron", "llamaindex"])
def test_the_line_for_gold_documents_works(tmp_path: Path, shape: str) -> None:
    path = dataset(tmp_path / "c.jsonl", "golden_documents", SHAPES[shape])

    with open_source(path, fields={"reference_contexts": "golden_documents"}) as source:
        (entry,) = source

    assert entry.case.reference_contexts == (TEXT,)
