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
"""What a cell without a value says."""
_LONGEST_UNIT = 4
"""Letters of a unit or a month: kg, USD, Sept."""
_MOST_UNITS = 2
"""Units and months that a value has: 5 kg, 3 May 2023, 12 h 30 min."""
_SENTENCE_END = re.compile(r"[a-z)\]”\"'][.!?]$|[?!]$")
_LISTED = re.compile(r"[-*+•‣◦▪·–—]\s")
"""How an item of a list begins."""
_MOST_VALUES = 12
"""Values that a line-broken row has at most: without a limit, a column of numbers is one row."""


def row_around(text: str, place: Span) -> TableRow | None:
    """The row of a table that a place in a text is in; None where the place is in running text.

    A validator reads a quoted number together with the label of its row: alone it shows nothing.
    """
    row = _row_of_html(text, place)
    if row is not None:
        return row
    return _row_of_lines(text, place)


def rows_in(text: str, place: Span) -> Sequence[TableRow]:
    """The row that a place is in, or all rows of a table that begin in it; empty in running text.

    A place is a piece of evidence, which is often a part of one row but may quote a whole table.
    """
    # A place within one row has that row, and no other.
    row = row_around(text, place)
    if row is not None:
        return (row,)
    stretch = text[place.start : place.end]
    beginnings = list(_HTML_ROW.finditer(stretch))
    if not beginnings:
        beginnings = list(re.finditer(r"(?m)^.", stretch))  # the beginning of each line
    rows: list[TableRow] = []
    for beginning in beginnings:
        position = place.start + beginning.start()
        row = row_around(text, Span(position, position + 1))
        # Several lines may be cells of one row.
        if row is not None and row not in rows:
            rows.append(row)
    return rows


def is_heading(text: str, place: Span) -> bool:
    """Whether a place in a text is a whole line that only names what is below it.

    Evidence that is a heading supports no answer by itself. A line with a number, or an item of a
    list, says something itself.
    """
    line_start = text.rfind("\n", 0, place.start) + 1
    line_end = text.find("\n", place.end)
    # Where nothing is below, there is nothing to name.
    if line_end < 0 or not text[line_end:].strip():
        return False
    line = text[line_start:line_end].strip()
    if "\n" in line or text[place.start : place.end].strip() not in line:
        return False
    if line.startswith("#"):
        return True
    # A line with a number, or an item of a list, says something itself.
    if re.search(r"\d", line) or _LISTED.match(line):
        return False
    return _is_label(line)


def _row_of_html(text: str, place: Span) -> TableRow | None:
    """The row of an HTML table around a place, with the row that names the columns, if any.

    None where the place is outside of a row, runs over the end of one, or is in a layout table. Its
    tags may be cut: a chunk often begins or ends within a table.
    """
    # Rows are looked for from the nearest table on, or in a chunk that begins within one, from the
    # beginning.
    before_place = text[: place.start + 1]
    search_start = max(before_place.rfind("<table"), before_place.rfind("<dl"), 0)
    if "<" not in before_place[search_start:]:
        return None
    header: Span | None = None
    for match in _HTML_ROW.finditer(text, search_start):
        if match.start() > place.start:
            return None
        row_text = match[0].rstrip()
        row = Span(match.start(), match.start() + len(row_text))
        if place.start < row.end:
            if len(row_text) > _MOST_OF_A_ROW or place.end > row.end:
                return None
            return TableRow(span=row, header=header)
        if header is None and "<th" in row_text:
            header = row
    return None


def _row_of_lines(text: str, place: Span) -> TableRow | None:
    """The row of a table around a place in a text of lines; None in running text.

    A row is one line of several cells, or has a line for each cell.
    """
    lines = _Lines(text)
    first = lines.number_at(place.start)
    # The last letter of the place: its end is the position behind it.
    last = lines.number_at(max(place.start, place.end - 1))
    # One line without cells in it: the row may have a line for each cell.
    for number in range(first, last + 1):
        if not _has_cells(lines.line(number)):
            return _line_broken_row(lines, first, last)

    # The table begins with the lines of cells right above; its top line names the columns.
    top = first
    while top > 0 and _has_cells(lines.line(top - 1)):
        top -= 1
    header: Span | None = None
    if top < first:
        header = lines.span(top, top)
    return TableRow(span=lines.span(first, last), header=header)


