"""Judging over the cases of a run: answers, tokens, cost, quotes, steadiness, agreement."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import combinations
from typing import TYPE_CHECKING, Any

from ragbench.core.chat import Usage
from ragbench.core.metric import Metric
from ragbench.core.outcome import Judgement, Status
from ragbench.core.report import (
    CanaryLine,
    JudgeLine,
    JudgeReport,
    JurorPair,
    JurorScore,
    Steadiness,
)
from ragbench.stages.judge_identity import price_of
from ragbench.stats.agreement import agreement

if TYPE_CHECKING:
    from ragbench.llm.endpoint import Price


_LEVELS = 12
"""Up to so many different values are taken for levels, of which kappa speaks."""


def _by_judge(judgements: Sequence[Judgement]) -> dict[str, list[Judgement]]:
    """The judgings of a case, by who made them, in their order."""
    found: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        found.setdefault(judgement.judge, []).append(judgement)
    return found


@dataclass(slots=True)
class _PanelTally:
    """The verdicts of each judge on each case, for one metric."""

    _verdicts: dict[str, list[float | None]] = field(default_factory=dict[str, list[float | None]])
    _unproved: dict[str, int] = field(default_factory=dict[str, int])
    _cases: int = 0

    def add(self, judgements: Sequence[Judgement]) -> None:
        """Takes the judgings of a case; nothing where one judge alone was asked."""
        found = _by_judge(judgements)
        if set(found) <= {""}:
            return
        self._cases += 1
        for name, made in found.items():
            values = [j.cell.value for j in made if j.cell.value is not None]
            verdicts = self._verdicts.setdefault(name, [])
            verdicts.extend([None] * (self._cases - 1 - len(verdicts)))
            verdicts.append(math.fsum(values) / len(values) if values else None)
            unproved = not values and any(j.cell.status is Status.UNPROVED for j in made)
            self._unproved[name] = self._unproved.get(name, 0) + unproved

    def scores(self) -> tuple[JurorScore, ...]:
        """What each judge said, in the order of the panel."""
        return tuple(
            JurorScore(
                judge=name,
                measured=len(known),
                unproved=self._unproved[name],
                score=math.fsum(known) / len(known) if known else None,
            )
            for name, verdicts in self._verdicts.items()
            for known in [[value for value in verdicts if value is not None]]
        )

    def pairs(self) -> tuple[JurorPair, ...]:
        """How far each two of them agree, on the cases of which both gave a value."""
        return tuple(self._pair(one, other) for one, other in combinations(self._verdicts, 2))

    def _pair(self, one: str, other: str) -> JurorPair:
        both = [
            (first, second)
            for first, second in zip(self._verdicts[one], self._verdicts[other], strict=False)
            if first is not None and second is not None
        ]
        count = len(both)
        return JurorPair(
            first=one,
            second=other,
            cases=count,
            same=sum(math.isclose(a, b) for a, b in both) / count if count else None,
            difference=math.fsum(abs(a - b) for a, b in both) / count if count else None,
            kappa=_kappa(both),
        )


def _kappa(both: Sequence[tuple[float, float]]) -> float | None:
    """Cohen's; None where there is nothing to compare, or no few levels."""
    levels = sorted({value for pair in both for value in pair})
    if not 1 < len(levels) <= _LEVELS:
        return None
    places = {value: place for place, value in enumerate(levels)}
    found = agreement([(places[a], places[b]) for a, b in both], len(levels), resamples=1)
    return found.kappa.value


@dataclass(slots=True)
class _Account:
    answers: int = 0
    prompt: int = 0
    completion: int = 0
    unreported: int = 0
    cost: Decimal = Decimal(0)
    unpriced: int = 0
    """Answers of which no cost is kept."""
    not_sent: set[str] = field(default_factory=set[str])
    quotes: int = 0
    fabricated: int = 0
    repeated: int = 0
    """Cases with at least two values."""
    changed: int = 0
    variances: float = 0.0
    """Sum of their sample variances."""
    errors: float = 0.0
    """Sum over them of variance / count."""
    panel: _PanelTally = field(default_factory=_PanelTally)

    def add(self, judgements: Sequence[Judgement]) -> None:
        for judgement in judgements:
            for step in judgement.steps:
                self.answers += 1
                self.cost += step.cost or Decimal(0)
                self.unpriced += step.cost is None
                self.not_sent.update(step.not_sent)
                self.quotes += len(step.quotes)
                self.fabricated += sum(quote.is_fabricated for quote in step.quotes)
                if step.prompt_tokens is None or step.completion_tokens is None:
                    self.unreported += 1
                else:
                    self.prompt += step.prompt_tokens
                    self.completion += step.completion_tokens
        self.panel.add(judgements)
        for made in _by_judge(judgements).values():
            self._steady([j.cell.value for j in made if j.cell.value is not None])

    def _steady(self, values: Sequence[float]) -> None:
        """Counts the values that one judge gave a case."""
        if len(values) >= 2:
            mean = math.fsum(values) / len(values)
            variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
            self.repeated += 1
            self.changed += min(values) != max(values)
            self.variances += variance
            self.errors += variance / len(values)

    def line(self, metric: Metric, price: Price | None) -> JudgeLine:
        cost: Decimal | None = None
        if self.answers and not self.unpriced:
            cost = self.cost
        elif price is not None and not self.unreported:
            cost = price.of(Usage(prompt_tokens=self.prompt, completion_tokens=self.completion))
        steadiness = None
        if self.repeated:
            steadiness = Steadiness(
                cases=self.repeated,
                deviation=math.sqrt(self.variances / self.repeated),
                changed=self.changed,
                error=math.sqrt(self.errors) / self.repeated,
            )
        return JudgeLine(
            metric=metric.name,
            answers=self.answers,
            prompt_tokens=self.prompt,
            completion_tokens=self.completion,
            unreported=self.unreported,
            cost=cost,
            steadiness=steadiness,
            not_sent=tuple(sorted(self.not_sent)),
            quotes=self.quotes,
            fabricated_quotes=self.fabricated,
            jurors=self.panel.scores(),
            pairs=self.panel.pairs(),
        )


@dataclass(slots=True)
class JudgeTally:
    metrics: Sequence[Metric]
    judge: Mapping[str, Any] | None
    _accounts: dict[int, _Account] = field(default_factory=dict[int, _Account])

    def add(self, judgements: Sequence[Sequence[Judgement]]) -> None:
        """Counts a case: the judgements of each of its cells."""
        for position, found in enumerate(judgements):
            if found:
                self._accounts.setdefault(position, _Account()).add(found)

    def report(self, canaries: tuple[CanaryLine, ...] = ()) -> JudgeReport | None:
        """What it came to; None when no metric of the run asks a model."""
        if self.judge is None:
            return None
        price = price_of(self.judge)
        lines = [
            self._accounts.get(position, _Account()).line(metric, price)
            for position, metric in enumerate(self.metrics)
            if metric.is_judged
        ]
        return JudgeReport(
            judge=self.judge,
            lines=tuple(lines),
            currency=None if price is None else price.currency,
            price_origin=None if price is None else price.origin,
            canaries=canaries,
        )
