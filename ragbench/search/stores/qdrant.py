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
"""Keys of a payload that a chunk is made of; the others serve filters alone."""
_MAX_INDEXED_FIELDS = 16
"""Fields of metadata that have an index of their own: each makes writing slower."""
_BATCH = 500
"""Points that are written in one request."""
_PAGE = 2000
"""Points that are read in one request."""
_TIMEOUT = 60
"""Seconds that a request may take; the client's own limit is 5."""
KEY = "ragbench"
"""Under which a collection's metadata keep what ragbench says of it."""
_NAMESPACE = uuid.UUID("6f3c6b5e-3a53-5d0c-9d39-1c0f9f2f9a54")
"""Of the UUIDs of points; with another one no stored chunk would be recognised."""
_DELETED = 0.05
"""From such a share of removed chunks on a segment with words is rewritten: until then, the chunks
that are gone still count in what a word is worth."""


Point = tuple[str, dict[str, Any], dict[str, Any]]
"""Id, vectors and payload."""


def point_id(identifier: str) -> str:
    """The id of the Qdrant point that holds a chunk: a UUID made of the chunk's id.

    Qdrant takes no other texts as ids. Points are found by it again, so it cannot change.
    """
    return str(uuid.uuid5(_NAMESPACE, identifier))


class QdrantServerDatabase(WritableDatabase):
    """Collections of a server. The connection is a ``QdrantClient``."""

    ranks_words: ClassVar[bool] = True

    def __init__(self, address: str, opening: Callable[[], Any], *, local: bool = False) -> None:
        """A Qdrant database, reached through a client that is made at its first use.

        Its local mode searches exactly, and makes no indexes of fields.

        Args:
            address: without a password, for messages.
            opening: makes the client.
            local: whether the client works on a folder of its own, without a server.
        """
        super().__init__(address, opening)
        self._local = local

    def load(self) -> tuple[type[Exception], ...]:
        """The exceptions of Qdrant's client; its local mode raises plain ``ValueError``.

        `connected` turns these into errors of one line.
        """
        exceptions = require("qdrant_client.http.exceptions", extra="qdrant")
        return (exceptions.ApiException, ValueError, OSError)

    def listed(self, connection: Any) -> list[str]:
        """The names of all collections of the Qdrant database, whoever made them.

        Errors show them where a collection is not there.
        """
        return [collection.name for collection in connection.get_collections().collections]

    def read(self, connection: Any, name: str, mapping: FieldMapping) -> QdrantPayloads | None:
        """A collection for reading, with its vector, metric and words; None where there is none.

        Fields with several vectors for each point are left out: a query has a single vector.

        Raises:
            ConfigError: the user has to choose a vector, or names a metric that is not its own.
        """
        if not connection.collection_exists(name):
            return None
        params = connection.get_collection(name).config.params
        # A collection with a single vector gives its settings, without a name.
        settings = params.vectors
        if not isinstance(settings, Mapping):
            settings = {"": settings}
        vectors: dict[str, Any] = {}
        for vector_name, vector in cast("Mapping[str, Any]", settings).items():
            # A query has one vector; fields with several vectors for a point compare otherwise.
            if vector and vector.multivector_config is None:
                vectors[vector_name] = vector
        vector_name = mapping.chosen_vector(name, list(vectors))
        vector = vectors[vector_name]
        # Qdrant's names for how vectors are compared are those of ragbench, but for capitals.
        distance = cast("MetricName", vector.distance.value.lower())
        metric = mapping.checked_metric(name, distance)
        space = Space(vector=vector_name, dimension=int(vector.size), metric=metric)
        language = mapping.language or "english"
        words = None
        sparse = mapping.chosen_words(name, list(params.sparse_vectors or ()))
        if sparse is not None:
            ranking = f"Qdrant/bm25, {language}"
            if not mapping.language:
                ranking += " assumed"
            words = Words(field=sparse, ranking=ranking)
        return QdrantPayloads(connection, name, space, words, language)

    def names(self, connection: Any) -> list[str]:
        """The names of ragbench's own collections.

        These are the collections with ragbench's mark, which it writes into their metadata; the
        mark holds the name that the user gave, while Qdrant may know the collection by another.
        """
        names: list[str] = []
        for server_name in self.listed(connection):
            mark = read_mark(connection, server_name)
            if mark is not None:
                names.append(name_from_json(mark, self.address))
        return names

    def make(self, connection: Any, info: CollectionInfo) -> None:
        """Makes an empty collection, with its record of itself as metadata.

        Names of vectors, the indexed fields and the mark are the stored form: older collections
        have them.

        Raises:
            StoreError: another program has a collection of the name, or the server keeps no
                metadata.
        """
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
        # An older server drops the metadata in silence.
        if read_mark(connection, name) is None:
            connection.delete_collection(name)
            raise StoreError(
                f"{self.address}: the server keeps no metadata of collections: "
                "Qdrant 1.16 or newer is needed"
            )
        if not self._local:
            # What filters ask of every collection; fields of metadata are indexed as they are seen.
            for field in ("document_id", "lists", "spelled"):
                connection.create_payload_index(name, field, models.PayloadSchemaType.KEYWORD)

    def attach(self, connection: Any, name: str) -> OwnPoints | None:
        """A collection of ragbench's own, one with its mark, for writing; None where there is none.

        The mark is what ragbench writes into a collection's metadata.

        Raises:
            ForeignCollectionError: there is one of this name without the mark. Whoever opens it
                may then read it as another program's.
        """
        fitted = fitted_name(name)
        if not connection.collection_exists(fitted):
            return None
        if read_mark(connection, fitted) is None:
            raise ForeignCollectionError(self.address, name)
        return OwnPoints(self.address, connection, fitted, qdrant_models(), is_exact=self._local)

    def remove(self, connection: Any, name: str) -> None:
        """Removes a collection of ragbench's own, and never one that another program made.

        Only the mark in its metadata shows whose a collection is.
        """
        # `attach` raises for a collection without the mark, which then stays.
        if self.attach(connection, name) is not None:
            connection.delete_collection(fitted_name(name))


