import json
import math
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.core.chunk import Chunk
from ragbench.core.validation import RetrievalQuality, Verdict
from ragbench.errors import ConfigError, InputError
from ragbench.validators.calibrate import Label, calibrate, expected_calibration_error, reliability
from ragbench.validators.calibration import PlattScale, calibration_text, read_calibration
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
