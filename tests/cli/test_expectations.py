"""Expectations through the commands: eval, explain, the page, the gate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.runs import Ragbench, lines

CASES = [
    {
        "id": "right",
        "query": "How long?",
        "must_contain": ["30 days", "refund"],
        "expect_source": "policy.pdf",
        "response": "The refund takes 30 days.",
        "contexts": ["a"],
        "retrieved_context_ids": ["docs/policy.pdf#3"],
    },
    {
        "id": "wrong",
        "query": "How much?",
        "must_contain": "10",
        "must_not_contain": "<b>fee</b>",
        "response": "A <b>fee</b> of 100.",
        "contexts": ["a"],
        "retrieved_context_ids": ["x"],
    },
]


@pytest.fixture
def run(ragbench: Ragbench) -> str:
    """A recorded run: of one case all expectations hold, of the other none."""
    Path("cases.jsonl").write_text("\n".join(map(json.dumps, CASES)), encoding="utf-8")
    done = ragbench("eval", "cases.jsonl", "-o", "run")
    assert done.code == 0, done.err
    assert "Nothing to compare with" not in done.err
    return "run"


def test_expectations_are_measured_where_cases_have_some(ragbench: Ragbench, run: str) -> None:
    done = ragbench("report", run).ok()

    assert "expectations 0.500" in done.flat
    assert "expectations" in Path(run, "cases.csv").read_text(encoding="utf-8")


def test_those_that_do_not_hold_are_named(ragbench: Ragbench, run: str) -> None:
    wrong = ragbench("explain", run, "wrong").ok()
    right = ragbench("explain", run, "right").ok()

    assert 'does not hold: must contain "10"' in wrong.out
    assert 'does not hold: must not contain "<b>fee</b>"' in wrong.out
    assert "does not hold" not in right.out
    page = Path(run, "report.html").read_text(encoding="utf-8")
    assert "Expectations that do not hold: 2 of 2" in page
    assert "&lt;b&gt;fee&lt;/b&gt;" in page


def test_the_report_in_markdown_names_them_with_their_case(run: str) -> None:
    report = Path(run, "report.md").read_text(encoding="utf-8")

    _, _, from_heading = report.partition("## Expectations that do not hold")
    section, _, _ = from_heading.partition("\n## ")
    assert "In 1 case." in section
    assert '| wrong | must contain "10" |' in section
    assert "must not contain" in section
    assert "right" not in section


def test_the_report_has_no_such_section_if_all_hold(ragbench: Ragbench) -> None:
    Path("cases.jsonl").write_text(json.dumps(CASES[0]), encoding="utf-8")

    ragbench("eval", "cases.jsonl", "-o", "run").ok()

    report = Path("run", "report.md").read_text(encoding="utf-8")
    assert "do not hold" not in report


def test_a_gate_names_them_on_the_screen_and_in_its_files(ragbench: Ragbench, run: str) -> None:
    gate = ("gate", run, "--min", "expectations=1")

    done = ragbench(*gate, "--md", "gate.md", "--junit", "gate.xml")
    verdict = ragbench(*gate, "--json").json

    assert done.code == 1
    assert "expectations that do not hold: 1 case" in done.flat
    assert 'wrong: must contain "10"; must not contain "<b>fee</b>"' in done.flat
    assert '| wrong | must contain "10" |' in Path("gate.md").read_text(encoding="utf-8")
    assert "wrong: must contain" in Path("gate.xml").read_text(encoding="utf-8")
    (case,) = verdict["unfulfilled"]["cases"]
    assert case["id"] == "wrong"
    assert case["expectations"][0] == 'must contain "10"'


def test_a_gate_that_passes_names_none(ragbench: Ragbench, run: str) -> None:
    done = ragbench("gate", run, "--min", "expectations=0.5").ok()
    assert "do not hold" not in done.out


def answered(folder: str, answers: list[str]) -> str:
    """The source of a run in which each case wants the word ``yes``, and forbids ``maybe``."""
    cases = []
    for number, answer in enumerate(answers):
        case = {
            "id": f"q{number}",
            "query": f"Question {number}?",
            "must_contain": "yes",
            "must_not_contain": "maybe",
            "response": answer,
        }
        cases.append(case)
    return lines(f"{folder}.jsonl", cases)


def test_a_loss_fails_the_gate_and_those_that_held_before_are_marked(ragbench: Ragbench) -> None:
    before = answered("before", ["Oh yes."] * 29 + ["Only blue."])
    after = answered("after", ["Only blue."] * 30)
    ragbench("eval", before, "-o", "main", "-m", "expectations").ok()
    ragbench("eval", after, "-o", "branch", "-m", "expectations").ok()
    options = ("--baseline", "main", "--max-drop", "expectations=0.02", "--json")

    done = ragbench("gate", "branch", *options)

    assert done.code == 1
    unfulfilled = done.json["unfulfilled"]
    assert unfulfilled["total"] == 30
    held_before = {case["id"]: case["held_before"] for case in unfulfilled["cases"]}
    assert held_before["q0"] == ['must contain "yes"']
    assert held_before["q29"] == []


def test_a_gate_holds_them(ragbench: Ragbench, run: str) -> None:
    done = ragbench("gate", run, "--min", "expectations=1")

    done.ends(1, "expectations 0.500 is below 1.000")


def test_a_bad_pattern_ends_before_a_run(ragbench: Ragbench) -> None:
    Path("cases.jsonl").write_text('{"query": "Why?", "must_match": "(a"}', encoding="utf-8")
    ragbench("eval", "cases.jsonl", "-o", "run").refused(
        "cases.jsonl:1", "not a regular expression"
    )
    assert not Path("run").exists()


SOURCES = [
    {
        "id": "marked",
        "query": "One?",
        "expected_sources": "a.md",
        "must_cite": "a.md",
        "response": "It is one [1].",
        "contexts": [{"text": "one", "source": "docs/a.md"}],
    },
    {
        "id": "recorded",
        "query": "Two?",
        "expect_source": "b.md",
        "expected_citations": ["b.md"],
        "response": "It is two.",
        "contexts": ["two"],
        "retrieved_context_ids": ["x"],
        "citations": [{"title": "Two", "source": "docs/b.md"}],
    },
    {
        "id": "silent",
        "query": "Three?",
        "expected_sources": "c.md",
        "must_cite": "c.md",
        "response": "It is three.",
        "contexts": ["three"],
        "retrieved_context_ids": ["c.md#2"],
    },
    {
        "id": "elsewhere",
        "query": "Four?",
        "expected_sources": "d.md",
        "response": "It is four [e.md].",
        "contexts": ["four"],
        "retrieved_context_ids": ["f.md"],
    },
]


def test_the_reason_says_whether_a_source_was_retrieved_or_cited(ragbench: Ragbench) -> None:
    Path("cases.jsonl").write_text("\n".join(map(json.dumps, SOURCES)), encoding="utf-8")

    done = ragbench("eval", "cases.jsonl", "-o", "run", "-m", "expectations").ok()

    assert "expectations 0.625" in done.flat
    expected = {
        "marked": [
            'holds: must retrieve or cite "a.md" (retrieved and cited by the answer)',
            'holds: must cite "a.md" (cited by the answer)',
        ],
        "recorded": [
            'holds: must retrieve or cite "b.md" (cited by the answer)',
            'holds: must cite "b.md" (cited by the answer)',
        ],
        "silent": [
            'holds: must retrieve or cite "c.md" (retrieved)',
            'does not hold: must cite "c.md" (the answer cites nothing)',
        ],
        "elsewhere": [
            'does not hold: must retrieve or cite "d.md" (not retrieved; not cited by the answer)'
        ],
    }
    for case, sentences in expected.items():
        shown = ragbench("explain", "run", case, "--all").ok().flat
        for sentence in sentences:
            assert sentence in shown
    report = Path("run", "report.md").read_text(encoding="utf-8")
    assert "(the answer cites nothing)" in report
