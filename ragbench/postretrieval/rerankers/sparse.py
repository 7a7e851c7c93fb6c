"""Sparse matrices of scipy, which has no types."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

__all__ = ["sparse_from_edges", "sparse_from_rows"]


def sparse_from_edges(
    weights: Sequence[float] | Any, sources: Sequence[int] | Any, targets: Any, size: int
) -> Any:
    """A square matrix in rows with a weight for each edge; weights of the same edge add up."""
    edges = (weights, (sources, targets))
    return _sparse().csr_array(edges, shape=(size, size), dtype=float)


def sparse_from_rows(weights: Any, columns: Any, ends: Any, width: int) -> Any:
    """A matrix whose row i holds weights[ends[i]:ends[i + 1]] in the columns of the same places."""
    return _sparse().csr_array((weights, columns, ends), shape=(len(ends) - 1, width))


def _sparse() -> Any:
    return importlib.import_module("scipy.sparse")
