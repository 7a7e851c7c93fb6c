"""An undecided gate to a decided one: both systems are asked again until a test decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ragbench.core.gate_result import GateCheck, GateResult, Ground, Settled
from ragbench.core.record import Record
from ragbench.core.run_scores import RunScores, unchanged
from ragbench.gate.checks import asked_again
from ragbench.gate.config import GateConfig
from ragbench.gate.figures import sources_of, with_both_figures
from ragbench.gate.gate import with_checks, with_settled
from ragbench.plugins import Floats, np
from ragbench.safe_text import counted
from ragbench.stats.bets import MeanBet

Ask = Callable[[int, Sequence[str], Sequence[str]], tuple[RunScores, RunScores]]
"""Asks both systems: the round, the metrics, the cases drawn; gives the baseline's scores and the
run's, of cases called "0", "1" ... as drawn."""

_FIRST_ROUND = 40
"""Cases that the first round asks about; each further round asks about as many as all before, so
that a clear answer comes soon and a close one takes few rounds."""


def open_checks(verdict: GateResult) -> list[GateCheck]:
    """The checks of a gate that asking the systems again can settle: undecided ones with a scale.

    Where there are none, no call is made.
    """
    return [check for check in verdict.checks if check.can_settle]


def settle(
    verdict: GateResult,
    run: RunScores,
    baseline: RunScores,
    config: GateConfig,
    ask: Ask,
    *,
    most: int,
    say: Callable[[str], None] = lambda _: None,
) -> GateResult:
    """Asks both systems again about what a gate left open, until each open metric is decided.

    The verdict stays as it is where nothing is open, or no open metric has a scale.

    Args:
        most: times that each system is asked at most.
        say: called with the state of each metric after each round.
    """
    run, baseline = with_both_figures(run, baseline)
    # Cases that one of the runs has in other words are no comparison.
    same_cases = baseline.on(unchanged(run, baseline))
    signs: dict[str, float] = {}
    questions: list[SettleQuestion] = []
    for check in open_checks(verdict):
        # A check of latency or cost has no column of scores.
        column = run.column(check.subject)
        if column is None or column.scale is None:
            continue
        changes = _changes_by_case(same_cases, run, column.name, column.sign)
        differences: dict[str, float] = {}
        # A case that one run has no value of guides no draw.
        for id_, change in changes.items():
            if change is not None:
                differences[id_] = change
        question = SettleQuestion(
            metric=column.name,
            tolerance=check.limit,
            scale=column.scale,
            differences=differences,
        )
        questions.append(question)
        signs[column.name] = column.sign
    if not questions:
        return verdict

    # All metrics share the draws, and the level of a false alarm.
    settling = Settling(questions, alpha=config.alpha)
    sources = sources_of(signs, run)
    asked_count = 0
    rounds = 0
    while not settling.is_done and asked_count < most:
        remaining_count = most - asked_count
        round_count = max(_FIRST_ROUND, asked_count)
        # Never beyond `most`; rounds double what was asked so far.
        drawn = settling.draw(min(remaining_count, round_count))
        before, after = ask(rounds, sources, drawn)
        after, before = with_both_figures(after, before)
        # One mapping for each drawn case, filled metric by metric.
        answers: list[dict[str, float | None]] = [{} for _ in drawn]
        for name, sign in signs.items():
            changes = _changes_by_case(before, after, name, sign)
            for number, answer in enumerate(answers):  # the cases are called by their numbers
                # None where a system failed on the case.
                answer[name] = changes.get(str(number))
        settling.see(answers)
        asked_count += len(drawn)
        rounds += 1
        say(_progress_line(asked_count, settling.settled()))
    return with_settled(verdict, settling.settled(), config)


def _progress_line(asked_count: int, settled_metrics: Mapping[str, Settled]) -> str:
    """The line of progress after a round of questions: how each metric's drop looks by now.

    A round takes long, and its user waits for it.
    """
    states: list[str] = []
    for name, settled in settled_metrics.items():
        # No drop is known before the first answer.
        drop = settled.drop or 0.0
        states.append(f"{name} {settled.change} (drop {drop:+.3f})")
    return f"asked {counted(asked_count, 'time')}: {', '.join(states)}"


