"""A gate's result, as records."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from ragbench.core.comparison import RunPair
from ragbench.core.history import MainTrend
from ragbench.core.origin import RunOrigin, SystemChange
from ragbench.core.record import Record, field
from ragbench.core.report import Correction, Interval
from ragbench.core.unfulfilled import Unfulfilled

LIKELY = 0.2
"""Up to this p-value, corrected for the family, a loss that is not shown is warned of."""


class GateOutcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    """What was measured does not say."""
    NOT_JUDGED = "not judged"
    """Of a check alone: its figure is shown, and bears on nothing."""

    @property
    def exit_code(self) -> int:
        return {"failed": 1, "inconclusive": 3}.get(self.value, 0)

    @property
    def colour(self) -> str:
        colours = {"passed": "green", "failed": "red", "inconclusive": "yellow"}
        return colours.get(self.value, "default")


class Ground(StrEnum):
    """What a check's outcome rests on."""

    HOLDS = "holds"
    """The observed figure lies on the right side of the limit."""
    BROKEN = "broken"
    """It lies on the wrong side."""
    MAY_HOLD = "may hold"
    """It lies on the wrong side, and its interval reaches to the right one."""
    LOST_ONCE = "lost once"
    """Cases that must pass do not, and were asked too rarely to tell that from chance."""
    NOT_LOWER = "not lower"
    """No loss is seen: the mean went to its better side."""
    NOT_HELD = "not held"
    """Nothing is demanded of it: it is shown beside what is."""
    SHOWN = "shown"
    """A loss larger than tolerated is statistically significant."""
    RULED_OUT = "ruled out"
    """A loss larger than tolerated is ruled out."""
    UNCHANGED = "unchanged"
    NONE_LOST = "none lost"
    HALVED = "halved"
    """Less than half of what the baseline had is left: needs no test."""
    ALL_LOST = "all lost"
    """Nothing is left, or next to nothing, of what the baseline had: needs no test."""
    ALL_OF_FEW_LOST = "all of few lost"
    """The same on so few documents that a flip or two may do it; open, and never passes."""
    SETTLED_WORSE = "settled: worse"
    """A loss larger than tolerated is shown by asking both systems again."""
    SETTLED_NOT_WORSE = "settled: not worse"
    """It is ruled out by asking both systems again."""
    OPEN = "open"
    RARE_LOSSES = "rare losses"
    """All but ruled out: a rare large loss may have been missed."""
    RARE_GAINS = "rare gains"
    """All but shown: rare large gains that make up for it may have been missed."""
    EXACTLY_TOLERATED = "exactly tolerated"
    """Every case lost exactly what is tolerated."""
    TOO_FEW_CLUSTERS = "too few clusters"
    """So few independent cases can never show a drop."""
    TOO_FEW_CASES = "too few cases"
    """Fewer than were demanded."""
    HARDLY_MEASURED = "hardly measured"
    """More than half of the cases that it applies to were declined or failed."""
    NOTHING_MEASURED = "nothing measured"
    NOT_STORED = "not stored"
    """The run does not hold what was to be judged."""


class CheckKind(StrEnum):
    """What a check looks at."""

    FLOOR = "floor"
    """A metric against an absolute limit."""
    DROP = "drop"
    """A metric against the baseline's."""
    SLICE = "slice"
    """A metric on the cases of one tag or language."""
    COVERAGE = "coverage"
    """How many cases failed, are measured at all, or can be compared."""
    BUDGET = "budget"
    """Time, cost or tokens."""
    MUST_PASS = "must pass"
    """Cases of which none may be lost."""
    DRIFT = "drift"
    """Main against the first of its runs, over all merges since."""


class Drop(Record):
    """What the cases measured in both runs say of a loss.

    ``difference`` and its interval are this run minus the baseline, in the metric's own direction:
    of a metric where lower is better, a positive difference is the loss.
    """

    before: float
    """The baseline's mean over these cases."""
    after: float
    """This run's mean over the same cases."""
    difference: float
    low: float | None
    """Ends of the two-sided interval; None when it cannot be estimated."""
    high: float | None
    confidence: float
    tolerance: float
    p_worse: float
    """p-value of "the loss is larger than tolerated", corrected for the family of tests."""
    resolution: float
    """Smallest p-value that this test could have given; 0 where every arrangement was counted."""
    p_not_worse: float
    """p-value of "the loss is smaller than tolerated"."""
    family: int
    """How many metrics and slices were tested together."""
    cases: int
    clusters: int
    """Independent observations among them."""
    can_show: bool
    """Whether so many could show a drop at all."""
    better: int
    worse: int
    left_out: Mapping[str, int]
    """Cases that were not measured in both runs, by reason."""
    detectable_drop: float | None
    """True loss that these cases would have shown with the power asked for."""
    needed: int | None
    """Cases, those at hand included, that would settle it in 4 of 5 runs if nothing has changed;
    None when it is settled, or when no number would."""
    rises: bool = False
    """Whether a rise is the loss: of a metric where lower is better."""

    @property
    def loss(self) -> float:
        """How much was lost; negative where something was gained."""
        return self.difference if self.rises else -self.difference


