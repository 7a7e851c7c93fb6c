"""A comparison of runs, as records: figures, differences, and the cases that went another way.

The gate package makes them, views print them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from ragbench.core.attribution import Cause, CauseFlow
from ragbench.core.metric import Direction
from ragbench.core.origin import RunOrigin, SystemChange
from ragbench.core.outcome import Cell, Status
from ragbench.core.record import Record, field
from ragbench.core.report import Correction, Interval
from ragbench.plugins import load_attribute
from ragbench.safe_text import counted

if TYPE_CHECKING:
    from pandas import DataFrame


class CaseKind(StrEnum):
    """Whether a case fails in the second run and passed in the first, or the reverse."""

    FAILING = "newly failing"
    MIXED = "mixed"
    """It newly fails by one metric or stage, and newly passes by another."""
    FIXED = "newly fixed"

    @property
    def heading(self) -> str:
        """The heading of a report's list of the cases of this kind.

        The heading is the kind's name with a capital, but for the kind "mixed", which needs more
        words.
        """
        return _HEADINGS.get(self, self.value.capitalize())


_HEADINGS = {CaseKind.MIXED: "Failing in one respect, fixed in another"}


class ComparedRun(RunOrigin):
    """One of the compared runs, with the letter that stands for it in tables."""

    mark: str
    """A letter, in the order in which the runs were given: ``"a"``, ``"b"`` ..."""


class RunFigure(Record):
    """A metric over one run. The four counts add up to the cases that were compared."""

    run: str
    score: float | None
    interval: Interval | None
    """Of this run alone; None when it cannot be estimated."""
    measured: int
    abstained: int
    skipped: int
    failed: int
    better_than: tuple[str, ...] = ()
    """Marks of the runs that it is significantly better than. Of a metric of which neither
    direction is better: of the runs whose value is significantly lower."""


class Difference(Record):
    """Two runs on one metric, over the cases that both measured: second minus first."""

    first: str
    second: str
    before: float | None
    """The first run's mean over these cases; None without any."""
    after: float | None
    difference: float | None
    """In the metric's own direction: where lower is better, below 0 is a gain."""
    low: float | None
    """Lower end of the two-sided interval; None when it cannot be estimated."""
    high: float | None
    """Upper end of the same interval."""
    confidence: float
    p_value: float
    """Of the two-sided test whose null hypothesis is that the runs can be swapped."""
    p_corrected: float
    """The p-value, corrected for all metrics and pairs of the comparison."""
    resolution: float
    """Smallest corrected p-value that a test with randomly drawn signs could have given; 0 where
    all combinations of signs were counted."""
    is_significant: bool
    cases: int
    clusters: int
    """Independent observations among the cases."""
    higher: int
    """Cases with a larger value in the second run."""
    lower: int
    left_out: Mapping[str, int]
    """Cases without a value in both runs, by the marks of the runs that lack it."""

    @property
    def cases_only_first(self) -> int:
        """Number of cases that the first run measured, and the second one did not.

        A report shows it beside the difference, which leaves these cases out.
        """
        return self.left_out.get(self.second, 0)

    @property
    def cases_only_second(self) -> int:
        """Number of cases that the second run measured, and the first one did not.

        A report shows it beside the difference, which leaves these cases out.
        """
        return self.left_out.get(self.first, 0)


class MetricComparison(Record):
    """One metric over all runs."""

    name: str
    group: str
    direction: Direction
    unit: str
    figures: tuple[RunFigure, ...]
    differences: tuple[Difference, ...]
    """One per pair of runs; empty where none can be computed."""
    untested: str | None = None
    """Why there are no differences; None where there are."""

    def figure_of(self, mark: str) -> RunFigure:
        """The metric's figure of the run with a mark, such as ``"a"``; there must be such a run.

        Marks are the letters of runs in tables, in the order in which the runs were given.
        """
        return next(figure for figure in self.figures if figure.run == mark)

    @property
    def scores(self) -> tuple[float | None, ...]:
        """Each run's mean of the metric; of two runs over the cases that both measured.

        Means over these cases differ by exactly the difference that a report shows in the same row.
        A run alone may have
        measured other cases as well: its own mean, in its figure, is then of more cases.
        """
        if len(self.figures) == 2 and self.differences and self.differences[0].cases:
            return self.differences[0].before, self.differences[0].after
        return tuple(figure.score for figure in self.figures)


class Flip(Record):
    """A metric or stage in which a case failed in one run and passed in the other."""

    subject: str
    """A main metric, or a stage."""
    newly_fails: bool
    before_status: Status
    after_status: Status
    before: float | None = None
    """The metric's value; None for a stage, and without one."""
    after: float | None = None
    reason: str | None = None
    """Why there is no value in the second run."""
    size: float = 1.0
    """Size of the change, as a share of the metric's scale; 1 without two values."""


class IdChange(Record):
    """How the retrieved ids of a case differ. Ranks count from 1."""

    gained: tuple[tuple[str, int], ...]
    """Ids that only the second run has, with their rank."""
    lost: tuple[tuple[str, int], ...]
    """Ids that only the first run has, with their rank there."""
    moved: tuple[tuple[str, int, int], ...]
    """Ids of both at another rank: before, after."""
    kept: int
    """Ids of both at the same rank."""

    @property
    def is_none(self) -> bool:
        """Whether the case has the same retrieved ids in the same order in both runs.

        Of such a case a report has no ids to show.
        """
        return not (self.gained or self.lost or self.moved)


