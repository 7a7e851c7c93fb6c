"""Rows of tables within plain text: which label a value belongs to, and which value a label has.

A table comes as Markdown, as lines of cells with tabs or semicolons, as HTML, or line-broken: text
from a PDF has a line for each cell, the label first. Evidence that is a label alone, or a number
alone, shows nothing: both are quoted together.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from ragbench.core.record import Record
from ragbench.text.sentences import Span


class TableRow(Record):
    """A row, as offsets in its text."""

    span: Span
    """The label and its values."""
    header: Span | None = None
    """The line that names the columns, where there is one."""


_HTML_ROW = re.compile(
    r"<(tr|dt)\b.*?(?=<(?:tr|dt)\b|</(?:table|tbody|thead|dl)\b|\Z)", re.I | re.S
)
"""From the beginning of a row to the next one; a term with its description is one, too."""
_MOST_OF_A_ROW = 2_000
"""Characters of a row in HTML: a longer one is a layout, no row of values."""
_LONGEST_LINE = 500
"""Characters of a line of cells; a longer one is text that holds such a mark."""
_LONGEST_CELL = 60
"""Characters of a line that may be a cell; a longer one is a sentence."""
_WORD = re.compile(r"[^\W\d_]+")
_NO_VALUE = frozenset({"-", "–", "—", "n/a"})
"""What stands for no value."""
_LONGEST_UNIT = 4
_MOST_UNITS = 2
"""Letters of a unit or a month, and how many a value has: 5 kg, USD 12, 3 May 2023."""
_SENTENCE_END = re.compile(r"[a-z)\]”\"'][.!?]$|[?!]$")
_LISTED = re.compile(r"[-*+•‣◦▪·–—]\s")
"""How an item of a list begins."""
_MOST_VALUES = 12
"""Values that a line-broken row has at most."""


def row_around(text: str, place: Span) -> TableRow | None:
    """The row of a table that a place is in; None where the place is in running text."""
    return _row_of_html(text, place) or _row_of_lines(text, place)


def rows_in(text: str, place: Span) -> Sequence[TableRow]:
    """The row that a place is in, or all rows that begin in it; empty in running text."""
    row = row_around(text, place)
    if row is not None:
        return (row,)
    stretch = text[place.start : place.end]
    beginnings = list(_HTML_ROW.finditer(stretch)) or list(re.finditer(r"(?m)^.", stretch))
    rows: list[TableRow] = []
    for beginning in beginnings:
        position = place.start + beginning.start()
        row = row_around(text, Span(position, position + 1))
        if row is not None and row not in rows:
            rows.append(row)
    return rows


def is_heading(text: str, place: Span) -> bool:
    """Whether a place is a whole line that only names what is below it."""
    line_start = text.rfind("\n", 0, place.start) + 1
    line_end = text.find("\n", place.end)
    if line_end < 0 or not text[line_end:].strip():
        return False  # nothing is below
    line = text[line_start:line_end].strip()
    if "\n" in line or text[place.start : place.end].strip() not in line:
        return False
    if line.startswith("#"):
        return True
    return _is_label(line) and re.search(r"\d", line) is None and _LISTED.match(line) is None


def _row_of_html(text: str, place: Span) -> TableRow | None:
    """The row of HTML around a place, and its header: the first row of the table."""
    table = max(text.rfind("<table", 0, place.start + 1), text.rfind("<dl", 0, place.start + 1), 0)
    if "<" not in text[table : place.start + 1]:
        return None
    first: Span | None = None
    for match in _HTML_ROW.finditer(text, table):
        if match.start() > place.start:
            return None
        row = Span(match.start(), match.start() + len(match[0].rstrip()))
        if place.start < row.end:
            if row.end - row.start > _MOST_OF_A_ROW or place.end > row.end:
                return None
            return TableRow(span=row, header=first)
        if first is None and "<th" in match[0]:
            first = row
    return None


def _row_of_lines(text: str, place: Span) -> TableRow | None:
    """The row of lines around a place: one line of several cells, or a line for each cell."""
    starts = [0, *[line_break.end() for line_break in re.finditer("\n", text)]]
    lines = _Lines(text, starts)
    first = lines.at(place.start)
    last = lines.at(max(place.start, place.end - 1))
    if all(_has_cells(lines.of(number)) for number in range(first, last + 1)):
        top = first
        while top > 0 and _has_cells(lines.of(top - 1)):
            top -= 1
        header = lines.span(top, top) if top < first else None
        return TableRow(span=lines.span(first, last), header=header)
    return _line_broken(lines, first, last)


def _line_broken(lines: _Lines, first: int, last: int) -> TableRow | None:
    """A label and the lines of its values: back from a value to the label, and on to the last."""
    number = first
    while number > 0 and _is_value(lines.of(number)):
        number -= 1
    if number > 0 and number == first and _names_next_line(lines.of(number - 1)):
        number -= 1
    if not _is_label(lines.of(number)):
        return None
    end = number + _names_next_line(lines.of(number))
    while end - number < _MOST_VALUES and _is_value(lines.of(end + 1)):
        end += 1
    if end == number or last > end or not lines.of(end):
        return None
    return TableRow(span=lines.span(number, end))


class _Lines:
    """The lines of a text by their numbers, without the white space around them."""

    def __init__(self, text: str, starts: Sequence[int]) -> None:
        self._text = text
        self._starts = starts

    def at(self, position: int) -> int:
        """The number of the line that holds a position."""
        return bisect_right(self._starts, position) - 1

    def of(self, number: int) -> str:
        """A line, stripped; empty behind the last one."""
        if number >= len(self._starts):
            return ""
        end = len(self._text)
        if number + 1 < len(self._starts):
            end = self._starts[number + 1]
        return self._text[self._starts[number] : end].strip()

    def span(self, first: int, last: int) -> Span:
        """From the first letter of one line to the last letter of another."""
        start = self._text.index(self.of(first), self._starts[first])
        end = self._text.index(self.of(last), self._starts[last]) + len(self.of(last))
        return Span(start, end)


def _has_cells(line: str) -> bool:
    """Whether a line has cells between bars, tabs or semicolons."""
    if len(line) > _LONGEST_LINE:
        return False
    if line.startswith("|") or " | " in line or "\t" in line:
        return True
    return line.count(";") > 1 and "; " not in line


def _is_value(line: str) -> bool:
    """Whether a line is a cell with a number, perhaps with units, or with a mark for none."""
    if line.lower() in _NO_VALUE:
        return True
    if len(line) > _LONGEST_CELL or not any(letter.isdigit() for letter in line):
        return False
    words = _WORD.findall(line)
    return len(words) <= _MOST_UNITS and all(len(word) <= _LONGEST_UNIT for word in words)


def _is_label(line: str) -> bool:
    """Whether a line may name the values below it."""
    if not 0 < len(line) <= _LONGEST_CELL or _SENTENCE_END.search(line):
        return False
    return any(letter.isalpha() for letter in line) and not _is_value(line)


def _names_next_line(line: str) -> bool:
    """Whether a line is a label whose value is the next line, whatever that says."""
    return line.endswith(":") and _is_label(line)
