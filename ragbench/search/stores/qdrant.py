"""Qdrant: collections of a server, or of its Python client's local mode.

Qdrant takes whole numbers and UUIDs as ids: a point's id is a UUID of version 5 made of the
chunk's, which is kept in the payload. The payload is the plain form (`stores.record`);
what is empty of it is left out.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, cast

from ragbench.core.chunk import stored_chunk
from ragbench.core.filters import Filter, number
from ragbench.errors import ForeignCollectionError, StoreError
from ragbench.masking import mask_url
from ragbench.plugins import np, require
from ragbench.search.stores.base import (
    NORMAL,
    CollectionInfo,
    Effort,
    MetricName,
    Row,
    Rows,
    Space,
    Words,
)
from ragbench.search.stores.database import (
    WritableDatabase,
    fitted_name,
    info_from_json,
    info_to_json,
    name_from_json,
    server_url,
)
from ragbench.search.stores.mapping import FieldMapping
from ragbench.search.stores.qdrant_filters import OwnFilters, PayloadFilters, written_path
from ragbench.search.stores.record import StoredChunk, WordVector, fastembed_words, field_key, plain

DENSE = "dense"
WORDS = "words"
"""The sparse vector of a collection that ranks by words itself; the store weighs them."""
KEPT = ["chunk_id", "document_id", "text", "start", "end", "metadata"]
"""What of a payload a chunk is made of."""
_MOST_INDEXED = 16
_BATCH = 500
_PAGE = 2000
_TIMEOUT = 60
KEY = "ragbench"
"""Under which a collection's metadata keep what ragbench says of it."""
_NAMESPACE = uuid.UUID("6f3c6b5e-3a53-5d0c-9d39-1c0f9f2f9a54")
_DELETED = 0.05
"""From such a share of removed chunks on a segment with words is rewritten."""


Point = tuple[str, dict[str, Any], dict[str, Any]]
"""Id, vectors and payload."""


def point_id(identifier: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, identifier))


class QdrantServerDatabase(WritableDatabase):
    """Collections of a server. The connection is a ``QdrantClient``."""

    ranks_words: ClassVar[bool] = True

    def __init__(self, address: str, opening: Callable[[], Any], *, local: bool = False) -> None:
        super().__init__(address, opening)
        self._local = local

    def load(self) -> tuple[type[Exception], ...]:
        exceptions = require("qdrant_client.http.exceptions", extra="qdrant")
        return (exceptions.ApiException, ValueError, OSError)

    def listed(self, connection: Any) -> list[str]:
        return [each.name for each in connection.get_collections().collections]

    def read(self, connection: Any, name: str, mapping: FieldMapping) -> QdrantPayloads | None:
        if not connection.collection_exists(name):
            return None
        params = connection.get_collection(name).config.params
        kept = params.vectors
        named = cast("Mapping[str, Any]", kept if isinstance(kept, Mapping) else {"": kept})
        # A query has one vector: those with many a point compare otherwise.
        dense = {at: one for at, one in named.items() if one and one.multivector_config is None}
        vector = mapping.chosen_vector(name, list(dense))
        found = cast("MetricName", dense[vector].distance.value.lower())
        metric = mapping.checked_metric(name, found)
        space = Space(vector=vector, dimension=int(dense[vector].size), metric=metric)
        sparse = mapping.chosen_words(name, list(params.sparse_vectors or ()))
        language = mapping.language or "english"
        how = f"Qdrant/bm25, {language}{'' if mapping.language else ' assumed'}"
        words = None if sparse is None else Words(field=sparse, how=how)
        return QdrantPayloads(connection, name, space, words, language)

    def names(self, connection: Any) -> list[str]:
        """Of all collections those with ragbench's mark."""
        texts = [read_mark(connection, name) for name in self.listed(connection)]
        return [name_from_json(text, self.address) for text in texts if text is not None]

    def make(self, connection: Any, info: CollectionInfo) -> None:
        """An empty collection; what is kept with it are its metadata."""
        models = qdrant_models()
        name = fitted_name(info.name)
        if connection.collection_exists(name):
            raise StoreError(
                f"{self.address}: there is a collection '{name}' that ragbench did not make"
            )
        dense = models.VectorParams(size=info.dimension, distance=models.Distance.DOT)
        settings: dict[str, Any] = {"vectors_config": {DENSE: dense}}
        if info.words is not None:
            sparse = models.SparseVectorParams(modifier=models.Modifier.IDF)
            settings["sparse_vectors_config"] = {WORDS: sparse}
            # Qdrant counts in how many chunks a word stands in each shard by itself,
            settings["shard_number"] = 1
            # and removed ones until their segment is rewritten: by default from a fifth of it on.
            settings["optimizers_config"] = models.OptimizersConfigDiff(
                deleted_threshold=_DELETED, vacuum_min_vector_number=100
            )
        connection.create_collection(name, metadata={KEY: info_to_json(info)}, **settings)
        if read_mark(connection, name) is None:
            connection.delete_collection(name)
            raise StoreError(
                f"{self.address}: the server keeps no metadata of collections: "
                "Qdrant 1.16 or newer is needed"
            )
        if not self._local:
            for field in ("document_id", "lists", "spelled"):
                connection.create_payload_index(name, field, models.PayloadSchemaType.KEYWORD)

    def attach(self, connection: Any, name: str) -> OwnPoints | None:
        fitted = fitted_name(name)
        if not connection.collection_exists(fitted):
            return None
        if read_mark(connection, fitted) is None:
            raise ForeignCollectionError(self.address, name)
        return OwnPoints(self.address, connection, fitted, qdrant_models(), is_exact=self._local)

    def remove(self, connection: Any, name: str) -> None:
        if self.attach(connection, name) is not None:
            connection.delete_collection(fitted_name(name))


