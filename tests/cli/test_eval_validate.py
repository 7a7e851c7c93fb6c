"""``ragbench eval --validate``: verdicts in the run, the matrix in the report."""

from __future__ import annotations

import csv
from pathlib import Path

import jsonschema
import pytest

from tests.cli.runs import (
    Done,
    Ragbench,
    calls,
    cases_of,
    lines,
    own_rag,
    report,
    row_where,
    schema,
)

LOGGED = """with open("calls.log", "a") as log:
    print(query, file=log)
"""
RETRIEVE = f"""{LOGGED}
if "fail" in query:
    raise ValueError("no index")
leave = ["Everyone has 27 days of paid leave a year."] * ("leave" in query)
return [*leave, "A lost badge is reported at the gate."]
"""
"""Finds the leave page, never the desk."""
GENERATE = f"""{LOGGED}
return "27 days" if "How many" in query else "I don't know."
"""
"""Answers two questions and abstains from two."""
CASES = [
    {"id": "present-answered", "query": "How many days of paid leave does everyone have?"},
    {"id": "present-abstained", "query": "Does everyone have 27 days of paid leave a year?"},
    {"id": "absent-answered", "query": "How many chairs stand in the canteen?"},
    {"id": "absent-abstained", "query": "When does the help desk open?"},
    {"id": "failed", "query": "What will fail?"},
]


@pytest.fixture
def dataset() -> str:
    own_rag(GENERATE, RETRIEVE)
    return lines("questions.jsonl", CASES)


def evaluated(ragbench: Ragbench, dataset: str, *options: str) -> Done:
    rag = ("--rag", "own.py:Own", "-m", "answer_rate,retrieval_latency")
    return ragbench("eval", dataset, *rag, "-o", "run", *options).ok()


VALIDATE = ("--validate", "lexical")


# --- the verdicts


def test_each_case_has_its_verdict(ragbench: Ragbench, dataset: str) -> None:
    evaluated(ragbench, dataset, *VALIDATE)

    validator = jsonschema.Draft202012Validator(schema("validation"))
    *judged_cases, failed_case = cases_of()
    for case in judged_cases:
        verdict = case["validation"]
        validator.validate(verdict)
        assert verdict["query_id"] == case["id"]
        assert verdict["answer_present"] is case["id"].startswith("present")
        assert case["stages"]["validate"] == "measured"
    assert "validation" not in failed_case
    assert failed_case["stages"]["validate"] == "failed"


def test_the_matrix_of_present_and_answered_is_in_the_report_in_json(
    ragbench: Ragbench, dataset: str
) -> None:
    evaluated(ragbench, dataset, *VALIDATE)

    run_report = report()
    jsonschema.Draft202012Validator(schema("report")).validate(run_report)
    validation = run_report["validation"]
    assert validation["validator"] == "lexical"
    assert validation["verdicts"] == 4
    assert validation["unmatched"] == 0
    assert validation["answer_present"]["count"] == 2
    cells: set[tuple[bool, bool]] = set()
    for cell in validation["matrix"]:
        cells.add((cell["answer_present"], cell["answered"]))
        assert cell["rate"]["count"] == 1
        assert cell["rate"]["total"] == 2
    assert cells == {
        (True, True),
        (True, False),
        (False, True),
        (False, False),
    }


def test_the_matrix_is_printed_and_in_the_report_for_people(
    ragbench: Ragbench, dataset: str
) -> None:
    done = evaluated(ragbench, dataset, *VALIDATE)

    page = Path("run/report.md").read_text("utf-8")
    _, _, section = page.partition("## Validation")
    row = "| yes | abstained | 1 of 2 | 0.500 | 0.013 .. 0.987 | declined though it was there |"
    assert row in section
    assert "not shown answered 1 of 2 0.500 0.013 .. 0.987" in done.flat
    assert "validate 4 done, 1 failed" in done.flat


# --- the same command again


def test_without_a_validator_a_run_has_no_verdicts(ragbench: Ragbench, dataset: str) -> None:
    evaluated(ragbench, dataset)

    assert report()["validation"] is None
    assert "verdict_" not in Path("run/cases.csv").read_text("utf-8").splitlines()[0]


