from __future__ import annotations

import numpy as np
import pytest

from ragbench.stats.agreement import resample_counts
from ragbench.stats.family import to_fixed_point


def test_the_stream_is_the_same_on_every_machine_and_version() -> None:
    (counts,) = resample_counts(0, 2, 5)
    assert counts.tolist() == [[0.0, 2.0, 1.0, 1.0, 1.0], [3.0, 0.0, 0.0, 1.0, 1.0]]


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e99])
def test_whole_numbers_add_up_exactly_in_any_order(scale: float) -> None:
    values = np.random.default_rng(5).normal(size=1000) * scale
    numbers, exponent = to_fixed_point(values, 1000)
    assert np.array_equal(numbers, np.rint(numbers))
    assert float(np.abs(numbers).max()) * 1000 <= 2.0**52
    assert float(numbers.sum()) == float(np.cumsum(numbers[::-1])[-1])
    unit = float(np.ldexp(1.0, exponent))
    assert float(np.abs(numbers * unit - values).max()) <= 0.5 * unit


@pytest.mark.parametrize(
    ("values", "count", "exponent"),
    [
        # 1.5 units of 2^51 stay within 2^52; of twice as many units they would not.
        ([1.5, -0.5], 1, -51),
        ([-1.5, 0.5], 1, -51),
        ([1.5], 2, -50),
        ([1.5], 3, -49),
        ([1.5], 4, -49),
        ([1.5 * 2.0**-700], 4, -749),
        ([1.5 * 2.0**700], 4, 651),
        ([0.0, 0.0], 3, 0),
    ],
)
def test_the_unit_is_the_finest_with_which_sums_stay_whole(
    values: list[float], count: int, exponent: int
) -> None:
    numbers, found = to_fixed_point(np.array(values), count)
    assert found == exponent
    assert (numbers * 2.0**exponent).tolist() == values
