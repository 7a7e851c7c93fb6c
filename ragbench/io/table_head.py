"""Finds the header of a table, and the separator of its cells.

Spreadsheets have titles, dates and empty rows above the header.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence

from ragbench.core.record import Record
from ragbench.io.fields import is_known_field

HEAD_ROWS = 20
"""Rows among which the header is looked for."""


class TableHead(Record):
    """Where the records of a text begin, and how its cells are separated."""

    delimiter: str
    header_line: int
    """The line of the header, from 1."""


def header_position(rows: Sequence[Sequence[str]]) -> int:
    """The position of the header among the first rows of a table: the row below titles and notes.

    People put titles, dates and names above groups of columns. A row of such titles fills at most
    half as many cells as the rows below it do.

    Example:
        >>> header_position([["Evaluation", "", ""], ["Frage", "Antwort", "OK?"], ["1", "2", "3"]])
        1
    """
    widths = [sum(1 for cell in row if cell.strip()) for row in rows]
    for position, row in enumerate(rows):
        # Of the rows below, a few may have too many cells.
        widths_below = sorted(widths[position + 1 :])
        usual_width = widths_below[len(widths_below) // 2] if widths_below else 0
        if 2 * widths[position] > usual_width or _is_header(row, usual_width):
            return position
    # No row is full enough to be a header: the first one is taken for it.
    return 0


def _is_header(row: Sequence[str], usual_width: int) -> bool:
    """Whether a row with too few cells for a header is one all the same, and no title.

    Args:
        usual_width: how many cells most rows below it fill.
    """
    if all(map(is_known_field, row)):
        return True
    # pandas leaves the first cell empty, above its row numbers.
    return len(row) == usual_width == 2 and not row[0].strip()


def look_at_head(lines: Sequence[str], delimiter: str | None) -> TableHead:
    """The separator of a table's cells, and the line of its header, from its first lines.

    Args:
        lines: the first lines of the file; the last one may be cut off.
        delimiter: the separator, where the format or the file says it.
    """
    if delimiter is None:
        delimiter = _likely_delimiter(lines)
    rows: list[list[str]] = []
    line_numbers: list[int] = []
    # The last line of the row before: the cells of a row may go over several lines.
    end = 0
    reader = csv.reader(lines, delimiter=delimiter)
    for cells in reader:
        if any(cell.strip() for cell in cells):
            rows.append(cells)
            line_numbers.append(end + 1)
        end = reader.line_num
        if len(rows) == HEAD_ROWS:
            break
    if not rows:
        return TableHead(delimiter=delimiter, header_line=1)
    return TableHead(delimiter=delimiter, header_line=line_numbers[header_position(rows)])


def _likely_delimiter(lines: Sequence[str]) -> str:
    """The separator that cuts the largest share of a table's rows into equally many cells.

    Commas and strokes in texts give rows of different lengths, and a single cell does not count. Of
    equals, the first of ``,;<TAB>|`` wins, most often the comma.
    """
    best_delimiter = ","
    best_share = 0.0
    for delimiter in ",;\t|":
        rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
        widths = Counter(map(len, rows))
        del widths[1]  # rows in which the separator is missing
        share = max(widths.values(), default=0) / max(len(rows), 1)
        if share > best_share:
            best_delimiter = delimiter
            best_share = share
    return best_delimiter
