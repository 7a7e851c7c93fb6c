"""The store ``memory``: NumPy arrays, searched exactly; kept in a folder where one is named."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ragbench.core.chunk import Chunk, scored_chunk
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
from ragbench.stores.base import NORMAL, CollectionInfo, Effort, Row
from ragbench.stores.database import WritableDatabase
from ragbench.stores.engine import Engine, Translated
from ragbench.stores.mapping import FieldMapping
from ragbench.stores.memory_folder import MemoryFolder
from ragbench.stores.record import StoredChunk, decode, searched_fields

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FIRST_ROWS = 256
_ROUGH = 1e-5
"""More than float32 can be wrong by for vectors of unit length."""


class MemoryDatabase(WritableDatabase[None]):
    """Collections in memory: in one folder each, or, without a path, until the process ends."""

    def __init__(self, path: str = "") -> None:
        super().__init__(f"memory:{path}", Path(path) if path else None)
        self._folder = MemoryFolder(self.folder) if self.folder else None
        self._collections: dict[str, Memory] = {}

    def load(self) -> tuple[type[Exception], ...]:
        return (OSError,)

    def connect(self) -> None: ...

    def disconnect(self, connection: None) -> None:
        for one in self._collections.values():
            one.save()

    def listed(self, connection: None) -> list[str]:
        return []

    def read(self, connection: None, name: str, mapping: FieldMapping) -> Engine | None:
        return None  # nobody but ragbench fills such folders

    def names(self, connection: None) -> list[str]:
        return list(self._collections.keys() | set(self._folder.names() if self._folder else ()))

    def make(self, connection: None, info: CollectionInfo) -> None:
        self._collections[info.name] = Memory(info, self._folder)
        self._collections[info.name].save()

    def attach(self, connection: None, name: str) -> Memory | None:
        if name not in self._collections and self._folder and name in self._folder.names():
            self._collections[name] = Memory.load(name, self._folder)
        return self._collections.get(name)

    def detach(self, connection: None, name: str) -> None:
        if name in self._collections:
            self._collections[name].save()

    def remove(self, connection: None, name: str) -> None:
        self._collections.pop(name, None)
        if self._folder is not None:
            self._folder.remove(name)


def open_memory(address: str) -> MemoryDatabase:
    """The database of an address ``memory:`` or ``memory:FOLDER``."""
    return MemoryDatabase(address.removeprefix("memory:"))


class Memory:
    """One collection; see `ragbench.stores.engine.Writer`. Several threads may use it."""

    is_exact = True
    read = staticmethod(scored_chunk)

    def __init__(self, info: CollectionInfo, folder: MemoryFolder | None = None) -> None:
        import numpy as np

        self._info = info
        self._folder = folder
        self._lock = threading.RLock()
        self._chunks: list[Chunk] = []
        self._digests: dict[str, str] = {}
        self._rows: dict[str, int] = {}
        self._vectors: NDArray[np.float32] = np.zeros((0, info.dimension), dtype=np.float32)
        self._filters: Translated[NDArray[np.intp]] | None = None
        self._unsaved = True

    @classmethod
    def load(cls, name: str, folder: MemoryFolder) -> Memory:
        saved = folder.read(name)
        found = cls(saved.info, folder)
        found._chunks = list(saved.chunks)
        found._digests = dict(saved.digests)
        found._rows = {chunk.id: row for row, chunk in enumerate(saved.chunks)}
        found._vectors = saved.vectors
        found._unsaved = False
        return found

    def save(self) -> None:
        """Writes the folder, where there is one and something has changed."""
        with self._lock:
            if self._folder is not None and self._unsaved:
                vectors = self._vectors[: len(self._chunks)]
                self._folder.write(self._info, self._chunks, vectors)
            self._unsaved = False

    def read_info(self) -> CollectionInfo:
        return self._info

    def write_info(self, info: CollectionInfo) -> None:
        with self._lock:
            self._info, self._unsaved = info, True
            self.save()

    def write(self, chunks: Sequence[StoredChunk], rows: NDArray[np.float32]) -> None:
        with self._lock:
            places: list[int] = []
            for record in chunks:
                place = self._rows.setdefault(record.id, len(self._chunks))
                self._chunks[place : place + 1] = [decode(record.body)]
                self._digests[record.id] = record.digest
                places.append(place)
            self._grow(len(self._chunks))
            self._vectors[places] = rows
            self._filters, self._unsaved = None, True

    def remove(self, ids: Sequence[str]) -> None:
        with self._lock:
            gone = {self._rows[value] for value in ids if value in self._rows}
            kept = [row for row in range(len(self._chunks)) if row not in gone]
            self._vectors = self._vectors[kept]
            self._chunks = [self._chunks[row] for row in kept]
            self._rows = {chunk.id: row for row, chunk in enumerate(self._chunks)}
            self._digests = {id_: self._digests[id_] for id_ in self._rows}
            self._filters, self._unsaved = None, True

    def kept(self, ids: Sequence[str]) -> list[Chunk]:
        with self._lock:
            return [self._chunks[self._rows[value]] for value in ids if value in self._rows]

    def rows(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        with self._lock:
            known = (value for value in ids if value in self._rows)
            return {value: self._vectors[self._rows[value]].copy() for value in known}

    def digests(self) -> dict[str, str]:
        with self._lock:
            return dict(self._digests)

    def count(self) -> int:
        return len(self._chunks)

    def condition(self, filters: Filter | None, native: object) -> Filter | None:
        return filters

    def nearest(
        self,
        rows: NDArray[np.float32],
        limit: int,
        condition: Filter | None,
        effort: Effort = NORMAL,
    ) -> list[list[Row]]:
        with self._lock:
            passing = None if condition is None else self._passing(condition)
            stored = self._vectors[: len(self._chunks)]
            looked = stored if passing is None else stored[passing]
            if not len(looked):
                return [[] for _ in rows]
            rough = (looked @ rows[0])[None] if len(rows) == 1 else rows @ looked.T
            return [
                self._best(query, one, passing, limit)
                for query, one in zip(rows, rough, strict=True)
            ]

    def _passing(self, filters: Filter) -> NDArray[np.intp]:
        import numpy as np

        if self._filters is None:
            index = FilterIndex(self._chunks)
            self._filters = Translated(lambda one: np.flatnonzero(index.mask(one)))
        return self._filters(filters)

    def _best(
        self,
        query: NDArray[np.float32],
        rough: NDArray[np.float32],
        rows: NDArray[np.intp] | None,
        limit: int,
    ) -> list[Row]:
        import numpy as np

        # How float32 rounds depends on what else is multiplied along: what comes into question is
        # scored again, each row by itself, so that a batch changes nothing and equals tie.
        if limit < len(rough):
            least = np.partition(rough, len(rough) - limit)[len(rough) - limit]
            best = (rough >= least - _ROUGH).nonzero()[0]
        else:
            best = np.arange(len(rough))
        places = best if rows is None else rows[best]
        exact = (self._vectors[places].astype(np.float64) * query).sum(axis=1)
        if limit < len(exact):
            first = np.argsort(-exact, kind="stable")[:limit]
            places, exact = places[first], exact[first]
        found = zip(places.tolist(), exact.tolist(), strict=True)
        return [Row("", self._chunks[place], score) for place, score in found]

    def _grow(self, size: int) -> None:
        import numpy as np

        if size <= len(self._vectors):
            return
        room = np.zeros(
            (max(size, 2 * len(self._vectors), _FIRST_ROWS), self._info.dimension),
            dtype=np.float32,
        )
        room[: len(self._vectors)] = self._vectors
        self._vectors = room


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
