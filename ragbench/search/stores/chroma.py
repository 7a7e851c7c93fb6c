"""Chroma, in the process or on a server: collections that are read, and never filled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ragbench.core.filters import And, Equals, Exists, Filter, In, Not, Or, Prefix
from ragbench.errors import ConfigError, StoreError
from ragbench.masking import mask_url
from ragbench.plugins import require
from ragbench.search.stores.base import NORMAL, Effort, MetricName, Row, Rows, Space, checked_native
from ragbench.search.stores.database import ReadableDatabase, server_url
from ragbench.search.stores.mapping import FieldMapping

_METRICS: dict[str, MetricName] = {"cosine": "cosine", "ip": "dot", "l2": "euclid"}
_NATIVE = 'a JSON object, such as {"year": {"$gte": 2023}}'
_INCLUDED = ("documents", "metadatas")
"""What of a row is asked for."""


def open_chroma(address: str) -> ChromaDatabase:
    """The database of an address.

    Args:
        address: ``chroma:FOLDER``, or ``chroma+http://HOST:8000`` (or ``https``).
    """
    options: dict[str, Any]
    folder = address.removeprefix("chroma:")
    if folder and folder != address:
        if not Path(folder).is_dir():
            raise StoreError(f"{address}: there is no such folder")
        kind = "PersistentClient"
        options = {"path": folder}
    else:
        bare, _, _ = server_url(address, "Chroma", "chroma:FOLDER or chroma+http://HOST:8000")
        url = urlsplit(bare)
        kind = "HttpClient"
        options = {"host": url.hostname, "port": url.port or 8000, "ssl": url.scheme == "https"}

    def open_client() -> Any:
        """Chroma's client, made when something is first asked of the database."""
        # Chroma reports its use to its makers unless this is set.
        settings = require("chromadb.config", extra="chroma").Settings(anonymized_telemetry=False)
        return getattr(require("chromadb", extra="chroma"), kind)(settings=settings, **options)

    return ChromaDatabase(mask_url(address), open_client)


class ChromaDatabase(ReadableDatabase):
    """A folder that Chroma has written, or its server."""

    def load(self) -> tuple[type[Exception], ...]:
        """Chroma's own exceptions, and the plain ones that it lets through."""
        errors = require("chromadb.errors", extra="chroma")
        return (errors.ChromaError, ValueError, TypeError, OSError, RuntimeError)

    def listed(self, connection: Any) -> list[str]:
        """The names of all collections, for the message where the one asked for is not there."""
        return [collection.name for collection in connection.list_collections()]

    def read(self, connection: Any, name: str, mapping: FieldMapping) -> Chroma | None:
        """The collection, which has a single vector a row, without a name.

        No embedding function: ragbench embeds the queries itself, and Chroma's would be loaded.
        """
        not_found = require("chromadb.errors", extra="chroma").NotFoundError
        try:
            collection = connection.get_collection(name, embedding_function=None)
        except not_found:
            return None
        mapping.chosen_vector(name, [""])  # refuses a mapping that names a vector
        # The index is "hnsw", or "spann" on Chroma's own servers; both compare by l2 unless told.
        configuration: Mapping[str, Any] = collection.configuration_json or {}
        index: Mapping[str, Any] = configuration.get("hnsw") or configuration.get("spann") or {}
        metric = mapping.checked_metric(name, _METRICS[str(index.get("space") or "l2")])
        # Only a row tells the length of the vectors.
        vectors = collection.get(limit=1, include=["embeddings"])["embeddings"]
        dimension = len(vectors[0]) if len(vectors) else None
        return Chroma(collection, Space(vector="", dimension=dimension, metric=metric))


