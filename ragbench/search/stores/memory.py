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
from ragbench.core.reading import Reading, words_of
from ragbench.errors import InputError, StoreError
from ragbench.io.atomic import written_whole
from ragbench.plugins import NDArray, np
from ragbench.private_files import make_private_folder
from ragbench.search.stores.base import CollectionInfo, Effort, Rankings, Row, Rows, other_form
from ragbench.search.stores.database import WritableDatabase
from ragbench.search.stores.record import StoredChunk, encode, searched_fields

_INDEX = "collection.json"
_VERSION = 2
"""Of the files of a collection: another one is refused, as `other_form` says."""
_FIRST_ROWS = 256
"""Vectors that a new array has room for, so that small batches do not grow it one by one."""
_ROUNDING = 1e-5
"""More than float32 can be wrong by for vectors of unit length."""


class MemoryDatabase(WritableDatabase):
    """Collections of an address ``memory:FOLDER``, or, of ``memory:``, until the process ends."""

    def __init__(self, address: str = "memory:") -> None:
        """A database of NumPy collections, in the address' folder or, without one, in memory.

        Without a folder the collections are gone when the process ends.
        """
        folder = None
        path = address.removeprefix("memory:")
        if path:
            folder = Path(path)
        super().__init__(address, folder=folder)
        self._collections: dict[str, Memory] = {}
        """The collections that this process has opened, by name."""

    def load(self) -> tuple[type[Exception], ...]:
        """The exceptions of this store: only reading and writing its folder can fail.

        There is no package to import: the store is NumPy, in the process.
        """
        return (OSError,)

    def connect(self) -> None:
        """Connects to nothing.

        Collections are objects of this process, and `connection` is None.
        """

    def disconnect(self, connection: None) -> None:
        """Writes the changed collections into their folders; there is no connection to close.

        Chunks written since the last `write_info` are in memory alone until then.
        """
        for collection in self._collections.values():
            collection.save()

    def names(self, connection: None) -> list[str]:
        """The names of the collections in this process and of those in the folder.

        A folder's name holds the collection's in escaped form, as `_collection_folder` writes it.
        """
        names = set(self._collections)
        if self.folder is not None:
            for path in self.folder.glob(f"*/{_INDEX}"):
                names.add(unquote(path.parent.name))
        return list(names)

    def make(self, connection: None, info: CollectionInfo) -> None:
        """Makes an empty collection, in the folder too, so that other processes see its name.

        `create` has checked that the name is free.
        """
        folder = self._collection_folder(info.name)
        collection = Memory(info, self.address, folder)
        self._collections[info.name] = collection
        collection.save()

    def attach(self, connection: None, name: str) -> Memory | None:
        """The collection of a name, read from its folder once; None where there is none.

        All that open it share one object, so that each sees the others' writes.
        """
        if name not in self._collections:
            folder = self._collection_folder(name)
            if folder is None or not (folder / _INDEX).is_file():
                return None
            self._collections[name] = Memory.load(name, self.address, folder)
        return self._collections[name]

    def detach(self, connection: None, name: str) -> None:
        """Writes the collection's changes into its folder when its last use has ended.

        The collection stays in memory: a database without a folder has it nowhere else.
        """
        if name in self._collections:
            self._collections[name].save()

    def remove(self, connection: None, name: str) -> None:
        """Removes a collection from memory and from its folder.

        The index file goes first: without it the folder is no collection, even if this is
        interrupted.
        """
        self._collections.pop(name, None)
        folder = self._collection_folder(name)
        if folder is not None and folder.is_dir():
            # First the file without which the others are not a collection: this may be interrupted.
            (folder / _INDEX).unlink(missing_ok=True)
            shutil.rmtree(folder)

    def _collection_folder(self, name: str) -> Path | None:
        """The folder of a collection, which has its name in escaped form.

        None where all is in memory. `names` reads the name back from it: another way to escape
        would lose collections that are there.
        """
        if self.folder is None:
            return None
        # A name may hold characters that a file's name may not. Dots are escaped too, as "." and
        # ".." would lead to other folders.
        file_name = quote(name, safe=" ").replace(".", "%2E")
        return self.folder / file_name


