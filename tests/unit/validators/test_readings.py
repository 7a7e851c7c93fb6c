"""No pair of a question and a text is read twice, and a broken file costs time alone."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ragbench.text.pair_reader import PairReading
from ragbench.validators.local import kept_readings, readings_file


class Reader:
    """Reads by the length of a text, and notes what it reads; "long" it reads in part."""

    def __init__(self) -> None:
        self.texts_read: list[str] = []

    def read(self, texts: Sequence[str]) -> tuple[list[PairReading], tuple[str, ...]]:
        self.texts_read += texts
        readings: list[PairReading] = []
        for text in texts:
            # Some readers say whether a text answers, others do not.
            answers = -0.5 if text == "a" else None
            reading = PairReading(logit=len(text) / 3, span=0.1, start=1, end=2, answers=answers)
            readings.append(reading)
        warnings = ("cut",) if "long" in texts else ()
        return readings, warnings


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture(autouse=True)
def kept_in_a_folder_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGBENCH_READINGS", str(tmp_path / "deep" / "readings.sqlite"))


def test_what_is_known_is_not_read_again_in_any_order(reader: Reader) -> None:
    (reading_of_a, reading_of_bb), _ = kept_readings("r", "q?", ["a", "bb"], reader.read)

    readings, _ = kept_readings("r", "q?", ["ccc", "bb", "a", "bb"], reader.read)

    assert reader.texts_read == ["a", "bb", "ccc"]
    assert readings[1:] == [reading_of_bb, reading_of_a, reading_of_bb]


@pytest.mark.parametrize(
    ("reader_name", "query"),
    [pytest.param("r", "other?", id="another question"), ("another reader", "q?")],
)
def test_another_question_or_reader_reads_again(
    reader: Reader, reader_name: str, query: str
) -> None:
    kept_readings("r", "q?", ["a"], reader.read)

    kept_readings(reader_name, query, ["a"], reader.read)

    assert reader.texts_read == ["a", "a"]


def test_what_was_not_read_whole_is_read_and_said_each_time(reader: Reader) -> None:
    _, first_warnings = kept_readings("r", "q?", ["long"], reader.read)
    _, second_warnings = kept_readings("r", "q?", ["long"], reader.read)

    assert first_warnings == ("cut",)
    assert second_warnings == ("cut",)
    assert reader.texts_read == ["long", "long"]


@pytest.mark.parametrize("setting", ["broken.sqlite", "broken.sqlite/below", "off"])
def test_a_file_that_cannot_be_used_is_done_without(
    reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    (tmp_path / "broken.sqlite").write_bytes(b"no database at all, " * 99)
    path = "off" if setting == "off" else str(tmp_path / setting)
    monkeypatch.setenv("RAGBENCH_READINGS", path)

    readings, _ = kept_readings("r", "q?", ["a"], reader.read)

    assert len(readings) == 1
    assert reader.texts_read == ["a"]


def test_the_file_lies_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("RAGBENCH_READINGS")

    assert readings_file() == tmp_path / "ragbench" / "readings.sqlite"


def test_off_keeps_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGBENCH_READINGS", "off")

    assert readings_file() is None