def test_a_validator_that_is_added_to_a_run_calls_the_system_for_a_comparison_alone(
    ragbench: Ragbench, dataset: str
) -> None:
    """A system that may have changed is asked for some outcomes again, to compare them."""
    evaluated(ragbench, dataset)
    calls_of_first_run = calls()

    evaluated(ragbench, dataset, *VALIDATE)

    assert calls() == calls_of_first_run + 2
    assert report()["validation"]["verdicts"] == 4


def test_the_same_command_again_judges_nothing(
    ragbench: Ragbench, dataset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated(ragbench, dataset, *VALIDATE)
    first_report = report()
    first_table = Path("run/cases.csv").read_bytes()
    # Whoever judged again would fail.
    judge = "ragbench.validators.lexical.LexicalValidator.validate"
    monkeypatch.setattr(judge, lambda *_: 1 / 0)

    evaluated(ragbench, dataset, *VALIDATE)
    ragbench("report", "run").ok()

    second_report = report()
    validating = row_where(second_report["stages"], stage="validate")
    assert validating["reused"] == validating["measured"]
    assert second_report["summaries"] == first_report["summaries"]
    assert second_report["validation"] == first_report["validation"]
    assert Path("run/cases.csv").read_bytes() == first_table


def test_the_chunks_that_post_retrieval_leaves_are_judged(ragbench: Ragbench, dataset: str) -> None:
    stage = "operators:\n  - {action: filter, type: top_k, k: 1}\n"
    Path("top.yaml").write_text(stage, encoding="utf-8")

    evaluated(ragbench, dataset, *VALIDATE, "--post-retrieval", "top.yaml")
    relevance_of_one = cases_of()[0]["validation"]["relevance"]
    # Other chunks, other verdicts: those from before are not taken.
    evaluated(ragbench, dataset, *VALIDATE)
    relevance_of_all = cases_of()[0]["validation"]["relevance"]

    assert len(relevance_of_one) == 1
    assert len(relevance_of_all) == 2


# --- cases.csv


@pytest.fixture
def row_of(ragbench: Ragbench) -> dict[str, dict[str, str]]:
    """The rows of cases.csv by the id of their case."""
    dates = ["The mill was built in 1901.", "The mill was built in 1905."]
    answers = [
        {"id": "two dates", "query": "When was the mill built?", "retrieved_contexts": dates},
        {"id": "none", "query": "Who painted the harbour?", "retrieved_contexts": ["It rains."]},
        {"id": "formula", "query": "=1+1", "retrieved_contexts": ["It rains."]},
        {"id": "not retrieved", "query": "When was it sold?", "response": "In 1990."},
    ]
    lines("answers.jsonl", answers)
    ragbench("eval", "answers.jsonl", *VALIDATE, "-o", "run", "-q").ok()
    with Path("run/cases.csv").open(encoding="utf-8", newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def test_a_query_whose_chunks_contradict_each_other_lists_both(
    row_of: dict[str, dict[str, str]],
) -> None:
    row = row_of["two dates"]

    assert row["query"] == "When was the mill built?"
    assert row["verdict_answer_present"] == "yes"
    assert row["verdict_quality"] == "Good"
    assert "1901" in row["verdict_conflicts"]
    assert "1905" in row["verdict_conflicts"]
    assert "reaches" in row["verdict_reasons"]


def test_a_query_without_an_answer_in_its_chunks_says_why(
    row_of: dict[str, dict[str, str]],
) -> None:
    row = row_of["none"]

    assert row["verdict_answer_present"] == "no"
    assert row["verdict_quality"] == "Poor"
    assert row["verdict_message"] == "No relevant information found in retrieved data."
    assert "stays below" in row["verdict_reasons"]
    assert row["verdict_conflicts"] == ""


def test_a_query_that_a_spreadsheet_would_run_is_quoted(row_of: dict[str, dict[str, str]]) -> None:
    assert row_of["formula"]["query"] == "'=1+1"


def test_a_query_without_chunks_has_no_verdict(row_of: dict[str, dict[str, str]]) -> None:
    row = row_of["not retrieved"]
    columns = [name for name in row if "verdict_" in name]

    assert len(columns) > 0
    for column in columns:
        assert row[column] == ""
