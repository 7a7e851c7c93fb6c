"""Qdrant on a server, by the package qdrant-client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ragbench.errors import ForeignCollectionError, StoreError
from ragbench.extras import require
from ragbench.records.filters import Filter
from ragbench.stores.base import CollectionInfo, SparseVector
from ragbench.stores.engine import EngineStore, Hit
from ragbench.stores.engine_database import (
    EngineDatabase,
    fitted_name,
    info_from_json,
    info_to_json,
)
from ragbench.stores.hybrid_engine import HybridEngineStore
from ragbench.stores.qdrant_points import (
    DENSE,
    MOST_INDEXED,
    SPARSE,
    check_collisions,
    condition,
    fused_here,
    payload,
    point_id,
)
from ragbench.stores.record import StoredChunk

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["QdrantServerDatabase"]

_KEY = "ragbench"
_BATCH = 500
_PAGE = 2000


class QdrantServerDatabase(EngineDatabase[Any]):
    """Collections of a server. The connection is a ``QdrantClient``."""

    def __init__(
        self, address: str, open_client: Callable[[], Any], *, local: bool = False
    ) -> None:
        """Names the server; nothing is asked of it.

        Args:
            address: without a password.
            open_client: makes the client.
            local: whether it is the client's own engine, which has no payload indexes.
        """
        super().__init__(address)
        self._open_client = open_client
        self._local = local

    def load(self) -> tuple[type[Exception], ...]:
        """What the client raises, of itself and of the connection."""
        exceptions = require("qdrant_client.http.exceptions", extra="qdrant")
        return (exceptions.ApiException, ValueError, OSError)

    def connect(self) -> Any:
        """The client."""
        return self._open_client()

    def disconnect(self, connection: Any) -> None:
        """Ends the client's connections."""
        connection.close()

    def names(self, connection: Any) -> list[str]:
        """Of all collections those with ragbench's mark."""
        listed = [each.name for each in connection.get_collections().collections]
        infos = [_read_info(connection, name, self.address) for name in listed]
        return [info.name for info in infos if info is not None]

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
            sparse_vectors_config={SPARSE: models.SparseVectorParams()} if info.sparse else None,
            metadata={_KEY: info_to_json(info)},
        )
        if _read_info(connection, name, self.address) is None:
            connection.delete_collection(name)
            raise StoreError(
                f"{self.address}: the server keeps no metadata of collections: "
                "Qdrant 1.16 or newer is needed"
            )
        if not self._local:
            connection.create_payload_index(name, "labels", models.PayloadSchemaType.KEYWORD)

    def attach(self, connection: Any, name: str) -> QdrantServer | None:
        """The collection, if it has ragbench's mark."""
        fitted = fitted_name(name)
        if not connection.collection_exists(fitted):
            return None
        info = _read_info(connection, fitted, self.address)
        if info is None:
            raise ForeignCollectionError(self.address, name)
        return QdrantServer(self.address, connection, fitted, self.failures, local=self._local)

    def remove(self, connection: Any, name: str) -> None:
        """Removes the collection, if it has ragbench's mark."""
        if self.attach(connection, name) is not None:
            connection.delete_collection(fitted_name(name))

    def store(self, engine: Any, info: CollectionInfo, connection: Any) -> EngineStore:
        """A hybrid store where there are sparse vectors."""
        kind = HybridEngineStore if info.sparse else EngineStore
        return kind(engine, info, on_close=self.released(info.name))


