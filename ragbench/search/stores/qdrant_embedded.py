"""Qdrant inside of the process: its own engine, by the package qdrant-edge-py.

A collection is a folder: ``collection.json``, written last, and the engine's files in ``shard``.
One process at a time can open it. Search is exact.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ragbench.errors import ForeignCollectionError, StoreError
from ragbench.io.atomic import written_whole
from ragbench.masking import mask_text
from ragbench.plugins import require
from ragbench.private_files import make_private_folder
from ragbench.safe_text import shown_line
from ragbench.search.stores.base import CollectionInfo, Effort
from ragbench.search.stores.database import (
    WritableDatabase,
    fitted_name,
    info_from_json,
    info_to_json,
    name_from_json,
)
from ragbench.search.stores.qdrant import (
    DENSE,
    WORDS,
    OwnPoints,
    Point,
    QdrantServerDatabase,
    open_server,
    point_id,
)
from ragbench.search.stores.record import WordVector

_CLIENT_FOLDER = "collection"
"""Where in a folder Qdrant's Python client keeps the collections of its local mode."""

_INFO = "collection.json"
"""Of a collection; a folder without it is none."""
_SHARD = "shard"
"""The folder of the engine's own files in that of a collection."""
_MIB = 2**20
_SPARE = 128 * _MIB
"""Bytes that stay free, of which a batch of 500 chunks may take half. The engine writes through
mapped files, some of them 32 MiB with holes: on a full disk the system ends the process (SIGBUS),
and no error can be caught."""
_PAGE = 5000
"""Points that are read at once."""


class QdrantEmbeddedDatabase(WritableDatabase):
    """Collections in a folder. The connection is the package itself."""

    ranks_words: ClassVar[bool] = True

    def __init__(self, path: Path) -> None:
        """Collections in a folder, each with a shard that is loaded at its first use."""
        super().__init__(f"qdrant:{path}", folder=path)
        self._path = path
        self._shards: dict[str, Any] = {}

    def load(self) -> tuple[type[Exception], ...]:
        """The engine raises plain ``Exception``, so everything counts as its failure."""
        require("qdrant_edge", extra="qdrant")
        return (Exception,)

    def connect(self) -> Any:
        """The package, which stands for a connection: the folder needs none."""
        return require("qdrant_edge", extra="qdrant")

    def disconnect(self, connection: Any) -> None:
        """Closes every collection that is still open: the package itself has nothing to close."""
        for name in list(self._shards):  # a copy, as `detach` takes them out
            self.detach(connection, name)

    def names(self, connection: Any) -> list[str]:
        """The collections whose making was finished."""
        names: list[str] = []
        for path in self._path.glob(f"*/{_INFO}"):
            text = path.read_text("utf-8", "replace")
            names.append(name_from_json(text, self.address))
        return names

    def make(self, connection: Any, info: CollectionInfo) -> None:
        """Makes the shard, and last the file that makes the folder a collection."""
        folder = self._folder(info.name)
        # What an interrupted making may have left there.
        shutil.rmtree(folder, ignore_errors=True)
        make_private_folder(folder)
        make_private_folder(folder / _SHARD)
        _check_space(self.address, folder)
        dense = connection.EdgeVectorParams(size=info.dimension, distance=connection.Distance.Dot)
        sparse = None
        if info.words is not None:
            words = connection.EdgeSparseVectorParams(modifier=connection.Modifier.Idf)
            sparse = {WORDS: words}
        config = connection.EdgeConfig(vectors={DENSE: dense}, sparse_vectors=sparse)
        shard = connection.EdgeShard.create(str(folder / _SHARD), config)
        keyword = connection.PayloadSchemaType.Keyword
        for name in ("document_id", "lists", "spelled"):
            shard.update(connection.UpdateOperation.create_field_index(name, keyword))
        shard.flush()
        self._shards[info.name] = shard
        _write_info(folder / _INFO, info)

    def attach(self, connection: Any, name: str) -> QdrantEmbedded | None:
        """The collection. Its shard is loaded once, for it cannot be opened a second time.

        Raises:
            ForeignCollectionError: Qdrant's Python client has made it, with a form of its own.
            StoreError: another process has it open.
        """
        folder = self._folder(name)
        if not (folder / _INFO).is_file():
            if (self._path / _CLIENT_FOLDER / name).is_dir():
                raise ForeignCollectionError(self.address, name)
            return None
        try:
            if name not in self._shards:
                self._shards[name] = connection.EdgeShard.load(str(folder / _SHARD))
        except Exception as error:
            # The engine has no type for it; its message quotes the lock's failure.
            if "WouldBlock" not in str(error):
                raise
            raise StoreError(
                f"{self.address}: in use by another process. Such a folder is open to one process "
                "at a time: wait until that one is done, close it, or use a server"
            ) from error
        return QdrantEmbedded(self.address, connection, self._shards[name], folder / _INFO)

    def detach(self, connection: Any, name: str) -> None:
        """Closes the shard, which frees it for other processes."""
        shard = self._shards.pop(name, None)
        if shard is not None:
            shard.close()

    def remove(self, connection: Any, name: str) -> None:
        """Removes the folder without reading it, so also what another release has written."""
        self.detach(connection, name)
        folder = self._folder(name)
        if folder.is_dir():
            # First the file without which the rest is not a collection: this may be interrupted.
            (folder / _INFO).unlink(missing_ok=True)
            shutil.rmtree(folder)

    def _folder(self, name: str) -> Path:
        """The folder of a collection, by its name or, where a folder cannot have it, a digest.

        So `names` reads the names in the files.
        """
        return self._path / fitted_name(name)


