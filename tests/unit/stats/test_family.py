"""The joint test of several metrics and slices."""

from __future__ import annotations

import importlib
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragbench.errors import ConfigError
from ragbench.stats.family import family_test
from ragbench.stats.paired import PairedSample
from tests.unit.stats.builders import sample, stepped_down


def p_value(values: list[float], null_mean: float | None = 0.0, **options: Any) -> float:
    """Of one test: for a mean below the null, or away from 0."""
    nulls = None if null_mean is None else [null_mean]
    (found,) = family_test([sample(values)], null_means=nulls, **options).tests
    return found.p_value


def written_out(
    tests: list[dict[str, list[float]]], null_means: list[float], *, two_sided: bool
) -> list[float]:
    """Step-down p-values by every arrangement of the clusters' signs."""
    names = sorted({name for test in tests for name in test})
    totals = np.array(
        [
            [sum(value - null for value in test.get(name, [])) for name in names]
            for test, null in zip(tests, null_means, strict=True)
        ]
    )
    norms = np.sqrt((totals**2).sum(axis=1)) + 1e-300
    signs = np.array(list(product((1.0, -1.0), repeat=len(names))))
    drawn = (totals / norms[:, None]) @ signs.T
    return stepped_down(np.abs(drawn) if two_sided else -drawn)


TIED = st.sampled_from([-1.0, -2 / 3, -0.5, -1 / 3, 0.0, 0.1, 0.2, 0.3, 1 / 3, 0.5, 1.0])


def test_drawn_p_values_are_near_the_exact_ones_and_the_same_numbers_everywhere() -> None:
    stats: Any = importlib.import_module("scipy.stats")
    values = [-1.0] * 24 + [1.0] * 12
    exact = float(stats.binom.cdf(12, 36, 0.5))
    assert abs(p_value(values, resamples=40_000) - exact) < 4 * (exact / 40_000) ** 0.5
    assert p_value(values) == p_value(values[::-1])
    assert p_value(values, seed=5) != p_value(values, seed=6)


def test_bad_options_are_refused() -> None:
    for resamples, seed, option in ((0, 0, "resamples"), (1, -1, "seed")):
        with pytest.raises(ConfigError, match=option):
            family_test([sample([0.1])], resamples=resamples, seed=seed)


@pytest.mark.parametrize(("metrics", "cases"), [(2, 6), (9, 7)])
def test_equal_metrics_are_one_test(metrics: int, cases: int) -> None:
    """All cases lost: 2^-n however often they are asked about; Holm would multiply it."""
    found = family_test([sample([-1.0] * cases)] * metrics, null_means=[0.0] * metrics)
    assert found.p_values == (2**-cases,) * metrics
    assert (found.size, found.resolution) == (metrics, 0.0)


def test_correlated_metrics_lose_less_power_than_by_holm() -> None:
    """Eight nearly equal metrics, all down: the joint level is far above a level divided by 8."""
    draw = np.random.default_rng(3)
    shared = draw.normal(-0.05, 0.2, 100)
    samples = [sample([float(v) for v in shared + draw.normal(0, 0.02, 100)]) for _ in range(8)]
    found = family_test(samples, null_means=[0.0] * 8)
    assert 0.025 < found.level <= 0.05
    apart = [sample([float(v) for v in draw.normal(0, 0.2, 100)]) for _ in range(8)]
    assert 0.004 < family_test(apart, null_means=[0.0] * 8).level < 0.009  # 0.05 / 8 = 0.00625


@given(st.lists(TIED, min_size=1, max_size=9))
def test_a_p_value_is_the_share_of_all_arrangements(values: list[float]) -> None:
    cases = {f"{at:02}": [value] for at, value in enumerate(values)}
    for two_sided, null_mean in ((False, 0.0), (True, None)):
        expected = written_out([cases], [0.0], two_sided=two_sided)
        assert [p_value(values, null_mean)] == pytest.approx(expected)


@pytest.mark.parametrize("two_sided", [True, False])
def test_several_tests_step_down_over_every_arrangement(two_sided: bool) -> None:
    """Ten clusters of one to three cases, of which the last test has eight; own limits each."""
    draw = np.random.default_rng(21)
    names = [f"d{at}" for at in range(10)]
    shared = {name: draw.normal(-0.3, 0.5, 1 + at % 3) for at, name in enumerate(names)}
    tests = [
        {name: list(values) for name, values in shared.items()},
        {name: list(values + draw.normal(0, 0.3, len(values))) for name, values in shared.items()},
        {name: list(draw.normal(0.1, 5.0, 2)) for name in names},
        {name: list(draw.normal(-0.4, 0.4, 2)) for name in names[:8]},
    ]
    null_means = [0.0] * 4 if two_sided else [0.0, -0.1, 0.5, -0.05]
    samples: list[PairedSample] = []
    for test in tests:
        cases = {f"{name}-{at}": v for name, values in test.items() for at, v in enumerate(values)}
        samples.append(sample(cases.values(), [one.split("-")[0] for one in cases]))
    found = family_test(samples, null_means=None if two_sided else null_means)
    assert (found.size, found.resolution) == (4, 0.0)
    expected = written_out(tests, null_means, two_sided=two_sided)
    assert list(found.p_values) == pytest.approx(expected)
    assert len({round(p_value, 6) for p_value in expected}) >= 3


def test_what_is_drawn_has_no_p_value_below_one_of_the_draws() -> None:
    """Of thirty losses no arrangement that is drawn is as extreme."""
    both = [sample([-1.0] * 30), sample([-1.0] * 30, first=30)]
    found = family_test(both, null_means=[0.0, 0.0], resamples=20_000)
    assert (*found.p_values, found.resolution) == (1 / 20_001,) * 3
