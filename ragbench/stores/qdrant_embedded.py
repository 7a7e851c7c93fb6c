"""Qdrant inside of the process: its own engine, by the package qdrant-edge-py.

A collection is a folder: ``collection.json``, written last, and the engine's files in ``shard``.
One process at a time can open it. Search is exact.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ragbench.core.filters import Filter
from ragbench.errors import ForeignCollectionError, StoreError
from ragbench.io.atomic import written_whole
from ragbench.plugins import require
from ragbench.stores.base import NORMAL, CollectionInfo, Effort
from ragbench.stores.database import (
    EngineDatabase,
    fitted_name,
    info_from_json,
    info_to_json,
    name_from_json,
)
from ragbench.stores.engine import Hit, Kept, Translated
from ragbench.stores.plain import PlainChunk, plain
from ragbench.stores.qdrant_filters import condition
from ragbench.stores.qdrant_points import (
    DENSE,
    KEPT,
    WORDS,
    FieldIndexes,
    check_collisions,
    payload,
    point_id,
    weight_of,
)
from ragbench.stores.record import StoredChunk
from ragbench.stores.sole_writer import in_use
from ragbench.stores.words import WordVector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CLIENT_FOLDER = "collection"
"""Where in a folder Qdrant's Python client keeps the collections of its local mode."""

_INFO = "collection.json"
_SHARD = "shard"
_BATCH = 1000
_SPARE = 64 * 2**20
"""Bytes that stay free. The engine writes through mapped files, some of them 32 MiB with holes: on
a full disk the system ends the process (SIGBUS), and no error can be caught."""
_PAGE = 5000


class QdrantEmbeddedDatabase(EngineDatabase[Any]):
    """Collections in a folder. The connection is the package itself."""

    ranks_words: ClassVar[bool] = True

    def __init__(self, path: Path) -> None:
        super().__init__(f"qdrant:{path}", path)
        self._path = path
        self._shards: dict[str, Any] = {}

    def load(self) -> tuple[type[Exception], ...]:
        """The engine raises plain exceptions."""
        require("qdrant_edge", extra="qdrant")
        return (Exception,)

    def connect(self) -> Any:
        return require("qdrant_edge", extra="qdrant")

    def disconnect(self, connection: Any) -> None:
        for name in list(self._shards):
            self.detach(connection, name)

    def names(self, connection: Any) -> list[str]:
        """The collections whose making was finished."""
        texts = [path.read_text(encoding="utf-8") for path in self._path.glob(f"*/{_INFO}")]
        return [name_from_json(text, self.address) for text in texts]

    def make(self, connection: Any, info: CollectionInfo) -> None:
        """A folder with an empty shard."""
        folder = self._folder(info.name)
        shutil.rmtree(folder, ignore_errors=True)
        (folder / _SHARD).mkdir(parents=True)
        _check_space(self.address, folder, 0)
        dense = connection.EdgeVectorParams(size=info.dimension, distance=connection.Distance.Dot)
        words = connection.EdgeSparseVectorParams(modifier=connection.Modifier.Idf)
        sparse = None if info.words is None else {WORDS: words}
        config = connection.EdgeConfig(vectors={DENSE: dense}, sparse_vectors=sparse)
        shard = connection.EdgeShard.create(str(folder / _SHARD), config)
        keyword = connection.PayloadSchemaType.Keyword
        for name in ("document_id", "lists", "spelled"):
            shard.update(connection.UpdateOperation.create_field_index(name, keyword))
        shard.flush()
        self._shards[info.name] = shard
        _write_info(folder / _INFO, info)

    def attach(self, connection: Any, name: str) -> QdrantEmbedded | None:
        """Loads the shard, once."""
        folder = self._folder(name)
        if not (folder / _INFO).is_file():
            if (self._path / CLIENT_FOLDER / name).is_dir():
                raise ForeignCollectionError(self.address, name)
            return None
        if name not in self._shards:
            try:
                self._shards[name] = connection.EdgeShard.load(str(folder / _SHARD))
            except Exception as error:
                if "WouldBlock" not in str(error):
                    raise
                raise in_use(self.address, self._path) from error
        return QdrantEmbedded(self.address, connection, self._shards[name], folder / _INFO)

    def detach(self, connection: Any, name: str) -> None:
        """Closes the shard, which frees it for other processes."""
        shard = self._shards.pop(name, None)
        if shard is not None:
            shard.close()

    def remove(self, connection: Any, name: str) -> None:
        self.detach(connection, name)
        folder = self._folder(name)
        if folder.is_dir():
            # First the file without which the rest is not a collection.
            (folder / _INFO).unlink(missing_ok=True)
            shutil.rmtree(folder)

    def _folder(self, name: str) -> Path:
        return self._path / fitted_name(name)