@dataclass
class ClientCollection:
    """A collection as Qdrant's client reaches it, whoever fills it."""

    _client: Any
    _name: str

    def count(self) -> int:
        """The exact number of the collection's points.

        Reports show it, and a run is identified by it.
        """
        return int(self._client.count(self._name, exact=True).count)

    _payload: ClassVar[object] = True
    """What of each hit's payload is given."""

    def _found_points(
        self, queries: Sequence[Any], using: str, limit: int, condition: Any, effort: Effort
    ) -> list[list[Any]]:
        """The points that each query finds, best first, as Qdrant's client gives them.

        One request takes all queries. The embedded engine overrides this.

        Args:
            queries: vectors, dense or sparse.
            using: the name of the vectors that are searched; empty for a collection's only one.
            limit: the most points of one query.
            condition: a filter of Qdrant; None for none.
            effort: how many vectors Qdrant's index looks at.
        """
        # Questions without words were left out before: perhaps none is left.
        if not queries:
            return []
        models = qdrant_models()
        params = None  # the server's own settings
        if effort != NORMAL:
            params = models.SearchParams(hnsw_ef=effort.ef, exact=effort.exact)
        requests: list[Any] = []
        for query in queries:
            request = models.QueryRequest(
                query=query,
                using=using or None,  # a collection's single vector has no name
                limit=limit,
                filter=condition,
                params=params,
                with_payload=self._payload,
            )
            requests.append(request)
        responses: Any = self._client.query_batch_points(self._name, requests)
        return [response.points for response in responses]


