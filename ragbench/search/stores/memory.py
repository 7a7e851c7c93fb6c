"""The store ``memory``: NumPy arrays, searched exactly; kept in a folder where one is named.

In a collection's folder ``collection.json`` names the two other files, ``chunks-*.jsonl`` and
``vectors-*.npz``, by a digest of what they hold, and is written last: whoever reads sees one whole
state, the old or the new one. A line of the first is a chunk, a row of the array ``vectors`` in the
second its vector; the line's fields are those of `ragbench.search.stores.record`.
"""

from __future__ import annotations

import json
import math
import shutil
import threading
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import orjson

from ragbench.core.chunk import Chunk, scored_chunk, stored_chunk
from ragbench.core.filters import Filter, matcher
from ragbench.errors import InputError, StoreError
from ragbench.io.atomic import written_whole
from ragbench.plugins import NDArray, np
from ragbench.search.stores.base import CollectionInfo, Effort, Rankings, Row, Rows, other_form
from ragbench.search.stores.database import WritableDatabase
from ragbench.search.stores.record import StoredChunk, encode, searched_fields

_INDEX = "collection.json"
_VERSION = 2
_OF_INFO = ("dimension", "identity", "complete")
_FIRST_ROWS = 256
_ROUGH = 1e-5
"""More than float32 can be wrong by for vectors of unit length."""


class MemoryDatabase(WritableDatabase):
    """Collections of an address ``memory:FOLDER``, or, of ``memory:``, until the process ends."""

    def __init__(self, address: str = "memory:") -> None:
        path = address.removeprefix("memory:")
        super().__init__(address, folder=Path(path) if path else None)
        self._collections: dict[str, Memory] = {}

    def load(self) -> tuple[type[Exception], ...]:
        return (OSError,)

    def connect(self) -> None: ...

    def disconnect(self, connection: None) -> None:
        for one in self._collections.values():
            one.save()

    def names(self, connection: None) -> list[str]:
        kept = self.folder.glob(f"*/{_INDEX}") if self.folder else ()
        return list(self._collections.keys() | {unquote(path.parent.name) for path in kept})

    def make(self, connection: None, info: CollectionInfo) -> None:
        self._collections[info.name] = Memory(info, self.address, self._place(info.name))
        self._collections[info.name].save()

    def attach(self, connection: None, name: str) -> Memory | None:
        place = self._place(name)
        if name not in self._collections and place and (place / _INDEX).is_file():
            self._collections[name] = Memory.load(name, self.address, place)
        return self._collections.get(name)

    def detach(self, connection: None, name: str) -> None:
        if name in self._collections:
            self._collections[name].save()

    def remove(self, connection: None, name: str) -> None:
        self._collections.pop(name, None)
        place = self._place(name)
        if place and place.is_dir():
            # First the file without which the rest is not a collection.
            (place / _INDEX).unlink(missing_ok=True)
            shutil.rmtree(place)

    def _place(self, name: str) -> Path | None:
        # A name may hold characters that a file's name may not; a dot alone is not a folder of
        # ours.
        return self.folder and self.folder / quote(name, safe=" ").replace(".", "%2E")


