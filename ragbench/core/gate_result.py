"""The result of a gate, as records: the decision, its checks, and what each check rests on.

The gate package makes them; views and the command's exit code read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from ragbench.core.attribution import Cause
from ragbench.core.comparison import RunPair
from ragbench.core.history import MainTrend
from ragbench.core.left_out import (
    NOT_MEASURED_IN_BASELINE,
    NOT_MEASURED_IN_RUN,
    ONLY_IN_BASELINE,
    ONLY_IN_RUN,
)
from ragbench.core.origin import RunOrigin, SystemChange
from ragbench.core.record import Record, field
from ragbench.core.report import Correction, Interval
from ragbench.core.unfulfilled import Unfulfilled
from ragbench.safe_text import counted

LIKELY = 0.2
"""A loss that is not significant is warned of up to this p-value, corrected for the family."""


class GateOutcome(StrEnum):
    """The outcome of a check, or of the gate."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    """The measurements do not decide it."""
    NOT_JUDGED = "not judged"
    """Only of a check: its figure is shown, and does not count."""

    @property
    def exit_code(self) -> int:
        """The exit code of ``ragbench gate`` with this outcome, by which CI jobs pass or fail.

        Users' pipelines rely on these numbers. 2 is for wrong input.
        """
        if self is GateOutcome.FAILED:
            return 1
        if self is GateOutcome.INCONCLUSIVE:
            return 3
        return 0

    @property
    def colour(self) -> str:
        """The name of the outcome's colour in a terminal, on a page and in verdict.json."""
        return _COLOURS.get(self, "default")


_COLOURS = {
    GateOutcome.PASSED: "green",
    GateOutcome.FAILED: "red",
    GateOutcome.INCONCLUSIVE: "yellow",
}


class Ground(StrEnum):
    """The reason for a check's outcome."""

    HOLDS = "holds"
    """The observed figure is on the right side of the limit."""
    BROKEN = "broken"
    """The observed figure is on the wrong side of the limit."""
    MAY_HOLD = "may hold"
    """The figure is on the wrong side of the limit, and its interval reaches to the right side."""
    LOST_ONCE = "lost once"
    """Cases that must pass do not, and were asked too rarely to tell that from chance."""
    NOT_LOWER = "not lower"
    """There is no loss: the mean is better."""
    NOT_HELD = "not held"
    """Nothing is demanded of the metric: it is shown beside those with a demand."""
    SHOWN = "shown"
    """A loss larger than tolerated is statistically significant."""
    RULED_OUT = "ruled out"
    """A loss larger than tolerated is ruled out."""
    UNCHANGED = "unchanged"
    NONE_LOST = "none lost"
    HALVED = "halved"
    """Less than half of the baseline's figure is left: no test is needed."""
    ALL_LOST = "all lost"
    """Nothing, or almost nothing, of the baseline's figure is left: no test is needed."""
    ALL_OF_FEW_LOST = "all of few lost"
    """Almost all is lost, on so few documents that one or two changed answers suffice for it. The
    check is inconclusive, and such a check never passes."""
    SETTLED_WORSE = "settled: worse"
    """Asking both systems again showed a loss larger than tolerated."""
    SETTLED_NOT_WORSE = "settled: not worse"
    """Asking both systems again ruled out a loss larger than tolerated."""
    OPEN = "open"
    """A loss larger than tolerated is neither shown nor ruled out."""
    OUTWEIGHED = "outweighed"
    """A loss of how much is answered is neither shown nor ruled out; the system is shown to be
    better in another respect, and no less is right, though refusals count as not right."""
    RARE_LOSSES = "rare losses"
    """A loss is almost ruled out: the cases may have missed a rare large loss."""
    RARE_GAINS = "rare gains"
    """A loss is almost shown: the cases may have missed rare large gains that make up for it."""
    EXACTLY_TOLERATED = "exactly tolerated"
    """Every case lost exactly what is tolerated."""
    TOO_FEW_CLUSTERS = "too few clusters"
    """So few independent cases can never show a drop."""
    TOO_FEW_CASES = "too few cases"
    """Fewer cases than were demanded."""
    HARDLY_MEASURED = "hardly measured"
    """More than half of the cases that the metric applies to were declined or failed."""
    NOTHING_MEASURED = "nothing measured"
    NOT_STORED = "not stored"
    """The run does not contain the figure that was to be judged."""


