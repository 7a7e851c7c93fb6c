from __future__ import annotations

import importlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import InputError
from ragbench.stats.decide import benjamini_hochberg, holm

P_VALUES = st.lists(st.floats(0.0, 1.0), max_size=12)


def test_holm_by_hand() -> None:
    # 4 * 0.005, 3 * 0.01, 2 * 0.03, then 1 * 0.04 raised to the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))


def test_benjamini_hochberg_by_hand() -> None:
    # 4/1 * 0.005, 4/2 * 0.01, 4/3 * 0.03 lowered to the one after, 4/4 * 0.04.
    assert benjamini_hochberg([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.02, 0.04, 0.04, 0.02))


@pytest.mark.extra("dev", package="statsmodels")
@settings(max_examples=40, deadline=None)
@given(P_VALUES.filter(bool))
def test_both_are_those_of_statsmodels(p_values: list[float]) -> None:
    reference: Any = importlib.import_module("statsmodels.stats.multitest")
    assert holm(p_values) == pytest.approx(
        list(reference.multipletests(p_values, method="holm")[1])
    )
    expected = list(reference.multipletests(p_values, method="fdr_bh")[1])
    assert benjamini_hochberg(p_values) == pytest.approx(expected)


@given(P_VALUES)
def test_adjusted_values_keep_the_order_and_only_grow(p_values: list[float]) -> None:
    for adjusted in (holm(p_values), benjamini_hochberg(p_values)):
        ranked = [after for _, after in sorted(zip(p_values, adjusted, strict=True))]
        assert ranked == sorted(ranked)
        assert all(
            before <= after * (1 + 1e-12) and after <= 1.0
            for before, after in zip(p_values, adjusted, strict=True)
        )


@given(P_VALUES)
def test_any_false_alarm_is_corrected_harder_than_their_share(p_values: list[float]) -> None:
    pairs = zip(holm(p_values), benjamini_hochberg(p_values), strict=True)
    assert all(strict >= lenient - 1e-12 for strict, lenient in pairs)


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan")])
def test_what_is_no_p_value_is_refused(bad: float) -> None:
    with pytest.raises(InputError, match="p-value 1"):
        holm([0.5, bad])
    with pytest.raises(InputError, match="p-value 1"):
        benjamini_hochberg([0.5, bad])
