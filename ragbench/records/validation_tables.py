"""What the verdicts of a run's validation come to, beside what the system did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ragbench.records.dump_summaries import Share

__all__ = ["MatrixCell", "ValidationTable"]


@dataclass(frozen=True, kw_only=True, slots=True)
class MatrixCell:
    """One cell of the answer/abstain matrix."""

    answer_present: bool
    """What the validator says of the chunks."""
    answered: bool
    """What the system did: it answered, or it abstained."""
    rate: Share
    """Of the cases with this verdict, how many the system dealt with so."""

    @property
    def meaning(self) -> str:
        """What such a case is, in a few words."""
        if self.answer_present:
            return "answered from evidence" if self.answered else "declined though it was there"
        return "answered, no evidence shown" if self.answered else "declined, none shown"


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationTable:
    """Counts over the verdicts of a run."""

    validator: str
    verdicts: int
    quality: Mapping[str, int]
    """Cases by Good, Partial and Poor."""
    answer_present: Share
    """Cases whose chunks hold the answer."""
    matrix: tuple[MatrixCell, ...]
    """Four cells: present and answered, present and abstained, absent and answered, absent and
    abstained."""
    unmatched: int
    """Cases with a verdict whose generation failed or was skipped: in no cell."""
