"""Tables of text cells: CSV and TSV, read and written, and workbooks of Excel and its like.

What is written has the cells of `ragbench.io.csv_cells`. Lists and mappings are JSON texts. A
number that is not finite is ``NaN``, ``Infinity`` or ``-Infinity``.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import ZipFile

from ragbench.core.in_words import UnreadableError
from ragbench.core.reading import Reading, words_of
from ragbench.core.trace import Trace
from ragbench.errors import InputError
from ragbench.io.atomic import written_whole
from ragbench.io.csv_cells import csv_line
from ragbench.io.excel_cells import cell_text
from ragbench.io.export import Exported, Scores, columns, table_row
from ragbench.io.fields import is_known_field, squash
from ragbench.io.json_files import decode_line, read_lines
from ragbench.io.json_text import json_text
from ragbench.io.source import Kind, Problems, Row, Source, has_few_fields
from ragbench.io.table_head import HEAD_ROWS, TableHead, header_position, look_at_head
from ragbench.io.values import line_feeds
from ragbench.plugins import require

_MAX_CELL = (1 << 31) - 1
"""Characters; the most that the csv module takes everywhere. Records are limited besides."""
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
"""The line that names the separator to Excel."""


def _has_distinct_columns(header: list[str], path: str, line: int, problems: Problems) -> bool:
    """Whether a table's header has no name twice, and not too many columns; else problems say so.

    Of two columns with one name, one would silently replace the other.

    Args:
        path: the table, as problems name it.
        line: the line of the header.
    """
    if not has_few_fields(len(header), path, line, problems):
        return False
    counts = Counter(header)
    # An empty name is that of pandas' row numbers, or of a column that is not in use.
    repeated = sorted(name for name in counts if name and counts[name] > 1)
    for name in repeated:
        message = (
            "the column appears twice in the header: give each a name of its own, such as "
            f"'{name} 1' and '{name} 2'"
        )
        problems.add(message, path=path, line=line, field=name)
    return not repeated


_NUMBERED_COLUMN = re.compile(
    r"(?:context|chunk|retrieved[ _-]?(?:context|chunk|passage|document))[ _-]?(\d{1,4})",
    re.IGNORECASE,
)


@lru_cache(maxsize=16)
def _numbered_text_columns(header: tuple[str, ...]) -> list[str]:
    """The columns that hold a retrieved text each (``context_1``, ``context_2``), by number.

    A spreadsheet cannot hold a list, so people give each text a column. Empty beside a column with
    all contexts: then the numbered ones are others. Cached, since it is called for each record with
    the same header.
    """
    if not {"contexts", "retrievedcontexts"}.isdisjoint(map(squash, header)):
        return []
    columns: list[tuple[int, str]] = []
    for name in header:
        match = _NUMBERED_COLUMN.fullmatch(name)
        if match is not None:
            columns.append((int(match[1]), name))
    if len(columns) < 2:  # a single context_1 may be anything
        return []
    return [name for _, name in sorted(columns)]


def _row_of_cells(cells: list[str], header: list[str], path: str, line: int) -> Row:
    """A record of a table: its cells by column, with numbered columns of texts as one list.

    The list is written as JSON, as any list in a cell of a table.

    Args:
        path: the table, as problems name it.
        line: the line on which the record begins.
    """
    values = dict(zip(header, cells, strict=False))
    values.pop("", None)  # pandas writes its row numbers under an empty name
    text_columns = _numbered_text_columns(tuple(header))
    if text_columns:
        texts = [values.pop(name) for name in text_columns]
        values["contexts"] = json_text([text for text in texts if text.strip()])
    return Row(path, line, values, cells=True)


# --- CSV and TSV


@dataclass(kw_only=True, slots=True)
class _TextLines:
    """The lines of a file as text, and which of them could not be decoded."""

    source: Source
    problems: Problems
    broken: set[int] = field(default_factory=set[int])
    size: int = 0
    """Bytes of the record so far; whoever reads it sets it back."""

    def __iter__(self) -> Iterator[str]:
        """The lines of a table as text, for the csv module, which joins those of a quoted cell.

        Ends where a record exceeds the limit: a quote that is never closed would take the whole
        file into memory.
        """
        limits = self.source.limits
        for line in read_lines(self.source, self.problems):
            self.size += len(line.raw)
            if self.size > limits.record:
                message = limits.long_record("the record, with the lines in its cells,")
                self.problems.add(message, path=self.source.name, line=line.number)
                return
            text = decode_line(line, self.source.name, self.problems)
            if text is None:
                # The reader still needs the line: it may stand inside a quoted cell.
                self.broken.add(line.number)
                text = line.raw.decode("utf-8", "replace")
            if "\r" in text:  # in a quoted cell, too: a checkout on Windows holds the same texts
                text = line_feeds(text)
            yield text


def read_csv(
    source: Source, *, kind: Kind, problems: Problems, delimiter: str | None = None
) -> Iterator[Row]:
    """Yields one row per record of a table in text, such as CSV.

    The format ``csv`` in ``formats.toml`` names this reader.

    Spreadsheets of every country write commas, semicolons or tabs: the separator is the one by
    which the first rows have equally many cells. A record that cannot be read is noted, and the
    others follow.

    A line such as ``sep=;`` at the top names the separator. Titles above the header are skipped.
    """
    # The module's limit of 128 kB a cell is too small for documents; it can only be set for all.
    csv.field_size_limit(_MAX_CELL)
    head = _head_of_text(source, delimiter)
    text = _TextLines(source=source, problems=problems)
    lines = iter(text)
    first_line = next(lines, "")
    skipped = 0  # lines that the csv module has not seen, and does not count
    if _SEPARATOR_LINE.fullmatch(first_line.strip()):
        skipped = 1
        first_line = next(lines, "")
    reader = csv.reader(chain((first_line,), lines), delimiter=head.delimiter, strict=True)
    header: list[str] | None = None
    end = skipped  # the last line of the record before
    while True:
        begin = end + 1
        text.size = 0
        try:
            cells = next(reader, None)
        except csv.Error as error:
            end = max(reader.line_num + skipped, begin)
            problems.add(
                f"not valid CSV: {_csv_problem_in_words(error)}", path=source.name, line=begin
            )
            if header is None:
                return
            continue
        if cells is None:
            return
        end = reader.line_num + skipped
        is_title = begin < head.header_line
        is_blank = not any(map(str.strip, cells))
        # Lines of the record that could not be decoded as text are noted already.
        is_broken = header is not None and not text.broken.isdisjoint(range(begin, end + 1))
        if is_title or is_blank or is_broken:
            continue
        if header is None:
            header = _header_cells(cells)
            if not _has_distinct_columns(header, source.name, begin, problems):
                return
        elif len(cells) == len(header):
            yield _row_of_cells(cells, header, source.name, begin)
        else:
            message = f"expected {len(header)} cells as in the header, found {len(cells)}"
            problems.add(message, path=source.name, line=begin)


read_tsv = partial(read_csv, delimiter="\t")


def _head_of_text(source: Source, delimiter: str | None) -> TableHead:
    """The separator and the line of the header of a text table, by its beginning.

    The file stays unread: its rows are yielded from the start later.

    Args:
        delimiter: the separator, where the format says it.
    """
    # What cannot be read is reported when the lines are read in earnest.
    beginning = source.head(Problems()) or b""
    encoding = "utf-16" if source.is_wide else "utf-8"
    text = beginning.decode(encoding, "replace").removeprefix("\ufeff")
    lines = line_feeds(text).splitlines(keepends=True)
    separator_line = _SEPARATOR_LINE.fullmatch(lines[0].strip()) if lines else None
    if separator_line is None:
        return look_at_head(lines, delimiter)
    head = look_at_head(lines[1:], delimiter or separator_line[1])
    # The line of the separator counts, too.
    return TableHead(delimiter=head.delimiter, header_line=head.header_line + 1)


def _header_cells(cells: Iterable[str]) -> list[str]:
    """The names of a table's columns, with runs of white space as one space.

    People break lines in a header to fit it into its cell; names are recognised without that.
    """
    names: list[str] = []
    for cell in cells:
        words = cell.split()
        names.append(" ".join(words))
    return names


def _csv_problem_in_words(error: csv.Error) -> str:
    """The csv module's error in words that the owner of a table understands.

    Errors that are rare stay as the module has them.
    """
    text = str(error)
    if "unexpected end of data" in text:
        return "a quoted cell begins in this record and never ends"
    if "new-line character" in text:
        return "a lone carriage return; expected line feeds (or both) at the ends of lines"
    return text


def write(traces: Iterable[Trace], path: Path, *, scores: Scores) -> Exported:
    """A case per row, as CSV (RFC 4180 with plain line feeds, UTF-8), below a header.

    A text that a spreadsheet would run as a formula begins with an apostrophe. A file is there only
    when all of it is written.

    Args:
        scores: the scores of a run, which become columns.
    """
    tally = Exported(paths=(path,))
    with written_whole(path, make_folders=True, is_table=True) as file:
        names = [*columns(scores)]
        file.write(_encoded_line(names, "the header"))
        for trace in traces:
            row = table_row(trace, scores)
            values = [row[name] for name in names]
            file.write(_encoded_line(values, f"case '{trace.case.id}'"))
            tally.written += 1
    return tally


def _encoded_line(values: Iterable[object], place: str) -> bytes:
    """A record of an exported table as a line of CSV in UTF-8.

    Args:
        place: what an error calls the record, such as ``the header``.

    Raises:
        InputError: a text is no Unicode that can be stored, which the user may export as JSON.
    """
    try:
        return csv_line(values).encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{place} holds a lone surrogate, which CSV cannot store; export to jsonl instead"
        ) from None


# --- workbooks

_OLD_EXCEL_MAGIC = b"\xd0\xcf\x11\xe0"
"""How files of Excel before 2007 begin, and workbooks with a password."""
_MAX_ROWS = 1 << 20
"""Rows of a sheet in Excel; a damaged file may name a row far behind them."""


def read_workbook(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row per record of a workbook's sheet.

    The format in ``formats.toml`` names this reader.

    The sheet is the one that ``--split`` names, or the first.

    The first row with a value is the header. A formula counts by the value that Excel last computed
    and stored: none is computed here. The file is checked before the package opens it, since a
    small archive may unpack to more than the memory.
    """
    openpyxl = require("openpyxl", extra="excel")
    with source.opened(problems) as stream:
        if stream is None:
            return
        with Reading(_no_workbook):
            yield from _sheet_rows(openpyxl, _checked_workbook(stream, source), source, problems)