class CheckKind(StrEnum):
    """The subject of a check."""

    FLOOR = "floor"
    """A metric against an absolute limit."""
    DROP = "drop"
    """A metric against the baseline's."""
    SLICE = "slice"
    """A metric on the cases of one tag or language."""
    COVERAGE = "coverage"
    """The number of cases that failed, are measured at all, or can be compared."""
    BUDGET = "budget"
    """Time, cost or tokens."""
    MUST_PASS = "must pass"
    """Cases that must pass, each of them."""
    DRIFT = "drift"
    """Main against the first of its runs, over all merges since."""


class Drop(Record):
    """The loss of a metric, tested on the cases that are measured in both runs.

    ``difference`` and its interval are this run minus the baseline, in the metric's own direction:
    where lower is better, a positive difference is the loss.
    """

    before: float
    """The baseline's mean over these cases."""
    after: float
    """This run's mean over the same cases."""
    difference: float
    low: float | None
    """Lower end of the two-sided interval; None when it cannot be estimated."""
    high: float | None
    """Upper end of the same interval."""
    confidence: float
    """Its level, such as 0.95."""
    tolerance: float
    """The largest loss that is tolerated."""
    p_worse: float
    """p-value of "the loss is larger than tolerated", corrected for the family of tests."""
    resolution: float
    """Smallest p-value that this test could have given; 0 where every arrangement was counted."""
    p_not_worse: float
    """p-value of "the loss is smaller than tolerated"."""
    family: int
    """Number of metrics and slices that were tested together."""
    cases: int
    clusters: int
    """Independent observations among them."""
    can_show: bool
    """Whether a drop can be significant on this number of clusters at all."""
    better: int
    """Cases with a better value in this run."""
    worse: int
    """Cases with a worse value in this run."""
    left_out: Mapping[str, int]
    """Cases that were not measured in both runs, by reason."""
    detectable_drop: float | None
    """True loss that these cases would have shown with the demanded power."""
    needed: int | None
    """Number of cases, those at hand included, that would decide it in 4 of 5 runs if the system
    has not changed; None when it is decided, or when no number would do."""
    rises: bool = False
    """Whether a rise is a loss: of a metric where lower is better."""

    @property
    def cases_only_before(self) -> int:
        """Number of cases that the baseline measured, and this run did not.

        The test of the drop leaves these cases out; a report shows how many they are.
        """
        left_out = self.left_out
        return left_out.get(ONLY_IN_BASELINE, 0) + left_out.get(NOT_MEASURED_IN_RUN, 0)

    @property
    def cases_only_now(self) -> int:
        """Number of cases that this run measured, and the baseline did not.

        The test of the drop leaves these cases out; a report shows how many they are.
        """
        left_out = self.left_out
        return left_out.get(ONLY_IN_RUN, 0) + left_out.get(NOT_MEASURED_IN_BASELINE, 0)

    @property
    def is_gain(self) -> bool:
        """Whether the whole interval of the metric's change is on the better side of zero.

        Such an interval shows that the system is better by this metric.
        """
        if self.low is None or self.high is None:
            return False
        if self.rises:
            return self.high < 0.0
        return self.low > 0.0

    @property
    def loss(self) -> float:
        """The size of the metric's loss; negative for a gain.

        By the sign, callers need not know whether a rise or a fall of the metric is bad.
        """
        if self.rises:
            return self.difference
        return -self.difference


