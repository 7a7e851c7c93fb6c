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
    numbers = to_fixed_point(values, 1000)
    assert np.array_equal(numbers, np.rint(numbers))
    assert float(np.abs(numbers).max()) * 1000 <= 2.0**52
    assert float(numbers.sum()) == float(np.cumsum(numbers[::-1])[-1])
    # The unit is the finest one: with half of it, sums would not stay whole.
    unit = 2.0 ** round(float(np.log2(np.abs(values / numbers).max())))
    assert float(np.abs(numbers * unit - values).max()) <= 0.5 * unit
    assert 2.0 ** (np.ceil(np.log2(np.abs(values).max())) + 10) > 2.0**51 * unit
