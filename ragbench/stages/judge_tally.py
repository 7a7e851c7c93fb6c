"""Judging over the cases of a run: answers, tokens, cost, quotes, steadiness, agreement."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import combinations
from typing import Any

import msgspec

from ragbench.core.chat import Price, Usage
from ragbench.core.metric import Metric
from ragbench.core.outcome import ANSWER_VERDICTS, Judgement, JudgeStep, Status
from ragbench.core.report import JudgeLine, JudgeReport, JurorPair, JurorScore, Steadiness
from ragbench.stats.agreement import cohen_kappa
from ragbench.stats.mean import mean_of

_COUNTED = (
    "answers",
    "prompt_tokens",
    "completion_tokens",
    "unreported",
    "quotes",
    "fabricated_quotes",
    "sentences",
    "unproved_sentences",
)
"""Fields of a line that are counts."""
_FAVOURABLE = ("supported", "partially_supported")
"""Verdicts that a quote has to prove."""
_LEVELS = 12
"""Up to so many different values are taken for levels, of which kappa speaks."""


@dataclass(slots=True)
class Account:
    """What judging one metric came to, over cases."""

    counts: Counter[str] = field(default_factory=Counter[str])
    """What a line of the report counts, tokens included; ``unpriced``: answers of which no cost
    is kept; of cases with at least two values of a judge ``repeated``, and ``changed`` of those."""
    cost: Decimal = Decimal(0)
    """Of all answers whose cost is kept; see ``unpriced``."""
    not_sent: set[str] = field(default_factory=set[str])
    """Fields that a judge needed and was not sent."""
    variances: float = 0.0
    """Sum of the sample variances of repeated values."""
    errors: float = 0.0
    """Sum over them of variance / count."""
    verdicts: list[dict[str, float | None]] = field(default_factory=list["dict[str, float | None]"])
    """What each judge said of each case, where more than one was asked."""
    replies: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    """By judge: its verdicts on whole answers, counted."""
    unproved: Counter[str] = field(default_factory=Counter[str])
    """By judge of a panel: cases of which it gave no value, for lack of proof."""

    def add(self, judgements: Sequence[Judgement]) -> None:
        """Counts one case of a metric: every judgement of it, by each judge and in each repetition.

        From these follow the report's cost, how steady each judge is, and how far a panel agrees.
        """
        by_judge: dict[str, list[Judgement]] = {}
        for judgement in judgements:
            by_judge.setdefault(judgement.judge, []).append(judgement)
            for step in judgement.steps:
                self._count_step(step)
                self._count_verdict(judgement.judge, step)
        is_panel = bool(by_judge.keys() - {""})  # a single judge has no name
        means: dict[str, float | None] = {}
        for judge, repetitions in by_judge.items():
            values: list[float] = []
            is_unproved = False
            for judgement in repetitions:
                if judgement.cell.value is not None:
                    values.append(judgement.cell.value)
                # One unproved repetition is enough to count the case, if no other gave a value.
                if judgement.cell.status is Status.UNPROVED:
                    is_unproved = True
            means[judge] = mean_of(values)
            if is_panel and not values and is_unproved:
                self.unproved[judge] += 1
            # One value shows nothing of how steady a judge is.
            if len(values) >= 2:
                variance = statistics.variance(values)
                self.counts.update(repeated=1, changed=int(min(values) != max(values)))
                self.variances += variance
                self.errors += variance / len(values)
        if is_panel:
            # One entry a case, with None for a judge that gave no value: pairs are of the same
            # case.
            self.verdicts.append(means)

    def _count_verdict(self, judge: str, step: JudgeStep) -> None:
        """Counts a judge's verdict on a whole answer, such as "correct"; other steps have none.

        Verdicts that no answer got are counted as 0, so that a report lists them all.
        """
        if step.asked in ANSWER_VERDICTS:
            none_yet = Counter(dict.fromkeys(ANSWER_VERDICTS[step.asked], 0))
            # A Counter of zeros is a start: `setdefault` keeps the one that is there.
            self.replies.setdefault(judge, none_yet)[step.answer["verdict"]] += 1

    def _count_step(self, step: JudgeStep) -> None:
        """Counts one answer of a judging model: its cost, its tokens, and the quotes that it gives.

        The names of the counts are fields of the report's line on the metric (`JudgeLine`); the
        schema "SupportVerdicts" is the one whose verdicts need a quote as proof.
        """
        # An answer without a known cost adds nothing: `unpriced` counts it, and the sum is not
        # shown.
        self.cost += step.cost or Decimal(0)
        self.not_sent.update(step.not_sent)
        favourable: list[Mapping[str, Any]] = []
        if step.asked == "SupportVerdicts":
            for verdict in step.answer["verdicts"]:
                if verdict["verdict"] in _FAVOURABLE:
                    favourable.append(verdict)
        # Where an answer reports one of the two, neither counts: half would pass for all.
        prompt_tokens = step.prompt_tokens
        completion_tokens = step.completion_tokens
        unreported = 0
        if prompt_tokens is None or completion_tokens is None:
            unreported = 1
            prompt_tokens = 0
            completion_tokens = 0
        self.counts.update(
            answers=1,
            unpriced=int(step.cost is None),
            quotes=len(step.quotes),
            fabricated_quotes=sum(quote.is_fabricated for quote in step.quotes),
            sentences=len(favourable),
            unproved_sentences=sum("unproved" in verdict for verdict in favourable),
            unreported=unreported,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
        )

    @property
    def usage(self) -> Usage | None:
        """The tokens of all of a judge's answers; None where one answer did not report its tokens.

        A sum of some answers would pass for that of all.
        """
        if self.counts["unreported"]:
            return None
        return Usage(
            prompt_tokens=self.counts["prompt_tokens"],
            completion_tokens=self.counts["completion_tokens"],
        )

    def line(self, metric: Metric, price: Price | None) -> JudgeLine:
        """The report's line on how a metric was judged: cost, steadiness, quotes, and who agreed.

        Args:
            price: that of the judge's tokens now; used where the cost of some answer was not kept.
        """
        counts = self.counts
        # What the answers cost when they were given counts, where it was kept of each.
        cost = None
        # One answer without a cost, and all are priced anew: a part would pass for the whole.
        if counts["answers"] and not counts["unpriced"]:
            cost = self.cost
        elif price is not None and self.usage is not None:
            cost = price.of(self.usage)
        steadiness = None
        # Cases with at least two values of a judge: of others nothing is known of steadiness.
        repeated = counts["repeated"]
        if repeated:
            steadiness = Steadiness(
                cases=repeated,
                deviation=math.sqrt(self.variances / repeated),
                changed=counts["changed"],
                # The standard error of the mean over cases, from the variance of each case's own
                # mean.
                error=math.sqrt(self.errors) / repeated,
            )
        verdicts = Counter[str]()
        for replies in self.replies.values():
            verdicts.update(replies)
        # A dict for its order: judges come as they were first met.
        judges: dict[str, None] = {}
        for means in self.verdicts:
            judges.update(dict.fromkeys(means))
        return JudgeLine(
            metric=metric.name,
            cost=cost,
            steadiness=steadiness,
            not_sent=tuple(sorted(self.not_sent)),
            verdicts=dict(verdicts),
            **{name: counts[name] for name in _COUNTED},
            jurors=tuple(map(self._juror_score, judges)),
            pairs=tuple(
                self._juror_pair(judge, colleague) for judge, colleague in combinations(judges, 2)
            ),
        )

    def _juror_score(self, judge: str) -> JurorScore:
        """The figures of one judge of a panel, over cases: score, missing proofs, verdicts.

        Beside the other judges' they show which judge differs.
        """
        values: list[float] = []
        for means in self.verdicts:
            # A judge that was not asked about a case is missing there, and has no value.
            value = means.get(judge)
            if value is not None:
                values.append(value)
        return JurorScore(
            judge=judge,
            measured=len(values),
            unproved=self.unproved[judge],
            score=mean_of(values),
            verdicts=dict(self.replies.get(judge, {})),
        )

    def _juror_pair(self, judge: str, colleague: str) -> JurorPair:
        """How far two judges of a panel agree, on the cases of which both gave a value.

        Kappa is for levels, such as right and wrong; for a fine scale it would show nothing.
        """
        pairs: list[tuple[float, float]] = []
        levels: set[float] = set()
        for means in self.verdicts:
            value = means.get(judge)
            value_of_colleague = means.get(colleague)
            if value is not None and value_of_colleague is not None:
                pairs.append((value, value_of_colleague))
                levels.update((value, value_of_colleague))
        kappa: float | None = None
        # Of no pair kappa is None, as `cohen_kappa` gives it.
        if len(levels) <= _LEVELS:
            kappa = cohen_kappa(pairs)
        return JurorPair(
            first=judge,
            second=colleague,
            cases=len(pairs),
            same=mean_of([math.isclose(x, y) for x, y in pairs]),
            difference=mean_of([abs(x - y) for x, y in pairs]),
            kappa=kappa,
        )


def price_of(judge: Mapping[str, Any]) -> Price | None:
    """The price of the judge's tokens that a run's manifest keeps; None where none is known.

    A stored run's cost is computed with this price: that of the time when the judge was asked.

    Args:
        judge: the manifest's entry ``judge``.
    """
    return msgspec.convert(judge["price"], Price | None)


@dataclass(slots=True)
class JudgeTally:
    """Counts what judges said over the cases of a run, for its report."""

    metrics: Sequence[Metric]
    judge: Mapping[str, Any]
    """The manifest's record of who judged."""
    _accounts: dict[int, Account] = field(default_factory=dict[int, Account])
    """By the position of the metric."""

    def add(self, judgements: Sequence[Sequence[Judgement]]) -> None:
        """Counts a case: for each of its cells (a metric's value), the judgements that it rests on.

        Args:
            judgements: by position of the metric; empty for a metric that is not judged.
        """
        # The place in the sequence is the metric's among those of the run.
        for position, cell_judgements in enumerate(judgements):
            if cell_judgements:
                self._accounts.setdefault(position, Account()).add(cell_judgements)

    def report(self) -> JudgeReport:
        """The report's part on judging: a line for each judged metric, with or without cases.

        With the price at which tokens were counted, so that a reader can check the cost.
        """
        price = price_of(self.judge)
        lines: list[JudgeLine] = []
        for position, metric in enumerate(self.metrics):
            # A metric of which no case was judged has a line of zeros.
            if metric.is_judged:
                account = self._accounts.get(position, Account())
                lines.append(account.line(metric, price))
        return JudgeReport(
            judge=self.judge,
            lines=tuple(lines),
            currency=None if price is None else price.currency,
            price_origin=None if price is None else price.origin,
        )
