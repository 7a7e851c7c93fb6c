"""No cell of a table is run by a spreadsheet, and each is read back as it was."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench import Case, GenerationResult, RetrievalResult
from ragbench.core.trace import Trace
from ragbench.io.csv_cells import csv_line, guarded, unguarded
from ragbench.io.export import export
from tests.unit.io.traces import measured


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        " =1+1",
        "\u00a0=1+1",
        "＝1+1",
        "'=1+1",
    ],
)
def test_a_formula_begins_with_an_apostrophe(text: str) -> None:
    assert guarded(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "one = 1", "'tis", "a-b", "(1)", "3"])
def test_any_other_text_is_as_it_is(text: str) -> None:
    assert guarded(text) == text


@given(st.text(st.sampled_from("'=+-@\t\r\n a1")))
def test_a_text_is_read_back_as_it_was(text: str) -> None:
    assert unguarded(guarded(text)) == text


def test_numbers_stay_numbers() -> None:
    assert csv_line([-1.5, 2, True, None]) == "-1.5,2,true,\n"


def test_a_semicolon_does_not_begin_a_cell() -> None:
    # Where the comma is the decimal sign, spreadsheets separate cells by semicolons.
    line = csv_line(["yes;=1+1", "no"])
    row = next(csv.reader(io.StringIO(line), delimiter=";"))
    assert row[0] == 'yes;=1+1,"no"'


def test_quotation_marks_are_doubled_behind_the_apostrophe() -> None:
    assert csv_line(['="a"']) == '"\'=""a"""\n'


def test_an_export_holds_no_formula(tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    trace = Trace(
        case=Case(id="=id", query="-q", reference="+r"),
        retrieval=measured(RetrievalResult(["@c"])),
        generation=measured(GenerationResult("=1+1")),
    )

    export("csv", [trace], path)

    (row,) = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")), strict=True)
    assert [row["id"], row["user_input"], row["reference"]] == ["'=id", "'-q", "'+r"]
    assert row["response"] == "'=1+1"
    assert row["retrieved_contexts"] == '["@c"]'
