"""From the judgements of a stored run to what judging took and how steady it was."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ragbench.evaluation.judge_info import price_of
from ragbench.llm.price import Price
from ragbench.llm.usage import Usage
from ragbench.records.judgements import Judgement
from ragbench.records.judging import JudgeLine, JudgeReport, Steadiness
from ragbench.records.metrics import Metric

__all__ = ["JudgeTally"]


@dataclass(slots=True)
class _Account:
    """One metric, so far."""

    answers: int = 0
    prompt: int = 0
    completion: int = 0
    unreported: int = 0
    repeated: int = 0
    """Cases with at least two values."""
    changed: int = 0
    variances: float = 0.0
    """Sum of their sample variances."""
    errors: float = 0.0
    """Sum over them of variance / count."""

    def add(self, judgements: Sequence[Judgement]) -> None:
        """Counts the judgements of a cell."""
        for judgement in judgements:
            for step in judgement.steps:
                self.answers += 1
                if step.prompt_tokens is None or step.completion_tokens is None:
                    self.unreported += 1
                else:
                    self.prompt += step.prompt_tokens
                    self.completion += step.completion_tokens
        values = [j.cell.value for j in judgements if j.cell.value is not None]
        if len(values) >= 2:
            mean = math.fsum(values) / len(values)
            variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
            self.repeated += 1
            self.changed += min(values) != max(values)
            self.variances += variance
            self.errors += variance / len(values)

    def line(self, metric: Metric, price: Price | None) -> JudgeLine:
        """What it came to."""
        cost: Decimal | None = None
        if price is not None and not self.unreported:
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

    def report(self) -> JudgeReport | None:
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
        )