@dataclass
class OfClient:
    _client: Any
    _name: str

    def count(self) -> int:
        return int(self._client.count(self._name, exact=True).count)

    _payload: ClassVar[object] = True
    """What of each hit's payload is given."""

    def _answers(
        self, queries: Sequence[Any], using: str, limit: int, condition: Any, effort: Effort
    ) -> list[list[Any]]:
        models = qdrant_models()
        asked = {"using": using or None, "limit": limit, "filter": condition}
        asked["with_payload"] = self._payload
        if effort != NORMAL:
            asked["params"] = models.SearchParams(hnsw_ef=effort.ef, exact=effort.exact)
        requests = [models.QueryRequest(query=query, **asked) for query in queries]
        found: Any = self._client.query_batch_points(self._name, requests) if requests else ()
        return [answer.points for answer in found]


@dataclass
class QdrantPayloads(OfClient):
    """One collection of another program; see `ragbench.search.stores.base.Reader`.

    A row's fields are its payload.
    """

    most = None
    key = None
    space: Space
    words: Words | None
    _language: str

    def sample(self, limit: int) -> list[Row]:
        points, _ = self._client.scroll(self._name, limit=limit, with_payload=True)
        return [Row(str(point.id), point.payload or {}) for point in points]

    def condition(self, filters: Filter | None, native: object) -> Any:
        """See `Reader`; a native one is Qdrant's JSON object."""
        models = qdrant_models()
        said = PayloadFilters(models)
        parts = [] if filters is None else [said(filters)]
        if native is not None:
            parts.append(said.native(native))
        return models.Filter(must=parts) if parts else None

    @property
    def is_exact(self) -> bool:
        """See `Reader`; the client's local mode has no index."""
        local = require("qdrant_client.local.qdrant_local", extra="qdrant").QdrantLocal
        return isinstance(self._client._client, local)

    def nearest(self, rows: Rows, limit: int, condition: Any, effort: Effort) -> list[list[Row]]:
        found = self._answers(rows.tolist(), self.space.vector, limit, condition, effort)
        sign = -1.0 if self.space.metric in ("euclid", "manhattan") else 1.0
        return [[_foreign_row(point, sign) for point in points] for points in found]

    def matching(self, texts: Sequence[str], limit: int, condition: Any) -> list[list[Row]]:
        """See `Reader`; the questions as fastembed's ``Qdrant/bm25`` writes them."""
        assert self.words is not None
        numbers = [fastembed_words(text, self._language) for text in texts]
        vector = qdrant_models().SparseVector
        queries = [vector(indices=one, values=[1.0] * len(one)) for one in numbers if one]
        answers = iter(self._answers(queries, self.words.field, limit, condition, NORMAL))
        return [
            [_foreign_row(one) for one in next(answers) if one.score > 0] if words else []
            for words in numbers
        ]


