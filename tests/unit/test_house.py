"""The size of the house and the way of a question through it: they only fall."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
HOUSE: Any = SimpleNamespace(**runpy.run_path(str(ROOT / ".ci" / "house.py")))


@pytest.fixture(scope="module")
def now() -> Any:
    return HOUSE.measured()


def test_nothing_grew(now: Any) -> None:
    grown = HOUSE.worse(now, HOUSE.written())
    assert grown == [], "take away as much, or say who grants it: make house WHY=..."


def test_what_became_better_is_written_down(now: Any) -> None:
    assert now == HOUSE.written(), "make house"


def test_the_page_shows_the_figures() -> None:
    page = HOUSE.PAGE.read_text("utf-8")
    assert page == HOUSE.page_with(page, HOUSE.written().figures), "make house"


def figures(packages: dict[str, int], **other: int) -> Any:
    return HOUSE.Figures(figures={"code": sum(packages.values()), **other}, packages=packages)


def test_growth_is_named_with_the_packages_that_grew_most() -> None:
    before = figures({"a": 10, "b": 20, "c": 30, "d": 40, "e": 50}, modules=5)
    after = figures({"a": 11, "b": 25, "c": 29, "d": 47, "e": 53, "f": 1}, modules=5)
    assert HOUSE.worse(before, before) == []
    size, most = HOUSE.worse(after, before)
    assert "166, 16 more" in size
    assert most == "most grew: d +7, b +5, e +3"


def test_a_package_that_grew_is_no_fault_where_another_shrank_as_much() -> None:
    assert HOUSE.worse(figures({"a": 5, "b": 25}), figures({"a": 10, "b": 20})) == []


def test_docstrings_comments_and_blank_lines_are_not_code() -> None:
    source = '"""Title.\n\nMore.\n"""\n\n# why\nx = 1\n"""Of x."""\n\n\ndef f():\n    """One."""\n'
    assert HOUSE.lines_of_code(source) == 2
