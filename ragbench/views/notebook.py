"""A report and a comparison as a notebook shows them: a part of a page, without script.

Jupyter calls the method ``_repr_html_`` of the last value of a cell; those of `Report` and
`Comparison` call these functions. Every text is escaped, and the styles apply to this part alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.core.attribution import LOSSES
from ragbench.core.comparison import Comparison
from ragbench.core.metric import Metric
from ragbench.core.record import replace
from ragbench.core.report import Report, badness, main_metric
from ragbench.safe_text import shown_line
from ragbench.views.comparison import comparison_document
from ragbench.views.document import Changes, Document, Section, cause_text
from ragbench.views.html.page import render
from ragbench.views.metric_table import metric_cell, metric_columns
from ragbench.views.run_document import causes_section, headline, unmeasured_text

_MOST_CASES = 10
"""Cases that a notebook shows, of a comparison per kind: `to_pandas` has all."""
_MOST_ROWS = 40
"""Rows of a table; a notebook keeps its outputs in its file."""
_LONGEST = 200
"""Letters of a question, an answer or an explanation."""


def report_html(report: Report) -> str:
    """A report as HTML for the output of a notebook's cell.

    It has the headline, the causes, the metrics and the worst cases.
    """
    notes = list(report.notes)
    warnings: list[str] = []
    if not report.is_comparable:
        # The first note is the reason: taken out, so that it is not shown twice.
        reason = notes.pop(0)
        warnings.append(f"Not comparable: {reason}")
    document = Document(
        kind="ragbench evaluation",
        title=f"{report.manifest['rag']['name']} on {report.manifest['dataset']['name']}",
        headline=headline(report),
        sections=(
            Section(title="Warning", lines=warnings),
            causes_section(report.causes),
            _metrics_section(report),
            _worst_cases_section(report),
        ),
        notes=notes,
    )
    return _notebook_html(document)


def _metrics_section(report: Report) -> Section:
    """The table of a notebook with the metrics that have a figure.

    The others are named below it.
    """
    # Metrics without a figure would be a row of dashes.
    summaries = [summary for summary in report.summaries if summary.measured]
    columns = metric_columns("terminal", summaries)
    rows: list[Sequence[object]] = []
    for summary in summaries:
        cells: list[str] = []
        for column in columns:
            cell = metric_cell(column, summary)
            # Where cases lack a value, the number of all is beside that of the measured.
            if column.is_of_total:
                cell += f" of {summary.total:,}"
            cells.append(cell)
        rows.append(cells)
    hint = ""
    unmeasured = unmeasured_text(report)
    if unmeasured:
        hint = f"Not measured: {unmeasured}."
    return Section(
        title="Metrics",
        columns=[column.heading for column in columns],
        rows=rows,
        hint=hint,
    )


def _worst_cases_section(report: Report) -> Section:
    """The table of a notebook with the lost cases that are worst by the main metric.

    These are where a reader begins to look; a case is lost if its cause is among `LOSSES`.
    """
    position = main_metric(report.metrics)
    metric: Metric | None = None
    if position is not None:
        metric = report.metrics[position]
    # From the index, which holds no texts: only the shown cases are read whole.
    lost = [case for case in report.index(position, None) if case.cause in LOSSES]
    lost.sort(key=lambda case: badness(case.value, metric))  # the worst first
    rows: list[Sequence[object]] = []
    for row in report.find([case.id for case in lost[:_MOST_CASES]]):
        rows.append(
            (
                _short_text(row.id),
                _short_text(row.query),
                _short_text(row.response),
                _short_text(row.reference),
                row.attribution.cause.label,
                _short_text(row.attribution.explanation),
            )
        )
    hint = ""
    if len(lost) > len(rows):
        hint = f"{len(rows):,} of {len(lost):,} lost cases: to_pandas() has all."
    return Section(
        title="Worst cases",
        columns=("case", "question", "answer", "reference", "cause", "why"),
        rows=rows,
        hint=hint,
    )


def comparison_html(comparison: Comparison) -> str:
    """A comparison as HTML for the output of a notebook's cell; changed cases become tables.

    The page of a comparison unfolds them by a script, which notebooks do not run.
    """
    document = comparison_document(comparison)
    sections: list[Section] = []
    for section in document.sections:
        # The section itself stays, with its lines, and without what a script would unfold.
        sections.append(replace(section, changes=()))
        sections.extend(_changed_section(changes) for changes in section.changes)
    return _notebook_html(replace(document, sections=sections))


def _changed_section(changes: Changes) -> Section:
    """The first cases that changed in one way between two runs.

    Each row has the case's answers and causes in both runs.
    """
    rows: list[Sequence[object]] = []
    for case in changes.cases[:_MOST_CASES]:
        rows.append(
            (
                _short_text(case.id),
                _short_text(case.query),
                _short_text(case.response_before),
                _short_text(case.response_after),
                cause_text(case),
            )
        )
    hint = ""
    if len(changes.cases) > len(rows):
        hint = f"{len(rows):,} of {len(changes.cases):,} cases: to_pandas() has all."
    return Section(
        title=changes.title,
        columns=(
            "case",
            "question",
            f"answer in {changes.pair.first}",
            f"answer in {changes.pair.second}",
            "cause",
        ),
        rows=rows,
        hint=hint,
    )


def _short_text(text: str | None) -> str:
    """The beginning of a text on one line for a table of a notebook; a dash where there is none.

    A notebook keeps its outputs in its file.
    """
    if text is None:
        return "-"
    return shown_line(text, longest=_LONGEST)


def _notebook_html(document: Document) -> str:
    """A document as a part of a page for a notebook, without drawings and with short tables.

    A notebook keeps its outputs in its file, and has no style sheet for drawings.
    """
    sections = [_without_drawings(section) for section in document.sections]
    sections = [_with_first_rows(section) for section in sections]
    return render("notebook.html.jinja", {"document": replace(document, sections=sections)})


def _without_drawings(section: Section) -> Section:
    """A section without the columns that have no name.

    These hold drawings, which need a page's styles.
    """
    # A column of drawings has no heading, which tells it apart in any table.
    named = [position for position, column in enumerate(section.columns) if column]
    if len(named) == len(section.columns):
        return section
    rows: list[Sequence[object]] = []
    for row in section.rows:
        rows.append([row[position] for position in named])
    return replace(section, columns=[section.columns[position] for position in named], rows=rows)


def _with_first_rows(section: Section) -> Section:
    """A section with the first rows of its table, and how many rows there are.

    A notebook keeps its outputs in its file: a table of a thousand rows would stay in it.
    """
    if len(section.rows) <= _MOST_ROWS:
        return section
    count = f"{_MOST_ROWS:,} of {len(section.rows):,} rows are shown."
    hint = count
    if section.hint:
        hint = f"{section.hint} {count}"
    return replace(section, rows=section.rows[:_MOST_ROWS], hint=hint)
