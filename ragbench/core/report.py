"""A run's summaries and what judging took, as records."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from ragbench.core.attribution import Attribution, Cause, CauseCount, RightShare
from ragbench.core.biography import Biography, OperatorTable
from ragbench.core.matched import GoldCause, GoldSearch, Matched
from ragbench.core.metric import Direction, Metric
from ragbench.core.outcome import Cell, Failure, Judgement, Repeats, Status
from ragbench.core.record import Record, field
from ragbench.core.story import CaseStory
from ragbench.core.validation import ValidationTable, Verdict


class Steadiness(Record):
    """How far repeated judgings of the same case differ."""

    cases: int
    """Cases with at least two values: the only ones that the figures cover."""
    deviation: float
    """Standard deviation within a case, pooled: the root of the mean variance of a case's
    values."""
    changed: int
    """Of those cases, that did not get the same value each time."""
    error: float
    """Standard error of the metric's mean that the judge alone causes, at this many
    repetitions."""


class CanaryLine(Record):
    """What a metric's judge made of claims of known truth; see `ragbench.stages.canaries`."""

    metric: str
    kind: str
    """How they were made: ``copied``, ``foreign``, ``altered``, ``injected``."""
    planted: int
    judged: int
    """Of those, with a verdict: the only ones that ``wrong`` covers."""
    wrong: int
    unproved: int
    """Of those judged, with a verdict of support that no quote proves."""


class JurorScore(Record):
    """What one judge of a panel said, by one metric."""

    judge: str
    measured: int
    """Cases that it gave a value."""
    unproved: int
    """Cases of which it gave a verdict that none of its quotes proves."""
    score: float | None
    """The mean of its values; None when it gave none."""


class JurorPair(Record):
    """How far two judges of a panel agree."""

    first: str
    second: str
    cases: int
    """Cases that both gave a value: the only ones that the figures cover."""
    same: float | None
    difference: float | None
    kappa: float | None
    """Cohen's: agreement beyond chance. None where the values are no levels."""


class JudgeLine(Record):
    """What one metric took: the answers that its cells rest on, whenever they were paid for."""

    metric: str
    answers: int
    prompt_tokens: int
    completion_tokens: int
    unreported: int
    """Answers whose tokens the endpoint did not report; they are not in the sums."""
    cost: Decimal | None
    """None when the endpoint reports no cost, and the price or the tokens of an answer are not
    known."""
    steadiness: Steadiness | None
    """None when no case was judged more than once."""
    not_sent: tuple[str, ...] = ()
    """Parameters that the endpoint refused, so that the judge was asked without them."""
    quotes: int = 0
    """Passages that the judge said it copied from the contexts."""
    fabricated_quotes: int = 0
    """Of those, that stand in no context."""
    sentences: int = 0
    """Sentences that the judge called supported, at least in part."""
    unproved_sentences: int = 0
    """Of those, that no quote proves: they are in no score."""
    jurors: tuple[JurorScore, ...] = ()
    """Each judge of a panel, in its order; empty where one judge alone was asked."""
    pairs: tuple[JurorPair, ...] = ()


class JudgeReport(Record):
    """Who judged, what it took, how steady it was."""

    judge: Mapping[str, Any]
    lines: tuple[JudgeLine, ...]
    """A judged metric each, in the report's order."""
    currency: str | None
    price_origin: str | None
    canaries: tuple[CanaryLine, ...] = ()
    """What the judge made of claims of known truth; empty where none were planted."""


class Interval(Record):
    """A confidence interval of a mean."""

    low: float
    high: float
    level: float = 0.95


