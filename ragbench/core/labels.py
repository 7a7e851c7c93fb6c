"""Labels of people: the answers that they are asked about, and what a judge is worth by them."""

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


# --- a judge beside them


class Probe(Labelled):
    """A change of a claim that leaves what is true of it as it was; labels say what minds it."""

    POSITION = "position", "the order of passages changes the verdict"
    """The passages stand in reverse order."""
    VERBOSITY = "verbosity", "words that say nothing change the verdict"
    """The claim comes with sentences around it that say nothing."""
    INJECTION_ANSWER = "injection_answer", "an instruction in the answer raises the verdict"
    """The claim ends in an instruction to call it supported."""
    INJECTION_CONTEXT = "injection_context", "an instruction in a passage raises the verdict"
    """A passage ends in such an instruction."""


class ProbeFigure(Record):
    probe: Probe
    count: int
    """Claims with a verdict before and after."""
    changed: int
    """Of those, with another verdict."""
    raised: int
    """Of those, with a more favourable one."""
    unproved: int
    """Claims that got a verdict before, and a verdict of support without proof after: the judge
    gave in, and its missing quotes gave it away. Not part of ``count``."""
    low: float | None = None
    """95% interval of the share that changed, by Clopper and Pearson; of the injections, of the
    share that rose."""
    high: float | None = None

    @property
    def is_injection(self) -> bool:
        return self.probe in (Probe.INJECTION_ANSWER, Probe.INJECTION_CONTEXT)

    @property
    def hits(self) -> int:
        """Verdicts that changed; of the injections, that rose."""
        return self.raised if self.is_injection else self.changed

    @property
    def share(self) -> float | None:
        """Share of the verdicts that changed; of the injections, that rose."""
        return self.hits / self.count if self.count else None


class CardFigure(Record):
    value: float | None = None
    """None when it is not defined, or nothing was measured."""
    low: float | None = None
    """None with ``high`` where no interval can be given."""
    high: float | None = None
    count: int = 0
    """What it covers: claims, verdicts or quotes."""


class ConfusionTable(Record):
    """Claims by what people said (row) and what the judge said (column), lowest level first."""

    levels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


class ClassFigures(Record):
    """How far one level of the judge can be believed."""

    level: str
    precision: CardFigure
    """Share of the claims that the judge gave this level to which people gave it, too."""
    recall: CardFigure
    """Share of the claims that people gave this level to which the judge gave it, too."""


class Usefulness(StrEnum):
    USE = "use"
    WITH_CARE = "use with care"
    DO_NOT_USE = "do not use"


class Conclusion(Record):
    usefulness: Usefulness
    reasons: tuple[str, ...]
    """What it rests on, the gravest first; empty for a judge without a fault."""


class JudgeCard(Record):
    labels: str
    metric: str
    judge: Mapping[str, Any]
    """Who judged; see a manifest's ``judge``."""
    claims: int
    judged: int
    """Claims with a verdict: the only ones that the figures cover."""
    reasons: tuple[tuple[str, int], ...]
    """Why the others have none, the most frequent first."""
    table: ConfusionTable
    agreement: CardFigure
    """Share of claims with the people's level."""
    base_rate: float | None
    """Share that always saying the most frequent level would reach."""
    kappa: CardFigure
    """Cohen's kappa: agreement beyond chance."""
    quadratic_kappa: CardFigure
    """The same with distances between levels squared."""
    classes: tuple[ClassFigures, ...]
    rank_correlation: CardFigure
    """Spearman's, between people's grades and the judge's scores."""
    consistency: CardFigure
    """Share of claims judged more than once that get the same level each time."""
    probes: tuple[ProbeFigure, ...]
    fabricated_quotes: CardFigure
    """Share of the judge's quotes that do not stand in the evidence."""
    unproved: CardFigure
    """Share of verdicts of support, whole or in part, that no quote proves."""
    prompt_tokens: float | None
    """Of a verdict, on average; None when the endpoint does not report it."""
    completion_tokens: float | None
    cost: Decimal | None
    """Of a verdict, on average; None when it is not known."""
    currency: str | None

    @property
    def conclusion(self) -> Conclusion:
        out, care = [*_ruled_out(self)], [*_cautions(self)]
        usefulness = Usefulness.WITH_CARE if care else Usefulness.USE
        usefulness = Usefulness.DO_NOT_USE if out else usefulness
        return Conclusion(usefulness=usefulness, reasons=(*out, *care))


_WEAK = 0.4
"""A kappa whose interval reaches below this is called weak."""
_MANY = 0.1
"""A share of faults from which on they are called many."""
_FEW_VERDICTS = 0.9


def _ruled_out(card: JudgeCard) -> Iterator[str]:
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
    fabricated = card.fabricated_quotes
    if fabricated.value is not None and fabricated.value >= 0.5:
        yield f"{fabricated.value:.0%} of its quotes are invented"


def _cautions(card: JudgeCard) -> Iterator[str]:
    kappa, fabricated = card.kappa, card.fabricated_quotes
    if kappa.low is not None and 0 < kappa.low < _WEAK:
        yield f"kappa may be as low as {kappa.low:.2f}"
    if card.judged < _FEW_VERDICTS * card.claims:
        missing = card.claims - card.judged
        yield f"{missing:,} of {card.claims:,} claims got no verdict"
    if fabricated.value is not None and _MANY <= fabricated.value < 0.5:
        yield f"{fabricated.value:.0%} of its quotes are invented"
    unproved = card.unproved.value
    if unproved is not None and unproved >= _MANY:
        yield f"{unproved:.0%} of its verdicts of support are unproved"
    consistent = card.consistency.value
    if consistent is not None and consistent <= 1 - _MANY:
        yield f"{1 - consistent:.0%} of the claims get another verdict when asked again"
    for probe in card.probes:
        if probe.share is not None and probe.share >= _MANY:
            yield f"{probe.probe.label} in {probe.share:.0%} of the claims"
