"""Responses of real stores and frameworks are read as what they are.

``responses.jsonl`` holds them as the clients give them (qdrant-client 1.20 model_dump, chromadb 1.5
query, pymilvus 3.0 search, langchain-core 1.7 model_dump and dumpd, llama-index-core
NodeWithScore.to_dict, haystack-ai Document.to_dict), the servers' REST forms and those of search
services and tracers from their descriptions.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragbench import open_dump, open_source
from ragbench.core.validation import RetrievalDump, WarningKind
from ragbench.errors import ConfigError, DataError
from ragbench.io.dumps.form import ScoreKind
from ragbench.io.dumps.forms import forms
from tests.unit.io.traces import lines, written

LEAVE = "Everyone has 27 days of paid leave a year."
DESK = "The help desk is open from 8 to 17."
QUERY = "How many days of leave are there?"
# --- responses


def examples_of_responses() -> list[dict[str, Any]]:
    text = Path(__file__).with_name("responses.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


EXAMPLES = examples_of_responses()


def of_kind(kind: str) -> pytest.MarkDecorator:
    """A test of each response of a kind; ``example`` holds its value and the name of its form."""
    params = [
        pytest.param(example, id=example["name"]) for example in EXAMPLES if example["kind"] == kind
    ]
    return pytest.mark.parametrize("example", params)


def retrievals_of(path: Path, form: str, **options: Any) -> list[RetrievalDump]:
    """The retrievals of a file that is of a form and has no problem."""
    with open_dump(path, **options) as dump:
        retrievals = list(dump)
        assert dump.mapping.format == form
        assert list(dump.problems) == []
    return retrievals


def problems_of(path: Path, **options: Any) -> list[str]:
    with open_dump(path, **options) as dump:
        list(dump)
        return [str(problem) for problem in dump.problems]


def assert_is_of_leave(retrieval: RetrievalDump) -> None:
    """The text about leave is the best, that about the desk may follow; each with its id."""
    texts = [chunk.text for chunk in retrieval.chunks]
    assert texts in ([LEAVE], [LEAVE, DESK])
    ids = [chunk.id for chunk in retrieval.chunks]
    assert len(set(ids)) == len(ids)
    scores = [chunk.score for chunk in retrieval.chunks if chunk.score is not None]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("indent", [None, 2], ids=["on one line", "indented"])
@of_kind("response")
def test_a_response_in_a_file_is_of_the_query_that_is_named(
    tmp_path: Path, example: Any, indent: int | None
) -> None:
    path = written(tmp_path / "response.json", example["value"], indent=indent)

    (retrieval,) = retrievals_of(path, example["form"], query=QUERY)

    assert retrieval.query == QUERY
    assert_is_of_leave(retrieval)


def log_as_lines(folder: Path, log: list[Any]) -> Path:
    return lines(folder / "log.jsonl", log)


def log_as_array(folder: Path, log: list[Any]) -> Path:
    return written(folder / "log.json", log, indent=1)


def log_in_an_object(folder: Path, log: list[Any]) -> Path:
    return written(folder / "nested.json", {"queries": log})


@pytest.mark.parametrize("key", ["response", "results", "output"])
@pytest.mark.parametrize("write", [log_as_lines, log_as_array, log_in_an_object])
@of_kind("response")
def test_responses_in_a_log_are_of_the_queries_beside_them(
    tmp_path: Path, example: Any, write: Callable[[Path, list[Any]], Path], key: str
) -> None:
    log = [
        {"query": "Leave?", "at": "2025-01-01", key: example["value"]},
        {"query": "Desk?", "at": "2025-01-01", key: example["value"]},
    ]

    first_retrieval, second_retrieval = retrievals_of(write(tmp_path, log), example["form"])

    assert first_retrieval.query == "Leave?"
    assert second_retrieval.query == "Desk?"
    assert first_retrieval.query_id != second_retrieval.query_id
    assert_is_of_leave(first_retrieval)
    assert_is_of_leave(second_retrieval)


@of_kind("record")
def test_a_record_that_holds_its_query_is_read(tmp_path: Path, example: Any) -> None:
    path = written(tmp_path / "one.json", example["value"])

    (retrieval,) = retrievals_of(path, example["form"])

    assert retrieval.query == QUERY
    assert_is_of_leave(retrieval)


@pytest.mark.parametrize("write", [log_as_lines, log_as_array])
@of_kind("record")
def test_records_that_hold_their_query_are_read(
    tmp_path: Path, example: Any, write: Callable[[Path, list[Any]], Path]
) -> None:
    path = write(tmp_path, [example["value"], example["value"]])

    first_retrieval, second_retrieval = retrievals_of(path, example["form"])

    assert first_retrieval.query == QUERY
    assert second_retrieval.query == QUERY
    assert_is_of_leave(first_retrieval)
    assert_is_of_leave(second_retrieval)


@of_kind("batch")
def test_responses_of_a_batch_are_joined_with_queries_by_order(
    tmp_path: Path, example: Any
) -> None:
    path = written(tmp_path / "batch.json", example["value"])
    queries = written(tmp_path / "queries.tsv", f"q7\t{QUERY}\nq8\tWho won?\n")

    first_retrieval, second_retrieval = retrievals_of(path, example["form"], queries=queries)

    assert (first_retrieval.query_id, first_retrieval.query) == ("q7", QUERY)
    assert len(first_retrieval.chunks) == 2
    assert (second_retrieval.query_id, second_retrieval.query) == ("q8", "Who won?")
    assert len(second_retrieval.chunks) == 0


@of_kind("empty")
def test_a_response_whose_texts_are_missing_is_recognised_too(tmp_path: Path, example: Any) -> None:
    path = written(tmp_path / "x.json", example["value"])

    (retrieval,) = retrievals_of(path, example["form"])

    assert [chunk.text for chunk in retrieval.chunks] == [""]


def test_every_form_is_among_the_known_responses() -> None:
    # Rows of pgvector are a table, and cells of DeepEval are tested with its datasets.
    tested = {example["form"] for example in EXAMPLES} | {"pgvector"}

    assert tested == {*forms(), "deepeval"}


@pytest.fixture(name="two_responses")
def log_of_two_responses_without_queries(tmp_path: Path) -> Path:
    points = {"points": [{"id": 1, "score": 0.9, "payload": {"text": LEAVE}}]}
    return lines(tmp_path / "log.jsonl", [points, points])


def test_responses_without_a_query_are_refused(two_responses: Path) -> None:
    with pytest.raises(DataError, match="--query TEXT"):
        problems_of(two_responses)


def test_one_query_serves_one_response(two_responses: Path) -> None:
    with open_dump(two_responses, query=QUERY) as dump:
        retrievals = list(dump)
        (problem,) = dump.problems

    assert len(retrievals) == 1
    assert str(problem).startswith(f"{two_responses}:2: --query names one query")


# --- rows of a table, a chunk in each


COMMA_SEPARATED = """query_id,query,id,content,distance,cmetadata
q1,How many days?,leave,Everyone has 27 days of paid leave a year.,0.1,"{""page"": 1}"
q1,How many days?,desk,The help desk is open from 8 to 17.,0.4,
q2,Who won?,,,,
"""
TAB_SEPARATED = """Query_Id\tQuery\tId\tContent\tDistance\tCmetadata
q1\tHow many days?\tleave\tEveryone has 27 days of paid leave a year.\t0.1\t{"page": 1}
q1\tHow many days?\tdesk\tThe help desk is open from 8 to 17.\t0.4\t
q2\tWho won?\t\t\t\t
"""


@pytest.mark.parametrize(
    ("name", "table"), [("rows.csv", COMMA_SEPARATED), ("rows.tsv", TAB_SEPARATED)]
)
def test_the_rows_of_a_query_are_its_chunks(tmp_path: Path, name: str, table: str) -> None:
    path = written(tmp_path / name, table)

    first_retrieval, second_retrieval = retrievals_of(path, "pgvector")

    assert first_retrieval.query_id == "q1"
    assert_is_of_leave(first_retrieval)
    assert [chunk.score for chunk in first_retrieval.chunks] == [-0.1, -0.4]
    assert second_retrieval.query == "Who won?"
    assert second_retrieval.chunks == ()


def test_rows_of_json_are_chunks_too(tmp_path: Path) -> None:
    question = {"query_id": "q1", "query": "How many days?", "embedding": [0.1, 0.2]}
    rows = [
        {**question, "id": "leave", "content": LEAVE, "distance": 0.1},
        {**question, "id": "desk", "content": DESK, "distance": 0.4},
    ]

    (retrieval,) = retrievals_of(lines(tmp_path / "rows.jsonl", rows), "pgvector")

    assert retrieval.query_id == "q1"
    assert_is_of_leave(retrieval)
    assert [chunk.score for chunk in retrieval.chunks] == [-0.1, -0.4]


def test_rows_of_a_query_that_comes_back_are_a_problem(tmp_path: Path) -> None:
    rows = "query,content\nfirst one,a text\nother,a text\nfirst one,late\n"
    path = written(tmp_path / "rows.csv", rows)

    with open_dump(path) as dump:
        queries = [retrieval.query for retrieval in dump]
        (problem,) = dump.problems

    assert queries == ["first one", "other", "first one"]
    assert str(problem) == (
        f"{path}:4: query 'first one' has rows at 2 already: sort the rows by query. These are "
        "judged as another retrieval"
    )


# --- rankings of TREC and BEIR


@pytest.fixture(name="beir")
def beir_folder(tmp_path: Path) -> Path:
    """Two documents and two queries."""
    folder = tmp_path / "beir"
    folder.mkdir()
    lines(folder / "corpus.jsonl", [{"_id": "leave", "text": LEAVE}, {"_id": "desk", "text": DESK}])
    lines(
        folder / "queries.jsonl", [{"_id": "q1", "text": QUERY}, {"_id": "q2", "text": "Who won?"}]
    )
    return folder


RUN = "q1 Q0 desk 2 1.5 bm25\nq1 Q0 leave 1 2.5 bm25\nq2 Q0 gone 1 0.5 bm25\n"
TOPICS = """<top>\n<num> Number: q1\n<title> How many days of\nleave are there?\n<desc> Description:
Something.\n</top>\n<top><num>q2</num><title>Who won?</title></top>\n"""


@pytest.mark.parametrize("source_of_queries", ["corpus", "topics", "format"])
def test_a_trec_run_is_joined_with_its_texts_and_queries(
    tmp_path: Path, beir: Path, source_of_queries: str
) -> None:
    path = written(tmp_path / "bm25.run", RUN)
    options: dict[str, Any] = {"corpus": beir}
    if source_of_queries == "topics":
        options["queries"] = written(tmp_path / "topics.txt", TOPICS)
    elif source_of_queries == "format":
        options["format"] = "trec"

    first_retrieval, second_retrieval = retrievals_of(path, "trec", **options)

    assert (first_retrieval.query_id, first_retrieval.query) == ("q1", QUERY)
    assert_is_of_leave(first_retrieval)
    assert [chunk.score for chunk in first_retrieval.chunks] == [2.5, 1.5]
    assert (second_retrieval.query_id, second_retrieval.query) == ("q2", "Who won?")


def test_a_document_that_the_corpus_lacks_has_no_text(tmp_path: Path, beir: Path) -> None:
    path = written(tmp_path / "bm25.run", RUN)

    _, second_retrieval = retrievals_of(path, "trec", corpus=beir)

    (chunk,) = second_retrieval.chunks
    assert (chunk.id, chunk.text) == ("gone", "")


def test_results_of_beir_are_joined_with_the_corpus(tmp_path: Path, beir: Path) -> None:
    path = written(tmp_path / "results.json", {"q1": {"desk": 1.5, "leave": 2.5}})

    (retrieval,) = retrievals_of(path, "beir", corpus=beir)

    assert retrieval.query == QUERY
    assert_is_of_leave(retrieval)


def test_results_of_a_query_that_is_not_there_are_a_problem(tmp_path: Path, beir: Path) -> None:
    path = written(tmp_path / "results.json", {"q1": {"desk": 1.5}, "q3": {"a": 1}})

    problems = problems_of(path, corpus=beir)

    assert problems == [f"{path}: field 'query': no query has the id 'q3'"]


def test_a_run_without_its_texts_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "bm25.run", RUN)

    with pytest.raises(ConfigError, match="--corpus PATH"):
        problems_of(path)


@pytest.mark.parametrize("read", [problems_of, open_source])
def test_a_run_without_its_queries_is_refused(
    tmp_path: Path, beir: Path, read: Callable[..., Any]
) -> None:
    path = written(tmp_path / "bm25.run", RUN)

    with pytest.raises(ConfigError, match="--queries FILE"):
        read(path, corpus=beir / "corpus.jsonl")


def test_bad_lines_of_a_run_are_problems(tmp_path: Path, beir: Path) -> None:
    bad_lines = "q2 Q0 a\nq2 Q0 b 1 high tag\nq1 Q0 leave 3 0.1 x\n"
    path = written(tmp_path / "bm25.run", RUN + bad_lines)

    problems = problems_of(path, corpus=beir)

    expected_columns = "expected 'query Q0 document rank score tag'"
    assert problems == [
        f"{path}:4: {expected_columns}, found 3 columns",
        f"{path}:5: {expected_columns}, found 'high' as score, which is no finite number",
        f"{path}:6: document 'leave' appears twice in the ranking of query 'q1'",
    ]


# --- scores


@pytest.mark.parametrize(
    ("scores", "chosen", "kind", "best_score"),
    [
        pytest.param([0.9, 0.5, 0.5], None, ScoreKind.SIMILARITY, 0.9, id="falling"),
        pytest.param([0.1, 0.5, 0.5], None, ScoreKind.DISTANCE, -0.1, id="rising"),
        pytest.param(["81.2", "12"], None, ScoreKind.SIMILARITY, 81.2, id="falling, as text"),
        # Without an order, by the name of the field.
        pytest.param([0.3], None, ScoreKind.DISTANCE, -0.3, id="a single distance"),
        pytest.param([0.3], ScoreKind.SIMILARITY, ScoreKind.SIMILARITY, 0.3, id="chosen"),
    ],
)
def test_the_order_of_the_chunks_says_what_scores_are(
    tmp_path: Path, scores: list[Any], chosen: ScoreKind | None, kind: ScoreKind, best_score: float
) -> None:
    chunks: list[dict[str, Any]] = []
    for number, score in enumerate(scores):
        chunks.append({"id": str(number), "text": f"text {number}", "distance": score})
    path = lines(tmp_path / "d.jsonl", [{"query": "a b", "chunks": chunks}])

    with open_dump(path, scores=chosen) as dump:
        (retrieval,) = dump
        assert dump.mapping.scores is kind

    assert retrieval.chunks[0].score == best_score


# --- fields


def point_of(folder: Path, payload: dict[str, str]) -> Path:
    """A log of a search of Qdrant that found one point."""
    point = {"id": 1, "score": 0.5, "payload": payload, "version": 1}
    return lines(folder / "d.jsonl", [{"query": QUERY, "points": [point]}])


# The field of the text has no name that is known.
PAYLOAD = {"Inhalt": LEAVE, "Zusammenfassung": "It is about leave.", "titel": "Leave"}


def test_a_text_under_any_name_is_recognised(tmp_path: Path) -> None:
    with open_dump(point_of(tmp_path, PAYLOAD)) as dump:
        (retrieval,) = dump
        assert dump.mapping.text == "payload.Inhalt"

    assert retrieval.chunks[0].text == LEAVE


def test_the_fields_of_a_chunk_can_be_named(tmp_path: Path) -> None:
    fields = {"text": "payload.Zusammenfassung", "id": "payload.titel"}

    with open_dump(point_of(tmp_path, PAYLOAD), overrides=fields) as dump:
        (retrieval,) = dump

    assert retrieval.chunks[0].id == "Leave"
    assert retrieval.chunks[0].text == "It is about leave."


def test_a_text_in_json_in_a_field_is_recognised(tmp_path: Path) -> None:
    """As LlamaIndex stores its nodes in a store."""
    node = json.dumps({"id_": "n", "text": LEAVE})

    with open_dump(point_of(tmp_path, {"_node_content": node})) as dump:
        (retrieval,) = dump
        assert dump.mapping.text == "payload._node_content.text"

    assert retrieval.chunks[0].text == LEAVE


UNKNOWN_FIELDS = {"q": QUERY, "stuff": {"items": [{"nr": 1, "inner": {"said": LEAVE}}]}}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        pytest.param(
            {"query": QUERY, "sizes": [1]},
            "the record is an object with query, sizes.*chunks=FIELD",
            id="no chunks",
        ),
        pytest.param(
            {"query": QUERY, "chunks": [{"id": 1, "n": 2, "payload": {"x": 1}}]},
            "a chunk is an object with id, n, payload.*text=FIELD",
            id="no text",
        ),
        pytest.param(
            {"asked": QUERY, "said": LEAVE}, "--field query=FIELD --field text=FIELD", id="a row"
        ),
        pytest.param(
            UNKNOWN_FIELDS,
            "--field chunks=stuff.items --field text=inner.said",
            id="chunks in an object",
        ),
    ],
)
def test_a_record_that_is_not_understood_is_described(
    tmp_path: Path, record: object, message: str
) -> None:
    path = lines(tmp_path / "d.jsonl", [record])

    with pytest.raises(DataError, match=message):
        problems_of(path)


def test_a_record_is_read_by_the_fields_that_the_message_proposes(tmp_path: Path) -> None:
    path = lines(tmp_path / "d.jsonl", [UNKNOWN_FIELDS])

    with open_dump(path, overrides={"chunks": "stuff.items", "text": "inner.said"}) as dump:
        (retrieval,) = dump

    assert retrieval.chunks[0].text == LEAVE


# Records whose only texts are the question and the answer.
WITHOUT_CHUNKS = pytest.mark.parametrize(
    "record",
    [
        {"test_cases": [{"input": "When does it open in the morning?", "actual": "At nine."}]},
        {"calls": [{"args": {"query": "When does it open in the morning?"}, "rets": []}]},
        {"citations": [{"generatedResponsePart": {"textResponsePart": {"text": "It opens."}}}]},
    ],
    ids=["test cases", "calls", "citations"],
)


@WITHOUT_CHUNKS
def test_no_hint_for_a_dump_names_the_question_or_the_answer(
    tmp_path: Path, record: object
) -> None:
    path = lines(tmp_path / "other.jsonl", [record])

    with pytest.raises(DataError, match="Say where they are: --field chunks=FIELD"):
        problems_of(path)


@WITHOUT_CHUNKS
def test_no_hint_for_cases_names_the_question_or_the_answer(tmp_path: Path, record: object) -> None:
    path = lines(tmp_path / "other.jsonl", [record])

    message = r"no field for the query[^\n]*\n  \w+\[1\]: object"
    with pytest.raises(DataError, match=message), open_source(path) as source:
        list(source)


def vertex_document(document_id: str, data: object) -> dict[str, Any]:
    return {"id": document_id, "document": {"id": document_id, "derivedStructData": data}}


VERTEX = {
    "results": [
        vertex_document(
            "a", {"extractive_answers": [{"content": "At nine."}, {"content": "Daily."}]}
        ),
        vertex_document("b", {"extractive_segments": [{"content": "Closed."}], "snippets": []}),
        {"chunk": {"id": "c", "content": "Tea.", "relevanceScore": 0.5}},
    ]
}
# The documents in the order in which they were sent, beside the reranker's.
COHERE = {
    "documents": ["Closed.", "At nine."],
    "results": [
        {"index": 1, "relevance_score": 0.9},
        {"index": 0, "relevance_score": 0.2},
    ],
}
RAGAS = {"contexts": ["At nine.", "Closed."], "ids": ["a", 2], "retrieved_scores": [0.9, 0.2]}


@pytest.mark.parametrize(
    ("record", "form", "chunks"),
    [
        pytest.param(
            VERTEX,
            "vertex",
            [("a", "At nine.\nDaily.", None), ("b", "Closed.", None), ("c", "Tea.", 0.5)],
            id="vertex: several answers of a document",
        ),
        pytest.param(
            COHERE,
            "cohere",
            [("1", "At nine.", 0.9), ("0", "Closed.", 0.2)],
            id="cohere: the order is the reranker's",
        ),
        pytest.param(
            RAGAS,
            "ragas",
            [("a", "At nine.", 0.9), ("2", "Closed.", 0.2)],
            id="ragas: ids and scores in lists of their own",
        ),
    ],
)
def test_texts_in_places_of_their_own(
    tmp_path: Path,
    record: dict[str, Any],
    form: str,
    chunks: list[tuple[str, str, float | None]],
) -> None:
    path = lines(tmp_path / "v.jsonl", [{"query": "when?", **record}])

    (retrieval,) = retrievals_of(path, form)

    assert [(chunk.id, chunk.text, chunk.score) for chunk in retrieval.chunks] == chunks


# --- malformed lines


GOOD_LINE = json.dumps({"query": QUERY, "chunks": [{"id": "a", "text": LEAVE}]})
MALFORMED_LINES = [
    '{"query": "x", "chunks": [',
    "[1, 2]",
    "null",
    '{"query": "no chunks"}',
    '{"query": 5, "chunks": []}',
    '{"chunks": []}',
]


def test_malformed_lines_are_problems_with_their_place(tmp_path: Path) -> None:
    path = written(tmp_path / "d.jsonl", "\n".join([GOOD_LINE, *MALFORMED_LINES]))

    with open_dump(path) as dump:
        list(dump)

    assert [problem.line for problem in dump.problems] == [2, 3, 4, 5, 6, 7]
    assert str(dump.problems.items[3]) == (
        f"{path}:5: field 'chunks': expected a list of chunks, found none"
    )


def test_the_lines_after_a_malformed_one_are_read(tmp_path: Path) -> None:
    without_chunks = '{"query": "nothing", "chunks": null}'
    path = written(tmp_path / "d.jsonl", "\n".join([*MALFORMED_LINES, without_chunks, GOOD_LINE]))

    with open_dump(path) as dump:
        without, good = dump

    assert without.chunks == ()
    assert good.query == QUERY


def test_every_malformed_line_is_counted_and_a_hundred_are_listed(tmp_path: Path) -> None:
    path = written(tmp_path / "d.jsonl", "\n".join([GOOD_LINE, *["{"] * 506]))

    with open_dump(path) as dump:
        list(dump)

    assert dump.malformed == 506
    assert len(dump.problems.items) == 100


def test_a_file_that_was_cut_is_a_problem(tmp_path: Path) -> None:
    path = written(tmp_path / "cut.json", '[{"query": "a b", "chunks": []}, {"query"')

    with open_dump(path) as dump:
        (retrieval,) = dump
        (problem,) = dump.problems

    assert retrieval.query == "a b"
    assert "never ends" in problem.message


# --- malformed chunks


ODD_CHUNKS: list[Any] = [
    {"id": "a", "text": LEAVE, "score": 0.9},
    {"id": "a", "text": DESK, "score": "high"},
    {"text": "no id here"},
    {"id": "b", "text": 7},
    5,
    {"id": "c", "metadata": {"page": 3}},
    {"id": {"x": 1}, "text": "an id that is none"},
    {"id": "p", "text": [{"text": "in"}, {"image": 1}, {"text": "parts"}]},
    {"id": "n", "text": [{"image": 1}]},
]


@pytest.fixture(name="odd")
def retrieval_of_odd_chunks(tmp_path: Path) -> RetrievalDump:
    path = lines(tmp_path / "d.jsonl", [{"query": QUERY, "chunks": ODD_CHUNKS}])
    with open_dump(path) as dump:
        (retrieval,) = dump
    return retrieval


def test_chunks_without_an_id_of_their_own_get_one(odd: RetrievalDump) -> None:
    # The fourth, the fifth and the last have no text that can be read, and are left out.
    assert [chunk.id for chunk in odd.chunks] == ["a", "a#2", "#3", "c", "#7", "p"]


def test_a_chunk_may_have_no_text_or_a_text_in_parts(odd: RetrievalDump) -> None:
    assert [chunk.text for chunk in odd.chunks] == [
        LEAVE,
        DESK,
        "no id here",
        "",
        "an id that is none",
        "in\nparts",
    ]


@pytest.mark.parametrize(
    ("kind", "chunk_ids"),
    [
        (WarningKind.DUPLICATE_ID, ("a#2",)),
        (WarningKind.INVALID_SCORE, ("#2",)),
        (WarningKind.MISSING_ID, ("#3", "#7")),
        (WarningKind.MALFORMED_CHUNK, ("#4", "#5", "#9")),
    ],
)
def test_a_warning_names_the_chunks(
    odd: RetrievalDump, kind: WarningKind, chunk_ids: tuple[str, ...]
) -> None:
    (warning,) = [warning for warning in odd.warnings if warning.kind is kind]

    assert warning.chunk_ids == chunk_ids
    assert warning.count == len(chunk_ids)


# --- labels


def test_labels_are_read(tmp_path: Path) -> None:
    chunks = [{"id": "a", "text": LEAVE, "relevant": True}, {"id": "b", "text": DESK}]
    record = {"query": QUERY, "answer_present": "yes", "answers": ["27"], "chunks": chunks}

    with open_dump(lines(tmp_path / "d.jsonl", [record])) as dump:
        (retrieval,) = dump

    assert retrieval.answer_present is True
    assert retrieval.answers == ("27",)
    assert retrieval.relevant_ids == frozenset({"a"})


def test_labels_of_no_chunk_are_not_taken_for_labels(tmp_path: Path) -> None:
    record = {"query": "q", "chunks": [{"id": "b", "text": DESK}], "relevant_chunk_ids": [True]}

    with open_dump(lines(tmp_path / "d.jsonl", [record])) as dump:
        (retrieval,) = dump

    assert retrieval.relevant_ids is None