def lost_once(verdict: GateResult) -> list[str]:
    """Ids of the cases that must pass and did not, but were asked too rarely to be sure.

    One failure of a system that answers differently each time proves nothing: they are asked again,
    and `with_must_pass` takes in the result.
    """
    ids: list[str] = []
    for check in verdict.checks:
        if check.ground is not Ground.LOST_ONCE:
            continue
        for change in check.lost:
            if not change.is_sure:
                ids.append(change.id)
    return ids


def with_must_pass(verdict: GateResult, asked: RunScores, config: GateConfig) -> GateResult:
    """The gate's result after the cases that must pass, and were lost once, were asked again.

    A case that fails most of its asks fails the gate; any other counts as passed.

    Args:
        asked: the scores of the cases of `lost_once`, asked again.
    """
    checks: list[GateCheck] = []
    for check in verdict.checks:
        # Checks on other grounds stay as they are: they do not rest on the cases asked again.
        if check.ground is Ground.LOST_ONCE:
            check = asked_again(check, asked)
        checks.append(check)
    return with_checks(verdict, checks, config)


def _changes_by_case(
    before: RunScores, after: RunScores, metric: str, sign: float
) -> dict[str, float | None]:
    """By case, how a metric moved between two runs, a loss below 0; None where one lacks a value.

    An undecided check is settled by the changes of cases: they guide which are asked again, and
    those that were asked again are its evidence. In the order of the run before.

    Args:
        sign: 1 where more of the metric is better, or else -1.
    """
    values_after = after.values(metric)
    changes: dict[str, float | None] = {}
    for id_, value_before in before.values(metric).items():
        value_after = values_after.get(id_)
        if value_before is None or value_after is None:
            changes[id_] = None
        else:
            changes[id_] = sign * (value_after - value_before)
    return changes


_EVENLY = 0.5
"""Share of the draws that any case may get: no case weighs more than twice its share."""
_STILL = 1e-3
"""Smallest spread of a case that is assumed, as a share of the scale: where no metric has moved so
far, draws by spread would divide by 0."""
_UNUSED_BITS = 11
"""Of the 64 random bits; the other 53 are as many as the fraction of a float holds."""


class SettleQuestion(Record):
    """Did this metric fall by more than is tolerated, on these cases?"""

    metric: str
    tolerance: float
    scale: float
    """Largest drop that a case can take."""
    differences: Mapping[str, float]
    """How the metric moved between the two runs, by case; below 0 is a loss. They choose which
    cases are asked about, and are no evidence: the gate has judged them already."""


