import json
import math
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import Chunk
from ragbench.core.validation import RetrievalQuality, Verdict
from ragbench.errors import ConfigError, InputError
from ragbench.validators.calibrate import (
    CalibrationReport,
    Label,
    calibrate,
    expected_calibration_error,
    reliability,
)
from ragbench.validators.calibration import (
    DecisionRule,
    PlattScale,
    calibration_text,
    read_calibration,
)
from ragbench.validators.lexical import LexicalValidator


def verdict(id_: str, probability: float) -> Verdict:
    return Verdict(
        query_id=id_,
        relevant_chunk_ids=("a",) if probability >= 0.5 else (),
        relevance={"a": probability, "b": probability / 4},
        answer_present=probability >= 0.5,
        answer_probability=probability,
        evidence=(),
        retrieval_quality=RetrievalQuality.POOR,
        message="",
        validator="lexical",
    )


def labelled(count: int, *, seed: int = 1) -> tuple[list[Verdict], list[Label]]:
    """Verdicts that are far too sure: the true probability is p squared."""
    draw = random.Random(seed)
    verdicts, labels = [], []
    for number in range(count):
        probability = draw.random()
        present = draw.random() < probability**2
        verdicts.append(verdict(str(number), probability))
        chunks = frozenset(["a"] if present else [])
        labels.append(
            Label(query_id=str(number), answer_present=present, relevant_chunk_ids=chunks)
        )
    return verdicts, labels


def test_a_calibration_mends_probabilities_and_reaches_the_precision() -> None:
    verdicts, labels = labelled(2000)
    report = calibrate(verdicts, labels, precision=0.8)
    assert report.answer_before.calibration_error > 0.1
    assert report.answer_after.calibration_error < 0.05
    precision = report.answer_after.precision
    assert precision is not None
    assert 0.75 <= precision <= 0.9
    assert report.chunk_after is not None
    assert report.calibration.labels == 2000


def test_the_same_labels_give_the_same_calibration() -> None:
    verdicts, labels = labelled(100)
    assert calibrate(verdicts, labels) == calibrate(verdicts, labels)


def test_a_precision_that_few_labels_cannot_show_is_told_of() -> None:
    verdicts, labels = labelled(60)
    assert any("More labels" in note for note in calibrate(verdicts, labels).notes)


def test_too_few_labels_and_mixed_verdicts_are_refused() -> None:
    verdicts, labels = labelled(12)
    with pytest.raises(InputError, match="at least 10 of either kind"):
        calibrate(verdicts, labels)
    with pytest.raises(InputError, match="between 0 and 1"):
        calibrate(verdicts, labels, precision=1.5)


def test_a_validator_takes_a_calibration_from_its_file(tmp_path: Path) -> None:
    verdicts, labels = labelled(300)
    path = tmp_path / "calibration.json"
    found = calibrate(verdicts, labels, precision=0.8).calibration
    path.write_text(calibration_text(found))
    assert read_calibration(str(path), "lexical") == found
    plain = LexicalValidator()
    mended = LexicalValidator(calibration=str(path))
    chunks = [Chunk(id="a", text="The company was founded in 1995.")]
    query = "What year was the company founded?"
    before = plain.validate(query, chunks).answer_probability
    after = mended.validate(query, chunks).answer_probability
    assert after == pytest.approx(found.scale.apply(before), abs=1e-3)
    assert plain.identity != mended.identity


def test_a_file_that_is_no_calibration_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    for text, told in [("{", "no calibration"), ('{"version": 9}', "version 9, not 2")]:
        path.write_text(text)
        with pytest.raises(ConfigError, match=told):
            LexicalValidator(calibration=str(path))
    verdicts, labels = labelled(100)
    stored = json.loads(calibration_text(calibrate(verdicts, labels).calibration))
    path.write_text(json.dumps({**stored, "validator": "llm"}))
    with pytest.raises(ConfigError, match="made for the validator 'llm'"):
        LexicalValidator(calibration=str(path))
    with pytest.raises(ConfigError, match="cannot be read"):
        LexicalValidator(calibration=str(tmp_path / "none.json"))


def test_calibration_error_by_hand() -> None:
    # Bin 0.2: mean 0.25, share 0.5, two rows; bin 0.9: mean 0.9, share 1, one row.
    assert reliability([0.2, 0.3 - 1e-9, 0.9], [True, False, True]) == [
        (pytest.approx(0.25), 0.5, 2),
        (0.9, 1.0, 1),
    ]
    assert expected_calibration_error([0.2, 0.3 - 1e-9, 0.9], [True, False, True]) == pytest.approx(
        (2 * 0.25 + 0.1) / 3
    )
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
    verdicts = [verdict(str(at), one) for at, one in enumerate(probabilities)]
    labels = [
        Label(query_id=str(at), answer_present=at >= negatives) for at, _ in enumerate(verdicts)
    ]
    return calibrate(verdicts, labels, error=error)


def says_yes(report: CalibrationReport, probability: float) -> bool:
    """As a validator with this calibration does."""
    found = report.calibration
    rule = DecisionRule(scale=found.scale, thresholds=found.thresholds)
    return rule.on_scale(probability) >= found.thresholds.present


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
        assert report.error == error
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


@pytest.mark.parametrize("error", [0.0, 1.0, -0.1, 2.0])
def test_an_error_that_is_no_share_is_refused(error: float) -> None:
    verdicts, labels = labelled(100)
    with pytest.raises(InputError, match="the error must lie between 0 and 1"):
        calibrate(verdicts, labels, error=error)
