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
from ragbench.validators.calibrate import (
    CalibrationReport,
    Labelled,
    expected_calibration_error,
    reliability,
)
from ragbench.validators.calibrate import calibrate as learned
from ragbench.validators.calibration import DecisionRule, PlattScale, Thresholds, calibration_text

calibrate = partial(learned, shipped=Thresholds(relevant=0.5, present=0.5))


def label(probability: float, present: bool, *, chunks: bool = False) -> Labelled:
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
    relevant = frozenset(["a"] if present else []) if chunks else None
    return Labelled(verdict=verdict, answer_present=present, relevant_chunk_ids=relevant)


def labelled(count: int, seed: int = 1) -> list[Labelled]:
    """Verdicts that are far too sure: the true probability is p squared."""
    draw = random.Random(seed)
    probabilities = [draw.random() for _ in range(count)]
    return [label(one, draw.random() < one**2, chunks=True) for one in probabilities]


def test_a_calibration_corrects_probabilities_and_reaches_the_precision() -> None:
    report = calibrate(labelled(2000), "lexical", precision=0.8)
    assert report.answer_before.calibration_error > 0.1
    assert report.answer_after.calibration_error < 0.05
    assert 0.75 <= (report.answer_after.precision or 0.0) <= 0.9
    assert report.chunk_after is not None
    assert report.calibration.labels == 2000
    assert report == calibrate(labelled(2000), "lexical", precision=0.8)
    # Of those above 0.5 seven in twelve are right: 0.8 costs two fifths of them.
    by_default = calibrate(labelled(2000), "lexical")
    assert by_default.calibration.thresholds == Thresholds(relevant=0.5, present=0.5)
    assert (report.answer_after.recall or 0) < 0.7 < (report.answer_before.recall or 0)


def test_what_cannot_be_learned_is_refused() -> None:
    with pytest.raises(InputError, match="at least 5 of either kind"):
        calibrate(labelled(8), "lexical")
    with pytest.raises(InputError, match="the precision must lie between 0 and 1"):
        calibrate(labelled(100), "lexical", precision=1.5)
    for error in (0.0, 1.0, -0.1):
        with pytest.raises(InputError, match="the error must lie between 0 and 1"):
            calibrate(labelled(100), "lexical", error=error)


