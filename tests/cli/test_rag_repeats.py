"""``eval --rag-repeats``: a system that answers at random, asked several times."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ragbench import parse_metrics
from ragbench.core.outcome import Cell, Status
from ragbench.stages.repeated import Repeated
from tests.cli.runs import Ragbench, cases_of, lines, own_rag, row_where

EVAL = ("eval", "cases.jsonl", "--rag", "own.py:Own", "-m", "token_f1", "-q", "-o", "run")
# Yes, no and yes in turn, by the number of times that it was asked a question.
ALTERNATING = """with open("questions.log", "a+") as log:
    print(query, file=log)
    log.seek(0)
    return ["no", "yes"][log.read().splitlines().count(query) % 2]"""


@pytest.fixture(autouse=True)
def _four_cases() -> None:
    rows = [
        {"id": "q0", "query": "Is 0 a number?", "reference": "yes"},
        {"id": "q1", "query": "Is 1 a number?", "reference": "yes"},
        {"id": "q2", "query": "Is 2 a number?", "reference": "yes"},
        {"id": "q3", "query": "Is 3 a number?", "reference": "yes"},
    ]
    lines("cases.jsonl", rows)
    own_rag(ALTERNATING)


def count_of_questions() -> int:
    """How many questions the system was asked so far."""
    return len(Path("questions.log").read_text("utf-8").splitlines())


def test_scores_are_the_means_and_the_noise_is_shown(ragbench: Ragbench) -> None:
    report = ragbench(*EVAL, "--rag-repeats", "3", "--json").ok().json

    assert count_of_questions() == 12
    f1 = row_where(report["summaries"], metric="token_f1")
    assert f1["score"] == pytest.approx(2 / 3)
    assert f1["measured"] == 4
    assert f1["total"] == 4
    q0 = cases_of()[0]
    assert q0["scores"]["token_f1"]["value"] == pytest.approx(2 / 3)
    cells = q0["repeats"]["token_f1"]
    assert [cell["value"] for cell in cells] == [1.0, 0.0, 1.0]
    notes = " ".join(report["notes"])
    assert "Each case was asked 3 times; scores are the means of a case." in notes
    assert "token_f1: 100% of the variance of a score is the system's own noise" in notes
    assert "Unstable, scored differently each time: q0, q1, q2, q3." in notes


def test_a_report_of_repeats_that_is_rendered_again_is_the_same(ragbench: Ragbench) -> None:
    ragbench(*EVAL, "--rag-repeats", "3").ok()
    rendered = Path("run/report.json").read_bytes()

    ragbench("report", "run").ok()

    assert Path("run/report.json").read_bytes() == rendered


def test_a_case_without_any_score_ends_as_it_did_the_first_time() -> None:
    skipped = Cell(status=Status.SKIPPED)
    failed = Cell(status=Status.FAILED)
    repeated = Repeated(parse_metrics("token_f1"), [{"a": (b"", (failed,))}], {})

    assert repeated.add("a", b"", (skipped,)) == (skipped,)


@pytest.mark.parametrize(
    ("later_seconds", "later_score", "is_cached"),
    [
        pytest.param([0.001], 1.0, True, id="quick and the same"),
        pytest.param([0.5], 1.0, False, id="slow"),
        pytest.param([0.001], 0.0, False, id="another score"),
        pytest.param([], 1.0, False, id="without times"),
    ],
)
def test_a_system_that_seems_to_keep_its_answers_is_noted(
    later_seconds: list[float], later_score: float, is_cached: bool
) -> None:
    """The first answers took one and two seconds, and scored 1."""
    later_cells = {"c": (b"c", (Cell.measured(later_score),))}
    repeated = Repeated(parse_metrics("token_f1"), [later_cells], {"generate": later_seconds})
    repeated.add("c", b"c", (Cell.measured(1.0),))

    notes = " ".join(repeated.notes({"generate": [1.0, 2.0]}))

    assert ("Turn its cache off." in notes) is is_cached


def test_each_time_is_reused_by_itself(ragbench: Ragbench) -> None:
    ragbench(*EVAL, "--rag-repeats", "2", "--reuse").ok()
    assert count_of_questions() == 8

    ragbench(*EVAL, "--rag-repeats", "2", "--reuse").ok()

    assert count_of_questions() == 8


def test_only_the_time_that_is_missing_is_asked(ragbench: Ragbench) -> None:
    ragbench(*EVAL, "--rag-repeats", "2", "--reuse").ok()
    # As if the second time had been interrupted.
    shutil.rmtree("run/repeats/2")

    ragbench(*EVAL, "--rag-repeats", "2", "--reuse").ok()

    assert count_of_questions() == 8 + 4


def test_a_run_without_repeats_reuses_the_first_time(ragbench: Ragbench) -> None:
    ragbench(*EVAL, "--rag-repeats", "2", "--reuse").ok()

    ragbench(*EVAL, "--reuse").ok()

    assert count_of_questions() == 8
    assert "repeats" not in cases_of()[0]


def test_gate_and_baseline_know_each_time(ragbench: Ragbench) -> None:
    """The scores of each case are 1, 0 and 1, whose variance is 1/3."""
    ragbench(*EVAL, "--rag-repeats", "3").ok()
    ragbench("baseline", "set", "run").ok()

    baseline = ragbench("baseline", "show", "--json").json
    printed = ragbench("baseline", "show")
    verdict = ragbench("gate", "run", "-b", "ragbench-baseline.json")

    assert baseline["runs"][0]["repeats"] == 3
    f1 = row_where(baseline["metrics"], metric="token_f1")
    assert f1["within_variance"] == pytest.approx(1 / 3)
    assert baseline["unstable"] == ["q0", "q1", "q2", "q3"]
    printed.ok("unstable: 4 of 4 cases: q0, q1, q2, q3")
    verdict.ok()
