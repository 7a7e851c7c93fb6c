"""``eval --rag-repeats``: a system that answers at random, asked several times."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ragbench import parse_metrics
from ragbench.core.outcome import Cell, Status
from ragbench.stages.repeated import Repeated
from tests.cli.runs import Ragbench, cases_of, lines, own_rag

NOISY = """with open("asked.log", "a+") as log:
    print(query, file=log)
    log.seek(0)
    return ["no", "yes"][log.read().splitlines().count(query) % 2]"""
"""Yes and no in turn, by the number of times that it was asked a question."""


@pytest.fixture(autouse=True)
def _cases() -> None:
    rows = ({"id": f"q{n}", "query": f"Is {n} a number?", "reference": "yes"} for n in range(4))
    lines("cases.jsonl", rows)
    own_rag(NOISY)


EVAL = ("eval", "cases.jsonl", "--rag", "own.py:Own", "-m", "token_f1", "-q", "-o", "run")


def asked() -> int:
    return len(Path("asked.log").read_text("utf-8").splitlines())


def test_scores_are_the_means_and_the_noise_is_shown(ragbench: Ragbench) -> None:
    report = ragbench(*EVAL, "--rag-repeats", "3", "--json").ok().json
    (f1,) = [one for one in report["summaries"] if one["metric"] == "token_f1"]
    assert f1["score"] == pytest.approx(2 / 3)
    assert (f1["measured"], f1["total"]) == (4, 4)
    row = cases_of()[0]
    assert row["scores"]["token_f1"]["value"] == pytest.approx(2 / 3)
    assert [cell["value"] for cell in row["repeats"]["token_f1"]] == [1.0, 0.0, 1.0]
    notes = " ".join(report["notes"])
    assert "Each case was asked 3 times; scores are the means of a case." in notes
    assert "token_f1: 100% of the variance of a score is the system's own noise" in notes
    assert "Unstable, scored differently each time: q0, q1, q2, q3." in notes
    assert asked() == 12
    # Rendered again, it is the same report.
    before = Path("run/report.json").read_bytes()
    assert ragbench("report", "run").code == 0
    assert Path("run/report.json").read_bytes() == before


def test_a_case_without_any_score_ended_as_it_did_the_first_time() -> None:
    first, later = Cell(status=Status.SKIPPED), Cell(status=Status.FAILED)
    repeated = Repeated(parse_metrics("token_f1"), [{"a": (b"", (later,))}], {})
    assert repeated.add("a", b"", (first,)) == (first,)


@pytest.mark.parametrize(
    ("again", "second", "said"),
    [([0.001], 1.0, True), ([0.5], 1.0, False), ([0.001], 0.0, False), ([], 1.0, False)],
)
def test_that_a_system_seems_to_keep_its_answers_is_said(
    again: list[float], second: float, said: bool
) -> None:
    once, later = (Cell.measured(value) for value in (1.0, second))
    found = Repeated(parse_metrics("token_f1"), [{"c": (b"c", (later,))}], {"generate": again})
    found.add("c", b"c", (once,))
    notes = [*found.notes({"generate": [1.0, 2.0]})]
    assert any(note.endswith("Turn its cache off.") for note in notes) is said


def test_each_time_is_continued_and_reused_by_itself(ragbench: Ragbench) -> None:
    for _ in range(2):
        ragbench(*EVAL, "--rag-repeats", "2", "--reuse").ok()
        assert asked() == 8
    # As if the second time had been interrupted: only what is missing is asked again.
    shutil.rmtree("run/repeats/2")
    for more in (["--rag-repeats", "2"], []):
        ragbench(*EVAL, "--reuse", *more).ok()
        assert asked() == 12
    assert "repeats" not in cases_of()[0]


def test_gate_and_baseline_know_each_time(ragbench: Ragbench) -> None:
    assert ragbench(*EVAL, "--rag-repeats", "3").code == 0
    assert ragbench("baseline", "set", "run").code == 0
    shown = ragbench("baseline", "show", "--json").json
    assert shown["runs"][0]["repeats"] == 3
    (metric,) = [one for one in shown["metrics"] if one["metric"] == "token_f1"]
    assert metric["within_variance"] == pytest.approx(1 / 3)
    assert shown["unstable"] == ["q0", "q1", "q2", "q3"]
    assert "unstable: 4 of 4 cases: q0, q1, q2, q3" in ragbench("baseline", "show").out
    assert ragbench("gate", "run", "-b", "ragbench-baseline.json").code == 0
