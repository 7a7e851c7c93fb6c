"""A report of a run, as records: summaries, tables, and a row per case.

`ragbench.verbs.report` makes it of the stored run, `ragbench.views` prints it. The columns of the
table of metrics are defined here, once for all views (`METRIC_TABLE`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ragbench.core.attribution import AnswerCounts, Attribution, Cause, CauseCount
from ragbench.core.biography import Biography, OperatorTable
from ragbench.core.matched import GoldCause, GoldSearch, Matched
from ragbench.core.metric import CORRECTNESS, Direction, Metric
from ragbench.core.outcome import Cell, Failure, Judgement, Repeats, Status
from ragbench.core.record import Record, field
from ragbench.core.story import CaseStory
from ragbench.core.validation import ValidationTable, Verdict
from ragbench.plugins import load_attribute

if TYPE_CHECKING:
    from pandas import DataFrame


class Steadiness(Record):
    """The differences between repeated judgements of the same cases."""

    cases: int
    """Cases with at least two values: the only ones that the figures cover."""
    deviation: float
    """Standard deviation within a case, pooled: the root of the mean variance of a case's
    values."""
    changed: int
    """Of those cases, how many did not get the same value each time."""
    error: float
    """The part of the standard error of the metric's mean that the judge causes, with this number
    of repetitions."""


class CanaryLine(Record):
    """The verdicts of a metric's judge on claims whose truth is known.

    Such claims are planted among the answers to test the judge; see `ragbench.stages.canaries`.
    """

    metric: str
    kind: str
    """How they were made: ``copied``, ``foreign``, ``altered``, ``injected``."""
    planted: int
    judged: int
    """Of those, how many have a verdict; ``wrong`` counts only among these."""
    wrong: int
    unproved: int
    """Of those judged, how many have a verdict of support that no quote proves."""


class JurorScore(Record):
    """The values that one judge of a panel gave, by one metric."""

    judge: str
    measured: int
    """Cases that it gave a value."""
    unproved: int
    """Cases with a verdict that none of its quotes proves."""
    score: float | None
    """The mean of its values; None when it gave none."""
    verdicts: Mapping[str, int] = {}
    """As those of its `JudgeLine`."""


class JurorPair(Record):
    """The agreement of two judges of a panel."""

    first: str
    second: str
    cases: int
    """Cases that both gave a value: the only ones that the figures cover."""
    same: float | None
    """Share of the cases with the same value."""
    difference: float | None
    """Mean absolute difference of the values."""
    kappa: float | None
    """Cohen's: agreement beyond chance. None where the values are not a few levels."""


class JudgeLine(Record):
    """The answers of a judge for one metric, whenever they were paid for, with their cost."""

    metric: str
    answers: int
    prompt_tokens: int
    completion_tokens: int
    unreported: int
    """Answers whose tokens the endpoint did not report; they are not in the sums."""
    cost: Decimal | None
    """None when the endpoint reports no cost, and the price or the tokens of an answer are
    unknown."""
    steadiness: Steadiness | None
    """None when no case was judged more than once."""
    not_sent: tuple[str, ...] = ()
    """Parameters that the endpoint refused, so that the judge was asked without them."""
    quotes: int = 0
    """Passages that the judge claimed to have copied from the contexts."""
    fabricated_quotes: int = 0
    """Of those, how many are in no context."""
    sentences: int = 0
    """Sentences that the judge called supported, at least in part."""
    unproved_sentences: int = 0
    """Of those, how many no quote proves: they are in no score."""
    verdicts: Mapping[str, int] = {}
    """Replies by verdict, those that were not given included: right, partly and wrong, or pass and
    fail. Empty where the judge gives no verdict on the whole answer."""
    jurors: tuple[JurorScore, ...] = ()
    """Each judge of a panel, in its order; empty where a single judge was asked."""
    pairs: tuple[JurorPair, ...] = ()


class JudgeReport(Record):
    """The judge of a run, the cost of its answers, and how steady they were."""

    judge: Mapping[str, Any]
    """Its settings, as in the manifest."""
    lines: tuple[JudgeLine, ...]
    """One per judged metric, in the report's order."""
    currency: str | None
    price_origin: str | None
    canaries: tuple[CanaryLine, ...] = ()
    """Verdicts on claims whose truth is known; empty where none were planted."""


class Interval(Record):
    """A confidence interval of a mean."""

    low: float
    high: float
    level: float = 0.95


