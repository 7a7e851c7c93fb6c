"""What a search over a space comes to: standings, choices, a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragbench.core.ablation import VariantReport
from ragbench.core.metric import Direction, Metric
from ragbench.core.space_search import (
    Choice,
    ChoiceReport,
    SearchCandidate,
    SpaceSearch,
    Standing,
)
from ragbench.stats.family import family_test
from ragbench.stats.mean import Interval, student_interval
from ragbench.stats.nested import HonestGain
from ragbench.stats.paired import pair

_NAMED = 3
"""How many choices of a kind the sentence names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Searched:
    """A space whose candidates took the cases of a run."""

    dataset: str
    rag: str
    metric: Metric
    choices: Sequence[tuple[Choice, ...]]
    """Of each candidate."""
    trials: Sequence[VariantReport]
    """What each candidate came to."""
    seconds: Sequence[float | None]
    """Median wall time of each, a case."""
    values: Sequence[Mapping[str, float]]
    """By candidate and case id, over the same cases."""
    clusters: Mapping[str, str | None]
    """Cluster by case id, of all cases."""
    notes: tuple[str, ...]

    @property
    def sign(self) -> int:
        return -1 if self.metric.definition.direction is Direction.LOWER else 1

    @property
    def reach(self) -> float:
        """The largest gain that the metric's scale leaves; infinite without bounds."""
        low, high = self.metric.definition.low, self.metric.definition.high
        return math.inf if low is None or high is None else high - low


def search_result(
    searched: Searched,
    honest: HonestGain,
    *,
    confidence: float,
    folds: int,
    partitions: int,
    seed: int,
) -> SpaceSearch:
    """Names the best candidate, and holds every other one against it.

    Each candidate is tested against the best one by sign flips, corrected for all of them by the
    largest statistic of the family, and, as any of them might have turned out the best, multiplied
    by their number (Bonferroni). That is cautious: what is called worse is worse, and what cannot
    be told apart may be.
    """
    means = [math.fsum(one.values()) / len(one) for one in searched.values]
    best = max(range(len(means)), key=lambda at: (searched.sign * means[at], -at))
    candidates = _candidates(searched, means, best, honest, alpha=1 - confidence)
    choices = _choices(candidates, searched.sign)
    naive = _naive(searched, best, confidence)
    is_real = best != 0 and honest.low is not None and honest.low > 0
    return SpaceSearch(
        dataset=searched.dataset,
        rag=searched.rag,
        metric=searched.metric,
        cases=len(searched.values[0]),
        left_out=len(searched.clusters) - len(searched.values[0]),
        confidence=confidence,
        seed=seed,
        folds=folds,
        partitions=partitions,
        first=candidates[0].name,
        best=candidates[best].name,
        naive=naive.mean or 0.0,
        naive_low=naive.low,
        naive_high=naive.high,
        honest=honest.gain,
        honest_low=None if honest.low is None else max(honest.low, -searched.reach),
        honest_high=None if honest.high is None else min(honest.high, searched.reach),
        kept=candidates[best if is_real else 0].name,
        sentence=_sentence(searched.metric, candidates, choices, best, is_real=is_real),
        candidates=candidates,
        choices=choices,
        notes=searched.notes,
    )


def _candidates(
    searched: Searched, means: Sequence[float], best: int, honest: HonestGain, *, alpha: float
) -> tuple[SearchCandidate, ...]:
    p_values = _against(searched, best, alpha=alpha)
    return tuple(
        SearchCandidate(
            name=trial.name,
            choices=searched.choices[at],
            score=means[at],
            difference=means[at] - means[0],
            standing=_standing(searched, at, best, p_values, alpha=alpha),
            p_value=p_values.get(at),
            chosen=honest.chosen[at],
            acted=trial.acted,
            tokens=trial.tokens,
            seconds=searched.seconds[at],
            failed=trial.failed,
        )
        for at, trial in enumerate(searched.trials)
    )


def _naive(searched: Searched, best: int, confidence: float) -> Interval:
    """The gain of the best one on the cases that chose it."""
    ends = [searched.values[0], searched.values[best]][:: searched.sign]
    bounds = None if math.isinf(searched.reach) else (-searched.reach, searched.reach)
    totals = pair(*ends, clusters=searched.clusters).totals()
    return student_interval(totals, confidence, bounds=bounds)


def _against(searched: Searched, best: int, *, alpha: float) -> dict[int, float]:
    """Corrected p of each candidate against the best one, where they differ at all."""
    samples = {
        at: pair(searched.values[best], one, clusters=searched.clusters)
        for at, one in enumerate(searched.values)
        if one != searched.values[best]
    }
    count = len(searched.values)
    joint = family_test(list(samples.values()), alpha=alpha / count)
    return {at: min(1.0, count * p) for at, p in zip(samples, joint.p_values, strict=True)}


def _standing(
    searched: Searched, at: int, best: int, p_values: Mapping[int, float], *, alpha: float
) -> Standing:
    if at == best:
        return Standing.BEST
    if searched.trials[at].acted == 0:
        return Standing.IDLE
    if p_values.get(at, 1.0) > alpha:
        return Standing.OPEN
    return Standing.WORSE if at else Standing.FIRST


def _choices(candidates: Sequence[SearchCandidate], sign: int) -> tuple[ChoiceReport, ...]:
    """Every alternative by the best candidate that takes it.

    One that changed nothing did not act: no candidate that differs from the first one in it alone
    left anything else.
    """
    found: list[ChoiceReport] = []
    factors = zip(*(one.choices for one in candidates), strict=True)
    alternatives = [choice for column in factors for choice in dict.fromkeys(column)]
    for choice in alternatives:
        having = [one for one in candidates if choice in one.choices]
        top = max(having, key=lambda one: sign * one.score)
        # Of choices none is what others are compared with.
        standing = Standing.WORSE if top.standing is Standing.FIRST else top.standing
        alone = [one for one in having if set(one.choices) - set(candidates[0].choices) == {choice}]
        if alone and all(one.acted == 0 for one in alone):
            standing = Standing.IDLE
        report = ChoiceReport(choice=choice, best=top.name, score=top.score, standing=standing)
        found.append(report)
    return tuple(found)


def _sentence(
    metric: Metric,
    candidates: Sequence[SearchCandidate],
    choices: Sequence[ChoiceReport],
    best: int,
    *,
    is_real: bool,
) -> str:
    kept = candidates[best if is_real else 0].name
    parts = [f"keep {kept}"]
    if best and not is_real:
        parts.append(f"{candidates[best].name} has the best mean, which luck may explain")
    for standing in (Standing.OPEN, Standing.WORSE, Standing.IDLE):
        named = [one.choice.text for one in choices if one.standing is standing]
        if named:
            more = len(named) - _NAMED
            rest = f" and {more} more" if more > 0 else ""
            parts.append(f"{', '.join(named[:_NAMED])}{rest}: {standing.value}")
    return f"By {metric.name}: {'; '.join(parts)}."
