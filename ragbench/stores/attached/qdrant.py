"""Collections of Qdrant that ragbench did not fill: on a server, or in a folder of its client."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self, cast

from ragbench.core.filters import And, Exists, Filter, In, Not, Or, Prefix, Range, Scalar
from ragbench.errors import ConfigError, StoreError
from ragbench.masking import mask_text
from ragbench.plugins import require
from ragbench.safe_text import shown_line
from ragbench.stores.attached.engine import Space, Words, chosen_vector, chosen_words, told_metric
from ragbench.stores.attached.mapping import FieldMapping, ForeignRow, MetricName
from ragbench.stores.base import NORMAL, Effort
from ragbench.stores.database import EngineDatabase
from ragbench.stores.qdrant import QdrantServerDatabase, open_qdrant

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_METRICS: dict[str, MetricName] = {
    "Cosine": "cosine",
    "Dot": "dot",
    "Euclid": "euclid",
    "Manhattan": "manhattan",
}
_MARK = "meta.json"
"""A file that Qdrant's client writes into its folder, and makes anew where it is not there."""
_DISTANCES = ("euclid", "manhattan")


class ForeignQdrant:
    """See `ragbench.stores.attached.engine.ForeignEngine`. A row's fields are its payload."""

    most = None
    key = None

    def __init__(
        self, client: Any, name: str, space: Space, *, words: Words | None, language: str
    ) -> None:
        self.space = space
        self.words = words
        self._language = language
        self._client = client
        self._name = name

    @classmethod
    def database(cls, address: str) -> EngineDatabase[Any]:
        """A server, or a folder that Qdrant's Python client has written in its local mode."""
        path = Path(address.removeprefix("qdrant:"))
        if not address.startswith("qdrant:") or path == Path():
            return open_qdrant(address)
        if not (path / _MARK).is_file():
            raise StoreError(
                f"{address}: this is not a folder of Qdrant's client (QdrantClient(path=...)): of "
                "embedded collections ragbench reads those and its own"
            )
        return QdrantServerDatabase(address, lambda: _local(address, path), local=True)

    @classmethod
    def names(cls, connection: Any) -> list[str]:
        return [each.name for each in connection.get_collections().collections]

    @classmethod
    def attach(cls, connection: Any, name: str, mapping: FieldMapping) -> Self | None:
        if not connection.collection_exists(name):
            return None
        params = connection.get_collection(name).config.params
        kept = params.vectors
        named = cast("Mapping[str, Any]", kept if isinstance(kept, Mapping) else {"": kept})
        # A query has one vector: those with many a point compare otherwise.
        dense = {at: one for at, one in named.items() if one and one.multivector_config is None}
        vector = chosen_vector(name, mapping.vector, list(dense))
        metric = told_metric(name, mapping.metric, _METRICS[dense[vector].distance.value])
        dimension = int(dense[vector].size)
        sparse = chosen_words(name, mapping.words, list(params.sparse_vectors or ()))
        language = mapping.language or "english"
        told = f"Qdrant/bm25, {language}{'' if mapping.language else ' assumed'}"
        return cls(
            connection,
            name,
            Space(vector=vector, dimension=dimension, metric=metric),
            words=None if sparse is None else Words(field=sparse, how=told),
            language=language,
        )

    def count(self) -> int:
        return int(self._client.count(self._name, exact=True).count)

    def sample(self, limit: int) -> list[ForeignRow]:
        points, _ = self._client.scroll(self._name, limit=limit, with_payload=True)
        return [ForeignRow(str(point.id), point.payload or {}) for point in points]

    def condition(self, filters: Filter | None, native: object) -> Any:
        """See `ForeignEngine`; a native one is Qdrant's JSON object."""
        models = _models()
        parts = [] if filters is None else [_condition(filters, models)]
        if native is not None:
            parts.append(_native(native, models))
        return models.Filter(must=parts) if parts else None

    @property
    def is_exact(self) -> bool:
        """See `ForeignEngine`; the client's local mode has no index."""
        local = require("qdrant_client.local.qdrant_local", extra="qdrant").QdrantLocal
        return isinstance(self._client._client, local)

    def nearest(
        self, rows: NDArray[np.float32], limit: int, condition: Any, effort: Effort = NORMAL
    ) -> list[list[ForeignRow]]:
        sign = -1.0 if self.space.metric in _DISTANCES else 1.0
        queries = [row.tolist() for row in rows]
        return self._ask(queries, self.space.vector or None, limit, condition, sign, effort)

    def matching(self, texts: Sequence[str], limit: int, condition: Any) -> list[list[ForeignRow]]:
        """See `ForeignEngine`; the questions as fastembed's ``Qdrant/bm25`` writes them."""
        assert self.words is not None
        models = _models()
        indices = [bm25_indices(text, self._language) for text in texts]
        asked = [at for at, one in enumerate(indices) if one]
        queries = [
            models.SparseVector(indices=indices[at], values=[1.0] * len(indices[at]))
            for at in asked
        ]
        found: list[list[ForeignRow]] = [[] for _ in texts]
        if asked:
            answers = self._ask(queries, self.words.field, limit, condition, 1.0)
            for at, rows in zip(asked, answers, strict=True):
                found[at] = [row for row in rows if row.score > 0]
        return found

    def _ask(
        self,
        queries: Sequence[Any],
        using: str | None,
        limit: int,
        condition: Any,
        sign: float,
        effort: Effort = NORMAL,
    ) -> list[list[ForeignRow]]:
        models = _models()
        params = models.SearchParams(hnsw_ef=effort.ef, exact=effort.exact)
        requests = [
            models.QueryRequest(
                query=query,
                using=using,
                filter=condition,
                limit=limit,
                with_payload=True,
                params=None if effort == NORMAL else params,
            )
            for query in queries
        ]
        return [
            [
                ForeignRow(str(point.id), point.payload or {}, sign * float(point.score))
                for point in answer.points
            ]
            for answer in self._client.query_batch_points(self._name, requests)
        ]


