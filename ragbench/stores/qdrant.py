"""Qdrant on a server, and which of the two is meant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote, urlsplit, urlunsplit

from ragbench.core.filters import Filter
from ragbench.errors import ConfigError, ForeignCollectionError, StoreError
from ragbench.masking import mask_url
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
from ragbench.stores.qdrant_embedded import QdrantEmbeddedDatabase
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
from ragbench.stores.words import WordVector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_KEY = "ragbench"
_BATCH = 500
_PAGE = 2000
_DELETED = 0.05
"""From such a share of removed chunks on a segment with words is rewritten."""


class QdrantServerDatabase(EngineDatabase[Any]):
    """Collections of a server. The connection is a ``QdrantClient``."""

    ranks_words: ClassVar[bool] = True

    def __init__(
        self, address: str, open_client: Callable[[], Any], *, local: bool = False
    ) -> None:
        super().__init__(address)
        self._open_client = open_client
        self._local = local

    def load(self) -> tuple[type[Exception], ...]:
        """What the client raises, of itself and of the connection."""
        exceptions = require("qdrant_client.http.exceptions", extra="qdrant")
        return (exceptions.ApiException, ValueError, OSError)

    def connect(self) -> Any:
        return self._open_client()

    def disconnect(self, connection: Any) -> None:
        """Ends the client's connections."""
        connection.close()

    def names(self, connection: Any) -> list[str]:
        """Of all collections those with ragbench's mark."""
        listed = [each.name for each in connection.get_collections().collections]
        texts = [_read_mark(connection, name) for name in listed]
        return [name_from_json(text, self.address) for text in texts if text is not None]

    def make(self, connection: Any, info: CollectionInfo) -> None:
        """An empty collection; what is kept with it are its metadata."""
        models = _models()
        name = fitted_name(info.name)
        if connection.collection_exists(name):
            raise StoreError(
                f"{self.address}: there is a collection '{name}' that ragbench did not make"
            )
        connection.create_collection(
            name,
            vectors_config={
                DENSE: models.VectorParams(size=info.dimension, distance=models.Distance.DOT)
            },
            metadata={_KEY: info_to_json(info)},
            **({} if info.words is None else _for_words(models)),
        )
        if _read_mark(connection, name) is None:
            connection.delete_collection(name)
            raise StoreError(
                f"{self.address}: the server keeps no metadata of collections: "
                "Qdrant 1.16 or newer is needed"
            )
        if not self._local:
            for field in ("document_id", "lists", "spelled"):
                connection.create_payload_index(name, field, models.PayloadSchemaType.KEYWORD)

    def attach(self, connection: Any, name: str) -> QdrantServer | None:
        """The collection, if it has ragbench's mark."""
        fitted = fitted_name(name)
        if not connection.collection_exists(fitted):
            return None
        if _read_mark(connection, fitted) is None:
            raise ForeignCollectionError(self.address, name)
        return QdrantServer(self.address, connection, fitted, self.failures, local=self._local)

    def remove(self, connection: Any, name: str) -> None:
        """Removes the collection, if it has ragbench's mark."""
        if self.attach(connection, name) is not None:
            connection.delete_collection(fitted_name(name))