@dataclass
class QdrantPayloads(ClientCollection):
    """One collection of another program; see `ragbench.search.stores.base.Reader`.

    A row's fields are its payload.
    """

    row_limit = None
    key = None
    space: Space
    words: Words | None
    _language: str
    """Whose stemmer cuts the words of questions."""

    def sample(self, limit: int) -> list[Row]:
        """The first points in the order of their ids, at most `limit`.

        The meaning of the payload's fields is guessed from them, so that a user need not name all.
        """
        points, _ = self._client.scroll(self._name, limit=limit, with_payload=True)
        return [Row(str(point.id), point.payload or {}) for point in points]

    def condition(self, filters: Filter | None, native: object) -> Any:
        """The filters, and a native one (Qdrant's own JSON object), as one filter.

        None without any. A search translates its filters once, and passes the result to `nearest`
        or `matching`.
        """
        models = qdrant_models()
        payload_filters = PayloadFilters(models)
        parts: list[Any] = []
        if filters is not None:
            parts.append(payload_filters(filters))
        if native is not None:
            parts.append(payload_filters.native(native))
        # Each part is a filter by itself, and all must hold.
        return models.Filter(must=parts) if parts else None

    @property
    def is_exact(self) -> bool:
        """Whether a search compares every vector: only the client's local mode has no index.

        Reports measure by exact searches how many chunks an index misses.
        """
        local = require("qdrant_client.local.qdrant_local", extra="qdrant").QdrantLocal
        # The client has no public word for its mode.
        return isinstance(self._client._client, local)

    def nearest(self, rows: Rows, limit: int, condition: Any, effort: Effort) -> list[list[Row]]:
        """The points nearest to each query vector.

        A distance becomes its negative, so that higher is nearer.
        """
        answers = self._found_points(rows.tolist(), self.space.vector, limit, condition, effort)
        # The smallest distance is the best: its sign is turned round.
        sign = -1.0 if self.space.metric in ("euclid", "manhattan") else 1.0
        rankings: list[list[Row]] = []
        for points in answers:
            rankings.append([_foreign_row(point, sign) for point in points])
        return rankings

    def matching(self, texts: Sequence[str], limit: int, condition: Any) -> list[list[Row]]:
        """The points that match each question by words, which are numbered as ``Qdrant/bm25`` does.

        A question has to be cut into words as the passages of the collection were. A question
        without words finds nothing.
        """
        assert self.words is not None
        make_vector = qdrant_models().SparseVector
        rankings: list[list[Row]] = [[] for _ in texts]
        queries: list[Any] = []
        positions: list[int] = []
        for position, text in enumerate(texts):
            numbers = fastembed_words(text, self._language)
            if numbers:  # Qdrant refuses a query without any
                values = [1.0] * len(numbers)
                queries.append(make_vector(indices=numbers, values=values))
                positions.append(position)
        answers = self._found_points(queries, self.words.field, limit, condition, NORMAL)
        for position, points in zip(positions, answers, strict=True):
            rankings[position] = [_foreign_row(point) for point in points if point.score > 0]
        return rankings


