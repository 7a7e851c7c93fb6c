"""Ten labels of people change headline, causes, page, cases.csv, explain, gate and compare."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.runs import Done, lines

Ragbench = Callable[..., Done]
SIZE = 30
LABELLED = 10


def row(number: int, response: str) -> dict[str, object]:
    return {
        "id": f"q{number}",
        "query": f"Who leads team {number}?",
        "reference": f"Maria Lopez {number}",
        "reference_context_ids": [f"team-{number}"],
        "retrieved_contexts": [f"Maria Lopez {number} leads team {number}."],
        "retrieved_context_ids": [f"team-{number}"],
        "response": response,
    }


@pytest.fixture
def rows(workplace: Path) -> list[dict[str, object]]:
    """Thirty answers that agree with the reference, and ten labels that call five wrong."""
    rows = [row(number, f"Maria Lopez {number}") for number in range(SIZE)]
    lines(workplace / "answers.jsonl", rows)
    labels = []
    for number in range(LABELLED):
        label = {
            "question": rows[number]["query"],
            "answer": rows[number]["response"],
            "metric": "answer_correct",
            "value": number % 2,
            "by": "ann",
            "drawn": {"seed": 0, "of": SIZE},
        }
        labels.append(label)
    lines(workplace / "labels.jsonl", labels)
    return rows


COUNTS = "Of 30 cases: 25 right, 5 wrong. Decided: 10 by label, 20 by words."


def cells(column: str) -> Counter[str]:
    """How often cases.csv has each value of a column."""
    with Path("run/cases.csv").open(newline="", encoding="utf-8") as file:
        return Counter(case[column] for case in csv.DictReader(file))


@pytest.mark.usefixtures("rows")
def test_without_labels_the_screen_counts_and_names_no_share(ragbench: Ragbench) -> None:
    done = ragbench("eval", "answers.jsonl", "--out", "run")
    reported = ragbench("report", "run")

    assert "Of 30 cases: 30 agree with the reference." in done.flat
    assert "Label 30 for the share of right ones, or add --judge MODEL" in done.flat
    assert "ragbench label RUN -m answer_correct -n 30" in reported.flat
    assert "Right:" not in done.out
    assert cells("decided_by") == {"words": SIZE}


@pytest.mark.usefixtures("rows")
def test_labels_lead_the_screen_of_an_evaluation_and_its_files(ragbench: Ragbench) -> None:
    done = ragbench("eval", "answers.jsonl", "--out", "run", "--labels", "labels.jsonl")

    assert "Right: 50% (" in done.flat
    assert f"of 30 answers, corrected by 10 labels. {COUNTS}" in done.flat
    assert "not used 5" in done.flat
    assert cells("decided_by") == {"label": LABELLED, "words": SIZE - LABELLED}
    assert cells("answer_is") == {"right": 25, "wrong": 5}
    assert cells("cause") == {"right": 25, "not_used": 5}
    assert COUNTS in Path("run/report.html").read_text("utf-8")
    answers = json.loads(Path("run/report.json").read_text("utf-8"))["answers"]
    assert answers["by_label"] == 10
    assert answers["wrong"] == 5


@pytest.mark.usefixtures("rows")
def test_a_stored_run_is_decided_anew_by_labels_and_keeps_what_words_say(
    ragbench: Ragbench,
) -> None:
    ragbench("eval", "answers.jsonl", "--out", "run")

    with_labels = ragbench("report", "run", "--labels", "labels.jsonl")
    assert COUNTS in with_labels.flat
    assert cells("decided_by")["label"] == LABELLED

    without_labels = ragbench("report", "run")
    assert "30 agree with the reference" in without_labels.flat
    assert cells("decided_by") == {"words": SIZE}


@pytest.mark.usefixtures("rows")
def test_explain_shows_the_labelled_causes(ragbench: Ragbench) -> None:
    ragbench("eval", "answers.jsonl", "--out", "run")

    of_run = ragbench("explain", "run", "--labels", "labels.jsonl")
    of_case = ragbench("explain", "run", "q0", "--labels", "labels.jsonl")

    assert COUNTS in of_run.flat
    assert "not used 5" in of_run.flat
    assert "not used (by label): " in of_case.flat


@pytest.mark.usefixtures("rows")
def test_a_gate_says_who_decided_on_screen_and_page(ragbench: Ragbench) -> None:
    ragbench("eval", "answers.jsonl", "--out", "run")
    gate = ("gate", "run", "--min", "answer_correct=0.1")

    done = ragbench(*gate, "--labels", "labels.jsonl", "--html", "g.html")

    assert COUNTS in done.flat
    assert "not used" in Path("g.html").read_text("utf-8")


def test_a_comparison_follows_labels_from_cause_to_cause(
    ragbench: Ragbench, rows: list[dict[str, object]], workplace: Path
) -> None:
    ragbench("eval", "answers.jsonl", "--out", "before")
    later_rows = [{**row, "response": f"It is {row['reference']}"} for row in rows]
    lines(workplace / "answers.jsonl", later_rows)
    ragbench("eval", "answers.jsonl", "--out", "after")

    by_words = ragbench("compare", "before", "after")
    by_labels = ragbench("compare", "before", "after", "--labels", "labels.jsonl")

    assert "compares words, and understates differences" in by_words.flat
    assert "not used -> right" not in by_words.flat
    assert "not used -> right: 5" in by_labels.flat


def test_nothing_is_called_right_or_wrong_where_every_call_failed(ragbench: Ragbench) -> None:
    done = ragbench("eval", "office", "--rag", "rags:Broken", "--out", "run")
    assert "No case was answered" in done.flat
    assert "Right" not in done.out
