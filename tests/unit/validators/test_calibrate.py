"""What is learned from labels: scales, thresholds, guaranteed errors; and the file of it."""

import json
import math
import random
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import Chunk, build_validator
from ragbench.core.validation import RetrievalQuality, Verdict
from ragbench.errors import ConfigError, InputError
from ragbench.validators import calibrate as calibration_module
from ragbench.validators.calibrate import (
    CalibrationReport,
    Labelled,
    expected_calibration_error,
    reliability,
)
from ragbench.validators.calibration import DecisionRule, PlattScale, Thresholds, calibration_text

SHIPPED = Thresholds(relevant=0.5, present=0.5)
calibrate = partial(calibration_module.calibrate, shipped=SHIPPED)


def label(probability: float, present: bool, *, chunks: bool = False) -> Labelled:
    """A verdict with this probability, and whether the answer is there in truth."""
    is_yes = probability >= 0.5
    verdict = Verdict(
        query_id="",
        relevant_chunk_ids=("a",) if is_yes else (),
        evidence=(),
        message="",
        relevance={"a": probability, "b": probability / 4},
        answer_present=is_yes,
        answer_probability=probability,
        retrieval_quality=RetrievalQuality.POOR,
        validator="lexical",
    )
    relevant_chunk_ids = None
    if chunks:
        relevant_chunk_ids = frozenset(["a"] if present else [])
    return Labelled(verdict=verdict, answer_present=present, relevant_chunk_ids=relevant_chunk_ids)


def overconfident_labels(count: int, seed: int = 1) -> list[Labelled]:
    """Verdicts that are far too sure: the true probability is p squared."""
    draw = random.Random(seed)
    probabilities = [draw.random() for _ in range(count)]
    labels: list[Labelled] = []
    for probability in probabilities:
        present = draw.random() < probability**2
        labels.append(label(probability, present, chunks=True))
    return labels


# --- what is learned


@pytest.fixture(scope="module")
def report() -> CalibrationReport:
    """Of 2000 labels and a precision of 0.8.

    Of those above 0.5 seven in twelve are right: 0.8 costs two fifths of them.
    """
    return calibrate(overconfident_labels(2000), "lexical", precision=0.8)


def test_a_calibration_corrects_probabilities(report: CalibrationReport) -> None:
    assert report.calibration.labels == 2000
    assert report.answer_before.calibration_error > 0.1
    assert report.answer_after.calibration_error < 0.05
    assert report.chunk_after is not None


def test_a_calibration_reaches_the_precision(report: CalibrationReport) -> None:
    assert report.answer_after.precision is not None
    assert 0.75 <= report.answer_after.precision <= 0.9


def test_a_precision_costs_answers(report: CalibrationReport) -> None:
    assert report.answer_before.recall is not None
    assert report.answer_after.recall is not None
    assert report.answer_before.recall > 0.7
    assert report.answer_after.recall < 0.7


def test_the_same_labels_give_the_same_calibration(report: CalibrationReport) -> None:
    second_report = calibrate(overconfident_labels(2000), "lexical", precision=0.8)

    assert second_report == report


def test_where_no_precision_is_asked_for_the_shipped_thresholds_stay() -> None:
    report = calibrate(overconfident_labels(2000), "lexical")

    assert report.calibration.thresholds == SHIPPED


def test_too_few_labels_are_refused() -> None:
    with pytest.raises(InputError, match="at least 5 of either kind"):
        calibrate(overconfident_labels(8), "lexical")


def test_a_precision_that_is_no_share_is_refused() -> None:
    with pytest.raises(InputError, match="the precision must lie between 0 and 1"):
        calibrate(overconfident_labels(100), "lexical", precision=1.5)


@pytest.mark.parametrize("error", [0.0, 1.0, -0.1])
def test_an_error_that_is_no_share_is_refused(error: float) -> None:
    with pytest.raises(InputError, match="the error must lie between 0 and 1"):
        calibrate(overconfident_labels(100), "lexical", error=error)


# --- the file


