"""Chunks as Qdrant keeps them, the same in its embedded engine and on a server.

Qdrant takes whole numbers and UUIDs as ids: a point's id is a UUID of version 5 made of the
chunk's, which is kept in the payload. The payload is the plain form (`ragbench.stores.record`);
what is empty of it is left out.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from ragbench.core.filters import Filter, number
from ragbench.errors import StoreError
from ragbench.plugins import require
from ragbench.stores.base import NORMAL, CollectionInfo, Effort, Row, Translated
from ragbench.stores.database import info_from_json, info_to_json
from ragbench.stores.qdrant_filters import OwnFilters, written_path
from ragbench.stores.record import StoredChunk, field_key, plain, read_chunk
from ragbench.stores.words import WordVector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DENSE = "dense"
WORDS = "words"
"""The sparse vector of a collection that ranks by words itself; the store weighs them."""
KEPT = ["chunk_id", "document_id", "text", "start", "end", "metadata", "exact"]
"""What of a payload a chunk is made of."""
_MOST_INDEXED = 16
"""So many fields of the metadata are indexed; each index makes writing slower."""
_BATCH = 500
_PAGE = 2000
KEY = "ragbench"
"""Under which a collection's metadata keep what ragbench says of it."""
_NAMESPACE = uuid.UUID("6f3c6b5e-3a53-5d0c-9d39-1c0f9f2f9a54")


def point_id(identifier: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, identifier))


