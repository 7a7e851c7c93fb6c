"""Chroma, in the process or on a server: collections that are read, and never filled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ragbench.core.filters import And, Equals, Exists, Filter, In, Not, Or, Prefix, Range
from ragbench.errors import ConfigError, StoreError
from ragbench.masking import mask_url
from ragbench.plugins import require
from ragbench.search.stores.base import NORMAL, Effort, MetricName, Row, Rows, Space, checked_native
from ragbench.search.stores.database import ReadableDatabase, server_url
from ragbench.search.stores.mapping import FieldMapping

_METRICS: dict[str, MetricName] = {"cosine": "cosine", "ip": "dot", "l2": "euclid"}
_NATIVE = 'a JSON object, such as {"year": {"$gte": 2023}}'
_KEPT = ("documents", "metadatas")


def open_chroma(address: str) -> ChromaDatabase:
    """The database of an address.

    Args:
        address: ``chroma:FOLDER``, or ``chroma+http://HOST:8000`` (or ``https``).
    """
    options: dict[str, Any]
    if address.startswith("chroma:") and len(address) > len("chroma:"):
        kind, options = "PersistentClient", {"path": address.removeprefix("chroma:")}
        if not Path(options["path"]).is_dir():
            raise StoreError(f"{address}: there is no such folder")
    else:
        bare, _, _ = server_url(address, "Chroma", "chroma:FOLDER or chroma+http://HOST:8000")
        url = urlsplit(bare)
        options = {"host": url.hostname, "port": url.port or 8000, "ssl": url.scheme == "https"}
        kind = "HttpClient"

    def open_client() -> Any:
        # Chroma reports its use to its makers unless this is set.
        settings = require("chromadb.config", extra="chroma").Settings(anonymized_telemetry=False)
        return getattr(require("chromadb", extra="chroma"), kind)(settings=settings, **options)

    return ChromaDatabase(mask_url(address), open_client)


class ChromaDatabase(ReadableDatabase):
    def load(self) -> tuple[type[Exception], ...]:
        errors = require("chromadb.errors", extra="chroma")
        return (errors.ChromaError, ValueError, TypeError, OSError, RuntimeError)

    def listed(self, connection: Any) -> list[str]:
        return [each.name for each in connection.list_collections()]

    def read(self, connection: Any, name: str, mapping: FieldMapping) -> Chroma | None:
        not_found = require("chromadb.errors", extra="chroma").NotFoundError
        try:
            collection = connection.get_collection(name, embedding_function=None)
        except not_found:
            return None
        mapping.chosen_vector(name, [""])
        kept: Mapping[str, Any] = collection.configuration_json or {}
        index: Mapping[str, Any] = kept.get("hnsw") or kept.get("spann") or {}
        found = _METRICS[str(index.get("space") or "l2")]
        rows = collection.get(limit=1, include=["embeddings"])["embeddings"]
        metric, dimension = mapping.checked_metric(name, found), len(rows[0]) if len(rows) else None
        return Chroma(collection, Space(vector="", dimension=dimension, metric=metric))


class Chroma:
    """See `stores.base.Reader`. A row has ``document`` and ``metadata``, an object."""

    most = None
    key = None
    words = None
    is_exact = False

    def __init__(self, collection: Any, space: Space) -> None:
        self.space = space
        self._collection = collection

    def count(self) -> int:
        return int(self._collection.count())

    def sample(self, limit: int) -> list[Row]:
        got = self._collection.get(limit=limit, include=list(_KEPT))
        return _rows(got["ids"], got["documents"], got["metadatas"], repeat(0.0))

    def condition(self, filters: Filter | None, native: object) -> Any:
        """See `Reader`; a native one is Chroma's ``where``."""
        parts = [] if filters is None else [_where(filters)]
        if native is not None:
            parts.append(checked_native(native, dict, "Chroma", _NATIVE))
        return _joined(parts, "$and") if parts else None

    def nearest(self, rows: Rows, limit: int, condition: Any, effort: Effort) -> list[list[Row]]:
        if effort != NORMAL:
            raise ConfigError(
                "a collection of Chroma is searched by its index alone: neither ef nor an exact "
                "search can be asked for"
            )
        found = self._collection.query(
            query_embeddings=rows, n_results=limit, where=condition, include=[*_KEPT, "distances"]
        )
        # Of cosine and inner product Chroma gives one minus the value; "l2" is squared.
        most = 0.0 if self.space.metric == "euclid" else 1.0
        scores = [[most - float(one) for one in distances] for distances in found["distances"]]
        columns = (found["ids"], found["documents"], found["metadatas"], scores)
        return [_rows(*one) for one in zip(*columns, strict=True)]

    def matching(self, texts: Sequence[str], limit: int, condition: Any) -> list[list[Row]]:
        """See `Reader`; Chroma in the process ranks by no words."""
        raise NotImplementedError


def _where(filters: Filter, *, denied: bool = False) -> dict[str, Any]:
    """A folded filter in Chroma's terms, which have no word for the denial of several parts."""
    if isinstance(filters, Not):
        return _where(filters.filter, denied=not denied)
    if isinstance(filters, And | Or):
        word = "$and" if isinstance(filters, And) is not denied else "$or"
        return _joined([_where(part, denied=denied) for part in filters.filters], word)
    key = filters.field.removeprefix("metadata.")
    if isinstance(filters, Equals | In):
        values = filters.values if isinstance(filters, In) else (filters.value,)
        test = "$ne" if denied else "$eq"
        return _joined([{key: {test: value}} for value in values], "$and" if denied else "$or")
    if isinstance(filters, Exists | Prefix) or filters.of_dates or denied:
        problems: Mapping[type, str] = {
            Exists: "cannot say whether a field exists",
            Prefix: "knows no prefixes: name the values, {in: [...]}",
            Range: "denies no range; leave it out" if denied else "compares no dates; leave it out",
        }
        raise ConfigError(f"filter on '{key}': Chroma {problems[type(filters)]}")
    return _joined([{key: {f"${word}": end}} for word, end in filters.limits().items()], "$and")


def _joined(parts: Sequence[dict[str, Any]], word: str) -> dict[str, Any]:
    return parts[0] if len(parts) == 1 else {word: list(parts)}


def _rows(ids: Any, documents: Any, metadatas: Any, scores: Iterable[float]) -> list[Row]:
    return [
        Row(id, {"document": document, "metadata": dict(metadata or {})}, score)
        for id, document, metadata, score in zip(ids, documents, metadatas, scores, strict=False)
    ]
