"""What a judge said for a cell: each answer, kept beside the number that was made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ragbench.records.cells import Cell, Status

__all__ = ["JudgeStep", "JudgedCell", "Judgement"]


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeStep:
    """One answer of a model."""

    asked: str
    """What was asked for, such as ``"NLIStatementOutput"``."""
    answer: Any
    """The answer as JSON holds it: statements, verdicts, reasons."""
    prompt_tokens: int | None = None
    """Of the call, whenever it was made; None when the endpoint did not say."""
    completion_tokens: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """One judging of one case by one metric."""

    cell: Cell
    steps: tuple[JudgeStep, ...] = ()
    """In the order of the answers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedCell:
    """A cell with all judgings that it rests on."""

    cell: Cell
    """The mean of the judgings that gave a value."""
    judgements: tuple[Judgement, ...] = ()
    """One a repetition; none when there was nothing to judge."""

    @property
    def values(self) -> tuple[float, ...]:
        """The values of the judgings that gave one."""
        cells = [judgement.cell for judgement in self.judgements]
        return tuple(c.value for c in cells if c.status is Status.MEASURED and c.value is not None)
