"""Collections of Chroma that ragbench did not fill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from ragbench.core.filters import And, Exists, Filter, In, Not, Or, Prefix, Range
from ragbench.errors import ConfigError, StoreError
from ragbench.plugins import require
from ragbench.stores.attached.engine import Space, chosen_vector, told_metric
from ragbench.stores.attached.mapping import FieldMapping, ForeignRow, MetricName
from ragbench.stores.base import NORMAL, Effort
from ragbench.stores.chroma import open_chroma
from ragbench.stores.database import EngineDatabase

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_METRICS: dict[str, MetricName] = {"cosine": "cosine", "ip": "dot", "l2": "euclid"}
_KEPT = ("documents", "metadatas")


class ForeignChroma:
    """See `ragbench.stores.attached.engine.ForeignEngine`.

    A row's fields are ``document`` and ``metadata``, which is an object.
    """

    most = None
    key = None
    words = None
    is_exact = False

    def __init__(self, collection: Any, space: Space) -> None:
        self.space = space
        self._collection = collection

    @classmethod
    def database(cls, address: str) -> EngineDatabase[Any]:
        path = address.removeprefix("chroma:")
        if address.startswith("chroma:") and path and not Path(path).is_dir():
            raise StoreError(f"{address}: there is no such folder")
        return open_chroma(address)

    @classmethod
    def names(cls, connection: Any) -> list[str]:
        return [each.name for each in connection.list_collections()]

    @classmethod
    def attach(cls, connection: Any, name: str, mapping: FieldMapping) -> Self | None:
        not_found = require("chromadb.errors", extra="chroma").NotFoundError
        try:
            collection = connection.get_collection(name, embedding_function=None)
        except not_found:
            return None
        chosen_vector(name, mapping.vector, [""])
        rows = collection.get(limit=1, include=["embeddings"])["embeddings"]
        space = Space(
            vector="",
            dimension=len(rows[0]) if len(rows) else None,
            metric=told_metric(name, mapping.metric, _metric(collection)),
        )
        return cls(collection, space)

    def count(self) -> int:
        return int(self._collection.count())

    def sample(self, limit: int) -> list[ForeignRow]:
        got = self._collection.get(limit=limit, include=list(_KEPT))
        return _rows(got["ids"], got["documents"], got["metadatas"], [0.0] * len(got["ids"]))

    def condition(self, filters: Filter | None, native: object) -> Any:
        """See `ForeignEngine`; a native one is Chroma's ``where``."""
        parts = [] if filters is None else [_where(filters, denied=False)]
        if native is not None:
            if not isinstance(native, dict) or not native:
                raise ConfigError(
                    'the native filter of Chroma is a JSON object, such as {"year": {"$gte": 2023}}'
                    f", found {native!r}"
                )
            parts.append(cast("dict[str, Any]", native))
        return {"$and": parts} if len(parts) > 1 else parts[0] if parts else None

    def nearest(
        self, rows: NDArray[np.float32], limit: int, condition: Any, effort: Effort = NORMAL
    ) -> list[list[ForeignRow]]:
        if effort != NORMAL:
            raise ConfigError(
                "a collection of Chroma is searched by its index alone: neither ef nor an exact "
                "search can be asked for"
            )
        found = self._collection.query(
            query_embeddings=rows,
            n_results=limit,
            where=condition,
            include=[*_KEPT, "distances"],
        )
        columns = (found[name] for name in ("ids", "documents", "metadatas", "distances"))
        return [
            _rows(ids, documents, metadatas, [self._score(distance) for distance in distances])
            for ids, documents, metadatas, distances in zip(*columns, strict=True)
        ]

    def matching(self, texts: Sequence[str], limit: int, condition: Any) -> list[list[ForeignRow]]:
        """See `ForeignEngine`; Chroma in the process ranks by no words."""
        raise NotImplementedError

    def _score(self, distance: float) -> float:
        # Of cosine and inner product Chroma gives one minus the value; "l2" is squared.
        return -float(distance) if self.space.metric == "euclid" else 1.0 - float(distance)


def _where(filters: Filter, *, denied: bool) -> dict[str, Any]:
    """A folded filter as Chroma's ``where``, which has no word for a denial of several parts."""
    if isinstance(filters, And | Or):
        # Denied, all becomes any of the denied parts, and the other way round.
        word = "$and" if isinstance(filters, And) is not denied else "$or"
        return {word: [_where(part, denied=denied) for part in filters.filters]}
    if isinstance(filters, Not):
        return _where(filters.filter, denied=not denied)
    name = filters.field.removeprefix("metadata.")
    if isinstance(filters, Exists):
        raise ConfigError(f"filter on '{name}': Chroma cannot say whether a field exists")
    if isinstance(filters, Prefix):
        raise ConfigError(
            f"filter on '{name}': Chroma knows no prefixes: name the values, {{in: [...]}}"
        )
    if isinstance(filters, Range):
        if filters.of_dates or denied:
            what = "denies no range" if denied else "compares no dates"
            raise ConfigError(f"filter on '{name}': Chroma {what}; leave it out")
        tests: list[dict[str, Any]] = [
            {name: {f"${word}": bound}} for word, bound in filters.limits().items()
        ]
    else:
        values = filters.values if isinstance(filters, In) else (filters.value,)
        sign = "$ne" if denied else "$eq"
        tests = [{name: {sign: value}} for value in values]
        if len(tests) > 1:
            return {"$and" if denied else "$or": tests}
    return tests[0] if len(tests) == 1 else {"$and": tests}


def _metric(collection: Any) -> MetricName:
    kept: Mapping[str, Any] = collection.configuration_json or {}
    index: Mapping[str, Any] = kept.get("hnsw") or kept.get("spann") or {}
    return _METRICS[str(index.get("space") or "l2")]


def _rows(ids: Any, documents: Any, metadatas: Any, scores: list[float]) -> list[ForeignRow]:
    return [
        ForeignRow(id, {"document": document, "metadata": dict(metadata or {})}, score)
        for id, document, metadata, score in zip(ids, documents, metadatas, scores, strict=True)
    ]