class Settling:
    """Draws cases, takes in what both systems said, and decides.

    A case is drawn with replacement, with a chance q that grows with the spread of its
    differences so far; half of all draws are spread evenly. With D the new difference, c what the
    case's earlier ones promise, and n the number of cases, ``mean(c) + (D - c) / (n q)`` has the
    mean difference over the cases as its mean, whatever q and c are; the bets of
    `ragbench.stats.bets` are made on it. So it may be stopped at any time.

    Source: weighting and centring as in Horvitz & Thompson 1952 and Cassel, Särndal & Wretman 1976
    (difference estimator); with betting: Shekhar, Xu, Lipton, Liang & Ramdas 2023, "Risk-Limiting
    Financial Audits via Weighted Sampling without Replacement".

    Args:
        questions: one a metric, at least one.
        alpha: any metric is called worse by mistake with at most this chance (the level of each is
            ``alpha / len(questions)``); each is called not worse by mistake with at most this.
        seed: of the draws.
    """

    def __init__(self, questions: Sequence[SettleQuestion], *, alpha: float, seed: int = 0) -> None:
        """Begins with how far each case's scores differ between the two runs that a gate compared.

        These differences guide which cases are drawn to be asked again. They are no evidence, since
        the gate has judged them already.
        """
        ids: set[str] = set()
        for question in questions:
            ids.update(question.differences)
        # Sorted, so that the same questions give the same draws in every process.
        self._ids = sorted(ids)
        self._seed = seed
        """The seed of the draws: the same seed draws the same cases."""
        self._rounds = 0
        """How many draws were made: a part of the next draw's seed."""
        self._asked: set[str] = set()
        """The cases that were drawn so far, for the report."""
        places = {id_: place for place, id_ in enumerate(self._ids)}
        self._metrics: list[_Metric] = []
        """One for each question, in their order."""
        for question in questions:
            metric = _Metric(question, places, alpha, len(questions))
            self._metrics.append(metric)
        even_chance = 1.0 / len(self._ids)
        self._chances = np.full(len(self._ids), even_chance)
        """Of each case, the chance to be drawn."""
        self._drawn: list[int] = []
        """Places of the cases that were drawn last."""

    @property
    def is_done(self) -> bool:
        """Whether asking can end: a metric is proved worse, or all are settled.

        The gate fails with one worse metric, so that further answers would change nothing.
        """
        changes = [metric.change for metric in self._metrics]
        # One proof of a loss is enough; without a loss, all must be decided.
        return "worse" in changes or "open" not in changes

    def draw(self, count: int) -> list[str]:
        """Ids of the next cases to ask about, with repetition; the same after the same answers.

        Where a case's differences vary more, asking about it again says more of the mean. The
        chances may follow anything but the new answers; other random numbers give other draws, and
        so other verdicts on close metrics.
        """
        pool = len(self._ids)
        variances = np.zeros(pool)
        for metric in self._metrics:
            # Metrics add up, each on its own scale: a case is drawn for what all learn from it.
            variances += metric.weights(pool)
        deviations = np.sqrt(variances)
        by_spread = deviations / deviations.sum()
        even_part = _EVENLY / pool
        spread_part = (1.0 - _EVENLY) * by_spread
        self._chances = even_part + spread_part

        # Raw output of PCG64, which NumPy promises for all versions; 53 bits make a fraction.
        # By seed and round: a run that goes on draws what an uninterrupted one draws.
        source = np.random.PCG64([self._seed, self._rounds])
        whole_numbers = source.random_raw(count) >> np.uint64(_UNUSED_BITS)
        uniform = whole_numbers.astype(np.float64) * 2.0**-53
        # Each case has a stretch of [0, 1) as long as its chance: a number falls into one of them.
        ends = np.cumsum(self._chances)
        # Divided by the last end, which is 1 but for rounding: no number falls beyond it.
        places = np.searchsorted(ends / ends[-1], uniform, side="right")
        self._drawn = [int(place) for place in places]
        self._rounds += 1
        return [self._ids[place] for place in self._drawn]

    def see(self, answers: Sequence[Mapping[str, float | None]]) -> None:
        """Takes in the answers on the cases that were drawn last, and lets each metric bet on them.

        Args:
            answers: for each drawn case in order, the difference between the systems by metric.
        """
        # The chances are those that `draw` has just used: answers must be seen before the next
        # draw.
        for place in self._drawn:
            self._asked.add(self._ids[place])
        for metric in self._metrics:
            values = [answer.get(metric.question.metric) for answer in answers]
            metric.see(self._drawn, values, self._chances)

    def settled(self) -> dict[str, Settled]:
        """By metric, what the answers so far have proved, for the verdict and for progress.

        Valid after any round: the test may be stopped at any time.
        """
        records: dict[str, Settled] = {}
        for metric in self._metrics:
            records[metric.question.metric] = metric.record(len(self._asked))
        return records


