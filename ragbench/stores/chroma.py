"""The store ``chroma``: Chroma's own engine inside of the process, kept in a folder, or a server.

Search is approximate (HNSW). Chroma merges the metadata of a chunk that is written again, so one
that has lost a number is removed before it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ragbench.core.filters import And, Filter, Not, Or, Range
from ragbench.errors import ConfigError, ForeignCollectionError
from ragbench.plugins import require
from ragbench.safe_text import mask_url
from ragbench.stores.base import NORMAL, CollectionInfo, Effort
from ragbench.stores.database import EngineDatabase, fitted_name, info_from_json, info_to_json
from ragbench.stores.engine import Engine, Hit, exhaustive
from ragbench.stores.record import StoredChunk, number_name, wanted_labels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "ChromaDatabase",
    "condition",
    "open_chroma",
]

_KEY = "ragbench"
_BATCH = 2000
_NO_LABEL = "-"
_OPPOSITE = {"gt": "lte", "gte": "lt", "lt": "gte", "lte": "gt"}


def open_chroma(address: str) -> ChromaDatabase:
    """The database of an address.

    Args:
        address: ``chroma:FOLDER``, or ``chroma+http://HOST:8000`` (or ``https``).

    Raises:
        ConfigError: it is no such address.
    """
    if address.startswith("chroma:") and len(address) > len("chroma:"):
        path = address.removeprefix("chroma:")
        return ChromaDatabase(
            address, lambda: _chroma().PersistentClient(path, _settings()), folder=Path(path)
        )
    url = urlsplit(address.removeprefix("chroma+"))
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ConfigError(
            f"'{mask_url(address)}' is not an address of Chroma: write chroma:FOLDER or "
            "chroma+http://HOST:8000"
        )
    host, port, ssl = url.hostname, url.port or 8000, url.scheme == "https"
    return ChromaDatabase(
        mask_url(address),
        lambda: _chroma().HttpClient(host=host, port=port, ssl=ssl, settings=_settings()),
    )


class ChromaDatabase(EngineDatabase[Any]):
    """Collections of one client."""

    def __init__(
        self, address: str, open_client: Callable[[], Any], *, folder: Path | None = None
    ) -> None:
        """Names the place; nothing is read or written.

        Args:
            address: without a password.
            open_client: makes the client.
            folder: of the engine inside of this process.
        """
        super().__init__(address, folder)
        self._open_client = open_client

    def load(self) -> tuple[type[Exception], ...]:
        """What the client raises, of itself and of the connection."""
        errors = require("chromadb.errors", extra="chroma")
        return (errors.ChromaError, ValueError, TypeError, OSError, RuntimeError)

    def connect(self) -> Any:
        """The client."""
        return self._open_client()

    def disconnect(self, connection: Any) -> None:
        """Lets the client go."""
        connection.close()

    def names(self, connection: Any) -> list[str]:
        """Of all collections those with ragbench's mark."""
        found: list[str] = []
        for collection in connection.list_collections():
            metadata: dict[str, Any] | None = collection.metadata
            text = (metadata or {}).get(_KEY)
            if isinstance(text, str):
                found.append(info_from_json(text, self.address).name)
        return found

    def make(self, connection: Any, info: CollectionInfo) -> None:
        """An empty collection; what is kept with it are its metadata."""
        connection.create_collection(
            fitted_name(info.name),
            embedding_function=None,
            metadata={_KEY: info_to_json(info)},
            configuration={"hnsw": {"space": "ip"}},
        )

    def attach(self, connection: Any, name: str) -> Engine | None:
        """The collection, if it has ragbench's mark."""
        fitted = fitted_name(name)
        not_found = require("chromadb.errors", extra="chroma").NotFoundError
        try:
            collection = connection.get_collection(fitted, embedding_function=None)
        except not_found:
            return None
        if _KEY not in (collection.metadata or {}):
            raise ForeignCollectionError(self.address, name)
        return Chroma(self.address, connection, fitted, self.failures)

    def remove(self, connection: Any, name: str) -> None:
        """Removes the collection, if it has ragbench's mark."""
        if self.attach(connection, name) is not None:
            connection.delete_collection(fitted_name(name))