class Memory:
    """One collection; see `ragbench.search.stores.base.Writer`. Several threads may use it."""

    is_exact = True
    # What `stored` and `nearest` give is already a chunk, shared by all results: hits are copies.
    read = staticmethod(scored_chunk)

    def __init__(self, info: CollectionInfo, address: str, folder: Path | None = None) -> None:
        """An empty collection of chunks and vectors in memory; `load` fills one from its folder.

        Chunks, vectors and digests lie at the same positions or under the same ids: all change
        together.

        Args:
            info: its name, the length of its vectors, and what made them.
            address: of the database, for errors.
            folder: where it is saved; None keeps it in memory alone.
        """
        self._info = info
        self._address = address
        self._folder = folder
        self._lock = threading.RLock()
        self._chunks: list[Chunk] = []
        """The collection's chunks, in the order of the rows of `_vectors`."""
        self._digests: dict[str, str] = {}
        """The digest of each chunk, by id: an indexing embeds only chunks of another digest."""
        self._positions: dict[str, int] = {}
        """The position of each id in `_chunks`, which is its row in `_vectors`."""
        self._vectors: Rows = np.zeros((0, info.dimension), dtype=np.float32)
        """The chunks' vectors; behind them there may be unused rows, as room for more."""
        self._passing_filter: str | None = None
        """The filter that was used last; None where chunks have changed since."""
        self._passing_positions: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        """The positions of the chunks that pass the filter that was used last."""
        self._unsaved = True
        """Whether the folder lacks changes that are in memory: `save` writes only then."""

    @classmethod
    def load(cls, name: str, address: str, folder: Path) -> Memory:
        """The collection that `_write_folder` wrote into a folder.

        The files and fields are those of that method: another form raises `_VERSION`.

        Raises:
            StoreError: another release wrote it, or a file is damaged or does not fit the others.
        """
        with Reading(lambda error: _damaged_collection(address, name, error)):
            index: dict[str, Any] = json.loads((folder / _INDEX).read_bytes())
            if index["version"] != _VERSION:
                raise other_form(address, name)
            info = CollectionInfo(
                name=name,
                dimension=index["dimension"],
                identity=index["identity"],
                complete=index["complete"],
            )
            collection = cls(info, address, folder)
            lines = (folder / index["chunks"]).read_bytes().splitlines()
            for line in lines:
                fields = orjson.loads(line)
                collection._chunks.append(stored_chunk(fields, None))
                collection._digests[fields["chunk_id"]] = fields["digest"]
            # Without pickles: a file that somebody else wrote could run code.
            with np.load(folder / index["vectors"], allow_pickle=False) as arrays:
                collection._vectors = arrays["vectors"]
            shape = (len(lines), info.dimension)
            if collection._vectors.shape != shape or len(lines) != index["count"]:
                raise ValueError("its parts do not fit together")
        collection._number_chunks()
        collection._unsaved = False
        return collection

    def _number_chunks(self) -> None:
        """Notes anew at which position each chunk is, after chunks were read or removed.

        Vectors lie at the same positions in their array, so ids lead to both.
        """
        self._positions = {chunk.id: number for number, chunk in enumerate(self._chunks)}

    def save(self) -> None:
        """Writes the collection into its folder, if it has one and something has changed.

        Deferred writes make an indexing of many batches fast; `write_info` calls this.
        """
        # Held while writing: a write in between would leave files that do not fit.
        with self._lock:
            if self._folder is not None and self._unsaved:
                try:
                    self._write_folder(self._folder)
                except (OSError, InputError) as error:
                    raise StoreError(
                        f"{self._address}: {self._folder} cannot be written: {error}"
                    ) from error
            self._unsaved = False

    def _write_folder(self, folder: Path) -> None:
        """Writes the collection's chunks and vectors into its folder.

        The index file, written last, names the two others: a reader sees the old state or the new
        one. What `load` reads, and in which order files appear, cannot change here alone.
        """
        lines = b"".join(_line_of_chunk(encode(chunk)) for chunk in self._chunks)
        vectors = self._vectors[: len(self._chunks)]
        # Any size that fits a file's name: it tells the states of one folder apart.
        content = blake2b(lines, digest_size=10)
        content.update(np.ascontiguousarray(vectors).tobytes())
        digest = content.hexdigest()
        chunks_file = folder / f"chunks-{digest}.jsonl"
        vectors_file = folder / f"vectors-{digest}.npz"
        make_private_folder(folder)
        # The files' names hold the digest of the content: files that are there hold just this.
        are_written = chunks_file.is_file() and vectors_file.is_file()
        if not are_written:
            with written_whole(chunks_file, is_text=False) as file:
                file.write(lines)
            with written_whole(vectors_file, is_text=False) as file:
                np.savez(file, vectors=vectors)
        index = {
            "version": _VERSION,
            "dimension": self._info.dimension,
            "identity": self._info.identity,
            "complete": self._info.complete,
            "count": len(self._chunks),
            "chunks": chunks_file.name,
            "vectors": vectors_file.name,
        }
        with written_whole(folder / _INDEX) as file:
            file.write(json.dumps(index, indent=2).encode() + b"\n")
        # Nothing refers to the files of earlier states any more.
        for file_of_state in [*folder.glob("chunks-*.jsonl"), *folder.glob("vectors-*.npz")]:
            if file_of_state not in (chunks_file, vectors_file):
                file_of_state.unlink(missing_ok=True)

    def read_info(self) -> CollectionInfo:
        """The collection's record of itself as it was written last.

        No other process changes it meanwhile. A search reads the embedder from it.
        """
        return self._info

    def write_info(self, info: CollectionInfo) -> None:
        """Keeps the collection's record of itself, and saves all chunks written before.

        A record that calls the collection complete is so never on the disk before its chunks.
        """
        with self._lock:
            self._info = info
            self._unsaved = True
            self.save()

    def write(self, chunks: Sequence[StoredChunk], rows: Rows) -> None:
        """Adds chunks with their vectors at the end.

        A chunk with a known id replaces the old chunk.
        """
        with self._lock:
            positions: list[int] = []
            for record in chunks:
                position = self._positions.setdefault(record.id, len(self._chunks))
                # A copy of its own, which later changes by the caller do not reach.
                chunk = stored_chunk(orjson.loads(record.body), None)
                # Behind the last chunk the slice is empty, and the list grows by one.
                self._chunks[position : position + 1] = [chunk]
                self._digests[record.id] = record.digest
                positions.append(position)
            self._make_room(len(self._chunks))
            self._vectors[positions] = rows
            self._note_change()

    def _make_room(self, size: int) -> None:
        """Grows the array of vectors to at least `size` rows, by doubling.

        Filling it takes linear time.
        """
        if size <= len(self._vectors):
            return
        capacity = max(size, 2 * len(self._vectors), _FIRST_ROWS)
        larger = np.zeros((capacity, self._info.dimension), dtype=np.float32)
        larger[: len(self._vectors)] = self._vectors
        self._vectors = larger

    def _note_change(self) -> None:
        """Forgets which chunks passed the last filter, and notes that the folder is behind.

        Every write calls this: an old selection would hide new chunks or point at removed ones.
        """
        self._passing_filter = None
        self._unsaved = True

    def remove(self, ids: Sequence[str]) -> None:
        """Removes chunks.

        The vectors of the others move up, and spare room behind them is given up.
        """
        with self._lock:
            # An id that is not there gives the position None, which is no row.
            removed = {self._positions.get(id_) for id_ in ids}
            remaining = [row for row in range(len(self._chunks)) if row not in removed]
            self._vectors = self._vectors[remaining]
            self._chunks = [self._chunks[row] for row in remaining]
            self._number_chunks()
            self._digests = {id_: self._digests[id_] for id_ in self._positions}
            self._note_change()

    def stored(self, ids: Sequence[str]) -> list[Chunk]:
        """The chunks of those ids that are there.

        They are the collection's own objects: `read` makes copies of them for results. Ids without
        a chunk are left out.
        """
        with self._lock:
            chunks: list[Chunk] = []
            for id_ in ids:
                # In the order of the ids that were asked for, which no caller relies on.
                position = self._positions.get(id_)
                if position is not None:
                    chunks.append(self._chunks[position])
            return chunks

    def rows(self, ids: Sequence[str]) -> dict[str, Rows]:
        """The vectors of those chunks of these ids that the collection has, by id.

        Each is a copy: a view would keep the whole array in memory, and change with it.
        """
        with self._lock:
            rows: dict[str, Rows] = {}
            for id_ in ids:
                position = self._positions.get(id_)
                if position is not None:
                    # A copy, which neither changes with a later write nor keeps the whole array.
                    rows[id_] = self._vectors[position].copy()
            return rows

    def digests(self) -> dict[str, str]:
        """A copy of the chunks' digests, by id.

        An indexing compares them with the corpus while it writes.
        """
        with self._lock:
            return dict(self._digests)

    def count(self) -> int:
        """How many chunks the collection has; reports show it.

        The array of vectors may have room for more.
        """
        return len(self._chunks)

    def condition(self, filters: Filter | None, native: object) -> Filter | None:
        """The filter as `nearest` takes it: unchanged, since Python executes it chunk by chunk.

        Other stores translate it here into their engine's language. There is none here, so that a
        filter in an engine's own syntax, `native`, is ignored.
        """
        return filters

    def nearest(self, rows: Rows, limit: int, condition: Filter | None, effort: Effort) -> Rankings:
        """The chunks nearest to each query, by comparing every vector, whatever the effort.

        Rough scores of all queries come from one product of matrices; `_nearest_to_query` scores
        the best again.
        """
        with self._lock:
            # The array may be longer: see `_make_room`.
            searched = self._vectors[: len(self._chunks)]
            passing = None
            if condition is not None:
                passing = self._positions_passing(condition)
                searched = searched[passing]
            if not len(searched):
                return [[] for _ in rows]
            if len(rows) == 1:
                # A product with one vector is faster than one with a matrix of one row.
                rough_scores = (searched @ rows[0])[None]
            else:
                rough_scores = rows @ searched.T
            rankings: list[list[Row]] = []
            for query, scores in zip(rows, rough_scores, strict=True):
                rankings.append(self._nearest_to_query(query, scores, passing, limit))
            return rankings

    def _positions_passing(self, filters: Filter) -> NDArray[np.intp]:
        """The positions of the chunks that pass a filter, in order.

        The positions for the last filter are kept: a run searches with one filter, question after
        question, and testing every chunk is slow.
        """
        # The filter's text is the key: to Python a filter for 1 equals one for True.
        key = repr(filters)
        if self._passing_filter != key:
            passes = matcher(filters)
            passing = [passes(searched_fields(chunk)) for chunk in self._chunks]
            self._passing_filter = key
            self._passing_positions = np.flatnonzero(np.array(passing, dtype=np.bool_))
        return self._passing_positions

    def _nearest_to_query(
        self, query: Rows, rough_scores: Rows, passing: NDArray[np.intp] | None, k: int
    ) -> list[Row]:
        """The `k` rows nearest to one query, scored as if it were the only one.

        How float32 rounds depends on what else is multiplied along. So each row that comes into
        question is scored again by itself, in float64: a batch changes nothing, and equals tie.

        Args:
            rough_scores: what each searched row scores, up to that rounding.
            passing: the positions of the searched rows; None where all are searched.
        """
        threshold = -math.inf
        if k < len(rough_scores):
            kth_from_below = len(rough_scores) - k
            # `np.partition` orders upwards: the k-th best lies k places from the end.
            kth_best = np.partition(rough_scores, kth_from_below)[kth_from_below]
            threshold = kth_best - _ROUNDING
        positions = (rough_scores >= threshold).nonzero()[0]
        if passing is not None:
            positions = passing[positions]
        vectors = self._vectors[positions].astype(np.float64)
        scores = (vectors * query).sum(axis=1)
        # A stable order: which of equal scores are cut is the same each time.
        if k < len(scores):  # `top_k` sorts them, so here is only a cut
            order = np.argsort(-scores, kind="stable")[:k]
            positions = positions[order]
            scores = scores[order]
        rows: list[Row] = []
        for position, score in zip(positions.tolist(), scores.tolist(), strict=True):
            chunk = self._chunks[position]
            rows.append(Row(chunk.id, chunk, score))
        return rows


def _damaged_collection(address: str, name: str, error: Exception) -> StoreError:
    """The error for a collection in a folder whose files cannot be read or do not fit together.

    It asks for a new indexing, which alone can mend the folder.
    """
    problem = f"the collection '{name}' is damaged ({words_of(error)}): index anew"
    return StoreError(f"{address}: {problem}")


def _line_of_chunk(record: StoredChunk) -> bytes:
    """A chunk's line in the collection's file: its JSON with its digest as one more field.

    With the digest on the line a later indexing sees which chunks have changed without encoding all
    of them again. `Memory.load` reads the same form.
    """
    return b'%b,"digest":"%b"}\n' % (record.body[:-1], record.digest.encode())
