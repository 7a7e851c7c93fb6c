"""Declining, times and tokens."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ragbench.core.outcome import Cell
from ragbench.metrics.operational import token_counts
from tests.unit.metrics.builders import answered, cell, cells, generated, trace


@pytest.mark.parametrize(("response", "answerable", "expected"), [
    # accuracy, answer rate, abstention recall, abstention precision
    ("Paris", True, [1.0, 1.0, None, None]), ("I don't know.", True, [0.0, 0.0, None, 0.0]),
    ("Paris", False, [0.0, None, 0.0, None]),
    ("I don't know.", False, [1.0, None, 1.0, 1.0]),
])  # fmt: skip
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
    itself = trace(references=["Paris"], generation=generated("see above", abstained=True))
    assert cell(metric, itself) == abstention
    not_it = trace(references=["x"], generation=generated("I don't know.", abstained=False))
    assert cell(metric, not_it) != abstention


# --- times and tokens


@pytest.mark.parametrize(("metadata", "expected"), [
    ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 16}, {"prompt_tokens": 10.0,
     "response_tokens": 5.0, "total_tokens": 16.0}),
    ({"usage": {"completion_tokens": 5}}, {"response_tokens": 5.0}),
    ({"usage_metadata": {"input_tokens": 1, "output_tokens": 2}}, {"prompt_tokens": 1.0,
     "response_tokens": 2.0, "total_tokens": 3.0}),
    (SimpleNamespace(usage=SimpleNamespace(input_tokens=3, output_tokens=4)),
     {"prompt_tokens": 3.0, "response_tokens": 4.0, "total_tokens": 7.0}),
    ({"total_tokens": 9, "token_usage": {"total_tokens": 1}}, {"total_tokens": 9.0}),
    ({"prompt_tokens": 10, "total_tokens": 15}, {"prompt_tokens": 10.0, "total_tokens": 15.0}),
    ({"total_tokens": 0}, {"total_tokens": 0.0}),
    ({"cost": 0.25, "usage": {"input_tokens": 1}}, {"prompt_tokens": 1.0, "cost": 0.25}),
    ({"usage": {"total_cost": 2}, "cost": "much"}, {"cost": 2.0}),
    ({"total_tokens": float("inf")}, {}), ({"total_tokens": True}, {}), ({"total_tokens": -1}, {}),
    ({"total_tokens": float("nan")}, {}), ({"total_tokens": "12"}, {}), ({}, {}), (None, {}),
    ("12", {}),
])  # fmt: skip
def test_token_counts_are_read_and_never_estimated(metadata: Any, expected: Any) -> None:
    assert token_counts(metadata) == expected


def test_reported_tokens_and_costs_are_measured_and_others_skipped() -> None:
    one = trace(generation=generated("x", metadata={"usage": {"completion_tokens": 5}}))
    row = cells("response_tokens, prompt_tokens, total_tokens, generation_cost", one)[0]
    unknown = Cell.skipped("generation reported no token usage")
    no_cost = Cell.skipped("generation reported no cost")
    assert row == (Cell.measured(5.0), unknown, unknown, no_cost)
    paid = trace(generation=generated("x", metadata={"response_cost": 0.002}))
    assert cells("generation_cost", paid)[0] == (Cell.measured(0.002),)
