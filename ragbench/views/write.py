"""Every form of a report into its folder."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from shutil import copyfileobj
from tempfile import SpooledTemporaryFile

import orjson

from ragbench.core.metric import Metric
from ragbench.core.outcome import Status
from ragbench.core.report import CaseRow, Report
from ragbench.io.atomic import written_whole
from ragbench.ledger.codec import judgement_object
from ragbench.ledger.content import stamp_of
from ragbench.ledger.fingerprint import fingerprint
from ragbench.ledger.folder import RunFolder
from ragbench.ledger.journal import Journal
from ragbench.views.document import markdown
from ragbench.views.html.page import write_html
from ragbench.views.html.run_page import RunPage
from ragbench.views.report import report_json, shown_columns, timings_json
from ragbench.views.run_document import run_document

PAGE = "report.html"
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


class CaseFiles(ExitStack):
    """What a run's files say of its cases, collected while each is at hand."""

    count = 0

    def begin(self, metrics: Sequence[Metric]) -> Callable[[CaseRow], None]:
        """Takes the cases of a run from its first one on; what was collected before goes."""
        self.close()
        self.page, self.count = RunPage(metrics), 0
        self._names, self.columns = [metric.name for metric in metrics], shown_columns(metrics)
        self.table, self.judgements = (
            self.enter_context(SpooledTemporaryFile[bytes](_HELD)) for _ in range(2)
        )
        self._text = io.StringIO(newline="")
        # RFC 4180's line end; with another, Python 3.11 leaves a lone carriage return unquoted.
        self._rows = csv.writer(self._text, lineterminator="\r\n")
        return self._add

    def flush(self) -> None:
        """Brings the rows so far to where the others are."""
        self.table.write(self._text.getvalue().encode("utf-8", "backslashreplace"))
        self._text.seek(0)
        self._text.truncate()

    def _add(self, row: CaseRow) -> None:
        """Collects a case: as a row of a table in which lists are JSON, and for the page.

        A cell that was not measured holds its status instead of a number: none is taken for a 0.
        """
        self.count += 1
        self.page.case(row)
        lists = (row.tags, row.reference_ids, row.retrieved_ids)
        tags, golds, ids = ["" if one is None else orjson.dumps(one).decode() for one in lists]
        known = (row.id, row.query, row.language, row.cluster, row.reference, row.response)
        id, query, language, cluster, reference, response = map(_safe, known)
        failures = _safe(" | ".join(map(str, row.failures))) if row.failures else ""
        cells = [row.cells[position] for _, position in self.columns]
        values = [repr(c.value) if c.status is Status.MEASURED else c.status.value for c in cells]
        stages = row.stages["retrieve"], row.stages["generate"]
        shown = [id, query, language, cluster, tags, reference, response, golds, ids, *stages]
        verdict = _verdict_fields(row) if "validate" in row.stages else ()
        self._rows.writerow([*shown, failures, *values, *verdict])
        if self._text.tell() > _BUFFERED:
            self.flush()
        if any(row.judgements):
            self.judgements.writelines(_judgements(row, self._names))


_BUFFERED = 1 << 18
"""Characters of rows from which on they are encoded together."""
_HELD = 1 << 24
"""Bytes of a file that are held in memory until it is written; more are held on disk."""


def write_reports(report: Report, folder: Path, cases: CaseFiles | None = None) -> list[Path]:
    """Writes ``report.json``, ``cases.csv``, ``report.md``, ``report.html`` and ``timings.json``.

    Where models judged, ``judgements.jsonl`` holds what they said.

    Each is written whole or not at all. The cases are read once for all forms, where they were
    not collected before.
    """
    names = _names(report)
    with ExitStack() as stack:
        if cases is None or not cases.count:
            cases = stack.enter_context(CaseFiles())
            add = cases.begin(report.metrics)
            for row in report.rows():
                add(row)
        cases.page.report = report
        files = [stack.enter_context(written_whole(folder / name)) for name in names]
        head = io.StringIO(newline="")
        verdict = () if report.validation is None else _VERDICT_COLUMNS
        columns = (name for name, _ in cases.columns)
        csv.writer(head, lineterminator="\r\n").writerow([*_COLUMNS, *columns, *verdict])
        files[1].write(head.getvalue().encode("utf-8", "backslashreplace"))
        cases.flush()
        spools = zip((cases.table, cases.judgements), (files[1], *files[4:]), strict=False)
        for spooled, file in spools:
            spooled.seek(0)
            copyfileobj(spooled, file)
        files[0].write(report_json(report))
        files[2].write(markdown(run_document(report), level=1).encode())
        files[3].write(timings_json(report))
    write_html(folder / PAGE, cases.page.page())
    if (run := RunFolder(path=folder)).exists:
        with Journal(run.journal) as journal:
            journal.runs.keep(written=_state(report, folder, journal))
    return [*(folder / name for name in names), folder / PAGE]


def are_written(report: Report, folder: Path) -> bool:
    """Whether this version wrote the files of this very run, and nobody has touched them."""
    with Journal(RunFolder(path=folder).journal) as journal:
        return bool(journal.runs.kept.get("written") == _state(report, folder, journal))


def _state(report: Report, folder: Path, journal: Journal) -> str:
    stamps = [stamp_of(folder / name) for name in (*_names(report), PAGE)]
    said = report_json(report).decode()
    return fingerprint((version("ragbench"), said, journal.runs.started(), stamps))


def _names(report: Report) -> list[str]:
    names = ["report.json", "cases.csv", "report.md", "timings.json"]
    return names if report.judging is None else [*names, "judgements.jsonl"]


def _verdict_fields(row: CaseRow) -> list[str]:
    """What the validator says of a case's chunks; nothing of one that it was not asked about."""
    verdict = row.validation
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


def _judgements(row: CaseRow, names: Sequence[str]) -> Iterator[bytes]:
    """What the judged cells of a case rest on; nothing of a metric that nobody was asked about."""
    for name, judgements in zip(names, row.judgements, strict=True):
        if judgements:
            said = [judgement_object(judgement) for judgement in judgements]
            line = {"case": row.id, "metric": name, "judgements": said}
            yield orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
