"""Variants held against the first one: effects that hold together, and what to keep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ragbench.core.ablation import CaseLoss, VariantEffect
from ragbench.core.metric import Direction, Metric
from ragbench.stats.family import family_test
from ragbench.stats.mean import mean_interval
from ragbench.stats.paired import PairedSample, pair

_LOSSES = 1000
"""How many lost cases are kept a variant and metric."""

Values = Mapping[str, float | None]
"""By case id: its value; None without one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What one variant measured."""

    name: str
    acted: bool
    """Whether it left anything else than the first variant in any case."""
    values: Sequence[Values]
    """One a metric."""


def variant_effects(
    metrics: Sequence[Metric],
    variants: Sequence[Measured],
    clusters: Mapping[str, str | None],
    *,
    confidence: float,
    seed: int = 0,
) -> tuple[list[tuple[VariantEffect, ...]], int]:
    """What each variant came to, and how it differs from the first one.

    All comparisons of variants that acted form one family. Their p-values are those of two-sided
    sign flips of whole clusters, corrected for the family by its largest statistic; see
    `ragbench.stats.family`. The intervals are Student-t's over paired differences with
    cluster-robust errors, at the level that the family leaves to a single test. A variant that did
    not act has no difference that chance could explain, and is not tested.

    Args:
        confidence: of the whole family, between 0 and 1.
    """
    first, *others = variants
    samples: dict[tuple[int, int], PairedSample] = {
        (at, column): pair(first.values[column], variant.values[column], clusters=clusters)
        for at, variant in enumerate(others, start=1)
        for column in range(len(metrics))
    }
    tested = [key for key, one in samples.items() if variants[key[0]].acted and len(one.clusters)]
    alpha = 1 - confidence
    joint = family_test([samples[key] for key in tested], alpha=alpha, seed=seed)
    raw = [test.p_value for test in joint.tests]
    p_values = dict(zip(tested, zip(raw, joint.p_values, strict=True), strict=True))
    effects = [
        [_scored(metric, variant.values[column]) for column, metric in enumerate(metrics)]
        for variant in variants
    ]
    for (at, column), sample in samples.items():
        effect = _compared(effects[at][column], sample, confidence, 1 - joint.level)
        p_value, corrected = p_values.get((at, column), (None, None))
        effects[at][column] = replace(
            effect,
            p_value=p_value,
            p_corrected=corrected,
            is_significant=corrected is not None and corrected <= alpha,
            losses=_losses(sample, effect, first.values[column], variants[at].values[column]),
        )
    return [tuple(row) for row in effects], len(tested)


def _scored(metric: Metric, values: Values) -> VariantEffect:
    known = [value for value in values.values() if value is not None]
    score = math.fsum(known) / len(known) if known else None
    return VariantEffect(metric=metric, score=score, measured=len(known))


def _compared(
    effect: VariantEffect, sample: PairedSample, confidence: float, together: float
) -> VariantEffect:
    definition = effect.metric.definition
    low, high = definition.low, definition.high
    reach = None if low is None or high is None else high - low
    bounds = None if reach is None else (-reach, reach)
    totals = sample.totals()
    alone = mean_interval(totals, confidence=confidence, bounds=bounds)
    found = mean_interval(totals, confidence=together, bounds=bounds)
    return replace(
        effect,
        compared=len(sample.clusters),
        difference=found.mean,
        low=found.low,
        high=found.high,
        alone=None if alone.low is None or alone.high is None else (alone.low, alone.high),
        gained=sample.gained,
        lost=sample.lost,
    )


def _losses(
    sample: PairedSample, effect: VariantEffect, before: Values, after: Values
) -> tuple[CaseLoss, ...]:
    sign = -1 if effect.metric.definition.direction is Direction.LOWER else 1
    found = [
        (sign * difference, case)
        for case, difference in zip(sample.case_ids, sample.differences.tolist(), strict=True)
        if sign * difference < 0
    ]
    return tuple(
        CaseLoss(case=case, before=before[case] or 0.0, after=after[case] or 0.0)
        for _, case in sorted(found)[:_LOSSES]
    )


def what_to_keep(variants: Sequence[Measured], effects: Sequence[Sequence[VariantEffect]]) -> str:
    """What the first metric shows of the variants, in a sentence.

    Kept is the variant with the best score among those that are better than the first one beyond
    chance; the first one where there is none.
    """
    first, *others = variants
    column = [effect[0] for effect in effects]
    sign = -1 if column[0].metric.definition.direction is Direction.LOWER else 1
    gains = [sign * (effect.difference or 0.0) for effect in column]
    better = [at for at in range(1, len(variants)) if column[at].is_significant and gains[at] > 0]
    kept = max(better, key=gains.__getitem__, default=0)
    parts = [f"keep {variants[kept].name}"]
    also = [at for at in better if at != kept]
    worse = [at for at in range(1, len(variants)) if column[at].is_significant and gains[at] < 0]
    idle = [at for at, variant in enumerate(others, start=1) if not variant.acted]
    open_ = [at for at in range(1, len(variants)) if at not in (*better, *worse, *idle)]
    for found, result in (
        (also, f"also better than {first.name}"),
        (open_, f"inconclusive against {first.name}"),
        (worse, f"worse than {first.name}"),
        (idle, "did not act"),
    ):
        if found:
            names = ", ".join(variants[at].name for at in found)
            parts.append(f"{names}: {result}")
    return f"By {column[0].metric.name}: {'; '.join(parts)}."