class OwnPoints(ClientCollection):
    """A collection that ragbench fills; see `ragbench.search.stores.base.WordWriter`."""

    read = staticmethod(stored_chunk)
    _payload: ClassVar[object] = KEPT

    def __init__(self, address: str, client: Any, name: str, models: Any, is_exact: bool) -> None:
        """An open collection that ragbench fills; no request is sent for that.

        The embedded engine's collections have it, too, with their package in the place of the
        models.

        Args:
            address: of the database, for errors.
            client: Qdrant's client.
            name: of the collection on the server.
            models: the client's models, or the embedded engine's package in their place.
            is_exact: whether every vector is compared.
        """
        super().__init__(client, name)
        self.is_exact = is_exact
        self._address = address
        self._models = models
        self._indexed: set[str] = set()
        """The fields of metadata that were given an index since this object was made."""
        self._filters = OwnFilters(models)

    def read_info(self) -> CollectionInfo:
        """The collection's record of itself on the server now; another program may have changed it.

        A record kept here from the opening could be out of date.

        Raises:
            StoreError: the record is gone.
        """
        mark = read_mark(self._client, self._name)
        if mark is None:
            raise StoreError(f"{self._address}: '{self._name}' has lost its metadata")
        return info_from_json(mark, self._address)

    def write_info(self, info: CollectionInfo) -> None:
        """Replaces the collection's record of itself, which lies in its metadata on the server.

        So the record goes with the collection, wherever the server keeps that.
        """
        self._client.update_collection(self._name, metadata={KEY: info_to_json(info)})

    def remove(self, ids: Sequence[str]) -> None:
        """Removes the points of these chunks, and waits: the next read no longer sees them.

        An indexing removes so what the corpus no longer has.
        """
        points = [point_id(chunk_id) for chunk_id in ids]
        self._client.delete(self._name, self._models.PointIdsList(points=points), wait=True)

    # What the embedded engine does by a package of its own (`stores.qdrant_embedded`).

    def _make_field_index(self, path: str, kind: str) -> None:
        """Has Qdrant index a field of the payload, unless every vector is compared anyway.

        Filters on the field are fast then. The embedded engine overrides this.

        Args:
            path: of the field.
            kind: of its values, as `_index_kind` says.
        """
        if not self.is_exact:
            self._client.create_payload_index(self._name, path, kind)

    def _write_points(self, points: Sequence[Point]) -> None:
        """Adds or replaces points through the client, and waits: the next read sees them.

        The embedded engine overrides this.
        """
        structs: list[Any] = []
        for identifier, vectors, payload in points:
            struct = self._models.PointStruct(id=identifier, vector=vectors, payload=payload)
            structs.append(struct)
        self._client.upsert(self._name, structs, wait=True)

    def _points_of_ids(
        self, points: Sequence[str], keys: list[str], vectors: list[str] | None = None
    ) -> Iterable[Any]:
        """The points of these ids that the collection has, with some keys of their payload.

        The points are read page by page, as a request has a limit. The embedded engine overrides
        this.

        Args:
            points: their ids.
            keys: of the payload.
            vectors: names of the vectors that come along; None for none.
        """
        for start in range(0, len(points), _PAGE):
            page = list(points[start : start + _PAGE])
            yield from self._client.retrieve(
                self._name, page, with_payload=keys, with_vectors=vectors or False
            )

    def _next_page(self, keys: list[str], offset: Any) -> Any:
        """The next points with some keys of their payload, and the offset of those after.

        None at the end. `digests` reads a whole collection so, and memory holds a page.
        """
        return self._client.scroll(self._name, limit=_PAGE, offset=offset, with_payload=keys)

    def _sparse_vector(self, words: WordVector) -> Any:
        """The words of a chunk or of a question as a sparse vector of Qdrant's models.

        The embedded engine has another form.
        """
        return self._models.SparseVector(indices=list(words), values=list(words.values()))

    # What is the same for both.

    def write(self, chunks: Sequence[StoredChunk], rows: Rows) -> None:
        """Writes chunks with their vectors as points, in batches.

        If one fails, those before it stay. An indexing that was cut off repeats what is missing.
        The payload's keys are stored: filters and `stored` read them.
        """
        plains = [plain(chunk) for chunk in chunks]
        # Before the points: Qdrant then indexes their fields as it writes them.
        self._index_fields(plains)
        points: list[Point] = []
        for chunk, fields, row in zip(chunks, plains, rows, strict=True):
            vectors = {DENSE: row.tolist()}
            if chunk.words:
                vectors[WORDS] = self._sparse_vector(chunk.words)
            payload: dict[str, Any] = {}
            for name, value in fields.items():
                # Only None and empty objects are left out: an offset of 0 and a flag that is false
                # are values.
                if value not in (None, {}):
                    payload[name] = value
            # The names by themselves, which filters ask for: see `OwnFilters`.
            if fields["fields"]:
                payload["spelled"] = list(fields["fields"])
            points.append((point_id(chunk.id), vectors, payload))
        for start in range(0, len(points), _BATCH):
            batch = points[start : start + _BATCH]
            self._write_points(batch)

    def _index_fields(self, chunks: Sequence[Mapping[str, Any]]) -> None:
        """Has Qdrant index up to `_MAX_INDEXED_FIELDS` metadata fields, for fast filters.

        The first that are seen count: each index makes writing slower.

        Args:
            chunks: in the plain form (`record.plain`), before they are written.
        """
        kinds: dict[str, str] = {}
        dated_keys: set[str] = set()
        for chunk in chunks:
            dated_keys.update(chunk["dates"] or ())
            for name, value in chunk["metadata"].items():
                kind = _index_kind(value)
                # A path cannot lead to a key with one of these.
                if kind and '"' not in name and "\\" not in name:
                    kinds.setdefault(name, kind)
        free = _MAX_INDEXED_FIELDS - len(self._indexed)
        # Sorted, so that not the order of a set decides which fields are indexed.
        new_names = sorted(kinds.keys() - self._indexed)[:free]
        for name in new_names:
            path = written_path(["metadata", name])
            self._make_field_index(path, kinds[name])
            key = field_key(name)
            if key in dated_keys:  # ranges of dates ask for their milliseconds
                date_path = written_path(["dates", key])
                self._make_field_index(date_path, "float")
        self._indexed.update(new_names)

    def stored(self, ids: Sequence[str]) -> list[Mapping[str, Any]]:
        """The payloads of the chunks with these ids, without the keys that only filters need.

        `read` makes chunks of them; unknown ids are left out.
        """
        points = [point_id(chunk_id) for chunk_id in ids]
        return [record.payload for record in self._points_of_ids(points, KEPT)]

    def rows(self, ids: Sequence[str]) -> dict[str, Rows]:
        """The dense vectors of these chunks, by chunk id; unknown ids are left out.

        The id is read from the payload, since a point's own id is only a digest of it.
        """
        points = [point_id(chunk_id) for chunk_id in ids]
        rows: dict[str, Rows] = {}
        for record in self._points_of_ids(points, ["chunk_id"], [DENSE]):
            chunk_id = record.payload["chunk_id"]
            rows[chunk_id] = np.asarray(record.vector[DENSE], np.float32)
        return rows

    def digests(self) -> dict[str, str]:
        """The digest of every chunk, by id, read page by page and without texts or vectors.

        An indexing sees by the digests which chunks have changed.
        """
        digests: dict[str, str] = {}
        offset = None
        while True:
            # Only these two keys: texts and vectors of a whole collection would fill the memory.
            records, offset = self._next_page(["chunk_id", "digest"], offset)
            for record in records:
                payload = record.payload
                digests[payload["chunk_id"]] = payload["digest"]
            if offset is None:
                return digests

    def condition(self, filters: Filter | None, native: object) -> Any:
        """The filter over the payload that ragbench writes; a native one does not come here.

        A search translates its filter once, and passes the result to `nearest` or `best_sums`.
        """
        return None if filters is None else self._filters(filters)

    def nearest(self, rows: Rows, limit: int, condition: Any, effort: Effort) -> list[list[Row]]:
        """The points nearest to each query vector.

        Scores are cosines, as all vectors have length 1. All own collections have scores that
        compare for this reason.
        """
        rankings: list[list[Row]] = []
        for points in self._found_points(rows.tolist(), DENSE, limit, condition, effort):
            rankings.append([_own_row(point) for point in points])
        return rankings

    def best_sums(
        self, queries: Sequence[WordVector], limit: int, condition: Any
    ) -> list[list[Row]]:
        """The points that share words with each query, by the greatest sums above 0.

        Qdrant weighs each word by its rarity in the collection.
        """
        vectors = [self._sparse_vector(query) for query in queries]
        rankings: list[list[Row]] = []
        for points in self._found_points(vectors, WORDS, limit, condition, NORMAL):
            rankings.append([_own_row(point) for point in points if point.score > 0])
        return rankings

    def weights(self, numbers: Sequence[int]) -> list[float | None]:
        """The weight (inverse document frequency) of each word, by its number.

        The weight is None where no chunk has the word. No call of Qdrant gives the weight. But a
        chunk's score for one word is the weight times the chunk's own value for the word, and that
        value can be read.
        """
        queries = [self._sparse_vector({word: 1.0}) for word in numbers]
        # For each word the chunk that ranks highest by it; None where no chunk has it.
        best_points: list[Any] = []
        for points in self._found_points(queries, WORDS, 1, None, NORMAL):
            has_word = bool(points) and points[0].score > 0
            best_point = points[0] if has_word else None
            best_points.append(best_point)

        # Several words may have the same chunk: it is read once.
        chunk_ids: set[str] = set()
        for point in best_points:
            if point is not None:
                chunk_ids.add(point.payload["chunk_id"])
        point_ids = [point_id(chunk_id) for chunk_id in chunk_ids]
        vectors: dict[str, Any] = {}
        for record in self._points_of_ids(point_ids, ["chunk_id"], [WORDS]):
            vectors[record.payload["chunk_id"]] = record.vector[WORDS]

        weights: list[float | None] = []
        for word, point in zip(numbers, best_points, strict=True):
            weight = None
            if point is not None:
                vector = vectors[point.payload["chunk_id"]]
                place = list(vector.indices).index(word)
                value_in_chunk = vector.values[place]
                # The score is the product of both weights; one of 0 tells nothing of the other.
                if value_in_chunk:
                    weight = float(point.score) / float(value_in_chunk)
            weights.append(weight)
        return weights


