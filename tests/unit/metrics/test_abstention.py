from __future__ import annotations

import pytest

from ragbench import GenerationResult
from ragbench.core.outcome import Cell, Outcome, Status
from ragbench.metrics.abstention import abstained
from tests.unit.metrics.builders import answered, cell, cells, generated, trace


def test_what_the_system_says_itself_counts() -> None:
    assert abstained(GenerationResult("Paris", abstained=True))
    assert not abstained(GenerationResult("I don't know.", abstained=False))


@pytest.mark.parametrize(
    ("response", "answerable", "expected"),
    [
        # accuracy, answer rate, abstention recall, abstention precision
        ("Paris", True, [1.0, 1.0, None, None]),
        ("I don't know.", True, [0.0, 0.0, None, 0.0]),
        ("Paris", False, [0.0, None, 0.0, None]),
        ("I don't know.", False, [1.0, None, 1.0, 1.0]),
    ],
)
def test_the_table_of_answering(
    response: str, answerable: bool, expected: list[float | None]
) -> None:
    one = trace(answerable=answerable, generation=generated(response))
    names = "abstention_accuracy, answer_rate, abstention_recall, abstention_precision"
    row = cells(names, one)[0]
    assert [c.value for c in row] == expected
    assert all(c.reason for c in row if c.value is None)


@pytest.mark.parametrize(
    "metric", ["token_f1", "exact_match", "edit_similarity", "best_of_n", "brier", "ECE"]
)
def test_a_declined_answer_is_no_wrong_answer(metric: str) -> None:
    with_reference = answered("I don't know.", "Paris")
    without = trace(answerable=False, generation=generated("I don't know."))
    abstention = Cell.abstained("the system declined to answer")
    assert cell(metric, with_reference) == cell(metric, without) == abstention


def test_an_outcome_that_is_an_abstention_counts_whatever_it_says() -> None:
    value: GenerationResult = GenerationResult("see above")
    one = trace(references=["x"], generation=Outcome(status=Status.ABSTAINED, value=value))
    assert cell("token_f1", one).status is Status.ABSTAINED
