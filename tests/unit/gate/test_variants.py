"""Variants beside the first one: who lost what, and which one is kept."""

from __future__ import annotations

import pytest

from ragbench import parse_metrics
from ragbench.gate.variants import Measured, variant_effects, what_to_keep

HIGHER = parse_metrics("nDCG@1")
LOWER = parse_metrics("total_tokens")
CASES = [f"c{at:02}" for at in range(12)]


def flat(name: str, value: float, *, acted: bool = True) -> Measured:
    """The same value for every case."""
    return Measured(name=name, acted=acted, values=[dict.fromkeys(CASES, value)])


def kept(metrics: tuple[object, ...], *variants: Measured) -> str:
    clusters = dict.fromkeys(CASES)
    effects, _ = variant_effects(metrics, variants, clusters, confidence=0.95)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    return what_to_keep(variants, effects)


def test_of_several_better_ones_the_one_that_gains_most_is_kept() -> None:
    found = kept(
        HIGHER,
        flat("plain", 0.0),
        flat("some", 0.5),
        flat("most", 1.0),
        flat("less", 0.25),
        flat("idle", 0.0, acted=False),
    )
    assert found == ("By nDCG@1: keep most; some, less: also better than plain; idle: did not act.")


def test_where_lower_is_better_the_lowest_is_kept() -> None:
    found = kept(LOWER, flat("plain", 100), flat("more", 150), flat("least", 50), flat("less", 90))
    assert found == (
        "By total_tokens: keep least; less: also better than plain; more: worse than plain."
    )


def test_a_variant_that_acted_and_changed_nothing_is_not_distinguishable() -> None:
    found = kept(HIGHER, flat("plain", 0.5), flat("other", 0.5))
    assert found == "By nDCG@1: keep plain; other: not distinguishable from plain."


@pytest.mark.parametrize(
    ("metrics", "losses"),
    [
        (HIGHER, [("c", 1.0, 0.0), ("b", 0.75, 0.5)]),
        (LOWER, [("d", 0.0, 0.5), ("e", 0.25, 0.5)]),
    ],
)
def test_the_largest_losses_come_first(
    metrics: tuple[object, ...], losses: list[tuple[str, float, float]]
) -> None:
    before = {"a": 1.0, "b": 0.75, "c": 1.0, "d": 0.0, "e": 0.25, "f": None}
    after = {"a": 1.0, "b": 0.5, "c": 0.0, "d": 0.5, "e": 0.5, "f": 1.0}
    variants = [
        Measured(name="first", acted=True, values=[before]),
        Measured(name="second", acted=True, values=[after]),
    ]
    effects, family = variant_effects(
        metrics,  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        variants,
        dict.fromkeys(before),
        confidence=0.95,
    )
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
