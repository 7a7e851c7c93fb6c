"""Rows of tables in plain text: label and value together, whatever the table comes as."""

import pytest

from ragbench.text.sentences import Span
from ragbench.text.table_rows import is_heading, row_around, rows_in

BROKEN = """Statement of income
(in millions)
2023
2022
Net revenue
1,832
1,710
Income tax
(88)
$ 79
The notes are part of this statement and are on the pages that follow it, in small print.
"""
MARKDOWN = """## Income

| (in millions) | 2023 | 2022 |
|---|---|---|
| Net revenue | 1,832 | 1,710 |
| Income tax | 88 | 79 |
"""
HTML = (
    "<h2>Income</h2><table><tr><th></th><th>2023</th></tr>"
    "<tr><td>Net revenue</td><td>1,832</td></tr><tr><td>Income tax</td><td>88</td></tr></table>"
)
HTML_LINES = "<dl>\n<dt>Port</dt>\n<dd>6380</dd>\n<dt>Host</dt>\n<dd>a1</dd>\n</dl>"
CELLS = "office;seats;floor\nOslo;45;3\nBergen;20;1"
TABS = "Reception\t+47 55 01\nGarage\t+47 55 09"
KEYS = "Service\nOwner:\nPaula Reyes\nPort:\n6380"


def place_of(text: str, part: str) -> Span:
    start = text.index(part)
    return Span(start, start + len(part))


@pytest.mark.parametrize(
    ("text", "part", "row"),
    [
        (BROKEN, "1,710", "Net revenue\n1,832\n1,710"),
        (BROKEN, "Net revenue", "Net revenue\n1,832\n1,710"),
        (BROKEN, "$ 79", "Income tax\n(88)\n$ 79"),
        (BROKEN, "2022", "(in millions)\n2023\n2022"),
        (MARKDOWN, "88", "| Income tax | 88 | 79 |"),
        (HTML, "Net", "<tr><td>Net revenue</td><td>1,832</td></tr>"),
        (HTML_LINES, "6380", "<dt>Port</dt>\n<dd>6380</dd>"),
        (CELLS, "45", "Oslo;45;3"),
        (TABS, "+47 55 09", "Garage\t+47 55 09"),
        (KEYS, "Paula", "Owner:\nPaula Reyes"),
        (KEYS, "Port", "Port:\n6380"),
    ],
)
def test_a_row_holds_the_label_and_its_values(text: str, part: str, row: str) -> None:
    table_row = row_around(text, place_of(text, part))

    assert table_row is not None
    assert text[table_row.span.start : table_row.span.end] == row


@pytest.mark.parametrize(
    ("text", "part", "header"),
    [
        (MARKDOWN, "88", "| (in millions) | 2023 | 2022 |"),
        (HTML, "88", "<tr><th></th><th>2023</th></tr>"),
        (CELLS, "20", "office;seats;floor"),
    ],
)
def test_the_line_that_names_the_columns_is_the_header(text: str, part: str, header: str) -> None:
    table_row = row_around(text, place_of(text, part))

    assert table_row is not None
    assert table_row.header is not None
    assert text[table_row.header.start : table_row.header.end] == header


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("It was built in 1990. It has\nten rooms.", "1990"),
        ("The mill\nIt was built in 1990.", "1990"),
        ("1\n2\n3", "2"),  # no label
        ("Notes:", "Notes"),  # nothing is below
        ("If a < b, then 3 rows; else; none are read.", "3"),
        (BROKEN, "small print"),
        (HTML, "Income"),
        ("住宿\n双人间每月租金300元，水电费按实际用量分摊。", "300"),
    ],
)
def test_running_text_has_no_rows(text: str, part: str) -> None:
    assert row_around(text, place_of(text, part)) is None


def test_a_place_over_several_rows_gives_each_of_them() -> None:
    rows = rows_in(HTML, Span(0, len(HTML)))

    texts = [HTML[row.span.start : row.span.end] for row in rows]
    assert [text.count("<tr>") for text in texts] == [1, 1, 1]

    rows = rows_in(BROKEN, place_of(BROKEN, "1,710\nIncome tax"))

    assert [row.span.start for row in rows] == [
        BROKEN.index("Net revenue"),
        BROKEN.index("Income tax"),
    ]


@pytest.mark.parametrize(
    ("text", "part", "expected"),
    [
        ("# Refunds\nWe pay within a week.", "Refunds", True),
        ("Refunds\n\nWe pay within a week.", "Refunds", True),
        ("Refunds", "Refunds", False),  # nothing is below
        (KEYS, "Owner:\nPaula Reyes", False),  # a row
        ("We pay.\nRefunds are quick.", "We pay.", False),
        ("- Passport\n- Two photos", "Passport", False),
        ("Room 4\nIt is warm.", "Room 4", False),
    ],
)
def test_a_heading_names_what_is_below_it(text: str, part: str, expected: bool) -> None:
    assert is_heading(text, place_of(text, part)) is expected
