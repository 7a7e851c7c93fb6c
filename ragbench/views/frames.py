"""Reports and comparisons as DataFrames of pandas, which is imported by the first call.

A missing value is NA and never 0: each column has a type that knows NA. A report's and a
comparison's own methods call these functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ragbench.core.comparison import Comparison, Difference, MetricComparison
from ragbench.core.outcome import Status
from ragbench.core.report import CaseRow, Report
from ragbench.plugins import require

if TYPE_CHECKING:
    from pandas import DataFrame

_FIRST_COLUMNS = ("id", "query", "reference", "answer", "contexts")
"""The columns of cases before those of their metrics."""
_LAST_COLUMNS = ("cause", "decided_by", "explanation", "failure")
"""The columns behind them."""
_LISTS = ("contexts",)
"""Columns whose values are lists of texts."""


def cases_frame(report: Report) -> DataFrame:
    """The DataFrame that ``Report.to_pandas`` gives.

    It has a row per case of a run, and a column per metric.
    """
    metric_columns = _metric_columns(report)
    rows: list[tuple[object, ...]] = []
    # Found by their ids, rows hold their stories, with the texts of chunks.
    ids = [case.id for case in report.index(None, None)]
    for row in report.find(ids):
        scores = [cell.value for cell in row.cells]
        rows.append((*_first_values(row), *scores, *_last_values(row)))
    columns = (*_FIRST_COLUMNS, *metric_columns, *_LAST_COLUMNS)
    return _frame_with_na(columns, rows, numbers=metric_columns)


def _metric_columns(report: Report) -> list[str]:
    """The column of each metric: its name, marked where another column has that name.

    A metric of the user's own may be called "answer".
    """
    columns: list[str] = []
    for metric in report.metrics:
        name = metric.name
        # Columns of equal names would be one column of two in pandas.
        if name in _FIRST_COLUMNS or name in _LAST_COLUMNS:
            name = f"{name} (metric)"
        columns.append(name)
    return columns


def _first_values(row: CaseRow) -> tuple[object, ...]:
    """A case's values before its scores, under `_FIRST_COLUMNS`.

    They are its id, question, reference, answer and contexts: another order would shift columns.
    """
    return row.id, row.query, row.reference, row.response, _context_texts(row)


def _context_texts(row: CaseRow) -> list[str] | None:
    """The texts of chunks that generation was given for a case, best first.

    It is None without retrieval.
    """
    stage = "retrieve"
    if "post_retrieve" in row.stages:  # post-retrieval gave generation its chunks
        stage = "post_retrieve"
    story = row.story
    if story is None or row.stages.get(stage) is not Status.MEASURED:
        return None
    texts_by_rank: dict[int, str] = {}
    for chunk in story.chunks:
        if chunk.shown is not None:
            texts_by_rank[chunk.shown] = chunk.text
    return [texts_by_rank[rank] for rank in sorted(texts_by_rank)]


def _last_values(row: CaseRow) -> tuple[object, ...]:
    """A case's values behind its scores, under `_LAST_COLUMNS`.

    They are its cause, decider, explanation and failure. Of several failures the first: the others
    mostly follow from it.
    """
    attribution = row.attribution
    failure: str | None = None
    if row.failures:
        failure = str(row.failures[0])
    return attribution.cause.value, attribution.decided_by.value, attribution.explanation, failure


_SUMMARY_TEXTS = ("metric", "group", "direction", "unit", "decided_by")
_SUMMARY_NUMBERS = ("score", "low", "high")
_SUMMARY_COUNTS = ("measured", "total", "abstained", "skipped", "failed", "unproved")


def summaries_frame(report: Report) -> DataFrame:
    """The DataFrame with a row per metric of a run.

    A row has the score, the interval, and how the cases ended.
    """
    rows: list[tuple[object, ...]] = []
    for summary in report.summaries:
        definition = summary.metric.definition
        low: float | None = None
        high: float | None = None
        # Too few cases have no interval: both ends are NA then.
        if summary.interval is not None:
            low = summary.interval.low
            high = summary.interval.high
        rows.append(
            (
                summary.metric.name,
                definition.group.value,
                definition.direction.value,
                definition.unit,
                summary.decided_by or None,
                summary.score,
                low,
                high,
                # In the order of the columns below, as all values of a row.
                *(getattr(summary, count) for count in _SUMMARY_COUNTS),
            )
        )
    columns = (*_SUMMARY_TEXTS, *_SUMMARY_NUMBERS, *_SUMMARY_COUNTS)
    return _frame_with_na(columns, rows, numbers=_SUMMARY_NUMBERS, counts=_SUMMARY_COUNTS)


_CHANGED_COLUMNS = (
    "id",
    "query",
    "first",
    "second",
    "kind",
    "cause_before",
    "cause_after",
    "answer_before",
    "answer_after",
)


def changed_cases_frame(comparison: Comparison) -> DataFrame:
    """The DataFrame with a row per case that failed in one compared run and passed in another.

    ``Comparison.to_pandas`` gives it; its columns are `_CHANGED_COLUMNS`, whose names users rely
    on.
    """
    rows: list[tuple[object, ...]] = []
    for case in comparison.changed:
        cause_before: str | None = None
        if case.cause_before is not None:
            cause_before = case.cause_before.value
        cause_after: str | None = None
        # The two runs may lack causes one by one, as a baseline file does.
        if case.cause_after is not None:
            cause_after = case.cause_after.value
        rows.append(
            (
                case.id,
                case.query,
                case.first,
                case.second,
                case.kind.value,
                cause_before,
                cause_after,
                case.response_before,
                case.response_after,
            )
        )
    return _frame_with_na(_CHANGED_COLUMNS, rows)


_PAIR_TEXTS = ("metric", "first", "second")
_PAIR_NUMBERS = ("before", "after", "difference", "low", "high", "p_corrected")
_PAIR_COUNTS = ("cases", "higher", "lower")
_PAIR_COLUMNS = (*_PAIR_TEXTS, *_PAIR_NUMBERS, *_PAIR_COUNTS, "is_significant", "untested")


def differences_frame(comparison: Comparison) -> DataFrame:
    """The DataFrame with a row per metric and pair of runs, over the cases that both runs measured.

    A metric of which no difference can be computed has one row, with the reason.
    """
    rows: list[tuple[object, ...]] = []
    for metric in comparison.metrics:
        for difference in metric.differences:
            rows.append(_difference_values(metric, difference))
        if not metric.differences:
            # All columns between the name and the reason.
            missing = [None] * (len(_PAIR_COLUMNS) - 2)
            rows.append((metric.name, *missing, metric.untested))
    return _frame_with_na(
        _PAIR_COLUMNS,
        rows,
        numbers=_PAIR_NUMBERS,
        counts=_PAIR_COUNTS,
        flags=("is_significant",),
    )


def _difference_values(metric: MetricComparison, difference: Difference) -> tuple[object, ...]:
    """The values of two runs on one metric, as a row under `_PAIR_COLUMNS`, in that order.

    Where the runs share no measured case nothing was tested, and the p-value is missing.
    """
    p_value: float | None = None
    if difference.cases:  # without common cases nothing was tested
        p_value = difference.p_corrected
    return (
        metric.name,
        difference.first,
        difference.second,
        difference.before,
        difference.after,
        difference.difference,
        difference.low,
        difference.high,
        p_value,
        difference.cases,
        difference.higher,
        difference.lower,
        difference.is_significant,
        None,
    )


def _frame_with_na(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    numbers: Sequence[str] = (),
    counts: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> DataFrame:
    """A DataFrame of rows whose missing values are NA: by itself pandas would make NaN of None.

    A missing score that became 0 or NaN would spoil a user's means without a word.

    Args:
        columns: their names. Those that are none of the following hold texts, or lists of texts.
    """
    pandas: Any = require("pandas", extra="pandas")
    series: dict[str, Any] = {}
    for position, name in enumerate(columns):
        # By position: the values of a row pair with the columns.
        values = [row[position] for row in rows]
        if name in numbers:
            series[name] = pandas.Series(values, dtype="Float64")
        elif name in counts:
            series[name] = pandas.Series(values, dtype="Int64")
        elif name in flags:
            series[name] = pandas.Series(values, dtype="boolean")
        # NA is put in by hand, as the dtype of objects keeps None.
        elif name in _LISTS:
            lists = [pandas.NA if value is None else value for value in values]
            series[name] = pandas.Series(lists, dtype="object")
        else:
            series[name] = pandas.Series(values, dtype="string")
    frame: DataFrame = pandas.DataFrame(series)
    return frame