def payload(chunk: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept beside the vectors: of the plain fields those that hold something."""
    found = {name: value for name, value in chunk.items() if value not in (None, {})}
    if chunk["fields"]:
        found["spelled"] = list(chunk["fields"])
    return found


class FieldIndexes:
    """Which payload indexes a collection is to have: of the fields that are seen, the first 16."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def missing(self, chunks: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
        """The paths to be indexed for these chunks, with a kind: keyword, float or bool."""
        found: dict[str, str] = {}
        for chunk in chunks:
            for name, value in chunk["metadata"].items():
                kind = _kind(value)
                if kind and name not in self._known and '"' not in name and "\\" not in name:
                    found.setdefault(name, kind)
        room = _MOST_INDEXED - len(self._known)
        fresh = {name: found[name] for name in sorted(found)[:room]}
        self._known.update(fresh)
        paths = {written_path(["metadata", name]): kind for name, kind in fresh.items()}
        dated = {key for chunk in chunks for key in chunk["dates"] or ()}
        for name in fresh:
            if field_key(name) in dated:
                paths[written_path(["dates", field_key(name)])] = "float"
        return paths


def _kind(value: object) -> str | None:
    if isinstance(value, list):
        items = cast("list[object]", value)
        value = items[0] if items else None
    if isinstance(value, str):
        return "keyword"
    if isinstance(value, bool):
        return "bool"
    return None if number(value) is None else "float"


class OfClient:
    """A collection that the client asks for."""

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self._name = name

    def count(self) -> int:
        return int(self._client.count(self._name, exact=True).count)

    def _answers(self, queries: Sequence[Any], effort: Effort, **asked: Any) -> list[list[Any]]:
        models = qdrant_models()
        if effort != NORMAL:
            asked["params"] = models.SearchParams(hnsw_ef=effort.ef, exact=effort.exact)
        requests = [models.QueryRequest(query=query, **asked) for query in queries]
        found = self._client.query_batch_points(self._name, requests)
        return [answer.points for answer in found]


class OwnPoints(OfClient):
    """A collection that ragbench fills; see `ragbench.stores.base.WordWriter`."""

    read = staticmethod(read_chunk)

    def __init__(
        self, address: str, client: Any, name: str, models: ModuleType, *, is_exact: bool
    ) -> None:
        super().__init__(client, name)
        self.is_exact = is_exact
        self._address = address
        self._models = models
        self._indexes = FieldIndexes()
        self._condition = Translated(OwnFilters(models))

    def read_info(self) -> CollectionInfo:
        text = read_mark(self._client, self._name)
        if text is None:
            raise StoreError(
                f"{self._address}: the collection '{self._name}' has lost its metadata"
            )
        return info_from_json(text, self._address)

    def write_info(self, info: CollectionInfo) -> None:
        self._client.update_collection(self._name, metadata={KEY: info_to_json(info)})

    def remove(self, ids: Sequence[str]) -> None:
        points = [point_id(value) for value in ids]
        self._client.delete(self._name, self._models.PointIdsList(points=points), wait=True)

    def _index(self, path: str, kind: str) -> None:
        if not self.is_exact:
            self._client.create_payload_index(self._name, path, kind)

    def _upsert(self, points: Sequence[tuple[str, dict[str, Any], dict[str, Any]]]) -> None:
        made = [
            self._models.PointStruct(id=point, vector=vectors, payload=payload)
            for point, vectors, payload in points
        ]
        self._client.upsert(self._name, made, wait=True)

    def _records(
        self, points: Sequence[str], keys: list[str], vectors: list[str] | None = None
    ) -> Iterable[Any]:
        for first in range(0, len(points), _PAGE):
            yield from self._client.retrieve(
                self._name,
                list(points[first : first + _PAGE]),
                with_payload=keys,
                with_vectors=vectors or False,
            )

    def _pages(self, keys: list[str]) -> Iterator[Any]:
        offset = None
        while True:
            records, offset = self._client.scroll(
                self._name, limit=_PAGE, offset=offset, with_payload=keys
            )
            yield from records
            if offset is None:
                return

    def _nearest(
        self,
        queries: Sequence[Any],
        using: str,
        limit: int,
        condition: Any = None,
        *,
        effort: Effort = NORMAL,
        with_vectors: bool = False,
    ) -> list[list[Any]]:
        wanted: dict[str, Any] = (
            {"with_vector": [using]} if with_vectors else {"with_payload": KEPT}
        )
        return self._answers(queries, effort, using=using, limit=limit, filter=condition, **wanted)

    def _sparse(self, words: WordVector) -> Any:
        return self._models.SparseVector(indices=list(words), values=list(words.values()))

    def write(self, chunks: Sequence[StoredChunk], rows: NDArray[np.float32]) -> None:
        plains = [plain(chunk) for chunk in chunks]
        for path, kind in self._indexes.missing(plains).items():
            self._index(path, kind)
        points = [point_id(chunk.id) for chunk in chunks]
        for first in range(0, len(chunks), _BATCH):
            part = slice(first, first + _BATCH)
            vectors = [
                {DENSE: row.tolist(), **({WORDS: self._sparse(chunk.words)} if chunk.words else {})}
                for chunk, row in zip(chunks[part], rows[part], strict=True)
            ]
            payloads = map(payload, plains[part])
            self._upsert(list(zip(points[part], vectors, payloads, strict=True)))

    def kept(self, ids: Sequence[str]) -> list[Mapping[str, Any]]:
        return [one.payload for one in self._records([point_id(at) for at in ids], KEPT)]

    def rows(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        import numpy as np

        found = self._records([point_id(at) for at in ids], ["chunk_id"], [DENSE])
        return {
            one.payload["chunk_id"]: np.asarray(one.vector[DENSE], dtype=np.float32)
            for one in found
        }

    def digests(self) -> dict[str, str]:
        found = (one.payload for one in self._pages(["chunk_id", "digest"]))
        return {kept["chunk_id"]: kept["digest"] for kept in found}

    def condition(self, filters: Filter | None, native: object) -> Any:
        return None if filters is None else self._condition(filters)

    def nearest(
        self, rows: NDArray[np.float32], limit: int, condition: Any, effort: Effort = NORMAL
    ) -> list[list[Row]]:
        queries = [row.tolist() for row in rows]
        found = self._nearest(queries, DENSE, limit, condition, effort=effort)
        return [[_row(point) for point in points] for points in found]

    def best_sums(
        self, queries: Sequence[WordVector], limit: int, condition: Any
    ) -> list[list[Row]]:
        found = self._nearest([self._sparse(one) for one in queries], WORDS, limit, condition)
        return [[_row(point) for point in points if point.score > 0] for points in found]

    def weights(self, numbers: Sequence[int]) -> list[float | None]:
        """See `WordWriter`: a score divided by what the chunk has."""
        queries = [self._sparse({number_: 1.0}) for number_ in numbers]
        found = self._nearest(queries, WORDS, 1, with_vectors=True)
        return [_weight_of(*pair) for pair in zip(numbers, found, strict=True)]


def _row(point: Any) -> Row:
    return Row(point.payload["chunk_id"], point.payload, point.score)


def _weight_of(number_: int, found: Sequence[Any]) -> float | None:
    """What a word is worth, of the best hit of a search for it alone."""
    if not found or found[0].score <= 0:
        return None
    vector = found[0].vector[WORDS]
    has = vector.values[list(vector.indices).index(number_)]
    return float(found[0].score) / float(has)


def qdrant_models() -> ModuleType:
    return require("qdrant_client.models", extra="qdrant")


def read_mark(client: Any, name: str) -> str | None:
    metadata: dict[str, Any] | None = client.get_collection(name).config.metadata
    text = (metadata or {}).get(KEY)
    return text if isinstance(text, str) else None
