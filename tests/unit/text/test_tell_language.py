"""A language is told only where script or words really tell."""

from __future__ import annotations

import pytest

from ragbench.text.language import tell_language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Where is the help desk and who is there?", "en"),
        ("Wo ist der Schalter, und wer ist da?", "de"),
        ("Où est le guichet et qui est là pour nous ?", "fr"),
        ("员工每年有二十七天的带薪休假。", "zh"),
        ("休暇は年に何日ありますか", "ja"),
        ("Сколько дней отпуска?", "ru"),
        ("Berlin Paris London 42", None),
        ("", None),
        ("The name 東京 is a name of a city in the east.", "en"),
        ("in", None),
    ],
)
def test_languages(text: str, language: str | None) -> None:
    assert tell_language(text) == language


def test_one_word_is_enough_when_asked_for() -> None:
    assert tell_language("Wann?") is None
    assert tell_language("Wann?", least=1) == "de"
