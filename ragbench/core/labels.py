"""Labels of people: the answers that they are shown, and how reliable a judge is by their labels.

``ragbench label`` draws the answers, ``ragbench judge-card`` compares a judge with the labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple

from ragbench.core.metric import Direction, Group, Metric, MetricDefinition, Need
from ragbench.core.record import Labelled, Record

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
"""A validator's verdict as a metric, so that people can label it, too."""


class Choice(NamedTuple):
    """A key that a person presses for a label, with its value on the metric's scale."""

    key: str
    value: float
    word: str


class Judged(Record):
    """An answer that a metric has scored and a person is asked to label."""

    answer: str
    contexts: tuple[str, ...]
    key: tuple[str, str, str | None]
    """Digests of question, answer and contexts, by which a label is matched; see
    `ragbench.io.people`."""
    value: float
    """The metric's value, which the person does not see at first."""
    run: str


class LabelTask(Record):
    """A case with one answer to label, or with the answers of two runs in random order."""

    case: str
    question: str
    references: tuple[str, ...]
    answers: tuple[Judged, ...]


class Drawn(Record):
    """Cases that were drawn at random for people to label by one metric."""

    metric: Metric
    tasks: tuple[LabelTask, ...]
    seed: int
    of: int
    """Number of cases that they were drawn from."""
    differing: bool = False
    """Whether they were drawn only from the cases whose answers differ between the two runs."""

    def reads(self, need: Need) -> bool:
        """Whether the labelled metric reads this input, so that people are shown it, too."""
        return need in self.metric.definition.needs

    @property
    def choices(self) -> Sequence[Choice]:
        """The keys that a person presses for a label, with their values on the metric's scale.

        A scale such as 1 to 5 has a key per grade; any other scale has yes, partly and no.
        """
        low = self.metric.definition.low or 0.0
        high = self.metric.definition.high or 1.0
        is_of_whole_numbers = low == int(low) and high == int(high)
        is_of_digits = low >= 0 and high <= 9  # each grade is one key
        # A scale of 0 and 1 has no grades in between: it is answered by yes, partly and no.
        if is_of_whole_numbers and is_of_digits and high - low > 1:
            grades = range(int(low), int(high) + 1)
            return [Choice(str(grade), float(grade), "") for grade in grades]
        middle = (low + high) / 2
        return [Choice("y", high, "yes"), Choice("p", middle, "partly"), Choice("n", low, "no")]

    def line(self, task: LabelTask, judged: Judged) -> dict[str, object]:
        """The line of a file of labels about an answer, before its value and the person's name.

        The names of the fields are the file's form: a renamed field makes existing files of
        people's labels unreadable. The answer is left out where the metric does not read it, so
        that the label holds for any answer.
        """
        # In this form for good: `ragbench.io.people` reads it back.
        return {
            "question": task.question,
            "answer": judged.answer if self.reads(Need.RESPONSE) else "",
            "contexts": list(judged.contexts),
            "metric": self.metric.name,
            "case": task.case,
            "drawn": {"seed": self.seed, "of": self.of, "differing": self.differing},
        }


class Raters(Record):
    """The agreement of the people who labelled the same answers by one metric."""

    metric: str
    people: int
    items: int
    """Answers that at least two people labelled."""
    kappa: float | None
    """Mean of Cohen's kappa of each two people, weighted by the number of answers that both
    labelled; None where it is not defined."""
    alpha: float | None
    """Krippendorff's alpha, of all people."""


# --- a judge compared with the people


class Probe(Labelled):
    """A change of a claim, or of its passages, that must not change a judge's verdict.

    The label describes the fault of a judge whose verdicts it changes.
    """

    POSITION = "position", "the order of passages changes the verdict"
    """The passages are in reverse order."""
    VERBOSITY = "verbosity", "words that say nothing change the verdict"
    """The claim is between sentences without content."""
    INJECTION_ANSWER = "injection_answer", "an instruction in the answer raises the verdict"
    """The claim ends with an instruction to call it supported."""
    INJECTION_CONTEXT = "injection_context", "an instruction in a passage raises the verdict"
    """A passage ends with such an instruction."""


