from __future__ import annotations

import importlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import InputError
from ragbench.stats.mcnemar import mcnemar_test
from ragbench.stats.permutation import SignFlipMethod, sign_flip_test

COUNT = st.integers(0, 60)


def test_by_hand() -> None:
    # Five losses and no gain: 1/32 on one side.
    assert mcnemar_test(0, 5, alternative="less").p_value == pytest.approx(1 / 32)
    assert mcnemar_test(0, 5).p_value == pytest.approx(1 / 16)
    assert mcnemar_test(0, 5, alternative="greater").p_value == pytest.approx(1.0)


@given(COUNT, COUNT)
def test_two_sided_is_that_of_statsmodels(gained: int, lost: int) -> None:
    reference: Any = importlib.import_module("statsmodels.stats.contingency_tables")
    expected = reference.mcnemar([[3, gained], [lost, 4]], exact=True)
    assert mcnemar_test(gained, lost).p_value == pytest.approx(float(expected.pvalue))


@given(COUNT, COUNT, st.sampled_from(["less", "greater", "two-sided"]))
def test_it_is_the_sign_flip_test_of_yes_no_scores(gained: int, lost: int, side: Any) -> None:
    flips = sign_flip_test([1.0] * gained + [-1.0] * lost + [0.0] * 9, alternative=side)
    assert flips.method is SignFlipMethod.BINOMIAL
    expected = mcnemar_test(gained, lost, alternative=side).p_value
    assert flips.p_value == pytest.approx(expected)


def test_negative_counts_are_refused() -> None:
    with pytest.raises(InputError):
        mcnemar_test(-1, 2)