class QdrantEmbedded:
    """One shard; see `ragbench.stores.engine.Engine`."""

    failures: tuple[type[Exception], ...] = (Exception,)
    most = None
    is_exact = True

    def __init__(self, address: str, package: Any, shard: Any, info: Path) -> None:
        self.address = address
        self._package = package
        self._shard = shard
        self._info = info
        self._kept = package.PayloadSelector.Include(KEPT)
        self._condition = Translated(lambda filters: condition(filters, package))
        self._indexes = FieldIndexes()

    def read_info(self) -> CollectionInfo:
        return info_from_json(self._info.read_text(encoding="utf-8"), self.address)

    def write_info(self, info: CollectionInfo) -> None:
        _check_space(self.address, self._info.parent, 0)
        # What is marked complete is on the disk before the mark is.
        self._shard.flush()
        _write_info(self._info, info)

    def write(self, chunks: Sequence[StoredChunk], rows: NDArray[np.float32]) -> None:
        package = self._package
        plains = [plain(chunk) for chunk in chunks]
        self._index_fields(plains)
        points = [point_id(chunk.id) for chunk in chunks]
        there = self._shard.retrieve(points, package.PayloadSelector.Include(["chunk_id"]), False)
        check_collisions(chunks, points, [record.payload for record in there])
        for first in range(0, len(chunks), _BATCH):
            batch = range(first, min(first + _BATCH, len(chunks)))
            made = [
                package.Point(
                    points[at], self._vectors(rows[at], chunks[at].words), payload(plains[at])
                )
                for at in batch
            ]
            # Once into the log, once into the segment, and room for what is kept of each.
            size = sum(len(chunks[at].body) + rows[at].nbytes + 512 for at in batch)
            _check_space(self.address, self._info.parent, 4 * size)
            self._shard.update(package.UpdateOperation.upsert_points(made))

    def remove(self, ids: Sequence[str]) -> None:
        points = [point_id(value) for value in ids]
        self._shard.update(self._package.UpdateOperation.delete_points(points))

    def kept(self, ids: Sequence[str]) -> list[Kept]:
        found = self._shard.retrieve([point_id(value) for value in ids], self._kept, False)
        return [record.payload for record in found]

    def rows(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        import numpy as np

        only = self._package.PayloadSelector.Include(["chunk_id"])
        found = self._shard.retrieve([point_id(value) for value in ids], only, [DENSE])
        return {
            record.payload["chunk_id"]: np.asarray(record.vector[DENSE], dtype=np.float32)
            for record in found
        }

    def digests(self) -> dict[str, str]:
        return {
            values["chunk_id"]: values["digest"] for values in self._scroll(["chunk_id", "digest"])
        }

    def count(self) -> int:
        return int(self._shard.count(self._package.CountRequest(exact=True)))

    def nearest(
        self,
        rows: NDArray[np.float32],
        limit: int,
        filters: Filter | None,
        effort: Effort = NORMAL,
    ) -> list[list[Hit]]:
        wanted = None if filters is None else self._condition(filters)
        return self._ask([self._request(self._dense(row), limit, wanted) for row in rows])

    def matching(
        self, queries: Sequence[WordVector], limit: int, filters: Filter | None
    ) -> list[list[Hit]]:
        """See `ragbench.stores.word_store.WordEngine`."""
        wanted = None if filters is None else self._condition(filters)
        found = self._ask([self._request(self._words(one), limit, wanted) for one in queries])
        return [[hit for hit in hits if hit[0] > 0] for hits in found]

    def weights(self, numbers: Sequence[int]) -> list[float | None]:
        """See `ragbench.stores.word_store.WordEngine`: a score divided by what the chunk has."""
        package = self._package
        requests = [
            package.QueryRequest(
                limit=1, query=self._words({number: 1.0}), with_vector=[WORDS], with_payload=False
            )
            for number in numbers
        ]
        found = self._ask(requests)
        return [
            weight_of(number, [(score, one.vector[WORDS]) for score, one in hits])
            for number, hits in zip(numbers, found, strict=True)
        ]

    def read(self, found: Any) -> Kept:
        payload: Kept = found.payload
        return payload

    def _index_fields(self, chunks: Sequence[PlainChunk]) -> None:
        kinds = self._package.PayloadSchemaType
        known = {"keyword": kinds.Keyword, "float": kinds.Float, "bool": kinds.Bool}
        for path, kind in self._indexes.missing(chunks).items():
            operation = self._package.UpdateOperation.create_field_index(path, known[kind])
            self._shard.update(operation)

    def _vectors(self, row: NDArray[np.float32], words: WordVector | None) -> dict[str, Any]:
        sparse = {WORDS: self._sparse(words)} if words else {}
        return {DENSE: row.tolist(), **sparse}

    def _sparse(self, words: WordVector) -> Any:
        return self._package.SparseVector(list(words), list(words.values()))

    def _words(self, query: WordVector) -> Any:
        return self._package.Query.Nearest(self._sparse(query), using=WORDS)

    def _dense(self, row: NDArray[np.float32]) -> Any:
        return self._package.Query.Nearest(row.tolist(), using=DENSE)

    def _request(self, query: Any, limit: int, wanted: Any) -> Any:
        return self._package.QueryRequest(
            # All of it: to choose costs the engine more than what is left out.
            limit=limit,
            query=query,
            filter=wanted,
            with_payload=True,
        )

    def _ask(self, requests: list[Any]) -> list[list[Hit]]:
        if len(requests) == 1:
            answers = [self._shard.query(requests[0])]
        else:
            answers = self._shard.query_batch(self._package.QueryBatchRequest(requests))
        return [[(point.score, point) for point in points] for points in answers]

    def _scroll(self, keys: list[str]) -> Iterator[dict[str, Any]]:
        only = self._package.PayloadSelector.Include(keys)
        offset = None
        while True:
            request = self._package.ScrollRequest(offset=offset, limit=_PAGE, with_payload=only)
            records, offset = self._shard.scroll(request)
            for record in records:
                yield record.payload
            if offset is None:
                return


def _check_space(address: str, folder: Path, needed: int) -> None:
    """Stops before the disk is full."""
    free = shutil.disk_usage(folder).free
    if free < needed + _SPARE:
        raise StoreError(
            f"{address}: the disk is nearly full: {free / 2**20:,.0f} MiB are free, and the engine "
            f"needs {(needed + _SPARE) / 2**20:,.0f} MiB to write safely. Make room, and run the "
            "same command again"
        )


def _write_info(path: Path, info: CollectionInfo) -> None:
    with written_whole(path) as file:
        file.write(info_to_json(info).encode() + b"\n")
