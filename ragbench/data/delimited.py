"""CSV and TSV with a header row."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field

from ragbench.data.problems import Problems
from ragbench.data.rows import Kind, Row
from ragbench.data.source import Source
from ragbench.data.text import decode_line, read_lines

__all__ = ["read_csv", "read_tsv"]

_LONGEST_CELL = (1 << 31) - 1
_OTHER_DELIMITERS = (";", "\t", "|")


def read_csv(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row a record. A header without a comma may be separated by ``;``, tab or ``|``."""
    yield from _read(source, None, problems)


def read_tsv(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row a record of a tab-separated file; cells may be quoted as in CSV."""
    yield from _read(source, "\t", problems)


@dataclass(kw_only=True, slots=True)
class _Text:
    """The lines of a file as text, and which of them could not be decoded."""

    source: Source
    problems: Problems
    broken: set[int] = field(default_factory=set[int])

    def __iter__(self) -> Iterator[str]:
        for line in read_lines(self.source, self.problems):
            text = decode_line(line, self.source.name, self.problems)
            if text is None:
                # The reader still needs the line: it may stand inside a quoted cell.
                self.broken.add(line.number)
                text = line.raw.decode("utf-8", "replace")
            yield text


def _read(source: Source, delimiter: str | None, problems: Problems) -> Iterator[Row]:
    # The module's limit of 128 kB a cell is too small for documents; it can only be set for all.
    csv.field_size_limit(_LONGEST_CELL)
    text = _Text(source=source, problems=problems)
    lines = iter(text)
    first = next(lines, None)
    if first is None:
        return
    separator = delimiter or _guess_delimiter(first)
    reader = csv.reader(_chain(first, lines), delimiter=separator, strict=True)
    header: list[str] | None = None
    end = 0
    while True:
        begin = end + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            end = max(reader.line_num, begin)
            problems.add(f"not valid CSV: {_explain(error)}", path=source.name, line=begin)
            if header is None:
                return
            continue
        if cells is None:
            return
        end = reader.line_num
        if not cells:
            continue
        if header is None:
            header = cells
            if not _check_header(header, source.name, begin, problems):
                return
        elif text.broken.isdisjoint(range(begin, end + 1)):
            yield from _row(cells, header, source.name, begin, problems)


def _row(
    cells: list[str], header: list[str], path: str, line: int, problems: Problems
) -> Iterator[Row]:
    if len(cells) != len(header):
        message = f"expected {len(header)} cells as in the header, found {len(cells)}"
        problems.add(message, path=path, line=line)
        return
    values = dict(zip(header, cells, strict=True))
    # pandas writes its row numbers under an empty name.
    values.pop("", None)
    yield Row(path, line, values, cells=True)


def _check_header(header: list[str], path: str, line: int, problems: Problems) -> bool:
    repeated = sorted({name for name in header if name and header.count(name) > 1})
    for name in repeated:
        problems.add("the column stands twice in the header", path=path, line=line, field=name)
    return not repeated


def _guess_delimiter(header: str) -> str:
    if "," in header:
        return ","
    return max((",", *_OTHER_DELIMITERS), key=header.count)


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _explain(error: csv.Error) -> str:
    text = str(error)
    if "unexpected end of data" in text:
        return "a quoted cell begins in this record and never ends"
    if "new-line character" in text:
        return "a lone carriage return; expected line feeds (or both) at the ends of lines"
    return text
