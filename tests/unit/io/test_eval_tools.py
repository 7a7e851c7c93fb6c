"""Files of DeepEval, RAGChecker, promptfoo, open-rag-eval; labels of people on claims."""

from __future__ import annotations

import json
from dataclasses import replace
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
    with open_source(path, **options) as source:
        assert source.info.form == form
        found = list(source)
    assert [entry.case for entry in found] == list(read_cases(path, split=options.get("split")))
    return found


def values(entry: Entry) -> Row:
    return {stage: outcome.value for stage, outcome in entry.recorded.items()}


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


@pytest.mark.parametrize(
    "envelope",
    [
        '{"testRunData": {"testFile": "t.py", "testCases": %s, "testPassed": 1}}',
        '{"testFile": "t.py", "testCases": %s, "metricsScores": []}',
        "%s",
    ],
)
def test_a_deepeval_run(tmp_path: Path, envelope: str) -> None:
    silent = {"name": "test_case_1", "input": "When?", "actualOutput": None, "success": True}
    empty = {"name": "test_case_2", "input": "Why?", "actualOutput": ""}
    path = written(tmp_path / "run.json", envelope % json.dumps([TEST_CASE, silent, empty]))

    first, second, third = entries(path, "deepeval")

    assert first.case == Case(
        id=first.id,
        query="Who?",
        reference="Ada Lovelace",
        tags=("people",),
        reference_contexts=("Ada wrote it.",),
    )
    assert values(first) == {
        "retrieve": RetrievalResult(["Ada wrote it.", "Bob did not."]),
        "generate": GenerationResult("Ada", metadata={"prompt_tokens": 7}),
    }
    assert first.recorded["generate"].seconds == 1.5
    assert second.recorded == {}
    assert values(third) == {"generate": GenerationResult("")}


SOURCED = "deepeval_source=wiki,deepeval_context=Ada, she wrote it|Bob"
CHECKED = {
    "query_id": "0",
    "query": "Who?",
    "gt_answer": "Ada",
    "response": "Bob",
    "retrieved_context": [{"doc_id": "000", "text": "Ada wrote it."}],
    "response_claims": [["Bob", "wrote", "it"]],
    "metrics": {"recall": 0.0},
}


@pytest.mark.parametrize(
    ("name", "content", "form", "gold", "found"),
    [
        (
            "d.jsonl",
            json.dumps(
                {
                    "input": "Who?",
                    "actual_output": "Ada",
                    "context": "one|two",
                    "retrieval_context": SOURCED,
                }
            ),
            "deepeval",
            {"reference_contexts": ("one", "two")},
            (
                RetrievalResult(
                    ["Ada, she wrote it", "Bob"], context_metadata=[{"source": "wiki"}, {}]
                ),
                GenerationResult("Ada"),
            ),
        ),
        (
            "d.csv",
            "input,actual_output,expected_output,retrieval_context\nWho?,Ada,Ada,a|b\n",
            "deepeval",
            {"reference": "Ada"},
            (RetrievalResult(["a", "b"]), GenerationResult("Ada")),
        ),
        (
            "checking_outputs.json",
            {"results": [CHECKED], "metrics": {}},
            "ragchecker",
            {"id": "0", "reference": "Ada"},
            (RetrievalResult(["Ada wrote it."], context_ids=["000"]), GenerationResult("Bob")),
        ),
    ],
)
def test_datasets_of_deepeval_and_results_of_ragchecker(
    tmp_path: Path, name: str, content: object, form: str, gold: Row, found: Any
) -> None:
    (entry,) = entries(written(tmp_path / name, content), form)

    assert entry.case == replace(Case(id=entry.id, query="Who?"), **gold)
    assert values(entry) == {"retrieve": found[0], "generate": found[1]}


# --- promptfoo


def result(output: object, *, provider: str = "openai:gpt", **more: Any) -> Row:
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
        **more,
    }


def promptfoo(folder: Path, *results: Row, **options: Any) -> list[Entry]:
    summary = {"version": 3, "timestamp": "2026", "prompts": [], "results": results, "stats": {}}
    whole = {"evalId": "eval-1", "results": summary, "config": {}}
    return entries(written(folder / "o.json", whole), "promptfoo", **options)


def test_promptfoo(tmp_path: Path) -> None:
    (entry,) = promptfoo(tmp_path, result("Ada"))
    assert entry.case == Case(id=entry.id, query="Who?", reference="Ada")
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    assert values(entry) == {
        "retrieve": RetrievalResult(["Ada wrote it."]),
        "generate": GenerationResult("Ada", metadata=usage),
    }
    assert entry.recorded["generate"].seconds == 1.2
    assert len(entries(lines(tmp_path / "o.jsonl", map(result, ("Ada", "Bob"))), "promptfoo")) == 2


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
def test_promptfoo_knows_errors_from_assertions(tmp_path: Path, more: Row, status: Status) -> None:
    (entry,) = promptfoo(tmp_path, result("Ada", **more))

    assert entry.recorded["generate"].status is status


