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


def written(name: str, value: object) -> str:
    Path(name).write_text(json.dumps(value), "utf-8")
    return name


def table(name: str, rows: Sequence[Mapping[str, object]]) -> str:
    """A table as pandas writes it: objects as Python prints them."""
    with Path(name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)
    return name


def read(path: str, form: str) -> list[Entry]:
    with open_source(path) as source:
        assert source.info.form == form
        return [*source]


def response(entry: Entry) -> Any:
    value = entry.recorded["generate"].value
    assert value is not None
    return value.response


def retrieved(entry: Entry) -> list[str]:
    value = entry.recorded["retrieve"].value
    assert value is not None
    return list(value.contexts)


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
    (case,) = cases_of()
    assert (case["query"], case["reference"], case["response"]) == (QUESTION, RIGHT, WRONG)
    (entry,) = read(path, "mlflow")
    assert retrieved(entry) == [TEXT]
    assert entry.case.metadata == {
        "inputs.channel": "web",
        "expectations.expected_facts": ["eight"],
        "expectations.guidelines": ["x"],
    }
    roles = {role["field"]: role["source"] for role in report()["manifest"]["roles"]}
    assert roles["query"] == "inputs.question"
    assert roles["reference"] == "expectations.expected_response"
    assert roles["retrieved_contexts"] == "outputs.documents"


def test_a_dataset_of_mlflow_has_no_answers_and_a_system_is_asked_for(ragbench: Ragbench) -> None:
    expected = [{"doc_uri": "desk.md", "content": TEXT}]
    row = {
        "dataset_record_id": "d1",
        "inputs": {"messages": [{"role": "user", "content": QUESTION}]},
        "expectations": {"expected_response": RIGHT, "expected_retrieved_context": expected},
        "tags": {"team": "it"},
    }
    path = lines("rows.jsonl", [row])
    ragbench("eval", path).refused("1 case without recorded answers")
    (entry,) = read(path, "mlflow")
    assert entry.recorded == {}
    assert (entry.case.id, entry.case.query, entry.case.reference) == ("d1", QUESTION, RIGHT)
    assert entry.case.reference_contexts == (TEXT,)


def test_guidelines_alone_are_no_reference(ragbench: Ragbench) -> None:
    row = {**GENAI, "expectations": {"guidelines": "be polite"}}
    (entry,) = read(lines("rows.jsonl", [row]), "mlflow")
    assert entry.case.reference is None


def test_outputs_of_mlflow_without_a_known_answer_are_refused(ragbench: Ragbench) -> None:
    row = {**GENAI, "outputs": {"first": "a", "second": "b"}}
    done = ragbench("eval", lines("rows.jsonl", [row]), "-o", "run")
    done.refused("field 'outputs': no answer is recognised", "--field response=outputs.NAME")
    assert not Path("run").exists()


def test_inputs_that_are_no_object_are_refused_with_the_way_on(ragbench: Ragbench) -> None:
    row = {"inputs": QUESTION, "outputs": WRONG, "expectations": {}}
    path = lines("rows.jsonl", [row])
    ragbench("eval", path).refused("field 'inputs': expected an object", "--field query=inputs")
    command = ("--format", "jsonl", "--field", "query=inputs", "--field", "expectations=")
    ragbench("eval", path, *command, "--field", "response=outputs", "-o", "run").ok()
    assert cases_of()[0]["response"] == WRONG


def test_rows_of_agent_evaluation(ragbench: Ragbench) -> None:
    path = lines("rows.jsonl", [AGENT, {"request": "Where?", "response": "There."}])
    ragbench("eval", path, "-m", "exact_match,expectations", "-o", "run").ok()
    assert score("exact_match") == (0.0, 1)
    assert score("expectations") == (1.0, 1)
    first, second = read(path, "mlflow")
    assert (first.case.id, first.case.query, response(first)) == ("r1", QUESTION, WRONG)
    assert retrieved(first) == [TEXT]
    assert first.case.reference_contexts is None
    assert (second.case.query, response(second), second.case.reference) == (
        "Where?",
        "There.",
        None,
    )


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
        written(path, {"columns": [*row], "data": [[*row.values()]]})
    else:
        table(path, [row])
    ragbench("eval", path, "-m", "exact_match", "-o", "run").ok()
    (case,) = cases_of()
    assert (case["query"], case["reference"], case["response"]) == (QUESTION, RIGHT, WRONG)
    assert score("exact_match") == (0.0, 1)
    (entry,) = read(path, "mlflow")
    assert entry.recorded["generate"].seconds == 1.5


def test_a_split_table_with_a_short_row_is_refused(ragbench: Ragbench) -> None:
    path = written("t.json", {"columns": ["query", "response"], "data": [["When?"]]})
    ragbench("eval", path).refused("row 1 of 'data' has 1 value, for 2 columns")


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
    done.told("TruLens' records has no column with what was retrieved")
    (entry,) = read(path, "trulens")
    assert (entry.case.id, entry.case.query, entry.case.reference) == ("r1", QUESTION, None)
    assert [*entry.recorded] == ["generate"]
    assert response(entry) == WRONG
    assert entry.recorded["generate"].seconds == 2.5
    assert entry.case.metadata is not None
    assert entry.case.metadata["Context Relevance"] == "0.9"


def test_several_apps_are_several_systems(ragbench: Ragbench) -> None:
    other = {**RECORD, "app_id": "a2", "app_version": "v2", "record_id": "r2", "output": RIGHT}
    path = table("records.csv", [RECORD, other])
    ragbench("eval", path).refused("answers of several systems", "--split: desk v1, desk v2")
    ragbench("eval", path, "--split", "desk v2", "-o", "run").ok()
    assert [case["response"] for case in cases_of()] == [RIGHT]