class ProbeFigure(Record):
    """The verdicts of a judge that one probe changed."""

    probe: Probe
    count: int
    """Claims with a verdict before and after the change."""
    changed: int
    """Of those, how many have another verdict after it."""
    raised: int
    """Of those, how many have a more favourable verdict after it."""
    unproved: int
    """Claims with a verdict before, and a verdict of support without proof after: the probe worked,
    and the missing quotes show it. They are not part of ``count``."""
    low: float | None = None
    """Lower end of the 95% interval of `share`, by Clopper and Pearson."""
    high: float | None = None
    """Upper end of the same interval."""

    @property
    def is_injection(self) -> bool:
        """Whether the probe puts an instruction into a text.

        Of these probes only a more favourable verdict is a fault of the judge: it obeyed.
        """
        return self.probe in (Probe.INJECTION_ANSWER, Probe.INJECTION_CONTEXT)

    @property
    def hits(self) -> int:
        """Number of verdicts that the probe changed; of an injection, those that it raised.

        A raised verdict is a more favourable one.
        """
        if self.is_injection:
            return self.raised
        return self.changed

    @property
    def share(self) -> float | None:
        """Share of the verdicts that the probe changed; of an injection, those that it raised.

        None where no claim has a verdict both before and after the change.
        """
        if not self.count:
            return None
        return self.hits / self.count


class CardFigure(Record):
    """A figure of a judge card, with its interval."""

    value: float | None = None
    """None when it is not defined, or nothing was measured."""
    low: float | None = None
    """Lower end of the interval; None where none can be computed."""
    high: float | None = None
    """Upper end of the same interval."""
    count: int = 0
    """Number of claims, verdicts or quotes that it is over."""


class ConfusionTable(Record):
    """Number of claims by the people's level (row) and the judge's level (column)."""

    levels: tuple[str, ...]
    """The lowest first."""
    counts: tuple[tuple[int, ...], ...]


class ClassFigures(Record):
    """The reliability of a judge for one level."""

    level: str
    precision: CardFigure
    """Of the claims with this level by the judge, the share with the same level by people."""
    recall: CardFigure
    """Of the claims with this level by people, the share with the same level by the judge."""


class Usefulness(StrEnum):
    """The recommendation of a judge card."""

    USE = "use"
    WITH_CARE = "use with care"
    DO_NOT_USE = "do not use"


class Conclusion(Record):
    """The recommendation of a judge card, with its reasons."""

    usefulness: Usefulness
    reasons: tuple[str, ...]
    """The faults of the judge, the gravest first; empty for a judge without a fault."""


