from __future__ import annotations

import pytest

from ragbench.core.outcome import Cell
from ragbench.metrics.candidates import expected_calibration_error
from ragbench.metrics.registry import parse_metric
from tests.unit.metrics.builders import cell, cells, generated, trace, value


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("best_of_n", 1.0),
        ("best_of_n(n=1)", 0.0),
        ("best_of_n(n=2)", 2 / 3),
        ("best_of_n(n=99)", 1.0),
        ("best_of_n(n=2, metric=exact_match)", 0.0),
        ("best_of_n(metric=exact_match)", 1.0),
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
        # red fox / red dog 1/2, red fox / fox 2/3, red dog / fox 0
        (["red fox", "red dog", "fox"], (1 / 2 + 2 / 3) / 3),
    ],
)
def test_candidate_agreement(candidates: list[str], expected: float) -> None:
    one = trace(generation=generated("x", candidates=candidates))
    assert value("candidate_agreement", one) == pytest.approx(expected)


def test_one_candidate_agrees_with_nobody() -> None:
    one = trace(generation=generated("x", candidates=["x"]))
    assert cell("candidate_agreement", one) == Cell.skipped("fewer than two candidates")


@pytest.mark.parametrize(
    ("response", "confidence", "brier", "gap"),
    [
        ("red fox", 1.0, 0.0, 0.0),
        ("red fox", 0.8, 0.04, 0.2),
        ("dog", 0.8, 0.64, -0.8),
        ("dog", 0.0, 0.0, 0.0),
        ("fox", 0.5, 0.25, 0.5),  # token F1 is 2/3: correct
    ],
)
def test_calibration_of_one_answer(
    response: str, confidence: float, brier: float, gap: float
) -> None:
    one = trace(references=["red fox"], generation=generated(response, confidence=confidence))
    row = cells("brier, ECE", one)[0]
    assert [c.value for c in row] == pytest.approx([brier, gap])


def test_an_answer_is_correct_from_the_threshold_on() -> None:
    # Token F1 of "red cat" and "red fox" is 1/2; of "fox" and "red fox" 2/3.
    half = trace(references=["red fox"], generation=generated("red cat", confidence=0.75))
    most = trace(references=["red fox"], generation=generated("fox", confidence=0.75))
    for one in (half, most):
        assert [c.value for c in cells("brier, ECE", one)[0]] == [0.0625, 0.25]
    # Of "red cat dog" it is 2/5: wrong.
    less = trace(references=["red fox"], generation=generated("red cat dog", confidence=0.75))
    assert [c.value for c in cells("brier, ECE", less)[0]] == [0.5625, -0.75]
    assert value("brier(threshold=0.7)", most) == 0.5625
    assert value("brier(threshold=0)", half) == 0.0625


def test_there_are_ten_bins_and_the_last_one_holds_certainty() -> None:
    # 0.05 right and 0.095 wrong are in the first of ten bins, and would not be of eleven.
    assert expected_calibration_error([0.95, -0.095]) == pytest.approx((0.95 - 0.095) / 2)
    # 0.05 right and 0.105 wrong are in two of ten bins, and would be in one of nine.
    assert expected_calibration_error([0.95, -0.105]) == pytest.approx((0.95 + 0.105) / 2)
    assert parse_metric("ECE").parameter("bins") == 10
    # 1.0 wrong is in the bin of 0.9 right.
    assert expected_calibration_error([-1.0, 0.1], bins=2) == pytest.approx(0.45)


def test_ece_computed_by_hand() -> None:
    # Confidence 0.9 right, 0.7 wrong: accuracy 0.5, mean confidence 0.8. Confidence 0.2 wrong.
    assert expected_calibration_error([0.1, -0.7, -0.2], bins=2) == pytest.approx(
        2 / 3 * 0.3 + 1 / 3 * 0.2
    )
    assert expected_calibration_error([0.0, 0.0], bins=2) == 0.0
    assert expected_calibration_error([-1.0, -1.0], bins=2) == 1.0