class Settled(Record):
    """The outcome of asking both systems again about the cases of an undecided drop."""

    change: str
    """``"worse"``, ``"not worse"``, or ``"open"`` where the budget was spent first."""
    asked: int
    """Number of times that both systems were asked one of the cases."""
    cases: int
    """Number of these cases."""
    unmeasured: int
    """Number of answers that could not be compared; they count as no difference."""
    drop: float | None
    """The mean drop; a negative one is a gain. None where nothing was asked."""
    p_worse: float
    """p-value of "the drop is not larger than tolerated"; valid at whatever moment one stops."""
    p_not_worse: float
    """p-value of "the drop is at least as large as tolerated"; valid whenever one stops."""
    level: float
    """Largest ``p_worse`` at which the change is ``"worse"``."""


class LabelPlan(Record):
    """The number of pairs of answers that people have to label to settle an undecided drop."""

    labels: int
    """Number of labels that there are already."""
    pairs: int
    """Number of pairs that could be labelled."""
    chances: tuple[tuple[int, float], ...]
    """By number of labels: the probability that so many settle it, if the true loss is the
    observed one."""
    needed: int | None
    """Labels that settle it with a probability of 4 in 5; None where all pairs are too few."""
    command: str
    """The command that makes the page with exactly those pairs."""


class CaseChange(Record):
    """A case that lost on a gated metric, or failed or was declined now and not before."""

    id: str
    metric: str
    before: float | None
    after: float | None
    """None when it was not measured; the reason says why."""
    loss: float
    """Its loss, as a share of the metric's scale where the metric is bounded; 0 when it failed."""
    status: str
    """How the metric ended for it in this run: a `Status`."""
    reason: str | None = None
    query: str | None = None
    is_sure: bool = True
    """False where it was asked too rarely to tell a loss from chance."""