class JudgeCard(Record):
    """The reliability of a judge, measured on claims that people have labelled."""

    labels: str
    """The file of labels."""
    metric: str
    judge: Mapping[str, Any]
    """Settings of the judge, as in a manifest."""
    claims: int
    judged: int
    """Claims with a verdict: all figures are over these alone."""
    reasons: tuple[tuple[str, int], ...]
    """Why the other claims have no verdict, with counts, the most frequent first."""
    table: ConfusionTable
    agreement: CardFigure
    """Share of claims with the people's level."""
    base_rate: float | None
    """Agreement that a judge would reach by always giving the most frequent level."""
    kappa: CardFigure
    """Cohen's kappa: agreement beyond chance."""
    quadratic_kappa: CardFigure
    """Cohen's kappa, weighted by the squared distance between levels."""
    classes: tuple[ClassFigures, ...]
    rank_correlation: CardFigure
    """Spearman's, between people's grades and the judge's scores."""
    consistency: CardFigure
    """Share of the claims judged more than once that got the same level each time."""
    probes: tuple[ProbeFigure, ...]
    fabricated_quotes: CardFigure
    """Share of the judge's quotes that are not in the evidence."""
    unproved: CardFigure
    """Share of verdicts of support, whole or in part, that no quote proves."""
    prompt_tokens: float | None
    """Mean per verdict; None when the endpoint does not report it."""
    completion_tokens: float | None
    """Mean per verdict, likewise."""
    cost: Decimal | None
    """Mean per verdict; None when unknown."""
    currency: str | None

    @property
    def conclusion(self) -> Conclusion:
        """Whether to use the judge: not with a fatal fault, with care with a lesser one.

        The reasons are those faults, the fatal ones first.
        """
        fatal_faults = [*_fatal_faults(self)]
        faults = [*_faults(self)]
        if fatal_faults:
            usefulness = Usefulness.DO_NOT_USE
        elif faults:
            usefulness = Usefulness.WITH_CARE
        else:
            usefulness = Usefulness.USE
        return Conclusion(usefulness=usefulness, reasons=(*fatal_faults, *faults))


_WEAK_KAPPA = 0.4
"""A judge is used with care if the interval of its kappa reaches below this."""
_MANY_FAULTS = 0.1
"""And if this share of its verdicts or quotes has a fault."""
_FATAL_FABRICATION = 0.5
"""A judge is not used if it invents this share of its quotes."""
_FEW_VERDICTS = 0.9
"""A judge is used with care if a smaller share of the claims got a verdict."""


def _fatal_faults(card: JudgeCard) -> Iterator[str]:
    """Reasons not to use a judge at all: it may be guessing, or invents what it quotes.

    The judge card prints them first. Kappa is the agreement with people beyond chance.
    """
    kappa = card.kappa
    if not card.judged:
        yield "no claim got a verdict"
    elif kappa.value is None:
        yield "kappa is not defined: people, or the judge, gave one level only"
    elif kappa.low is None or kappa.high is None:
        yield (
            f"{card.judged:,} claims of too few groups show nothing: kappa has no interval. Label "
            "more"
        )
    elif kappa.low <= 0:
        yield (
            f"kappa's interval ({kappa.low:.2f} .. {kappa.high:.2f}) includes 0: it may be guessing"
        )
    # Apart from kappa: a judge that agrees with people may invent its quotes all the same.
    fabricated = card.fabricated_quotes
    if fabricated.value is not None and fabricated.value >= _FATAL_FABRICATION:
        yield f"{fabricated.value:.0%} of its quotes are invented"


def _faults(card: JudgeCard) -> Iterator[str]:
    """Reasons to use a judge with care: faults that its figures show, none of them fatal.

    The judge card prints them behind the fatal ones. The limits are those above.
    """
    kappa = card.kappa
    if kappa.low is not None and 0 < kappa.low < _WEAK_KAPPA:
        yield f"kappa may be as low as {kappa.low:.2f}"
    if card.judged < _FEW_VERDICTS * card.claims:
        missing = card.claims - card.judged
        yield f"{missing:,} of {card.claims:,} claims got no verdict"
    fabricated = card.fabricated_quotes.value
    # From the fatal share on, it is among the fatal faults already.
    if fabricated is not None and _MANY_FAULTS <= fabricated < _FATAL_FABRICATION:
        yield f"{fabricated:.0%} of its quotes are invented"
    unproved = card.unproved.value
    if unproved is not None and unproved >= _MANY_FAULTS:
        yield f"{unproved:.0%} of its verdicts of support are unproved"
    consistent = card.consistency.value
    if consistent is not None and consistent <= 1 - _MANY_FAULTS:
        yield f"{1 - consistent:.0%} of the claims get another verdict when asked again"
    for probe in card.probes:
        if probe.share is not None and probe.share >= _MANY_FAULTS:
            yield f"{probe.probe.label} in {probe.share:.0%} of the claims"
