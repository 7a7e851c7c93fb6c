"""The store ``milvus``: Milvus Lite inside of the process, kept in a folder, or a server.

Milvus Lite searches exactly, a server by the index that it chooses. What is kept with collections
stands in a collection of its own, ``ragbench_collections``: old servers keep no properties.

A chunk's fields are the plain ones (`ragbench.stores.plain`), its metadata a field of JSON; -1
stands for an offset that is not known and an empty text for no document. What does not fit them is
in ``exact``, in parts. Milvus compares ``true`` with 1, and its servers and Milvus Lite look into
lists in different ways, so filters are executed on ``labels`` (`ragbench.stores.labels`).
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from filelock import FileLock, Timeout

from ragbench.core.filters import Filter, field_values, folded, texts_of
from ragbench.errors import ConfigError, ForeignCollectionError, StoreError
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
from ragbench.stores.labels import without_prefixes
from ragbench.stores.milvus_entities import (
    LONGEST,
    PARTS,
    READ,
    condition,
    entity_key,
    kept_values,
    made_entity,
)
from ragbench.stores.record import StoredChunk, read_chunk, searched_fields
from ragbench.stores.sole_writer import in_use

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_INFOS = "ragbench_collections"
_BEGUN = "begun "
"""Before the entry of a collection that is being made."""
_TIMEOUT = 60.0
MOST = 16384
"""The most hits that Milvus gives for one query."""
_BATCH = 500


def open_milvus(address: str) -> MilvusDatabase:
    """The database of an address.

    Args:
        address: ``milvus:PATH.db``, or ``milvus+http://HOST:19530`` (or ``https``), with user
            and password where the server asks for them.
    """
    path = address.removeprefix("milvus:")
    if address.startswith("milvus:") and path:
        if not path.endswith(".db"):
            raise ConfigError(f"'{address}': the path of Milvus Lite ends with .db")
        return MilvusDatabase(address, lambda: _lite(path, address), folder=Path(path))
    url = urlsplit(address.removeprefix("milvus+"))
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ConfigError(
            f"'{mask_url(address)}' is not an address of Milvus: write milvus:PATH.db or "
            "milvus+http://HOST:19530"
        )
    uri = urlunsplit(url._replace(netloc=url.netloc.rpartition("@")[2]))

    def open_client() -> Any:
        return _pymilvus().MilvusClient(
            uri,
            user=unquote(url.username or ""),
            password=unquote(url.password or ""),
            timeout=_TIMEOUT,
        )

    return MilvusDatabase(mask_url(address), open_client)


class MilvusDatabase(EngineDatabase[Any]):
    """Collections of one client."""

    def __init__(
        self, address: str, open_client: Callable[[], Any], *, folder: Path | None = None
    ) -> None:
        super().__init__(address, folder)
        self._open_client = open_client
        self._lite = folder is not None

    def load(self) -> tuple[type[Exception], ...]:
        """What the client raises, of itself and of the connection."""
        exceptions = require("pymilvus.exceptions", extra="milvus")
        return (exceptions.MilvusException, OSError, RuntimeError, ValueError)

    def connect(self) -> Any:
        with quiet():
            return self._open_client()

    def disconnect(self, connection: Any) -> None:
        """Lets the client go."""
        connection.close()

    def names(self, connection: Any) -> list[str]:
        """What stands in the collection of collections, but for what was never made to its end."""
        texts = [text for text in _infos(connection, "") if not text.startswith(_BEGUN)]
        return [name_from_json(text, self.address) for text in texts]

    def make(self, connection: Any, info: CollectionInfo) -> None:
        """An empty collection; an entry that says so before, and what is kept with it after.

        Milvus makes a collection in several steps. Who is killed in between leaves the first
        entry, by which the next one knows that what is there is ragbench's, and makes it anew.
        """
        name = fitted_name(info.name)
        with quiet():
            begun = any(text.startswith(_BEGUN) for text in _infos(connection, name))
            if connection.has_collection(name):
                if not begun:
                    raise StoreError(
                        f"{self.address}: there is a collection '{name}' that ragbench did not make"
                    )
                connection.drop_collection(name)
            self._make_infos(connection)
            _write_entry(connection, name, _BEGUN + info_to_json(info))
            self._make_chunks(connection, name, info.dimension)
            _write_info(connection, info)

    def attach(self, connection: Any, name: str) -> Engine | None:
        fitted = fitted_name(name)
        with quiet():
            texts = _infos(connection, fitted)
            if not texts and connection.has_collection(fitted):
                raise ForeignCollectionError(self.address, name)
            if not texts or texts[0].startswith(_BEGUN):
                return None
            connection.load_collection(fitted)
        return Milvus(self.address, connection, fitted, self.failures, lite=self._lite)

    def remove(self, connection: Any, name: str) -> None:
        """Removes the collection and its entry, if it has one.

        From the first moment on it is one that was never made to its end.
        """
        fitted = fitted_name(name)
        for text in _infos(connection, fitted):
            _write_entry(connection, fitted, _BEGUN + text.removeprefix(_BEGUN))
            connection.drop_collection(fitted)
            connection.delete(_INFOS, ids=[fitted])

    def _make_infos(self, connection: Any) -> None:
        if connection.has_collection(_INFOS):
            return
        kind = _pymilvus().DataType
        schema = connection.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("id", kind.VARCHAR, is_primary=True, max_length=512)
        schema.add_field("info", kind.VARCHAR, max_length=LONGEST)
        # Milvus makes no collection without vectors.
        schema.add_field("vector", kind.FLOAT_VECTOR, dim=2)
        self._make_collection(connection, _INFOS, schema)

    def _make_chunks(self, connection: Any, name: str, dimension: int) -> None:
        kind = _pymilvus().DataType
        # Numbers are dynamic fields: which there are is not known before.
        schema = connection.create_schema(auto_id=False, enable_dynamic_field=True)
        # An id may hold anything, and Milvus finds ids by expressions: the key is its digest.
        schema.add_field("key", kind.VARCHAR, is_primary=True, max_length=64)
        for name_ in ("chunk_id", "document_id", "text"):
            schema.add_field(name_, kind.VARCHAR, max_length=LONGEST)
        for name_ in ("start", "end"):
            schema.add_field(name_, kind.INT64)
        schema.add_field("metadata", kind.JSON)
        schema.add_field(
            "exact",
            kind.ARRAY,
            element_type=kind.VARCHAR,
            max_capacity=PARTS,
            max_length=LONGEST,
        )
        schema.add_field("digest", kind.VARCHAR, max_length=64)
        if self._lite:
            # It looks into arrays row by row, in Python; into texts it does not.
            schema.add_field("labels", kind.VARCHAR, max_length=LONGEST)
        else:
            schema.add_field(
                "labels", kind.ARRAY, element_type=kind.VARCHAR, max_capacity=PARTS, max_length=64
            )
        schema.add_field("vector", kind.FLOAT_VECTOR, dim=dimension)
        self._make_collection(connection, name, schema)

    def _make_collection(self, connection: Any, name: str, schema: Any) -> None:
        if self.folder is not None:
            _clear_unfinished(self.folder, name)
        index = connection.prepare_index_params()
        kind = "FLAT" if self._lite else "AUTOINDEX"
        index.add_index("vector", index_type=kind, metric_type="IP")
        connection.create_collection(
            name, schema=schema, index_params=index, consistency_level="Strong"
        )


class Milvus:
    """One collection; see `ragbench.stores.engine.Engine`."""

    most = MOST

    @property
    def is_exact(self) -> bool:
        return self._lite

    def __init__(
        self,
        address: str,
        client: Any,
        name: str,
        failures: tuple[type[Exception], ...],
        *,
        lite: bool,
    ) -> None:
        self.address = address
        self.failures = failures
        self._client = client
        self._name = name
        self._lite = lite

    def read_info(self) -> CollectionInfo:
        found = _infos(self._client, self._name)
        if not found:
            raise StoreError(f"{self.address}: the collection '{self._name}' was removed")
        return info_from_json(found[0], self.address)

    def write_info(self, info: CollectionInfo) -> None:
        with quiet():
            self._client.flush(self._name)
            _write_info(self._client, info)

    def write(self, chunks: Sequence[StoredChunk], rows: NDArray[np.float32]) -> None:
        made = [made_entity(self.address, chunk) for chunk in chunks]
        for first in range(0, len(chunks), _BATCH):
            entities = [
                {
                    **one.fields,
                    "labels": f",{','.join(one.labels)}," if self._lite else one.labels,
                    "vector": row,
                    **one.numbers,
                }
                for one, row in zip(
                    made[first : first + _BATCH], rows[first : first + _BATCH], strict=True
                )
            ]
            with quiet():
                self._client.upsert(self._name, entities)

    def remove(self, ids: Sequence[str]) -> None:
        with quiet():
            for first in range(0, len(ids), _BATCH):
                keys = [entity_key(value) for value in ids[first : first + _BATCH]]
                self._client.delete(self._name, ids=keys)

    def kept(self, ids: Sequence[str]) -> list[Kept]:
        return [kept_values(values) for values in self._get(ids, READ)]

    def rows(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        import numpy as np

        return {
            values["chunk_id"]: np.asarray(values["vector"], dtype=np.float32)
            for values in self._get(ids, ["chunk_id", "vector"])
        }

    def digests(self) -> dict[str, str]:
        return {values["chunk_id"]: values["digest"] for values in self._all("chunk_id", "digest")}

    def count(self) -> int:
        with quiet():
            answer = self._client.query(self._name, filter="", output_fields=["count(*)"])
        return int(answer[0]["count(*)"])

    def nearest(
        self,
        rows: NDArray[np.float32],
        limit: int,
        filters: Filter | None,
        effort: Effort = NORMAL,
    ) -> list[list[Hit]]:
        if effort.exact and not self._lite:
            return exhaustive(self, rows, limit, filters)
        if filters is not None:
            simple = folded(without_prefixes(filters, self._texts, self.address))
            if simple is False:
                return [[] for _ in rows]
            filters = None if simple is True else simple
        with quiet():
            answers = self._client.search(
                self._name,
                list(rows),
                search_params={} if effort.ef is None else {"params": {"ef": effort.ef}},
                anns_field="vector",
                limit=limit,
                filter="" if filters is None else condition(filters, lite=self._lite),
                output_fields=READ,
            )
        # What pymilvus calls the distance is the inner product.
        return [[(hit["distance"], kept_values(hit["entity"])) for hit in hits] for hits in answers]

    def read(self, found: Kept) -> Kept:
        return found

    def _get(self, ids: Sequence[str], fields: list[str]) -> Iterator[dict[str, Any]]:
        for first in range(0, len(ids), _BATCH):
            keys = [entity_key(value) for value in ids[first : first + _BATCH]]
            with quiet():
                found = self._client.get(self._name, keys, output_fields=fields)
            yield from found

    def _all(self, *fields: str) -> Iterator[dict[str, Any]]:
        with quiet():
            pages = self._client.query_iterator(
                self._name, batch_size=MOST, output_fields=list(fields)
            )
            while page := pages.next():
                yield from page
            pages.close()

    def _texts(self, field: str) -> Iterator[str]:
        """Every text that any chunk has in a field; reads all metadata."""
        for values in self._all("chunk_id", "document_id", "start", "end", "metadata", "exact"):
            chunk = read_chunk(kept_values({**values, "text": ""}))
            yield from texts_of(field_values(searched_fields(chunk)).get(field))


def _infos(client: Any, name: str) -> list[str]:
    with quiet():
        if not client.has_collection(_INFOS):
            return []
        client.load_collection(_INFOS)
        if name:
            rows = client.get(_INFOS, [name], output_fields=["info"])
        else:
            rows = client.query(_INFOS, filter="", output_fields=["info"], limit=MOST)
        return [row["info"] for row in rows]


def _write_info(client: Any, info: CollectionInfo) -> None:
    _write_entry(client, fitted_name(info.name), info_to_json(info))


def _write_entry(client: Any, name: str, text: str) -> None:
    client.upsert(_INFOS, [{"id": name, "info": text, "vector": [0.0, 0.0]}])


def _clear_unfinished(folder: Path, name: str) -> None:
    """Removes what a kill has left of a collection that Milvus Lite does not know of.

    It makes the folder first and its schema last, and refuses a folder that is there.
    """
    left = folder / "collections" / name
    if left.is_dir() and not (left / "schema.json").exists():
        shutil.rmtree(left)


def _lite(path: str, address: str) -> Any:
    require("milvus_lite", extra="milvus")
    folder = Path(path)
    if folder.is_file():
        raise StoreError(f"{address}: is a file; Milvus Lite 3 keeps a folder: name another path")
    folder.parent.mkdir(parents=True, exist_ok=True)
    failed = require("pymilvus.exceptions", extra="milvus").ConnectionConfigException
    try:
        return _pymilvus().MilvusClient(path)
    except failed as error:
        # It keeps its reason to itself; the most frequent one is another process.
        try:
            with FileLock(folder / "LOCK", timeout=0):
                raise StoreError(
                    f"{address}: Milvus Lite cannot open it: may it be written, and did Milvus "
                    "Lite 3 make it?"
                ) from error
        except Timeout:
            raise in_use(address, folder) from error


def _pymilvus() -> Any:
    return require("pymilvus", extra="milvus")


@contextmanager
def quiet() -> Generator[None]:
    """Keeps the packages' logs off the screen."""
    # Both packages log each failure with its whole traceback; it is raised all the same.
    loggers = [logging.getLogger(name) for name in ("pymilvus", "milvus_lite")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
