"""Counts over the verdicts of a run: the answer/abstain matrix and its rates."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ragbench.records.cells import Status
from ragbench.records.dump_summaries import Share
from ragbench.records.validation import RetrievalQuality
from ragbench.records.validation_tables import MatrixCell, ValidationTable
from ragbench.runs.trace import Trace
from ragbench.stats.proportion import proportion_interval

__all__ = ["ValidationTally", "share_of"]


@dataclass(slots=True)
class ValidationTally:
    """Counts a run's cases."""

    validator: str = ""
    verdicts: int = 0
    present: int = 0
    quality: Counter[str] = field(default_factory=Counter[str])
    cells: Counter[tuple[bool, bool]] = field(default_factory=Counter[tuple[bool, bool]])

    def add(self, trace: Trace) -> None:
        """Counts a case; one without a verdict is in no figure."""
        verdict = None if trace.validation is None else trace.validation.value
        if verdict is None:
            return
        self.validator = verdict.validator
        self.verdicts += 1
        self.present += verdict.answer_present
        self.quality[verdict.retrieval_quality.value] += 1
        if trace.generation.status in (Status.MEASURED, Status.ABSTAINED):
            answered = trace.generation.status is Status.MEASURED
            self.cells[verdict.answer_present, answered] += 1

    def table(self) -> ValidationTable | None:
        """The counts; None for a run without verdicts."""
        if not self.verdicts:
            return None
        return ValidationTable(
            validator=self.validator,
            verdicts=self.verdicts,
            quality={level.value: self.quality[level.value] for level in RetrievalQuality},
            answer_present=share_of(self.present, self.verdicts),
            matrix=tuple(
                self._cell(present, answered)
                for present in (True, False)
                for answered in (True, False)
            ),
            unmatched=self.verdicts - self.cells.total(),
        )

    def _cell(self, present: bool, answered: bool) -> MatrixCell:
        total = self.cells[present, True] + self.cells[present, False]
        rate = share_of(self.cells[present, answered], total)
        return MatrixCell(answer_present=present, answered=answered, rate=rate)


def share_of(count: int, total: int) -> Share:
    """A share with its exact 95% interval; of nothing, neither."""
    if not total:
        return Share(count=0, total=0, share=None, low=None, high=None)
    low, high = proportion_interval(count, total)
    return Share(count=count, total=total, share=count / total, low=low, high=high)
