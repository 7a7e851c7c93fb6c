"""Files of DeepEval, RAGChecker, promptfoo, open-rag-eval; labels of people on claims."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragbench import Case, GenerationResult, RetrievalResult, open_source, read_cases, read_labels
from ragbench.core.outcome import Status
from ragbench.core.trace import Entry
from ragbench.errors import DataError
from tests.unit.io.traces import lines, written

Row = dict[str, Any]


def entries(path: Path, form: str, **options: Any) -> list[Entry]:
    """The entries of a file of a form; its cases are those that are read alone, too."""
    with open_source(path, **options) as source:
        assert source.info.form == form
        all_entries = list(source)
    cases = list(read_cases(path, split=options.get("split")))
    assert [entry.case for entry in all_entries] == cases
    return all_entries


def values(entry: Entry) -> Row:
    """What is recorded, by stage."""
    return {stage: outcome.value for stage, outcome in entry.recorded.items()}


# --- DeepEval


TEST_CASE: Row = {
    "name": "test_case_0",
    "input": "Who?",
    "actualOutput": "Ada",
    "context": ["Ada wrote it."],
    "expectedOutput": "Ada Lovelace",
    "retrievalContext": ["Ada wrote it.", "Bob did not."],
    "tags": ["people"],
    "completionTime": 1.5,
    "inputTokenCount": 7,
    "metricsData": [{"score": 0.5, "error": None}],
}
SILENT = {"name": "test_case_1", "input": "When?", "actualOutput": None, "success": True}
EMPTY = {"name": "test_case_2", "input": "Why?", "actualOutput": ""}


@pytest.mark.parametrize(
    "envelope",
    [
        pytest.param(
            '{"testRunData": {"testFile": "t.py", "testCases": %s, "testPassed": 1}}',
            id="the latest run",
        ),
        pytest.param(
            '{"testFile": "t.py", "testCases": %s, "metricsScores": []}', id="a run alone"
        ),
        pytest.param("%s", id="test cases alone"),
    ],
)
def test_test_cases_of_deepeval_are_read_in_every_envelope(tmp_path: Path, envelope: str) -> None:
    content = envelope % json.dumps([TEST_CASE, SILENT, EMPTY])

    run_entries = entries(written(tmp_path / "run.json", content), "deepeval")

    assert [entry.case.query for entry in run_entries] == ["Who?", "When?", "Why?"]


@pytest.fixture(name="deepeval")
def entries_of_a_run_of_deepeval(tmp_path: Path) -> list[Entry]:
    return entries(written(tmp_path / "run.json", [TEST_CASE, SILENT, EMPTY]), "deepeval")


def test_a_test_case_of_deepeval_is_a_case(deepeval: list[Entry]) -> None:
    entry = deepeval[0]

    assert entry.case == Case(
        id=entry.id,
        query="Who?",
        reference="Ada Lovelace",
        tags=("people",),
        reference_contexts=("Ada wrote it.",),
    )


def test_what_a_test_case_of_deepeval_tested_is_recorded(deepeval: list[Entry]) -> None:
    entry = deepeval[0]

    assert values(entry) == {
        "retrieve": RetrievalResult(["Ada wrote it.", "Bob did not."]),
        "generate": GenerationResult("Ada", metadata={"prompt_tokens": 7}),
    }
    assert entry.recorded["generate"].seconds == 1.5


def test_a_test_case_of_deepeval_without_an_answer_records_none(deepeval: list[Entry]) -> None:
    _, silent, empty = deepeval

    assert silent.recorded == {}
    assert values(empty) == {"generate": GenerationResult("")}


def test_a_dataset_of_deepeval_may_hold_texts_in_a_cell(tmp_path: Path) -> None:
    row = {
        "input": "Who?",
        "actual_output": "Ada",
        "context": "one|two",
        "retrieval_context": "deepeval_source=wiki,deepeval_context=Ada, she wrote it|Bob",
    }

    (entry,) = entries(lines(tmp_path / "d.jsonl", [row]), "deepeval")

    assert entry.case.reference_contexts == ("one", "two")
    assert values(entry) == {
        "retrieve": RetrievalResult(
            ["Ada, she wrote it", "Bob"], context_metadata=[{"source": "wiki"}, {}]
        ),
        "generate": GenerationResult("Ada"),
    }


def test_a_table_of_deepeval_is_read(tmp_path: Path) -> None:
    table = "input,actual_output,expected_output,retrieval_context\nWho?,Ada,Ada,a|b\n"

    (entry,) = entries(written(tmp_path / "d.csv", table), "deepeval")

    assert entry.case.reference == "Ada"
    assert values(entry) == {
        "retrieve": RetrievalResult(["a", "b"]),
        "generate": GenerationResult("Ada"),
    }


# --- RAGChecker


def test_results_of_ragchecker_are_read(tmp_path: Path) -> None:
    result = {
        "query_id": "0",
        "query": "Who?",
        "gt_answer": "Ada",
        "response": "Bob",
        "retrieved_context": [{"doc_id": "000", "text": "Ada wrote it."}],
        "response_claims": [["Bob", "wrote", "it"]],
        "metrics": {"recall": 0.0},
    }
    path = written(tmp_path / "checking_outputs.json", {"results": [result], "metrics": {}})

    (entry,) = entries(path, "ragchecker")

    assert entry.case == Case(id="0", query="Who?", reference="Ada")
    assert values(entry) == {
        "retrieve": RetrievalResult(["Ada wrote it."], context_ids=["000"]),
        "generate": GenerationResult("Bob"),
    }


# --- promptfoo


def result(output: object, *, provider: str = "openai:gpt", **changes: Any) -> Row:
    return {
        "promptIdx": 0,
        "testIdx": 0,
        "success": True,
        "failureReason": 0,
        "latencyMs": 1200,
        "provider": {"id": provider, "label": ""},
        "vars": {"query": "Who?", "context": "Ada wrote it."},
        "prompt": {"raw": "Answer {{query}}", "label": "Answer {{query}}"},
        "testCase": {"vars": {}, "assert": [{"type": "factuality", "value": "Ada"}]},
        "response": {"output": output, "tokenUsage": {"total": 10, "prompt": 7, "completion": 3}},
        **changes,
    }


def promptfoo(folder: Path, *results: Row, **options: Any) -> list[Entry]:
    summary = {"version": 3, "timestamp": "2026", "prompts": [], "results": results, "stats": {}}
    content = {"evalId": "eval-1", "results": summary, "config": {}}
    return entries(written(folder / "o.json", content), "promptfoo", **options)


def test_a_result_of_promptfoo_is_a_case(tmp_path: Path) -> None:
    (entry,) = promptfoo(tmp_path, result("Ada"))

    assert entry.case == Case(id=entry.id, query="Who?", reference="Ada")


def test_the_answer_of_a_result_of_promptfoo_is_recorded(tmp_path: Path) -> None:
    (entry,) = promptfoo(tmp_path, result("Ada"))

    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    assert values(entry) == {
        "retrieve": RetrievalResult(["Ada wrote it."]),
        "generate": GenerationResult("Ada", metadata=usage),
    }
    assert entry.recorded["generate"].seconds == 1.2


def test_results_of_promptfoo_on_lines_are_read(tmp_path: Path) -> None:
    path = lines(tmp_path / "o.jsonl", [result("Ada"), result("Bob")])

    assert len(entries(path, "promptfoo")) == 2


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        pytest.param(
            {"failureReason": 2, "error": "504", "response": {"error": "504"}},
            Status.FAILED,
            id="an error",
        ),
        pytest.param({"error": "504", "response": {}}, Status.FAILED, id="no answer"),
        pytest.param(
            {"failureReason": 2, "error": "timed out"}, Status.FAILED, id="an answer that is late"
        ),
        # The answer did not pass an assertion: an answer all the same.
        pytest.param(
            {"failureReason": 1, "error": "Expected output to contain Bob"},
            Status.MEASURED,
            id="an assertion",
        ),
        pytest.param(
            {"error": "Expected output to contain Bob"},
            Status.MEASURED,
            id="an assertion, before there was failureReason",
        ),
        pytest.param(
            {"response": {"output": "No.", "isRefusal": True}}, Status.ABSTAINED, id="a refusal"
        ),
    ],
)
def test_errors_of_promptfoo_are_told_from_assertions(
    tmp_path: Path, changes: Row, status: Status
) -> None:
    (entry,) = promptfoo(tmp_path, result("Ada", **changes))

    assert entry.recorded["generate"].status is status


def test_an_output_of_promptfoo_may_hold_answer_and_contexts(tmp_path: Path) -> None:
    output = {"answer": "Ada", "contexts": ["a", "b"]}

    (entry,) = promptfoo(tmp_path, result(output, vars={"topic": "Who?"}))

    assert values(entry)["generate"].response == "Ada"
    assert values(entry)["retrieve"] == RetrievalResult(["a", "b"])


def test_the_only_variable_of_promptfoo_is_the_question(tmp_path: Path) -> None:
    (entry,) = promptfoo(tmp_path, result("Ada", vars={"topic": "Who?"}))

    assert entry.case.query == "Who?"
    assert entry.case.metadata == {"topic": "Who?"}


def test_any_other_object_of_promptfoo_is_an_answer_in_json(tmp_path: Path) -> None:
    (entry,) = promptfoo(tmp_path, result({"a": 1}, vars={"query": "Who?"}))

    assert values(entry)["generate"].response == '{"a": 1}'


def test_an_answer_out_of_promptfoos_cache_has_no_time(tmp_path: Path) -> None:
    response = {"output": "Ada", "cached": True, "tokenUsage": {"total": 10, "cached": 10}}

    (entry,) = promptfoo(tmp_path, result("", response=response))

    assert entry.recorded["generate"].seconds is None
    assert values(entry)["generate"] == GenerationResult("Ada", metadata={"total_tokens": 10})


def test_assertions_of_promptfoo_that_hold_whole_answers_are_references(tmp_path: Path) -> None:
    assertions = [
        {"type": "contains", "value": "A"},
        {"type": "similar", "value": "{{gold}}"},
        {"type": "llm-rubric", "value": "nice"},
        {"type": "equals", "value": "Ada L."},
    ]
    variables = {"query": "Who?", "gold": "Ada"}

    (entry,) = promptfoo(tmp_path, result("Ada", vars=variables, testCase={"assert": assertions}))

    assert entry.case.references == ("Ada", "Ada L.")


def test_a_variable_of_promptfoo_that_is_named_after_a_reference_is_one(tmp_path: Path) -> None:
    variables = {"query": "Who?", "ground_truth": "Bob"}

    (entry,) = promptfoo(tmp_path, result("Ada", vars=variables))

    assert entry.case.references == ("Bob",)


TWO_SYSTEMS = (result("Ada", provider="one"), result("Bob", provider="two"))


def test_answers_of_a_system_of_promptfoo_that_is_named_are_read(tmp_path: Path) -> None:
    (entry,) = promptfoo(tmp_path, *TWO_SYSTEMS, split="two")

    assert values(entry)["generate"].response == "Bob"


@pytest.mark.parametrize(
    ("split", "message"), [(None, "with --split: one, two"), ("three", "no 'three'")]
)
def test_answers_of_several_systems_are_not_mixed(
    tmp_path: Path, split: str | None, message: str
) -> None:
    path = lines(tmp_path / "o.jsonl", TWO_SYSTEMS)

    with open_source(path, split=split) as source, pytest.raises(DataError, match=message):
        list(source)


# --- open-rag-eval


HEADER = "query_id,query,query_run,passage_id,passage,generated_answer\n"


@pytest.fixture(name="open_rag_eval")
def entries_of_open_rag_eval(tmp_path: Path) -> list[Entry]:
    table = HEADER + (
        "q1,Who?,1,[1],Ada wrote it.,Ada [1]\n"
        "q1,Who?,1,[2],Bob did not.,\n"
        "q2,When?,1,[1],x,NO_ANSWER\n"
        "q3,Why?,1,[1],x,API_ERROR\n"
    )
    return entries(written(tmp_path / "a.csv", table), "open-rag-eval")


def test_rows_of_a_query_of_open_rag_eval_are_its_passages(open_rag_eval: list[Entry]) -> None:
    assert values(open_rag_eval[0]) == {
        "retrieve": RetrievalResult(["Ada wrote it.", "Bob did not."], context_ids=["[1]", "[2]"]),
        "generate": GenerationResult("Ada [1]"),
    }


def test_words_of_open_rag_eval_for_no_answer_are_none(open_rag_eval: list[Entry]) -> None:
    _, no_answer, api_error = open_rag_eval

    assert no_answer.recorded["generate"].status is Status.ABSTAINED
    assert api_error.recorded["generate"].status is Status.FAILED


@pytest.fixture(name="two_runs")
def table_of_two_runs(tmp_path: Path) -> Path:
    return written(tmp_path / "b.csv", f"{HEADER}q1,Who?,1,[1],x,Ada\nq1,Who?,2,[1],x,Bob\n")


def test_several_runs_of_open_rag_eval_are_not_mixed(two_runs: Path) -> None:
    with (
        open_source(two_runs) as source,
        pytest.raises(DataError, match="with --split: 1, 2"),
    ):
        list(source)


def test_a_run_of_open_rag_eval_that_is_named_is_read(two_runs: Path) -> None:
    (entry,) = entries(two_runs, "open-rag-eval", split="2")

    assert values(entry)["generate"] == GenerationResult("Bob")


# --- labels of people on claims


WICE = {
    "label": "partially_supported",
    "claim": "c",
    "evidence": ["One.", "Two."],
    "supporting_sentences": [[0]],
    "meta": {"id": "dev1"},
}
EXPERTQA = {"question": "q", "claim": "c", "evidence": ["x"]}
# That a file may not be without a label, another one stands behind that of a test.
LAST = {"claim": "last", "evidence": "x", "label": 1, "id": "last"}


@pytest.mark.parametrize(
    ("row", "label_id", "claim", "evidence", "level", "cluster", "question"),
    [
        pytest.param(
            {"claim": "a", "evidence": "x", "label": "supported"},
            "1",
            "a",
            ("x",),
            2,
            None,
            "",
            id="a word",
        ),
        pytest.param(
            {
                "response": "b",
                "contexts": ["x", "y"],
                "label": False,
                "id": "i",
                "cluster": 7,
                "question": "q",
            },
            "i",
            "b",
            ("x", "y"),
            0,
            "7",
            "q",
            id="an answer with all that may be known",
        ),
        pytest.param(
            {"claim": "c", "evidence": ["x", " "], "label": 0.5},
            "1",
            "c",
            ("x",),
            1,
            None,
            "",
            id="a number",
        ),
        pytest.param(WICE, "dev1", "c", ("One.\nTwo.",), 1, None, "", id="WiCE"),
        pytest.param(
            EXPERTQA | {"support": "Complete"}, "1", "c", ("x",), 2, "q", "q", id="ExpertQA"
        ),
        pytest.param(
            EXPERTQA | {"support": "Incomplete"}, "1", "c", ("x",), 1, "q", "q", id="in part"
        ),
    ],
)
def test_a_label_on_a_claim_is_read(
    tmp_path: Path,
    row: Row,
    label_id: str,
    claim: str,
    evidence: tuple[str, ...],
    level: int,
    cluster: str | None,
    question: str,
) -> None:
    label, _ = read_labels(lines(tmp_path / "labels.jsonl", [row, LAST]))

    assert label.id == label_id
    assert label.claim == claim
    assert label.evidence == evidence
    assert label.level == level
    assert label.cluster == cluster
    assert label.question == question


@pytest.mark.parametrize(
    "row",
    [
        pytest.param({"claim": "d", "evidence": [], "label": 1}, id="no evidence"),
        pytest.param(EXPERTQA | {"support": "N/A"}, id="no verdict"),
    ],
)
def test_a_claim_without_evidence_or_verdict_is_left_out(tmp_path: Path, row: Row) -> None:
    labels = read_labels(lines(tmp_path / "labels.jsonl", [row, LAST]))

    assert [label.id for label in labels] == ["last"]


def test_labels_of_mtrag_without_a_document_are_a_problem_of_the_file(tmp_path: Path) -> None:
    evaluation = {
        "task_id": "t1",
        "model_id": "m",
        "model_response": "At nine.",
        "annotations": {"faithfulness": {"ann": {"value": 4}}},
    }
    task = {"task_id": "t1", "input": [{"text": "When?"}], "contexts": [{"document_id": "gone"}]}
    document = {"tasks": [task], "evaluations": [evaluation], "documents": []}

    with pytest.raises(DataError, match="it lacks 'gone'"):
        read_labels(written(tmp_path / "human.json", json.dumps(document)))


def test_problems_of_labels_have_their_line_and_field(tmp_path: Path) -> None:
    row = {"claim": "a", "evidence": "x", "label": 1}
    rows = [row | {"label": "maybe"}, row | {"claim": ""}, row | {"evidence": 5}, []]

    with pytest.raises(DataError) as caught:
        read_labels(lines(tmp_path / "labels.jsonl", rows))

    assert [(problem.line, problem.field) for problem in caught.value.problems] == [
        (1, "label"),
        (2, "claim"),
        (3, "evidence"),
        (4, None),
    ]


def test_a_file_without_a_label_is_refused(tmp_path: Path) -> None:
    row = {"claim": "a", "evidence": "", "label": 1}

    with pytest.raises(DataError):
        read_labels(lines(tmp_path / "labels.jsonl", [row]))


def test_a_file_of_labels_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        read_labels(tmp_path / "none.jsonl")