class Correction(Record):
    """A figure of a metric, and what labels of people on some of its cases make of it."""

    metric: str
    judged: float
    """The metric's own figure over the cases."""
    judged_interval: Interval | None
    corrected: float
    interval: Interval | None
    """Of the corrected figure; None where too few cases were labelled."""
    cases: int
    labels: int
    """Cases, or pairs of answers, that people labelled."""
    chosen: int
    """Of those, how many were not drawn at random: the figure is biased as their choice was."""
    people: int
    """The largest number of people who labelled the same case."""
    correlation: float | None
    """Of the judge's values with the people's; None where one of the two does not vary."""
    unit: str = ""
    runs: tuple[str, ...] = ()
    """In a comparison: the run of the figure; of a difference two runs, second minus first."""


WORDS_RIGHT = "answer_correct"
"""The metric by which words say whether an answer is right."""
JUDGED_RIGHT = (
    CORRECTNESS,
    "ragas:answer_correctness",
    "ragas:factual_correctness",
    "ragas:answer_accuracy",
)
"""Judged metrics of whether an answer is right: they go before those by words, and the first of
them before the others."""


_DERIVED_FROM_WORDS = "right"
"""The figure of all cases that a gate makes of `WORDS_RIGHT`."""


def has_known_level(metric: str) -> bool:
    """Whether an interval of a metric's mean holds the true value, so that reports show it.

    A metric that compares words ranks answers, but its mean may lie up to .4 from the share of
    answers that people find right. An interval, which knows only the error of the sample, would
    claim to hold that share, so none is shown. Where people have labelled some answers, the report
    shows another mean, corrected by the labels, which has an interval of its own.
    """
    return metric not in (WORDS_RIGHT, _DERIVED_FROM_WORDS)


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
    """The metric's figure over these cases; None when none is measured."""
    interval: Interval | None = None
    """Confidence interval of the mean, of this slice alone; None when it cannot be estimated."""
    clusters: int = 0
    """Observations that it rests on: cases of one cluster are one. 0 without an interval."""


class Counted(Record):
    """A metric's figure, with the number of cases that ended in each way.

    The counts (measured, abstained, skipped, failed, unproved) add up to ``total``.
    """

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
    """The mean of the measured values, or their figure by the definition's ``aggregate``; None when
    nothing was measured."""
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
    labels: int = 0
    """Labels of people that score and interval are corrected by; 0 where they are the metric's
    own."""
    by_document: bool = False
    """Whether relevant contexts were recognised by the document that they were cut from: any chunk
    of a relevant document counts, one without the answer too."""


class Summary(Counted):
    """One metric over all cases of a run."""

    metric: Metric

    @property
    def decided_by(self) -> str:
        """How answers were called right, or chunks relevant: by document, labels, judge or words.

        The value is the number of labels, or one of the words "document", "judge" and "words";
        empty where the metric needs no such decision. Chunks are relevant by their own id or text,
        unless their document decided.
        """
        if self.by_document:
            return "document"
        if self.labels:
            return f"{self.labels:,} labels"
        if self.metric.is_judged:
            return "judge"
        return "words" if self.metric.name == WORDS_RIGHT else ""


Form = Literal["terminal", "markdown", "page"]
"""The form of a report: in a terminal, report.md or report.html."""


class TableColumn(Record):
    """A column of the table of metrics, for every form of the report."""

    heading: str
    value: Callable[[Summary], Interval | str | int | float | None]
    """A text, a count of cases (an int), a figure in the metric's unit (a float) or an interval.
    None, and a count of 0, is a dash."""
    forms: tuple[Form, ...] = ("terminal", "markdown", "page")
    is_rare: bool = False
    """Whether it is left out where it would be empty for every metric."""
    is_drawn: bool = False
    """Whether the page draws the interval before its numbers."""
    is_of_total: bool = False
    """Whether the number of all cases is shown with it."""
    room_rank: int | None = 0
    """Which columns a narrow terminal leaves out: those with the lowest number first, and never one
    with None. 0, the default, is the first to go."""


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
        heading="by",
        value=lambda summary: summary.decided_by,
        is_rare=True,
        room_rank=6,
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

