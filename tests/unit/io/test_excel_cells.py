"""Cells of a workbook are read as a person sees them."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest

from ragbench import open_source, read_cases

pytestmark = pytest.mark.extra("excel")
openpyxl = pytest.importorskip("openpyxl")

SHOWN: list[tuple[Any, str, str]] = [
    (0.25, "0%", "25%"),
    (0.25, "0.0%", "25.0%"),
    (0.125, "0%", "13%"),
    (0.125, "0.0%", "12.5%"),
    (0.1, "0%", "10%"),
    (-0.05, "0%", "-5%"),
    (1200, '#,##0 "€"', "1,200 €"),
    (1200, "[$€-407] #,##0.00", "€ 1,200.00"),
    (1234567.5, "#,##0.00", "1,234,567.50"),
    (1200, '"$"#,##0', "$1,200"),
    (-1200, '"$"#,##0_);[Red]("$"#,##0)', "($1,200)"),
    (-0.001, "0.00", "0.00"),
    (1.005, "0.00", "1.01"),
    (2.5, "0.##", "2.5"),
    (2, "0.00", "2.00"),
    (7, "000", "007"),
    (12, "00000", "00012"),
    (0, '0;-0;"none"', "none"),
    (1500000, '0.0,,"M"', "1.5M"),
    (12345, "0.00E+00", "1.23E+04"),
    (5, '0 "days"', "5 days"),
    (0.5, "# ?/?", "0.5"),
    (3, "General", "3"),
    (3.0, "General", "3"),
    (2.5, "General", "2.5"),
    (0.1 + 0.2, "General", "0.3"),
    (True, "General", "true"),
    (timedelta(days=1, hours=12), "[h]:mm:ss", "36:00:00"),
    (timedelta(hours=1, minutes=5), "[h]:mm", "1:05"),
    (timedelta(minutes=95), "[mm]:ss", "95:00"),
    (time(9, 30), "h:mm", "9:30"),
    (time(9, 30), "hh:mm", "09:30"),
    (time(21, 5), "h:mm AM/PM", "9:05 PM"),
    (time(9, 30, 15), "h:mm:ss", "9:30:15"),
    (date(2024, 5, 1), "yyyy-mm-dd", "2024-05-01"),
    (datetime(2024, 5, 1), "dd.mm.yyyy", "2024-05-01"),
    (datetime(2024, 5, 1, 12), "dd.mm.yyyy", "2024-05-01"),
    (datetime(2024, 5, 1, 9, 30), "yyyy-mm-dd h:mm", "2024-05-01T09:30:00"),
]


def workbook(path: Path, rows: list[list[tuple[Any, str]]]) -> Path:
    book = openpyxl.Workbook()
    for row, cells in enumerate(rows, start=1):
        for column, (value, number_format) in enumerate(cells, start=1):
            cell = book.active.cell(row, column, value)
            cell.number_format = number_format
    book.save(path)
    return path


@pytest.mark.parametrize(("value", "number_format", "shown"), SHOWN)
def test_a_reference_is_the_text_that_is_shown(
    tmp_path: Path, value: Any, number_format: str, shown: str
) -> None:
    header = [("query", "General"), ("reference", "General")]
    path = workbook(tmp_path / "a.xlsx", [header, [("q", "General"), (value, number_format)]])

    (case,) = read_cases(path)

    assert case.reference == shown


def test_a_field_for_a_number_is_the_number(tmp_path: Path) -> None:
    columns: dict[str, tuple[Any, str]] = {
        "id": (7, "000"),
        "query": ("q", "General"),
        "response": (0.25, "0%"),
        "seconds": (1.234, "0.0"),
        "confidence": (0.5, "0%"),
        "share": (0.5, "0%"),
    }
    header = [(name, "General") for name in columns]
    path = workbook(tmp_path / "a.xlsx", [header, list(columns.values())])

    with open_source(path) as source:
        (entry,) = source

    assert entry.case.id == "007"
    answer = entry.recorded["generate"]
    assert answer.value is not None
    assert answer.value.response == "25%"
    assert answer.value.confidence == 0.5
    assert answer.seconds == 1.234
    assert entry.case.metadata == {"share": "50%"}
    assert type(entry.case.metadata["share"]) is str