def bm25_indices(text: str, language: str) -> list[int]:
    """The sparse dimensions of a question's words, as fastembed's ``Qdrant/bm25`` numbers them.

    Each word in small letters is stemmed (Snowball) and hashed (the amount of its 32-bit
    MurmurHash3, seed 0). Stop words need not be left out: no passage has them. What a word is
    worth the collection knows (``modifier: idf``), so each counts 1.
    """
    stemmer: Any = importlib.import_module("Stemmer")
    if language not in stemmer.algorithms():
        known = ", ".join(sorted(stemmer.algorithms()))
        raise ConfigError(f"--map language={language}: there are stemmers for {known}")
    words = re.sub(r"[^\w]", " ", text.lower()).split()
    stems = stemmer.Stemmer(language).stemWords([word for word in words if len(word) <= _LONGEST])
    return sorted({abs(_murmur3(stem.encode())) for stem in stems})


_LONGEST = 40
"""Characters of the longest word that fastembed keeps."""


def _murmur3(data: bytes) -> int:
    """MurmurHash3, x86, 32 bits, seed 0, signed (Appleby 2008)."""
    mask, value = 0xFFFFFFFF, 0
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        part = int.from_bytes(data[at : at + 4], "little")
        value ^= _mixed(part)
        value = ((value << 13 | value >> 19) * 5 + 0xE6546B64) & mask
    if whole < len(data):
        value ^= _mixed(int.from_bytes(data[whole:], "little"))
    value ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        value = ((value ^ value >> shift) * factor) & mask
    return value - (1 << 32) if value >> 31 else value


def _mixed(part: int) -> int:
    part = part * 0xCC9E2D51 & 0xFFFFFFFF
    part = (part << 15 | part >> 17) & 0xFFFFFFFF
    return part * 0x1B873593 & 0xFFFFFFFF


def _condition(filters: Filter, models: ModuleType) -> Any:
    if isinstance(filters, And):
        return models.Filter(must=[_condition(part, models) for part in filters.filters])
    if isinstance(filters, Or):
        return models.Filter(should=[_condition(part, models) for part in filters.filters])
    if isinstance(filters, Not):
        return models.Filter(must_not=[_condition(filters.filter, models)])
    if isinstance(filters, Range):
        if filters.of_dates:
            moments = {name: _moment(bound) for name, bound in filters.limits().items()}
            dates = models.DatetimeRange(**moments)
            return models.FieldCondition(key=filters.field, range=dates)
        return models.FieldCondition(key=filters.field, range=models.Range(**filters.limits()))
    if isinstance(filters, Exists):
        absent = models.IsEmptyCondition(is_empty=models.PayloadField(key=filters.field))
        return models.Filter(must_not=[absent])
    if isinstance(filters, Prefix):
        match = models.MatchPrefix(prefix=filters.prefix)
        return models.FieldCondition(key=filters.field, match=match)
    values = filters.values if isinstance(filters, In) else (filters.value,)
    equal = [_equal(filters.field, value, models) for value in values]
    return equal[0] if len(equal) == 1 else models.Filter(should=equal)


def _equal(field: str, value: Scalar, models: ModuleType) -> Any:
    if isinstance(value, (str, bool)):
        return models.FieldCondition(key=field, match=models.MatchValue(value=value))
    # Qdrant's match knows whole numbers only, and 1.0 is 1.
    return models.FieldCondition(key=field, range=models.Range(gte=value, lte=value))


def _moment(milliseconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


def _native(given: object, models: ModuleType) -> Any:
    try:
        return models.Filter.model_validate(given)
    except ValueError as error:
        said = " ".join(str(error).split())[:200]
        raise ConfigError(
            f'the native filter of Qdrant is a JSON object, such as {{"must": [...]}}: {said}'
        ) from error


def _models() -> ModuleType:
    return require("qdrant_client.models", extra="qdrant")


def _local(address: str, path: Path) -> Any:
    client = require("qdrant_client", extra="qdrant").QdrantClient
    try:
        return client(path=str(path))
    except Exception as error:
        raise StoreError(f"{address}: {shown_line(mask_text(str(error)), longest=300)}") from error
