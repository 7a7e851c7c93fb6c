"""cases.csv: a row a case, for a spreadsheet."""

from __future__ import annotations

import csv
import io
from typing import BinaryIO

import orjson

from ragbench.records.cells import Cell, Status
from ragbench.records.reports import CaseRow, Report
from ragbench.reports.rows import shown_columns

__all__ = ["CsvCases"]

_COLUMNS = (
    "id", "query", "language", "cluster", "tags", "reference", "response", "reference_ids",
    "retrieved_ids", "retrieve", "generate", "failures",
)  # fmt: skip


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What spreadsheets take for the beginning of a formula (OWASP, "CSV Injection")."""


class CsvCases:
    """Writes the cases, a header first.

    Lists are JSON. A cell that was not measured holds its status instead of a number, so that
    none is taken for a 0.
    """

    def __init__(self, report: Report, file: BinaryIO) -> None:
        """Writes the header."""
        self._columns = shown_columns(report.metrics)
        self._text = io.TextIOWrapper(
            file, encoding="utf-8", errors="backslashreplace", newline="", write_through=True
        )
        # RFC 4180's line end; with another, Python 3.11 leaves a lone carriage return unquoted.
        self._writer = csv.writer(self._text, lineterminator="\r\n")
        self._writer.writerow([*_COLUMNS, *(name for name, _ in self._columns)])

    def case(self, row: CaseRow) -> None:
        """Writes a case."""
        self._writer.writerow(_fields(row, self._columns))

    def finish(self) -> None:
        """Hands the file back, everything written."""
        self._text.detach()


def _fields(row: CaseRow, columns: tuple[tuple[str, int], ...]) -> list[str]:
    return [
        *(_safe(text) for text in (row.id, row.query, row.language, row.cluster)),
        _list(row.tags),
        _safe(row.reference),
        _safe(row.response),
        _list(row.reference_ids),
        _list(row.retrieved_ids),
        row.stages["retrieve"],
        row.stages["generate"],
        _safe(" | ".join(str(failure) for failure in row.failures)),
        *(_cell(row.cells[position]) for _, position in columns),
    ]


def _safe(text: str | None) -> str:
    """A text that a spreadsheet does not run as a formula."""
    if text is None:
        return ""
    text = text.replace("\x00", "\\0")  # readers end a row there
    return f"'{text}" if text.startswith(_FORMULA) else text


def _list(values: tuple[str, ...] | None) -> str:
    return "" if values is None else orjson.dumps(values).decode()


def _cell(cell: Cell) -> str:
    return repr(cell.value) if cell.status is Status.MEASURED else cell.status.value
