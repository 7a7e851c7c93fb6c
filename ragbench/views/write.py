"""Every form of a report into its folder."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from shutil import copyfileobj
from tempfile import SpooledTemporaryFile
from typing import IO, BinaryIO

import orjson

from ragbench.core.metric import Metric
from ragbench.core.outcome import Status
from ragbench.core.report import CaseRow, Report
from ragbench.io.atomic import written_whole
from ragbench.io.csv_cells import csv_line
from ragbench.ledger.codec import judgement_object
from ragbench.ledger.content import stamp_of
from ragbench.ledger.fingerprint import fingerprint
from ragbench.ledger.folder import RunFolder
from ragbench.ledger.journal import Journal
from ragbench.masking import hidden
from ragbench.views.document import markdown
from ragbench.views.html.page import write_html
from ragbench.views.html.run_page import RunPage
from ragbench.views.report import report_json, shown_columns, timings_json
from ragbench.views.run_document import run_document

PAGE = "report.html"
_COLUMNS = (
    "id",
    "query",
    "language",
    "cluster",
    "tags",
    "reference",
    "response",
    "reference_ids",
    "retrieved_ids",
    "retrieve",
    "generate",
    "failures",
    "cause",
    "answer_is",
    "decided_by",
    "answer_reason",
)
_VERDICT_COLUMNS = (
    "verdict_answer_present",
    "verdict_word",
    "verdict_probability",
    "verdict_quality",
    "verdict_message",
    "verdict_reasons",
    "verdict_conflicts",
)
"""Only in runs that have a validator."""
_BUFFERED = 1 << 18
"""Characters of rows from which on they are encoded together."""
_IN_MEMORY = 1 << 24
"""Bytes of a file that are held in memory until it is written; more are held on disk."""


class CaseFiles(ExitStack):
    """What a run's files say of its cases, collected as the cases come."""

    count = 0

    def begin(self, metrics: Sequence[Metric]) -> Callable[[CaseRow], None]:
        """Starts to collect the cases of a run for its files; cases collected before are dropped.

        Rows wait in files in memory, or on disk where they are many, until the run is finished.

        Returns:
            What takes each case.
        """
        # Closes the files of an earlier run of the same command, as with repeated asking.
        self.close()
        self.count = 0
        self.page = RunPage(metrics)
        self.columns = shown_columns(metrics)
        self._metric_names = [metric.name for metric in metrics]
        # In memory up to a size, then on disk by themselves.
        self.table = self.enter_context(SpooledTemporaryFile[bytes](_IN_MEMORY))
        self.judgements = self.enter_context(SpooledTemporaryFile[bytes](_IN_MEMORY))
        self._text = io.StringIO(newline="")
        return self._add_case

    def flush(self) -> None:
        """Encodes the rows of cases.csv that are still text, and appends them to the others.

        Rows are encoded many at a time, which is faster; the rest must be written before the table
        is read.
        """
        self.table.write(self._text.getvalue().encode("utf-8", "backslashreplace"))
        self._text.seek(0)
        self._text.truncate()

    def _add_case(self, row: CaseRow) -> None:
        """Takes in a case for the page, for cases.csv and, where judged, for judgements.jsonl.

        Each case is read once for all files: a run may be larger than the memory.
        """
        self.count += 1
        # The page keeps only what it shows; the row is not held beyond this call.
        self.page.case(row)
        self._text.write(csv_line(self._row_of_case(row)))
        if self._text.tell() > _BUFFERED:
            self.flush()
        if any(row.judgements):
            self.judgements.writelines(_judgement_lines(row, self._metric_names))

    def _row_of_case(self, row: CaseRow) -> list[object]:
        """A case as a row of cases.csv, whose lists are JSON, in the order of `_csv_head`.

        A cell that was not measured holds its status instead of a number: none is taken for a 0.
        """
        fields: list[object] = [
            _id_cell(row.id),
            _text_cell(row.query),
            _id_cell(row.language),
            _id_cell(row.cluster),
            _ids_cell(row.tags),
            _text_cell(row.reference),
            _text_cell(row.response),
            _ids_cell(row.reference_ids),
            _ids_cell(row.retrieved_ids),
            row.stages["retrieve"],
            row.stages["generate"],
            _text_cell(" | ".join(map(str, row.failures))),
            row.attribution.cause.value,
            row.attribution.answer.value,
            row.attribution.decided_by.value,
            _text_cell(row.attribution.reason),
        ]
        # `position` is the place of a metric's cell in the row: not all cells have a column.
        for _, position in self.columns:
            cell = row.cells[position]
            is_measured = cell.status is Status.MEASURED
            fields.append(cell.value if is_measured else cell.status.value)
        # Only of runs with a validator: others have no such columns.
        if "validate" in row.stages:
            fields.extend(_verdict_fields(row))
        return fields


