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
        """A database of embedded Qdrant collections in a folder.

        Each is loaded at its first use. Only one process at a time can have one open.
        """
        super().__init__(f"qdrant:{path}", folder=path)
        self._path = path
        self._shards: dict[str, Any] = {}
        """The engine's own objects of the loaded collections, by name; none loads twice."""

    def load(self) -> tuple[type[Exception], ...]:
        """Every exception: Qdrant's embedded engine raises plain ``Exception`` for its failures.

        Each becomes an error of one line.
        """
        require("qdrant_edge", extra="qdrant")
        return (Exception,)

    def connect(self) -> Any:
        """The package of the embedded engine: a folder needs no other connection.

        Methods get it as their connection, and make shards with it.
        """
        return require("qdrant_edge", extra="qdrant")

    def disconnect(self, connection: Any) -> None:
        """Closes every collection that is still open; the package itself has nothing to close.

        A collection that stays open would be locked for other processes.
        """
        for name in list(self._shards):  # a copy, as `detach` takes them out
            self.detach(connection, name)

    def names(self, connection: Any) -> list[str]:
        """The names of the folder's collections; one whose making was cut off is none.

        The file with a collection's record is written last, and holds the name.
        """
        names: list[str] = []
        for path in self._path.glob(f"*/{_INFO}"):
            text = path.read_text("utf-8", "replace")
            names.append(name_from_json(text, self.address))
        return names

    def make(self, connection: Any, info: CollectionInfo) -> None:
        """Makes an empty collection in a folder.

        The engine's shard, and last the file with its record. Without that file the folder is no
        collection: a making that was cut off leaves none. Names of vectors and the indexed fields
        are the stored form: older collections have them.
        """
        folder = self._folder(info.name)
        # An earlier call that was interrupted may have left files there.
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
        # The fields that filters of every collection may test (`OwnFilters`).
        keyword = connection.PayloadSchemaType.Keyword
        for name in ("document_id", "lists", "spelled"):
            shard.update(connection.UpdateOperation.create_field_index(name, keyword))
        shard.flush()
        # The new shard stays open: `attach` follows, and a shard cannot be loaded a second time.
        self._shards[info.name] = shard
        _write_info(folder / _INFO, info)

    def attach(self, connection: Any, name: str) -> QdrantEmbedded | None:
        """A collection of the folder, for writing; None where there is none.

        Its shard (the engine's files) is loaded once, for it cannot be opened a second time.

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
            # The engine has no type of error for a locked folder; its message quotes the system's.
            if "WouldBlock" not in str(error):
                raise
            raise StoreError(
                f"{self.address}: in use by another process. Such a folder is open to one process "
                "at a time: wait until that one is done, close it, or use a server"
            ) from error
        return QdrantEmbedded(self.address, connection, self._shards[name], folder / _INFO)

    def detach(self, connection: Any, name: str) -> None:
        """Closes a collection's shard (the engine's files), which frees it for other processes.

        Called when the collection's last use has ended.
        """
        shard = self._shards.pop(name, None)
        if shard is not None:
            shard.close()

    def remove(self, connection: Any, name: str) -> None:
        """Removes a collection's folder without reading it, so also one of another release.

        The file with its record goes first: without it the folder is no collection, even if this
        is interrupted.
        """
        self.detach(connection, name)
        folder = self._folder(name)
        if folder.is_dir():
            # First the file without which the rest is not a collection: this may be interrupted.
            (folder / _INFO).unlink(missing_ok=True)
            shutil.rmtree(folder)

    def _folder(self, name: str) -> Path:
        """The folder of a collection.

        The folder has the collection's name or, where no folder can have that name, one with a
        digest. Another form of these names would hide the collections that are there. `names` reads
        the names of collections from the files in the folders.
        """
        return self._path / fitted_name(name)


class QdrantEmbedded(OwnPoints):
    """An open collection of the embedded engine; its package stands in for the client's models."""

    def __init__(self, address: str, package: Any, shard: Any, info: Path) -> None:
        """An open collection of the embedded engine, over its loaded shard.

        Every method of `OwnPoints` that would use a client is overridden in this class.

        Args:
            address: of the database, for errors.
            package: the engine's, in the place of the client's models.
            shard: the engine's own object.
            info: the file with the collection's record of itself.
        """
        # There is no client: every method that would ask one is replaced in this class.
        super().__init__(address, None, "", package, is_exact=True)
        self._shard = shard
        self._info = info

    def read_info(self) -> CollectionInfo:
        """The collection's record of itself, from the file beside the points.

        The engine keeps none.
        """
        return info_from_json(self._info.read_text("utf-8", "replace"), self._address)

    def write_info(self, info: CollectionInfo) -> None:
        """Replaces the file with the collection's record, once its points are on the disk.

        A record that calls the collection complete is so never there before its chunks.

        Raises:
            StoreError: the disk is nearly full.
        """
        _check_space(self._address, self._info.parent)
        # What is marked complete is on the disk before the mark is.
        self._shard.flush()
        _write_info(self._info, info)

    def remove(self, ids: Sequence[str]) -> None:
        """Removes the points of these chunks.

        Within the process it is done when the call returns.
        """
        points = [point_id(chunk_id) for chunk_id in ids]
        self._shard.update(self._models.UpdateOperation.delete_points(points))

    def count(self) -> int:
        """The exact number of the collection's points.

        An estimate would hide that an indexing was cut off. A report shows it.
        """
        return int(self._shard.count(self._models.CountRequest(exact=True)))

    def _make_field_index(self, path: str, kind: str) -> None:
        """Has the embedded engine index a field of the payload, which makes filters on it fast.

        An index of vectors is none: they are all compared.

        Args:
            path: of the field.
            kind: by the client's name for it, such as ``keyword``.
        """
        # The client calls a kind "keyword", the engine Keyword.
        schema_type = getattr(self._models.PayloadSchemaType, kind.capitalize())
        operation = self._models.UpdateOperation.create_field_index(path, schema_type)
        self._shard.update(operation)

    def _write_points(self, points: Sequence[Point]) -> None:
        """Adds or replaces points.

        Refuses before each batch where the disk is nearly full, see `_SPARE`.
        """
        _check_space(self._address, self._info.parent)
        engine_points = [self._models.Point(*point) for point in points]
        operation = self._models.UpdateOperation.upsert_points(engine_points)
        self._shard.update(operation)

    def _points_of_ids(
        self, points: Sequence[str], keys: list[str], vectors: list[str] | None = None
    ) -> Iterable[Any]:
        """The points of these ids that the collection has, all in one call, as no request is sent.

        Overrides the method that uses a client.

        Args:
            points: their ids.
            keys: of the payload, which come along.
            vectors: names of the vectors that come along; None for none.
        """
        selector = self._models.PayloadSelector.Include(keys)
        records: Iterable[Any] = self._shard.retrieve(list(points), selector, vectors or False)
        return records

    def _next_page(self, keys: list[str], offset: Any) -> Any:
        """The next points with some keys of their payload, and the offset of those after.

        The offset is None at the end. `digests` reads a whole collection so.
        """
        selector = self._models.PayloadSelector.Include(keys)
        request = self._models.ScrollRequest(offset=offset, limit=_PAGE, with_payload=selector)
        return self._shard.scroll(request)

    def _found_points(
        self, queries: Sequence[Any], using: str, limit: int, condition: Any, effort: Effort
    ) -> list[list[Any]]:
        """The points that each query finds, best first; the search is exact, whatever the effort.

        Overrides the method that uses a client.

        Args:
            queries: vectors, dense or sparse.
            using: the name of the vectors that are searched.
            limit: the most points of one query.
            condition: a filter of the engine; None for none.
        """
        package: Any = self._models
        requests: list[Any] = []
        for query in queries:
            request = package.QueryRequest(
                query=package.Query.Nearest(query, using=using),
                limit=limit,
                filter=condition,
                # The whole payload: choosing keys of it costs the engine more than it saves.
                with_payload=True,
            )
            requests.append(request)
        if len(requests) == 1:
            return [self._shard.query(requests[0])]
        batch = package.QueryBatchRequest(requests)
        answers: list[list[Any]] = self._shard.query_batch(batch)
        return answers

    def _sparse_vector(self, words: WordVector) -> Any:
        """The words of a chunk or of a question as a sparse vector of the embedded engine.

        The client's models have another form.
        """
        return self._models.SparseVector(list(words), list(words.values()))


