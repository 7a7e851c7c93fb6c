from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from ragbench.errors import ConfigError, InputError
from ragbench.stats.mean import proportion_interval


def test_published_values() -> None:
    # Clopper & Pearson's chart for n = 10, and the "rule of three" in its exact form.
    assert proportion_interval(3, 10) == pytest.approx((0.0667, 0.6525), abs=1e-4)
    assert proportion_interval(0, 10) == pytest.approx((0.0, 1 - 0.025**0.1))
    assert proportion_interval(0, 0) == (0.0, 1.0)


@given(st.integers(0, 60), st.integers(0, 60), st.floats(0.5, 0.999))
def test_the_same_as_scipys(successes: int, failures: int, confidence: float) -> None:
    if successes + failures == 0:
        return
    found = binomtest(successes, successes + failures).proportion_ci(confidence, method="exact")
    mine = proportion_interval(successes, successes + failures, confidence)
    assert mine == pytest.approx((found.low, found.high), abs=1e-9)


def test_counts_that_do_not_fit() -> None:
    with pytest.raises(InputError, match="3 successes of 2 trials"):
        proportion_interval(3, 2)
    with pytest.raises(ConfigError, match="confidence"):
        proportion_interval(1, 2, 1.0)
