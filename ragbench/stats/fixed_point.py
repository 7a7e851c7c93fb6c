"""Floats as whole numbers, so that sums are exact in any order and on any machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["to_fixed_point"]


def to_fixed_point(
    values: NDArray[np.float64], largest_count: int
) -> tuple[NDArray[np.float64], int]:
    """Rounds values to whole multiples of a power of two.

    The unit is the finest one for which a sum of ``largest_count`` values of the largest size
    stays within 2^52. Whole numbers of that size add up exactly in floating point, whatever the
    order, the block size, the number of threads or fused instructions of a matrix product: a
    resampled sum is the same number on every machine, and equal sums compare as equal.

    Args:
        values: finite numbers.
        largest_count: largest sum of the weights with which they will be added.

    Returns:
        The whole numbers (as floats) and the exponent e of the unit: value = number * 2^e, off
        by at most half a unit.
    """
    import numpy as np

    peak = float(np.max(np.abs(values), initial=0.0))
    if peak == 0.0:
        return np.zeros_like(values), 0
    exponent = int(np.frexp(peak)[1]) + (max(largest_count, 1) - 1).bit_length() - 52
    return np.rint(np.ldexp(values, -exponent)), exponent