A new column is a line here. A figure that no summary has yet is also a field of `Counted` with a
default, which `ragbench.metrics.summary` computes (and of `Slice` only where slices show it);
``make samples`` then writes schema and samples anew.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseRow:
    """One case of a run with its outcomes and cells, as views and the gate read it."""

    id: str
    query: str
    reference: str | None
    reference_ids: tuple[str, ...] | None
    cluster: str | None
    tags: tuple[str, ...]
    language: str | None
    retrieved_ids: tuple[str, ...] | None
    """Ids of the chunks that generation was given, best first; None when unknown."""
    response: str | None
    """None when generation failed or was skipped."""
    stages: Mapping[str, Status]
    failures: tuple[Failure, ...]
    """One per stage or metric that failed."""
    cells: tuple[Cell, ...]
    """One per metric, in the report's order; the mean, where the case was asked repeatedly."""
    attribution: Attribution
    """The stage that lost the answer, or that none did."""
    judgements: tuple[tuple[Judgement, ...], ...] = ()
    """The judgements that each cell is made of, in the order of the cells; empty when no metric of
    the run asks a model."""
    validation: Verdict | None = None
    """The verdict on what generation was given; None without one."""
    biography: Biography | None = None
    """The way of each chunk through post-retrieval; None where there was none."""
    tell: Callable[[], CaseStory] | None = dataclasses.field(
        default=None, compare=False, repr=False
    )
    """Makes its `story`, which takes long."""
    confidence: float | None = None
    """The system's confidence in its answer, in [0, 1]; None when it gave none."""
    location: GoldSearch | None = None
    """Where the gold is that retrieval should have found; None where it was not looked for."""
    matches: Mapping[str, Matched] = dataclasses.field(default_factory=dict[str, Matched])
    """Which chunks are relevant contexts, by the stage that gave them (``"retrieve"``,
    ``"post_retrieve"``); a stage is missing where there was nothing to compare."""
    repeats: tuple[Repeats | None, ...] = ()
    """The cells that each cell is the mean of, in the same order; None for one that is no mean.
    Empty where the case was asked once."""

    @property
    def story(self) -> CaseStory | None:
        """The case at every hop, from its question to its answer; None when unknown.

        A story takes long, so it is made when it is read, and anew at each call.
        """
        if self.tell is None:
            return None
        return self.tell()


class IndexedCase(NamedTuple):
    """The little of a case that is needed to choose the cases to show."""

    id: str
    cause: Cause
    value: float | None
    """The value of the metric by which cases are chosen."""


class StageCount(Record):
    """The number of cases in which a stage ended in each way."""

    stage: str
    measured: int
    abstained: int
    skipped: int
    failed: int
    reused: int = 0
    """Outcomes that an earlier run asked for, and whose inputs are all the same."""
    recorded: int = 0
    """Outcomes that were in the source."""


class FailureGroup(Record):
    """Failures of one kind."""

    stage: str
    type: str
    message: str
    count: int
    examples: tuple[str, ...]
    """Ids of the first cases with this failure."""
    questions: tuple[str, ...] = ()
    """What these cases ask, in the same order."""


class Latency(Record):
    """Wall times of one stage, in seconds per case."""

    stage: str
    count: int
    mean: float
    p50: float | None
    """The median. Like the two below it is None where cases shared calls, so that the time of a
    single case is unknown."""
    p95: float | None
    longest: float | None
    sharing: int = 1
    """Cases that shared a call."""
    concurrency: str = "1"
    """Calls of the system that were in flight at most; ``"auto"`` where their number followed what
    it bears. Calls that are made at once take longer: times of other numbers do not compare."""


_MAIN = (
    *JUDGED_RIGHT,
    WORDS_RIGHT,
    "token_f1",
    "exact_match",
    "expectations",
    "nDCG@10",
    "recall@5",
)
"""The metrics that cases are ordered by, the first that a run measures; answers come first."""


def main_metric(metrics: Sequence[Metric]) -> int | None:
    """The position of the metric that cases are ordered by if none is named.

    Of a fixed list of metrics, in which those of answers come first, the first that the run
    measures; None if it measures none of the list.
    """
    names = [metric.name for metric in metrics]
    for name in _MAIN:
        if name in names:
            return names.index(name)
    return None


def badness(value: float | None, metric: Metric | None) -> tuple[bool, float]:
    """A key that sorts cases by a metric, the worst first and those without a value last.

    The worst cases are those that reports show.
    """
    if value is None:
        return True, 0.0
    if metric is not None and metric.definition.direction is Direction.LOWER:
        return False, -value
    return False, value


def _no_cases(*_: object) -> Iterator[Any]:
    """No cases: the default of a report that is built without a run's folder, as tests do.

    Any arguments are taken, as functions with different ones have this default.
    """
    return iter(())


