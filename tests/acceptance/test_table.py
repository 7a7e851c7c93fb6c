"""The table of requirements is complete, and all that it names exists."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import ROOT

HERE = Path(__file__).parent
DOCUMENTS: dict[str, dict[str, dict[str, Any]]] = tomllib.loads(
    (HERE / "requirements.toml").read_text("utf-8")
)
ROWS = [
    pytest.param(row, id=f"{document[:3]} {number}")
    for document, rows in DOCUMENTS.items()
    for number, row in rows.items()
]


def numbered(prefix: str, last: int, digits: int = 3) -> set[str]:
    return {f"{prefix}-{number:0{digits}}" for number in range(1, last + 1)}


def scenarios(*counts: int, prefix: str = "") -> set[str]:
    """``scenarios(3, 2)`` has three of the first story and two of the second."""
    return {
        f"{prefix}{story}-{number}"
        for story, count in enumerate(counts, start=1)
        for number in range(1, count + 1)
    }


NUMBERED: dict[str, set[str]] = {
    "000": scenarios(2, 1, 1, prefix="US")
    | numbered("EC", 3, 1)
    | numbered("FR", 10)
    | numbered("SC", 4),
    "001": numbered("6", 3, 1) | numbered("7", 5, 1),
    "002": scenarios(3, 3, 3, 3, 3, 3, 2, 3, 2, 2),
    "003": numbered("3.2", 5, 1) | numbered("3.4", 3, 1) | {"3.7", "3.8"},
    "004": scenarios(3, 3, 3, 3, prefix="US")
    | numbered("EC", 8, 1)
    | numbered("FR", 16)
    | numbered("SC", 9)
    | numbered("CO", 5, 1),
}
"""What the documents number, or count."""


@cache
def names_in(path: Path) -> frozenset[str]:
    body = ast.parse(path.read_text("utf-8")).body
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef))


@cache
def acceptance_tests() -> frozenset[str]:
    return frozenset().union(*map(names_in, HERE.glob("test_*.py")))


@pytest.mark.parametrize("document", sorted(NUMBERED))
def test_no_number_of_a_document_is_missing(document: str) -> None:
    (rows,) = (rows for name, rows in DOCUMENTS.items() if name.startswith(document))
    assert NUMBERED[document] - set(rows) == set()


@pytest.mark.parametrize("row", ROWS)
def test_each_row_names_tests_that_exist_or_the_page_of_its_figures(row: dict[str, Any]) -> None:
    tests: list[str] = row.get("tests", [])
    assert tests or "measured" in row
    if "measured" in row:
        assert (ROOT / row["measured"]).is_file()
    for test in tests:
        path, _, name = test.rpartition("::")
        if path:
            assert name in names_in(ROOT / "tests" / path), test
        elif test.endswith(".py"):
            assert names_in(ROOT / "tests" / test), test
        else:
            assert test in acceptance_tests(), test


def test_the_page_explains_the_rows_that_are_met_in_another_way_and_no_others() -> None:
    page = (ROOT / "docs" / "requirements.md").read_text("utf-8")
    explained: set[str] = set()
    for document, numbers in re.findall(r"^\| (\d{3}) \| ([^|]+) \|", page, re.MULTILINE):
        explained |= {f"{document} {number.strip()}" for number in numbers.split(",")}
    assert explained == {
        f"{document[:3]} {number}"
        for document, rows in DOCUMENTS.items()
        for number, row in rows.items()
        if row.get("differs")
    }


def test_every_acceptance_test_is_in_the_table() -> None:
    rows = [row for rows in DOCUMENTS.values() for row in rows.values()]
    named = {test for row in rows for test in row.get("tests", ())}
    tests = {name for name in acceptance_tests() if name.startswith("test_")}
    assert tests - named - names_in(Path(__file__)) == set()
