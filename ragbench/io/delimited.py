"""CSV and TSV, read and written.

Texts always stand in quotation marks, everything else never does: ``""`` is an empty text and
nothing at all is not known. Lists and mappings are JSON texts. A number that is not finite is
``NaN``, ``Infinity`` or ``-Infinity``.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from ragbench.core.trace import Trace
from ragbench.errors import InputError
from ragbench.io.atomic import written_whole
from ragbench.io.export import Exported, Scores, Tally, columns, table_row
from ragbench.io.json_text import json_text, plain
from ragbench.io.lines import decode_line, read_lines
from ragbench.io.source import Kind, Problems, Row, Source

_LONGEST_CELL = (1 << 31) - 1
"""That the module takes."""
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
"""The line by which Excel is told the separator."""
_OTHER_DELIMITERS = (";", "\t", "|")


def read_csv(source: Source, *, kind: Kind, problems: Problems) -> Iterator[Row]:
    """Yields one row a record. A header without a comma may be separated by ``;``, tab or ``|``.

    A line such as ``sep=;`` above the header says the separator.
    """
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
    size: int = 0
    """Bytes of the record so far; whoever reads it sets it back."""

    def __iter__(self) -> Iterator[str]:
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
            yield text


def _read(source: Source, delimiter: str | None, problems: Problems) -> Iterator[Row]:
    # The module's limit of 128 kB a cell is too small for documents; it can only be set for all.
    csv.field_size_limit(_LONGEST_CELL)
    text = _Text(source=source, problems=problems)
    lines = iter(text)
    first = next(lines, "")
    told = _SEPARATOR_LINE.fullmatch(first.strip())
    skipped = 0 if told is None else 1
    if told is not None:
        first, delimiter = next(lines, ""), delimiter or told[1]
    reader = csv.reader(
        _chain(first, lines), delimiter=delimiter or _guess_delimiter(first), strict=True
    )
    header: list[str] | None = None
    end = skipped
    while True:
        begin, text.size = end + 1, 0
        try:
            cells = next(reader, None)
        except csv.Error as error:
            end = max(reader.line_num + skipped, begin)
            problems.add(f"not valid CSV: {_explain(error)}", path=source.name, line=begin)
            if header is None:
                return
            continue
        if cells is None:
            return
        end = reader.line_num + skipped
        if not cells:
            continue
        if header is None:
            header = cells
            if not check_header(header, source.name, begin, problems):
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


def check_header(header: list[str], path: str, line: int, problems: Problems) -> bool:
    """Whether the names of a table's columns differ; else each that does not is a problem."""
    repeated = sorted(name for name, count in Counter(header).items() if name and count > 1)
    for name in repeated:
        problems.add("the column appears twice in the header", path=path, line=line, field=name)
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


def write(traces: Iterable[Trace], path: Path, *, scores: Scores) -> Exported:
    """A case per row, as CSV (RFC 4180 with plain line feeds, UTF-8), below a header."""
    tally = Tally()
    with written_whole(path, make_folders=True) as file:
        names = [column.name for column in columns(scores)]
        file.write(_line(names, "the header"))
        for trace in traces:
            row = table_row(trace, scores)
            file.write(_line([row[name] for name in names], f"case '{trace.case.id}'"))
            tally.written += 1
    return tally.exported(path)


def _line(values: Iterable[object], what: str) -> bytes:
    text = ",".join([_cell(value) for value in values]) + "\n"
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{what} holds a lone surrogate, which CSV cannot store; export to jsonl instead"
        ) from None


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list):
        return _quoted(json_text(cast("list[object]", value)))
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(plain(value))


def _quoted(text: str) -> str:
    escaped = text.replace('"', '""')
    return f'"{escaped}"'