class OwnPoints(OfClient):
    """A collection that ragbench fills; see `ragbench.search.stores.base.WordWriter`."""

    read = staticmethod(stored_chunk)
    _payload: ClassVar[object] = KEPT

    def __init__(self, address: str, client: Any, name: str, models: Any, is_exact: bool) -> None:
        super().__init__(client, name)
        self.is_exact = is_exact
        self._address = address
        self._models = models
        self._indexed: set[str] = set()
        self._filters = OwnFilters(models)

    def read_info(self) -> CollectionInfo:
        text = read_mark(self._client, self._name)
        if text is None:
            raise StoreError(f"{self._address}: '{self._name}' has lost its metadata")
        return info_from_json(text, self._address)

    def write_info(self, info: CollectionInfo) -> None:
        self._client.update_collection(self._name, metadata={KEY: info_to_json(info)})

    def remove(self, ids: Sequence[str]) -> None:
        points = [point_id(value) for value in ids]
        self._client.delete(self._name, self._models.PointIdsList(points=points), wait=True)

    def _index(self, path: str, kind: str) -> None:
        if not self.is_exact:
            self._client.create_payload_index(self._name, path, kind)

    def _upsert(self, points: Sequence[Point]) -> None:
        kind = self._models.PointStruct
        made = [kind(id=one, vector=vectors, payload=kept) for one, vectors, kept in points]
        self._client.upsert(self._name, made, wait=True)

    def _records(
        self, points: Sequence[str], keys: list[str], vectors: list[str] | None = None
    ) -> Iterable[Any]:
        asked = {"with_payload": keys, "with_vectors": vectors or False}
        for at in range(0, len(points), _PAGE):
            yield from self._client.retrieve(self._name, list(points[at : at + _PAGE]), **asked)

    def _page(self, keys: list[str], offset: Any) -> Any:
        """Some points, and where the next ones begin; None where there are no more."""
        return self._client.scroll(self._name, limit=_PAGE, offset=offset, with_payload=keys)

    def _sparse(self, words: WordVector) -> Any:
        return self._models.SparseVector(indices=list(words), values=list(words.values()))

    def write(self, chunks: Sequence[StoredChunk], rows: Rows) -> None:
        plains = [plain(chunk) for chunk in chunks]
        self._index_fields(plains)
        points: list[Point] = []
        for chunk, fields, row in zip(chunks, plains, rows, strict=True):
            vectors = {DENSE: row.tolist()}
            if chunk.words:
                vectors[WORDS] = self._sparse(chunk.words)
            payload = {name: value for name, value in fields.items() if value not in (None, {})}
            if fields["fields"]:
                payload["spelled"] = list(fields["fields"])
            points.append((point_id(chunk.id), vectors, payload))
        for first in range(0, len(points), _BATCH):
            self._upsert(points[first : first + _BATCH])

    def _index_fields(self, chunks: Sequence[Mapping[str, Any]]) -> None:
        """Has the first 16 fields that are seen indexed; each index makes writing slower."""
        found: dict[str, str] = {}
        for chunk in chunks:
            for name, value in chunk["metadata"].items():
                kind = _kind(value)
                if kind and '"' not in name and "\\" not in name:
                    found.setdefault(name, kind)
        dated = {key for chunk in chunks for key in chunk["dates"] or ()}
        new = sorted(found.keys() - self._indexed)[: _MOST_INDEXED - len(self._indexed)]
        for name in new:
            self._index(written_path(["metadata", name]), found[name])
            if field_key(name) in dated:
                self._index(written_path(["dates", field_key(name)]), "float")
        self._indexed.update(new)

    def kept(self, ids: Sequence[str]) -> list[Mapping[str, Any]]:
        return [one.payload for one in self._records([point_id(at) for at in ids], KEPT)]

    def rows(self, ids: Sequence[str]) -> dict[str, Rows]:
        found = self._records([point_id(at) for at in ids], ["chunk_id"], [DENSE])
        return {one.payload["chunk_id"]: np.asarray(one.vector[DENSE], np.float32) for one in found}

    def digests(self) -> dict[str, str]:
        keys = ["chunk_id", "digest"]
        records, offset = self._page(keys, None)
        while offset is not None:
            more, offset = self._page(keys, offset)
            records = [*records, *more]
        return {one.payload["chunk_id"]: one.payload["digest"] for one in records}

    def condition(self, filters: Filter | None, native: object) -> Any:
        return None if filters is None else self._filters(filters)

    def nearest(self, rows: Rows, limit: int, condition: Any, effort: Effort) -> list[list[Row]]:
        found = self._answers(rows.tolist(), DENSE, limit, condition, effort)
        return [[_row(point) for point in points] for points in found]

    def best_sums(self, asked: Sequence[WordVector], limit: int, condition: Any) -> list[list[Row]]:
        queries = [self._sparse(one) for one in asked]
        found = self._answers(queries, WORDS, limit, condition, NORMAL)
        return [[_row(point) for point in points if point.score > 0] for points in found]

    def weights(self, numbers: Sequence[int]) -> list[float | None]:
        """See `WordWriter`: a score divided by what the chunk has."""
        queries = [self._sparse({number_: 1.0}) for number_ in numbers]
        best: list[Any] = [one and one[0] for one in self._answers(queries, WORDS, 1, None, NORMAL)]
        held = {one.payload["chunk_id"] for one in best if one and one.score > 0}
        records = self._records([*map(point_id, held)], ["chunk_id"], [WORDS])
        vectors = {one.payload["chunk_id"]: one.vector[WORDS] for one in records}
        weights: list[float | None] = []
        for number_, one in zip(numbers, best, strict=True):
            vector = vectors[one.payload["chunk_id"]] if one and one.score > 0 else None
            has = vector and vector.values[list(vector.indices).index(number_)]
            weights.append(float(one.score) / float(has) if has else None)
        return weights


