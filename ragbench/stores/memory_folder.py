"""Its folder, its filters by column.

``collection.json`` names the two other files, ``chunks-*.jsonl`` and ``vectors-*.npz``, by a digest
of what they hold, and is written last: whoever reads sees one whole state, the old or the new one.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import orjson

from ragbench.core.filters import And, Filter, Not, Or, Range
from ragbench.errors import InputError, StoreError
from ragbench.io.atomic import written_whole
from ragbench.stores.base import CollectionInfo
from ragbench.stores.record import StoredChunk, number_name, wanted_labels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "FilterIndex",
    "MemoryFolder",
    "SavedCollection",
]


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
        for name in wanted_labels(filters):
            found[self._rows.get(name, [])] = True
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


_INDEX = "collection.json"
_VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedCollection:
    """What was read from a folder."""

    info: CollectionInfo
    chunks: tuple[StoredChunk, ...]
    vectors: NDArray[np.float32]
    """One row a chunk."""


class MemoryFolder:
    """The folder that holds the collections' folders."""

    def __init__(self, path: Path) -> None:
        """Names the folder; nothing is read or written."""
        self._path = path

    def names(self) -> list[str]:
        """The collections that are there."""
        return sorted(unquote(path.parent.name) for path in self._path.glob(f"*/{_INDEX}"))

    def remove(self, name: str) -> None:
        """Removes a collection.

        Raises:
            StoreError: the folder cannot be removed.
        """
        folder = self._folder(name)
        try:
            # First the file without which the rest is not a collection.
            (folder / _INDEX).unlink(missing_ok=True)
            if folder.is_dir():
                shutil.rmtree(folder)
        except OSError as error:
            raise StoreError(f"{folder}: cannot be removed: {error.strerror}") from error

    def write(
        self, info: CollectionInfo, chunks: Sequence[StoredChunk], vectors: NDArray[np.float32]
    ) -> None:
        """Writes a collection; an earlier state stays whole until this one is.

        Raises:
            StoreError: the folder cannot be written.
        """
        import numpy as np

        folder = self._folder(info.name)
        lines = b"".join(_line(chunk) for chunk in chunks)
        state = blake2b(lines, digest_size=10)
        state.update(np.ascontiguousarray(vectors).tobytes())
        names = {
            "chunks": f"chunks-{state.hexdigest()}.jsonl",
            "vectors": f"vectors-{state.hexdigest()}.npz",
        }
        index = {
            "version": _VERSION,
            "dimension": info.dimension,
            "identity": dict(info.identity),
            "complete": info.complete,
            "count": len(chunks),
            **names,
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not all((folder / name).is_file() for name in names.values()):
                # The user's own documents, named by their digest.
                with written_whole(folder / names["chunks"], is_text=False) as file:
                    file.write(lines)
                with written_whole(folder / names["vectors"], is_text=False) as file:
                    np.savez(file, vectors=vectors)
            with written_whole(folder / _INDEX) as file:
                file.write(json.dumps(index, indent=2).encode() + b"\n")
            for old in [*folder.glob("chunks-*.jsonl"), *folder.glob("vectors-*.npz")]:
                if old.name not in names.values():
                    old.unlink(missing_ok=True)
        except (OSError, InputError) as error:
            raise StoreError(f"memory:{self._path}: {folder} cannot be written: {error}") from error

    def read(self, name: str) -> SavedCollection:
        """Reads a collection.

        Raises:
            StoreError: it is damaged.
        """
        import numpy as np

        folder = self._folder(name)
        try:
            index: dict[str, Any] = json.loads((folder / _INDEX).read_bytes())
            if index["version"] != _VERSION:
                raise StoreError(f"{folder}: written by another version of ragbench: index anew")
            with (folder / index["chunks"]).open("rb") as file:
                chunks = tuple(_chunk(line) for line in file)
            with np.load(folder / index["vectors"], allow_pickle=False) as arrays:
                vectors: NDArray[np.float32] = arrays["vectors"]
            dimension = int(index["dimension"])
            if vectors.shape != (len(chunks), dimension) or len(chunks) != index["count"]:
                raise ValueError("its parts do not fit together")
            info = CollectionInfo(
                name=name,
                dimension=dimension,
                identity=index["identity"],
                complete=index["complete"],
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"memory:{self._path}: the collection '{name}' is damaged ({error}): index anew"
            ) from error
        return SavedCollection(info=info, chunks=chunks, vectors=vectors)

    def _folder(self, name: str) -> Path:
        # A name may hold characters that a file's name may not; a dot alone is not a folder of
        # ours.
        return self._path / quote(name, safe=" ").replace(".", "%2E")


def _line(chunk: StoredChunk) -> bytes:
    values = [chunk.id, chunk.body, chunk.digest, chunk.labels, chunk.numbers]
    try:
        return orjson.dumps(values, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return json.dumps(values).encode() + b"\n"


def _chunk(line: bytes) -> StoredChunk:
    try:
        values: Any = orjson.loads(line)
    except orjson.JSONDecodeError:
        values = json.loads(line)
    identifier, body, digest, labels, numbers = values
    return StoredChunk(
        id=identifier, body=body, digest=digest, labels=tuple(labels), numbers=numbers
    )