class GateCheck(Record):
    """One figure of the run that the gate judged."""

    kind: CheckKind
    subject: str
    """The metric; of coverage and budgets, the name of what is counted or timed."""
    outcome: GateOutcome
    ground: Ground
    observed: float | None
    """This run's figure; None when nothing was measured."""
    limit: float
    """The limit, or the tolerated drop."""
    bound: str
    """The kind of limit: ``"min"``, ``"max"`` or ``"max_drop"``."""
    cases: int
    summary: str = ""
    reason: str = ""
    slice: str | None = None
    """The slice, such as ``"language:de"``; None for all cases."""
    unit: str = ""
    interval: Interval | None = None
    """Of the observed figure: of a floor, a share of failed cases, or a time; else None."""
    drop: Drop | None = None
    """The test of a drop, on all cases or on a slice; None for other checks."""
    counted: str = ""
    """Of a share of cases: the word for those that are counted, such as ``"failed"``."""
    missing: str = ""
    """The figure that the run does not store, where the check cannot be judged for that reason."""
    settled: Settled | None = None
    """The outcome of asking both systems again; None where they were not asked."""
    corrected: Correction | None = None
    """The judge's figure and the people's, where labels of people decide the check."""
    is_opinion: bool = False
    """Whether a judge alone decides it, without labels."""
    plan: LabelPlan | None = None
    """The labels that would settle it; None where none are needed."""
    same: tuple[str, ...] = ()
    """Metrics with the same value as the subject, on every case of both runs."""
    applies: int = 0
    """Cases that a floor's metric applies to, measured or not; 0 for other checks."""
    trend: MainTrend | None = None
    """The line through the runs of main, of a drift."""
    lost: tuple[CaseChange, ...] = ()
    """Cases that must pass and do not, and that passed in the baseline or are new."""
    failed_before: int = 0
    """Number of cases that must pass and do not, and did not in the baseline."""

    @property
    def holds(self) -> bool:
        """Whether the check's observed figure is on the right side of its absolute limit.

        A figure that was not measured is on the wrong side.
        """
        if self.observed is None:
            return False
        if self.bound == "min":
            return self.observed >= self.limit
        return self.observed <= self.limit

    @property
    def is_open_drop(self) -> bool:
        """Whether the check is of a drop that a test leaves open: neither shown nor ruled out.

        A check that is inconclusive for lack of demanded cases is not: more answers cannot settle
        it.
        """
        return (
            self.outcome is GateOutcome.INCONCLUSIVE
            and self.kind in (CheckKind.DROP, CheckKind.COVERAGE)
            and self.drop is not None
            and self.ground is not Ground.TOO_FEW_CASES
        )

    @property
    def is_small_slice(self) -> bool:
        """Whether the check is of a slice that is too small to decide.

        A slice is the cases of one tag or language. Most are too small, so that such a check is
        ignored.
        """
        return self.kind is CheckKind.SLICE and self.outcome is GateOutcome.INCONCLUSIVE

    @property
    def can_settle(self) -> bool:
        """Whether asking both systems again about the check's cases may decide it.

        Reports then propose the command that asks them.
        """
        return self.is_open_drop and self.kind is CheckKind.DROP

    @property
    def may_pass(self) -> bool:
        """Whether a gate that lets undecided drops pass lets this inconclusive check pass.

        A setting of the gate lets such drops pass, so that small changes are not held up.
        """
        is_open = self.is_open_drop and self.ground is not Ground.ALL_OF_FEW_LOST
        return is_open or self.is_near_limit

    @property
    def is_warning(self) -> bool:
        """Whether the check warns of a loss, or of a figure beyond its limit, that is likely.

        Likely is short of significant: a p-value up to ``LIKELY``. Where both systems were asked
        again, that drop counts more than the first one.
        """
        if self.is_near_limit:
            return True
        drop = self.drop
        if not self.is_open_drop or drop is None or drop.loss <= drop.tolerance:
            return False
        if self.ground is Ground.OUTWEIGHED:
            return False
        # Asking both systems again says more than the first answers did.
        settled = self.settled
        if settled is not None and settled.drop is not None and settled.drop <= drop.tolerance:
            return False
        return drop.p_worse <= LIKELY

    @property
    def is_near_limit(self) -> bool:
        """Whether the check's figure is beyond its limit by no more than chance explains.

        Also where cases that must pass were asked too rarely to tell their loss from chance.
        """
        return self.ground in (Ground.MAY_HOLD, Ground.LOST_ONCE)

    @property
    def name(self) -> str:
        """The metric or count that the check judges, with its slice: ``recall@5 [language:de]``.

        Reports and error messages call the check so.
        """
        if self.slice is None:
            return self.subject
        return f"{self.subject} [{self.slice}]"

    @property
    def label(self) -> str:
        """The check's name with its remarks: ``faithfulness (judge's opinion) (= groundedness)``.

        The metrics behind ``=`` have the same values on every case; of more than three, two are
        named.
        """
        if not self.same:
            return self.marked
        # Of four and more two are named: "and 1 more" would save nothing.
        if len(self.same) <= 3:
            names = ", ".join(self.same)
        else:
            names = f"{', '.join(self.same[:2])} and {len(self.same) - 2} more"
        return f"{self.marked} (= {names})"

    @property
    def marked(self) -> str:
        """The check's name, with a remark where people or a judge decide and no formula.

        A figure that people corrected, and one that only a model computed, must not pass for a
        formula's.
        """
        if self.corrected:
            return f"{self.name} (people)"
        if self.is_opinion:
            return f"{self.name} (judge's opinion)"
        return self.name


class Refusal(Record):
    """Why the two runs were not compared, or not in full."""

    what: str
    """The part that keeps them from it: ``"baseline"``, ``"dataset"``, ``"metrics"``, ``"judge"``
    or ``"matching"``."""
    reason: str
    remedy: str
    """A sentence on how to make them comparable."""


class LabelCount(Record, kw_only=False):
    """The number of cases with a tag or a language, in the baseline and in the run."""

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
    """The differences between the run's cases and the baseline's."""

    common: int
    """Cases that are the same, under whatever id."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Same cases with another id: before, now."""
    edited: tuple[str, ...] = ()
    """Ids of cases with another content."""
    added: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    labels: tuple[LabelCount, ...] = ()
    """Tags and languages whose number of cases differs, by name."""
    scores: tuple[NewScore, ...] = ()

    @property
    def vanished(self) -> tuple[LabelCount, ...]:
        """Tags and languages that no case has any more, so that no slice of them is checked.

        The gate notes these: a slice that is gone can hide a loss.
        """
        return tuple(count for count in self.labels if not count.now)


