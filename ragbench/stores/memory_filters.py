"""Filters by column: which rows of a collection hold which value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ragbench.core.chunk import Chunk
from ragbench.core.filters import (
    Dialect,
    Filter,
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
        """True for every row whose metadata pass a folded filter."""
        import numpy as np

        dialect: Dialect[NDArray[np.bool_]] = Dialect(
            both=np.logical_and.reduce,
            either=np.logical_or.reduce,
            denied=np.logical_not,
            equal=lambda name, values: self._held(name, map(equality_key, values)),
            within=self._within,
            exists=lambda name: self._held(name, [_EXISTS]),
            prefix=self._beginning,
        )
        return dialect(filters)

    def _held(self, name: str, keys: Iterable[str | None]) -> NDArray[np.bool_]:
        import numpy as np

        found = np.zeros(self._size, dtype=np.bool_)
        rows = self._rows.get(name, {})
        for key in keys:
            found[rows.get(key or "", [])] = True
        return found

    def _beginning(self, name: str, prefix: str) -> NDArray[np.bool_]:
        every = self._rows.get(name, {})
        return self._held(name, [key for key in every if key.startswith(f"t:{prefix}")])

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

    def _within(self, wanted: Range) -> NDArray[np.bool_]:
        import numpy as np

        rows, column = self._numbers.get((wanted.field, wanted.of_dates), ([], []))
        values = np.asarray(column, dtype=np.float64)
        within = np.ones(len(column), dtype=np.bool_)
        tests = {
            "gt": np.greater,
            "gte": np.greater_equal,
            "lt": np.less,
            "lte": np.less_equal,
        }
        for name, limit in wanted.limits().items():
            within &= tests[name](values, limit)
        found = np.zeros(self._size, dtype=np.bool_)
        found[np.asarray(rows, dtype=np.intp)[within]] = True
        return found
