"""The cases of a report that somebody asks for: by cause, tag, id, the worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from ragbench.core.attribution import Cause
from ragbench.core.report import CaseRow, IndexedCase, Report, badness, main_metric
from ragbench.errors import ConfigError


def worst_metric(report: Report, name: str | None = None) -> int | None:
    """The position of the metric that cases are ordered by; None when the run has none."""
    names = [metric.name for metric in report.metrics]
    if name is None:
        return main_metric(report.metrics)
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
    limit: int,
) -> tuple[int, list[CaseRow]]:
    """How many cases meet all that is asked, and the first of them, in the run's order."""
    at = None if worst is None else worst_metric(report, worst)
    found = [case for case in report.index(at, tag) if cause in (None, case.cause)]
    if at is not None:
        found.sort(key=lambda case: badness(case.value, report.metrics[at]))
    return len(found), [*report.find([case.id for case in found[:limit]])]


def find_case(report: Report, id: str) -> CaseRow:
    row = next(report.find([id]), None)
    if row is None:
        known = [case.id for case in report.index(None, None)]
        raise ConfigError(f"the run has no case '{id}'{_closest(id, known)}")
    return row


def worst_by_cause(report: Report, each: int) -> Iterator[tuple[Cause, Sequence[CaseRow]]]:
    at = worst_metric(report)
    by_cause: dict[Cause, list[IndexedCase]] = {}
    for case in report.index(at, None):
        if case.cause is not None and case.cause.is_loss:
            by_cause.setdefault(case.cause, []).append(case)
    for cause in filter(by_cause.__contains__, Cause):
        found = by_cause[cause]
        if at is not None:
            found.sort(key=lambda case: badness(case.value, report.metrics[at]))
        yield cause, [*report.find([case.id for case in found[:each]])]


def _closest(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f". Did you mean '{near[0]}'?" if near else ""
