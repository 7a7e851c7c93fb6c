"""The cases of a report that somebody asks for: by cause, tag, id, the worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches

from ragbench.core.attribution import Cause
from ragbench.core.metric import Direction
from ragbench.core.report import CaseRow, Report
from ragbench.errors import ConfigError

_MAIN = ("token_f1", "exact_match", "nDCG@10", "recall@5")
"""What cases are ordered by when nobody says, the first that the run has."""


def worst_metric(report: Report, name: str | None = None) -> int | None:
    """The position of the metric that cases are ordered by; None when the run has none."""
    names = [metric.name for metric in report.metrics]
    if name is None:
        return next((names.index(main) for main in _MAIN if main in names), None)
    if name not in names:
        raise ConfigError(
            f"the run has no metric '{name}'{_closest(name, names)}. It has {', '.join(names)}"
        )
    return names.index(name)


def select_cases(
    report: Report,
    *,
    cause: Cause | None = None,
    tag: str | None = None,
    worst: str | None = None,
) -> list[CaseRow]:
    """The cases that meet all that is asked, in the run's order; without their stories."""
    at = worst_metric(report, worst) if worst is not None else None
    rows = (row for row in report.rows() if _is_wanted(row, cause, tag))
    found = [replace(row, story=None) for row in rows]  # texts would fill the memory
    if at is None:
        return found
    sign = -1 if report.metrics[at].definition.direction is Direction.LOWER else 1
    return sorted(found, key=lambda row: _badness(row, at, sign))


def _is_wanted(row: CaseRow, cause: Cause | None, tag: str | None) -> bool:
    if cause is not None and (row.attribution is None or row.attribution.cause is not cause):
        return False
    return tag is None or tag in row.tags


def _badness(row: CaseRow, at: int, sign: int) -> tuple[bool, float]:
    value = row.cells[at].value
    return (value is None, 0.0 if value is None else sign * value)


def find_case(report: Report, id: str) -> CaseRow:
    known: list[str] = []
    for row in report.rows():
        if row.id == id:
            return row
        known.append(row.id)
    raise ConfigError(f"the run has no case '{id}'{_closest(id, known)}")


def worst_by_cause(report: Report, each: int) -> Iterator[tuple[Cause, Sequence[CaseRow]]]:
    at = worst_metric(report)
    by_cause: dict[Cause, list[CaseRow]] = {}
    for row in report.rows():
        if row.attribution is not None and row.attribution.cause.is_loss:
            kept = by_cause.setdefault(row.attribution.cause, [])
            kept.append(replace(row, story=None))
    for cause in Cause:
        rows = by_cause.get(cause, [])
        if at is not None:
            place = at
            rows = sorted(rows, key=lambda row: _badness(row, place, 1))
        if rows:
            yield cause, rows[:each]


def _closest(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f". Did you mean '{near[0]}'?" if near else ""
