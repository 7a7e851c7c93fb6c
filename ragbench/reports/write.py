"""Writes every form of a report into the run's folder."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from ragbench.records.reports import Report
from ragbench.reports.csv_cases import CsvCases
from ragbench.reports.json_report import JsonReport
from ragbench.reports.markdown import markdown_report
from ragbench.reports.timings import timings_report

__all__ = ["write_reports"]


def write_reports(report: Report, folder: Path) -> list[Path]:
    """Writes ``report.json``, ``cases.csv``, ``report.md`` and ``timings.json``.

    Each is written whole or not at all. The cases are read once for all forms.

    Returns:
        The files.
    """
    names = ("report.json", "cases.csv", "report.md", "timings.json")
    with ExitStack() as stack:
        files = [stack.enter_context(_whole(folder / name)) for name in names]
        by_case = (JsonReport(report, files[0]), CsvCases(report, files[1]))
        for row in report.rows():
            for form in by_case:
                form.case(row)
        for form in by_case:
            form.finish()
        files[2].writelines(markdown_report(report))
        files[3].writelines(timings_report(report))
    return [folder / name for name in names]


@contextmanager
def _whole(path: Path) -> Generator[BinaryIO]:
    """A file that appears under its name only when everything has been written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
