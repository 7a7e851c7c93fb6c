"""Variants beside the first one: who lost what, and which one is kept."""

from __future__ import annotations

from typing import Any

import pytest

from ragbench import parse_metrics
from ragbench.gate.variants import Measured, variant_effects, what_to_keep

HIGHER = parse_metrics("nDCG@1")
LOWER = parse_metrics("total_tokens")
CASES = [f"c{at:02}" for at in range(12)]


@pytest.mark.parametrize(("metrics", "values", "sentence"), [
    (HIGHER, {"plain": 0.0, "some": 0.5, "most": 1.0, "less": 0.25, "idle": None},
     "keep most; some, less: also better than plain; idle: did not act."),
    (LOWER, {"plain": 100, "more": 150, "least": 50, "less": 90},
     "keep least; less: also better than plain; more: worse than plain."),
    (HIGHER, {"plain": 0.5, "other": 0.5}, "keep plain; other: inconclusive against plain."),
])  # fmt: skip
def test_of_several_better_ones_the_one_that_gains_most_is_kept(
    metrics: tuple[Any, ...], values: dict[str, float | None], sentence: str
) -> None:
    """Each variant gives every case the same value; None: it did not act."""
    variants = [
        Measured(name=name, acted=value is not None, values=[dict.fromkeys(CASES, value or 0.0)])
        for name, value in values.items()
    ]
    effects, _ = variant_effects(metrics, variants, dict.fromkeys(CASES), confidence=0.95)
    assert what_to_keep(variants, effects) == f"By {metrics[0].name}: {sentence}"


@pytest.mark.parametrize(
    ("metrics", "losses"),
    [(HIGHER, [("c", 1.0, 0.0), ("b", 0.75, 0.5)]), (LOWER, [("d", 0.0, 0.5), ("e", 0.25, 0.5)])],
)
def test_the_largest_losses_come_first(
    metrics: tuple[Any, ...], losses: list[tuple[str, float, float]]
) -> None:
    before = {"a": 1.0, "b": 0.75, "c": 1.0, "d": 0.0, "e": 0.25, "f": None}
    after = {"a": 1.0, "b": 0.5, "c": 0.0, "d": 0.5, "e": 0.5, "f": 1.0}
    variants = [
        Measured(name=str(at), acted=True, values=[x]) for at, x in enumerate((before, after))
    ]
    effects, family = variant_effects(metrics, variants, dict.fromkeys(before), confidence=0.95)
    effect = effects[1][0]
    assert family == 1
    assert [(loss.case, loss.before, loss.after) for loss in effect.losses] == losses
    # Of a, b, c, d and e the differences are 0, -1/4, -1, 1/2 and 1/4.
    assert effect.compared == 5
    assert effect.difference == pytest.approx(-0.1)


def test_intervals_end_at_the_ends_of_a_scale_and_only_where_it_has_both() -> None:
    """Differences 0 and -1: the mean is -1/2, and Student's interval of two reaches far beyond."""
    pair = [{"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 0.0}]
    variants = [Measured(name=str(at), acted=True, values=[one]) for at, one in enumerate(pair)]
    bounded = variant_effects(HIGHER, variants, dict.fromkeys("ab"), confidence=0.95)[0][1][0]
    assert (bounded.low, bounded.high) == (-1.0, 1.0)
    endless = variant_effects(LOWER, variants, dict.fromkeys("ab"), confidence=0.95)[0][1][0]
    # 12.7062 standard errors of one half each.
    assert endless.low == pytest.approx(-0.5 - 12.7062 * 0.5, abs=1e-4)
    assert endless.high == pytest.approx(-0.5 + 12.7062 * 0.5, abs=1e-4)