def _no_workbook(error: Exception) -> UnreadableError:
    """The error of a file that is no workbook of Excel, or a damaged one, from openpyxl's error.

    openpyxl raises errors of any type, of the ZIP file or the XML inside.
    """
    return UnreadableError(f"not a readable workbook: {words_of(error)}")


def _checked_workbook(stream: BinaryIO, source: Source) -> BinaryIO:
    """The file of a workbook, once its directory says that it unpacks to no more than is allowed.

    A small file may unpack to more than the memory, and openpyxl does not check that. The directory
    of a ZIP file is at its end: a stream without seeking is held whole.

    Raises:
        ValueError: it is of old Excel, or has a password.
    """
    file = stream
    if not stream.seekable():
        file = io.BytesIO(source.limits.read_all(stream))
    if file.read(len(_OLD_EXCEL_MAGIC)) == _OLD_EXCEL_MAGIC:
        raise ValueError("it is an .xls of old or encrypted: save it as .xlsx without a password")
    file.seek(0)
    with ZipFile(file) as archive:
        source.limits.check_archive(archive)
    file.seek(0)
    return file


def _sheet_rows(openpyxl: Any, file: BinaryIO, source: Source, problems: Problems) -> Iterator[Row]:
    """The records of the sheet of a workbook that is read, below its header.

    Sheets have titles above the header, rows that end at their last value, and sizes that are
    wrong.

    Args:
        openpyxl: the package, which is loaded only for workbooks.
        file: the workbook, whose size is checked.
    """
    book = openpyxl.load_workbook(file, read_only=True, data_only=True)
    try:
        names = [sheet.title for sheet in book.worksheets]
        sheet = book[source.chosen(names, noun="sheet", usual=_first_table(book))]
        sheet.reset_dimensions()  # what the file says of its size need not be true
        rows = _filled_rows(sheet, source)
        head = list(islice(rows, HEAD_ROWS))
        below_titles = header_position([cells for _, cells in head])
        header: list[str] | None = None
        for number, cells in chain(head[below_titles:], rows):
            if header is None:
                header = _header_cells(cells)
                if not _has_distinct_columns(header, source.name, number, problems):
                    return
            # Without a name, no field could take it: the value would be lost without a word.
            elif any(cells[len(header) :]):
                message = f"a cell has a value behind the last column of the header, {len(header)}"
                problems.add(message, path=source.name, line=number)
            else:
                # A sheet stores a row to its last value alone.
                empty_cells = [""] * (len(header) - len(cells))
                yield _row_of_cells(cells + empty_cells, header, source.name, number)
    finally:
        book.close()


