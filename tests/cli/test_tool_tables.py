"""Tables of MLflow, TruLens, LlamaIndex and Phoenix are read by their forms."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ragbench import open_source
from ragbench.core.trace import Entry
from tests.cli.runs import Ragbench, cases_of, lines, report, score

QUESTION = "When is the help desk open?"
RIGHT = "from 8 to 17"
WRONG = "At nine."
TEXT = "The help desk is open from 8 to 17."
BY = {"model_name": "", "type": "human"}
DATASET = {
    "examples": [
        {
            "query": QUESTION,
            "query_by": BY,
            "reference_contexts": [TEXT],
            "reference_answer": RIGHT,
            "reference_answer_by": BY,
        },
        {
            "query": "Where is it?",
            "query_by": None,
            "reference_contexts": None,
            "reference_answer": "At the gate.",
            "reference_answer_by": None,
        },
    ]
}


def json_file(name: str, value: object) -> str:
    Path(name).write_text(json.dumps(value), "utf-8")
    return name


def table(name: str, rows: Sequence[Mapping[str, object]]) -> str:
    """A table as pandas writes it: objects as Python prints them."""
    with Path(name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)
    return name


def entries_of(path: str, form: str) -> list[Entry]:
    """What a file holds, which is recognised as of this form."""
    with open_source(path) as source:
        assert source.info.form == form
        return list(source)


def response(entry: Entry) -> Any:
    generation = entry.recorded["generate"].value
    assert generation is not None
    return generation.response


def retrieved(entry: Entry) -> list[str]:
    retrieval = entry.recorded["retrieve"].value
    assert retrieval is not None
    return list(retrieval.contexts)


def assert_the_only_case_is_the_wrong_answer() -> None:
    (case,) = cases_of()
    assert case["query"] == QUESTION
    assert case["reference"] == RIGHT
    assert case["response"] == WRONG


# --- MLflow

GENAI: dict[str, Any] = {
    "inputs": {"question": QUESTION, "channel": "web"},
    "outputs": {"response": WRONG, "documents": [TEXT]},
    "expectations": {"expected_response": RIGHT, "expected_facts": ["eight"], "guidelines": ["x"]},
}
AGENT: dict[str, Any] = {
    "request_id": "r1",
    "request": {"messages": [{"role": "user", "content": QUESTION}]},
    "response": {"choices": [{"message": {"role": "assistant", "content": WRONG}}]},
    "retrieved_context": [{"doc_uri": "desk.md", "content": TEXT}],
    "expected_response": RIGHT,
    "expected_retrieved_context": [{"doc_uri": "desk.md"}],
}


@pytest.mark.parametrize("container", ["jsonl", "csv"])
def test_rows_of_mlflow_genai(ragbench: Ragbench, container: str) -> None:
    path = f"rows.{container}"
    if container == "jsonl":
        lines(path, [GENAI])
    else:
        table(path, [GENAI])

    ragbench("eval", path, "-m", "exact_match", "-o", "run").ok()

    assert score("exact_match") == (0.0, 1)
    assert_the_only_case_is_the_wrong_answer()
    (entry,) = entries_of(path, "mlflow")
    assert retrieved(entry) == [TEXT]
    assert entry.case.metadata == {
        "inputs.channel": "web",
        "expectations.expected_facts": ["eight"],
        "expectations.guidelines": ["x"],
    }
    roles = report()["manifest"]["roles"]
    source_of = {role["field"]: role["source"] for role in roles}
    assert source_of["query"] == "inputs.question"
    assert source_of["reference"] == "expectations.expected_response"
    assert source_of["retrieved_contexts"] == "outputs.documents"


def test_a_dataset_of_mlflow_has_no_answers_and_a_system_is_asked_for(ragbench: Ragbench) -> None:
    row = {
        "dataset_record_id": "d1",
        "inputs": {"messages": [{"role": "user", "content": QUESTION}]},
        "expectations": {
            "expected_response": RIGHT,
            "expected_retrieved_context": [{"doc_uri": "desk.md", "content": TEXT}],
        },
        "tags": {"team": "it"},
    }
    path = lines("rows.jsonl", [row])

    done = ragbench("eval", path)
    (entry,) = entries_of(path, "mlflow")

    done.refused("1 case without recorded answers")
    assert entry.recorded == {}
    assert entry.case.id == "d1"
    assert entry.case.query == QUESTION
    assert entry.case.reference == RIGHT
    assert entry.case.reference_contexts == (TEXT,)


def test_guidelines_alone_are_no_reference(ragbench: Ragbench) -> None:
    row = {**GENAI, "expectations": {"guidelines": "be polite"}}
    path = lines("rows.jsonl", [row])

    (entry,) = entries_of(path, "mlflow")

    assert entry.case.reference is None


def test_outputs_of_mlflow_without_a_known_answer_are_refused(ragbench: Ragbench) -> None:
    row = {**GENAI, "outputs": {"first": "a", "second": "b"}}
    path = lines("rows.jsonl", [row])

    done = ragbench("eval", path, "-o", "run")

    done.refused("field 'outputs': no answer is recognised", "--field response=outputs.NAME")
    assert not Path("run").exists()


def test_inputs_that_are_no_object_are_refused_with_the_way_on(ragbench: Ragbench) -> None:
    row = {"inputs": QUESTION, "outputs": WRONG, "expectations": {}}
    path = lines("rows.jsonl", [row])

    done = ragbench("eval", path)
    done.refused("field 'inputs': expected an object", "--field query=inputs")

    options = ("--format", "jsonl", "--field", "query=inputs", "--field", "expectations=")
    ragbench("eval", path, *options, "--field", "response=outputs", "-o", "run").ok()
    assert cases_of()[0]["response"] == WRONG


def test_rows_of_agent_evaluation(ragbench: Ragbench) -> None:
    path = lines("rows.jsonl", [AGENT, {"request": "Where?", "response": "There."}])

    ragbench("eval", path, "-m", "exact_match,expectations", "-o", "run").ok()

    assert score("exact_match") == (0.0, 1)
    assert score("expectations") == (1.0, 1)
    full, without_labels = entries_of(path, "mlflow")
    assert full.case.id == "r1"
    assert full.case.query == QUESTION
    assert response(full) == WRONG
    assert retrieved(full) == [TEXT]
    assert full.case.reference_contexts is None
    assert without_labels.case.query == "Where?"
    assert response(without_labels) == "There."
    assert without_labels.case.reference is None


@pytest.mark.parametrize("container", ["json", "csv"])
def test_the_table_of_mlflow_evaluate(ragbench: Ragbench, container: str) -> None:
    row = {
        "inputs": QUESTION,
        "ground_truth": RIGHT,
        "outputs": WRONG,
        "latency": 1.5,
        "exact_match/v1/score": 0,
    }
    path = f"eval_results_table.{container}"
    if container == "json":
        json_file(path, {"columns": list(row), "data": [list(row.values())]})
    else:
        table(path, [row])

    ragbench("eval", path, "-m", "exact_match", "-o", "run").ok()

    assert_the_only_case_is_the_wrong_answer()
    assert score("exact_match") == (0.0, 1)
    (entry,) = entries_of(path, "mlflow")
    assert entry.recorded["generate"].seconds == 1.5


def test_a_split_table_with_a_short_row_is_refused(ragbench: Ragbench) -> None:
    path = json_file("t.json", {"columns": ["query", "response"], "data": [["When?"]]})

    done = ragbench("eval", path)

    done.refused("row 1 of 'data' has 1 value, for 2 columns")


# --- TruLens

RECORD: dict[str, object] = {
    "app_id": "a1",
    "app_name": "desk",
    "app_version": "v1",
    "app_json": "{}",
    "type": "SPAN",
    "record_id": "r1",
    "input": QUESTION,
    "output": WRONG,
    "tags": "-",
    "record_json": "{}",
    "cost_json": "{}",
    "perf_json": "{}",
    "ts": "2026-11-28T10:00:00",
    "latency": 2.5,
    "total_tokens": 40,
    "Context Relevance": 0.9,
}


def test_records_of_trulens_are_the_systems_answers(ragbench: Ragbench) -> None:
    path = table("records.csv", [RECORD])

    done = ragbench("eval", path, "-m", "exact_match", "-o", "run").ok()
    (entry,) = entries_of(path, "trulens")

    done.told("TruLens' records has no column with what was retrieved")
    assert entry.case.id == "r1"
    assert entry.case.query == QUESTION
    assert entry.case.reference is None
    assert list(entry.recorded) == ["generate"]
    assert response(entry) == WRONG
    assert entry.recorded["generate"].seconds == 2.5
    assert entry.case.metadata is not None
    assert entry.case.metadata["Context Relevance"] == "0.9"


def test_several_apps_are_several_systems(ragbench: Ragbench) -> None:
    new_version = {
        **RECORD,
        "app_id": "a2",
        "app_version": "v2",
        "record_id": "r2",
        "output": RIGHT,
    }
    path = table("records.csv", [RECORD, new_version])

    ragbench("eval", path).refused("answers of several systems", "--split: desk v1, desk v2")

    ragbench("eval", path, "--split", "desk v2", "-o", "run").ok()
    assert [case["response"] for case in cases_of()] == [RIGHT]


# --- LlamaIndex

ONE_PREDICTION = {"predictions": [{"response": "a", "contexts": []}]}


def test_reference_contexts_of_llamaindex_are_no_retrieval(ragbench: Ragbench) -> None:
    path = json_file("rag_dataset.json", DATASET)

    done = ragbench("eval", path)
    full, without_contexts = entries_of(path, "llamaindex")

    done.refused("2 cases without recorded answers")
    assert full.case.query == QUESTION
    assert full.case.reference == RIGHT
    assert full.case.reference_contexts == (TEXT,)
    assert full.recorded == {}
    assert without_contexts.recorded == {}


def test_predictions_of_llamaindex_are_joined_in_their_order(ragbench: Ragbench) -> None:
    cases = json_file("rag_dataset.json", DATASET)
    predictions = [
        {"response": WRONG, "contexts": [TEXT]},
        {"response": "At the gate.", "contexts": []},
    ]
    outputs = json_file("predictions.json", {"predictions": predictions})

    done = ragbench("eval", cases, "--outputs", outputs, "-m", "exact_match", "-o", "run").ok()

    done.told("2 by their order joined with 2 cases")
    assert score("exact_match") == (0.5, 2)
    assert [case["response"] for case in cases_of()] == [WRONG, "At the gate."]


def test_predictions_of_another_number_of_examples_are_refused(ragbench: Ragbench) -> None:
    cases = json_file("rag_dataset.json", DATASET)
    outputs = json_file("predictions.json", ONE_PREDICTION)

    done = ragbench("eval", cases, "--outputs", outputs, "-o", "run")

    done.refused("holds 1 prediction, and rag_dataset.json 2 cases")
    assert not Path("run").exists()


def test_predictions_are_joined_with_no_other_dataset(ragbench: Ragbench) -> None:
    cases = lines("cases.jsonl", [{"query": QUESTION, "reference": RIGHT}])
    outputs = json_file("predictions.json", ONE_PREDICTION)

    done = ragbench("eval", cases, "--outputs", outputs)

    done.refused("ragbench eval rag_dataset.json --outputs predictions.json")


def test_predictions_alone_hold_no_questions(ragbench: Ragbench) -> None:
    outputs = json_file("predictions.json", ONE_PREDICTION)

    done = ragbench("eval", outputs)

    done.refused("ragbench eval DATASET --outputs predictions.json")


# --- Phoenix


def test_the_reference_of_phoenix_is_what_was_retrieved(ragbench: Ragbench) -> None:
    row = {"context.span_id": "s1", "input": QUESTION, "output": WRONG, "reference": TEXT}
    path = table("queries.csv", [row])

    done = ragbench("eval", path, "-m", "exact_match", "-o", "run").ok()
    (entry,) = entries_of(path, "phoenix")

    done.told("counts as one chunk")
    assert entry.case.reference is None
    assert entry.case.query == QUESTION
    assert response(entry) == WRONG
    assert retrieved(entry) == [TEXT]


def document_of_span(span: str, position: int, text: str, similarity: float) -> dict[str, object]:
    """A row of the table of documents that Phoenix exports."""
    return {
        "context.span_id": span,
        "document_position": position,
        "context.trace_id": f"t-{span}",
        "input": json.dumps({"query": f"{QUESTION} {span}"}),
        "reference": text,
        "document_score": similarity,
    }


def test_documents_of_phoenix_are_the_retrieval_of_their_span(ragbench: Ragbench) -> None:
    rows = [
        document_of_span("s1", 1, "Towels.", 0.4),
        document_of_span("s1", 0, TEXT, 0.9),
        document_of_span("s2", 0, "Lost badges.", 0.7),
    ]
    path = table("documents.csv", rows)

    ragbench("eval", path, "-o", "run").ok()
    validated = ragbench("validate", path, "--validator", "lexical", "--out", "v.jsonl").ok()
    span_1, span_2 = entries_of(path, "phoenix")

    assert span_1.case.query == f"{QUESTION} s1"
    assert retrieved(span_1) == [TEXT, "Towels."]
    assert retrieved(span_2) == ["Lost badges."]
    retrieval = span_1.recorded["retrieve"].value
    assert retrieval is not None
    assert list(retrieval.scores) == [0.9, 0.4]
    assert "2 queries with 3 chunks" in validated.err


def as_text(row: Mapping[str, object]) -> dict[str, object]:
    """A row whose objects are texts in JSON, as in a CSV file of Phoenix."""
    texts = {}
    for name, value in row.items():
        texts[name] = json.dumps(value) if isinstance(value, dict) else value
    return texts


@pytest.mark.parametrize("container", ["json", "csv"])
def test_an_experiment_of_phoenix(ragbench: Ragbench, container: str) -> None:
    wrong_run: dict[str, Any] = {
        "example_id": "e1",
        "repetition_number": 1,
        "input": {"question": QUESTION},
        "reference_output": {"answer": RIGHT},
        "output": {"answer": WRONG, "documents": [TEXT]},
        "error": None,
        "latency_ms": 250.0,
        "start_time": "2026-11-28T10:00:00+00:00",
    }
    right_run = {
        **wrong_run,
        "repetition_number": 2,
        "output": {"answer": RIGHT, "documents": []},
    }
    path = f"experiment.{container}"
    if container == "json":
        json_file(path, [wrong_run, right_run])
    else:
        table(path, [as_text(wrong_run), as_text(right_run)])

    ragbench("eval", path, "-m", "exact_match", "-o", "run").ok()

    assert score("exact_match") == (0.5, 2)
    wrong, right = entries_of(path, "phoenix")
    assert wrong.case.id == "e1"
    assert right.case.id == "e1/2"
    assert wrong.case.cluster == "e1"
    assert right.case.cluster == "e1"
    assert wrong.case.reference == RIGHT
    assert response(wrong) == WRONG
    assert retrieved(wrong) == [TEXT]
    assert wrong.recorded["generate"].seconds == 0.25
    assert retrieved(right) == []