class Correction(Record):
    """A figure of a judge beside what people say, from their labels of some of the cases."""

    metric: str
    judged: float
    """The judge's own figure over the cases."""
    judged_interval: Interval | None
    corrected: float
    interval: Interval | None
    """None where too few were labelled."""
    cases: int
    labels: int
    """Cases, or pairs of answers, that people labelled."""
    chosen: int
    """Of those, that chance did not choose: the figure leans as their choice did."""
    people: int
    """The most who labelled the same."""
    correlation: float | None
    """Of the judge's values with the people's; None where either does not vary."""
    unit: str = ""
    runs: tuple[str, ...] = ()
    """Of several runs the one that it is of; of a difference: the second minus the first."""


class Slice(Record):
    """One metric over the cases that share a tag or a language."""

    by: str
    """What the cases share: ``"tag"`` or ``"language"``."""
    value: str
    """The tag, or the language's code."""
    total: int
    measured: int
    """Cases of the slice that have a value."""
    score: float | None
    """The metric's figure over those; None when none is measured."""
    interval: Interval | None = None
    """Confidence interval of the mean, of this slice alone; None when it cannot be estimated."""
    clusters: int = 0
    """Observations that it rests on: cases of one cluster are one. 0 without an interval."""


class Counted(Record):
    """A metric's figure, and what it covers. The five counts add up to ``total``."""

    total: int
    measured: int
    """Cases with a value: the only ones that ``score`` covers."""
    abstained: int
    """Cases in which the system declined to answer."""
    skipped: int
    """Cases to which the metric does not apply."""
    failed: int
    """Cases in which the metric, or a stage before it, failed."""
    score: float | None
    """The mean of the measured values, or what the definition's ``aggregate`` makes of them; None
    when nothing was measured."""
    interval: Interval | None
    """Confidence interval of the mean; None when it cannot be estimated."""
    clusters: int
    """Observations that it rests on: cases of one cluster are one. 0 without an interval."""
    unproved: int = 0
    """Cases whose judge gave a verdict that none of its quotes proves."""
    reasons: tuple[tuple[str, int], ...] = ()
    """Why cases were skipped, abstained, failed or unproved, with counts, most frequent first."""
    slices: tuple[Slice, ...] = ()
    """By tag, then by language, each sorted by value."""


class Summary(Counted):
    metric: Metric


Form = Literal["terminal", "markdown", "page"]
"""Where a report is shown: in a terminal, in report.md and in report.html."""


class TableColumn(Record):
    """A column of the table of metrics, for every form of the report."""

    heading: str
    value: Callable[[Summary], Interval | str | int | float | None]
    """A text, a count of cases (an int), a figure in the metric's unit (a float) or an interval.
    None, and a count of 0, is a dash."""
    forms: tuple[Form, ...] = ("terminal", "markdown", "page")
    is_rare: bool = False
    """Whether it is left out where no metric has anything in it."""
    is_drawn: bool = False
    """Whether the page draws the interval before its numbers."""
    is_of_total: bool = False
    """Whether the number of all cases is shown with it."""
    room_rank: int | None = 0
    """A narrow terminal leaves out the column with the lowest number first, and never one with
    None."""


_WITHOUT_VALUE: tuple[Form, ...] = ("terminal", "markdown")
"""The page joins the counts of cases without a value in a column of its own."""