def _foreign_row(point: Any, sign: float = 1.0) -> Row:
    """A hit in another program's collection as a row, by Qdrant's own id; its payload may be empty.

    Results order higher scores first, so a distance is turned round.

    Args:
        sign: -1 where the score is a distance.
    """
    return Row(str(point.id), point.payload or {}, sign * float(point.score))


def _own_row(point: Any) -> Row:
    """A hit in ragbench's own collection as a row, by the id of its chunk, which orders ties.

    The point's own id is a digest, which other stores do not have.
    """
    return Row(point.payload["chunk_id"], point.payload, point.score)


def _index_kind(value: object) -> str | None:
    """The kind of Qdrant's index for a field with such a value; None where there is none for it.

    Of a list the first item counts: Qdrant indexes its items one by one.
    """
    if isinstance(value, list):
        items = cast("list[object]", value)
        value = items[0] if items else None
    if isinstance(value, str):
        return "keyword"
    if isinstance(value, bool):  # before numbers, because Python's flags are numbers
        return "bool"
    if number(value) is None:
        return None
    return "float"


def qdrant_models() -> ModuleType:
    """The models of Qdrant's client, imported at first use.

    The import is slow, the package optional.
    """
    return require("qdrant_client.models", extra="qdrant")


def read_mark(client: Any, name: str) -> str | None:
    """The mark that ragbench leaves in a collection's metadata.

    The mark is ragbench's record of the collection, as JSON. None for a collection of another
    program, which is read and never written to.
    """
    metadata: dict[str, Any] | None = client.get_collection(name).config.metadata
    text = (metadata or {}).get(KEY)
    return text if isinstance(text, str) else None


def open_server(address: str) -> QdrantServerDatabase:
    """The Qdrant database of a server's address; the server is reached at its first use.

    Folders of the embedded engine have another database.

    Args:
        address: ``qdrant+http://HOST:6333`` (or ``https``); a password is its API key.
    """
    url, _, key = server_url(address, "Qdrant", "qdrant:FOLDER or qdrant+http://HOST:6333")
    return QdrantServerDatabase(mask_url(address), lambda: _server_client(url, key))


def _server_client(url: str, key: str) -> Any:
    """Qdrant's client of a server, made when the database is first used.

    The import is slow, and the package is optional.
    """
    client = require("qdrant_client", extra="qdrant").QdrantClient
    # The client's check of versions would only warn where no server answers; ragbench raises an
    # error of its own then.
    return client(url=url, api_key=key or None, timeout=_TIMEOUT, check_compatibility=False)
