"""Any file as cases with what is recorded of them: fields, forms, and what is said of both."""

from __future__ import annotations

import json
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
        once, again = list(source), list(source)
        assert once == again  # a source is read from the start each time
        return once, source.info


def one(tmp_path: Path, row: Row, **options: Any) -> Entry:
    (entry,), _ = read(lines(tmp_path / "x.jsonl", [{"query": "q", **row}]), **options)
    return entry


def outcome(value: object) -> Outcome[Any]:
    return Outcome(status=Status.MEASURED, value=value, known=Known.RECORDED)


# --- fields


def test_what_is_said_of_a_dataset_and_of_what_is_recorded_in_it(tmp_path: Path) -> None:
    path = lines(tmp_path / "x.jsonl", [{"id": "1", "query": "Who?", "reference": "Ada", "n": 3}])
    (entry,), info = read(path)
    case = Case(id="1", query="Who?", reference="Ada", metadata={"n": 3})
    assert entry == Entry(case=case, recorded={})
    assert (info.form, info.looked, info.cases, info.recorded) == ("jsonl", 1, 1, {})
    assert [*info.lines()] == [f"read {path} as jsonl: id, query, reference", "kept as metadata: n"]
    rows: list[Row] = [
        {"user_input": "Who?", "retrieved_contexts": ["a", "b"], "response": "Ada"},
        {"user_input": "When?", "retrieved_contexts": [], "response": ""},
        {"user_input": "Why?", "retrieved_contexts": None, "response": None},
    ]
    entries, info = read(lines(path, rows))
    # An empty list and an empty answer were given; null was not.
    said: tuple[tuple[list[str], str], ...] = ((["a", "b"], "Ada"), ([], ""))
    assert [entry.recorded for entry in entries] == [
        *(
            {
                "retrieve": outcome(RetrievalResult(texts)),
                "generate": outcome(GenerationResult(text)),
            }
            for texts, text in said
        ),
        {},
    ]
    assert info.form == "ragas"
    counts = "3 cases; recorded: retrieve 2 of 3, generate 2 of 3; no times are recorded"
    assert [*info.lines()][1] == counts


@pytest.mark.parametrize(
    ("row", "value", "seconds"),
    [
        ({"response": 42}, GenerationResult("42"), None),
        ({"multi_responses": ["a", "b"]}, GenerationResult("a", multi_responses=["a", "b"]), None),
        ({"response": "a", "confidence": "0.5"}, GenerationResult("a", confidence=0.5), None),
        ({"response": "a", "abstained": False}, GenerationResult("a", abstained=False), None),
        ({"response": None, "abstained": True}, GenerationResult("", abstained=True), None),
        (
            {"response": "a", "usage": {"prompt_tokens": 3}, "output_tokens": 2},
            GenerationResult("a", metadata={"prompt_tokens": 3, "completion_tokens": 2}),
            None,
        ),
        ({"actual_output": "a", "prediction": "a"}, GenerationResult("a"), None),
        ({"answer": "a", "contexts": ["c"], "ground_truth": "x"}, GenerationResult("a"), None),
        ({"response": "a", "seconds": 1.5}, GenerationResult("a"), 1.5),
        ({"response": "a", "latencyMs": 250}, GenerationResult("a"), 0.25),
        ({"response": "a", "latency": 250}, GenerationResult("a"), None),  # of what unit?
        ({"contexts": ["a"], "retrieval_ms": 4}, RetrievalResult(["a"]), 0.004),
        ({"contexts": ["a"], "response": "a", "seconds": 3}, RetrievalResult(["a"]), None),
        (
            {
                "contexts": "['a', 'b']",
                "retrieved_ids": '[1, "x"]',
            },  # as pandas reads them from CSV
            RetrievalResult(["a", "b"], context_ids=["1", "x"]),
            None,
        ),
        ({"contexts": "[see below]"}, RetrievalResult(["[see below]"]), None),
        (
            {"contexts": ["a", "b"], "retrieved_ids": [1, "x"], "retrieved_scores": [2, 1]},
            RetrievalResult(["a", "b"], context_ids=["1", "x"], scores=[2.0, 1.0]),
            None,
        ),
        *(({"response": "a", "error": none}, GenerationResult("a"), None) for none in NO_ERROR),
    ],
)
def test_what_is_recorded_of_an_answer_or_a_retrieval(
    tmp_path: Path, row: Row, value: object, seconds: float | None
) -> None:
    stage = "retrieve" if isinstance(value, RetrievalResult) else "generate"
    found = one(tmp_path, row).recorded[stage]
    assert (found.value, found.seconds, found.known) == (value, seconds, Known.RECORDED)
    assert found.status is (Status.ABSTAINED if row.get("abstained") else Status.MEASURED)


