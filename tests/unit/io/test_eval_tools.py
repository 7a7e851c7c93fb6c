"""Files of DeepEval, RAGChecker, promptfoo and open-rag-eval, in the shapes that they write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ragbench import Case, GenerationResult, RetrievalResult, open_source, read_cases
from ragbench.core.outcome import Status
from ragbench.core.trace import Entry
from ragbench.errors import DataError

Row = dict[str, Any]


def entries(path: Path, form: str, **options: Any) -> list[Entry]:
    with open_source(path, **options) as source:
        assert source.info.form == form
        found = list(source)
    assert [entry.case for entry in found] == list(read_cases(path, split=options.get("split")))
    return found


def written(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value, indent=1), "utf-8")
    return path


def values(entry: Entry) -> Mapping[str, object]:
    return {stage: outcome.value for stage, outcome in entry.recorded.items()}


# --- DeepEval

TEST_CASE: Row = {
    "name": "test_case_0",
    "input": "Who?",
    "actualOutput": "Ada",
    "expectedOutput": "Ada Lovelace",
    "context": ["Ada wrote it."],
    "retrievalContext": ["Ada wrote it.", "Bob did not."],
    "completionTime": 1.5,
    "inputTokenCount": 7,
    "tags": ["people"],
    "success": False,
    "metricsData": [{"name": "Faithfulness", "score": 0.5, "error": None}],
    "runDuration": 3.25,
    "order": 0,
}


@pytest.mark.parametrize(
    "envelope",
    [
        lambda cases: {"testRunData": {"testFile": "t.py", "testCases": cases, "testPassed": 1}},
        lambda cases: {"testFile": "t.py", "testCases": cases, "metricsScores": []},
        lambda cases: cases,
    ],
)
def test_a_deepeval_run(tmp_path: Path, envelope: Any) -> None:
    silent = {"name": "test_case_1", "input": "When?", "actualOutput": None, "success": True}
    empty = {"name": "test_case_2", "input": "Why?", "actualOutput": ""}
    path = written(tmp_path / "run.json", envelope([TEST_CASE, silent, empty]))
    first, second, third = entries(path, "deepeval")
    assert first.case == Case(
        id=first.id,
        query="Who?",
        reference="Ada Lovelace",
        reference_contexts=("Ada wrote it.",),
        tags=("people",),
    )
    assert values(first) == {
        "retrieve": RetrievalResult(["Ada wrote it.", "Bob did not."]),
        "generate": GenerationResult("Ada", metadata={"prompt_tokens": 7}),
    }
    assert first.recorded["generate"].seconds == 1.5
    assert second.recorded == {}
    assert values(third) == {"generate": GenerationResult("")}


def test_a_deepeval_dataset_with_joined_lists(tmp_path: Path) -> None:
    row = {
        "input": "Who?",
        "actual_output": "Ada",
        "retrieval_context": "deepeval_source=wiki,deepeval_context=Ada, she wrote it|Bob",
        "context": "one|two",
    }
    path = tmp_path / "d.jsonl"
    path.write_text(json.dumps(row), "utf-8")
    (entry,) = entries(path, "deepeval")
    assert entry.case.reference_contexts == ("one", "two")
    assert entry.recorded["retrieve"].value == RetrievalResult(
        ["Ada, she wrote it", "Bob"], context_metadata=[{"source": "wiki"}, {}]
    )


def test_a_deepeval_table(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("input,actual_output,expected_output,retrieval_context\nWho?,Ada,Ada,a|b\n")
    (entry,) = entries(path, "deepeval")
    assert values(entry) == {
        "retrieve": RetrievalResult(["a", "b"]),
        "generate": GenerationResult("Ada"),
    }


# --- RAGChecker


def test_ragchecker(tmp_path: Path) -> None:
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


def result(output: object, *, provider: str = "openai:gpt", **more: Any) -> Row:
    return {
        "promptIdx": 0,
        "testIdx": 0,
        "vars": {"query": "Who?", "context": "Ada wrote it."},
        "provider": {"id": provider, "label": ""},
        "prompt": {"raw": "Answer {{query}}", "label": "Answer {{query}}"},
        "testCase": {"vars": {}, "assert": [{"type": "factuality", "value": "Ada"}]},
        "response": {"output": output, "tokenUsage": {"total": 10, "prompt": 7, "completion": 3}},
        "success": True,
        "failureReason": 0,
        "latencyMs": 1200,
        **more,
    }


def promptfoo(path: Path, *results: Row) -> Path:
    summary = {"version": 3, "timestamp": "2026", "prompts": [], "results": results, "stats": {}}
    return written(path, {"evalId": "eval-1", "results": summary, "config": {}})


def test_promptfoo(tmp_path: Path) -> None:
    (entry,) = entries(promptfoo(tmp_path / "o.json", result("Ada")), "promptfoo")
    assert entry.case == Case(id=entry.id, query="Who?", reference="Ada")
    assert values(entry) == {
        "retrieve": RetrievalResult(["Ada wrote it."]),
        "generate": GenerationResult(
            "Ada", metadata={"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        ),
    }
    assert entry.recorded["generate"].seconds == 1.2


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"failureReason": 2, "error": "504", "response": {"error": "504"}}, Status.FAILED),
        ({"error": "504", "response": {}}, Status.FAILED),
        ({"failureReason": 2, "error": "timed out"}, Status.FAILED),
        # The answer did not pass an assertion: an answer all the same.
        ({"failureReason": 1, "error": "Expected output to contain Bob"}, Status.MEASURED),
        ({"error": "Expected output to contain Bob"}, Status.MEASURED),  # before failureReason
        ({"response": {"output": "No.", "isRefusal": True}}, Status.ABSTAINED),
    ],
)
def test_promptfoo_tells_errors_from_assertions(tmp_path: Path, more: Row, status: Status) -> None:
    (entry,) = entries(promptfoo(tmp_path / "o.json", result("Ada", **more)), "promptfoo")
    assert entry.recorded["generate"].status is status


def test_promptfoo_with_a_structured_output_and_contexts_in_it(tmp_path: Path) -> None:
    row = result({"answer": "Ada", "contexts": ["a", "b"]}, vars={"topic": "Who?"})
    (entry,) = entries(promptfoo(tmp_path / "o.json", row), "promptfoo")
    assert (entry.case.query, entry.case.metadata) == ("Who?", {"topic": "Who?"})
    assert entry.recorded["retrieve"].value == RetrievalResult(["a", "b"])
    other = result({"a": 1}, vars={"query": "Who?"})
    (entry,) = entries(promptfoo(tmp_path / "p.json", other), "promptfoo")
    assert entry.recorded["generate"].value.response == '{"a": 1}'  # type: ignore[union-attr]


def test_what_came_out_of_promptfoos_cache_has_no_time(tmp_path: Path) -> None:
    response = {"output": "Ada", "cached": True, "tokenUsage": {"total": 10, "cached": 10}}
    (entry,) = entries(promptfoo(tmp_path / "o.json", result("", response=response)), "promptfoo")
    assert entry.recorded["generate"].seconds is None
    assert entry.recorded["generate"].value == GenerationResult(
        "Ada", metadata={"total_tokens": 10}
    )


def test_references_of_promptfoo_are_variables_or_whole_answers(tmp_path: Path) -> None:
    asserted = [
        {"type": "contains", "value": "A"},
        {"type": "similar", "value": "{{gold}}"},
        {"type": "llm-rubric", "value": "is nice"},
        {"type": "equals", "value": "Ada L."},
    ]
    row = result("Ada", vars={"query": "Who?", "gold": "Ada"}, testCase={"assert": asserted})
    (entry,) = entries(promptfoo(tmp_path / "o.json", row), "promptfoo")
    assert entry.case.references == ("Ada", "Ada L.")
    named = result("Ada", vars={"query": "Who?", "ground_truth": "Bob"})
    (entry,) = entries(promptfoo(tmp_path / "p.json", named), "promptfoo")
    assert entry.case.references == ("Bob",)


def test_answers_of_several_systems_are_not_mixed(tmp_path: Path) -> None:
    path = promptfoo(
        tmp_path / "o.json", result("Ada", provider="one"), result("Bob", provider="two")
    )
    with open_source(path) as source, pytest.raises(DataError, match="with --split: one, two"):
        list(source)
    (entry,) = entries(path, "promptfoo", split="two")
    assert entry.recorded["generate"].value.response == "Bob"  # type: ignore[union-attr]
    with open_source(path, split="three") as source, pytest.raises(DataError, match="no 'three'"):
        list(source)


def test_promptfoo_lines(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    path.write_text("\n".join(json.dumps(result(text)) for text in ("Ada", "Bob")), "utf-8")
    assert len(entries(path, "promptfoo")) == 2


# --- open-rag-eval


def test_open_rag_eval(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text(
        "query_id,query,query_run,passage_id,passage,generated_answer\n"
        "q1,Who?,1,[1],Ada wrote it.,Ada [1]\nq1,Who?,1,[2],Bob did not.,\n"
        "q2,When?,1,[1],x,NO_ANSWER\nq3,Why?,1,[1],x,API_ERROR\n",
        "utf-8",
    )
    first, second, third = entries(path, "open-rag-eval")
    assert values(first) == {
        "retrieve": RetrievalResult(["Ada wrote it.", "Bob did not."], context_ids=["[1]", "[2]"]),
        "generate": GenerationResult("Ada [1]"),
    }
    assert second.recorded["generate"].status is Status.ABSTAINED
    assert third.recorded["generate"].status is Status.FAILED


def test_runs_of_open_rag_eval_are_read_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text(
        "query_id,query,query_run,passage_id,passage,generated_answer\n"
        "q1,Who?,1,[1],x,Ada\nq1,Who?,2,[1],x,Bob\n",
        "utf-8",
    )
    with open_source(path) as source, pytest.raises(DataError, match="with --split: 1, 2"):
        list(source)
    (entry,) = entries(path, "open-rag-eval", split="2")
    assert entry.recorded["generate"].value == GenerationResult("Bob")


@pytest.mark.parametrize(
    "content",
    [
        '{"results": {"results": [{"vars": [1], "error": {}, "provider": 3, "response": {}}]}}',
        '{"testCases": [{"input": 5, "actualOutput": ["x"], "retrievalContext": {"a": 1}}]}',
        '{"testCases": [null, 3, {"input": "a", "retrievalContext": [null]}]}',
        '{"results": [{"query": "a", "gt_answer": {}, "retrieved_context": [[1]]}]}',
        '{"testRunData": {"testCases": "none"}}',
    ],
)
def test_odd_values_are_problems(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content, "utf-8")
    with pytest.raises(DataError), open_source(path) as source:
        list(source)
