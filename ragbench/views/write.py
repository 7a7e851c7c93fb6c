"""Every form of a report into its folder."""

from __future__ import annotations

import csv
import io
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Protocol

import orjson

from ragbench.core.outcome import Cell, Status
from ragbench.core.report import CaseRow, Report
from ragbench.core.validation import Verdict
from ragbench.io.atomic import written_whole
from ragbench.ledger.codec import judgement_object
from ragbench.views.document import markdown
from ragbench.views.html.page import write_html
from ragbench.views.html.run_page import RunPage
from ragbench.views.report import report_json, shown_columns, timings_report
from ragbench.views.run_document import run_document

_COLUMNS = (
    "id", "query", "language", "cluster", "tags", "reference", "response", "reference_ids",
    "retrieved_ids", "retrieve", "generate", "failures",
)  # fmt: skip
_VERDICT_COLUMNS = (
    "verdict_answer_present", "verdict_probability", "verdict_quality", "verdict_message",
    "verdict_reasons", "verdict_conflicts",
)  # fmt: skip
"""Only in runs that have a validator."""


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What spreadsheets take for the beginning of a formula (OWASP, "CSV Injection")."""


class CsvCases:
    """Writes the cases, a header first.

    Lists are JSON. A cell that was not measured holds its status instead of a number, so that
    none is taken for a 0.
    """

    def __init__(self, report: Report, file: BinaryIO) -> None:
        self._columns = shown_columns(report.metrics)
        self._text = io.TextIOWrapper(
            file, encoding="utf-8", errors="backslashreplace", newline="", write_through=True
        )
        # RFC 4180's line end; with another, Python 3.11 leaves a lone carriage return unquoted.
        self._writer = csv.writer(self._text, lineterminator="\r\n")
        self._validated = report.validation is not None
        verdict = _VERDICT_COLUMNS if self._validated else ()
        self._writer.writerow([*_COLUMNS, *(name for name, _ in self._columns), *verdict])

    def case(self, row: CaseRow) -> None:
        verdict = _verdict_fields(row.validation) if self._validated else []
        self._writer.writerow([*_fields(row, self._columns), *verdict])

    def finish(self) -> None:
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


def _verdict_fields(verdict: Verdict | None) -> list[str]:
    """What the validator says of a case's chunks; nothing of one that it was not asked about."""
    if verdict is None:
        return [""] * len(_VERDICT_COLUMNS)
    return [
        "yes" if verdict.answer_present else "no",
        repr(verdict.answer_probability),
        verdict.retrieval_quality.value,
        _safe(verdict.message),
        _safe(" | ".join(verdict.reasons)),
        _safe(" | ".join(one.detail for one in verdict.conflicts)),
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


class _Form(Protocol):
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
        by_case: list[_Form] = [CsvCases(report, files[1])]
        if report.judging is not None:
            by_case.append(JudgementLines(report, files[4]))
        page = RunPage(report)
        for row in report.rows():
            page.case(row)
            for form in by_case:
                form.case(row)
        for form in by_case:
            form.finish()
        files[0].write(report_json(report))
        files[2].write(markdown(run_document(report), level=1).encode())
        files[3].writelines(timings_report(report))
    write_html(folder / PAGE, page.body(), title=page.title)
    return [*(folder / name for name in names), folder / PAGE]
