"""The store ``chroma``: Chroma's own engine inside of the process, kept in a folder, or a server.

Search is approximate (HNSW). A chunk's text is its document; its metadata stand under their own
names, those within objects under dotted ones, as far as Chroma can keep them (scalars, and lists of
one kind). What it cannot keep or compare is beside them, under names that begin with ``ragbench:``.
Chroma merges the metadata of a chunk that is written again, so one that has lost a field is removed
before it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import orjson

from ragbench.core.filters import (
    And,
    Filter,
    Not,
    Or,
    Prefix,
    Range,
    field_values,
    folded,
    texts_of,
)
from ragbench.errors import ConfigError, ForeignCollectionError
from ragbench.masking import mask_url
from ragbench.plugins import require
from ragbench.stores.base import NORMAL, CollectionInfo, Effort
from ragbench.stores.database import (
    EngineDatabase,
    fitted_name,
    info_from_json,
    info_to_json,
    name_from_json,
)
from ragbench.stores.engine import Engine, Hit, Kept, exhaustive
from ragbench.stores.labels import (
    labels_and_numbers,
    number_name,
    wanted_labels,
    without_prefixes,
)
from ragbench.stores.plain import PlainChunk, plain
from ragbench.stores.record import StoredChunk, read_chunk, searched_fields

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_KEY = "ragbench"
_BATCH = 2000
_NO_LABEL = "-"
_OWN = "ragbench:"
_LABELS, _DIGEST, _REST = f"{_OWN}labels", f"{_OWN}digest", f"{_OWN}chunk"
"""The last is what a chunk has beside its text and id, as JSON; or the whole of it, where its plain
fields do not give it back."""
_OPPOSITE = {"gt": "lte", "gte": "lt", "lt": "gte", "lte": "gt"}


def open_chroma(address: str) -> ChromaDatabase:
    """The database of an address.

    Args:
        address: ``chroma:FOLDER``, or ``chroma+http://HOST:8000`` (or ``https``).
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
        super().__init__(address, folder)
        self._open_client = open_client

    def load(self) -> tuple[type[Exception], ...]:
        """What the client raises, of itself and of the connection."""
        errors = require("chromadb.errors", extra="chroma")
        return (errors.ChromaError, ValueError, TypeError, OSError, RuntimeError)

    def connect(self) -> Any:
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
                found.append(name_from_json(text, self.address))
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
        self.address = address
        self.failures = failures
        self._client = client
        self._name = name
        self._collection = client.get_collection(name, embedding_function=None)
        self._batch = min(_BATCH, client.get_max_batch_size())

    def read_info(self) -> CollectionInfo:
        collection = self._client.get_collection(self._name, embedding_function=None)
        return info_from_json(collection.metadata[_KEY], self.address)

    def write_info(self, info: CollectionInfo) -> None:
        self._collection.modify(metadata={_KEY: info_to_json(info)})

    def write(self, chunks: Sequence[StoredChunk], rows: NDArray[np.float32]) -> None:
        for first in range(0, len(chunks), self._batch):
            batch = chunks[first : first + self._batch]
            plains = [plain(chunk) for chunk in batch]
            metadatas = [_metadata(*pair) for pair in zip(batch, plains, strict=True)]
            self._remove_changed([chunk.id for chunk in batch], metadatas)
            self._collection.upsert(
                ids=[chunk.id for chunk in batch],
                embeddings=rows[first : first + self._batch],
                documents=[chunk.text for chunk in plains],
                metadatas=metadatas,
            )

    def remove(self, ids: Sequence[str]) -> None:
        for first in range(0, len(ids), self._batch):
            self._collection.delete(ids=list(ids[first : first + self._batch]))

    def kept(self, ids: Sequence[str]) -> list[Kept]:
        found: list[Kept] = []
        for first in range(0, len(ids), self._batch):
            batch = list(ids[first : first + self._batch])
            got = self._collection.get(ids=batch, include=["documents", "metadatas"])
            columns = (got[name] for name in ("ids", "documents", "metadatas"))
            found += [_kept(*row) for row in zip(*columns, strict=True)]
        return found

    def rows(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        import numpy as np

        found: dict[str, NDArray[np.float32]] = {}
        for first in range(0, len(ids), self._batch):
            batch = list(ids[first : first + self._batch])
            got = self._collection.get(ids=batch, include=["embeddings"])
            for identifier, row in zip(got["ids"], got["embeddings"], strict=True):
                found[identifier] = np.asarray(row, dtype=np.float32)
        return found

    def digests(self) -> dict[str, str]:
        found: dict[str, str] = {}
        while True:
            got = self._collection.get(include=["metadatas"], limit=self._batch, offset=len(found))
            for identifier, metadata in zip(got["ids"], got["metadatas"], strict=True):
                found[identifier] = metadata[_DIGEST]
            if len(got["ids"]) < self._batch:
                return found

    def count(self) -> int:
        return int(self._collection.count())

    def nearest(
        self,
        rows: NDArray[np.float32],
        limit: int,
        filters: Filter | None,
        effort: Effort = NORMAL,
    ) -> list[list[Hit]]:
        if effort.exact:
            return exhaustive(self, rows, limit, filters)
        if effort.ef is not None:
            raise ConfigError(
                "Chroma takes no ef with a search: it is a setting of the collection (ef_search)"
            )
        if filters is not None:
            simple = folded(without_prefixes(filters, self._texts, self.address))
            if simple is False:
                return [[] for _ in rows]
            filters = None if simple is True else simple
        found = self._collection.query(
            query_embeddings=rows,
            n_results=limit,
            where=None if filters is None else condition(filters),
            include=["documents", "metadatas", "distances"],
        )
        # Of two vectors, Chroma's distance "ip" is one minus their inner product.
        columns = (found[name] for name in ("distances", "ids", "documents", "metadatas"))
        return [
            [(1.0 - distance, _kept(*row)) for distance, *row in zip(*hits, strict=True)]
            for hits in zip(*columns, strict=True)
        ]

    def read(self, found: Kept) -> Kept:
        return found

    def _texts(self, field: str) -> Iterator[str]:
        """Every text that any chunk has in a field; reads all metadata."""
        offset = 0
        while True:
            got = self._collection.get(include=["metadatas"], limit=self._batch, offset=offset)
            for id_, metadata in zip(got["ids"], got["metadatas"], strict=True):
                chunk = read_chunk(_kept(id_, "", metadata))
                yield from texts_of(field_values(searched_fields(chunk)).get(field))
            offset += len(got["ids"])
            if len(got["ids"]) < self._batch:
                return

    def _remove_changed(self, ids: Sequence[str], metadatas: Sequence[dict[str, Any]]) -> None:
        wanted = dict(zip(ids, metadatas, strict=True))
        there = self._collection.get(ids=list(wanted), include=["metadatas"])
        gone = [
            id_
            for id_, metadata in zip(there["ids"], there["metadatas"], strict=True)
            if metadata.keys() - wanted[id_].keys()
        ]
        if gone:
            self._collection.delete(ids=gone)


def condition(filters: Filter, *, denied: bool = False) -> dict[str, Any]:
    """A folded filter in Chroma's terms, which have no "not": it is moved to the leaves."""
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
        return _joined([{_LABELS: {"$not_contains": name}}, *outside], both=False)
    assert not isinstance(filters, Prefix), "said by the texts that begin so"
    word = "$not_contains" if denied else "$contains"
    return _joined([{_LABELS: {word: name}} for name in wanted_labels(filters)], both=denied)


def _joined(parts: list[dict[str, Any]], *, both: bool) -> dict[str, Any]:
    # Chroma's "and" and "or" take two or more.
    if len(parts) == 1:
        return parts[0]
    return {"$and" if both else "$or": parts}


def _metadata(stored: StoredChunk, chunk: PlainChunk) -> dict[str, Any]:
    labels, numbers = labels_and_numbers(stored.chunk)
    found = {
        name: value
        for name, value in field_values(chunk.metadata).items()
        if name and not name.startswith((_OWN, "chroma:", "$", "#")) and _is_kept(value)
    }
    for name in ("document_id", "chunk_id", "start", "end"):
        value = getattr(chunk, name)
        if value is not None:
            found.setdefault(name, value)
    rest: dict[str, Any] = {"metadata": chunk.metadata}
    for name in ("document_id", "start", "end"):
        if getattr(chunk, name) is not None:
            rest[name] = getattr(chunk, name)
    if chunk.exact is not None:
        rest = {"exact": chunk.exact}
    return {
        **found,
        # Chroma refuses empty lists.
        _LABELS: [*labels, _NO_LABEL],
        _DIGEST: chunk.digest,
        _REST: orjson.dumps(rest).decode(),
        **numbers,
    }


def _is_kept(value: object) -> bool:
    """Whether Chroma keeps a value: scalars, and lists of scalars of one kind."""
    if isinstance(value, list) and value:
        kinds = {type(item) for item in cast("list[object]", value)}
        return len(kinds) == 1 and kinds <= {str, int, float, bool}
    return isinstance(value, (str, int, float, bool))


def _kept(id: str, document: str, metadata: Any) -> Kept:
    rest: dict[str, Any] = orjson.loads(metadata[_REST])
    return {"chunk_id": id, "text": document, **rest}


def _chroma() -> Any:
    return require("chromadb", extra="chroma")


def _settings() -> Any:
    # Chroma reports its use to its makers unless it is told not to.
    return require("chromadb.config", extra="chroma").Settings(anonymized_telemetry=False)
