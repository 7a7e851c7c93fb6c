"""Expectations through the commands: eval, explain, the page, the gate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.runs import Ragbench

CASES = [
    {
        "id": "right", "query": "How long?", "must_contain": ["30 days", "refund"],
        "expect_source": "policy.pdf", "response": "The refund takes 30 days.",
        "contexts": ["a"], "retrieved_context_ids": ["docs/policy.pdf#3"],
    },
    {
        "id": "wrong", "query": "How much?", "must_contain": "10", "must_not_contain": "<b>fee</b>",
        "response": "A <b>fee</b> of 100.", "contexts": ["a"], "retrieved_context_ids": ["x"],
    },
]  # fmt: skip


@pytest.fixture
def run(ragbench: Ragbench) -> str:
    """A recorded run: of one case all expectations hold, of the other none."""
    Path("cases.jsonl").write_text("\n".join(map(json.dumps, CASES)), encoding="utf-8")
    done = ragbench("eval", "cases.jsonl", "-o", "run")
    assert done.code == 0, done.err
    assert "Nothing to compare with" not in done.err
    return "run"


def test_expectations_are_measured_where_cases_have_some(ragbench: Ragbench, run: str) -> None:
    assert "expectations 0.500" in ragbench("report", run).ok().flat
    assert "expectations" in Path(run, "cases.csv").read_text(encoding="utf-8")
    assert "expectations" in Path(run, "report.md").read_text(encoding="utf-8")


def test_those_that_do_not_hold_are_named(ragbench: Ragbench, run: str) -> None:
    ragbench("explain", run, "wrong").ok("does not hold", 'contains "10"', "does not contain")
    assert "does not hold" not in ragbench("explain", run, "right").ok().out
    page = Path(run, "report.html").read_text(encoding="utf-8")
    assert "Expectations that do not hold: 2 of 2" in page
    assert "&lt;b&gt;fee&lt;/b&gt;" in page


def test_a_gate_holds_them(ragbench: Ragbench, run: str) -> None:
    ragbench("gate", run, "--min", "expectations=1").ends(1, "expectations 0.500 is below 1.000")


def test_a_bad_pattern_ends_before_a_run(ragbench: Ragbench) -> None:
    Path("cases.jsonl").write_text('{"query": "Why?", "must_match": "(a"}', encoding="utf-8")
    ragbench("eval", "cases.jsonl", "-o", "run").refused(
        "cases.jsonl:1", "not a regular expression"
    )
    assert not Path("run").exists()
