"""The store ``postgresql``: PostgreSQL with the extension pgvector.

A collection is a table ``ragbench_NAME`` of the schema that the connection comes to; what is kept
with collections stands in ``ragbench_collections``. Search is exact; a table of many chunks can
have an HNSW index (``?index=hnsw`` at the end of the address when the collection is made).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import orjson

from ragbench.core.filters import Filter
from ragbench.errors import ConfigError, ForeignCollectionError, StoreError
from ragbench.masking import mask_url
from ragbench.plugins import require
from ragbench.stores.base import NORMAL, CollectionInfo, Effort, Row, Space, Translated
from ragbench.stores.database import WritableDatabase, fitted_name, info_from_json, info_to_json
from ragbench.stores.mapping import FieldMapping
from ragbench.stores.pgvector_filters import EVERYTHING, Condition, SqlColumn, own_condition, quoted
from ragbench.stores.pgvector_table import PgvectorTable, SqlTable, find_table, look_on, table_names
from ragbench.stores.record import StoredChunk, plain, read_chunk

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_INFOS = "ragbench_collections"
_TIMEOUT = 15
_MOST_INDEXED = 2000
_TO_BE_INDEXED = "ragbench: to have an HNSW index"
"""The comment on a table whose vectors are indexed once all are there."""
_COLUMNS = {
    "chunk_id": "text",
    "document_id": "text",
    "text": "text",
    "start": "int8",
    "end": "int8",
    "metadata": "jsonb",
    "digest": "text",
    "dates": "jsonb",
    "fields": "jsonb",
    "exact": "text",
    "embedding": "vector",
}
"""And their types."""
_EXACT = Effort(exact=True)
_READ = ("chunk_id", "document_id", "text", "start", "end", "metadata", "exact")
"""What a chunk is made of."""
_FEW = 200
"""Of n rows that an index looks for p that pass, it sees some 10 n / p, and is slower by row: at
384 dimensions comparing all p is faster while p * p is below 200 n."""


def open_pgvector(address: str) -> PgvectorDatabase:
    parts = urlsplit(address)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    index = dict(pairs).get("index", "none")
    if index not in ("none", "hnsw"):
        raise ConfigError(f"'{mask_url(address)}': index is hnsw or none, found '{index}'")
    # libpq takes a plus for itself, not for a space.
    query = urlencode([pair for pair in pairs if pair[0] != "index"], quote_via=quote)
    # urlunsplit drops the slashes of an address without a host, which libpq needs.
    dsn = urlunsplit(parts._replace(query=query))
    if "://" not in dsn:
        dsn = dsn.replace(":", "://", 1)
    return PgvectorDatabase(mask_url(address), dsn, hnsw=index == "hnsw")


class PgvectorDatabase(WritableDatabase[Any]):
    """Tables of one database. The connection is one of psycopg."""

    def __init__(self, address: str, dsn: str, *, hnsw: bool = False) -> None:
        super().__init__(address)
        self._dsn = dsn
        self._hnsw = hnsw

    def load(self) -> tuple[type[Exception], ...]:
        """What the client raises, of itself and of the connection."""
        return (require("psycopg", extra="pgvector").Error, OSError)

    def connect(self) -> Any:
        """The connection; nothing is made there by looking."""
        psycopg = require("psycopg", extra="pgvector")
        require("pgvector.psycopg", extra="pgvector")
        connection = psycopg.connect(self._dsn, autocommit=True, connect_timeout=_TIMEOUT)
        try:
            # Metadata are read with each hit.
            set_loads = require("psycopg.types.json", extra="pgvector").set_json_loads
            set_loads(orjson.loads, connection)
            # What exists already need not be reported.
            connection.execute("SET client_min_messages = warning")
            if _has_infos(connection):
                self._register(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def listed(self, connection: Any) -> list[str]:
        return table_names(connection)

    def read(self, connection: Any, name: str, mapping: FieldMapping) -> PgvectorTable | None:
        return PgvectorTable.opened(connection, name, mapping)

    def names(self, connection: Any) -> list[str]:
        """What stands in the table of collections."""
        if not _has_infos(connection):
            return []
        return [row[0] for row in connection.execute(f"SELECT name FROM {_INFOS}").fetchall()]

    def make(self, connection: Any, info: CollectionInfo) -> None:
        """An empty table, and its entry, in one transaction."""
        if self._hnsw and info.dimension > _MOST_INDEXED:
            raise StoreError(
                f"{self.address}: pgvector indexes at most {_MOST_INDEXED} dimensions, found "
                f"{info.dimension}: leave index=hnsw out"
            )
        self._prepare(connection)
        self._register(connection)
        table = _table(info.name)
        with connection.transaction():
            connection.execute(
                f'CREATE TABLE {table} (chunk_id text COLLATE "C" PRIMARY KEY, '
                'document_id text, text text NOT NULL, "start" int8, "end" int8, '
                "metadata jsonb NOT NULL, digest text NOT NULL, dates jsonb, fields jsonb, "
                f"exact text, embedding vector({info.dimension}) NOT NULL)"
            )
            # Every search reads all vectors: they stay in the rows, where long texts may leave.
            connection.execute(f"ALTER TABLE {table} ALTER COLUMN embedding SET STORAGE MAIN")
            connection.execute(f"CREATE INDEX ON {table} USING gin (metadata jsonb_path_ops)")
            connection.execute(f"CREATE INDEX ON {table} (document_id)")
            connection.execute(f"CREATE INDEX ON {table} (chunk_id) WHERE fields IS NOT NULL")
            if self._hnsw:
                connection.execute(f"COMMENT ON TABLE {table} IS '{_TO_BE_INDEXED}'")
            connection.execute(
                f"INSERT INTO {_INFOS} VALUES (%s, %s)", (info.name, info_to_json(info))
            )

    def attach(self, connection: Any, name: str) -> OwnTable | None:
        if name in self.names(connection):
            return OwnTable(self.address, connection, name)
        if find_table(connection, name) is not None:
            raise ForeignCollectionError(self.address, name)
        return None

    def remove(self, connection: Any, name: str) -> None:
        """Removes the table and its entry, if it has one."""
        if not _has_infos(connection):
            return
        with connection.transaction():
            row = connection.execute(
                f"DELETE FROM {_INFOS} WHERE name = %s RETURNING name", (name,)
            ).fetchone()
            if row is not None:
                connection.execute(f"DROP TABLE {_table(name)}")

    def _prepare(self, connection: Any) -> None:
        try:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except require("psycopg", extra="pgvector").Error as error:
            raise StoreError(
                f"{self.address}: pgvector cannot be used there ({str(error).splitlines()[0]}): "
                "install it on the server, then run CREATE EXTENSION vector as a superuser"
            ) from error
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {_INFOS} (name text PRIMARY KEY, info text NOT NULL)"
        )

    def _register(self, connection: Any) -> None:
        """Lets the client know pgvector's types."""
        require("pgvector.psycopg", extra="pgvector").register_vector(connection)


