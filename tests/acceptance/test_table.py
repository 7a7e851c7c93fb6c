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
ROW_OF: dict[str, dict[str, Any]] = {
    f"{document[:3]} {number}": row
    for document, rows in DOCUMENTS.items()
    for number, row in rows.items()
}
"""By the number of its document and its own, as in "000 FR-1"."""


def numbered(prefix: str, last: int, *, digits: int = 3) -> set[str]:
    """``numbered("FR", 2)`` is FR-001 and FR-002."""
    numbers: set[str] = set()
    for number in range(1, last + 1):
        numbers.add(f"{prefix}-{number:0{digits}}")
    return numbers


def scenarios(*counts: int, prefix: str = "") -> set[str]:
    """``scenarios(3, 2)`` has three of the first story and two of the second."""
    numbers: set[str] = set()
    for story, count in enumerate(counts, start=1):
        for number in range(1, count + 1):
            numbers.add(f"{prefix}{story}-{number}")
    return numbers


NUMBERED: dict[str, set[str]] = {
    "000": {
        *scenarios(2, 1, 1, prefix="US"),
        *numbered("EC", 3, digits=1),
        *numbered("FR", 10),
        *numbered("SC", 4),
    },
    "001": {
        *numbered("6", 3, digits=1),
        *numbered("7", 5, digits=1),
    },
    "002": scenarios(3, 3, 3, 3, 3, 3, 2, 3, 2, 2),
    "003": {
        *numbered("3.2", 5, digits=1),
        *numbered("3.4", 3, digits=1),
        "3.7",
        "3.8",
    },
    "004": {
        *scenarios(3, 3, 3, 3, prefix="US"),
        *numbered("EC", 8, digits=1),
        *numbered("FR", 16),
        *numbered("SC", 9),
        *numbered("CO", 5, digits=1),
    },
}
"""What the documents number, or count."""


@cache
def functions_in(path: Path) -> frozenset[str]:
    body = ast.parse(path.read_text("utf-8")).body
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef))


@cache
def acceptance_tests() -> frozenset[str]:
    names: set[str] = set()
    for path in HERE.glob("test_*.py"):
        names |= functions_in(path)
    return frozenset(names)


@pytest.mark.parametrize("document", sorted(NUMBERED))
def test_no_number_of_a_document_is_missing(document: str) -> None:
    (rows,) = [rows for name, rows in DOCUMENTS.items() if name.startswith(document)]

    missing = NUMBERED[document] - set(rows)

    assert missing == set()


@pytest.mark.parametrize("row", ROW_OF.values(), ids=ROW_OF)
def test_each_row_names_tests_that_exist_or_the_page_of_its_figures(row: dict[str, Any]) -> None:
    tests: list[str] = row.get("tests", [])

    assert tests or "measured" in row
    if "measured" in row:
        assert (ROOT / row["measured"]).is_file()
    for test in tests:
        path, _, name = test.rpartition("::")
        if path:
            assert name in functions_in(ROOT / "tests" / path), test
        elif test.endswith(".py"):
            assert functions_in(ROOT / "tests" / test), test
        else:
            assert test in acceptance_tests(), test


def test_the_page_explains_the_rows_that_are_met_in_another_way_and_no_others() -> None:
    page = (ROOT / "docs" / "requirements.md").read_text("utf-8")
    explained: set[str] = set()
    for document, numbers in re.findall(r"^\| (\d{3}) \| ([^|]+) \|", page, re.MULTILINE):
        for number in numbers.split(","):
            explained.add(f"{document} {number.strip()}")

    met_in_another_way = {number for number, row in ROW_OF.items() if row.get("differs")}
    assert explained == met_in_another_way


def test_every_acceptance_test_is_in_the_table() -> None:
    in_table: set[str] = set()
    for row in ROW_OF.values():
        in_table |= set(row.get("tests", ()))

    tests = {name for name in acceptance_tests() if name.startswith("test_")}
    tests_of_the_table = functions_in(Path(__file__))
    assert tests - in_table - tests_of_the_table == set()
