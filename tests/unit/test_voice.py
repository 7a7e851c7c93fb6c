"""The documentation speaks to its reader: counted habits stay below their ceilings, which fall."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
VOICE: Any = SimpleNamespace(**runpy.run_path(str(ROOT / ".ci" / "voice.py")))
NOW, CEILINGS = VOICE.measured(), VOICE.written()


def test_every_text_has_a_row() -> None:
    assert NOW.keys() == CEILINGS.keys(), "python .ci/voice.py"


@pytest.mark.parametrize("name", NOW)
def test_no_habit_grows(name: str) -> None:
    grown = [
        habit for habit in (*VOICE.HABITS, "lines") if NOW[name][habit] > CEILINGS[name][habit]
    ]
    assert grown == [], f"{NOW[name]}: verb first, you, the field's words"
    assert NOW[name]["you"] >= CEILINGS[name]["you"]


def test_habits_are_counted() -> None:
    text = "It stands there. Nobody is told what is left. What is it? You run `what`.\n# What\n"
    assert VOICE.counted(VOICE.prose(text)) == {
        "stands": 1,
        "told": 1,
        "nobody": 1,
        "what": 1,
        "you": 667,
    }
