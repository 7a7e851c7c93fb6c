"""Reproducible resamples, exact sums.

Only the raw 64-bit output of PCG64 is used: NumPy promises that stream for all versions, and
promises nothing of the kind for the distributions built on it (NEP 19).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Draws held at once: few enough for a processor cache. Changes no result.
_BLOCK = 65_536


def resample_counts(seed: int, resamples: int, clusters: int) -> Iterator[NDArray[np.float64]]:
    """How often each cluster is drawn when as many as there are are drawn with replacement.

    Each half of a raw draw is scaled to an index by a multiplication (Lemire 2019); the uneven
    rest, below clusters / 2^32, is far under anything that a resample can show.

    Yields:
        Blocks of shape (rows, clusters); each row sums to ``clusters``.
    """
    import numpy as np

    source = np.random.PCG64(seed)
    words = (clusters + 1) // 2
    most = max(1, _BLOCK // clusters)
    for start in range(0, resamples, most):
        rows = min(most, resamples - start)
        draws = np.asarray(source.random_raw(rows * words), dtype="<u8").view("<u4")
        halves = draws.reshape(rows, 2 * words)[:, :clusters].astype(np.uint64)
        index = ((halves * np.uint64(clusters)) >> np.uint64(32)).astype(np.int64)
        index += np.arange(rows, dtype=np.int64)[:, None] * clusters
        counts = np.bincount(index.ravel(), minlength=rows * clusters)
        yield counts.reshape(rows, clusters).astype(np.float64)


def to_fixed_point(
    values: NDArray[np.float64], largest_count: int
) -> tuple[NDArray[np.float64], int]:
    """Rounds values to whole multiples of a power of two.

    The unit is the finest one for which a sum of ``largest_count`` values of the largest size
    stays within 2^52. Whole numbers of that size add up exactly in floating point, whatever the
    order, the block size, the number of threads or fused instructions of a matrix product: a
    resampled sum is the same number on every machine, and equal sums compare as equal.
    """
    import numpy as np

    peak = float(np.max(np.abs(values), initial=0.0))
    if peak == 0.0:
        return np.zeros_like(values), 0
    exponent = int(np.frexp(peak)[1]) + (max(largest_count, 1) - 1).bit_length() - 52
    return np.rint(np.ldexp(values, -exponent)), exponent
