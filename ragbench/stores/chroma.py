"""Chroma, in the process or on a server: collections that are read, and never filled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from ragbench.core.filters import Dialect, Filter, Range, Scalar
from ragbench.errors import ConfigError, StoreError
from ragbench.masking import mask_url
from ragbench.plugins import require
from ragbench.stores.base import NORMAL, Effort, MetricName, Row, Rows, Space, checked_native
from ragbench.stores.database import ReadableDatabase, server_url
from ragbench.stores.mapping import FieldMapping

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
    """See `ragbench.stores.base.Reader`. A row has ``document`` and ``metadata``, an object."""

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
        parts = [] if filters is None else [_WHERE(filters)(False)]
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


_Where: TypeAlias = dict[str, Any]
_Said: TypeAlias = Callable[[bool], _Where]
"""A part of a filter, plain or denied: Chroma has no word for the denial of several parts."""


def _joined(parts: Sequence[_Where], word: str) -> _Where:
    return parts[0] if len(parts) == 1 else {word: list(parts)}


def _together(word: str, opposite: str) -> Callable[[list[_Said]], _Said]:
    """Denied, all becomes any of the denied parts, and the other way round."""
    return lambda parts: (
        lambda denied: _joined([part(denied) for part in parts], opposite if denied else word)
    )


def _equal(field: str, values: Sequence[Scalar]) -> _Said:
    def where(denied: bool) -> _Where:
        tests = [{_key(field): {"$ne" if denied else "$eq": value}} for value in values]
        return _joined(tests, "$and" if denied else "$or")

    return where


def _within(wanted: Range) -> _Said:
    def where(denied: bool) -> _Where:
        key = _key(wanted.field)
        if wanted.of_dates or denied:
            problem = "denies no range" if denied else "compares no dates"
            raise ConfigError(f"filter on '{key}': Chroma {problem}; leave it out")
        tests = [{key: {f"${word}": bound}} for word, bound in wanted.limits().items()]
        return _joined(tests, "$and")

    return where


def _refused(field: str, problem: str) -> _Said:
    raise ConfigError(f"filter on '{_key(field)}': Chroma {problem}")


_WHERE: Dialect[_Said] = Dialect(
    both=_together("$and", "$or"),
    either=_together("$or", "$and"),
    denied=lambda part: lambda denied: part(not denied),
    equal=_equal,
    within=_within,
    exists=lambda field: _refused(field, "cannot say whether a field exists"),
    prefix=lambda field, _: _refused(field, "knows no prefixes: name the values, {in: [...]}"),
)


def _key(field: str) -> str:
    return field.removeprefix("metadata.")


def _rows(ids: Any, documents: Any, metadatas: Any, scores: Iterable[float]) -> list[Row]:
    return [
        Row(id, {"document": document, "metadata": dict(metadata or {})}, score)
        for id, document, metadata, score in zip(ids, documents, metadatas, scores, strict=False)
    ]
