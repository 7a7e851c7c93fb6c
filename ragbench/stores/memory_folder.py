"""Its folder.

``collection.json`` names the two other files, ``chunks-*.jsonl`` and ``vectors-*.npz``, by a digest
of what they hold, and is written last: whoever reads sees one whole state, the old or the new one.
A line of the first is a chunk, a row of the array ``vectors`` in the second its vector; the line's
fields are those of `ragbench.stores.plain`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import orjson

from ragbench.core.chunk import Chunk, stored_chunk
from ragbench.errors import InputError, StoreError
from ragbench.io.atomic import written_whole
from ragbench.stores.base import CollectionInfo, other_form
from ragbench.stores.record import encode

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_INDEX = "collection.json"
_VERSION = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedCollection:
    """What was read from a folder."""

    info: CollectionInfo
    chunks: tuple[Chunk, ...]
    digests: Mapping[str, str]
    """Each id with that of its chunk."""
    vectors: NDArray[np.float32]
    """One row a chunk."""


class MemoryFolder:
    """The folder that holds the collections' folders."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self) -> list[str]:
        return sorted(unquote(path.parent.name) for path in self._path.glob(f"*/{_INDEX}"))

    def remove(self, name: str) -> None:
        folder = self._folder(name)
        try:
            # First the file without which the rest is not a collection.
            (folder / _INDEX).unlink(missing_ok=True)
            if folder.is_dir():
                shutil.rmtree(folder)
        except OSError as error:
            raise StoreError(f"{folder}: cannot be removed: {error.strerror}") from error

    def write(
        self, info: CollectionInfo, chunks: Sequence[Chunk], vectors: NDArray[np.float32]
    ) -> None:
        """Writes a collection; an earlier state stays whole until this one is."""
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
        import numpy as np

        folder = self._folder(name)
        try:
            index: dict[str, Any] = json.loads((folder / _INDEX).read_bytes())
            if index["version"] != _VERSION:
                raise other_form(f"memory:{self._path}", name)
            with (folder / index["chunks"]).open("rb") as file:
                read = [_values(line) for line in file]
            chunks = tuple(stored_chunk(values, None) for values in read)
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
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(
                f"memory:{self._path}: the collection '{name}' is damaged ({error}): index anew"
            ) from error
        digests = {values["chunk_id"]: values["digest"] for values in read}
        return SavedCollection(info=info, chunks=chunks, digests=digests, vectors=vectors)

    def _folder(self, name: str) -> Path:
        # A name may hold characters that a file's name may not; a dot alone is not a folder of
        # ours.
        return self._path / quote(name, safe=" ").replace(".", "%2E")


def _line(chunk: Chunk) -> bytes:
    stored = encode(chunk)
    return f'{stored.body[:-1]},"digest":"{stored.digest}"}}\n'.encode()


def _values(line: bytes) -> dict[str, Any]:
    # A leading space says that the fast reader would change something.
    found: dict[str, Any] = json.loads(line) if line[:1] == b" " else orjson.loads(line)
    return found