class QdrantEmbedded(OwnPoints):
    """An open collection of the embedded engine; its package stands in for the client's models."""

    def __init__(self, address: str, package: Any, shard: Any, info: Path) -> None:
        """A loaded shard, and the file that says what its collection is."""
        # Without a client: every method that would ask one is replaced here.
        super().__init__(address, None, "", package, is_exact=True)
        self._shard = shard
        self._info = info

    def read_info(self) -> CollectionInfo:
        """What the file beside the points says: the engine keeps no such thing itself."""
        return info_from_json(self._info.read_text("utf-8", "replace"), self._address)

    def write_info(self, info: CollectionInfo) -> None:
        """Replaces the file, after the points that it is about are on the disk."""
        _check_space(self._address, self._info.parent)
        # What is marked complete is on the disk before the mark is.
        self._shard.flush()
        _write_info(self._info, info)

    def remove(self, ids: Sequence[str]) -> None:
        """Removes the points of these chunks; nothing needs to be waited for in the process."""
        points = [point_id(chunk_id) for chunk_id in ids]
        self._shard.update(self._models.UpdateOperation.delete_points(points))

    def count(self) -> int:
        """Counted point by point: an estimate would not show that an indexing was cut off."""
        return int(self._shard.count(self._models.CountRequest(exact=True)))

    def _index(self, path: str, kind: str) -> None:
        """Has a field indexed for filters, though vectors are searched exactly."""
        # The client calls a kind "keyword", the engine Keyword.
        schema_type = getattr(self._models.PayloadSchemaType, kind.capitalize())
        operation = self._models.UpdateOperation.create_field_index(path, schema_type)
        self._shard.update(operation)

    def _upsert(self, points: Sequence[Point]) -> None:
        """Adds or replaces points; the space is looked at before each batch, see `_SPARE`."""
        _check_space(self._address, self._info.parent)
        engine_points = [self._models.Point(*point) for point in points]
        operation = self._models.UpdateOperation.upsert_points(engine_points)
        self._shard.update(operation)

    def _records(
        self, points: Sequence[str], keys: list[str], vectors: list[str] | None = None
    ) -> Iterable[Any]:
        """The points of these ids that are there, all in one call, for no request is sent."""
        selector = self._models.PayloadSelector.Include(keys)
        records: Iterable[Any] = self._shard.retrieve(list(points), selector, vectors or False)
        return records

    def _page(self, keys: list[str], offset: Any) -> Any:
        """The next points with some of their fields, and where to go on; None behind the last."""
        selector = self._models.PayloadSelector.Include(keys)
        request = self._models.ScrollRequest(offset=offset, limit=_PAGE, with_payload=selector)
        return self._shard.scroll(request)

    def _answers(
        self, queries: Sequence[Any], using: str, limit: int, condition: Any, effort: Effort
    ) -> list[list[Any]]:
        """For each query its points, best first; the search is exact, whatever the effort."""
        package: Any = self._models
        requests: list[Any] = []
        for query in queries:
            request = package.QueryRequest(
                query=package.Query.Nearest(query, using=using),
                limit=limit,
                filter=condition,
                # All of it: to choose costs the engine more than what is left out.
                with_payload=True,
            )
            requests.append(request)
        if len(requests) == 1:
            return [self._shard.query(requests[0])]
        batch = package.QueryBatchRequest(requests)
        answers: list[list[Any]] = self._shard.query_batch(batch)
        return answers

    def _sparse(self, words: WordVector) -> Any:
        """A chunk's words in the engine's own type."""
        return self._models.SparseVector(list(words), list(words.values()))


def _check_space(address: str, folder: Path) -> None:
    """Refuses to write on a nearly full disk, while there can still be an error; see `_SPARE`."""
    free = shutil.disk_usage(folder).free
    if free < _SPARE:
        raise StoreError(
            f"{address}: the disk is nearly full: {free / _MIB:,.0f} MiB are free, and the engine "
            f"needs {_SPARE / _MIB:,.0f} MiB to write safely. Make room, and run the same command "
            "again"
        )


def _write_info(path: Path, info: CollectionInfo) -> None:
    """Writes the file whole or not at all: a reader sees the old state or the new one."""
    with written_whole(path) as file:
        file.write(info_to_json(info).encode() + b"\n")


def open_qdrant(address: str) -> QdrantEmbeddedDatabase | QdrantServerDatabase:
    """The database of an address, ``qdrant:FOLDER`` or that of a server."""
    folder = address.removeprefix("qdrant:")
    if folder and folder != address:  # else the address has another prefix, of a server
        return QdrantEmbeddedDatabase(Path(folder))
    return open_server(address)


_MARK = "meta.json"
"""A file that Qdrant's client writes into its folder, and makes anew where it is not there."""


def open_foreign_qdrant(address: str) -> QdrantServerDatabase:
    """A server, or a folder that Qdrant's Python client has written in its local mode."""
    path = Path(address.removeprefix("qdrant:"))
    if not address.startswith("qdrant:") or path == Path():
        return open_server(address)
    if not (path / _MARK).is_file():
        raise StoreError(
            f"{address}: this is not a folder of Qdrant's client (QdrantClient(path=...)): of "
            "embedded collections ragbench reads those and its own"
        )

    def open_client() -> Any:
        """The client over its folder, which raises a plain `Exception` where that is in use."""
        client = require("qdrant_client", extra="qdrant").QdrantClient
        try:
            return client(path=str(path))
        except Exception as error:
            problem = shown_line(mask_text(str(error)), longest=300)
            raise StoreError(f"{address}: {problem}") from error

    return QdrantServerDatabase(address, open_client, local=True)
