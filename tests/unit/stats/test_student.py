from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import ConfigError
from ragbench.stats.mean import student_cdf, student_quantile

DEGREES = st.integers(1, 3000)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 10, 29, 30, 101, 500, 1999, 2000, 10_000])
@pytest.mark.parametrize("probability", [0.0005, 0.025, 0.5, 0.8, 0.975, 0.99999])
def test_quantiles_are_those_of_scipy(probability: float, degrees: int) -> None:
    from scipy.special import stdtrit

    expected = float(stdtrit(degrees, probability))
    assert student_quantile(probability, degrees) == pytest.approx(expected, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("degrees", [2000, 2001, 5000])
@pytest.mark.parametrize("probability", [0.8, 0.975, 0.999, 0.9999])
def test_the_expansion_for_many_degrees_is_exact_to_twelve_digits(
    probability: float, degrees: int
) -> None:
    from scipy.special import stdtrit

    expected = float(stdtrit(degrees, probability))
    assert student_quantile(probability, degrees) == pytest.approx(expected, rel=2e-12)


@given(st.floats(-50.0, 50.0), DEGREES)
def test_probabilities_are_those_of_scipy(value: float, degrees: int) -> None:
    from scipy.special import stdtr

    assert student_cdf(value, degrees) == pytest.approx(float(stdtr(degrees, value)), abs=1e-9)


@given(st.floats(1e-6, 1.0 - 1e-6), DEGREES)
def test_a_quantile_undoes_the_probability(probability: float, degrees: int) -> None:
    quantile = student_quantile(probability, degrees)
    assert student_cdf(quantile, degrees) == pytest.approx(probability, abs=1e-11)


def test_textbook_values() -> None:
    assert student_quantile(0.975, 9) == pytest.approx(2.262, abs=5e-4)
    assert student_quantile(0.95, 1) == pytest.approx(6.314, abs=5e-4)


@pytest.mark.parametrize(("probability", "degrees"), [(0.0, 3), (1.0, 3), (0.5, 0)])
def test_out_of_range_is_refused(probability: float, degrees: int) -> None:
    with pytest.raises(ConfigError):
        student_quantile(probability, degrees)
