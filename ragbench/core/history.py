"""The runs of main, as a baseline file stores them, and how their metrics moved.

A team adds each run of its main branch to the baseline file. The gate compares a new run with the
mean of the last ones; ``ragbench history`` shows how the metrics moved over all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragbench.core.metric import Direction
from ragbench.core.record import Record, field


class MainRun(Record):
    """One run of main, as the baseline file stores it."""

    date: str | None
    commit: str | None
    dirty: bool = False
    cases: str | None = None
    """Fingerprint of its cases: means over other cases do not compare."""
    judge: str | None = None
    """Fingerprint of its judge; None without one."""
    matching: str | None = None
    """How chunks were compared with the relevant ones; None where the file does not have it."""
    repeats: int = 1
    """Number of times that each case was asked."""
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """Mean wall time per case of each stage; without stages whose cases shared calls."""
    concurrency: str = "1"
    """Calls of the system in flight while these times were measured; see `Latency`."""
    aside: bool = False
    """Whether it was significantly lower than the runs before; no later run is then compared with
    it."""
    better: Sequence[str] = ()
    """The metrics in which it was significantly better than the runs before."""
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    """Figure of each measured metric, by name."""
    people: Mapping[str, Sequence[float]] = field(default_factory=dict[str, Sequence[float]])
    """By metric: the figure that labels of people make of the judge's, the ends of its interval,
    and the number of labels. Only metrics with such an interval."""
    linked: Mapping[str, float] = field(default_factory=dict[str, float])
    """Where the cases differ from those of the run before: the difference of each metric between
    the two runs, on the cases that are the same in both."""


class MainTrend(Record):
    """A line through the runs of main."""

    start: float
    """Its level at the first run; in the metric's own direction, like ``end`` and ``levels``."""
    end: float
    """Its level at the newest run."""
    runs: int
    since: str | None
    """When the first run was made, ISO 8601."""
    commit: str | None
    """Commit of the first run."""
    p_value: float
    """Of the null hypothesis "it did not fall by more than tolerated". It stays valid if main is
    tested again after each merge."""
    is_back: bool
    """Whether the judged run is at the level of the start again, less the tolerance."""
    levels: tuple[float, ...]
    """Mean of each run, on the cases of the newest one."""


class MetricDrift(Record):
    """One metric over all runs of main so far: its changes, and the evidence for a fall.

    The test is a series of bets on a fall, see `ragbench.stats.bets`.
    """

    metric: str
    identity: str
    """Name and version of its formula: with another formula the test begins anew."""
    since: str | None
    """When the first of the runs was made."""
    commit: str | None
    """Commit of the first run."""
    steps: tuple[float, ...] = ()
    """Mean change of the cases from each run to the next; a negative one is a loss."""
    looks: int = 0
    """Number of times that it was tested."""
    evidence: float = 0.0
    """The gain of all bets together; its inverse is a p-value."""


class Drift(Record):
    """All that the test for a slow fall of main has to store of its runs."""

    runs: int
    """Number of the newest run, from 0."""
    metrics: tuple[MetricDrift, ...]
    cases: Mapping[str, Mapping[str, tuple[float, float, float, float]]]
    """By case and metric, over the case's runs: number of the first one, sum of the scores, their
    weighted sum, and the newest score."""


class Break(Record):
    """A run that does not compare with the one before it."""

    at: int
    """Position of the run among all runs."""
    reason: str


class MetricHistory(Record):
    """One metric over the runs of main."""

    metric: str
    direction: Direction
    scale: float | None
    figures: tuple[float | None, ...]
    """One per comparable run, oldest first, on the newest run's cases: figures before an edit of
    the dataset are shifted by the difference that it made. None where it was not measured."""
    fall: MainTrend | None = None
    """A significant fall of main; None too of metrics that are not tested."""


class History(Record):
    """The result of ``ragbench history``: the runs of main, and how each metric moved."""

    dataset: str
    rag: str
    runs: tuple[MainRun, ...]
    breaks: tuple[Break, ...]
    metrics: tuple[MetricHistory, ...]
    followed: int
    """Number of runs that the test has covered so far; 0 in files of earlier versions."""
    least: int
    """Number of runs that the test needs before it can show anything."""

    @property
    def start(self) -> int:
        """Position of the first run of main with which the newest one can be compared.

        A break, such as another judge or dataset, parts earlier runs from later ones.
        """
        if not self.breaks:
            return 0
        return self.breaks[-1].at


class FittedLimit(Record):
    """The tolerance for a metric that fits the noise of a dataset, and the drop that it detects."""

    metric: str
    cases: int
    """Cases that are measured in all runs."""
    clusters: int
    """Independent observations among them."""
    noise: float
    """Standard error of the mean difference between an unchanged run and the mean of these runs."""
    tolerance: float
    """The noise, rounded up: a smaller drop cannot be told from it."""
    seen: float | None
    """True drop that the gate detects with this tolerance in a share ``power`` of runs. None where
    all runs are equal, so that there is no noise to measure, and where no drop can be significant
    on so few clusters."""