class Memory:
    """One collection; see `ragbench.search.stores.base.Writer`. Several threads may use it."""

    is_exact = True
    read = staticmethod(scored_chunk)

    def __init__(self, info: CollectionInfo, address: str, place: Path | None = None) -> None:
        self._info = info
        self._address = address
        self._place = place
        self._lock = threading.RLock()
        self._chunks: list[Chunk] = []
        self._digests: dict[str, str] = {}
        self._rows: dict[str, int] = {}
        self._vectors: Rows = np.zeros((0, info.dimension), dtype=np.float32)
        self._passed: tuple[str, NDArray[np.intp]] = ("", np.zeros(0, dtype=np.intp))
        self._unsaved = True

    @classmethod
    def load(cls, name: str, address: str, place: Path) -> Memory:
        try:
            index: dict[str, Any] = json.loads((place / _INDEX).read_bytes())
            if index["version"] != _VERSION:
                raise other_form(address, name)
            known = {name: index[name] for name in _OF_INFO}
            found = cls(CollectionInfo(name=name, **known), address, place)
            written = (place / index["chunks"]).read_bytes()
            lines = [orjson.loads(line) for line in written.splitlines()]
            found._chunks = [stored_chunk(values, None) for values in lines]
            found._digests = {values["chunk_id"]: values["digest"] for values in lines}
            with np.load(place / index["vectors"], allow_pickle=False) as arrays:
                found._vectors = arrays["vectors"]
            size = (len(lines), known["dimension"])
            if found._vectors.shape != size or len(lines) != index["count"]:
                raise ValueError("its parts do not fit together")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            problem = f"the collection '{name}' is damaged ({error}): index anew"
            raise StoreError(f"{address}: {problem}") from error
        found._rows = {chunk.id: row for row, chunk in enumerate(found._chunks)}
        found._unsaved = False
        return found

    def save(self) -> None:
        with self._lock:
            if self._place is not None and self._unsaved:
                try:
                    self._write_folder(self._place)
                except (OSError, InputError) as error:
                    raise StoreError(
                        f"{self._address}: {self._place} cannot be written: {error}"
                    ) from error
            self._unsaved = False

    def _write_folder(self, place: Path) -> None:
        """Writes the collection; an earlier state stays whole until this one is."""
        encoded, vectors = map(encode, self._chunks), self._vectors[: len(self._chunks)]
        lines = b"".join(
            b'%b,"digest":"%b"}\n' % (one.body[:-1], one.digest.encode()) for one in encoded
        )
        state = blake2b(lines, digest_size=10)
        state.update(np.ascontiguousarray(vectors).tobytes())
        digest = state.hexdigest()
        names = {"chunks": f"chunks-{digest}.jsonl", "vectors": f"vectors-{digest}.npz"}
        info = {name: getattr(self._info, name) for name in _OF_INFO}
        index = {"version": _VERSION, **info, "count": len(self._chunks), **names}
        place.mkdir(parents=True, exist_ok=True)
        if not all((place / name).is_file() for name in names.values()):
            # The user's own documents, named by their digest.
            with written_whole(place / names["chunks"], is_text=False) as file:
                file.write(lines)
            with written_whole(place / names["vectors"], is_text=False) as file:
                np.savez(file, vectors=vectors)
        with written_whole(place / _INDEX) as file:
            file.write(json.dumps(index, indent=2).encode() + b"\n")
        for old in [*place.glob("chunks-*.jsonl"), *place.glob("vectors-*.npz")]:
            if old.name not in names.values():
                old.unlink(missing_ok=True)

    def read_info(self) -> CollectionInfo:
        return self._info

    def write_info(self, info: CollectionInfo) -> None:
        with self._lock:
            self._info, self._unsaved = info, True
            self.save()

    def write(self, chunks: Sequence[StoredChunk], rows: Rows) -> None:
        with self._lock:
            places: list[int] = []
            for record in chunks:
                place = self._rows.setdefault(record.id, len(self._chunks))
                self._chunks[place : place + 1] = [stored_chunk(orjson.loads(record.body), None)]
                self._digests[record.id] = record.digest
                places.append(place)
            size = len(self._chunks)
            if size > len(self._vectors):
                shape = (max(size, 2 * len(self._vectors), _FIRST_ROWS), self._info.dimension)
                room = np.zeros(shape, dtype=np.float32)
                room[: len(self._vectors)] = self._vectors
                self._vectors = room
            self._vectors[places] = rows
            self._passed, self._unsaved = ("", self._passed[1]), True

    def remove(self, ids: Sequence[str]) -> None:
        with self._lock:
            gone = {self._rows.get(value) for value in ids}
            kept = [row for row in range(len(self._chunks)) if row not in gone]
            self._vectors = self._vectors[kept]
            self._chunks = [self._chunks[row] for row in kept]
            self._rows = {chunk.id: row for row, chunk in enumerate(self._chunks)}
            self._digests = {id_: self._digests[id_] for id_ in self._rows}
            self._passed, self._unsaved = ("", self._passed[1]), True

    def kept(self, ids: Sequence[str]) -> list[Chunk]:
        with self._lock:
            return [self._chunks[self._rows[value]] for value in ids if value in self._rows]

    def rows(self, ids: Sequence[str]) -> dict[str, Rows]:
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

    def nearest(self, rows: Rows, limit: int, condition: Filter | None, effort: Effort) -> Rankings:
        with self._lock:
            passing = None if condition is None else self._passing(condition)
            stored = self._vectors[: len(self._chunks)]
            looked = stored if passing is None else stored[passing]
            if not len(looked):
                return [[] for _ in rows]
            rough = (looked @ rows[0])[None] if len(rows) == 1 else rows @ looked.T
            pairs = zip(rows, rough, strict=True)
            return [self._best(query, one, passing, limit) for query, one in pairs]

    def _passing(self, filters: Filter) -> NDArray[np.intp]:
        # Not the filter itself: to Python 1 and True are equal.
        if self._passed[0] != repr(filters):
            found = map(matcher(filters), map(searched_fields, self._chunks))
            self._passed = repr(filters), np.flatnonzero(np.fromiter(found, dtype=np.bool_))
        return self._passed[1]

    def _best(self, query: Rows, rough: Rows, rows: NDArray[np.intp] | None, k: int) -> list[Row]:
        # How float32 rounds depends on what else is multiplied along: what comes into question is
        # scored again, each row by itself, so that a batch changes nothing and equals tie.
        least = -math.inf
        if k < len(rough):
            least = np.partition(rough, len(rough) - k)[len(rough) - k] - _ROUGH
        best = (rough >= least).nonzero()[0]
        places = best if rows is None else rows[best]
        exact = (self._vectors[places].astype(np.float64) * query).sum(axis=1)
        if k < len(exact):
            first = np.argsort(-exact, kind="stable")[:k]
            places, exact = places[first], exact[first]
        found = zip(places.tolist(), exact.tolist(), strict=True)
        return [Row((one := self._chunks[place]).id, one, score) for place, score in found]
