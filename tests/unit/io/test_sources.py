"""Any file as cases with what is recorded of them: fields, forms, and what is said of both."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ragbench import Case, GenerationResult, RetrievalResult, open_source
from ragbench.core.outcome import Known, Outcome, Status
from ragbench.core.trace import Entry
from ragbench.errors import ConfigError, DataError
from ragbench.io.entries import LOOK, SourceInfo
from tests.unit.io.traces import lines, written

Row = Mapping[str, object]
NO_ERROR: tuple[object, ...] = (None, "", "None", "null", False, 0, [], {})


def read(path: Path | str, **options: Any) -> tuple[list[Entry], SourceInfo]:
    with open_source(path, **options) as source:
        entries = list(source)
        assert list(source) == entries  # a source is read from the start each time
        return entries, source.info


def read_row(folder: Path, row: Row, **options: Any) -> Entry:
    """The entry of a file of one row, which asks "q"."""
    path = lines(folder / "x.jsonl", [{"query": "q", **row}])
    (entry,), _ = read(path, **options)
    return entry


def recorded(value: object) -> Outcome[Any]:
    return Outcome(status=Status.MEASURED, value=value, known=Known.RECORDED)


# --- fields


def test_a_row_of_a_dataset_is_a_case(tmp_path: Path) -> None:
    path = lines(tmp_path / "x.jsonl", [{"id": "1", "query": "Who?", "reference": "Ada", "n": 3}])

    (entry,), _ = read(path)

    case = Case(id="1", query="Who?", reference="Ada", metadata={"n": 3})
    assert entry == Entry(case=case, recorded={})


def test_the_roles_of_the_fields_of_a_dataset_are_reported(tmp_path: Path) -> None:
    path = lines(tmp_path / "x.jsonl", [{"id": "1", "query": "Who?", "reference": "Ada", "n": 3}])

    _, info = read(path)

    assert info.form == "jsonl"
    assert info.looked == 1
    assert info.cases == 1
    assert info.recorded == {}
    assert list(info.lines()) == [
        f"read {path} as jsonl: id, query, reference",
        "kept as metadata: n",
    ]


@pytest.fixture(name="outputs")
def outputs_of_ragas(tmp_path: Path) -> Path:
    rows: list[Row] = [
        {"user_input": "Who?", "retrieved_contexts": ["a", "b"], "response": "Ada"},
        {"user_input": "When?", "retrieved_contexts": [], "response": ""},
        {"user_input": "Why?", "retrieved_contexts": None, "response": None},
    ]
    return lines(tmp_path / "x.jsonl", rows)


def test_outputs_of_a_system_are_recorded(outputs: Path) -> None:
    full, _, _ = read(outputs)[0]

    assert full.recorded == {
        "retrieve": recorded(RetrievalResult(["a", "b"])),
        "generate": recorded(GenerationResult("Ada")),
    }


def test_an_empty_list_and_an_empty_answer_are_recorded_and_null_is_not(outputs: Path) -> None:
    _, empty, unknown = read(outputs)[0]

    assert empty.recorded == {
        "retrieve": recorded(RetrievalResult([])),
        "generate": recorded(GenerationResult("")),
    }
    assert unknown.recorded == {}


def test_recorded_outputs_are_counted(outputs: Path) -> None:
    _, info = read(outputs)

    assert info.form == "ragas"
    assert list(info.lines())[1] == (
        "3 cases; recorded: retrieve 2 of 3, generate 2 of 3; no times are recorded"
    )


@pytest.mark.parametrize(
    ("row", "value"),
    [
        ({"response": 42}, GenerationResult("42")),
        ({"multi_responses": ["a", "b"]}, GenerationResult("a", multi_responses=["a", "b"])),
        ({"response": "a", "confidence": "0.5"}, GenerationResult("a", confidence=0.5)),
        ({"response": "a", "abstained": False}, GenerationResult("a", abstained=False)),
        (
            {"response": "a", "usage": {"prompt_tokens": 3}, "output_tokens": 2},
            GenerationResult("a", metadata={"prompt_tokens": 3, "completion_tokens": 2}),
        ),
        ({"actual_output": "a", "prediction": "a"}, GenerationResult("a")),
        ({"answer": "a", "contexts": ["c"], "ground_truth": "x"}, GenerationResult("a")),
    ],
    ids=str,
)
def test_what_is_recorded_of_an_answer(
    tmp_path: Path, row: Row, value: GenerationResult[Any]
) -> None:
    assert read_row(tmp_path, row).recorded["generate"] == recorded(value)


def test_an_answer_that_is_declined_is_recorded_as_that(tmp_path: Path) -> None:
    outcome = read_row(tmp_path, {"response": None, "abstained": True}).recorded["generate"]

    assert outcome.status is Status.ABSTAINED
    assert outcome.value == GenerationResult("", abstained=True)


@pytest.mark.parametrize(
    ("row", "value"),
    [
        # As pandas reads lists from CSV.
        (
            {"contexts": "['a', 'b']", "retrieved_ids": '[1, "x"]'},
            RetrievalResult(["a", "b"], context_ids=["1", "x"]),
        ),
        ({"contexts": "[see below]"}, RetrievalResult(["[see below]"])),
        (
            {"contexts": ["a", "b"], "retrieved_ids": [1, "x"], "retrieved_scores": [2, 1]},
            RetrievalResult(["a", "b"], context_ids=["1", "x"], scores=[2.0, 1.0]),
        ),
    ],
    ids=str,
)
def test_what_is_recorded_of_a_retrieval(
    tmp_path: Path, row: Row, value: RetrievalResult[Any]
) -> None:
    assert read_row(tmp_path, row).recorded["retrieve"] == recorded(value)


@pytest.mark.parametrize(
    ("row", "stage", "seconds"),
    [
        ({"response": "a", "seconds": 1.5}, "generate", 1.5),
        ({"response": "a", "latencyMs": 250}, "generate", 0.25),
        ({"response": "a", "latency": 250}, "generate", None),  # of what unit?
        ({"contexts": ["a"], "retrieval_ms": 4}, "retrieve", 0.004),
        # They are the whole system's.
        ({"contexts": ["a"], "response": "a", "seconds": 3}, "retrieve", None),
    ],
    ids=str,
)
def test_which_time_is_recorded(
    tmp_path: Path, row: Row, stage: str, seconds: float | None
) -> None:
    assert read_row(tmp_path, row).recorded[stage].seconds == seconds


# --- errors of a system


@pytest.mark.parametrize("no_error", NO_ERROR, ids=repr)
def test_a_field_that_says_no_error_is_none(tmp_path: Path, no_error: object) -> None:
    entry = read_row(tmp_path, {"response": "a", "error": no_error})

    assert entry.recorded["generate"] == recorded(GenerationResult("a"))


@pytest.mark.parametrize("response", [None, "", "half an ans"])
def test_an_error_is_a_failure_whatever_is_beside_it(tmp_path: Path, response: str | None) -> None:
    row = {"response": response, "error": "504", "seconds": 2}

    outcome = read_row(tmp_path, row).recorded["generate"]

    assert outcome.status is Status.FAILED
    assert outcome.value is None
    assert outcome.seconds == 2.0
    assert str(outcome.failure) == "generate: RecordedError: 504"


def test_an_error_of_retrieval_is_its_failure(tmp_path: Path) -> None:
    row = {"contexts": None, "retrieval_error": "gone"}

    outcome = read_row(tmp_path, row).recorded["retrieve"]

    assert str(outcome.failure) == "retrieve: RecordedError: gone"


def test_an_error_without_an_answer_counts_where_other_records_have_one(tmp_path: Path) -> None:
    rows: list[Row] = [{"query": "a", "response": "x"}, {"query": "b", "error": "timeout"}]

    (_, failed), info = read(lines(tmp_path / "x.jsonl", rows))

    assert failed.recorded["generate"].status is Status.FAILED
    assert info.failed == 1


def test_in_a_dataset_without_answers_an_error_is_a_field_like_any_other(tmp_path: Path) -> None:
    assert read_row(tmp_path, {"error": "E42"}).case.metadata == {"error": "E42"}


# --- fields that cannot be, or have another name


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"contexts": ["a"], "retrieved_ids": [1, 2]}, "found 1 text and 2 ids for them"),
        ({"contexts": 5}, "field 'contexts': expected a list of texts or objects, found"),
        ({"contexts": ["a", None]}, "expected text, found null"),
        ({"response": {"a": 1}}, "field 'response': expected the response as text, found an ob"),
        ({"response": "a", "confidence": 7}, "expected a number from 0 to 1, found the number 7"),
        ({"response": "a", "seconds": "fast"}, "field 'seconds': expected a number, found 'fast'"),
        ({"contexts": [{"nothing": 1}]}, "text"),
        ({"answer": "a", "ground_truth": "b"}, "response=answer"),
    ],
    ids=str,
)
def test_a_value_that_cannot_be_is_a_problem_with_its_place(
    tmp_path: Path, row: Row, problem: str
) -> None:
    path = lines(tmp_path / "x.jsonl", [{"query": "good"}, {"query": "q", **row}])

    with open_source(path) as source, pytest.raises(DataError, match=r"x\.jsonl:2: ") as raised:
        list(source)

    assert problem in str(raised.value)


NESTED = {
    "inputs": {"question": "Who?", "user": "u"},
    "outputs": {"answer": "Bob", "docs": [{"id": "d", "body": "Ada wrote it."}]},
    "soll": "Ada",
}
FIELDS = {
    "query": "inputs.question",
    "reference": "soll",
    "response": "outputs.answer",
    "retrieved_contexts": "outputs.docs",
    "chunk_text": "body",
}


def test_a_mapping_names_columns_and_leads_into_objects(tmp_path: Path) -> None:
    (entry,), _ = read(lines(tmp_path / "x.jsonl", [NESTED]), fields=FIELDS)

    assert entry.case.query == "Who?"
    assert entry.case.reference == "Ada"
    assert entry.recorded["generate"] == recorded(GenerationResult("Bob"))
    assert entry.recorded["retrieve"] == recorded(
        RetrievalResult(["Ada wrote it."], context_ids=["d"])
    )


def test_fields_that_a_mapping_does_not_name_become_metadata(tmp_path: Path) -> None:
    (entry,), _ = read(lines(tmp_path / "x.jsonl", [NESTED]), fields=FIELDS)

    assert entry.case.metadata == {"inputs": {"user": "u"}}


def test_a_mapping_is_reported(tmp_path: Path) -> None:
    _, info = read(lines(tmp_path / "x.jsonl", [NESTED]), fields=FIELDS)

    mapping = dict(info.mapping)
    assert mapping["query"] == "inputs.question"
    assert mapping["reference"] == "soll"
    assert mapping["response"] == "outputs.answer"
    assert mapping["retrieved_contexts"] == "outputs.docs"


def test_an_empty_name_switches_a_recorded_field_off(tmp_path: Path) -> None:
    row = {"contexts": [[1, 2]], "response": "x"}

    entry = read_row(tmp_path, row, fields={"retrieved_contexts": ""})

    assert entry.case.metadata == {"contexts": [[1, 2]]}
    assert list(entry.recorded) == ["generate"]


def test_a_mapping_of_a_response_is_not_dropped_where_no_query_is_recognised(
    tmp_path: Path,
) -> None:
    row = {"inputs": {"question": "Who?"}, "outputs": {"answer": "Bob", "documents": ["x"]}}
    path = lines(tmp_path / "x.jsonl", [row])

    with pytest.raises(DataError, match="no field for the query"):
        read(path, fields={"response": "outputs.answer"})


def test_a_mapping_of_chunks_is_not_dropped_where_there_are_none(tmp_path: Path) -> None:
    row = {"query": "Who?", "answer": "Ada", "passage": "x", "score": 0.5}
    path = lines(tmp_path / "x.jsonl", [row])

    message = "no field with a list of chunks, and chunk_text=passage names one"
    with pytest.raises(ConfigError, match=message):
        read(path, fields={"chunk_text": "passage"})


LONG_TEXTS = [f"q{number} {'x' * 2_000}" for number in range(40)]


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(LONG_TEXTS, id="lists"),
        # As to_json of pandas writes them.
        pytest.param(dict(enumerate(LONG_TEXTS)), id="objects by number"),
    ],
)
def test_columns_on_one_long_line_are_read(tmp_path: Path, column: object) -> None:
    path = written(tmp_path / "x.json", {"user_input": column, "response": column})

    entries, _ = read(path)

    assert [entry.case.query for entry in entries] == LONG_TEXTS


# --- chunks as objects

HITS = {"hits": {"hits": [{"_id": "a", "_score": 3.1, "_source": {"text": "Ada"}}]}}
POINTS = [
    {"id": 1, "score": 0.9, "payload": {"text": "Ada", "page": 3}},
    {"id": 2, "score": 0.4, "payload": {"text": "Bob"}},
]


@pytest.mark.parametrize(
    ("row", "options", "value"),
    [
        (
            {"answer": "Ada", "result": {"points": POINTS}},
            {},
            RetrievalResult(
                ["Ada", "Bob"],
                context_ids=["1", "2"],
                scores=[0.9, 0.4],
                context_metadata=[{"page": 3}, {}],
            ),
        ),
        (
            {"chunks": [{"id": "a", "text": "x", "distance": 0.1}, {"text": "y", "distance": 2}]},
            {},
            RetrievalResult(["x", "y"], context_ids=["a", "#2"], scores=[-0.1, -2.0]),
        ),
        (
            {"q": "Who?", **HITS},
            {"form": "elasticsearch", "fields": {"query": "q"}},
            RetrievalResult(["Ada"], context_ids=["a"], scores=[3.1]),
        ),
    ],
)
def test_chunks_with_scores_are_read(tmp_path: Path, row: Row, options: Any, value: object) -> None:
    assert read_row(tmp_path, row, **options).recorded["retrieve"] == recorded(value)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (
            "query_id,query,id,content,distance\n1,Who?,a,Ada,0.1\n1,Who?,b,Bob,0.2\n",
            [RetrievalResult(["Ada", "Bob"], context_ids=["a", "b"], scores=[-0.1, -0.2])],
        ),
        (
            'query,contexts,retrieved_ids,response\n"a","[""x"", ""y""]","1;2",\n'
            "b,\"['x' 'y']\",,said\nc,one text,,said\n",
            [
                RetrievalResult(["x", "y"], context_ids=["1", "2"]),
                RetrievalResult(["x", "y"]),
                RetrievalResult(["one text"]),
            ],
        ),
        (
            'Question,answer,Context 2,Context 1\na,said,y,x\nb,said,,"""z"""\n',
            [RetrievalResult(["x", "y"]), RetrievalResult(['"z"'])],
        ),
        ("Question,response,Contexts,Chunk 1,Chunk 2\na,b,t,u,v\n", [RetrievalResult(["t"])]),
    ],
)
def test_cells_of_a_table_hold_chunks(
    tmp_path: Path, text: str, values: list[RetrievalResult]
) -> None:
    entries, _ = read(written(tmp_path / "rows.csv", text))

    assert [entry.recorded["retrieve"].value for entry in entries] == values


@pytest.mark.parametrize(
    "passages",
    [
        {"passages": [{"is_selected": 1, "passage_text": "Ada wrote it in a year.", "url": "u"}]},
        {"context": {"title": ["a"], "sentences": [["x", "y"]]}},
        {"context": "Ada wrote it."},
        {"evidence": [{"text": "Ada wrote it.", "document_id": "d"}]},
        {"documents": [{"title": "t", "content": "Ada wrote it."}]},
        {"supporting_sentences": [[0, 1], [2]]},
        {"hits": [], "result": {"points": []}},
    ],
)
def test_passages_that_a_dataset_brings_were_not_retrieved(tmp_path: Path, passages: Row) -> None:
    assert read_row(tmp_path, {"answer": "Ada", **passages}).recorded == {}


# --- ids alone


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    """Three queries, of which the first and the last are judged, and two documents."""
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    queries = [{"_id": f"q{number}", "text": f"Question {number}"} for number in (1, 2, 3)]
    lines(folder / "queries.jsonl", queries)
    documents = [{"_id": f"d{number}", "text": f"Text {number}"} for number in (1, 2)]
    lines(folder / "corpus.jsonl", documents)
    written(folder / "qrels" / "test.tsv", "q\td\ts\nq1\td1\t1\nq3\td2\t2\n")
    return folder


@pytest.fixture(name="trec")
def trec_run(tmp_path: Path, beir: Path) -> tuple[list[Entry], SourceInfo]:
    run = "q1 Q0 d2 1 1.5 t\nq1 Q0 d1 2 3.5 t\nq2 Q0 d9 1 1 t\n"
    return read(written(tmp_path / "bm25.run", run), corpus=beir)


def test_queries_of_a_trec_run_have_the_gold_of_their_corpus(
    trec: tuple[list[Entry], SourceInfo],
) -> None:
    entries, _ = trec

    assert [entry.id for entry in entries] == ["q1", "q2", "q3"]
    assert entries[0].case == Case(
        id="q1", query="Question 1", grades={"d1": 1}, reference_context_ids=("d1",)
    )


def test_a_trec_run_is_ordered_by_score_as_in_trec_eval(
    trec: tuple[list[Entry], SourceInfo],
) -> None:
    entries, _ = trec

    assert entries[0].recorded["retrieve"].value == RetrievalResult(
        ["Text 1", "Text 2"], context_ids=["d1", "d2"], scores=[3.5, 1.5]
    )


def test_a_judged_query_that_a_trec_run_lacks_retrieved_nothing(
    trec: tuple[list[Entry], SourceInfo],
) -> None:
    entries, _ = trec

    assert entries[2].recorded["retrieve"].value == RetrievalResult([], context_ids=[], scores=[])


def test_what_a_trec_run_lacks_is_noted(trec: tuple[list[Entry], SourceInfo]) -> None:
    _, info = trec

    assert info.notes == (
        "1 judged query (such as 'q3') has no lines in the ranking: nothing was retrieved, which "
        "counts 0, as in trec_eval -c",
        "1 retrieved id not in the corpus: without text",
    )


def test_ids_without_texts_are_recorded_with_a_note(tmp_path: Path) -> None:
    path = lines(tmp_path / "x.jsonl", [{"query": "q", "retrieved_context_ids": ["d1"]}])

    (entry,), info = read(path)

    assert entry.recorded["retrieve"].value == RetrievalResult([""], context_ids=["d1"])
    assert "have ids of what was retrieved and no texts" in info.notes[0]


def test_ids_without_texts_have_those_of_a_corpus(tmp_path: Path) -> None:
    path = lines(tmp_path / "x.jsonl", [{"query": "q", "retrieved_context_ids": ["d1"]}])
    corpus = lines(tmp_path / "corpus.jsonl", [{"id": "d1", "text": "Text"}])

    (entry,), _ = read(path, corpus=corpus)

    assert entry.recorded["retrieve"].value == RetrievalResult(["Text"], context_ids=["d1"])


# --- long files


@pytest.fixture(name="long_file")
def file_of_five_thousand_rows(tmp_path: Path) -> Path:
    row = {"contexts": ["x" * 250] * 3, "response": "y" * 100}
    return lines(tmp_path / "x.jsonl", ({"query": f"q{number}", **row} for number in range(5_000)))


def test_a_long_file_is_looked_at_only_at_its_beginning(long_file: Path) -> None:
    with open_source(long_file) as source:
        info = source.info

    assert info.looked == LOOK
    assert info.cases is None
    assert list(info.lines())[1].startswith(
        f"the first {LOOK:,} cases (all are read); recorded: retr"
    )


def test_a_long_file_is_streamed(long_file: Path) -> None:
    tracemalloc.start()
    try:
        with open_source(long_file) as source:
            tracemalloc.reset_peak()
            outcomes = sum(len(entry.recorded) for entry in source)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert outcomes == 2 * 5_000
    assert peak < 3_000_000  # the file has 5 MB, its entries 15


# --- notes on what was read, and what was not


GOLD_FIELDS = pytest.mark.parametrize(
    ("name", "value", "target"),
    [
        ("gold", ["d1", "d2"], "reference_context_ids"),
        ("relevant_docs", "d1", "reference_context_ids"),
        ("pid", 17, "reference_context_ids"),
        ("gold_texts", ["There are 27 days."], "reference_contexts"),
    ],
)


def read_answered(folder: Path, row: Row, **options: Any) -> tuple[Entry, tuple[str, ...]]:
    """The entry of a row that has a reference, and the notes."""
    path = lines(folder / "x.jsonl", [{"query": "Who?", "reference": "Ada", **row}])
    (entry,), info = read(path, **options)
    return entry, info.notes


@GOLD_FIELDS
def test_a_field_that_may_be_gold_is_proposed(
    tmp_path: Path, name: str, value: object, target: str
) -> None:
    entry, (note,) = read_answered(tmp_path, {name: value})

    assert entry.case.metadata == {name: value}
    assert note.startswith(f"'{name}' is not read")
    assert note.endswith(f"add --field {target}={name}")


@GOLD_FIELDS
def test_the_proposal_for_a_field_of_gold_works(
    tmp_path: Path, name: str, value: object, target: str
) -> None:
    entry, notes = read_answered(tmp_path, {name: value}, fields={target: name})

    assert getattr(entry.case, target)
    assert notes == ()


@pytest.mark.parametrize(
    "row",
    [
        pytest.param({"gold": [["Title", 1]]}, id="neither ids nor texts"),
        pytest.param({"negative_ids": ["d1"]}, id="negatives"),
        pytest.param({"color": "red"}, id="another word"),
        pytest.param({"relevance_score": "0.5"}, id="a score"),
        pytest.param({"answer_relevancy": "1"}, id="a metric"),
        pytest.param({"gold": ["d1"], "reference_context_ids": ["d1"]}, id="known already"),
    ],
)
def test_a_field_that_is_not_gold_is_not_proposed(tmp_path: Path, row: Row) -> None:
    _, notes = read_answered(tmp_path, row)

    assert notes == ()


def test_a_cell_that_says_nan_or_null_holds_no_value(tmp_path: Path) -> None:
    table = "query,reference\nA?,NaN\nB?,#N/A\nC?,27\n"

    entries, info = read(written(tmp_path / "x.csv", table))

    assert [entry.case.reference for entry in entries] == [None, None, "27"]
    assert info.notes[0].startswith("'reference': 2 cells say NaN, null or the like, and hold no")


def test_a_question_about_nan_is_a_question(tmp_path: Path) -> None:
    (entry,), _ = read(written(tmp_path / "x.csv", "query,reference\nNaN,None\n"))

    assert entry.case.query == "NaN"
    assert entry.case.reference == "None"


def test_a_text_of_json_that_says_nan_is_a_text(tmp_path: Path) -> None:
    assert read_row(tmp_path, {"reference": "NaN"}).case.reference == "NaN"


ROWS_OF_CHUNKS = [
    {"query": "q0", "response": "a", "passage": "0"},
    {"query": "q0", "response": "a", "passage": "1"},
    {"query": "q1", "response": "a", "passage": "2"},
    {"query": "q1", "response": "a", "passage": "3"},
]


def test_rows_that_may_be_retrieved_texts_are_taken_for_cases_with_a_note(
    tmp_path: Path,
) -> None:
    _, info = read(lines(tmp_path / "x.jsonl", ROWS_OF_CHUNKS))

    (note,) = info.notes
    assert note.startswith("4 records ask 2 questions, and each is a case. If a record is one")


def test_rows_that_each_ask_something_else_need_no_note(tmp_path: Path) -> None:
    _, info = read(lines(tmp_path / "y.jsonl", [ROWS_OF_CHUNKS[0], ROWS_OF_CHUNKS[2]]))

    assert info.notes == ()


def test_answers_that_ask_nothing_need_no_note(tmp_path: Path) -> None:
    answers = [{"id": str(number), "response": "a", "trace": "t"} for number in range(4)]

    _, info = read(lines(tmp_path / "z.jsonl", answers), is_join=True)

    assert info.notes == ()


def test_the_split_that_is_read_is_noted_with_the_others(beir: Path) -> None:
    written(beir / "qrels" / "dev.tsv", "q\td\ts\nq1\td1\t1\n")

    _, info = read(beir)

    assert info.notes == ("The split 'test' is read; --split names another: dev",)


def test_a_split_that_the_user_names_needs_no_note(beir: Path) -> None:
    written(beir / "qrels" / "dev.tsv", "q\td\ts\nq1\td1\t1\n")

    _, info = read(beir, split="dev")

    assert info.notes == ()


# --- keys that appear twice


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("x.jsonl", '{"query": "A?"}\n{"query": "B?", "query": "C?"}\n', 2),
        ("x.jsonl", '{"query": "A?", "query"\t : "B?"}\n', 1),
        ("x.json", '[{"query": "A?"},\n{"query": "B?",\n\n"query": "C?"}]', 4),
        (
            "x.jsonl",
            '{"query": "\\": \\"query\\": ", "tags": [{"query": 1}, {"query": 2}]}\n'
            '{"qu\\u0065ry": "B?", "query": "C?"}',
            2,
        ),
    ],
)
def test_a_repeated_key_is_an_error(tmp_path: Path, name: str, text: str, line: int) -> None:
    (tmp_path / name).write_text(text, "utf-8")

    with pytest.raises(DataError, match=rf"{name}:{line}: field 'query': the key stands twice"):
        read(tmp_path / name)


# --- addresses

ADDRESSED = {
    "cases.jsonl": '{"query": "Who?", "reference": "Ann"}\n',
    "cases.json": '[{"query": "Who?", "reference": "Ann"}]',
    "cases.csv": "query,reference\nWho?,Ann\n",
    "cases.yaml": "- query: Who?\n  reference: Ann\n",
    "dump.jsonl": '{"query": "Who?", "chunks": [{"id": "a", "text": "Ann did."}]}\n',
}


@pytest.mark.parametrize("name", ADDRESSED)
def test_an_address_is_read_as_the_path_is(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(ADDRESSED[name], "utf-8")

    by_path, _ = read(path)
    by_address, _ = read(path.as_uri())

    assert by_address == by_path
    assert by_address[0].case.query == "Who?"
