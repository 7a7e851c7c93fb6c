"""Writes every form of a report into the run's folder."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from ragbench.data.atomic import written_whole
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
        files = [stack.enter_context(written_whole(folder / name)) for name in names]
        by_case = (JsonReport(report, files[0]), CsvCases(report, files[1]))
        for row in report.rows():
            for form in by_case:
                form.case(row)
        for form in by_case:
            form.finish()
        files[2].writelines(markdown_report(report))
        files[3].writelines(timings_report(report))
    return [folder / name for name in names]
