"""Yes-no scores: the sign-flip test is McNemar's exact one, as SciPy and statsmodels compute it."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.stats.permutation import SignFlipMethod, sign_flip_test

COUNT = st.integers(0, 60)


def flips(gained: int, lost: int, side: Any) -> float:
    found = sign_flip_test([1.0] * gained + [-1.0] * lost + [0.0] * 9, alternative=side)
    assert found.method is SignFlipMethod.BINOMIAL
    return found.p_value


def test_by_hand() -> None:
    # Five losses and no gain: 1/32 on one side.
    assert flips(0, 5, "less") == pytest.approx(1 / 32)
    assert flips(0, 5, "two-sided") == pytest.approx(1 / 16)
    assert flips(0, 5, "greater") == pytest.approx(1.0)


@pytest.mark.extra("dev", package="statsmodels")
@given(COUNT, COUNT)
def test_two_sided_is_that_of_statsmodels(gained: int, lost: int) -> None:
    reference: Any = importlib.import_module("statsmodels.stats.contingency_tables")
    expected = reference.mcnemar([[3, gained], [lost, 4]], exact=True)
    assert flips(gained, lost, "two-sided") == pytest.approx(float(expected.pvalue))


@given(COUNT, COUNT, st.sampled_from(["less", "greater", "two-sided"]))
def test_every_side_is_the_binomial_test_of_scipy(gained: int, lost: int, side: Any) -> None:
    if gained + lost == 0:
        assert flips(0, 0, side) == 1.0
        return
    stats: Any = importlib.import_module("scipy.stats")
    expected = stats.binomtest(gained, gained + lost, 0.5, alternative=side).pvalue
    assert flips(gained, lost, side) == pytest.approx(float(expected))
