"""Measured, skipped, abstained, failed, unproved; what a judge answered for a cell."""

from __future__ import annotations

import math
import traceback
from decimal import Decimal
from enum import StrEnum
from typing import Any, Generic, TypeVar

from ragbench.core.record import Record
from ragbench.masking import mask_text

ValueT = TypeVar("ValueT")

_LONGEST = 10_000
"""Characters that are kept of a message, and of the chain of causes."""
_TRACEBACK = 4_000
"""Characters that are kept of a traceback: thousands of cases may fail alike."""
_CAUSES = 8


class Status(StrEnum):
    """How a stage or a metric ended for one case."""

    MEASURED = "measured"
    """It gave a value."""
    ABSTAINED = "abstained"
    """The system declined to answer."""
    SKIPPED = "skipped"
    """It does not apply to this case: something that it needs is not known."""
    FAILED = "failed"
    """It raised, timed out or gave something unusable."""
    UNPROVED = "unproved"
    """A model gave a verdict, and nothing that it quotes proves it. Of cells only."""


class Known(StrEnum):
    """How an outcome came to be in a run."""

    ASKED = "asked"
    """The run asked for it."""
    REUSED = "reused"
    """An earlier run asked for it, and all that it came from is the same."""
    RECORDED = "recorded"
    """The source held it already."""


class Failure(Record):
    """Why something failed."""

    type: str
    """The exception's type, such as ``"ValueError"``."""
    message: str
    """What the exception said."""
    stage: str
    """Where it happened: ``"retrieve"``, ``"generate"``, ``"score"`` ..."""
    cause: str | None = None
    """The chain of causes behind it, as ``Type: message`` joined by ``" <- "``."""
    traceback: str | None = None
    """The formatted traceback."""

    @classmethod
    def of(cls, error: BaseException, *, stage: str) -> Failure:
        """What is kept of an exception: type, message, chain of causes, traceback."""
        return cls(
            type=type(error).__name__,
            message=_readable(_message(error)),
            stage=stage,
            cause=_readable(" <- ".join(_causes(error))) or None,
            traceback=_readable("".join(traceback.format_exception(error)), _TRACEBACK),
        )

    def __str__(self) -> str:
        text = f"{self.stage}: {self.type}: {self.message}"
        return f"{text} <- {self.cause}" if self.cause else text


class Outcome(Record, Generic[ValueT]):
    """The result of one stage for one case."""

    status: Status
    """Measured and abstained come with a value, skipped and failed without."""
    value: ValueT | None = None
    """What the stage returned."""
    reason: str | None = None
    """Why it was skipped."""
    failure: Failure | None = None
    """Why it failed."""
    seconds: float | None = None
    """Wall time of the call; a batch call's time is shared equally by its cases. Of a recorded
    outcome what the source says, else None."""
    sharing: int = 1
    """Cases that shared the call; above 1 `seconds` is their mean, and nobody knows the time of
    this one."""
    known: Known = Known.ASKED
    """How it came to be here."""


class Cell(Record):
    """The result of one metric for one case."""

    status: Status
    """Only a measured cell has a value."""
    value: float | None = None
    """The score; finite."""
    reason: str | None = None
    """Why it was skipped or abstained, or what proof is missing."""
    failure: Failure | None = None
    """Why it failed."""

    @classmethod
    def measured(cls, value: float) -> Cell:
        return cls(status=Status.MEASURED, value=value)

    @classmethod
    def skipped(cls, reason: str) -> Cell:
        """A cell whose metric does not apply to the case."""
        return cls(status=Status.SKIPPED, reason=reason)

    @classmethod
    def abstained(cls, reason: str) -> Cell:
        return cls(status=Status.ABSTAINED, reason=reason)

    @classmethod
    def unproved(cls, reason: str) -> Cell:
        """A cell whose judge gave a verdict that none of its quotes proves."""
        return cls(status=Status.UNPROVED, reason=reason)

    @classmethod
    def failed(cls, failure: Failure) -> Cell:
        """A cell whose metric, or a stage before it, failed."""
        return cls(status=Status.FAILED, failure=failure)