class QdrantServer:
    """One collection of a server; see `ragbench.stores.hybrid_engine.HybridEngine`."""

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
        """Takes what is open."""
        self.address = address
        self.failures = failures
        self._client = client
        self._name = name
        self._local = local
        self._models = _models()
        self._indexed: set[str] = set()

    def read_info(self) -> CollectionInfo:
        """See `Engine`."""
        info = _read_info(self._client, self._name, self.address)
        if info is None:
            raise StoreError(f"{self.address}: the collection '{self._name}' has lost its metadata")
        return info

    def write_info(self, info: CollectionInfo) -> None:
        """See `Engine`."""
        self._client.update_collection(self._name, metadata={_KEY: info_to_json(info)})

    def write(
        self,
        chunks: Sequence[StoredChunk],
        rows: NDArray[np.float32],
        sparse: Sequence[SparseVector] | None,
    ) -> None:
        """See `Engine`."""
        self._index_numbers({name for chunk in chunks for name in chunk.numbers})
        points = [point_id(chunk.id) for chunk in chunks]
        for first in range(0, len(chunks), _BATCH):
            batch = slice(first, first + _BATCH)
            there = self._client.retrieve(self._name, points[batch], with_payload=["id"])
            check_collisions(chunks[batch], points[batch], [record.payload for record in there])
            made: list[Any] = []
            for at in range(first, min(first + _BATCH, len(chunks))):
                vector: dict[str, Any] = {DENSE: rows[at].tolist()}
                if sparse is not None:
                    vector[SPARSE] = self._sparse(sparse[at])
                made.append(
                    self._models.PointStruct(
                        id=points[at], vector=vector, payload=payload(chunks[at])
                    )
                )
            self._client.upsert(self._name, made, wait=True)

    def remove(self, ids: Sequence[str]) -> None:
        """See `Engine`."""
        points = [point_id(value) for value in ids]
        self._client.delete(self._name, self._models.PointIdsList(points=points), wait=True)

    def bodies(self, ids: Sequence[str]) -> list[str]:
        """See `Engine`."""
        return [record.payload["body"] for record in self._retrieve(ids, ["body"])]

    def rows(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """See `Engine`."""
        import numpy as np

        return {
            record.payload["id"]: np.asarray(record.vector[DENSE], dtype=np.float32)
            for record in self._retrieve(ids, ["id"], [DENSE])
        }

    def digests(self) -> dict[str, str]:
        """See `Engine`."""
        found: dict[str, str] = {}
        offset = None
        while True:
            records, offset = self._client.scroll(
                self._name, limit=_PAGE, offset=offset, with_payload=["id", "digest"]
            )
            found.update({record.payload["id"]: record.payload["digest"] for record in records})
            if offset is None:
                return found

    def count(self) -> int:
        """See `Engine`."""
        return int(self._client.count(self._name, exact=True).count)

    def nearest(
        self, rows: NDArray[np.float32], limit: int, filters: Filter | None
    ) -> list[list[Hit]]:
        """See `Engine`."""
        return self._ask([(row.tolist(), DENSE) for row in rows], limit, filters)

    def nearest_sparse(
        self, queries: Sequence[SparseVector], limit: int, filters: Filter | None
    ) -> list[list[Hit]]:
        """See `HybridEngine`."""
        return self._ask([(self._sparse(query), SPARSE) for query in queries], limit, filters)

    def fused(
        self,
        rows: NDArray[np.float32],
        queries: Sequence[SparseVector],
        *,
        candidates: int,
        filters: Filter | None,
        weights: tuple[float, float],
        rrf_k: int,
    ) -> list[list[Hit]]:
        """See `HybridEngine`."""
        if weights[0] != weights[1]:
            dense = self.nearest(rows, candidates, filters)
            lexical = self.nearest_sparse(queries, candidates, filters)
            pairs = zip(dense, lexical, strict=True)
            return [fused_here(pair, weights, rrf_k) for pair in pairs]
        models = self._models
        wanted = None if filters is None else condition(filters, models)
        # Qdrant counts ranks from 0.
        fusion = models.RrfQuery(rrf=models.Rrf(k=rrf_k + 1))
        requests: list[Any] = []
        for row, query in zip(rows, queries, strict=True):
            legs = [(row.tolist(), DENSE), (self._sparse(query), SPARSE)]
            prefetch = [
                models.Prefetch(query=leg, using=using, limit=candidates, filter=wanted)
                for leg, using in legs
            ]
            requests.append(
                models.QueryRequest(
                    prefetch=prefetch, query=fusion, limit=2 * candidates, with_payload=["body"]
                )
            )
        found = self._batch(requests)
        return [[(weights[0] * score, body) for score, body in hits] for hits in found]

    def _index_numbers(self, names: set[str]) -> None:
        if self._local:
            return
        kind = self._models.PayloadSchemaType.FLOAT
        for name in sorted(names - self._indexed)[: MOST_INDEXED - len(self._indexed)]:
            self._client.create_payload_index(self._name, f"numbers.{name}", kind)
            self._indexed.add(name)

    def _ask(
        self, queries: list[tuple[Any, str]], limit: int, filters: Filter | None
    ) -> list[list[Hit]]:
        wanted = None if filters is None else condition(filters, self._models)
        return self._batch(
            [
                self._models.QueryRequest(
                    query=query, using=using, filter=wanted, limit=limit, with_payload=["body"]
                )
                for query, using in queries
            ]
        )

    def _batch(self, requests: list[Any]) -> list[list[Hit]]:
        answers = self._client.query_batch_points(self._name, requests)
        return [
            [(point.score, point.payload["body"]) for point in answer.points] for answer in answers
        ]

    def _sparse(self, vector: SparseVector) -> Any:
        return self._models.SparseVector(indices=list(vector.indices), values=list(vector.values))

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


def _models() -> ModuleType:
    return require("qdrant_client.models", extra="qdrant")


def _read_info(client: Any, name: str, address: str) -> CollectionInfo | None:
    metadata: dict[str, Any] | None = client.get_collection(name).config.metadata
    text = (metadata or {}).get(_KEY)
    return info_from_json(text, address) if isinstance(text, str) else None
