"""Filters by column: which rows of a collection hold which value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from ragbench.core.chunk import Chunk
from ragbench.core.filters import (
    And,
    Equals,
    Exists,
    Filter,
    In,
    Not,
    Or,
    Prefix,
    Range,
    equality_key,
    equality_keys,
    field_values,
    instant,
    number,
)
from ragbench.stores.record import searched_fields

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_EXISTS = "e:"
"""In the place of an equality key: the field is there."""
_Column: TypeAlias = tuple[list[int], list[float]]


class FilterIndex:
    """Which rows hold which value; made of one state of a collection."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._size = len(chunks)
        self._rows: dict[str, dict[str, list[int]]] = {}
        self._numbers: dict[tuple[str, bool], _Column] = {}
        for row, chunk in enumerate(chunks):
            for name, value in field_values(searched_fields(chunk)).items():
                if value is not None:
                    self._add(row, name, value)

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
        keys = self._rows.get(filters.field, {})
        for key in _wanted(filters, keys):
            found[keys.get(key, [])] = True
        return found

    def _add(self, row: int, name: str, value: object) -> None:
        keys = self._rows.setdefault(name, {})
        for key in (_EXISTS, *equality_keys(value)):
            keys.setdefault(key, []).append(row)
        found, of_dates = number(value), False
        if found is None:
            found, of_dates = instant(value), True
        if found is not None:
            rows, values = self._numbers.setdefault((name, of_dates), ([], []))
            rows.append(row)
            values.append(float(found))

    def _add_range(self, found: NDArray[np.bool_], filters: Range) -> None:
        import numpy as np

        rows, listed = self._numbers.get((filters.field, filters.of_dates), ([], []))
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


def _wanted(filters: Equals | In | Exists | Prefix, keys: dict[str, list[int]]) -> list[str]:
    if isinstance(filters, Exists):
        return [_EXISTS]
    if isinstance(filters, Prefix):
        prefix = f"t:{filters.prefix}"
        return [key for key in keys if key.startswith(prefix)]
    values = filters.values if isinstance(filters, In) else (filters.value,)
    return [key for value in values if (key := equality_key(value)) is not None]