def _causes(error: BaseException) -> list[str]:
    found: list[str] = []
    seen = {id(error)}
    following = _behind(error)
    while following is not None and id(following) not in seen:
        if len(found) == _CAUSES:
            return [*found, "..."]
        seen.add(id(following))
        found.append(_readable(f"{type(following).__name__}: {_message(following)}"))
        following = _behind(following)
    return found


def _behind(error: BaseException) -> BaseException | None:
    if error.__cause__ is not None:
        return error.__cause__
    return None if error.__suppress_context__ else error.__context__


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001  # a message that cannot be made must not end a run
        return f"(its message cannot be read: {type(broken).__name__})"


def _readable(text: str, longest: int = _LONGEST) -> str:
    """Valid UTF-8 of bounded length: a message may quote broken text, or a whole document.

    Without credentials, which are masked before a cut could leave half of one.
    """
    text = mask_text(text)
    if len(text) > longest:
        half, rest = longest // 2, len(text) - longest
        text = f"{text[:half]} ... ({rest:,} characters) ... {text[-half:]}"
    return text.encode("utf-8", "backslashreplace").decode()


class Quote(Record):
    """What a judge says it copied from a context, and where it was found."""

    text: str
    """As the judge wrote it."""
    context: int | None = None
    """Position of the first context that holds it, from 0; None when none does: it is
    fabricated."""
    start: int | None = None
    """Offset of its first character in that context; None when it stands nowhere."""
    end: int | None = None
    """Offset behind its last character."""

    @property
    def is_fabricated(self) -> bool:
        return self.context is None


class JudgeStep(Record):
    """One answer of a model."""

    asked: str
    """What was asked for, such as ``"NLIStatementOutput"``."""
    answer: Any
    """The answer as JSON holds it: statements, verdicts, reasons."""
    prompt_tokens: int | None = None
    """Of the call, whenever it was made; None when the endpoint did not say."""
    completion_tokens: int | None = None
    quotes: tuple[Quote, ...] = ()
    """What the judge quoted, each looked up in the contexts; empty where it was not asked to."""
    cost: Decimal | None = None
    """What the call cost when it was made, by the endpoint's word or by the price; None when
    neither was known."""
    not_sent: tuple[str, ...] = ()
    """Parameters that the endpoint refused, such as ``temperature``."""


class Judgement(Record):
    """One judging of one case by one metric."""

    cell: Cell
    steps: tuple[JudgeStep, ...] = ()
    """In the order of the answers."""
    judge: str = ""
    """Which judge of a panel it was; empty where there is one judge alone."""


class JudgedCell(Record):
    """A cell with all judgings that it rests on."""

    cell: Cell
    """The mean of the judgings that gave a value; of a panel, what its judges come to together."""
    judgements: tuple[Judgement, ...] = ()
    """One a judge and repetition; none when there was nothing to judge."""

    @property
    def values(self) -> tuple[float, ...]:
        cells = [judgement.cell for judgement in self.judgements]
        return tuple(c.value for c in cells if c.status is Status.MEASURED and c.value is not None)


class Repeats(Record):
    """One metric of one case, as often as it was asked for; the case's cell holds the mean."""

    cells: tuple[Cell | None, ...]
    """Oldest first; None where the case was not asked, or was another one then."""

    @property
    def values(self) -> tuple[float | None, ...]:
        """What was measured, in the same order; None where nothing was."""
        return tuple(None if cell is None else cell.value for cell in self.cells)

    @property
    def coverage(self) -> tuple[float | None, ...]:
        """1 where it was measured, 0 where not; None where the metric did not apply."""
        return tuple(map(coverage_of, self.cells))

    @property
    def mean(self) -> Cell:
        """The mean of what was measured; without any, how it ended last."""
        values = [value for value in self.values if value is not None]
        if not values:
            known = (cell for cell in reversed(self.cells) if cell is not None)
            return next(known, Cell(status=Status.SKIPPED))
        # Equal values have themselves as their mean: a sum may round.
        is_same = min(values) == max(values)
        return Cell.measured(values[0] if is_same else math.fsum(values) / len(values))


def coverage_of(cell: Cell | None) -> float | None:
    """1 for a measured cell, 0 for one that is not; None where the metric did not apply."""
    if cell is None or cell.status is Status.SKIPPED:
        return None
    return float(cell.status is Status.MEASURED)
