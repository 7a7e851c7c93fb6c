"""A column of people's verdicts on answers gets a hint that names --labels."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.cli.runs import Ragbench

HINT = "holds people's verdicts on the answers"


def table(column: str, values: list[str], *, answer: str = "response") -> str:
    """A file with a question, a right answer, the system's, and one more column."""
    with Path("cases.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["question", "ground_truth", answer, column])
        for number, value in enumerate(values):
            rows.writerow([f"Question {number}?", "It is blue.", "It is blue.", value])
    return "cases.csv"


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("OK?", ["yes", "no", "yes"]),
        ("correct?", ["TRUE", "FALSE", "TRUE"]),
        ("pass", ["1", "0", ""]),
        ("is_correct", ["y", "n", "y"]),
        ("Human verdict", ["right", "wrong", "partly"]),
        ("answerCorrect", ["\u2713", "\u2717", "\u2713"]),
    ],
)
def test_verdicts_get_a_hint_and_its_line_works(
    ragbench: Ragbench, column: str, values: list[str]
) -> None:
    path = table(column, values)
    labels = ("--labels", "answer_correct=cases.csv")

    done = ragbench("eval", path, "-o", "run", "-m", "answer_correct")
    labelled = ragbench("eval", path, "-o", "run2", "-m", "answer_correct", *labels)

    assert done.code == 0
    assert done.err.count(HINT) == 1
    assert f"'{column}' is not read" in done.err
    assert " ".join(labels) in done.err
    assert HINT not in done.out
    labelled.ok("corrected by labels of people")
    assert HINT not in labelled.err


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("OK?", ["yes", "no", "ask Ann"]),
        ("notes", ["yes", "no", "yes"]),
        ("not_ok", ["yes", "no", "yes"]),
        ("retrieval_correct", ["yes", "no", "yes"]),
        ("passage", ["1", "0", "1"]),
        ("correct?", ["", "", ""]),
    ],
)
def test_other_columns_get_none(ragbench: Ragbench, column: str, values: list[str]) -> None:
    path = table(column, values)

    done = ragbench("eval", path, "-o", "run", "-m", "answer_correct")

    assert done.code == 0
    assert HINT not in done.err


def test_a_file_whose_answer_may_be_the_systems_gets_the_line_that_says_so(
    ragbench: Ragbench,
) -> None:
    rows = "question,answer,OK?\nHow long?,30 days,yes\nHow much?,Nothing,no\n"
    Path("cases.csv").write_text(rows, encoding="utf-8")

    done = ragbench("eval", "cases.csv", "-o", "run")

    assert done.code == 2
    assert "--field response=answer --labels METRIC=cases.csv" in done.err