class Chroma:
    """One collection; see `ragbench.stores.engine.Engine`."""

    most = None
    is_exact = False

    def __init__(
        self, address: str, client: Any, name: str, failures: tuple[type[Exception], ...]
    ) -> None:
        """Takes what is open."""
        self.address = address
        self.failures = failures
        self._client = client
        self._name = name
        self._collection = client.get_collection(name, embedding_function=None)
        self._batch = min(_BATCH, client.get_max_batch_size())

    def read_info(self) -> CollectionInfo:
        """See `Engine`."""
        collection = self._client.get_collection(self._name, embedding_function=None)
        return info_from_json(collection.metadata[_KEY], self.address)

    def write_info(self, info: CollectionInfo) -> None:
        """See `Engine`."""
        self._collection.modify(metadata={_KEY: info_to_json(info)})

    def write(self, chunks: Sequence[StoredChunk], rows: NDArray[np.float32]) -> None:
        """See `Engine`."""
        for first in range(0, len(chunks), self._batch):
            batch = chunks[first : first + self._batch]
            self._remove_changed(batch)
            self._collection.upsert(
                ids=[chunk.id for chunk in batch],
                embeddings=rows[first : first + self._batch],
                documents=[chunk.body for chunk in batch],
                metadatas=[_metadata(chunk) for chunk in batch],
            )

    def remove(self, ids: Sequence[str]) -> None:
        """See `Engine`."""
        for first in range(0, len(ids), self._batch):
            self._collection.delete(ids=list(ids[first : first + self._batch]))

    def bodies(self, ids: Sequence[str]) -> list[str]:
        """See `Engine`."""
        found: list[str] = []
        for first in range(0, len(ids), self._batch):
            batch = list(ids[first : first + self._batch])
            found += self._collection.get(ids=batch, include=["documents"])["documents"]
        return found

    def rows(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """See `Engine`."""
        import numpy as np

        found: dict[str, NDArray[np.float32]] = {}
        for first in range(0, len(ids), self._batch):
            batch = list(ids[first : first + self._batch])
            got = self._collection.get(ids=batch, include=["embeddings"])
            for identifier, row in zip(got["ids"], got["embeddings"], strict=True):
                found[identifier] = np.asarray(row, dtype=np.float32)
        return found

    def digests(self) -> dict[str, str]:
        """See `Engine`."""
        found: dict[str, str] = {}
        while True:
            got = self._collection.get(include=["metadatas"], limit=self._batch, offset=len(found))
            for identifier, metadata in zip(got["ids"], got["metadatas"], strict=True):
                found[identifier] = metadata["digest"]
            if len(got["ids"]) < self._batch:
                return found

    def count(self) -> int:
        """See `Engine`."""
        return int(self._collection.count())

    def nearest(
        self,
        rows: NDArray[np.float32],
        limit: int,
        filters: Filter | None,
        effort: Effort = NORMAL,
    ) -> list[list[Hit]]:
        """See `Engine`."""
        if effort.exact:
            return exhaustive(self, rows, limit, filters)
        if effort.ef is not None:
            raise ConfigError(
                "Chroma takes no ef with a search: it is a setting of the collection (ef_search)"
            )
        found = self._collection.query(
            query_embeddings=rows,
            n_results=limit,
            where=None if filters is None else condition(filters),
            include=["documents", "distances"],
        )
        # Of two vectors, Chroma's distance "ip" is one minus their inner product.
        return [
            [(1.0 - distance, body) for distance, body in zip(distances, bodies, strict=True)]
            for distances, bodies in zip(found["distances"], found["documents"], strict=True)
        ]

    def _remove_changed(self, chunks: Sequence[StoredChunk]) -> None:
        wanted = {chunk.id: chunk.numbers.keys() for chunk in chunks}
        there = self._collection.get(ids=list(wanted), include=["metadatas"])
        gone = [
            identifier
            for identifier, metadata in zip(there["ids"], there["metadatas"], strict=True)
            if metadata.keys() - {"labels", "digest"} - wanted[identifier]
        ]
        if gone:
            self._collection.delete(ids=gone)


def condition(filters: Filter, *, denied: bool = False) -> dict[str, Any]:
    """A folded filter in Chroma's terms, which have no "not": it is moved to the leaves.

    Args:
        filters: the filter.
        denied: whether it stands within an odd number of `Not`.
    """
    if isinstance(filters, Not):
        return condition(filters.filter, denied=not denied)
    if isinstance(filters, (And, Or)):
        parts = [condition(part, denied=denied) for part in filters.filters]
        return _joined(parts, both=isinstance(filters, And) is not denied)
    if isinstance(filters, Range):
        name = number_name(filters.field, dates=filters.of_dates)
        limits = filters.limits().items()
        if not denied:
            return _joined([{name: {f"${word}": limit}} for word, limit in limits], both=True)
        outside = [{name: {f"${_OPPOSITE[word]}": limit}} for word, limit in limits]
        return _joined([{"labels": {"$not_contains": name}}, *outside], both=False)
    word = "$not_contains" if denied else "$contains"
    return _joined([{"labels": {word: name}} for name in wanted_labels(filters)], both=denied)


def _joined(parts: list[dict[str, Any]], *, both: bool) -> dict[str, Any]:
    # Chroma's "and" and "or" take two or more.
    if len(parts) == 1:
        return parts[0]
    return {"$and" if both else "$or": parts}


def _metadata(chunk: StoredChunk) -> dict[str, Any]:
    # Chroma refuses empty lists.
    labels = [*chunk.labels, _NO_LABEL]
    return {"labels": labels, "digest": chunk.digest, **chunk.numbers}


def _chroma() -> Any:
    return require("chromadb", extra="chroma")


def _settings() -> Any:
    # Chroma reports its use to its makers unless it is told not to.
    return require("chromadb.config", extra="chroma").Settings(anonymized_telemetry=False)
