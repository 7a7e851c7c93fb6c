"""Writes every form of a report into the run's folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ragbench.records.reports import Report
from ragbench.reports.csv_cases import csv_cases
from ragbench.reports.json_report import json_report
from ragbench.reports.markdown import markdown_report
from ragbench.reports.timings import timings_report

__all__ = ["FORMS", "write_reports"]

FORMS: Mapping[str, Callable[[Report], Iterator[bytes]]] = {
    "report.json": json_report,
    "report.md": markdown_report,
    "cases.csv": csv_cases,
    "timings.json": timings_report,
}
"""File name to what renders it."""


def write_reports(report: Report, folder: Path) -> list[Path]:
    """Writes the forms of a report, each whole or not at all.

    Returns:
        The files, in the order of `FORMS`.
    """
    written: list[Path] = []
    for name, render in FORMS.items():
        path = folder / name
        temporary = path.with_name(f".{name}.{os.getpid()}.tmp")
        try:
            with temporary.open("wb") as file:
                file.writelines(render(report))
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        written.append(path)
    return written