@pytest.mark.parametrize("response", [None, "", "half an ans"])
def test_an_error_is_a_failure_whatever_is_beside_it(tmp_path: Path, response: str | None) -> None:
    found = one(tmp_path, {"response": response, "error": "504", "seconds": 2}).recorded["generate"]
    assert (found.status, found.value, found.seconds) == (Status.FAILED, None, 2.0)
    assert str(found.failure) == "generate: RecordedError: 504"
    retrieval = one(tmp_path, {"contexts": None, "retrieval_error": "gone"}).recorded["retrieve"]
    assert str(retrieval.failure) == "retrieve: RecordedError: gone"
    # Without an answer it counts where other records have one.
    rows: list[Row] = [{"query": "a", "response": "x"}, {"query": "b", "error": "timeout"}]
    (_, failed), info = read(lines(tmp_path / "x.jsonl", rows))
    assert (failed.recorded["generate"].status, info.failed) == (Status.FAILED, 1)
    # In a dataset without answers it is a field like any other.
    assert one(tmp_path, {"error": "E42"}).case.metadata == {"error": "E42"}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"contexts": ["a"], "retrieved_ids": [1, 2]}, "found 1 texts and 2 ids for them"),
        ({"contexts": 5}, "field 'contexts': expected a list of texts or objects, found"),
        ({"contexts": ["a", None]}, "expected text, found null"),
        ({"response": {"a": 1}}, "field 'response': expected the response as text, found an ob"),
        ({"response": "a", "confidence": 7}, "expected a number from 0 to 1, found the number 7"),
        ({"response": "a", "seconds": "fast"}, "field 'seconds': expected a number, found 'fast'"),
        ({"contexts": [{"nothing": 1}]}, "text"),
        ({"answer": "a", "ground_truth": "b"}, "response=answer"),
    ],
)
def test_what_cannot_be_is_a_problem_with_its_place(tmp_path: Path, row: Row, problem: str) -> None:
    path = lines(tmp_path / "x.jsonl", [{"query": "good"}, {"query": "q", **row}])
    with open_source(path) as source, pytest.raises(DataError, match=r"x\.jsonl:2: ") as raised:
        list(source)
    assert problem in str(raised.value)


def test_a_mapping_names_columns_and_leads_into_objects(tmp_path: Path) -> None:
    docs = [{"id": "d", "body": "Ada wrote it."}]
    row = {"inputs": {"question": "Who?", "user": "u"}, "outputs": {"answer": "Bob", "docs": docs}}
    fields = {
        "query": "inputs.question",
        "reference": "soll",
        "response": "outputs.answer",
        "retrieved_contexts": "outputs.docs",
        "chunk_text": "body",
    }
    (entry,), info = read(lines(tmp_path / "x.jsonl", [{**row, "soll": "Ada"}]), fields=fields)
    assert (entry.case.query, entry.case.reference) == ("Who?", "Ada")
    assert entry.case.metadata == {"inputs": {"user": "u"}}
    assert entry.recorded["generate"].value == GenerationResult("Bob")
    assert entry.recorded["retrieve"].value == RetrievalResult(["Ada wrote it."], context_ids=["d"])
    assert fields.items() - {("chunk_text", "body")} <= dict(info.mapping).items()
    said: Row = {"contexts": [[1, 2]], "response": "x"}
    silent = one(tmp_path, said, fields={"retrieved_contexts": ""})
    assert silent.case.metadata == {"contexts": [[1, 2]]}
    assert silent.recorded.keys() == {"generate"}


