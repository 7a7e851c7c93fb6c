"""Every form of a report into its folder."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Protocol

import orjson

from ragbench.core.report import CaseRow, Report
from ragbench.io.atomic import written_whole
from ragbench.ledger.codec import judgement_object
from ragbench.views.html.page import write_html
from ragbench.views.html.run_page import RunPage
from ragbench.views.markdown import markdown_report
from ragbench.views.report import CsvCases, JsonReport, timings_report


class JudgementLines:
    """Writes the statements, verdicts and reasons that the cells of a run rest on."""

    def __init__(self, report: Report, file: BinaryIO) -> None:
        self._file = file
        self._names = [metric.name for metric in report.metrics]

    def case(self, row: CaseRow) -> None:
        """Writes a case's lines; none for a metric that nobody was asked about."""
        for name, judgements in zip(self._names, row.judgements, strict=True):
            if judgements:
                line = {
                    "case": row.id,
                    "metric": name,
                    "judgements": [judgement_object(judgement) for judgement in judgements],
                }
                self._file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))

    def finish(self) -> None: ...


PAGE = "report.html"
"""The report as one HTML file."""


class _Form(Protocol):
    """What is written a case at a time."""

    def case(self, row: CaseRow) -> None: ...

    def finish(self) -> None: ...


def write_reports(report: Report, folder: Path) -> list[Path]:
    """Writes ``report.json``, ``cases.csv``, ``report.md``, ``report.html`` and ``timings.json``.

    Where models judged, ``judgements.jsonl`` holds what they said.

    Each is written whole or not at all. The cases are read once for all forms.
    """
    names = ["report.json", "cases.csv", "report.md", "timings.json"]
    if report.judging is not None:
        names.append("judgements.jsonl")
    with ExitStack() as stack:
        files = [stack.enter_context(written_whole(folder / name)) for name in names]
        by_case: list[_Form] = [JsonReport(report, files[0]), CsvCases(report, files[1])]
        if report.judging is not None:
            by_case.append(JudgementLines(report, files[4]))
        page = RunPage(report)
        for row in report.rows():
            page.case(row)
            for form in by_case:
                form.case(row)
        for form in by_case:
            form.finish()
        files[2].writelines(markdown_report(report))
        files[3].writelines(timings_report(report))
    write_html(folder / PAGE, page.body(), title=page.title)
    return [*(folder / name for name in names), folder / PAGE]