class Chroma:
    """A collection that is read (`stores.base.Reader`). A row has ``document`` and ``metadata``."""

    row_limit = None
    key = None
    words = None
    is_exact = False

    def __init__(self, collection: Any, space: Space) -> None:
        """A collection of Chroma's client, and how its vectors are compared."""
        self.space = space
        self._collection = collection

    def count(self) -> int:
        """As Chroma counts its rows."""
        return int(self._collection.count())

    def sample(self, limit: int) -> list[Row]:
        """The first rows as Chroma lists them, with scores that mean nothing."""
        answer = self._collection.get(limit=limit, include=list(_INCLUDED))
        return _rows(answer["ids"], answer["documents"], answer["metadatas"], repeat(0.0))

    def condition(self, filters: Filter | None, native: object) -> Any:
        """The filters and a native one, which is Chroma's ``where``, as one ``where``."""
        parts = [] if filters is None else [_where(filters)]
        if native is not None:
            parts.append(checked_native(native, dict, "Chroma", _NATIVE))
        return _joined(parts, "$and") if parts else None

    def nearest(self, rows: Rows, limit: int, condition: Any, effort: Effort) -> list[list[Row]]:
        """The rows of all queries in one request; Chroma's distances become scores."""
        if effort != NORMAL:
            raise ConfigError(
                "a collection of Chroma is searched by its index alone: neither ef nor an exact "
                "search can be asked for"
            )
        answer = self._collection.query(
            query_embeddings=rows,
            n_results=limit,
            where=condition,
            include=[*_INCLUDED, "distances"],
        )
        # Of cosine and inner product Chroma gives one minus the value; "l2" is squared.
        best = 0.0 if self.space.metric == "euclid" else 1.0
        results: list[list[Row]] = []
        for number, distances in enumerate(answer["distances"]):
            scores = [best - float(distance) for distance in distances]
            documents = answer["documents"][number]
            metadatas = answer["metadatas"][number]
            results.append(_rows(answer["ids"][number], documents, metadatas, scores))
        return results

    def matching(self, texts: Sequence[str], limit: int, condition: Any) -> list[list[Row]]:
        """Never called: Chroma ranks by no words, and `words` says so."""
        raise NotImplementedError


def _where(filters: Filter, *, denied: bool = False) -> dict[str, Any]:
    """A folded filter in Chroma's terms, which have no word for the denial of several parts."""
    if isinstance(filters, Not):
        return _where(filters.filter, denied=not denied)
    if isinstance(filters, And | Or):
        # What denies all parts denies any of them, and the other way round.
        word = "$and" if isinstance(filters, And) is not denied else "$or"
        return _joined([_where(part, denied=denied) for part in filters.filters], word)
    # Chroma filters by metadata alone, and names its keys without the object around them.
    key = filters.field.removeprefix("metadata.")
    if isinstance(filters, Equals | In):
        values = filters.values if isinstance(filters, In) else (filters.value,)
        comparison = "$ne" if denied else "$eq"
        tests = [{key: {comparison: value}} for value in values]
        return _joined(tests, "$and" if denied else "$or")
    if isinstance(filters, Exists):
        problem = "cannot say whether a field exists"
    elif isinstance(filters, Prefix):
        problem = "knows no prefixes: name the values, {in: [...]}"
    elif denied:
        problem = "denies no range; leave it out"
    elif filters.of_dates:
        problem = "compares no dates; leave it out"
    else:
        limits = [{key: {f"${word}": limit}} for word, limit in filters.limits().items()]
        return _joined(limits, "$and")
    raise ConfigError(f"filter on '{key}': Chroma {problem}")


def _joined(parts: Sequence[dict[str, Any]], word: str) -> dict[str, Any]:
    """Tests under ``$and`` or ``$or``, which Chroma refuses around a single one."""
    return parts[0] if len(parts) == 1 else {word: list(parts)}


def _rows(ids: Any, documents: Any, metadatas: Any, scores: Iterable[float]) -> list[Row]:
    """Rows of the columns in which Chroma answers; of a row without metadata they are None."""
    rows: list[Row] = []
    for id_, document, metadata, score in zip(ids, documents, metadatas, scores, strict=False):
        rows.append(Row(id_, {"document": document, "metadata": dict(metadata or {})}, score))
    return rows