class CaseDifference(Record):
    """A case that failed in one run and passed in the other, with what changed."""

    id: str
    first: str
    second: str
    kind: CaseKind
    flips: tuple[Flip, ...]
    """Failing ones first, stages before metrics, then by size."""
    query: str | None = None
    cause_before: Cause | None = None
    """Why it went right or wrong in the first run; None where that run does not have it."""
    cause_after: Cause | None = None
    """Why it went right or wrong in the second run; None where that run does not have it."""
    gold: tuple[str, ...] = ()
    """Ids of what should be retrieved, as far as they are known."""
    ids: IdChange | None = None
    """None when a run does not have its ids."""
    response_before: str | None = None
    response_after: str | None = None
    stages_before: Mapping[str, Status] = field(default_factory=dict[str, Status])
    stages_after: Mapping[str, Status] = field(default_factory=dict[str, Status])


class RunPair(Record):
    """Two runs, with the number of cases that differ between them."""

    first: str
    second: str
    cases: int
    newly_failing: int
    mixed: int
    newly_fixed: int
    other_ids: int | None
    """Cases that retrieved other ids or in another order; None when a run does not have them."""
    other_response: int | None
    """Cases with another answer; None when a run does not have its answers."""


class Comparison(Record):
    """The result of `ragbench compare`: two or more runs over the cases that all of them have."""

    runs: tuple[ComparedRun, ...]
    cases: int
    metrics: tuple[MetricComparison, ...]
    """In the order of the first run; those that only later runs have at the end."""
    main: tuple[str, ...]
    """Metrics that decide whether a case passes."""
    pairs: tuple[RunPair, ...]
    """The first run against each of the others."""
    changed: tuple[CaseDifference, ...]
    """By pair; in each, newly failing ones first, then mixed ones, then newly fixed ones."""
    notes: tuple[str, ...]
    """Warnings and remarks that a reader of the numbers needs."""
    settings: Mapping[str, float | int | str | bool]
    """Level, confidence, family, seed: all that another comparison needs for the same result."""
    systems: tuple[SystemChange, ...]
    """The differences between the first run's system and each other run's, in the order of
    ``pairs``."""
    flows: tuple[CauseFlow, ...] = ()
    """How causes changed from the first run to each other run, unchanged ones included; empty
    where a run does not have its causes."""
    corrections: tuple[Correction, ...] = ()
    """The figures and differences that labels of people correct; empty without a file of labels."""

    def __repr__(self) -> str:
        """A line per metric: its name, then each run's figure, as in ``b 0.612 > a``.

        Behind ``>`` are the runs that a run is significantly better than.
        All fields of a comparison would fill screens.
        """
        width = max((len(metric.name) for metric in self.metrics), default=0)
        runs = ", ".join(f"{run.mark} {run.source}" for run in self.runs)
        lines = [f"Comparison of {runs} on {counted(self.cases, 'case')}"]
        for metric in self.metrics:
            columns = [f"{metric.name:<{width}}"]
            # In step: `scores` has one for each figure, in their order.
            for figure, score in zip(metric.figures, metric.scores, strict=True):
                column = f"{figure.run} {'-' if score is None else f'{score:.3f}'}"
                if figure.better_than:
                    column += f" > {', '.join(figure.better_than)}"
                columns.append(column)
            lines.append("  ".join(columns))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The comparison as Jupyter shows it: result, metrics, cases that went another way.

        Jupyter finds this method by its name.
        """
        # By name, as below: views import the records, and never the other way round.
        html: str = load_attribute("ragbench.views.notebook:comparison_html")(self)
        return html

    def to_pandas(self) -> DataFrame:
        """A row per case that failed in one run and passed in the other.

        A missing value is NA, and never 0.

        For further work in a notebook; its columns are documented, so users' code reads them.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        frame: DataFrame = load_attribute("ragbench.views.frames:changed_cases_frame")(self)
        return frame

    def summaries_frame(self) -> DataFrame:
        """A row per metric and pair of runs: means, difference, interval and p-value.

        For further work in a notebook; its columns are documented, so users' code reads them.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        frame: DataFrame = load_attribute("ragbench.views.frames:differences_frame")(self)
        return frame


class CaseBefore(Record):
    """A case in an earlier run, beside which a report shows the present one."""

    kind: CaseKind | None = None
    """None when the case passes, or fails, in both runs."""
    cause: Cause | None = None
    """Why it went right or wrong in the earlier run; None where that run does not have it."""
    response: str | None = None
    """The earlier answer."""
    tells_texts: bool = True
    """Whether the earlier run has texts; a baseline file does not."""
    ids: IdChange | None = None
    """How the retrieved ids differ; None where a run does not have its ids."""
    scores: tuple[tuple[str, Cell, Cell], ...] = ()
    """Metrics whose value or status differs: name, earlier cell, present cell."""


class Against(Record):
    """A run and an earlier one, over the cases that are the same in both."""

    source: str
    """Where the earlier run was read from."""
    rag: str
    read_cases: Callable[[Sequence[str]], Mapping[str, CaseBefore]]
    """Reads the cases with some ids, by id; those that are not the same in both are left out."""
    changed: tuple[CaseDifference, ...]
    """Cases that fail in one run alone: newly failing ones first, then mixed, then fixed ones."""
    pair: RunPair
    flows: tuple[CauseFlow, ...]
    """How causes changed, unchanged ones included; empty where a run does not have them."""
    edited: int
    """Cases whose id is in both runs and whose content differs: they are not compared."""
    added: int
    """Cases that only the present run has."""
    gone: int
    """Cases that only the earlier run has."""
