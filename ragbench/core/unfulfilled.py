"""The expectations of a run's cases that do not hold, in words: for the report and the gate."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ragbench.core.record import Record
from ragbench.core.report import CaseRow, IndexedCase, Report, badness

EXPECTATIONS = "expectations"
"""The metric that measures them."""
_NOT_ALWAYS = "not in every repetition"
"""In place of a text, for a case that was asked repeatedly and whose shown answer fulfils all."""


class UnfulfilledCase(Record):
    """A case with the expectations that do not hold."""

    id: str
    expectations: tuple[str, ...]
    """In words, as `ragbench explain` shows them."""
    held_before: tuple[str, ...] = ()
    """Those of them that the baseline's answer fulfils; empty without a baseline's answers."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The case's unfulfilled expectations, with a remark on those the baseline fulfilled.

        The remark shows what the change between the two runs broke.
        """
        sentences: list[str] = []
        for text in self.expectations:
            if text in self.held_before:
                text += " (held in the baseline)"
            sentences.append(text)
        return tuple(sentences)


class Unfulfilled(Record):
    """The cases with expectations that do not hold."""

    total: int
    """Number of these cases."""
    cases: tuple[UnfulfilledCase, ...]
    """The first of them, in the order in which they are shown."""


def unfulfilled(
    report: Report, *, most: int, first: Sequence[str] = (), baseline: Report | None = None
) -> Unfulfilled | None:
    """Reads the expectations that do not hold; None if the run does not measure them.

    An expectation is a condition on the answer that a dataset states, such as a text that it must
    contain. The report and the gate show the first of them, and count all.

    Args:
        most: number of cases whose expectations are read, the worst first.
        first: ids of cases that come before all others, in this order.
        baseline: the run of which an expectation that holds there is remarked on.
    """
    names = [metric.name for metric in report.metrics]
    if EXPECTATIONS not in names:
        return None
    position = names.index(EXPECTATIONS)
    metric = report.metrics[position]

    failing: list[IndexedCase] = []
    for case in report.index(position, None):
        if case.value is not None and case.value < 1.0:
            failing.append(case)
    # Cases that the caller names come first, in the caller's order; behind them the worst ones.
    ranks = {id_: rank for rank, id_ in enumerate(first)}
    failing.sort(key=lambda case: (ranks.get(case.id, len(ranks)), badness(case.value, metric)))
    ids = [case.id for case in failing[:most]]

    held_in_baseline: dict[str, frozenset[str]] = {}
    if baseline is not None:
        for row in baseline.find(ids):
            held_in_baseline[row.id] = _texts_that_hold(row)
    cases: list[UnfulfilledCase] = []
    for row in report.find(ids):
        cases.append(_unfulfilled_case(row, held_in_baseline.get(row.id, frozenset())))
    return Unfulfilled(total=len(failing), cases=tuple(cases))


def _unfulfilled_case(row: CaseRow, held_in_baseline: Collection[str]) -> UnfulfilledCase:
    """The case with those of its expectations that its answer does not fulfil.

    A case that failed in other repetitions only gets a sentence about that.

    Args:
        held_in_baseline: the texts of the expectations that the baseline's answer fulfils.
    """
    sentences: list[str] = []
    held_before: list[str] = []
    story = row.story
    if story is not None:
        for expectation in story.expectations:
            # None is unknown, and no fault.
            if expectation.holds is not False:
                continue
            sentences.append(expectation.sentence)
            if expectation.text in held_in_baseline:
                held_before.append(expectation.sentence)
    # The case failed by its mean over repetitions, and the one that is shown fulfils all.
    if not sentences:
        sentences.append(_NOT_ALWAYS)
    return UnfulfilledCase(id=row.id, expectations=tuple(sentences), held_before=tuple(held_before))


def _texts_that_hold(row: CaseRow) -> frozenset[str]:
    """The texts of the expectations that a case's answer in the baseline fulfils.

    An expectation that held there and does not now is what the change broke.
    """
    story = row.story
    if story is None:
        return frozenset()
    return frozenset(expectation.text for expectation in story.expectations if expectation.holds)
