"""How a stage or a metric ended for a case: a value, or why there is none; what a judge answered.

A stage gives an `Outcome`, a metric a `Cell`. A `Failure` is an exception as it is stored.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Any, Generic, TypeVar

from ragbench.core.record import Record
from ragbench.masking import mask_text

ValueT = TypeVar("ValueT")

_LONGEST = 10_000
"""Characters that are stored of a message, and of the chain of causes."""
_LONGEST_TRACEBACK = 4_000
"""Characters that are stored of a traceback: thousands of cases may fail alike."""
_MOST_CAUSES = 8
"""Causes that are stored of an error, the nearest ones."""


class Status(StrEnum):
    """How a stage or a metric ended for one case."""

    MEASURED = "measured"
    """It gave a value."""
    ABSTAINED = "abstained"
    """The system declined to answer."""
    SKIPPED = "skipped"
    """It does not apply to this case: something that it needs is unknown."""
    FAILED = "failed"
    """It raised an error, timed out or gave an unusable value."""
    UNPROVED = "unproved"
    """A model gave a verdict that none of its quotes proves. Only cells have this status."""


class Known(StrEnum):
    """How an outcome came to be in a run."""

    ASKED = "asked"
    """The run asked for it."""
    REUSED = "reused"
    """An earlier run asked for it, and all of its inputs are the same."""
    RECORDED = "recorded"
    """The source contained it: nothing was asked."""


class Failure(Record):
    """Why something failed."""

    type: str
    """The exception's type, such as ``"ValueError"``."""
    message: str
    """The exception's message."""
    stage: str
    """The stage or step that failed: ``"retrieve"``, ``"generate"``, ``"score"`` ..."""
    cause: str | None = None
    """The chain of causes behind it, as ``Type: message`` joined by ``" <- "``."""
    traceback: str | None = None
    """The formatted traceback."""

    @classmethod
    def of(cls, error: BaseException, *, stage: str) -> Failure:
        """An exception as it is stored: type, message, chain of causes, traceback.

        Journals store it, and reports group cases by it. Texts are masked and bounded.
        """
        return cls(
            type=type(error).__name__,
            message=_readable(_message(error)),
            stage=stage,
            cause=_readable(" <- ".join(_causes(error))) or None,
            traceback=_readable("".join(traceback.format_exception(error)), _LONGEST_TRACEBACK),
        )

    def __str__(self) -> str:
        """The failure in a line for readers: stage, type, message and the chain of causes.

        Logs and warnings quote it.
        """
        text = f"{self.stage}: {self.type}: {self.message}"
        if self.cause:
            text += f" <- {self.cause}"
        return text


class Outcome(Record, Generic[ValueT]):
    """The result of one stage for one case."""

    status: Status
    """Measured and abstained come with a value, skipped and failed without."""
    value: ValueT | None = None
    """The result of the stage."""
    reason: str | None = None
    """Why it was skipped."""
    failure: Failure | None = None
    """Why it failed."""
    seconds: float | None = None
    """Wall time of the call; a batch call's time is divided equally among its cases. None when
    unknown, as of a recorded outcome whose source has no times."""
    sharing: int = 1
    """Cases that shared the call. Above 1, `seconds` is their mean: the time of this case alone is
    unknown."""
    known: Known = Known.ASKED
    """How it came to be in the run."""


class Cell(Record):
    """The result of one metric for one case."""

    status: Status
    """Only a measured cell has a value."""
    value: float | None = None
    """The score; finite."""
    reason: str | None = None
    """Why it was skipped or abstained, or which proof is missing."""
    failure: Failure | None = None
    """Why it failed."""

    @classmethod
    def measured(cls, value: float) -> Cell:
        """A cell of a case with a score, the only kind that is averaged.

        The score must be finite.
        """
        return cls(status=Status.MEASURED, value=value)

    @classmethod
    def skipped(cls, reason: str) -> Cell:
        """A cell of a case to which the metric does not apply, such as one without a reference.

        A skipped cell counts neither for nor against the system.
        """
        return cls(status=Status.SKIPPED, reason=reason)

    @classmethod
    def abstained(cls, reason: str) -> Cell:
        """A cell of a case in which the system declined to answer.

        The cell has no score; reports count it apart from failures.
        """
        return cls(status=Status.ABSTAINED, reason=reason)

    @classmethod
    def unproved(cls, reason: str) -> Cell:
        """A cell of a case on which the judge gave a verdict that none of its quotes proves.

        Without a proof the verdict is no score, though a model gave it.
        """
        return cls(status=Status.UNPROVED, reason=reason)

    @classmethod
    def failed(cls, failure: Failure) -> Cell:
        """A cell of a case for which the metric, or a stage before it, raised an error.

        The cell has no score: a failure is never counted as 0.
        """
        return cls(status=Status.FAILED, failure=failure)


def _causes(error: BaseException) -> list[str]:
    """The exceptions behind an error, the nearest first, each as ``Type: message``.

    Of more than eight, the rest is an ellipsis: a stored failure must not grow without end.
    """
    causes: list[str] = []
    seen = {id(error)}  # a chain may lead back to an earlier exception
    cause = _cause_of(error)
    while cause is not None and id(cause) not in seen:
        if len(causes) == _MOST_CAUSES:
            causes.append("...")
            break
        seen.add(id(cause))
        causes.append(_readable(f"{type(cause).__name__}: {_message(cause)}"))
        cause = _cause_of(cause)
    return causes