def _line_broken_row(lines: _Lines, first: int, last: int) -> TableRow | None:
    """The row of a table that has a line for each cell, as text from a PDF; None in running text.

    It is a label and the lines of values below it.

    Args:
        first: the number of the line in which the quoted place begins: a label, or a value.
        last: the number of the line in which it ends.
    """
    # Back from a value to its label, which is the first line above that is no value.
    label = first
    while label > 0 and _is_value(lines.line(label)):
        label -= 1
    # "Colour:" above any line is the label of that line, which need be no number.
    is_place_above_values = label == first
    if is_place_above_values and label > 0 and _names_next_line(lines.line(label - 1)):
        label -= 1
    if not _is_label(lines.line(label)):
        return None

    # On to the last value.
    end = label
    if _names_next_line(lines.line(label)):
        end += 1
    while end - label < _MOST_VALUES and _is_value(lines.line(end + 1)):
        end += 1
    # A place that ends below the last value is no part of the row alone.
    has_values = end > label and lines.line(end) != ""
    if not has_values or last > end:
        return None
    return TableRow(span=lines.span(label, end))


class _Lines:
    """The lines of a text by their numbers, without the white space around them.

    Only the few lines around a place are cut out of the text, which may be a whole document.
    """

    def __init__(self, text: str) -> None:
        """Notes where each line of a text begins, by which a position's line is found.

        The lines themselves are cut only when they are asked for: a text may be a whole document.
        """
        self._text = text
        # In ascending order, so that a binary search finds the line of a position.
        self._starts = [0]
        for line_break in re.finditer("\n", text):
            self._starts.append(line_break.end())

    def number_at(self, position: int) -> int:
        """The number of the line that holds a position of the text; lines are counted from 0.

        Found by a binary search, since a document may have any number of lines.
        """
        return bisect_right(self._starts, position) - 1

    def line(self, number: int) -> str:
        """A line of the text by its number, stripped; empty behind the last line.

        So a search may go beyond the end without asking where that is.
        """
        if number >= len(self._starts):
            return ""
        start = self._starts[number]
        end = len(self._text)
        # The last line ends with the text.
        if number + 1 < len(self._starts):
            end = self._starts[number + 1]
        return self._text[start:end].strip()

    def span(self, first: int, last: int) -> Span:
        """The span from the first letter of a line to the last letter of another, by numbers.

        White space around them is left out, as it is in quotes.
        """
        start = self._text.index(self.line(first), self._starts[first])
        last_line = self.line(last)
        last_start = self._text.index(last_line, self._starts[last])
        return Span(start, last_start + len(last_line))


def _has_cells(line: str) -> bool:
    """Whether a line is a row of a table by itself: cells between bars, tabs or semicolons.

    A semicolon with a blank behind it is one of running text.
    """
    if len(line) > _LONGEST_LINE:
        return False
    if line.startswith("|") or " | " in line or "\t" in line:
        return True
    # A semicolon before a space is one of running text.
    return line.count(";") > 1 and "; " not in line


def _is_value(line: str) -> bool:
    """Whether a line is a table's cell with a number, perhaps with units, or with a mark for none.

    The limits keep sentences out that hold a number.
    """
    # A mark for no value, such as a dash, has no digit and counts all the same.
    if line.lower() in _NO_VALUE:
        return True
    if len(line) > _LONGEST_CELL:
        return False
    if not any(letter.isdigit() for letter in line):
        return False
    words = _WORD.findall(line)
    if len(words) > _MOST_UNITS:
        return False
    return all(len(word) <= _LONGEST_UNIT for word in words)


def _is_label(line: str) -> bool:
    """Whether a line may name the values below it in a table: a few words that are no sentence.

    A value alone shows nothing; with its label it is a statement.
    """
    if line == "" or len(line) > _LONGEST_CELL:
        return False
    # A sentence above a table is no name of its values.
    if _SENTENCE_END.search(line):
        return False
    has_letters = any(letter.isalpha() for letter in line)
    return has_letters and not _is_value(line)


def _names_next_line(line: str) -> bool:
    """Whether a line is a label whose value is the next line, whatever that says.

    A colon at the end shows it: "Colour:" above "red".
    """
    return line.endswith(":") and _is_label(line)
