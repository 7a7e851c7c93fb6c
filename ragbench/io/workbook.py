"""Workbooks of Excel and its like (.xlsx)."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import date, datetime, time
from typing import Any, BinaryIO, cast
from xml.etree.ElementTree import ParseError
from zipfile import BadZipFile, ZipFile

from ragbench.io.delimited import check_header
from ragbench.io.limits import TooLargeError
from ragbench.io.source import Kind, Problems, Row, Source
from ragbench.plugins import require

_OLD = b"\xd0\xcf\x11\xe0"
_MOST_ROWS = 1 << 20
"""Rows of a sheet in Excel; a damaged file may name a row far behind them."""
_ERRORS = (BadZipFile, ParseError, KeyError, ValueError, TypeError, IndexError, EOFError)
"""What the package raises for files that are none, or damaged."""


def read(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row a record of a sheet: the one that ``--split`` names, else the first.

    The first row with a value is the header. Formulas count by the value that was last computed.
    """
    del kind
    openpyxl = require("openpyxl", extra="excel")
    with source.opened(problems) as stream:
        if stream is None:
            return
        try:
            yield from _rows(openpyxl, _checked(stream, source), source, problems)
        except TooLargeError:
            raise
        except _ERRORS as error:
            problems.add(f"not a readable workbook: {error}", path=source.name)


def _checked(stream: BinaryIO, source: Source) -> BinaryIO:
    """The file, once its directory says that it unpacks to no more than is allowed."""
    file = stream
    if not stream.seekable():
        data = stream.read(source.limits.file + 1)
        source.limits.check_held(len(data))
        file = io.BytesIO(data)
    if file.read(len(_OLD)) == _OLD:
        raise ValueError("it is an .xls of old or encrypted: save it as .xlsx without a password")
    file.seek(0)
    with ZipFile(file) as archive:
        source.limits.check_archive(archive)
    file.seek(0)
    return file


def _rows(openpyxl: Any, file: BinaryIO, source: Source, problems: Problems) -> Iterator[Row]:
    book = openpyxl.load_workbook(file, read_only=True, data_only=True)
    try:
        sheet = _sheet(book, source, problems)
        if sheet is None:
            return
        sheet.reset_dimensions()  # what the file says of its size need not be true
        header: list[str] | None = None
        for number, raw in enumerate(sheet.iter_rows(values_only=True), start=1):
            if number > _MOST_ROWS:
                raise ValueError(f"it names rows behind row {_MOST_ROWS:,}, the last of a sheet")
            cells = [_text(cell) for cell in cast("tuple[object, ...]", raw)]
            if not any(cells):
                continue
            source.limits.check_cells(cells)
            if header is None:
                header = cells
                if not check_header(header, source.name, number, problems):
                    return
            elif any(cells[len(header) :]):
                message = f"a cell has a value behind the last column of the header, {len(header)}"
                problems.add(message, path=source.name, line=number)
            else:
                cells += [""] * (len(header) - len(cells))
                values = dict(zip(header, cells, strict=False))
                values.pop("", None)
                yield Row(source.name, number, values, cells=True)
    finally:
        book.close()


def _sheet(book: Any, source: Source, problems: Problems) -> Any:
    names = [sheet.title for sheet in book.worksheets]
    if source.split is None and len(names) > 1:
        others = ", ".join(names[1:])
        source.notes[f"The sheet '{names[0]}' is read; --split names another: {others}"] = None
    wanted = source.split or next(iter(names), None)
    if wanted in names:
        return book[wanted]
    problems.add(f"no sheet '{wanted}'; there are: {', '.join(names)}", path=source.name)
    return None


def _text(cell: object) -> str:
    """A cell as the text that a CSV file would hold."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, datetime) and cell.time() == time():
        return cell.date().isoformat()
    return cell.isoformat() if isinstance(cell, (datetime, date, time)) else str(cell)