def write_reports(report: Report, folder: Path, cases: CaseFiles | None = None) -> list[Path]:
    """Writes all files of a report into a run's folder: its figures, its cases and its page.

    Where models judged, ``judgements.jsonl`` holds what they said.

    Each file is written whole or not at all. The cases are read once for all forms, where they were
    not collected before.
    """
    names = _file_names(report)
    with ExitStack() as stack:
        # No collected case: the run was read from its folder, or none was new.
        if cases is None or not cases.count:
            cases = stack.enter_context(CaseFiles())
            add = cases.begin(report.metrics)
            for row in report.rows():
                add(row)
        # What is collected must be in the files before they are copied.
        cases.flush()
        cases.page.report = report
        files: dict[str, BinaryIO] = {}
        # All files take their places together when the block ends.
        for name in names:
            file = written_whole(folder / name, is_table=name == "cases.csv")
            files[name] = stack.enter_context(file)
        files["cases.csv"].write(_csv_head(report, cases))
        _append_rows(cases.table, files["cases.csv"])
        if "judgements.jsonl" in files:
            _append_rows(cases.judgements, files["judgements.jsonl"])
        files["report.json"].write(report_json(report))
        files["report.md"].write(markdown(run_document(report), level=1).encode())
        files["timings.json"].write(timings_json(report))
    # Behind the block: the page is a file of its own, written whole or not at all.
    write_html(folder / PAGE, cases.page.page())
    run = RunFolder(path=folder)
    if run.exists:
        with Journal(run.journal) as journal:
            # The state of the files, by which a later command knows that they are up to date.
            journal.runs.written(_state_of_files(report, folder, journal))
    return [*(folder / name for name in names), folder / PAGE]


def _csv_head(report: Report, cases: CaseFiles) -> bytes:
    """The first line of cases.csv, with the names of the columns: fields, metrics, verdicts.

    Programs read the file by these names. The order is that in which `CaseFiles` writes the fields.
    """
    metrics = [name for name, _ in cases.columns]
    verdict = () if report.validation is None else _VERDICT_COLUMNS
    return csv_line([*_COLUMNS, *metrics, *verdict]).encode("utf-8", "backslashreplace")


def _append_rows(collected: SpooledTemporaryFile[bytes], file: IO[bytes]) -> None:
    """Appends the rows that were collected while the cases came to the file of a report.

    Headings are written before, as only the finished report knows all columns.
    """
    collected.seek(0)
    copyfileobj(collected, file)


def are_written(report: Report, folder: Path) -> bool:
    """Whether this version of ragbench wrote the files of this very run, and they are unchanged.

    Then a repeated command leaves them as they are, and need not read all cases again.
    """
    with Journal(RunFolder(path=folder).journal) as journal:
        return bool(journal.runs.kept.get("written") == _state_of_files(report, folder, journal))


def _state_of_files(report: Report, folder: Path, journal: Journal) -> str:
    """A fingerprint of a report's files, its run, and the version of ragbench that wrote them.

    It is stored in the run's journal: with another form, all reports are written anew, once.
    """
    stamps = [stamp_of(folder / name) for name in (*_file_names(report), PAGE)]
    content = report_json(report).decode()
    return fingerprint((version("ragbench"), content, journal.runs.started(), stamps))


def _file_names(report: Report) -> list[str]:
    """The names of a report's files besides its page.

    There is a file of judgements only where a model judged.
    """
    names = ["report.json", "cases.csv", "report.md", "timings.json"]
    if report.judging is not None:
        names.append("judgements.jsonl")
    return names


def _verdict_fields(row: CaseRow) -> list[object]:
    """The validator's verdict on a case's chunks as cells of cases.csv, under `_VERDICT_COLUMNS`.

    They are empty for a case that was not validated.
    """
    verdict = row.validation
    if verdict is None:
        # As many as there are columns, so that later cells stay in theirs.
        return [None] * len(_VERDICT_COLUMNS)
    present = "no"
    if verdict.answer_present:
        present = "yes"
    word: str | None = None
    if verdict.answer_word is not None:
        word = verdict.answer_word.value
    conflicts = [conflict.detail for conflict in verdict.conflicts]
    return [
        present,
        word,
        verdict.answer_probability,
        verdict.retrieval_quality.value,
        _text_cell(verdict.message),
        _text_cell(" | ".join(verdict.reasons)),
        _text_cell(" | ".join(conflicts)),
    ]


def _ids_cell(ids: Sequence[str] | None) -> str | None:
    """The ids of a case as one cell of cases.csv: a JSON text, as an id may hold any separator."""
    if ids is None:
        return None
    return orjson.dumps(ids).decode()


def _text_cell(text: str | None) -> str | None:
    """A text as a cell of cases.csv, with credentials masked.

    An empty text and none are the same there.
    """
    if not text:
        return None
    return _id_cell(hidden(text))


def _id_cell(text: str | None) -> str | None:
    """An id as a cell of cases.csv, by which cases are joined or grouped: it is not masked.

    Masked, two ids could become equal. A NUL is spelled out, since some readers end a row there.
    """
    if not text:
        return None
    return text.replace("\x00", "\\0")  # some readers end a row there


def _judgement_lines(row: CaseRow, names: Sequence[str]) -> Iterator[bytes]:
    """The lines of judgements.jsonl for a case.

    A line has the judgements that a metric's score rests on, so that a reader can check them.
    """
    # Names and judgements are both in the order of the metrics.
    for name, judgements in zip(names, row.judgements, strict=True):
        if judgements:
            line = {
                "case": row.id,
                "metric": name,
                "judgements": [judgement_object(judgement) for judgement in judgements],
            }
            yield orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