def test_a_validator_applies_the_scale_of_its_calibration(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    calibration = calibrate(overconfident_labels(300), "lexical", precision=0.8).calibration
    path.write_text(calibration_text(calibration))
    plain = build_validator("lexical")
    calibrated = build_validator({"name": "lexical", "calibration": str(path)})
    query = "What year was the company founded?"
    chunks = [Chunk(id="a", text="The company was founded in 1995.")]

    before = plain.validate(query, chunks).answer_probability
    after = calibrated.validate(query, chunks).answer_probability

    assert after == pytest.approx(calibration.scale.apply(before), abs=1e-3)
    assert plain.identity != calibrated.identity


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "no calibration"), ('{"version": 9}', "version 9, not 3")],
    ids=["no JSON", "another version"],
)
def test_a_file_that_is_no_calibration_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(text)

    with pytest.raises(ConfigError, match=message):
        build_validator({"name": "lexical", "calibration": str(path)})


def test_a_calibration_of_another_validator_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    calibration = calibrate(overconfident_labels(100), "lexical").calibration
    stored = json.loads(calibration_text(calibration))
    path.write_text(json.dumps({**stored, "validator": "llm"}))

    with pytest.raises(ConfigError, match="made for the validator 'llm'"):
        build_validator({"name": "lexical", "calibration": str(path)})


def test_a_calibration_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        build_validator({"name": "lexical", "calibration": str(tmp_path / "none.json")})


# --- the parts of it, by hand

PROBABILITIES = [0.2, 0.3 - 1e-9, 0.9]
ANSWERS_PRESENT = [True, False, True]


def test_reliability_is_the_mean_probability_and_the_share_of_each_bin() -> None:
    bins = reliability(PROBABILITIES, ANSWERS_PRESENT)

    # From 0.2 to 0.3: two rows of 0.25 on average, one of them true; from 0.9: one row, true.
    assert bins == [
        (pytest.approx(0.25), 0.5, 2),
        (0.9, 1.0, 1),
    ]


def test_the_calibration_error_is_the_mean_distance_of_bins_weighed_by_their_rows() -> None:
    error = expected_calibration_error(PROBABILITIES, ANSWERS_PRESENT)

    # Two rows in a bin that is 0.25 off, one in a bin that is 0.1 off.
    assert error == pytest.approx((2 * 0.25 + 1 * 0.1) / 3)


def test_of_no_rows_the_calibration_error_is_nothing() -> None:
    assert expected_calibration_error([], []) == 0.0


@given(st.floats(0.01, 5), st.floats(-5, 5), st.floats(0, 1), st.floats(0, 1))
def test_a_platt_scale_keeps_the_order_and_stays_a_probability(
    slope: float, offset: float, probability: float, second_probability: float
) -> None:
    scale = PlattScale(slope=slope, offset=offset)
    low, high = sorted((probability, second_probability))

    assert 0 <= scale.apply(low) <= scale.apply(high) <= 1


def test_a_platt_scale_changes_nothing_by_default() -> None:
    assert PlattScale().apply(0.3) == pytest.approx(0.3)


def test_the_offset_of_a_platt_scale_is_added_to_the_log_of_the_odds() -> None:
    scale = PlattScale(slope=2.0, offset=math.log(3))

    # Odds of 1 : 1 become 3 : 1.
    assert scale.apply(0.5) == pytest.approx(0.75)


def test_a_platt_scale_that_would_turn_the_order_round_is_refused() -> None:
    with pytest.raises(ConfigError, match="above 0"):
        PlattScale(slope=-1.0)


# --- a guaranteed error


def random_probabilities(
    draw: random.Random, *, negatives: int, positives: int, digits: int
) -> list[float]:
    """Probabilities of queries without the answer, then of those with it: they overlap widely."""
    without_answer = [draw.betavariate(1.2, 2.0) for _ in range(negatives)]
    with_answer = [draw.betavariate(2.0, 1.2) for _ in range(positives)]
    return [round(probability, digits) for probability in (*without_answer, *with_answer)]


def calibrated(probabilities: list[float], *, negatives: int, error: float) -> CalibrationReport:
    """Of probabilities of which the first so many are of queries without the answer."""
    labels: list[Labelled] = []
    for position, probability in enumerate(probabilities):
        labels.append(label(probability, present=position >= negatives))
    return calibrate(labels, "lexical", error=error)


def says_yes(report: CalibrationReport, probability: float) -> bool:
    """As a validator with this calibration does."""
    calibration = report.calibration
    rule = DecisionRule(scale=calibration.scale, thresholds=calibration.thresholds)
    return rule.on_scale(probability) >= calibration.thresholds.present