def test_a_validator_takes_a_calibration_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    found = calibrate(labelled(300), "lexical", precision=0.8).calibration
    path.write_text(calibration_text(found))
    chunks = [Chunk(id="a", text="The company was founded in 1995.")]
    plain = build_validator("lexical")
    calibrated = build_validator({"name": "lexical", "calibration": str(path)})
    query = "What year was the company founded?"
    before, after = (one.validate(query, chunks).answer_probability for one in (plain, calibrated))
    assert after == pytest.approx(found.scale.apply(before), abs=1e-3)
    assert plain.identity != calibrated.identity


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    stored = json.loads(calibration_text(calibrate(labelled(100), "lexical").calibration))
    other = json.dumps({**stored, "validator": "llm"})
    for text, said in (
        ("{", "no calibration"),
        ('{"version": 9}', "version 9, not 3"),
        (other, "made for the validator 'llm'"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=said):
            build_validator({"name": "lexical", "calibration": str(path)})
    with pytest.raises(ConfigError, match="cannot be read"):
        build_validator({"name": "lexical", "calibration": str(tmp_path / "none.json")})


def test_calibration_error_by_hand() -> None:
    # Bin 0.2: mean 0.25, share 0.5, two rows; bin 0.9: mean 0.9, share 1, one row.
    rows = [0.2, 0.3 - 1e-9, 0.9], [True, False, True]
    assert reliability(*rows) == [(pytest.approx(0.25), 0.5, 2), (0.9, 1.0, 1)]
    assert expected_calibration_error(*rows) == pytest.approx((2 * 0.25 + 0.1) / 3)
    assert expected_calibration_error([], []) == 0.0


@given(st.floats(0.01, 5), st.floats(-5, 5), st.floats(0, 1), st.floats(0, 1))
def test_a_platt_scale_keeps_the_order_and_stays_a_probability(
    slope: float, offset: float, one: float, other: float
) -> None:
    scale = PlattScale(slope=slope, offset=offset)
    low, high = sorted((one, other))
    assert 0 <= scale.apply(low) <= scale.apply(high) <= 1


def test_a_platt_scale_by_hand() -> None:
    assert PlattScale().apply(0.3) == pytest.approx(0.3)
    assert PlattScale(slope=2.0, offset=math.log(3)).apply(0.5) == pytest.approx(0.75)
    with pytest.raises(ConfigError, match="above 0"):
        PlattScale(slope=-1.0)


# --- a guaranteed error


def drawn(draw: random.Random, negatives: int, positives: int, digits: int) -> list[float]:
    """Probabilities of queries without the answer, then of those with it: they overlap widely."""
    without = [draw.betavariate(1.2, 2.0) for _ in range(negatives)]
    having = [draw.betavariate(2.0, 1.2) for _ in range(positives)]
    return [round(one, digits) for one in (*without, *having)]


def calibrated(probabilities: list[float], negatives: int, error: float) -> CalibrationReport:
    labels = [label(one, at >= negatives) for at, one in enumerate(probabilities)]
    return calibrate(labels, "lexical", error=error)


def says_yes(report: CalibrationReport, probability: float) -> bool:
    """As a validator with this calibration does."""
    found = report.calibration
    rule = DecisionRule(scale=found.scale, thresholds=found.thresholds)
    return rule.on_scale(probability) >= found.thresholds.present


@pytest.mark.nightly
@pytest.mark.parametrize("digits", [4, 1], ids=["distinct", "tied"])
@pytest.mark.parametrize("error", [0.05, 0.2])
def test_the_error_holds_for_new_queries_that_are_drawn_alike(error: float, digits: int) -> None:
    """Over many sets of 60 labels without the answer: on average, as the guarantee says."""
    draw = random.Random(18)
    rates: list[float] = []
    for _ in range(60):
        report = calibrated(drawn(draw, 60, 20, digits), 60, error)
        new = drawn(draw, 200, 0, digits)
        rates.append(sum(says_yes(report, one) for one in new) / len(new))
    mean = sum(rates) / len(rates)
    spread = math.sqrt(sum((one - mean) ** 2 for one in rates)) / len(rates)
    assert mean <= error + 3 * spread
    if digits == 4:  # and it is not bought by saying No: of 61 places, so many are allowed
        assert mean >= math.floor(error * 61) / 61 - 3 * spread


def test_the_threshold_of_a_guaranteed_error_by_hand() -> None:
    # 19 scores and one to come are 20 places: of an error of 0.1 two may lie at or above it.
    without = [at / 20 for at in range(1, 20)]
    report = calibrated([*without, *[0.99] * 10], 19, 0.1)
    assert [one for one in without if says_yes(report, one)] == [0.95]
    assert says_yes(report, 0.99)
    assert report.error == 0.1


def test_too_few_labels_for_an_error_give_no_yes_at_all() -> None:
    # 15 scores and one to come: no share below 1/16 can be guaranteed.
    report = calibrated([*[0.01] * 15, *[1.0] * 15], 15, 0.05)
    assert not any(says_yes(report, one) for one in (0.01, 0.9, 0.999, 1.0))
    assert report.answer_after.called == 0


def test_what_other_errors_would_keep_rises_with_them() -> None:
    report = calibrated(drawn(random.Random(3), 400, 200, 4), 400, 0.02)
    assert [one.target for one in report.tradeoffs] == [0.01, 0.02, 0.05, 0.1]
    recalls = [one.quality.recall or 0.0 for one in report.tradeoffs]
    assert recalls == sorted(recalls)
    assert recalls[0] < recalls[-1]


# --- nothing that is not shown to be better


@pytest.mark.parametrize("seed", range(5))
def test_few_labels_move_the_level_and_no_threshold(seed: int) -> None:
    report = calibrate(labelled(60, seed), "lexical")
    assert report.calibration.thresholds == Thresholds(relevant=0.5, present=0.5)
    assert report.calibration.scale.offset < 0  # the probabilities are too high
    assert 0.7 < report.calibration.scale.slope < 1.4
    assert any("which query is ahead of which stays" in note for note in report.notes)


def test_twenty_labels_are_enough_to_move_the_level() -> None:
    # Of twenty queries that all are called .9 half have an answer.
    labels = [label(0.9, number % 2 == 0) for number in range(20)]
    report = calibrate(labels, "lexical")
    assert report.is_better
    assert report.calibration.scale.apply(0.9) < 0.7


def test_a_threshold_moved_by_few_labels_makes_more_verdicts_right_beyond_chance() -> None:
    # Above .6 a precision of 1 is four wrong Yes less, and so many answers lost.
    for lost, moves in ((3, False), (0, True)):
        answers = [0.9] * (25 - lost) + [0.6] * lost
        told = [(one, True) for one in answers] + [(0.6, False)] * 4 + [(0.1, False)] * 21
        assert says_yes(calibrate([label(*one) for one in told], "lexical"), 0.6) is not moves
