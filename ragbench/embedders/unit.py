"""Rows of length 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

__all__ = ["unit_rows"]


def unit_rows(rows: ArrayLike) -> NDArray[np.float32]:
    """The rows divided by their lengths, as float32; a row of zeros stays one."""
    import numpy as np

    vectors = np.asarray(rows, dtype=np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float32] = np.zeros_like(vectors)
    np.divide(vectors, lengths, out=unit, where=lengths > 0)
    return unit