def _first_table(book: Any) -> str:
    """The name of a workbook's first sheet with a table, else of the first: it is read by default.

    A sheet of notes, which often comes first, has one column alone.

    Args:
        book: openpyxl's workbook.
    """
    for sheet in book.worksheets:
        sheet.reset_dimensions()  # what the file says of its size need not be true
        for row in islice(sheet.iter_rows(values_only=True), HEAD_ROWS):
            cells = [str(cell) for cell in row if cell is not None]
            if len(cells) > 1 or any(map(is_known_field, cells)):
                return str(sheet.title)
    if not book.worksheets:  # of charts alone
        return ""
    return str(book.worksheets[0].title)


def _filled_rows(sheet: Any, source: Source) -> Iterator[tuple[int, list[str]]]:
    """The rows of a sheet in which a cell shows something, with their numbers from 1.

    Excel stores rows of empty cells wherever somebody once set a format.

    Args:
        sheet: openpyxl's sheet.

    Raises:
        ValueError: the sheet has rows behind the last one that Excel knows: it is damaged.
    """
    for number, sheet_cells in enumerate(sheet.iter_rows(), start=1):
        if number > _MAX_ROWS:
            raise ValueError(f"it names rows behind row {_MAX_ROWS:,}, the last of a sheet")
        cells = [_shown_text(cell) for cell in sheet_cells]
        if any(map(str.strip, cells)):
            source.limits.check_cells(cells)
            yield number, cells


def _shown_text(cell: Any) -> str:
    """The text that a cell of a sheet shows, such as ``50%`` for 0.5; empty for an empty cell.

    People read and compare what they see. The function runs for each cell, so the common types come
    first.

    Args:
        cell: openpyxl's cell.
    """
    value = cell.value
    if value is None:
        return ""
    if type(value) is str:  # most cells; a text has no format either
        return value
    return cell_text(value, cell.number_format or "General")
