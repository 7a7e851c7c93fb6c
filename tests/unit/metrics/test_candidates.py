"""Several answers, confidence, declining, times and tokens."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ragbench.core.outcome import Cell
from ragbench.metrics.candidates import expected_calibration_error
from ragbench.metrics.operational import token_counts
from tests.unit.metrics.builders import answered, cell, cells, generated, trace, value


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("best_of_n", 1.0),
        ("best_of_n(n=1)", 0.0),
        ("best_of_n(n=2)", 2 / 3),
        ("best_of_n(n=99)", 1.0),
        ("best_of_n(n=2, metric=exact_match)", 0.0),
        ("best_of_n(metric=exact_match)", 1.0),
        ("best_of_n(n=2, metric=edit_similarity)", 3 / 7),
    ],
)
def test_best_of_n(metric: str, expected: float) -> None:
    one = trace(
        references=["red fox"], generation=generated("x", candidates=["dog", "fox", "red fox"])
    )
    assert value(metric, one) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        (["red fox", "Red fox.", "the red fox"], 1.0),
        (["red", "fox", "dog"], 0.0),
        (["red"], None),  # nobody to agree with
        # red fox / red dog 1/2, red fox / fox 2/3, red dog / fox 0
        (["red fox", "red dog", "fox"], (1 / 2 + 2 / 3) / 3),
    ],
)
def test_candidate_agreement(candidates: list[str], expected: float | None) -> None:
    one = trace(generation=generated("x", candidates=candidates))
    found = cell("candidate_agreement", one)
    assert found.value == (None if expected is None else pytest.approx(expected)), found


@pytest.mark.parametrize(
    ("setting", "response", "confidence", "brier", "gap"),
    [
        ("", "red fox", 1.0, 0.0, 0.0),
        ("", "red fox", 0.8, 0.04, 0.2),
        ("", "dog", 0.8, 0.64, -0.8),
        ("", "dog", 0.0, 0.0, 0.0),
        # An answer is correct from a token F1 of 1/2 on.
        ("", "fox", 0.75, 0.0625, 0.25),  # 2/3
        ("", "red cat", 0.75, 0.0625, 0.25),  # 1/2
        ("", "red cat dog", 0.75, 0.5625, -0.75),  # 2/5
        ("(threshold=0.7)", "fox", 0.75, 0.5625, -0.75),
        ("(threshold=0)", "red cat", 0.75, 0.0625, 0.25),
        # Token F1 is 4/5; 4 of 11 characters are to be deleted.
        ("(by=token_f1, threshold=0.8)", "red old fox", 1.0, 0.0, 0.0),
        ("(by=exact_match, threshold=0.6)", "red old fox", 1.0, 1.0, -1.0),
        ("(by=edit_similarity, threshold=0.6)", "red old fox", 1.0, 0.0, 0.0),
        ("(by=edit_similarity, threshold=0.7)", "red old fox", 1.0, 1.0, -1.0),
    ],
)
def test_calibration_of_one_answer(
    setting: str, response: str, confidence: float, brier: float, gap: float
) -> None:
    one = trace(references=["red fox"], generation=generated(response, confidence=confidence))
    row = cells(f"brier{setting}, ECE{setting}", one)[0]
    assert [c.value for c in row] == pytest.approx([brier, gap])


@pytest.mark.parametrize(
    ("gaps", "bins", "expected"),
    [
        # Confidence 0.9 right, 0.7 wrong: accuracy 0.5, mean confidence 0.8. 0.2 wrong.
        ([0.1, -0.7, -0.2], 2, 2 / 3 * 0.3 + 1 / 3 * 0.2),
        ([0.0, 0.0], 2, 0.0),
        ([-1.0, -1.0], 2, 1.0),
        ([-1.0, 0.1], 2, 0.45),  # 1.0 wrong is in the last bin, with 0.9 right
        # 0.05 right is in one of ten bins with 0.095 wrong, and in another than 0.105 wrong.
        ([0.95, -0.095], 10, (0.95 - 0.095) / 2),
        ([0.95, -0.105], 10, (0.95 + 0.105) / 2),
    ],
)
def test_ece_computed_by_hand(gaps: list[float], bins: int, expected: float) -> None:
    assert expected_calibration_error(gaps, bins=bins) == pytest.approx(expected)


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
    "metric",
    ["token_f1", "exact_match", "edit_similarity", "best_of_n", "brier", "ECE", "answer_correct"],
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


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 16},
            {"prompt_tokens": 10.0, "response_tokens": 5.0, "total_tokens": 16.0},
        ),
        ({"usage": {"completion_tokens": 5}}, {"response_tokens": 5.0}),
        (
            {"usage_metadata": {"input_tokens": 1, "output_tokens": 2}},
            {"prompt_tokens": 1.0, "response_tokens": 2.0, "total_tokens": 3.0},
        ),
        (
            SimpleNamespace(usage=SimpleNamespace(input_tokens=3, output_tokens=4)),
            {"prompt_tokens": 3.0, "response_tokens": 4.0, "total_tokens": 7.0},
        ),
        ({"total_tokens": 9, "token_usage": {"total_tokens": 1}}, {"total_tokens": 9.0}),
        ({"prompt_tokens": 10, "total_tokens": 15}, {"prompt_tokens": 10.0, "total_tokens": 15.0}),
        ({"total_tokens": 0}, {"total_tokens": 0.0}),
        ({"cost": 0.25, "usage": {"input_tokens": 1}}, {"prompt_tokens": 1.0, "cost": 0.25}),
        ({"usage": {"total_cost": 2}, "cost": "much"}, {"cost": 2.0}),
        ({"total_tokens": float("inf")}, {}),
        ({"total_tokens": True}, {}),
        ({"total_tokens": -1}, {}),
        ({"total_tokens": float("nan")}, {}),
        ({"total_tokens": "12"}, {}),
        ({}, {}),
        (None, {}),
        ("12", {}),
    ],
)
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