def test_promptfoo_with_a_structured_output_and_out_of_its_cache(tmp_path: Path) -> None:
    row = result({"answer": "Ada", "contexts": ["a", "b"]}, vars={"topic": "Who?"})
    (entry,) = promptfoo(tmp_path, row)
    assert (entry.case.query, entry.case.metadata) == ("Who?", {"topic": "Who?"})
    assert entry.recorded["retrieve"].value == RetrievalResult(["a", "b"])
    (entry,) = promptfoo(tmp_path, result({"a": 1}, vars={"query": "Who?"}))
    assert values(entry)["generate"].response == '{"a": 1}'
    response = {"output": "Ada", "cached": True, "tokenUsage": {"total": 10, "cached": 10}}
    (entry,) = promptfoo(tmp_path, result("", response=response))
    assert entry.recorded["generate"].seconds is None
    assert values(entry)["generate"] == GenerationResult("Ada", metadata={"total_tokens": 10})


def test_references_of_promptfoo_are_variables_or_whole_answers(tmp_path: Path) -> None:
    checks = {"contains": "A", "similar": "{{gold}}", "llm-rubric": "nice", "equals": "Ada L."}
    asserted = [{"type": kind, "value": value} for kind, value in checks.items()]
    row = result("Ada", vars={"query": "Who?", "gold": "Ada"}, testCase={"assert": asserted})
    assert promptfoo(tmp_path, row)[0].case.references == ("Ada", "Ada L.")
    named = result("Ada", vars={"query": "Who?", "ground_truth": "Bob"})
    assert promptfoo(tmp_path, named)[0].case.references == ("Bob",)


def test_answers_of_several_systems_are_not_mixed(tmp_path: Path) -> None:
    both = result("Ada", provider="one"), result("Bob", provider="two")
    (entry,) = promptfoo(tmp_path, *both, split="two")
    assert values(entry)["generate"].response == "Bob"
    path = tmp_path / "o.json"
    for split, problem in ((None, "with --split: one, two"), ("three", "no 'three'")):
        with open_source(path, split=split) as source, pytest.raises(DataError, match=problem):
            list(source)


# --- open-rag-eval

HEADER = "query_id,query,query_run,passage_id,passage,generated_answer\n"


def test_open_rag_eval(tmp_path: Path) -> None:
    rows = (
        "q1,Who?,1,[1],Ada wrote it.,Ada [1]\nq1,Who?,1,[2],Bob did not.,\n"
        "q2,When?,1,[1],x,NO_ANSWER\nq3,Why?,1,[1],x,API_ERROR\n"
    )
    first, second, third = entries(written(tmp_path / "a.csv", HEADER + rows), "open-rag-eval")
    assert values(first) == {
        "retrieve": RetrievalResult(["Ada wrote it.", "Bob did not."], context_ids=["[1]", "[2]"]),
        "generate": GenerationResult("Ada [1]"),
    }
    assert second.recorded["generate"].status is Status.ABSTAINED
    assert third.recorded["generate"].status is Status.FAILED
    path = written(tmp_path / "b.csv", f"{HEADER}q1,Who?,1,[1],x,Ada\nq1,Who?,2,[1],x,Bob\n")
    with open_source(path) as source, pytest.raises(DataError, match="with --split: 1, 2"):
        list(source)
    (entry,) = entries(path, "open-rag-eval", split="2")
    assert values(entry)["generate"] == GenerationResult("Bob")


WICE = {
    "label": "partially_supported",
    "claim": "c",
    "evidence": ["One.", "Two."],
    "supporting_sentences": [[0]],
    "meta": {"id": "dev1"},
}
EXPERTQA = {"question": "q", "claim": "c", "evidence": ["x"]}


@pytest.mark.parametrize(
    ("row", "found"),  # id, claim, evidence, level, cluster, question; None: left out
    [
        ({"claim": "a", "evidence": "x", "label": "supported"}, ("1", "a", ("x",), 2, None, "")),
        (
            {
                "response": "b",
                "contexts": ["x", "y"],
                "label": False,
                "id": "i",
                "cluster": 7,
                "question": "q",
            },
            ("i", "b", ("x", "y"), 0, "7", "q"),
        ),
        ({"claim": "c", "evidence": ["x", " "], "label": 0.5}, ("1", "c", ("x",), 1, None, "")),
        ({"claim": "d", "evidence": [], "label": 1}, None),
        (WICE, ("dev1", "c", ("One.\nTwo.",), 1, None, "")),
        (EXPERTQA | {"support": "Complete"}, ("1", "c", ("x",), 2, "q", "q")),
        (EXPERTQA | {"support": "Incomplete"}, ("1", "c", ("x",), 1, "q", "q")),
        (EXPERTQA | {"support": "N/A"}, None),
    ],
)
def test_a_label_of_our_own_of_wice_and_of_expertqa(tmp_path: Path, row: Row, found: Any) -> None:
    last = {"claim": "last", "evidence": "x", "label": 1, "id": "last"}
    *read, _ = read_labels(lines(tmp_path / "labels.jsonl", [row, last]))

    names = ("id", "claim", "evidence", "level", "cluster", "question")

    assert [tuple(getattr(one, name) for name in names) for one in read] == [found] * bool(found)


def test_problems_name_line_and_field(tmp_path: Path) -> None:
    row = {"claim": "a", "evidence": "x", "label": 1}
    rows = [row | {"label": "maybe"}, row | {"claim": ""}, row | {"evidence": 5}, []]
    path = lines(tmp_path / "labels.jsonl", rows)
    with pytest.raises(DataError) as caught:
        read_labels(path)
    found = [(problem.line, problem.field) for problem in caught.value.problems]
    assert found == [(1, "label"), (2, "claim"), (3, "evidence"), (4, None)]
    for bad in (tmp_path / "none.jsonl", lines(path, [row | {"evidence": ""}])):
        with pytest.raises(DataError):
            read_labels(bad)
