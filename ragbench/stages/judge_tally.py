"""What judging came to over the cases of a run: answers, tokens, cost, quotes, steadiness."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ragbench.core.chat import Usage
from ragbench.core.metric import Metric
from ragbench.core.outcome import Judgement
from ragbench.core.report import CanaryLine, JudgeLine, JudgeReport, Steadiness
from ragbench.stages.judge_identity import price_of
from ragbench.stages.panel import PanelTally, by_judge

if TYPE_CHECKING:
    from ragbench.llm.endpoint import Price


@dataclass(slots=True)
class _Account:
    """One metric, so far."""

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
    panel: PanelTally = field(default_factory=PanelTally)

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
        for made in by_judge(judgements).values():
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
    """Counts over the cases of a run."""

    metrics: Sequence[Metric]
    """All of the run."""
    judge: Mapping[str, Any] | None
    """The manifest's."""
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