def _check_space(address: str, folder: Path) -> None:
    """Refuses to write on a nearly full disk, while that can still be an error; see `_SPARE`.

    The engine writes through mapped files: on a full disk the system would end the process.
    """
    free = shutil.disk_usage(folder).free
    if free < _SPARE:
        raise StoreError(
            f"{address}: the disk is nearly full: {free / _MIB:,.0f} MiB are free, and the engine "
            f"needs {_SPARE / _MIB:,.0f} MiB to write safely. Make room, and run the same command "
            "again"
        )


def _write_info(path: Path, info: CollectionInfo) -> None:
    """Writes a collection's record of itself, whole or not at all.

    A reader sees the old or the new one.
    """
    with written_whole(path) as file:
        file.write(info_to_json(info).encode() + b"\n")


def open_qdrant(address: str) -> QdrantEmbeddedDatabase | QdrantServerDatabase:
    """The Qdrant database of an address, ``qdrant:FOLDER`` or that of a server.

    Nothing is read or reached before the database is used.
    """
    folder = address.removeprefix("qdrant:")
    if folder and folder != address:  # else the address has another prefix, of a server
        return QdrantEmbeddedDatabase(Path(folder))
    return open_server(address)


_MARK = "meta.json"
"""A file that Qdrant's client writes into its folder, and makes anew where it is not there."""


def open_foreign_qdrant(address: str) -> QdrantServerDatabase:
    """The Qdrant database of an address for reading.

    A server, or a folder of Qdrant's Python client.

    Raises:
        StoreError: the folder is none of the client's local mode.
    """
    path = Path(address.removeprefix("qdrant:"))
    # An address ``qdrant:`` without a folder goes to `open_server`, too, which refuses it and names
    # the forms that an address may have.
    if not address.startswith("qdrant:") or path == Path():
        return open_server(address)
    if not (path / _MARK).is_file():
        raise StoreError(
            f"{address}: this is not a folder of Qdrant's client (QdrantClient(path=...)): of "
            "embedded collections ragbench reads those and its own"
        )
    return QdrantServerDatabase(address, lambda: _local_client(path, address), local=True)


def _local_client(path: Path, address: str) -> Any:
    """Qdrant's client over its own folder, made when the database is first used.

    The client raises a plain `Exception` where the folder is in use: it becomes an error of one
    line.

    Raises:
        StoreError: the folder is in use, or the client cannot read it.
    """
    client = require("qdrant_client", extra="qdrant").QdrantClient
    try:
        return client(path=str(path))
    except Exception as error:
        problem = shown_line(mask_text(str(error)), longest=300)
        raise StoreError(f"{address}: {problem}") from error
