"""The runs of main as they are remembered, what became of their metrics, what they can show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragbench.core.metric import Direction
from ragbench.core.record import Record, field


class MainRun(Record):
    """One run of main, as it is remembered."""

    date: str | None
    commit: str | None
    dirty: bool = False
    cases: str | None = None
    """Fingerprint of its cases: means over other cases do not compare."""
    judge: str | None = None
    """Fingerprint of its judge; None without one."""
    matching: str | None = None
    """How chunks were compared with the relevant ones; None where the file does not say."""
    repeats: int = 1
    """How often each case was asked."""
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """Mean wall time of each stage per case; without those of cases that shared a call."""
    aside: bool = False
    """Whether it was shown to be lower than the runs before, so that none is compared with it."""
    better: Sequence[str] = ()
    """The metrics in which it was shown to be better than the runs before."""
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    """Figure of each metric that was measured, by name."""
    people: Mapping[str, Sequence[float]] = field(default_factory=dict[str, Sequence[float]])
    """By metric what labels of people made of its figure, the ends of the interval, and how many
    labels there were; of those with an interval."""
    linked: Mapping[str, float] = field(default_factory=dict[str, float])
    """Where the cases are not those of the run before: by how much each metric differs from it on
    the cases that both have unchanged."""


class MainTrend(Record):
    """A line through the runs of main."""

    start: float
    """Where it began; in the metric's own direction, like ``end`` and ``levels``."""
    end: float
    runs: int
    since: str | None
    """When the first of them was made, ISO 8601."""
    commit: str | None
    """Its commit."""
    p_value: float
    """Of "it did not fall by more than tolerated", at any number of looks."""
    is_back: bool
    """Whether the judged run is where main began, less what is tolerated."""
    levels: tuple[float, ...]
    """Mean of each run, on the cases of the newest one."""


class MetricDrift(Record):
    """What all runs of main so far say of one metric: how they moved, and what bets on a fall won.

    See `ragbench.stats.bets`.
    """

    metric: str
    identity: str
    """Name and version of its formula: another formula begins anew."""
    since: str | None
    """When the first of the runs was made."""
    commit: str | None
    """Its commit."""
    steps: tuple[float, ...] = ()
    """Mean change of the cases from each run to the next; a negative one is a loss."""
    looks: int = 0
    evidence: float = 0.0
    """What the bets have won together; its inverse is a p-value."""


class Drift(Record):
    """The runs of main as a test of all of them needs them."""

    runs: int
    """Number of the newest run, from 0."""
    metrics: tuple[MetricDrift, ...]
    cases: Mapping[str, Mapping[str, tuple[float, float, float, float]]]
    """By case and metric: number of its first run, sum, weighted sum and last of the scores."""


class Break(Record):
    """A run that does not compare with the one before it."""

    at: int
    """Its position among the runs."""
    reason: str


class MetricHistory(Record):
    metric: str
    direction: Direction
    scale: float | None
    figures: tuple[float | None, ...]
    """One per run, oldest first, of runs that compare on the newest one's cases: those before an
    edit of the dataset are shifted by it. None where it was not measured."""
    fall: MainTrend | None = None
    """A fall that the test of main shows; None too of metrics that nobody follows."""


class History(Record):
    dataset: str
    rag: str
    runs: tuple[MainRun, ...]
    breaks: tuple[Break, ...]
    metrics: tuple[MetricHistory, ...]
    followed: int
    """How many of the runs the test has seen so far; 0 in files of earlier versions."""
    least: int
    """With fewer of them nothing can be shown."""

    @property
    def start(self) -> int:
        """The first run that those up to the newest compare with."""
        return self.breaks[-1].at if self.breaks else 0


class FittedLimit(Record):
    """What a dataset can show of one metric, and the tolerance that fits it."""

    metric: str
    cases: int
    """Measured in all runs."""
    clusters: int
    """Independent observations among them."""
    noise: float
    """Standard error of the mean difference between an unchanged run and the mean of these runs."""
    tolerance: float
    """The noise, rounded up: what is smaller cannot matter here."""
    seen: float | None
    """True drop that the gate then shows in ``power`` of runs; None where the runs came out alike,
    so that their noise says nothing, or where so few clusters can never show a drop."""