def _foreign_row(point: Any, sign: float = 1.0) -> Row:
    return Row(str(point.id), point.payload or {}, sign * float(point.score))


def _row(point: Any) -> Row:
    return Row(point.payload["chunk_id"], point.payload, point.score)


def _kind(value: object) -> str | None:
    if isinstance(value, list):
        items = cast("list[object]", value)
        value = items[0] if items else None
    if isinstance(value, str):
        return "keyword"
    return "bool" if isinstance(value, bool) else None if number(value) is None else "float"


def qdrant_models() -> ModuleType:
    return require("qdrant_client.models", extra="qdrant")


def read_mark(client: Any, name: str) -> str | None:
    metadata: dict[str, Any] | None = client.get_collection(name).config.metadata
    text = (metadata or {}).get(KEY)
    return text if isinstance(text, str) else None


def open_server(address: str) -> QdrantServerDatabase:
    """A server: ``qdrant+http://HOST:6333`` (or ``https``); a password is its API key."""
    url, _, key = server_url(address, "Qdrant", "qdrant:FOLDER or qdrant+http://HOST:6333")

    def open_client() -> Any:
        client = require("qdrant_client", extra="qdrant").QdrantClient
        return client(url=url, api_key=key or None, timeout=_TIMEOUT, check_compatibility=False)

    return QdrantServerDatabase(mask_url(address), open_client)