METRIC_TABLE = (
    TableColumn(
        heading="metric",
        value=lambda summary: summary.metric.name,
        room_rank=None,
    ),
    TableColumn(
        heading="group",
        value=lambda summary: summary.metric.definition.group.value,
        forms=("markdown",),  # the page has a heading for each group, and a terminal no room
    ),
    TableColumn(
        heading="score",
        value=lambda summary: summary.score,
        room_rank=None,
    ),
    TableColumn(
        heading="95% interval",
        value=lambda summary: summary.interval,
        is_drawn=True,
        room_rank=3,
    ),
    TableColumn(
        heading="measured",
        value=lambda summary: summary.measured,
        is_of_total=True,
        room_rank=None,
    ),
    TableColumn(
        heading="abstained",
        value=lambda summary: summary.abstained,
        forms=_WITHOUT_VALUE,
        room_rank=2,
    ),
    TableColumn(
        heading="skipped",
        value=lambda summary: summary.skipped,
        forms=_WITHOUT_VALUE,
        room_rank=1,
    ),
    TableColumn(
        heading="failed",
        value=lambda summary: summary.failed,
        forms=_WITHOUT_VALUE,
        room_rank=4,
    ),
    TableColumn(
        heading="unproved",
        value=lambda summary: summary.unproved,
        forms=_WITHOUT_VALUE,
        is_rare=True,  # only a judge that has to quote can leave a cell unproved
        room_rank=5,
    ),
)
"""The columns of the table of metrics, from left to right.

A new column is a line here. A figure that no summary has yet is also a field of `Counted` (and of
`Slice`), which `ragbench.metrics.summary` computes; ``.ci/generate_docs.py`` then writes the
schema of report.json anew.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseRow:
    id: str
    query: str
    reference: str | None
    reference_ids: tuple[str, ...] | None
    cluster: str | None
    tags: tuple[str, ...]
    language: str | None
    retrieved_ids: tuple[str, ...] | None
    """Ids of what generation was given, best first; None when unknown."""
    response: str | None
    """None when generation failed or was skipped."""
    stages: Mapping[str, Status]
    failures: tuple[Failure, ...]
    """What failed, a failure a stage or metric."""
    cells: tuple[Cell, ...]
    """A cell a metric, in the report's order; the mean, where the case was asked repeatedly."""
    attribution: Attribution
    """Which stage lost the answer, or none did."""
    judgements: tuple[tuple[Judgement, ...], ...] = ()
    """What each cell rests on, in the same order, where a model judged it; empty when no metric of
    the run asks one."""
    validation: Verdict | None = None
    """The verdict on what generation was given; None without one."""
    biography: Biography | None = None
    """What post-retrieval did to each chunk; None where none ran."""
    tell: Callable[[], CaseStory] | None = dataclasses.field(
        default=None, compare=False, repr=False
    )
    """Gives its `story`, which takes long."""
    confidence: float | None = None
    """How sure the system was of its answer, in [0, 1]; None when it did not say."""
    location: GoldSearch | None = None
    """Where the gold is that retrieval should have found; None where it was not looked for."""
    matches: Mapping[str, Matched] = dataclasses.field(default_factory=dict[str, Matched])
    """Which chunks are relevant contexts, by the stage that gave them (``"retrieve"``,
    ``"post_retrieve"``); a stage is missing where there was nothing to compare."""
    repeats: tuple[Repeats | None, ...] = ()
    """What each cell is the mean of, in the same order; None for one that is no mean. Empty where
    the case was asked once."""

    @property
    def story(self) -> CaseStory | None:
        """What happened to it at every hop; None where that is not known."""
        return None if self.tell is None else self.tell()


class IndexedCase(NamedTuple):
    """What cases are chosen by."""

    id: str
    cause: Cause
    value: float | None
    """Of the metric that was asked for."""


class StageCount(Record):
    """How a stage ended, over all cases."""

    stage: str
    measured: int
    abstained: int
    skipped: int
    failed: int
    reused: int = 0
    """How many an earlier run asked for, and nothing that they came from has changed."""
    recorded: int = 0


class FailureGroup(Record):
    """Failures of one kind."""

    stage: str
    type: str
    message: str
    count: int
    examples: tuple[str, ...]
    """Ids of the first cases that failed so."""


class Latency(Record):
    """Wall times of one stage, in seconds per case."""

    stage: str
    count: int
    mean: float
    p50: float | None
    """Percentiles and the longest; None where cases shared calls, and nobody knows the time of
    one."""
    p95: float | None
    longest: float | None
    sharing: int = 1


