"""The documentation speaks to its reader: counted habits stay below their ceilings, which fall."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
VOICE: Any = SimpleNamespace(**runpy.run_path(str(ROOT / ".ci" / "voice.py")))
CEILINGS: dict[str, dict[str, int]] = VOICE.written()


@pytest.fixture(scope="module")
def habits_now() -> dict[str, dict[str, int]]:
    """The habits of each text, counted when a test needs them: every worker imports this file."""
    counts: dict[str, dict[str, int]] = VOICE.measured()
    return counts


def test_every_text_has_a_row(habits_now: dict[str, dict[str, int]]) -> None:
    assert habits_now.keys() == CEILINGS.keys(), "python .ci/voice.py"


@pytest.mark.parametrize("name", CEILINGS)
def test_no_habit_grows(name: str, habits_now: dict[str, dict[str, int]]) -> None:
    counts = habits_now[name]
    ceilings = CEILINGS[name]

    grown = [habit for habit in (*VOICE.HABITS, "lines") if counts[habit] > ceilings[habit]]

    assert grown == [], f"{counts}: verb first, you, the field's words"
    assert counts["you"] >= ceilings["you"]


def test_habits_are_counted() -> None:
    text = "It stands there. Nobody is told what is left. What is it? You run `what`.\n# What\n"
    assert VOICE.counted(VOICE.prose(text)) == {
        "stands": 1,
        "told": 1,
        "nobody": 1,
        "what": 1,
        "you": 667,
    }
