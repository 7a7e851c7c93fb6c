"""Reproducible signs and resamples, exact sums.

Only the raw 64-bit output of PCG64 is used: NumPy promises that stream for all versions, and
promises nothing of the kind for the distributions built on it (NEP 19).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WORD = 64
"""Bits in one raw draw."""

# Draws held at once: few enough for a processor cache. Changes no result.
_BLOCK = 65_536


def random_bits(seed: int, resamples: int, columns: int) -> Iterator[NDArray[np.uint8]]:
    """Fair coins in blocks of 64 columns: the first columns never depend on how many follow.

    Yields:
        Blocks of shape (resamples, 8): a row holds 64 coins, the first in the lowest bit of the
    """
    import numpy as np

    source = np.random.PCG64(seed)
    for _ in range(0, columns, WORD):
        # Little-endian on every machine: bit k of a draw is column k.
        words = np.asarray(source.random_raw(resamples), dtype="<u8")
        yield words.view(np.uint8).reshape(resamples, WORD // 8)


def signs_for(numbers: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """A random sign a number, drawn with a seed made of ``seed`` and of the numbers themselves.

    All tests under one seed share the bits of :func:`random_bits`. Without this, the luck of
    those bits would lift or lower the p-values of all data of one kind alike, and with them the
    level of the test.
    """
    import hashlib

    import numpy as np

    digest = hashlib.blake2b(numbers.astype("<i8").tobytes(), digest_size=8).digest()
    source = np.random.PCG64([seed, int.from_bytes(digest, "little")])
    words = np.asarray(source.random_raw(len(numbers)), dtype=np.uint64)
    return 1.0 - 2.0 * (words >> np.uint64(63)).astype(np.float64)


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
