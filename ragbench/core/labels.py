"""Answers that people are asked to label, as records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ragbench.core.metric import Direction, Group, Metric, MetricDefinition, Need
from ragbench.core.record import Record

ANSWER_PRESENT = Metric(
    definition=MetricDefinition(
        name="answer_present",
        group=Group.RETRIEVER,
        needs=frozenset({Need.RETRIEVED_CONTEXTS}),
        direction=Direction.HIGHER,
        summary="Whether the chunks hold the answer to the question",
        citation="",
    )
)
"""What a validator says of a case, which people can say, too."""


class Choice(NamedTuple):
    """One key, and the value on the metric's scale that it stands for."""

    key: str
    value: float
    word: str


class Judged(Record):
    """One answer, as a person sees it."""

    answer: str
    contexts: tuple[str, ...]
    key: tuple[str, str, str | None]
    """What a label of it is known by; see `ragbench.io.people`."""
    value: float
    """What the metric says of it: hidden unless somebody asks."""
    run: str


class LabelTask(Record):
    """A case with one answer, or with those of two runs in drawn order."""

    case: str
    question: str
    references: tuple[str, ...]
    answers: tuple[Judged, ...]


class Drawn(Record):
    """Cases that chance chose for people to label by one metric."""

    metric: Metric
    tasks: tuple[LabelTask, ...]
    seed: int
    of: int
    """Cases that they were drawn from."""
    differing: bool = False
    """Whether others were left out, of which both runs' answers are the same."""

    def reads(self, need: Need) -> bool:
        """Whether the metric reads it, and so do people."""
        return need in self.metric.definition.needs

    @property
    def choices(self) -> Sequence[Choice]:
        """A key for each value; of a scale of whole numbers its digits, else yes, partly, no."""
        low, high = self.metric.definition.low or 0.0, self.metric.definition.high or 1.0
        if low == int(low) and high == int(high) and high - low > 1 and low >= 0 and high <= 9:
            grades = range(int(low), int(high) + 1)
            return [Choice(str(grade), float(grade), "") for grade in grades]
        middle = (low + high) / 2
        return [Choice("y", high, "yes"), Choice("p", middle, "partly"), Choice("n", low, "no")]

    def line(self, task: LabelTask, judged: Judged) -> dict[str, object]:
        """A label as it is written, but for its value and who gave it."""
        return {
            "question": task.question,
            "answer": judged.answer if self.reads(Need.RESPONSE) else "",
            "contexts": list(judged.contexts),
            "metric": self.metric.name,
            "case": task.case,
            "drawn": {"seed": self.seed, "of": self.of, "differing": self.differing},
        }


class Raters(Record):
    """How far the people agree who labelled the same answers by one metric."""

    metric: str
    people: int
    items: int
    """Answers that at least two of them labelled."""
    kappa: float | None
    """Cohen's, of each two people, weighted by how many they share; None where not defined."""
    alpha: float | None
    """Krippendorff's, of all of them."""