@pytest.mark.parametrize(
    ("row", "fields", "problem"),
    [
        (
            {"inputs": {"question": "Who?"}, "outputs": {"answer": "Bob", "documents": ["x"]}},
            {"response": "outputs.answer"},
            "no field for the query",
        ),
        (
            {"query": "Who?", "answer": "Ada", "passage": "x", "score": 0.5},
            {"chunk_text": "passage"},
            "no field with a list of chunks, and chunk_text=passage names one",
        ),
    ],
)
def test_a_mapping_is_never_dropped(tmp_path: Path, row: Row, fields: Any, problem: str) -> None:
    with pytest.raises((DataError, ConfigError), match=problem):
        read(lines(tmp_path / "x.jsonl", [row]), fields=fields)


@pytest.mark.parametrize("held", [list, lambda texts: dict(enumerate(texts))])  # pandas' to_json
def test_columns_on_one_long_line_are_read(tmp_path: Path, held: Any) -> None:
    texts = [f"q{number} {'x' * 2_000}" for number in range(40)]
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"user_input": held(texts), "response": held(texts)}), "utf-8")
    assert [entry.case.query for entry in read(path)[0]] == texts


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
    assert one(tmp_path, row, **options).recorded["retrieve"].value == value


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
def test_tables_hold_chunks_too(tmp_path: Path, text: str, values: list[RetrievalResult]) -> None:
    path = written(tmp_path / "rows.csv", text)
    assert [entry.recorded["retrieve"].value for entry in read(path)[0]] == values


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
    assert one(tmp_path, {"answer": "Ada", **passages}).recorded == {}


# --- ids alone


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    (tmp_path / "beir" / "qrels").mkdir(parents=True)
    rows = [{"_id": f"q{n}", "text": f"Question {n}"} for n in (1, 2, 3)]
    lines(tmp_path / "beir" / "queries.jsonl", rows)
    texts = [{"_id": f"d{n}", "text": f"Text {n}"} for n in (1, 2)]
    lines(tmp_path / "beir" / "corpus.jsonl", texts)
    written(tmp_path / "beir" / "qrels" / "test.tsv", "q\td\ts\nq1\td1\t1\nq3\td2\t2\n")
    return tmp_path / "beir"


def test_a_trec_run_with_its_corpus(tmp_path: Path, beir: Path) -> None:
    run = "q1 Q0 d2 1 1.5 t\nq1 Q0 d1 2 3.5 t\nq2 Q0 d9 1 1 t\n"
    path = written(tmp_path / "bm25.run", run)
    entries, info = read(path, corpus=beir)
    assert [entry.id for entry in entries] == ["q1", "q2", "q3"]
    assert entries[0].case == Case(
        id="q1", query="Question 1", grades={"d1": 1}, reference_context_ids=("d1",)
    )
    # The score decides, as in trec_eval.
    assert entries[0].recorded["retrieve"].value == RetrievalResult(
        ["Text 1", "Text 2"], context_ids=["d1", "d2"], scores=[3.5, 1.5]
    )
    # Judged, and not in the run: nothing was retrieved.
    assert entries[2].recorded["retrieve"].value == RetrievalResult([], context_ids=[], scores=[])
    assert info.notes == (
        "1 judged query (such as 'q3') has no lines in the ranking: nothing was retrieved, which "
        "counts 0, as in trec_eval -c",
        "1 retrieved id not in the corpus: without text",
    )


def test_ids_without_texts_are_recorded_and_it_is_said(tmp_path: Path) -> None:
    path = lines(tmp_path / "x.jsonl", [{"query": "q", "retrieved_context_ids": ["d1"]}])
    (entry,), info = read(path)
    assert entry.recorded["retrieve"].value == RetrievalResult([""], context_ids=["d1"])
    assert "have ids of what was retrieved and no texts" in info.notes[0]
    corpus = lines(tmp_path / "corpus.jsonl", [{"id": "d1", "text": "Text"}])
    (entry,), info = read(path, corpus=corpus)
    assert entry.recorded["retrieve"].value == RetrievalResult(["Text"], context_ids=["d1"])