class OwnTable(PgvectorTable):
    """One that ragbench fills; see `ragbench.stores.base.Writer`."""

    read = staticmethod(read_chunk)

    def __init__(self, address: str, connection: Any, name: str) -> None:
        columns = (*_READ, "embedding")
        super().__init__(
            connection,
            SqlTable(
                sql=_table(name),
                columns=tuple(
                    SqlColumn(name=one, kind=_COLUMNS[one], dimension=None) for one in columns
                ),
            ),
            Space(vector="embedding", dimension=None, metric="dot"),
            key="chunk_id",
        )
        self._address = address
        self._name = name
        self._translated = Translated(own_condition)
        self._is_few = Translated(self._passes_few)
        # To look rows up is as fast as to read on, wherever a table is in memory or on a SSD.
        connection.execute("SET random_page_cost = 1.1")
        # How many rows pass depends on the filter's values: plans are made for these.
        connection.execute("SET plan_cache_mode = force_custom_plan")
        look_on(connection)

    def read_info(self) -> CollectionInfo:
        row = self._connection.execute(
            f"SELECT info FROM {_INFOS} WHERE name = %s", (self._name,)
        ).fetchone()
        if row is None:
            raise StoreError(f"{self._address}: the collection '{self._name}' was removed")
        return info_from_json(row[0], self._address)

    def write_info(self, info: CollectionInfo) -> None:
        if info.complete:
            # All at once: to keep indexes up with each write takes longer.
            self._index_vectors()
            self._connection.execute(f"ANALYZE {self._table}")
        self._connection.execute(
            f"UPDATE {_INFOS} SET info = %s WHERE name = %s", (info_to_json(info), self._name)
        )

    def condition(self, filters: Filter | None, native: object) -> Condition:
        """See `Writer`; what an index would be slower for is marked to be compared exactly."""
        if filters is None:
            return EVERYTHING
        found = self._translated(filters)
        return replace(found, few=True) if self._is_few(filters) else found

    def _passes_few(self, filters: Filter) -> bool:
        """Whether an index of vectors is slower than to compare all rows that pass a filter.

        Exactly comparing them is then better, too. The planner takes such an index for too cheap.
        """
        if self.is_exact:
            return False
        asked = "SELECT reltuples FROM pg_class WHERE oid = %s::regclass"
        rows = self._connection.execute(asked, (self._table,)).fetchone()[0]
        most = math.isqrt(int(_FEW * max(rows, 0)))
        where = self._translated(filters)
        asked = (
            f"SELECT count(*) FROM (SELECT 1 FROM {self._table} WHERE {where.sql} LIMIT %s) "
            "AS passing"
        )
        passing = self._connection.execute(asked, (*where.values, most + 1)).fetchone()[0]
        return bool(passing <= most)

    def _index_vectors(self) -> None:
        """Makes the HNSW index where one is wanted, of all vectors at once.

        To add a million vectors to one takes hours, to make it of them minutes; it has to fit the
        server's ``maintenance_work_mem``, which is raised for it, to 1 GB at most.
        """
        connection = self._connection
        asked = "SELECT obj_description(%s::regclass, 'pg_class')"
        if connection.execute(asked, (self._table,)).fetchone()[0] != _TO_BE_INDEXED:
            return
        with connection.transaction():
            connection.execute(
                "SELECT set_config('maintenance_work_mem', '1GB', true) WHERE "
                "pg_size_bytes(current_setting('maintenance_work_mem')) < pg_size_bytes('1GB')"
            )
            made = f"CREATE INDEX ON {self._table} USING hnsw (embedding vector_ip_ops)"
            try:
                with connection.transaction():
                    connection.execute(made)
            except require("psycopg.errors", extra="pgvector").DiskFull:
                # Workers share memory, of which a container may have little; one alone needs none.
                connection.execute("SET LOCAL max_parallel_maintenance_workers = 0")
                connection.execute(made)
            connection.execute(f"COMMENT ON TABLE {self._table} IS NULL")

    def write(self, chunks: Sequence[StoredChunk], rows: NDArray[np.float32]) -> None:
        """See `Writer`; all of it or nothing."""
        columns = [quoted(name) for name in _COLUMNS]
        names = ", ".join(columns)
        changed = ", ".join(f"{name} = EXCLUDED.{name}" for name in columns[1:])
        plains = [plain(chunk) for chunk in chunks]
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.execute(f"CREATE TEMP TABLE ragbench_batch (LIKE {self._table}) ON COMMIT DROP")
            copied = f"COPY ragbench_batch ({names}) FROM STDIN WITH (FORMAT BINARY)"
            with cursor.copy(copied) as copy:
                copy.set_types(list(_COLUMNS.values()))
                for chunk, row in zip(plains, rows, strict=True):
                    copy.write_row(_values(chunk, row))
            cursor.execute(
                f"INSERT INTO {self._table} ({names}) SELECT {names} FROM ragbench_batch "
                f"ON CONFLICT (chunk_id) DO UPDATE SET {changed}"
            )

    def remove(self, ids: Sequence[str]) -> None:
        self._connection.execute(
            f"DELETE FROM {self._table} WHERE chunk_id = ANY(%s)", (list(ids),)
        )

    def kept(self, ids: Sequence[str]) -> list[Mapping[str, Any]]:
        asked = f"SELECT {self._listed('0')} FROM {self._table} WHERE chunk_id = ANY(%s)"
        found = self._connection.execute(asked, (list(ids),), binary=True).fetchall()
        return [self._row(row).fields for row in found]

    def rows(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        import numpy as np

        asked = f"SELECT chunk_id, embedding FROM {self._table} WHERE chunk_id = ANY(%s)"
        found = self._connection.execute(asked, (list(ids),), binary=True)
        return {row[0]: np.asarray(_plain(row[1]), dtype=np.float32) for row in found}

    def digests(self) -> dict[str, str]:
        return dict(
            self._connection.execute(f"SELECT chunk_id, digest FROM {self._table}").fetchall()
        )

    def nearest(
        self, rows: NDArray[np.float32], limit: int, condition: Condition, effort: Effort = NORMAL
    ) -> list[list[Row]]:
        return super().nearest(rows, limit, condition, _EXACT if condition.few else effort)


def _values(chunk: Mapping[str, Any], vector: Any) -> list[Any]:
    jsonb = require("psycopg.types.json", extra="pgvector").Jsonb
    found = {**chunk, "embedding": vector}
    return [
        jsonb(found[name], orjson.dumps)
        if kind == "jsonb" and found[name] is not None
        else found[name]
        for name, kind in _COLUMNS.items()
    ]


def _plain(vector: Any) -> Any:
    return vector.to_numpy() if hasattr(vector, "to_numpy") else vector


def _has_infos(connection: Any) -> bool:
    return connection.execute("SELECT to_regclass(%s)", (_INFOS,)).fetchone()[0] is not None


def _table(name: str) -> str:
    return f'"ragbench_{fitted_name(name)}"'