class Settled(Record):
    """What asking both systems again said of an undecided drop, on these cases."""

    change: str
    """``"worse"``, ``"not worse"``, or ``"open"`` where the budget was spent first."""
    asked: int
    cases: int
    unmeasured: int
    """How many of the answers could not be compared; they count as no difference."""
    drop: float | None
    """The mean drop; a negative one is a gain. None where nothing was asked."""
    p_worse: float
    """p-value of "the drop is not larger than tolerated"; holds whenever one stops."""
    p_not_worse: float
    """p-value of "the drop is larger than tolerated, or as large"; likewise."""
    level: float
    """Largest ``p_worse`` at which it is called worse."""


class LabelPlan(Record):
    """How many pairs of answers people would have to label to settle an undecided drop."""

    labels: int
    """That there are."""
    pairs: int
    """That could be labelled."""
    chances: tuple[tuple[int, float], ...]
    """How often so many labels settle it, if things are as they look."""
    needed: int | None
    """With a chance of 4 in 5; None where all pairs are too few."""
    command: str
    """Makes the page with exactly those pairs."""


class CaseChange(Record):
    """A case that lost on a gated metric, is declined now, or failed now and did not before."""

    id: str
    metric: str
    before: float | None
    after: float | None
    """None when it was not measured; the reason says why."""
    loss: float
    """How much it lost, as a share of the metric's scale where that is known; 0 when it failed."""
    status: str
    """How the metric ended for it now."""
    reason: str | None = None
    query: str | None = None
    is_sure: bool = True
    """False where it was asked too rarely to tell a loss from chance."""


class GateCheck(Record):
    """One thing that the gate looked at."""

    kind: CheckKind
    subject: str
    """The metric; for coverage and budgets, what was counted or timed."""
    outcome: GateOutcome
    ground: Ground
    observed: float | None
    """This run's figure; None when nothing was measured."""
    limit: float
    """The limit, or the tolerated drop."""
    bound: str
    """``"min"``, ``"max"`` or ``"max_drop"``: what the limit is."""
    cases: int
    summary: str = ""
    reason: str = ""
    slice: str | None = None
    """The slice, such as ``"language:de"``; None for all cases."""
    unit: str = ""
    interval: Interval | None = None
    """Of the observed figure of a floor, a share of failed cases, or a time."""
    drop: Drop | None = None
    """Of a drop, whole or on a slice."""
    counted: str = ""
    """What is counted, where it is a share of cases: ``"failed"``."""
    missing: str = ""
    """What the run does not store, where it cannot be judged for that."""
    settled: Settled | None = None
    """What asking again brought, where it was asked."""
    corrected: Correction | None = None
    """The judge's figure beside the people's, by whose labels it is decided."""
    is_opinion: bool = False
    """Whether a judge alone decides it, without labels."""
    plan: LabelPlan | None = None
    """What labels are lacking."""
    same: tuple[str, ...] = ()
    """Metrics that are the same number as the subject, on every case of both runs."""
    applies: int = 0
    """Cases that a floor's metric applies to, measured or not; 0 for other checks."""
    trend: MainTrend | None = None
    """Of a drift."""
    lost: tuple[CaseChange, ...] = ()
    """Cases that must pass and do not, though they passed in the baseline, or are new."""
    failed_before: int = 0
    """Cases that must pass and do not, as in the baseline."""

    @property
    def holds(self) -> bool:
        """Whether the observed figure lies on the right side of an absolute limit."""
        if self.observed is None:
            return False
        return self.observed >= self.limit if self.bound == "min" else self.observed <= self.limit

    @property
    def is_open_drop(self) -> bool:
        """Whether it is a drop that statistics cannot decide, and not a lack of any cases."""
        return (
            self.outcome is GateOutcome.INCONCLUSIVE
            and self.kind in (CheckKind.DROP, CheckKind.COVERAGE)
            and self.drop is not None
            and self.ground is not Ground.TOO_FEW_CASES
        )

    @property
    def is_small_slice(self) -> bool:
        """Whether it is a slice that is too small to tell: most are, so it counts for nothing."""
        return self.kind is CheckKind.SLICE and self.outcome is GateOutcome.INCONCLUSIVE

    @property
    def can_settle(self) -> bool:
        """Whether asking both systems again may decide it."""
        return self.is_open_drop and self.kind is CheckKind.DROP

    @property
    def may_pass(self) -> bool:
        """Whether an everyday gate lets it pass though it is open."""
        is_open = self.is_open_drop and self.ground is not Ground.ALL_OF_FEW_LOST
        return is_open or self.is_near_limit

    @property
    def is_warning(self) -> bool:
        """Whether a loss, or a figure beyond its limit, is likely, and not shown."""
        if self.is_near_limit:
            return True
        drop = self.drop
        if not self.is_open_drop or drop is None or drop.loss <= drop.tolerance:
            return False
        return drop.p_worse <= LIKELY

    @property
    def is_near_limit(self) -> bool:
        """Whether it lies beyond an absolute limit by no more than chance explains."""
        return self.ground in (Ground.MAY_HOLD, Ground.LOST_ONCE)

    @property
    def name(self) -> str:
        return self.subject if self.slice is None else f"{self.subject} [{self.slice}]"

    @property
    def label(self) -> str:
        """The name, with whose figure it is and the metrics that are the same number."""
        if not self.same:
            return self.marked
        rest = f" and {len(self.same) - 2} more" if len(self.same) > 3 else ""
        shown = self.same if not rest else self.same[:2]
        return f"{self.marked} (= {', '.join(shown)}{rest})"

    @property
    def marked(self) -> str:
        """The name, with whose figure it is where it is no fact."""
        whose = " (people)" if self.corrected else " (judge's opinion)" * self.is_opinion
        return f"{self.name}{whose}"


