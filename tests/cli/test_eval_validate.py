"""``ragbench eval --validate``: verdicts in the run, the matrix in the report."""

from __future__ import annotations

import csv
from itertools import product
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cli.runs import Ragbench, calls, cases_of, lines, own_rag, report, schema

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


def evaluated(ragbench: Ragbench, dataset: str, *options: str) -> Any:
    rag = ("--rag", "own.py:Own", "-m", "answer_rate,retrieval_latency")
    return ragbench("eval", dataset, *rag, *options)


def test_verdicts_and_the_matrix_are_in_every_form_of_the_report(
    ragbench: Ragbench, dataset: str
) -> None:
    done = evaluated(ragbench, dataset, "--validate", "lexical", "-o", "run").ok()
    made = report()
    jsonschema.Draft202012Validator(schema("report")).validate(made)
    table = made["validation"]
    cells = table["matrix"]
    found = {(cell["answer_present"], cell["answered"]) for cell in cells}
    assert found == set(product((True, False), repeat=2))
    assert [(cell["rate"]["count"], cell["rate"]["total"]) for cell in cells] == [(1, 2)] * 4
    assert (table["validator"], table["verdicts"], table["unmatched"]) == ("lexical", 4, 0)
    assert table["answer_present"]["count"] == 2
    for case in cases_of()[:4]:
        jsonschema.Draft202012Validator(schema("validation")).validate(case["validation"])
        assert case["validation"]["query_id"] == case["id"]
        assert case["validation"]["answer_present"] is case["id"].startswith("present")
        assert case["stages"]["validate"] == "measured"
    failed = cases_of()[4]
    assert "validation" not in failed
    assert failed["stages"]["validate"] == "failed"
    row = "| yes | abstained | 1 of 2 | 0.500 | 0.013 .. 0.987 | declined though it was there |"
    assert row in Path("run/report.md").read_text("utf-8").partition("## Validation")[2]
    rows = [line.split() for line in done.out.splitlines()]
    assert ["not", "shown", "answered", "1", "of", "2", "0.500", "0.013", "..", "0.987"] in rows
    assert any(line.startswith("validate  4 done, 1 failed") for line in done.out.splitlines())


def test_the_same_command_again_judges_and_calls_nothing(
    ragbench: Ragbench, dataset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert evaluated(ragbench, dataset, "-o", "run").code == 0
    before = calls()
    assert report()["validation"] is None
    assert "verdict_" not in Path("run/cases.csv").read_text("utf-8").splitlines()[0]
    # A validator is added to a run that is there: three are asked for again, to compare them.
    assert evaluated(ragbench, dataset, "-o", "run", "--validate", "lexical").code == 0
    assert calls() == before + 2
    first, table = report(), Path("run/cases.csv").read_bytes()
    judge = "ragbench.validators.lexical.LexicalValidator.validate"
    monkeypatch.setattr(judge, lambda *_: 1 / 0)  # whoever judged again would fail
    assert evaluated(ragbench, dataset, "-o", "run", "--validate", "lexical").code == 0
    assert ragbench("report", "run").code == 0
    assert Path("run/cases.csv").read_bytes() == table
    again = report()
    verdicts = next(stage for stage in again["stages"] if stage["stage"] == "validate")
    assert verdicts["reused"] == verdicts["measured"]
    assert (again["summaries"], again["validation"]) == (first["summaries"], first["validation"])


def test_what_post_retrieval_leaves_is_judged(ragbench: Ragbench, dataset: str) -> None:
    stage = "operators:\n  - {action: filter, type: top_k, k: 1}\n"
    Path("top.yaml").write_text(stage, encoding="utf-8")
    options = ("-o", "run", "--validate", "lexical")
    assert evaluated(ragbench, dataset, *options, "--post-retrieval", "top.yaml").code == 0
    assert len(cases_of()[0]["validation"]["relevance"]) == 1
    # Other chunks, other verdicts: those from before are not taken.
    assert evaluated(ragbench, dataset, *options).code == 0
    assert len(cases_of()[0]["validation"]["relevance"]) == 2


def test_cases_csv_says_of_each_query_what_was_judged_and_why(ragbench: Ragbench) -> None:
    dates = ["The mill was built in 1901.", "The mill was built in 1905."]
    rows = [
        {"id": "two dates", "query": "When was the mill built?", "retrieved_contexts": dates},
        {"id": "none", "query": "Who painted the harbour?", "retrieved_contexts": ["It rains."]},
        {"id": "formula", "query": "=1+1", "retrieved_contexts": ["It rains."]},
        {"id": "not retrieved", "query": "When was it sold?", "response": "In 1990."},
    ]
    ragbench("eval", lines("answers.jsonl", rows), "--validate", "lexical", "-o", "run", "-q").ok()
    with Path("run/cases.csv").open(encoding="utf-8", newline="") as file:
        found = {row["id"]: row for row in csv.DictReader(file)}
    columns = [name for name in found["none"] if name.startswith("verdict_")]
    twice, none = found["two dates"], found["none"]
    assert twice["query"] == "When was the mill built?"
    assert (twice["verdict_answer_present"], twice["verdict_quality"]) == ("yes", "Good")
    assert "1901" in twice["verdict_conflicts"] and "1905" in twice["verdict_conflicts"]
    assert "reaches" in twice["verdict_reasons"]
    assert (none["verdict_answer_present"], none["verdict_quality"]) == ("no", "Poor")
    assert none["verdict_message"] == "No relevant information found in retrieved data."
    assert "stays below" in none["verdict_reasons"]
    assert none["verdict_conflicts"] == ""
    # Nothing that a spreadsheet runs, and nothing of what was not judged.
    assert found["formula"]["query"] == "'=1+1"
    assert [found["not retrieved"][name] for name in columns] == [""] * len(columns)
