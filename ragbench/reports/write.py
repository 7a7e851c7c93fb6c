"""Writes every form of a report into the run's folder."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from ragbench.data.atomic import written_whole
from ragbench.records.reports import CaseRow, Report
from ragbench.reports.csv_cases import CsvCases
from ragbench.reports.json_report import JsonReport
from ragbench.reports.judgements import JudgementLines
from ragbench.reports.markdown import markdown_report
from ragbench.reports.timings import timings_report

__all__ = ["write_reports"]


class _Form(Protocol):
    """What is written a case at a time."""

    def case(self, row: CaseRow) -> None: ...

    def finish(self) -> None: ...


def write_reports(report: Report, folder: Path) -> list[Path]:
    """Writes ``report.json``, ``cases.csv``, ``report.md`` and ``timings.json``.

    Where models judged, ``judgements.jsonl`` holds what they said.

    Each is written whole or not at all. The cases are read once for all forms.

    Returns:
        The files.
    """
    names = ["report.json", "cases.csv", "report.md", "timings.json"]
    if report.judging is not None:
        names.append("judgements.jsonl")
    with ExitStack() as stack:
        files = [stack.enter_context(written_whole(folder / name)) for name in names]
        by_case: list[_Form] = [JsonReport(report, files[0]), CsvCases(report, files[1])]
        if report.judging is not None:
            by_case.append(JudgementLines(report, files[4]))
        for row in report.rows():
            for form in by_case:
                form.case(row)
        for form in by_case:
            form.finish()
        files[2].writelines(markdown_report(report))
        files[3].writelines(timings_report(report))
    return [folder / name for name in names]