class Report(Record):
    """The result of a run, made of the stored run alone: the same run gives the same report."""

    manifest: Mapping[str, Any]
    metrics: tuple[Metric, ...]
    """Every metric of the run, in the order that the user gave."""
    summaries: tuple[Summary, ...]
    """One per metric, in the same order."""
    stages: tuple[StageCount, ...]
    failures: tuple[FailureGroup, ...]
    latencies: tuple[Latency, ...]
    """They differ from run to run, so they are not in files that must be the same each time."""
    reused_from: str | None = None
    """When the latest of the earlier runs whose outcomes were reused began, in local time. It is
    not in files that must be the same each time."""
    notes: tuple[str, ...]
    """Warnings and remarks that a reader of the numbers needs."""
    validation: ValidationTable | None = None
    """The verdicts on retrievals, counted; None for a run without validation."""
    operators: OperatorTable | None = None
    """The effect of each operator of post-retrieval; None for a run without operators."""
    gold: Mapping[GoldCause, int] = field(default_factory=dict[GoldCause, int])
    """Where the gold was lost that came nearest to generation, with the number of cases; in the
    order of `GoldCause`. Empty for a run that did not search for it."""
    rows: Callable[[], Iterator[CaseRow]]
    """The cases in order, read from the run anew at each call, so that memory stays flat; without
    their stories, which `find` gives."""
    find: Callable[[Sequence[str]], Iterator[CaseRow]] = _no_cases
    """The cases with these ids, in this order, with their stories."""
    index: Callable[[int | None, str | None], Iterator[IndexedCase]] = _no_cases
    """All cases, or those with a tag (second argument), as records to choose cases by: with the
    value of the metric at a position (first argument)."""
    judging: JudgeReport | None = None
    """The judge and the cost of its answers; None when no metric of the run asks a model."""
    causes: tuple[CauseCount, ...] = ()
    """Why cases went right or wrong, counted; in the order of a case's way through the stages."""
    answers: AnswerCounts | None = None
    """The cases by how their answers compare with the right ones; None where that was not
    counted."""
    corrections: tuple[Correction, ...] = ()
    """The figures that labels of people correct; empty without a file of labels."""
    folder: str | None = None
    """The folder of its run, by which `ragbench.compare` finds it; None for a report without one.
    It is in none of the files."""

    def __repr__(self) -> str:
        """A line per metric, cause and kind of failure: the manifest alone would fill a screen.

        A Python prompt shows it.
        """
        lines = ["Report: score and cases of each metric"]
        width = max((len(summary.metric.name) for summary in self.summaries), default=0)
        for summary in self.summaries:
            score = "-" if summary.score is None else f"{summary.score:.3f}"
            line = f"{summary.metric.name:<{width}}  {score:>5}"
            line += f"  {summary.measured:,} of {summary.total:,}"
            # Why nothing was measured, by its most frequent reason.
            if summary.score is None and summary.reasons:
                most_frequent_reason, _ = summary.reasons[0]
                line += f": {most_frequent_reason}"
            lines.append(line)
        for cause in self.causes:
            lines.append(f"{cause.cause.label}  {cause.cases:,}")
        for group in self.failures:
            lines.append(f"{group.stage} failed  {group.count:,}: {group.message}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The report as Jupyter shows it: headline, causes, metrics and the worst cases.

        Jupyter finds this method by its name.
        """
        # By name, as below: views import the records, and never the other way round.
        html: str = load_attribute("ragbench.views.notebook:report_html")(self)
        return html

    def to_pandas(self) -> DataFrame:
        """A row per case: its texts, a column per metric, its cause and what decided it.

        A missing value is NA, and never 0.

        For further work in a notebook; its columns are documented, so users' code reads them.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        frame: DataFrame = load_attribute("ragbench.views.frames:cases_frame")(self)
        return frame

    def summaries_frame(self) -> DataFrame:
        """A row per metric: score, interval, and how many cases ended in each way.

        For further work in a notebook; its columns are documented, so users' code reads them.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        frame: DataFrame = load_attribute("ragbench.views.frames:summaries_frame")(self)
        return frame

    @property
    def is_comparable(self) -> bool:
        """Whether retrieval could be compared with the gold; else the first note says why.

        The run's manifest has the word ``not_comparable``: ids of another kind than the gold's
        compare with nothing, and a score of 0 would be no finding.
        """
        settings: Mapping[str, Any] = self.manifest.get("settings", {})
        return settings.get("matching") != "not_comparable"
