"""No pair of a question and a text is read twice, and a broken file costs time alone."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ragbench.text.pair_reader import PairReading
from ragbench.validators.local import kept_readings, readings_file

asked: list[str] = []


def read(texts: Sequence[str]) -> tuple[list[PairReading], tuple[str, ...]]:
    asked.extend(texts)
    found = [
        PairReading(logit=len(one) / 3, span=0.1, start=1, end=2, answers=None if at else -0.5)
        for at, one in enumerate(texts)
    ]
    return found, ("cut",) if "long" in texts else ()


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    asked.clear()
    monkeypatch.setenv("RAGBENCH_READINGS", str(tmp_path / "deep" / "readings.sqlite"))
    return tmp_path


def test_what_is_known_is_not_read_again_in_any_order() -> None:
    first, _ = kept_readings("r", "q?", ["a", "bb"], read)
    again, _ = kept_readings("r", "q?", ["ccc", "bb", "a", "bb"], read)
    assert asked == ["a", "bb", "ccc"]
    assert again[1:] == [first[1], first[0], first[1]]
    kept_readings("r", "other?", ["a"], read)
    kept_readings("another reader", "q?", ["a"], read)
    assert asked[3:] == ["a", "a"]


def test_what_was_not_read_whole_is_said_each_time() -> None:
    for _ in range(2):
        assert kept_readings("r", "q?", ["long"], read)[1] == ("cut",)
    assert asked == ["long", "long"]


def test_a_file_that_is_none_is_done_without(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = place / "broken.sqlite"
    broken.write_bytes(b"no database at all, " * 99)
    for named in (str(broken), str(broken / "below"), "off"):
        monkeypatch.setenv("RAGBENCH_READINGS", named)
        assert len(kept_readings("r", "q?", ["a"], read)[0]) == 1
    assert asked == ["a", "a", "a"]


def test_it_lies_in_the_users_cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(place))
    monkeypatch.delenv("RAGBENCH_READINGS")
    assert readings_file() == place / "ragbench" / "readings.sqlite"
    monkeypatch.setenv("RAGBENCH_READINGS", "off")
    assert readings_file() is None
