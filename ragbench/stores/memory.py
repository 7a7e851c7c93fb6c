"""The store ``memory``: NumPy arrays, searched exactly; kept in a folder where one is named."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ragbench.core.chunk import Chunk, scored_chunk
from ragbench.core.filters import Filter
from ragbench.errors import StoreError
from ragbench.stores.base import NORMAL, CollectionInfo, Effort, Vectors
from ragbench.stores.checks import (
    check_dimension,
    check_identity,
    check_ids,
    check_k,
    check_name,
    prepared,
    unit_rows,
)
from ragbench.stores.engine import Translated
from ragbench.stores.memory_filters import FilterIndex
from ragbench.stores.memory_folder import MemoryFolder
from ragbench.stores.record import decode, similarity, top_k
from ragbench.stores.words import WordsForm, check_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FIRST_ROWS = 256
_ROUGH = 1e-5
"""More than float32 can be wrong by for vectors of unit length."""


def open_memory(address: str) -> MemoryDatabase:
    """The database of an address ``memory:`` or ``memory:FOLDER``."""
    return MemoryDatabase(address.removeprefix("memory:"))


class MemoryDatabase:
    """Collections in memory: in one folder each, or, without a path, until the process ends."""

    def __init__(self, path: str = "") -> None:
        self.address = f"memory:{path}"
        self.folder = Path(path) if path else None
        self._folder = MemoryFolder(self.folder) if self.folder else None
        self._stores: dict[str, MemoryStore] = {}

    def collections(self) -> list[str]:
        return sorted(self._stores.keys() | set(self._folder.names() if self._folder else ()))

    def create(
        self,
        name: str,
        *,
        dimension: int,
        identity: Mapping[str, Any] | None = None,
        words: WordsForm | None = None,
    ) -> MemoryStore:
        check_words(self, words)
        check_name(name)
        check_dimension(dimension)
        if name in self.collections():
            raise StoreError(f"{self.address}: there is a collection '{name}' already")
        info = CollectionInfo(name=name, dimension=dimension, identity=check_identity(identity))
        store = MemoryStore(info, self._folder)
        store.save()
        self._stores[name] = store
        return store

    def open(self, name: str) -> MemoryStore:
        check_name(name)
        if name not in self._stores:
            names = self.collections()
            if self._folder is None or name not in names:
                known = f"there are: {', '.join(names)}" if names else "it holds none"
                raise StoreError(f"{self.address}: there is no collection '{name}'; {known}")
            self._stores[name] = MemoryStore.load(name, self._folder)
        return self._stores[name]

    def drop(self, name: str) -> None:
        check_name(name)
        store = self._stores.pop(name, None)
        if store is not None:
            store.discard()
        if self._folder is not None:
            self._folder.remove(name)

    def close(self) -> None:
        for store in self._stores.values():
            store.close()


class MemoryStore:
    """One collection in memory. Several threads may use it."""

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
    def load(cls, name: str, folder: MemoryFolder) -> Self:
        saved = folder.read(name)
        store = cls(saved.info, folder)
        store._chunks = list(saved.chunks)
        store._digests = dict(saved.digests)
        store._rows = {chunk.id: row for row, chunk in enumerate(saved.chunks)}
        store._vectors = saved.vectors
        store._unsaved = False
        return store

    def info(self) -> CollectionInfo:
        """See `ragbench.stores.base.VectorStore`."""
        return self._info

    def mark(
        self, *, complete: bool, identity: Mapping[str, Any] | None = None, lease: str = ""
    ) -> None:
        """See `ragbench.stores.base.VectorStore`; writes the folder."""
        with self._lock:
            kept = self._info.identity if identity is None else check_identity(identity)
            self._info = replace(self._info, complete=complete, identity=kept, lease=lease)
            self._unsaved = True
            self.save()

    def upsert(self, chunks: Sequence[Chunk], vectors: Vectors) -> None:
        records, rows = prepared(chunks, vectors, self._info.dimension)
        with self._lock:
            places: list[int] = []
            for record in records:
                place = self._rows.setdefault(record.id, len(self._chunks))
                own = decode(record.body)
                if place == len(self._chunks):
                    self._chunks.append(own)
                else:
                    self._chunks[place] = own
                self._digests[record.id] = record.digest
                places.append(place)
            self._grow(len(self._chunks))
            self._vectors[places] = rows
            self._filters, self._unsaved = None, True

    def delete(self, ids: Sequence[str]) -> None:
        """See `ragbench.stores.base.VectorStore`."""
        with self._lock:
            gone = {self._rows[value] for value in check_ids(ids) if value in self._rows}
            if not gone:
                return
            kept = [row for row in range(len(self._chunks)) if row not in gone]
            self._vectors = self._vectors[kept]
            self._chunks = [self._chunks[row] for row in kept]
            self._rows = {chunk.id: row for row, chunk in enumerate(self._chunks)}
            self._digests = {id_: self._digests[id_] for id_ in self._rows}
            self._filters, self._unsaved = None, True

    def get(self, ids: Sequence[str]) -> dict[str, Chunk]:
        """See `ragbench.stores.base.VectorStore`."""
        with self._lock:
            return {
                value: scored_chunk(self._chunks[self._rows[value]], None)
                for value in check_ids(ids)
                if value in self._rows
            }

    def vectors(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        with self._lock:
            return {
                value: self._vectors[self._rows[value]].copy()
                for value in check_ids(ids)
                if value in self._rows
            }

    def digests(self) -> dict[str, str]:
        """See `ragbench.stores.base.VectorStore`."""
        with self._lock:
            return dict(self._digests)

    def count(self) -> int:
        """See `ragbench.stores.base.VectorStore`."""
        return len(self._chunks)

    @property
    def is_exact(self) -> bool:
        """See `ragbench.stores.base.VectorStore`."""
        return True

    def search(
        self,
        vectors: Vectors,
        *,
        k: int,
        filters: Filter | None = None,
        effort: Effort = NORMAL,
    ) -> list[list[Chunk]]:
        check_k(k)
        queries = unit_rows(vectors, self._info.dimension, what="query vector")
        with self._lock:
            if not self._chunks:
                return [[] for _ in queries]
            rows = None if filters is None else self._passing(filters)
            stored = self._vectors[: len(self._chunks)]
            looked = stored if rows is None else stored[rows]
            rough = (looked @ queries[0])[None] if len(queries) == 1 else queries @ looked.T

            def fetch(asked: Sequence[int], limit: int) -> list[list[Chunk]]:
                return [self._best(queries[at], rough[at], rows, limit) for at in asked]

            return top_k(fetch, len(queries), k)

    def save(self) -> None:
        """Writes the folder, where there is one and something has changed."""
        with self._lock:
            if self._folder is not None and self._unsaved:
                vectors = self._vectors[: len(self._chunks)]
                self._folder.write(self._info, self._chunks, vectors)
            self._unsaved = False

    def discard(self) -> None:
        """Forgets what is not written, as the collection is removed."""
        self._folder = None

    def close(self) -> None:
        """Writes what is not written yet; the collection can be used further."""
        self.save()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

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
    ) -> list[Chunk]:
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
        scores = [similarity(score) for score in exact.tolist()]
        found = places.tolist()
        if len(scores) == limit > 1 and scores[-1] < min(scores[:-1]):
            del found[-1]  # it was looked at only to see whether it ties
        chunks = self._chunks
        return [
            scored_chunk(chunks[place], score) for place, score in zip(found, scores, strict=False)
        ]

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
