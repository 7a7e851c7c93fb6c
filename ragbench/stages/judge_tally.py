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
from ragbench.core.outcome import Judgement, Status
from ragbench.core.report import JudgeLine, JudgeReport, JurorPair, JurorScore, Steadiness
from ragbench.stats.agreement import cohen_kappa
from ragbench.stats.mean import mean_of

_COUNTED = (
    *("answers", "prompt_tokens", "completion_tokens", "unreported"),
    *("quotes", "fabricated_quotes", "sentences", "unproved_sentences"),
)
"""Fields of a line that are counts."""
_FAVOURABLE = ("supported", "partially_supported")
_LEVELS = 12
"""Up to so many different values are taken for levels, of which kappa speaks."""


@dataclass(slots=True)
class Account:
    counts: Counter[str] = field(default_factory=Counter[str])
    """What a line of the report counts, tokens included; ``unpriced``: answers of which no cost
    is kept; of cases with at least two values of a judge ``repeated``, and ``changed`` of those."""
    cost: Decimal = Decimal(0)
    not_sent: set[str] = field(default_factory=set[str])
    variances: float = 0.0
    """Sum of the sample variances of repeated values."""
    errors: float = 0.0
    """Sum over them of variance / count."""
    verdicts: list[dict[str, float | None]] = field(default_factory=list["dict[str, float | None]"])
    """What each judge said of each case, where more than one was asked."""
    unproved: Counter[str] = field(default_factory=Counter[str])

    def add(self, judgements: Sequence[Judgement]) -> None:
        for step in (step for judgement in judgements for step in judgement.steps):
            self.cost += step.cost or Decimal(0)
            self.not_sent.update(step.not_sent)
            given = step.answer["verdicts"] if step.asked == "SupportVerdicts" else ()
            favourable = [one for one in given if one["verdict"] in _FAVOURABLE]
            is_unreported = step.prompt_tokens is None or step.completion_tokens is None
            self.counts.update(
                answers=1,
                unpriced=int(step.cost is None),
                quotes=len(step.quotes),
                fabricated_quotes=sum(quote.is_fabricated for quote in step.quotes),
                sentences=len(favourable),
                unproved_sentences=sum("unproved" in one for one in favourable),
                unreported=int(is_unreported),
                prompt_tokens=0 if is_unreported else step.prompt_tokens or 0,
                completion_tokens=0 if is_unreported else step.completion_tokens or 0,
            )
        by_judge: dict[str, list[Judgement]] = {}
        for judgement in judgements:
            by_judge.setdefault(judgement.judge, []).append(judgement)
        is_panel = bool(by_judge.keys() - {""})
        said: dict[str, float | None] = {}
        for name, made in by_judge.items():
            values = [one.cell.value for one in made if one.cell.value is not None]
            said[name] = mean_of(values)
            is_unproved = any(one.cell.status is Status.UNPROVED for one in made)
            self.unproved[name] += is_panel and not values and is_unproved
            if len(values) >= 2:
                variance = statistics.variance(values)
                self.counts.update(repeated=1, changed=int(min(values) != max(values)))
                self.variances += variance
                self.errors += variance / len(values)
        if is_panel:
            self.verdicts.append(said)

    @property
    def usage(self) -> Usage | None:
        """The tokens of all answers; None where one did not report them."""
        if self.counts["unreported"]:
            return None
        prompt, completion = self.counts["prompt_tokens"], self.counts["completion_tokens"]
        return Usage(prompt_tokens=prompt, completion_tokens=completion)

    def line(self, metric: Metric, price: Price | None) -> JudgeLine:
        counts, cost, steadiness = self.counts, None, None
        if counts["answers"] and not counts["unpriced"]:
            cost = self.cost
        elif price is not None and (usage := self.usage) is not None:
            cost = price.of(usage)
        if repeated := counts["repeated"]:
            steadiness = Steadiness(
                cases=repeated,
                deviation=math.sqrt(self.variances / repeated),
                changed=counts["changed"],
                error=math.sqrt(self.errors) / repeated,
            )
        names = [*dict.fromkeys(name for said in self.verdicts for name in said)]
        return JudgeLine(
            metric=metric.name,
            cost=cost,
            steadiness=steadiness,
            not_sent=tuple(sorted(self.not_sent)),
            **{name: counts[name] for name in _COUNTED},
            jurors=tuple(map(self._juror, names)),
            pairs=tuple(self._pair(*both) for both in combinations(names, 2)),
        )

    def _juror(self, name: str) -> JurorScore:
        known = [value for said in self.verdicts if (value := said.get(name)) is not None]
        return JurorScore(
            judge=name,
            measured=len(known),
            unproved=self.unproved[name],
            score=mean_of(known),
        )

    def _pair(self, one: str, other: str) -> JurorPair:
        """How far two judges agree, on the cases of which both gave a value."""
        pairs = [(said.get(one), said.get(other)) for said in self.verdicts]
        both = [(a, b) for a, b in pairs if a is not None and b is not None]
        levels = {value for pair in both for value in pair}
        return JurorPair(
            first=one,
            second=other,
            cases=len(both),
            same=mean_of([math.isclose(a, b) for a, b in both]),
            difference=mean_of([abs(a - b) for a, b in both]),
            kappa=cohen_kappa(both) if len(levels) <= _LEVELS else None,
        )


def price_of(judge: Mapping[str, Any]) -> Price | None:
    """The price that a manifest's ``judge`` names."""
    return msgspec.convert(judge["price"], Price | None)


@dataclass(slots=True)
class JudgeTally:
    metrics: Sequence[Metric]
    judge: Mapping[str, Any]
    _accounts: dict[int, Account] = field(default_factory=dict[int, Account])

    def add(self, judgements: Sequence[Sequence[Judgement]]) -> None:
        """Counts a case: the judgements of each of its cells."""
        for position, found in enumerate(judgements):
            if found:
                self._accounts.setdefault(position, Account()).add(found)

    def report(self) -> JudgeReport:
        price = price_of(self.judge)
        lines = [
            self._accounts.get(position, Account()).line(metric, price)
            for position, metric in enumerate(self.metrics)
            if metric.is_judged
        ]
        return JudgeReport(
            judge=self.judge,
            lines=tuple(lines),
            currency=None if price is None else price.currency,
            price_origin=None if price is None else price.origin,
        )
