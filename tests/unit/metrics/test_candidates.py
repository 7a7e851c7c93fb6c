"""Several answers, confidence, declining, times and tokens."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ragbench.core.outcome import Cell
from ragbench.metrics.candidates import expected_calibration_error
from ragbench.metrics.operational import token_counts
from tests.unit.metrics.builders import answered, cell, generated, trace, value

# --- several answers


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        # Token F1 of dog is 0, of fox 2/3, of red fox 1.
        ("best_of_n", 1.0),
        ("best_of_n(n=1)", 0.0),
        ("best_of_n(n=2)", 2 / 3),
        ("best_of_n(n=99)", 1.0),
        ("best_of_n(n=2, metric=exact_match)", 0.0),
        ("best_of_n(metric=exact_match)", 1.0),
        # "fox" is "red fox" without four of its seven characters.
        ("best_of_n(n=2, metric=edit_similarity)", 3 / 7),
    ],
)
def test_the_best_of_the_first_candidates_counts(metric: str, expected: float) -> None:
    answer = generated("x", candidates=["dog", "fox", "red fox"])
    case = trace(references=["red fox"], generation=answer)

    assert value(metric, case) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("candidates", "agreement"),
    [
        (["red fox", "Red fox.", "the red fox"], 1.0),
        (["red", "fox", "dog"], 0.0),
        # red fox / red dog 1/2, red fox / fox 2/3, red dog / fox 0
        (["red fox", "red dog", "fox"], (1 / 2 + 2 / 3) / 3),
    ],
)
def test_candidates_agree_by_the_mean_of_their_pairs(
    candidates: list[str], agreement: float
) -> None:
    case = trace(generation=generated("x", candidates=candidates))

    assert value("candidate_agreement", case) == pytest.approx(agreement)


def test_a_single_candidate_has_nobody_to_agree_with() -> None:
    case = trace(generation=generated("x", candidates=["red"]))

    assert cell("candidate_agreement", case).value is None


# --- confidence


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
    """The reference is "red fox"; the gap is what a case adds to the calibration error."""
    case = trace(references=["red fox"], generation=generated(response, confidence=confidence))

    assert value(f"brier{setting}", case) == pytest.approx(brier)
    assert value(f"ECE{setting}", case) == pytest.approx(gap)


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
def test_the_calibration_error_computed_by_hand(
    gaps: list[float], bins: int, expected: float
) -> None:
    """A gap is 1 - confidence of a right answer, and - confidence of a wrong one."""
    assert expected_calibration_error(gaps, bins=bins) == pytest.approx(expected)


# --- declining


@pytest.mark.parametrize(
    ("response", "answerable", "accuracy", "answer_rate", "recall", "precision"),
    [
        ("Paris", True, 1.0, 1.0, None, None),
        ("I don't know.", True, 0.0, 0.0, None, 0.0),
        ("Paris", False, 0.0, None, 0.0, None),
        ("I don't know.", False, 1.0, None, 1.0, 1.0),
    ],
)
def test_the_table_of_answering(
    response: str,
    answerable: bool,
    accuracy: float,
    answer_rate: float | None,
    recall: float | None,
    precision: float | None,
) -> None:
    case = trace(answerable=answerable, generation=generated(response))

    assert cell("abstention_accuracy", case).value == accuracy
    assert cell("answer_rate", case).value == answer_rate
    assert cell("abstention_recall", case).value == recall
    assert cell("abstention_precision", case).value == precision


@pytest.mark.parametrize(
    ("metric", "response", "answerable"),
    [
        ("answer_rate", "Paris", False),
        ("abstention_recall", "Paris", True),
        ("abstention_precision", "Paris", True),
    ],
)
def test_a_figure_of_answering_that_does_not_apply_says_why(
    metric: str, response: str, answerable: bool
) -> None:
    case = trace(answerable=answerable, generation=generated(response))

    assert cell(metric, case).reason


ABSTAINED = Cell.abstained("the system declined to answer")
ANSWER_METRICS = [
    "token_f1",
    "exact_match",
    "edit_similarity",
    "best_of_n",
    "brier",
    "ECE",
    "answer_correct",
]


@pytest.mark.parametrize("metric", ANSWER_METRICS)
@pytest.mark.parametrize(
    "case",
    [
        answered("I don't know.", "Paris"),
        trace(answerable=False, generation=generated("I don't know.")),
        trace(references=["Paris"], generation=generated("see above", abstained=True)),
    ],
    ids=["with a reference", "without an answer", "the system says so"],
)
def test_a_declined_answer_is_no_wrong_answer(metric: str, case: Any) -> None:
    assert cell(metric, case) == ABSTAINED


@pytest.mark.parametrize("metric", ANSWER_METRICS)
def test_a_system_may_say_that_it_does_not_decline(metric: str) -> None:
    answer = generated("I don't know.", abstained=False)

    assert cell(metric, trace(references=["x"], generation=answer)) != ABSTAINED


# --- times and tokens


@pytest.mark.parametrize(
    ("metadata", "counts"),
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
    ],
)
def test_token_counts_are_read(metadata: Any, counts: dict[str, float]) -> None:
    assert token_counts(metadata) == counts


@pytest.mark.parametrize(
    "metadata",
    [
        {"total_tokens": float("inf")},
        {"total_tokens": float("nan")},
        {"total_tokens": True},
        {"total_tokens": -1},
        {"total_tokens": "12"},
        {},
        None,
        "12",
    ],
)
def test_token_counts_are_never_estimated(metadata: Any) -> None:
    assert token_counts(metadata) == {}


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("response_tokens", Cell.measured(5.0)),
        ("prompt_tokens", Cell.skipped("generation reported no token usage")),
        ("total_tokens", Cell.skipped("generation reported no token usage")),
        ("generation_cost", Cell.skipped("generation reported no cost")),
    ],
)
def test_reported_tokens_are_measured_and_others_skipped(metric: str, expected: Cell) -> None:
    case = trace(generation=generated("x", metadata={"usage": {"completion_tokens": 5}}))

    assert cell(metric, case) == expected


def test_a_reported_cost_is_measured() -> None:
    case = trace(generation=generated("x", metadata={"response_cost": 0.002}))

    assert cell("generation_cost", case) == Cell.measured(0.002)
