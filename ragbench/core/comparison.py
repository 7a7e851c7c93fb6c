"""A comparison of runs, as records."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from ragbench.core.attribution import Cause, CauseFlow
from ragbench.core.metric import Direction
from ragbench.core.origin import RunOrigin, SystemChange
from ragbench.core.outcome import Cell, Status
from ragbench.core.record import Record, field
from ragbench.core.report import Correction, Interval
from ragbench.safe_text import counted


class CaseKind(StrEnum):
    """Which way a case went; see `Flip`."""

    FAILING = "newly failing"
    MIXED = "mixed"
    """It newly fails in one respect and newly passes in another."""
    FIXED = "newly fixed"

    @property
    def heading(self) -> str:
        return _HEADINGS.get(self, self.value.capitalize())


_HEADINGS = {CaseKind.MIXED: "Failing in one respect, fixed in another"}


class ComparedRun(RunOrigin):
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
    """Marks of the runs that it is better than, beyond chance; of those that it lies above, for a
    metric of which neither side is better."""


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
    """Ends of the two-sided interval; None when it cannot be estimated."""
    high: float | None
    confidence: float
    p_value: float
    """Two-sided, of "the runs can be swapped"."""
    p_corrected: float
    """The same, corrected for all metrics and pairs of the comparison."""
    resolution: float
    """Smallest corrected p-value that drawn signs could have given; 0 where all were counted."""
    is_significant: bool
    cases: int
    clusters: int
    """Independent observations among the cases."""
    higher: int
    """Cases with a larger value in the second run."""
    lower: int
    left_out: Mapping[str, int]
    """Cases without a value in both runs, by the marks of the runs that lack it."""


class MetricComparison(Record):
    """One metric over all runs."""

    name: str
    group: str
    direction: Direction
    unit: str
    figures: tuple[RunFigure, ...]
    differences: tuple[Difference, ...]
    """One a pair of runs; empty where none can be computed."""
    untested: str | None = None


class Flip(Record):
    """One respect in which a case failed in one run and passed in the other."""

    subject: str
    """A main metric, or a stage."""
    newly_fails: bool
    before_status: Status
    after_status: Status
    before: float | None = None
    """The metric's value; None for a stage, and without one."""
    after: float | None = None
    reason: str | None = None
    """Why there is no value now."""
    size: float = 1.0
    """How far it moved, as a share of the metric's scale; 1 without two values."""


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
        """Whether both have the same ids in the same order."""
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
    """What became of it; None where a run does not say."""
    cause_after: Cause | None = None
    gold: tuple[str, ...] = ()
    """Ids of what should be retrieved, as far as they are known."""
    ids: IdChange | None = None
    """None when a run does not hold its ids."""
    response_before: str | None = None
    response_after: str | None = None
    stages_before: Mapping[str, Status] = field(default_factory=dict[str, Status])
    stages_after: Mapping[str, Status] = field(default_factory=dict[str, Status])


class RunPair(Record):
    """How many cases differ between the first run and another one."""

    first: str
    second: str
    cases: int
    newly_failing: int
    mixed: int
    newly_fixed: int
    other_ids: int | None
    """Cases that retrieved other ids or in another order; None when a run does not hold them."""
    other_response: int | None


class Comparison(Record):
    runs: tuple[ComparedRun, ...]
    cases: int
    metrics: tuple[MetricComparison, ...]
    """In the order of the first run; those that only later runs have at the end."""
    main: tuple[str, ...]
    """Metrics that say whether a case passes."""
    pairs: tuple[RunPair, ...]
    """The first run against each other one."""
    changed: tuple[CaseDifference, ...]
    """By pair; in each, newly failing ones first, then mixed ones, then newly fixed ones."""
    notes: tuple[str, ...]
    """What a reader must know to read the numbers right."""
    settings: Mapping[str, float | int | str | bool]
    """Level, confidence, family, seed: what another comparison needs for the same result."""
    systems: tuple[SystemChange, ...]
    """What differs between the first run's system and each other one's, in the order of
    ``pairs``."""
    flows: tuple[CauseFlow, ...] = ()
    """How causes changed from the first run to each other one, unchanged ones included; empty
    where a run does not hold its causes."""
    corrections: tuple[Correction, ...] = ()
    """The figures and differences that labels of people correct; empty without a file of labels."""

    def __repr__(self) -> str:
        """The figures in lines, with the runs that one is better than beyond chance."""
        width = max((len(one.name) for one in self.metrics), default=0)
        named = ", ".join(f"{one.mark} {one.source}" for one in self.runs)
        lines = [f"Comparison of {named} on {counted(self.cases, 'case')}"]
        for one in self.metrics:
            figures = [f"{one.name:<{width}}"]
            for of in one.figures:
                above = " > " + ", ".join(of.better_than) if of.better_than else ""
                figures.append(f"{of.run} {'-' if of.score is None else f'{of.score:.3f}'}{above}")
            lines.append("  ".join(figures))
        return "\n".join(lines)


class CaseBefore(Record):
    """What the earlier run made of a case."""

    kind: CaseKind | None = None
    """Which way the case went; None when nothing that decides has changed."""
    cause: Cause | None = None
    """What became of it then; None where the earlier run does not say."""
    response: str | None = None
    tells_texts: bool = True
    """Whether the earlier run holds texts; a baseline file does not."""
    ids: IdChange | None = None
    """How the retrieved ids differ; None where a run does not hold its ids."""
    scores: tuple[tuple[str, Cell, Cell], ...] = ()
    """Metrics whose value or state differs: name, then, now."""


class Against(Record):
    """A run and an earlier one, over the cases that are the same in both."""

    source: str
    """Where the earlier run was read from."""
    rag: str
    cases: Mapping[str, CaseBefore]
    """By id, the cases that are the same."""
    changed: tuple[CaseDifference, ...]
    """Those that went another way: newly failing ones first, then mixed ones, then fixed ones."""
    pair: RunPair
    flows: tuple[CauseFlow, ...]
    """How causes changed, unchanged ones included; empty where a run does not hold them."""
    edited: int
    """Cases of that id whose content differs: not compared."""
    added: int
    gone: int