class _Metric:
    """One metric: what each case said so far, and the bets.

    Arrays hold a number for each case of all metrics, at the case's place.
    """

    def __init__(
        self, question: SettleQuestion, places: Mapping[str, int], alpha: float, family: int
    ) -> None:
        """Begins the bets on whether one metric fell, with the differences between the two runs.

        Each case that is asked again gives a difference, on which is bet (a sequential test).

        Args:
            places: the place of each case by its id, cases of other metrics included.
            alpha: the level at which the metric is called not worse.
            family: how many metrics there are: a worse one must be surer the more there are.
        """
        self.question = question
        self.places = np.zeros(len(places))
        """1 where the case has this metric."""
        self.sums = np.zeros(len(places))
        """Of each case, the sum of its differences."""
        for id_, difference in question.differences.items():
            place = places[id_]
            self.places[place] = 1.0
            self.sums[place] = difference
        # One difference so far: its square, sum and count begin with it.
        self.squares = self.sums**2
        """Of each case, the sum of its squared differences."""
        self.counts = self.places.copy()
        """Of each case, how many differences there are."""
        self.size = float(self.places.sum())
        """Cases that have this metric."""
        mean_square = float(self.squares.sum() / self.size)
        least_deviation = _STILL * question.scale
        # The scale's share keeps it above 0 where no case has moved.
        self.prior = max(mean_square, least_deviation**2)
        """The variance that is assumed of a case's difference before the case is asked again."""
        self.bet = MeanBet(limit=-question.tolerance, scale=question.scale)
        """The bet on whether the mean difference lies below minus the tolerance."""
        self.level_worse = alpha / family
        """A loss is shown at this level: all metrics share the chance of a false alarm."""
        self.level_safe = alpha
        """That nothing is lost is shown at this level, each metric by itself."""
        self.unmeasured = 0
        """Answers in which the metric could not be compared; they count as no change."""

    def centres(self) -> Floats:
        """For each case, the change of the metric that is expected when the case is asked again.

        The expected change is the mean of the case's differences between the two runs, with one
        difference of 0 added: a case that was asked once, and changed by chance, would else promise
        too much. Cases without the metric have 0. Whatever changes are expected, the test stays
        valid; good expectations end it after fewer answers.
        """
        # One more in the divisor is the added difference of 0.
        means = self.sums / (self.counts + 1.0)
        return means * self.places

    def weights(self, pool: int) -> Floats:
        """For each case, the variance that it adds to the mean difference, on the metric's scale.

        Cases are drawn by it: the more of it, the more there is to learn from asking again.

        Args:
            pool: how many cases all metrics have together.
        """
        centres = self.centres()
        # The sum of (difference - centre) squared, out of the sums that are kept.
        deviations = self.squares - 2.0 * centres * self.sums + self.counts * centres**2
        # With the prior as one more: a case that was asked once has no spread of its own yet.
        variances: Floats = (deviations + self.prior) / (self.counts + 1.0) * self.places
        # As a share of the scale, and over all cases: metrics are added up in `draw`.
        factor = pool / self.size / self.question.scale
        return variances * factor**2

    def see(self, drawn: Sequence[int], values: Sequence[float | None], chances: Floats) -> None:
        """Takes in a round's differences of one metric, and bets on each of them.

        What is bet on must have the mean difference as its mean: so neither the centres nor the
        chances may depend on the draw that they correct.

        Args:
            drawn: places of the drawn cases, in order.
            values: the difference of each drawn case; None where it could not be compared.
            chances: with which each case was drawn.
        """
        centres = self.centres()
        scale = self.question.scale
        # The mean of what all cases promise; the corrections below have 0 as their mean.
        promised = float(centres.sum()) / self.size
        # How far one difference of a case moves the estimate: the rarer it is drawn, the further.
        reach = self.places / (self.size * chances)
        # A bet must know the least and the greatest that any draw of this round can give: those of
        # a case that lost or gained the whole scale.
        lowest_corrections = (-scale - centres) * reach
        highest_corrections = (scale - centres) * reach
        lowest = promised + float(lowest_corrections.min())
        highest = promised + float(highest_corrections.max())
        # The centres are those from before this round: what a case promises must not depend on the
        # draw that corrects it.
        for place, value in zip(drawn, values, strict=True):
            # A case of another metric alone: its correction is 0, but its draw counts, as the
            # chances are over the cases of all metrics.
            if not self.places[place]:
                self.bet.see(promised, lowest=lowest, highest=highest)
                continue
            # A case that could not be compared counts as unchanged; the report says how many.
            if value is None:
                self.unmeasured += 1
            # No change is assumed, which neither proves nor excuses a loss.
            difference = value or 0.0
            correction = (difference - float(centres[place])) * float(reach[place])
            self.bet.see(promised + correction, lowest=lowest, highest=highest)
            # Only after the bet: the next round's centres may know of it.
            self.sums[place] += difference
            self.squares[place] += difference**2
            self.counts[place] += 1.0

    @property
    def change(self) -> str:
        """The decision on the metric by now: ``worse``, ``not worse``, or ``open`` without a proof.

        The two tests have levels of their own: a false alarm is made as rare as `Settling` promises
        over all metrics, a false all-clear for each metric by itself. The words are those of the
        report.
        """
        # A loss is looked at first: both proofs at once would need contradicting answers.
        if self.bet.p_below <= self.level_worse:
            return "worse"
        if self.bet.p_above <= self.level_safe:
            return "not worse"
        return "open"

    def record(self, cases: int) -> Settled:
        """The record of the metric for the report: its decision, drop and chances of error.

        Args:
            cases: how many cases were asked about.
        """
        drop = None
        if self.bet.mean is not None:
            # 0.0 - mean, and not -mean: no drop is 0, and not minus 0.
            drop = 0.0 - self.bet.mean
        return Settled(
            change=self.change,
            asked=self.bet.count,
            cases=cases,
            unmeasured=self.unmeasured,
            drop=drop,
            p_worse=self.bet.p_below,
            p_not_worse=self.bet.p_above,
            level=self.level_worse,
        )
