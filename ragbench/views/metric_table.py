"""The table of metrics as texts: `METRIC_TABLE` lists its columns for terminal, Markdown and page.

The page, whose cells hold drawings, too, is in `ragbench.views.html.run_page`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.core.report import METRIC_TABLE, Form, Interval, Summary, TableColumn
from ragbench.views.document import number_text, range_text


def metric_columns(form: Form, summaries: Sequence[Summary]) -> list[TableColumn]:
    """The columns that a form (terminal, Markdown, page) shows of these metrics.

    A rare column is left out where no metric has a value for it, so that tables stay narrow.
    """
    columns: list[TableColumn] = []
    for column in METRIC_TABLE:
        if form not in column.forms:
            continue
        # A value of 0 counts as none: a rare column of zeros says nothing.
        if column.is_rare and not any(column.value(summary) for summary in summaries):
            continue
        columns.append(column)
    return columns


def metric_cell(column: TableColumn, summary: Summary, *, unit: str = "") -> str:
    """A figure of a metric as terminal and Markdown show it; ``-`` where there is none.

    Args:
        unit: such as ``"s"`` for a time; empty for a plain number.
    """
    value = column.value(summary)
    if isinstance(value, str):
        return value
    if isinstance(value, Interval):
        return range_text(value, unit)
    if isinstance(value, int):
        if value == 0:  # a table of counts is read by what is not 0
            return "-"
        return f"{value:,}"
    return number_text(value, unit)


def headings_without_room(columns: Sequence[TableColumn]) -> list[str]:
    """The headings of columns that a narrow terminal does without, the first to go first.

    A table that did not fit would be folded beyond reading.
    """
    optional: list[tuple[int, str]] = []
    for column in columns:
        if column.room_rank is not None:
            optional.append((column.room_rank, column.heading))
    # By rank, the least first.
    return [heading for _, heading in sorted(optional)]
