"""Qdrant on a server, or in a folder of its Python client."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, cast

from ragbench.core.filters import Filter
from ragbench.errors import ForeignCollectionError, StoreError
from ragbench.masking import mask_text, mask_url
from ragbench.plugins import require
from ragbench.safe_text import shown_line
from ragbench.stores.base import (
    NORMAL,
    CollectionInfo,
    Effort,
    MetricName,
    Row,
    Space,
    Words,
    checked_metric,
    chosen_vector,
    chosen_words,
)
from ragbench.stores.database import (
    WritableDatabase,
    fitted_name,
    info_to_json,
    name_from_json,
    server_url,
)
from ragbench.stores.mapping import FieldMapping
from ragbench.stores.qdrant_embedded import QdrantEmbeddedDatabase
from ragbench.stores.qdrant_filters import PayloadFilters, native_condition
from ragbench.stores.qdrant_points import (
    DENSE,
    KEY,
    WORDS,
    OfClient,
    OwnPoints,
    qdrant_models,
    read_mark,
)
from ragbench.stores.words import fastembed_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_DELETED = 0.05
"""From such a share of removed chunks on a segment with words is rewritten."""


class QdrantServerDatabase(WritableDatabase[Any]):
    """Collections of a server. The connection is a ``QdrantClient``."""

    ranks_words: ClassVar[bool] = True

    def __init__(
        self, address: str, open_client: Callable[[], Any], *, local: bool = False
    ) -> None:
        super().__init__(address, open_client)
        self._local = local

    def load(self) -> tuple[type[Exception], ...]:
        """What the client raises, of itself and of the connection."""
        exceptions = require("qdrant_client.http.exceptions", extra="qdrant")
        return (exceptions.ApiException, ValueError, OSError)

    def listed(self, connection: Any) -> list[str]:
        return [each.name for each in connection.get_collections().collections]

    def read(self, connection: Any, name: str, mapping: FieldMapping) -> QdrantPayloads | None:
        return QdrantPayloads.opened(connection, name, mapping)

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
        connection.create_collection(
            name,
            vectors_config={
                DENSE: models.VectorParams(size=info.dimension, distance=models.Distance.DOT)
            },
            metadata={KEY: info_to_json(info)},
            **({} if info.words is None else _for_words(models)),
        )
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
        """The collection, if it has ragbench's mark."""
        fitted = fitted_name(name)
        if not connection.collection_exists(fitted):
            return None
        if read_mark(connection, fitted) is None:
            raise ForeignCollectionError(self.address, name)
        models, exact = qdrant_models(), self._local
        return OwnPoints(self.address, connection, fitted, models, is_exact=exact)

    def remove(self, connection: Any, name: str) -> None:
        """Removes the collection, if it has ragbench's mark."""
        if self.attach(connection, name) is not None:
            connection.delete_collection(fitted_name(name))


class QdrantPayloads(OfClient):
    """One collection of another program; see `ragbench.stores.base.Reader`.

    A row's fields are its payload.
    """

    most = None
    key = None

    def __init__(
        self, client: Any, name: str, space: Space, *, words: Words | None, language: str
    ) -> None:
        super().__init__(client, name)
        self.space = space
        self.words = words
        self._language = language

    @classmethod
    def opened(cls, connection: Any, name: str, mapping: FieldMapping) -> QdrantPayloads | None:
        if not connection.collection_exists(name):
            return None
        params = connection.get_collection(name).config.params
        kept = params.vectors
        named = cast("Mapping[str, Any]", kept if isinstance(kept, Mapping) else {"": kept})
        # A query has one vector: those with many a point compare otherwise.
        dense = {at: one for at, one in named.items() if one and one.multivector_config is None}
        vector = chosen_vector(name, mapping.vector, list(dense))
        found = cast("MetricName", dense[vector].distance.value.lower())
        metric = checked_metric(name, mapping.metric, found)
        dimension = int(dense[vector].size)
        sparse = chosen_words(name, mapping.words, list(params.sparse_vectors or ()))
        language = mapping.language or "english"
        how = f"Qdrant/bm25, {language}{'' if mapping.language else ' assumed'}"
        return cls(
            connection,
            name,
            Space(vector=vector, dimension=dimension, metric=metric),
            words=None if sparse is None else Words(field=sparse, how=how),
            language=language,
        )

    def sample(self, limit: int) -> list[Row]:
        points, _ = self._client.scroll(self._name, limit=limit, with_payload=True)
        return [Row(str(point.id), point.payload or {}) for point in points]

    def condition(self, filters: Filter | None, native: object) -> Any:
        """See `Reader`; a native one is Qdrant's JSON object."""
        models = qdrant_models()
        parts = [] if filters is None else [PayloadFilters(models)(filters)]
        if native is not None:
            parts.append(native_condition(native, models))
        return models.Filter(must=parts) if parts else None

    @property
    def is_exact(self) -> bool:
        """See `Reader`; the client's local mode has no index."""
        local = require("qdrant_client.local.qdrant_local", extra="qdrant").QdrantLocal
        return isinstance(self._client._client, local)

    def nearest(
        self, rows: NDArray[np.float32], limit: int, condition: Any, effort: Effort = NORMAL
    ) -> list[list[Row]]:
        sign = -1.0 if self.space.metric in ("euclid", "manhattan") else 1.0
        queries = [row.tolist() for row in rows]
        return self._ask(queries, self.space.vector or None, limit, condition, sign, effort)

    def matching(self, texts: Sequence[str], limit: int, condition: Any) -> list[list[Row]]:
        """See `Reader`; the questions as fastembed's ``Qdrant/bm25`` writes them."""
        assert self.words is not None
        numbers = [fastembed_words(text, self._language) for text in texts]
        asked = [at for at, one in enumerate(numbers) if one]
        queries = [
            qdrant_models().SparseVector(indices=numbers[at], values=[1.0] * len(numbers[at]))
            for at in asked
        ]
        found: list[list[Row]] = [[] for _ in texts]
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
    ) -> list[list[Row]]:
        answers = self._answers(
            queries, effort, using=using, limit=limit, filter=condition, with_payload=True
        )
        return [
            [Row(str(one.id), one.payload or {}, sign * float(one.score)) for one in points]
            for points in answers
        ]


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


_TIMEOUT = 60


def open_qdrant(address: str) -> QdrantEmbeddedDatabase | QdrantServerDatabase:
    """The database of an address.

    Args:
        address: ``qdrant:FOLDER``, or ``qdrant+http://HOST:6333`` (or ``https``); a password in
            it, as in ``qdrant+https://:KEY@HOST:6333``, is the server's API key.
    """
    if address.startswith("qdrant:") and len(address) > len("qdrant:"):
        return QdrantEmbeddedDatabase(Path(address.removeprefix("qdrant:")))
    forms = "qdrant:FOLDER or qdrant+http://HOST:6333"
    url, _, key = server_url(address, "Qdrant", forms)

    def open_client() -> Any:
        client = require("qdrant_client", extra="qdrant").QdrantClient
        return client(url=url, api_key=key or None, timeout=_TIMEOUT, check_compatibility=False)

    return QdrantServerDatabase(mask_url(address), open_client)


_MARK = "meta.json"
"""A file that Qdrant's client writes into its folder, and makes anew where it is not there."""


def open_foreign_qdrant(address: str) -> WritableDatabase[Any]:
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


def _local(address: str, path: Path) -> Any:
    client = require("qdrant_client", extra="qdrant").QdrantClient
    try:
        return client(path=str(path))
    except Exception as error:
        raise StoreError(f"{address}: {shown_line(mask_text(str(error)), longest=300)}") from error