def _cause_of(error: BaseException) -> BaseException | None:
    """The exception that a traceback would show before an error.

    A traceback shows the error's cause, or the error that was being handled when it was raised,
    unless ``from None`` hides that.
    """
    if error.__cause__ is not None:
        return error.__cause__
    if error.__suppress_context__:
        return None
    return error.__context__


def _message(error: BaseException) -> str:
    """The text of an error; of a class whose ``__str__`` raises, the name of that exception.

    A message that cannot be made must not end a run.
    """
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001  # a message that cannot be made must not end a run
        return f"(its message cannot be read: {type(broken).__name__})"


def _readable(text: str, longest: int = _LONGEST) -> str:
    """A text of an error as it is stored: valid UTF-8, masked, and of bounded length.

    A message may quote broken text, or a whole document. Credentials are masked before the cut,
    which could leave half of one.
    """
    text = mask_text(text)
    if len(text) > longest:
        # Beginning and end are kept: a message names its cause in either.
        half = longest // 2
        omitted = len(text) - longest
        text = f"{text[:half]} ... ({omitted:,} characters) ... {text[-half:]}"
    return text.encode("utf-8", "backslashreplace").decode()


class Quote(Record):
    """A text that a judge claims to have copied from a context, and its place there."""

    text: str
    """As the judge wrote it."""
    context: int | None = None
    """Position of the first context that contains it, from 0; None when none does: it is
    fabricated."""
    start: int | None = None
    """Offset of its first character in that context; None when it is fabricated."""
    end: int | None = None
    """Offset behind its last character."""

    @property
    def is_fabricated(self) -> bool:
        """Whether no context contains the quote: the judge has invented it.

        A verdict that rests on such quotes proves nothing.
        """
        return self.context is None


class JudgeStep(Record):
    """One answer of a model to a judge's prompt."""

    asked: str
    """The kind of answer that the prompt asked for, such as ``"NLIStatementOutput"``."""
    answer: Any
    """The answer as parsed JSON: statements, verdicts, reasons."""
    prompt_tokens: int | None = None
    """Of the call, whenever it was made; None when the endpoint did not report it."""
    completion_tokens: int | None = None
    quotes: tuple[Quote, ...] = ()
    """The judge's quotes, each looked up in the contexts; empty where the prompt asks for none."""
    cost: Decimal | None = None
    """Price of the call when it was made, as the endpoint reported it or by the price list; None
    when both were unknown."""
    not_sent: tuple[str, ...] = ()
    """Parameters that the endpoint refused, such as ``temperature``."""


ANSWER_VERDICTS: Mapping[str, Mapping[str, float]] = {
    "CorrectnessVerdict": {"right": 1.0, "partly": 0.5, "wrong": 0.0},
    "RubricVerdict": {"pass": 1.0, "fail": 0.0},
}
"""The verdicts on a whole answer with their values, by the kind of reply that holds them beside a
reason."""


def verdict_reason(judgements: Sequence[Judgement]) -> str:
    """The reason that the first judge of a whole answer gave for its verdict; empty without one.

    Judges of single claims give none for the answer as a whole.
    """
    for judgement in judgements:
        for step in judgement.steps:
            if step.asked in ANSWER_VERDICTS:
                return str(step.answer["reason"])
    return ""


class Judgement(Record):
    """One judging of one case by one metric."""

    cell: Cell
    steps: tuple[JudgeStep, ...] = ()
    """In the order of the answers."""
    judge: str = ""
    """Name of the judge, of a panel; empty where there is a single judge."""


class JudgedCell(Record):
    """A cell with all judgements that it is made of."""

    cell: Cell
    """The mean of the judgements that gave a value; of a panel, the verdict of all its judges."""
    judgements: tuple[Judgement, ...] = ()
    """One per judge and repetition; none when there was nothing to judge."""

    @property
    def values(self) -> tuple[float, ...]:
        """The scores of the judgements that gave one, of all judges and repetitions.

        The spread of these scores shows how steady the judge is.
        """
        values: list[float] = []
        for judgement in self.judgements:
            cell = judgement.cell
            if cell.status is Status.MEASURED and cell.value is not None:
                values.append(cell.value)
        return tuple(values)


class Repeats(Record):
    """The cells of one metric for one case that was asked several times; their mean is its cell."""

    cells: tuple[Cell | None, ...]
    """Oldest first; None where the case was not asked, or had another content then."""

    @property
    def values(self) -> tuple[float | None, ...]:
        """The case's score in each repetition, the oldest first; None where none was measured.

        Tests of repeated cases compare these lists, place by place.
        """
        return tuple(None if cell is None else cell.value for cell in self.cells)

    @property
    def coverage(self) -> tuple[float | None, ...]:
        """For each repetition, 1 where the case was measured, and 0 where it was not.

        None where the metric did not apply, or the case was not asked.
        """
        return tuple(map(coverage_of, self.cells))

    @property
    def mean(self) -> Cell:
        """A cell with the mean of the measured scores of all repetitions.

        Without any measured score, the newest cell.
        """
        values = [value for value in self.values if value is not None]
        # None is measured: the newest ending stands for the case.
        if not values:
            for cell in reversed(self.cells):
                if cell is not None:
                    return cell
            return Cell(status=Status.SKIPPED)
        if min(values) == max(values):  # a sum of equal values may round
            return Cell.measured(values[0])
        return Cell.measured(math.fsum(values) / len(values))


def coverage_of(cell: Cell | None) -> float | None:
    """1 for a measured cell, and 0 for one that abstained, failed or is unproved.

    None where the metric did not apply: such a case is in no share of measured ones.
    """
    if cell is None or cell.status is Status.SKIPPED:
        return None
    return float(cell.status is Status.MEASURED)