JUDGED_RIGHT = ("ragas:answer_correctness", "ragas:factual_correctness", "ragas:answer_accuracy")
"""Judged metrics that say whether an answer is right; before the words of the answer."""
_MAIN = (
    *JUDGED_RIGHT,
    "answer_correct",
    "token_f1",
    "exact_match",
    "expectations",
    "nDCG@10",
    "recall@5",
)


def main_metric(metrics: Sequence[Metric]) -> int | None:
    """The position of what cases are ordered by when nobody says; None without one."""
    names = [metric.name for metric in metrics]
    return next((names.index(main) for main in _MAIN if main in names), None)


def badness(value: float | None, metric: Metric | None) -> tuple[bool, float]:
    """What the worst cases by a metric come first by."""
    is_low = metric is not None and metric.definition.direction is Direction.LOWER
    return value is None, (value or 0.0) * (-1 if is_low else 1)


def _none(*_: object) -> Iterator[Any]:
    return iter(())


class Report(Record):
    """A run's result. A pure function of the stored run."""

    manifest: Mapping[str, Any]
    metrics: tuple[Metric, ...]
    """Every metric of the run, in the order that the user gave."""
    summaries: tuple[Summary, ...]
    """A summary a metric, in the same order."""
    stages: tuple[StageCount, ...]
    failures: tuple[FailureGroup, ...]
    latencies: tuple[Latency, ...]
    """Differs from run to run: kept out of every file that must not."""
    reused_from: str | None = None
    """When the earlier run began whose outcomes were reused, the latest of them; local time. Kept
    out of files that must not differ from run to run."""
    notes: tuple[str, ...]
    """What a reader must know to read the numbers right."""
    asides: frozenset[str] = frozenset()
    """The notes that only explain a figure: a short screen does without them."""
    validation: ValidationTable | None = None
    """What the verdicts on retrievals come to; None for a run without them."""
    operators: OperatorTable | None = None
    """What each operator of post-retrieval did; None for a run without."""
    gold: Mapping[GoldCause, int] = field(default_factory=dict[GoldCause, int])
    """In how many cases the gold that came nearest to generation ended so; in the order of
    `GoldCause`, empty for a run that did not look."""
    rows: Callable[[], Iterator[CaseRow]]
    """The cases in order, read from the run anew at each call, so that memory stays flat; without
    their stories, which `find` gives."""
    find: Callable[[Sequence[str]], Iterator[CaseRow]] = _none
    """The cases with these ids in that order, with their stories."""
    index: Callable[[int | None, str | None], Iterator[IndexedCase]] = _none
    """What cases are chosen by, with the value of the metric at a position; those with a tag."""
    judging: JudgeReport | None = None
    """What judging took; None when no metric of the run asks a model."""
    causes: tuple[CauseCount, ...] = ()
    """What became of the cases, in the order of a case's way through the stages."""
    right: RightShare | None = None
    """How many of them ended well; None where nothing is known of any."""
    corrections: tuple[Correction, ...] = ()
    """The figures that labels of people correct; empty without a file of labels."""

    def __repr__(self) -> str:
        """The figures in lines: the manifest alone would fill a screen."""
        width = max((len(one.metric.name) for one in self.summaries), default=0)
        figures = [
            f"{one.metric.name:<{width}}  {'-' if one.score is None else f'{one.score:.3f}':>5}"
            f"  {one.measured:,} of {one.total:,}"
            f"{f': {one.reasons[0][0]}' if one.score is None and one.reasons else ''}"
            for one in self.summaries
        ]
        causes = [f"{one.cause.label}  {one.cases:,}" for one in self.causes]
        failed = [f"{one.stage} failed  {one.count:,}: {one.message}" for one in self.failures]
        return "\n".join(["Report: score and cases of each metric", *figures, *causes, *failed])

    @property
    def is_comparable(self) -> bool:
        """Whether retrieval could be compared with the gold; else the first note says why."""
        settings: Mapping[str, Any] = self.manifest.get("settings", {})
        return settings.get("matching") != "not_comparable"