# --- places, and what can be wrong with them


def test_a_long_file_is_streamed_and_looked_at_only_at_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    row = {"contexts": ["x" * 250] * 3, "response": "y" * 100}
    lines(path, ({"query": f"q{number}", **row} for number in range(5_000)))
    tracemalloc.start()
    try:
        with open_source(path) as source:
            info = source.info
            assert (info.looked, info.cases) == (LOOK, None)
            assert [*info.lines()][1].startswith(
                f"the first {LOOK:,} cases (all are read); recorded: retr"
            )
            tracemalloc.reset_peak()
            assert sum(len(entry.recorded) for entry in source) == 10_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3_000_000  # the file has 5 MB, its entries 15


# --- what is chosen, and said


@pytest.mark.parametrize(
    ("row", "target"),
    [
        ({"gold": ["d1", "d2"]}, "reference_context_ids"),
        ({"relevant_docs": "d1"}, "reference_context_ids"),
        ({"pid": 17}, "reference_context_ids"),
        ({"gold_texts": ["There are 27 days."]}, "reference_contexts"),
        # Neither ids nor texts; metrics; known already.
        *(
            (row, None)
            for row in (
                {"gold": [["Title", 1]]},
                {"negative_ids": ["d1"]},
                {"color": "red"},
                {"relevance_score": "0.5"},
                {"answer_relevancy": "1"},
                {"gold": ["d1"], "reference_context_ids": ["d1"]},
            )
        ),
    ],
)
def test_a_field_that_may_be_gold_is_proposed(tmp_path: Path, row: Row, target: str | None) -> None:
    path = lines(tmp_path / "x.jsonl", [{"query": "Who?", "reference": "Ada", **row}])
    ((entry,), info) = read(path)
    if target is None:
        assert info.notes == ()
        return
    (name,) = row
    assert entry.case.metadata == row
    (note,) = info.notes
    assert note.startswith(f"'{name}' is not read")
    assert note.endswith(f"add --field {target}={name}")
    ((entry,), info) = read(path, fields={target: name})
    assert getattr(entry.case, target)
    assert info.notes == ()


def test_a_cell_that_says_nan_or_null_holds_no_value(tmp_path: Path) -> None:
    cells = "query,reference\nA?,NaN\nB?,#N/A\nC?,27\nNaN,None\n"
    entries, info = read(written(tmp_path / "x.csv", cells))
    assert [entry.case.reference for entry in entries] == [None, None, "27", "None"]
    assert entries[3].case.query == "NaN"
    assert info.notes[0].startswith("'reference': 2 cells say NaN, null or the like, and hold no")
    assert one(tmp_path, {"reference": "NaN"}).case.reference == "NaN"


def test_rows_of_retrieved_texts_are_not_taken_for_cases_without_a_word(tmp_path: Path) -> None:
    rows = [{"query": f"q{at // 2}", "response": "a", "passage": str(at)} for at in range(4)]
    (note,) = read(lines(tmp_path / "x.jsonl", rows))[1].notes
    assert note.startswith("4 records ask 2 questions, and each is a case. If a record is one")
    assert read(lines(tmp_path / "y.jsonl", rows[::2]))[1].notes == ()
    answers = [{"id": str(at), "response": "a", "trace": "t"} for at in range(4)]
    assert read(lines(tmp_path / "z.jsonl", answers), is_join=True)[1].notes == ()


def test_the_split_that_is_taken_is_named(beir: Path) -> None:
    written(beir / "qrels" / "dev.tsv", "q\td\ts\nq1\td1\t1\n")
    assert read(beir)[1].notes == ("The split 'test' is read; --split names another: dev",)
    assert read(beir, split="dev")[1].notes == ()


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("x.jsonl", '{"query": "A?"}\n{"query": "B?", "query": "C?"}\n', 2),
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