@pytest.mark.nightly
@pytest.mark.parametrize("digits", [4, 1], ids=["distinct", "tied"])
@pytest.mark.parametrize("error", [0.05, 0.2])
def test_the_error_holds_for_new_queries_that_are_drawn_alike(error: float, digits: int) -> None:
    """Over many sets of 60 labels without the answer: on average, as the guarantee says."""
    draw = random.Random(18)
    rates: list[float] = []
    for _ in range(60):
        labelled = random_probabilities(draw, negatives=60, positives=20, digits=digits)
        report = calibrated(labelled, negatives=60, error=error)
        new_queries = random_probabilities(draw, negatives=200, positives=0, digits=digits)
        wrong_yes = [probability for probability in new_queries if says_yes(report, probability)]
        rates.append(len(wrong_yes) / 200)

    mean = sum(rates) / 60
    squares = [(rate - mean) ** 2 for rate in rates]
    standard_error = math.sqrt(sum(squares)) / 60
    assert mean <= error + 3 * standard_error
    # And it is not bought by saying No: of 61 places, so many are allowed. Ties cost some of them.
    if digits == 4:
        allowed = math.floor(error * 61) / 61
        assert mean >= allowed - 3 * standard_error


def test_the_threshold_of_a_guaranteed_error_by_hand() -> None:
    # 19 scores and one to come are 20 places: of an error of 0.1 two may lie at or above it.
    without_answer = [number / 20 for number in range(1, 20)]
    with_answer = [0.99] * 10

    report = calibrated([*without_answer, *with_answer], negatives=19, error=0.1)

    wrong_yes = [probability for probability in without_answer if says_yes(report, probability)]
    assert wrong_yes == [0.95]
    assert says_yes(report, 0.99)
    assert report.error == 0.1


@pytest.mark.parametrize("probability", [0.01, 0.9, 0.999, 1.0])
def test_too_few_labels_for_an_error_give_no_yes_at_all(probability: float) -> None:
    # 15 scores and one to come: no share below 1/16 can be guaranteed.
    without_answer = [0.01] * 15
    with_answer = [1.0] * 15

    report = calibrated([*without_answer, *with_answer], negatives=15, error=0.05)

    assert not says_yes(report, probability)
    assert report.answer_after.called == 0


def test_what_other_errors_would_keep_rises_with_them() -> None:
    draw = random.Random(3)
    probabilities = random_probabilities(draw, negatives=400, positives=200, digits=4)

    report = calibrated(probabilities, negatives=400, error=0.02)

    assert [tradeoff.target for tradeoff in report.tradeoffs] == [0.01, 0.02, 0.05, 0.1]
    recalls = [tradeoff.quality.recall or 0.0 for tradeoff in report.tradeoffs]
    assert recalls == sorted(recalls)
    assert recalls[0] < recalls[-1]


# --- nothing that is not shown to be better


@pytest.mark.parametrize("seed", range(5))
def test_few_labels_move_the_level_and_no_threshold(seed: int) -> None:
    report = calibrate(overconfident_labels(60, seed), "lexical")

    assert report.calibration.thresholds == SHIPPED
    assert report.calibration.scale.offset < 0  # the probabilities are too high
    assert 0.7 < report.calibration.scale.slope < 1.4
    assert "which query is ahead of which stays" in "\n".join(report.notes)


def test_twenty_labels_are_enough_to_move_the_level() -> None:
    # Of twenty queries that all are called .9 half have an answer.
    labels = [label(0.9, present=number % 2 == 0) for number in range(20)]

    report = calibrate(labels, "lexical")

    assert report.is_better
    assert report.calibration.scale.apply(0.9) < 0.7


@pytest.mark.parametrize(
    ("lost_answers", "threshold_moves"),
    [
        pytest.param(0, True, id="four wrong Yes less for nothing"),
        pytest.param(3, False, id="four wrong Yes less for three answers"),
    ],
)
def test_a_threshold_moved_by_few_labels_makes_more_verdicts_right_beyond_chance(
    lost_answers: int, threshold_moves: bool
) -> None:
    # A threshold above .6 calls the four wrong ones No, and the answers that lie there, too.
    labels = [label(0.9, present=True)] * (25 - lost_answers)
    labels += [label(0.6, present=True)] * lost_answers
    labels += [label(0.6, present=False)] * 4
    labels += [label(0.1, present=False)] * 21

    report = calibrate(labels, "lexical")

    assert says_yes(report, 0.6) is not threshold_moves
