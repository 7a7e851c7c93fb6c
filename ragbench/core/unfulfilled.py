"""The expectations of a run's cases that do not hold, by name: for the report and the gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragbench.core.record import Record
from ragbench.core.report import CaseRow, Report, badness

EXPECTATIONS = "expectations"
"""The metric that measures them."""
_NOT_ALWAYS = "not in every repetition"
"""Of a case that was asked repeatedly, and whose shown answer fulfils everything."""


class UnfulfilledCase(Record):
    """A case with the expectations that do not hold."""

    id: str
    expectations: tuple[str, ...]
    """In words, as `ragbench explain` shows them."""
    held_before: tuple[str, ...] = ()
    """Those of them that the baseline's answer fulfils; empty without a baseline's answers."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """Each expectation, with a remark if the baseline's answer fulfils it."""
        sentences: list[str] = []
        for text in self.expectations:
            remark = " (held in the baseline)" if text in self.held_before else ""
            sentences.append(f"{text}{remark}")
        return tuple(sentences)


class Unfulfilled(Record):
    """The cases with expectations that do not hold."""

    total: int
    """How many there are."""
    cases: tuple[UnfulfilledCase, ...]
    """The first of them."""


def unfulfilled(
    report: Report, *, most: int, first: Sequence[str] = (), baseline: Report | None = None
) -> Unfulfilled | None:
    """Reads the expectations that do not hold; None if the run does not measure them.

    Args:
        most: of how many cases they are read, the worst first.
        first: ids of cases that come before the others.
        baseline: a run to compare with.
    """
    names = [metric.name for metric in report.metrics]
    if EXPECTATIONS not in names:
        return None
    place = names.index(EXPECTATIONS)
    failing = [
        case for case in report.index(place, None) if case.value is not None and case.value < 1.0
    ]
    ranks = {id: rank for rank, id in enumerate(first)}
    metric = report.metrics[place]
    failing.sort(key=lambda case: (ranks.get(case.id, len(ranks)), badness(case.value, metric)))
    ids = [case.id for case in failing[:most]]
    before: dict[str, Mapping[str, bool | None]] = {}
    if baseline is not None:
        before = {row.id: _held(row) for row in baseline.find(ids)}
    cases: list[UnfulfilledCase] = []
    for row in report.find(ids):
        cases.append(_case(row, before.get(row.id, {})))
    return Unfulfilled(total=len(failing), cases=tuple(cases))


def _case(row: CaseRow, before: Mapping[str, bool | None]) -> UnfulfilledCase:
    story = row.story
    texts: list[str] = []
    held_before: list[str] = []
    for expectation in () if story is None else story.expectations:
        if expectation.holds is False:
            texts.append(expectation.sentence)
            if before.get(expectation.text):
                held_before.append(expectation.sentence)
    return UnfulfilledCase(
        id=row.id, expectations=tuple(texts) or (_NOT_ALWAYS,), held_before=tuple(held_before)
    )


def _held(row: CaseRow) -> Mapping[str, bool | None]:
    """Whether each expectation of a case holds, by its text."""
    story = row.story
    if story is None:
        return {}
    return {expectation.text: expectation.holds for expectation in story.expectations}