# --- LlamaIndex


def test_reference_contexts_of_llamaindex_are_no_retrieval(ragbench: Ragbench) -> None:
    path = written("rag_dataset.json", DATASET)
    ragbench("eval", path).refused("2 cases without recorded answers")
    first, second = read(path, "llamaindex")
    assert (first.case.query, first.case.reference) == (QUESTION, RIGHT)
    assert first.case.reference_contexts == (TEXT,)
    assert (first.recorded, second.recorded) == ({}, {})


def test_predictions_of_llamaindex_are_joined_in_their_order(ragbench: Ragbench) -> None:
    cases = written("rag_dataset.json", DATASET)
    said = [
        {"response": WRONG, "contexts": [TEXT]},
        {"response": "At the gate.", "contexts": []},
    ]
    outputs = written("predictions.json", {"predictions": said})
    done = ragbench("eval", cases, "--outputs", outputs, "-m", "exact_match", "-o", "run").ok()
    done.told("2 by their order joined with 2 cases")
    assert score("exact_match") == (0.5, 2)
    assert [case["response"] for case in cases_of()] == [WRONG, "At the gate."]


def test_predictions_of_another_number_of_examples_are_refused(ragbench: Ragbench) -> None:
    cases = written("rag_dataset.json", DATASET)
    outputs = written("predictions.json", {"predictions": [{"response": "a", "contexts": []}]})
    done = ragbench("eval", cases, "--outputs", outputs, "-o", "run")
    done.refused("holds 1 prediction, and rag_dataset.json 2 cases")
    assert not Path("run").exists()


def test_predictions_are_joined_with_no_other_dataset(ragbench: Ragbench) -> None:
    cases = lines("cases.jsonl", [{"query": QUESTION, "reference": RIGHT}])
    outputs = written("predictions.json", {"predictions": [{"response": "a", "contexts": []}]})
    done = ragbench("eval", cases, "--outputs", outputs)
    done.refused("ragbench eval rag_dataset.json --outputs predictions.json")


def test_predictions_alone_hold_no_questions(ragbench: Ragbench) -> None:
    outputs = written("predictions.json", {"predictions": [{"response": "a", "contexts": []}]})
    ragbench("eval", outputs).refused("ragbench eval DATASET --outputs predictions.json")


# --- Phoenix


def test_the_reference_of_phoenix_is_what_was_retrieved(ragbench: Ragbench) -> None:
    row = {"context.span_id": "s1", "input": QUESTION, "output": WRONG, "reference": TEXT}
    path = table("queries.csv", [row])
    ragbench("eval", path, "-m", "exact_match", "-o", "run").ok().told("counts as one chunk")
    (entry,) = read(path, "phoenix")
    assert entry.case.reference is None
    assert (entry.case.query, response(entry), retrieved(entry)) == (QUESTION, WRONG, [TEXT])


def test_documents_of_phoenix_are_the_retrieval_of_their_span(ragbench: Ragbench) -> None:
    rows: list[dict[str, object]] = []
    for span, place, text, similarity in (
        ("s1", 1, "Towels.", 0.4),
        ("s1", 0, TEXT, 0.9),
        ("s2", 0, "Lost badges.", 0.7),
    ):
        rows.append(
            {
                "context.span_id": span,
                "document_position": place,
                "context.trace_id": f"t-{span}",
                "input": json.dumps({"query": f"{QUESTION} {span}"}),
                "reference": text,
                "document_score": similarity,
            }
        )
    path = table("documents.csv", rows)
    ragbench("eval", path, "-o", "run").ok()
    first, second = read(path, "phoenix")
    assert (first.case.query, retrieved(first)) == (f"{QUESTION} s1", [TEXT, "Towels."])
    assert retrieved(second) == ["Lost badges."]
    value = first.recorded["retrieve"].value
    assert value is not None
    assert list(value.scores) == [0.9, 0.4]
    dumped = ragbench("validate", path, "--validator", "lexical", "--out", "v.jsonl").ok()
    assert "2 queries with 3 chunks" in dumped.err


@pytest.mark.parametrize("container", ["json", "csv"])
def test_an_experiment_of_phoenix(ragbench: Ragbench, container: str) -> None:
    run: dict[str, Any] = {
        "example_id": "e1",
        "repetition_number": 1,
        "input": {"question": QUESTION},
        "reference_output": {"answer": RIGHT},
        "output": {"answer": WRONG, "documents": [TEXT]},
        "error": None,
        "latency_ms": 250.0,
        "start_time": "2026-11-28T10:00:00+00:00",
    }
    runs = [run, {**run, "repetition_number": 2, "output": {"answer": RIGHT, "documents": []}}]
    path = f"experiment.{container}"
    if container == "json":
        written(path, runs)
    else:
        spelled = [
            {name: json.dumps(v) if isinstance(v, dict) else v for name, v in row.items()}
            for row in runs
        ]
        table(path, spelled)
    ragbench("eval", path, "-m", "exact_match", "-o", "run").ok()
    assert score("exact_match") == (0.5, 2)
    first, second = read(path, "phoenix")
    assert [entry.case.id for entry in (first, second)] == ["e1", "e1/2"]
    assert {entry.case.cluster for entry in (first, second)} == {"e1"}
    assert (first.case.reference, response(first), retrieved(first)) == (RIGHT, WRONG, [TEXT])
    assert first.recorded["generate"].seconds == 0.25
    assert retrieved(second) == []