class QdrantServer:
    """One collection of a server; see `ragbench.stores.engine.Engine`."""

    most = None

    def __init__(
        self,
        address: str,
        client: Any,
        name: str,
        failures: tuple[type[Exception], ...],
        *,
        local: bool = False,
    ) -> None:
        self.address = address
        self.failures = failures
        self._client = client
        self._name = name
        self._local = local
        self._models = _models()
        self._indexes = FieldIndexes()
        self._condition = Translated(lambda filters: condition(filters, self._models))

    def read_info(self) -> CollectionInfo:
        text = _read_mark(self._client, self._name)
        if text is None:
            raise StoreError(f"{self.address}: the collection '{self._name}' has lost its metadata")
        return info_from_json(text, self.address)

    def write_info(self, info: CollectionInfo) -> None:
        self._client.update_collection(self._name, metadata={_KEY: info_to_json(info)})

    def write(self, chunks: Sequence[StoredChunk], rows: NDArray[np.float32]) -> None:
        plains = [plain(chunk) for chunk in chunks]
        self._index_fields(plains)
        points = [point_id(chunk.id) for chunk in chunks]
        for first in range(0, len(chunks), _BATCH):
            batch = slice(first, first + _BATCH)
            there = self._client.retrieve(self._name, points[batch], with_payload=["chunk_id"])
            check_collisions(chunks[batch], points[batch], [record.payload for record in there])
            made = [
                self._models.PointStruct(
                    id=points[at],
                    vector=self._vectors(rows[at], chunks[at].words),
                    payload=payload(plains[at]),
                )
                for at in range(first, min(first + _BATCH, len(chunks)))
            ]
            self._client.upsert(self._name, made, wait=True)

    def remove(self, ids: Sequence[str]) -> None:
        points = [point_id(value) for value in ids]
        self._client.delete(self._name, self._models.PointIdsList(points=points), wait=True)

    def kept(self, ids: Sequence[str]) -> list[Kept]:
        return [record.payload for record in self._retrieve(ids, KEPT)]

    def rows(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        import numpy as np

        return {
            record.payload["chunk_id"]: np.asarray(record.vector[DENSE], dtype=np.float32)
            for record in self._retrieve(ids, ["chunk_id"], [DENSE])
        }

    def digests(self) -> dict[str, str]:
        found: dict[str, str] = {}
        offset = None
        while True:
            records, offset = self._client.scroll(
                self._name, limit=_PAGE, offset=offset, with_payload=["chunk_id", "digest"]
            )
            found.update(
                {record.payload["chunk_id"]: record.payload["digest"] for record in records}
            )
            if offset is None:
                return found

    def count(self) -> int:
        return int(self._client.count(self._name, exact=True).count)

    @property
    def is_exact(self) -> bool:
        return self._local

    def nearest(
        self,
        rows: NDArray[np.float32],
        limit: int,
        filters: Filter | None,
        effort: Effort = NORMAL,
    ) -> list[list[Hit]]:
        wanted = None if filters is None else self._condition(filters)
        effort_of = self._models.SearchParams(hnsw_ef=effort.ef, exact=effort.exact)
        requests = [
            self._models.QueryRequest(
                query=row.tolist(),
                using=DENSE,
                filter=wanted,
                limit=limit,
                with_payload=KEPT,
                params=None if effort == NORMAL else effort_of,
            )
            for row in rows
        ]
        answers = self._client.query_batch_points(self._name, requests)
        return [[(point.score, point) for point in answer.points] for answer in answers]

    def matching(
        self, queries: Sequence[WordVector], limit: int, filters: Filter | None
    ) -> list[list[Hit]]:
        """See `ragbench.stores.word_store.WordEngine`."""
        wanted = None if filters is None else self._condition(filters)
        requests = [
            self._models.QueryRequest(
                query=self._sparse(query),
                using=WORDS,
                filter=wanted,
                limit=limit,
                with_payload=KEPT,
            )
            for query in queries
        ]
        answers = self._client.query_batch_points(self._name, requests)
        return [
            [(point.score, point) for point in answer.points if point.score > 0]
            for answer in answers
        ]

    def weights(self, numbers: Sequence[int]) -> list[float | None]:
        """See `ragbench.stores.word_store.WordEngine`: a score divided by what the chunk has."""
        requests = [
            self._models.QueryRequest(
                query=self._sparse({number: 1.0}), using=WORDS, limit=1, with_vector=[WORDS]
            )
            for number in numbers
        ]
        answers = self._client.query_batch_points(self._name, requests)
        return [
            weight_of(number, [(one.score, one.vector[WORDS]) for one in answer.points])
            for number, answer in zip(numbers, answers, strict=True)
        ]

    def read(self, found: Any) -> Kept:
        payload: Kept = found.payload
        return payload

    def _vectors(self, row: NDArray[np.float32], words: WordVector | None) -> dict[str, Any]:
        sparse = {WORDS: self._sparse(words)} if words else {}
        return {DENSE: row.tolist(), **sparse}

    def _sparse(self, words: WordVector) -> Any:
        return self._models.SparseVector(indices=list(words), values=list(words.values()))

    def _index_fields(self, chunks: Sequence[PlainChunk]) -> None:
        if self._local:
            return
        for path, kind in self._indexes.missing(chunks).items():
            self._client.create_payload_index(self._name, path, kind)

    def _retrieve(
        self, ids: Sequence[str], keys: list[str], vectors: list[str] | None = None
    ) -> list[Any]:
        points = [point_id(value) for value in ids]
        found: list[Any] = []
        for first in range(0, len(points), _PAGE):
            found += self._client.retrieve(
                self._name,
                points[first : first + _PAGE],
                with_payload=keys,
                with_vectors=vectors or False,
            )
        return found


def _for_words(models: ModuleType) -> dict[str, Any]:
    """What a collection is made with that ranks by words."""
    sparse = models.SparseVectorParams(modifier=models.Modifier.IDF)
    return {
        "sparse_vectors_config": {WORDS: sparse},
        # Qdrant counts in how many chunks a word stands in each shard by itself,
        "shard_number": 1,
        # and removed ones until their segment is rewritten: by default from a fifth of it on.
        "optimizers_config": models.OptimizersConfigDiff(
            deleted_threshold=_DELETED, vacuum_min_vector_number=100
        ),
    }


def _models() -> ModuleType:
    return require("qdrant_client.models", extra="qdrant")


def _read_mark(client: Any, name: str) -> str | None:
    metadata: dict[str, Any] | None = client.get_collection(name).config.metadata
    text = (metadata or {}).get(_KEY)
    return text if isinstance(text, str) else None


_TIMEOUT = 60


def open_qdrant(address: str) -> QdrantEmbeddedDatabase | QdrantServerDatabase:
    """The database of an address.

    Args:
        address: ``qdrant:FOLDER``, or ``qdrant+http://HOST:6333`` (or ``https``); a password in
            it, as in ``qdrant+https://:KEY@HOST:6333``, is the server's API key.
    """
    if address.startswith("qdrant:") and len(address) > len("qdrant:"):
        return QdrantEmbeddedDatabase(Path(address.removeprefix("qdrant:")))
    url = address.removeprefix("qdrant+")
    if not url.startswith(("http://", "https://")):
        raise ConfigError(
            f"'{mask_url(address)}' is not an address of Qdrant: write qdrant:FOLDER or "
            "qdrant+http://HOST:6333"
        )

    def open_client() -> Any:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        key = unquote(parts.password) if parts.password else None
        return require("qdrant_client", extra="qdrant").QdrantClient(
            url=urlunsplit(parts._replace(netloc=host)),
            api_key=key,
            timeout=_TIMEOUT,
            check_compatibility=False,
        )

    return QdrantServerDatabase(mask_url(address), open_client)