class JudgedRun(RunOrigin):
    """The run that is judged, or the baseline."""

    date: str | None = None
    """When it was made, ISO 8601; of several runs, when the newest was."""
    runs: int = 1
    """Number of runs whose mean it is."""


class SharedLoss(Record):
    """Checks against the run that lost on the same cases: there is one thing to look for."""

    subjects: tuple[str, ...]
    """The checks, by their subjects."""
    cases: int
    """Cases that each of them lost."""
    cause: Cause | None = None
    """What became of most of these cases in this run; None where it is unknown."""
    cases_of_cause: int = 0

    @property
    def text(self) -> str:
        """A sentence on which checks lost on the same cases, and why most of these did.

        Several failed checks look like several faults; here a reader sees that it is one.
        """
        names = f"{', '.join(self.subjects[:-1])} and {self.subjects[-1]}"
        text = f"{names} lost on the same {counted(self.cases, 'case')}"
        if self.cause is None:
            return f"{text}: look for one cause."
        share = "all" if self.cases_of_cause == self.cases else f"{self.cases_of_cause:,}"
        return f'{text}, {share} of them now "{self.cause.label}": look for one cause.'


class GateResult(Record):
    """The decision of a gate, with everything that it rests on."""

    outcome: GateOutcome
    headline: str
    run: JudgedRun
    baseline: JudgedRun | None
    checks: tuple[GateCheck, ...]
    """Failed ones first, then inconclusive ones, then passed ones."""
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()
    system: SystemChange | None = None
    """The differences between the systems of baseline and run; None without a baseline."""
    dataset: DatasetChange | None = None
    """The differences between the cases; None where there are none, and without a baseline."""
    lost_cases: tuple[CaseChange, ...] = ()
    """Newly failing cases first, then by loss; each once, with the metric on which it lost most."""
    unfulfilled: Unfulfilled | None = None
    """The cases whose expectations do not hold; None where no check of these is in `against`."""
    shared: SharedLoss | None = None
    """Checks that lost on the same cases; None where each has cases of its own."""
    pair: RunPair | None = None
    """How many cases pass in one of the runs and fail in the other; None where none compare."""
    settings: Mapping[str, float | int | str | bool] = field(
        default_factory=dict[str, float | int | str | bool]
    )
    """All that another run of the gate needs for the same result."""

    def __repr__(self) -> str:
        """The decision, and a line per check: all fields of the checks would fill screens."""
        lines = [f"{self.word}: {self.headline}"]
        for check in self.checks:
            name = check.subject
            if check.slice is not None:
                name += f" of {check.slice}"
            lines.append(f"{check.outcome:<12}  {name}: {check.summary or check.reason}")
        return "\n".join(lines)

    @property
    def is_warned(self) -> bool:
        """Whether the gate passed though one of its checks warns of a likely loss.

        A reader should look at the check though the run is not stopped.
        """
        is_passed = self.outcome is GateOutcome.PASSED
        return is_passed and any(check.is_warning for check in self.checks)

    @property
    def word(self) -> str:
        """The gate's outcome for readers: ``passed with a warning``.

        A warning must not be lost behind the word for passed.
        """
        if self.is_warned:
            return f"{self.outcome} with a warning"
        return str(self.outcome)

    @property
    def colour(self) -> str:
        """The colour of the gate's outcome on pages: ``"red"``, ``"green"`` or ``"yellow"``.

        Yellow is for an inconclusive gate, and for one that passed with a warning.
        """
        if self.is_warned:
            return "yellow"
        return self.outcome.colour

    @property
    def against(self) -> list[GateCheck]:
        """The failed and inconclusive checks that count against the run.

        Inconclusive checks on small slices do not count.
        """
        checks: list[GateCheck] = []
        for check in self.checks:
            is_against = check.outcome in (GateOutcome.FAILED, GateOutcome.INCONCLUSIVE)
            if is_against and not check.is_small_slice:
                checks.append(check)
        return checks
