"""The store ``postgresql``: PostgreSQL with the extension pgvector.

A collection is a table ``ragbench_NAME`` of the schema that the connection comes to; what is kept
with collections stands in ``ragbench_collections``. Search is exact: ragbench makes no index of
vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from ragbench.core.chunk import stored_chunk
from ragbench.core.filters import Filter
from ragbench.errors import ForeignCollectionError, StoreError
from ragbench.masking import mask_url
from ragbench.plugins import require
from ragbench.stores.base import CollectionInfo, Rows, Space
from ragbench.stores.database import WritableDatabase, fitted_name, info_from_json, info_to_json
from ragbench.stores.mapping import FieldMapping
from ragbench.stores.pgvector_filters import EVERYTHING, Condition, SqlColumn, own_condition, quoted
from ragbench.stores.pgvector_table import PgvectorTable, SqlTable, find_table, look_on, table_names
from ragbench.stores.record import StoredChunk, plain

_INFOS = "ragbench_collections"
_TIMEOUT = 15
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
    "embedding": "vector",
}
"""And their types."""
_READ = ("chunk_id", "document_id", "text", "start", "end", "metadata", "embedding")
"""What a chunk is made of, and what is searched."""


class PgvectorDatabase(WritableDatabase[Any]):
    """Tables of one database. The connection is one of psycopg."""

    def __init__(self, address: str) -> None:
        super().__init__(mask_url(address))
        self._dsn = address if "://" in address else address.replace(":", "://", 1)

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
                require("pgvector.psycopg", extra="pgvector").register_vector(connection)
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
        require("pgvector.psycopg", extra="pgvector").register_vector(connection)
        table = _table(info.name)
        with connection.transaction():
            connection.execute(
                f'CREATE TABLE {table} (chunk_id text COLLATE "C" PRIMARY KEY, '
                'document_id text, text text NOT NULL, "start" int8, "end" int8, '
                "metadata jsonb NOT NULL, digest text NOT NULL, dates jsonb, fields jsonb, "
                f"embedding vector({info.dimension}) NOT NULL)"
            )
            # Every search reads all vectors: they stay in the rows, where long texts may leave.
            connection.execute(f"ALTER TABLE {table} ALTER COLUMN embedding SET STORAGE MAIN")
            connection.execute(f"CREATE INDEX ON {table} USING gin (metadata jsonb_path_ops)")
            connection.execute(f"CREATE INDEX ON {table} (document_id)")
            connection.execute(f"CREATE INDEX ON {table} (chunk_id) WHERE fields IS NOT NULL")
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


class OwnTable(PgvectorTable):
    """One that ragbench fills; see `ragbench.stores.base.Writer`."""

    read = staticmethod(stored_chunk)

    def __init__(self, address: str, connection: Any, name: str) -> None:
        columns = [SqlColumn(name=one, kind=_COLUMNS[one], dimension=None) for one in _READ]
        super().__init__(
            connection,
            SqlTable(sql=_table(name), columns=tuple(columns)),
            Space(vector="embedding", dimension=None, metric="dot"),
            key="chunk_id",
        )
        self._address = address
        self._name = name
        # To look rows up is as fast as to read on, wherever a table is in memory or on a SSD.
        connection.execute("SET random_page_cost = 1.1")
        # How many rows pass depends on the filter's values: plans are made for these.
        connection.execute("SET plan_cache_mode = force_custom_plan")
        look_on(connection)

    def read_info(self) -> CollectionInfo:
        rows = self._asked(f"SELECT info FROM {_INFOS} WHERE name = %s", self._name)
        if not rows:
            raise StoreError(f"{self._address}: the collection '{self._name}' was removed")
        return info_from_json(rows[0][0], self._address)

    def write_info(self, info: CollectionInfo) -> None:
        if info.complete:
            self._connection.execute(f"ANALYZE {self._table}")
        self._connection.execute(
            f"UPDATE {_INFOS} SET info = %s WHERE name = %s", (info_to_json(info), self._name)
        )

    def condition(self, filters: Filter | None, native: object) -> Condition:
        return EVERYTHING if filters is None else own_condition(filters)

    def write(self, chunks: Sequence[StoredChunk], rows: Rows) -> None:
        """See `Writer`; all of it or nothing."""
        columns = [quoted(name) for name in _COLUMNS]
        names = ", ".join(columns)
        changed = ", ".join(f"{name} = EXCLUDED.{name}" for name in columns[1:])
        jsonb = require("psycopg.types.json", extra="pgvector").Jsonb
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.execute(f"CREATE TEMP TABLE ragbench_batch (LIKE {self._table}) ON COMMIT DROP")
            copied = f"COPY ragbench_batch ({names}) FROM STDIN WITH (FORMAT BINARY)"
            with cursor.copy(copied) as copy:
                copy.set_types(list(_COLUMNS.values()))
                for chunk, row in zip(chunks, rows, strict=True):
                    kept = {**plain(chunk), "embedding": row}
                    for name in ("metadata", "dates", "fields"):
                        kept[name] = None if kept[name] is None else jsonb(kept[name], orjson.dumps)
                    copy.write_row([kept[name] for name in _COLUMNS])
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

    def rows(self, ids: Sequence[str]) -> dict[str, Rows]:
        import numpy as np

        asked = f"SELECT chunk_id, embedding::real[] FROM {self._table} WHERE chunk_id = ANY(%s)"
        found = self._connection.execute(asked, (list(ids),), binary=True)
        return {id_: np.asarray(vector, dtype=np.float32) for id_, vector in found}

    def digests(self) -> dict[str, str]:
        return dict(self._asked(f"SELECT chunk_id, digest FROM {self._table}"))


def _has_infos(connection: Any) -> bool:
    return connection.execute("SELECT to_regclass(%s)", (_INFOS,)).fetchone()[0] is not None


def _table(name: str) -> str:
    return f'"ragbench_{fitted_name(name)}"'
