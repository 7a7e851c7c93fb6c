"""Filters over chunks in memory, by columns instead of chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragbench.records.filters import And, Filter, In, Not, Or, Range, equality_key
from ragbench.stores.record import StoredChunk, label, number_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["FilterIndex"]


class FilterIndex:
    """Which rows hold which value; made of one state of a collection."""

    def __init__(self, chunks: Sequence[StoredChunk]) -> None:
        """Reads the labels and numbers of the chunks, in the order of their rows."""
        self._size = len(chunks)
        self._rows: dict[str, list[int]] = {}
        self._numbers: dict[str, tuple[list[int], list[float]]] = {}
        for row, chunk in enumerate(chunks):
            for name in chunk.labels:
                self._rows.setdefault(name, []).append(row)
            for name, value in chunk.numbers.items():
                rows, values = self._numbers.setdefault(name, ([], []))
                rows.append(row)
                values.append(value)

    def mask(self, filters: Filter) -> NDArray[np.bool_]:
        """True for every row whose metadata pass."""
        import numpy as np

        found = np.full(self._size, isinstance(filters, And), dtype=np.bool_)
        if isinstance(filters, And):
            for part in filters.filters:
                found &= self.mask(part)
            return found
        if isinstance(filters, Or):
            for part in filters.filters:
                found |= self.mask(part)
            return found
        if isinstance(filters, Not):
            return np.logical_not(self.mask(filters.filter))
        if isinstance(filters, Range):
            self._add_range(found, filters)
            return found
        values = filters.values if isinstance(filters, In) else (filters.value,)
        for value in values:
            key = equality_key(value)
            if key is not None:
                found[self._rows.get(label(filters.field, key), [])] = True
        return found

    def _add_range(self, found: NDArray[np.bool_], filters: Range) -> None:
        import numpy as np

        rows, listed = self._numbers.get(
            number_name(filters.field, dates=filters.of_dates), ([], [])
        )
        values = np.asarray(listed, dtype=np.float64)
        within = np.ones(len(listed), dtype=np.bool_)
        tests = {
            "gt": np.greater,
            "gte": np.greater_equal,
            "lt": np.less,
            "lte": np.less_equal,
        }
        for name, limit in filters.limits().items():
            within &= tests[name](values, limit)
        found[np.asarray(rows, dtype=np.intp)[within]] = True