class Refusal(Record):
    """Why the two runs were not compared, or not in full."""

    what: str
    """``"baseline"``, ``"dataset"``, ``"metrics"``, ``"judge"`` or ``"matching"``."""
    reason: str
    remedy: str


class LabelCount(Record, kw_only=False):
    """How many cases have a tag or a language."""

    label: str
    """Such as ``"tag:multi-hop"``."""
    before: int
    now: int


class NewScore(Record, kw_only=False):
    """A metric on the cases that are new or edited, next to the others of the same run."""

    metric: str
    new: float
    new_cases: int
    common: float
    common_cases: int


class DatasetChange(Record):
    """How the run's cases differ from the baseline's."""

    common: int
    """Cases that are the same, under whatever id."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Those of another id: before, now."""
    edited: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    labels: tuple[LabelCount, ...] = ()
    """Those whose number of cases differs, by name."""
    scores: tuple[NewScore, ...] = ()

    @property
    def vanished(self) -> tuple[LabelCount, ...]:
        """Labels that no case has any more: nothing is checked on them."""
        return tuple(one for one in self.labels if not one.now)


class JudgedRun(RunOrigin):
    """The run that is judged, or the baseline."""

    date: str | None = None
    """When it was made, ISO 8601; the newest one, of several."""
    runs: int = 1


class GateResult(Record):
    """What a gate decided, and everything that it rests on."""

    outcome: GateOutcome
    headline: str
    run: JudgedRun
    baseline: JudgedRun | None
    checks: tuple[GateCheck, ...]
    """Failed ones first, then inconclusive ones, then passed ones."""
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()
    system: SystemChange | None = None
    """What differs between the systems of the baseline and of the run; None without a baseline."""
    dataset: DatasetChange | None = None
    """How the cases differ; None where they do not, and without a baseline."""
    lost_cases: tuple[CaseChange, ...] = ()
    """Newly failing cases first, then by loss; a case once, with the metric it lost most on."""
    unfulfilled: Unfulfilled | None = None
    """The cases whose expectations do not hold; None where no check of them is against the run."""
    pair: RunPair | None = None
    """How many cases pass in one of the runs and fail in the other; None where none compare."""
    settings: Mapping[str, float | int | str | bool] = field(
        default_factory=dict[str, float | int | str | bool]
    )
    """What another run of the gate needs for the same result."""

    def __repr__(self) -> str:
        """The decision and its checks: all that they rest on would fill screens."""
        lines = [f"{self.word}: {self.headline}"]
        for one in self.checks:
            place = "" if one.slice is None else f" of {one.slice}"
            lines.append(f"{one.outcome:<12}  {one.subject}{place}: {one.summary or one.reason}")
        return "\n".join(lines)

    @property
    def is_warned(self) -> bool:
        is_passed = self.outcome is GateOutcome.PASSED
        return is_passed and any(check.is_warning for check in self.checks)

    @property
    def word(self) -> str:
        return f"{self.outcome}{' with a warning' * self.is_warned}"

    @property
    def colour(self) -> str:
        """``"red"``, ``"green"``, or between them ``"yellow"``: passed with a warning, or open."""
        return "yellow" if self.is_warned else self.outcome.colour

    @property
    def against(self) -> list[GateCheck]:
        """The checks that did not pass, and are a sign."""
        against = (GateOutcome.FAILED, GateOutcome.INCONCLUSIVE)
        return [one for one in self.checks if one.outcome in against and not one.is_small_slice]
