"""The store ``postgresql``: PostgreSQL with the extension pgvector; tables of others are read.

A collection is a table ``ragbench_NAME`` of the schema that the connection comes to; what is kept
with collections stands in ``ragbench_collections``. Search is exact: ragbench makes no index of
vectors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, cast

import orjson

from ragbench.core.chunk import stored_chunk
from ragbench.core.filters import Filter
from ragbench.core.record import Record
from ragbench.errors import ConfigError, ForeignCollectionError, StoreError
from ragbench.masking import mask_url
from ragbench.plugins import np, require
from ragbench.search.stores.base import (
    NORMAL,
    CollectionInfo,
    Effort,
    MetricName,
    Row,
    Rows,
    Space,
    Words,
)
from ragbench.search.stores.database import (
    WritableDatabase,
    fitted_name,
    info_from_json,
    info_to_json,
)
from ragbench.search.stores.mapping import FieldMapping
from ragbench.search.stores.pgvector_filters import (
    EVERYTHING,
    VECTORS,
    Sql,
    SqlColumn,
    column_condition,
    joined,
    native_condition,
    own_condition,
    quoted,
)
from ragbench.search.stores.record import StoredChunk, plain
from ragbench.text import tables

_INFOS = "ragbench_collections"
_TIMEOUT = 15
_MAKING = 0x72616762
"""The number of the lock that makes collections one after the other."""
_COLUMNS = {
    "chunk_id": "text", "document_id": "text", "text": "text", "start": "int8", "end": "int8",
    "metadata": "jsonb", "digest": "text", "dates": "jsonb", "fields": "jsonb",
    "embedding": "vector",
}  # fmt: skip
"""And their types."""
_READ = ("chunk_id", "document_id", "text", "start", "end", "metadata", "embedding")
"""What a chunk is made of, and what is searched."""


_OPERATORS: dict[MetricName, str] = {
    "cosine": "<=>",
    "dot": "<#>",
    "euclid": "<->",
    "manhattan": "<+>",
}
_OPS: dict[str, MetricName] = {"cosine": "cosine", "ip": "dot", "l2": "euclid", "l1": "manhattan"}
"""What the names of index operator classes say, such as ``vector_cosine_ops``."""
_LEFT_OUT = ("vector", "halfvec", "sparsevec", "tsvector")
"""Types of columns that are for searching, not for reading."""

_CONFIGURED = re.compile(r"to_tsvector\('(?:\w+\.)?\"?(\w+)\"?'::regconfig")


class _Lexemes(NamedTuple):
    words: Words
    vector: str
    """The tsvector: a column, or an expression over one, as an index has it."""
    configuration: str


class PgvectorDatabase(WritableDatabase):
    def __init__(self, address: str) -> None:
        super().__init__(mask_url(address))
        self._dsn = address if "://" in address else address.replace(":", "://", 1)

    def load(self) -> tuple[type[Exception], ...]:
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
        """The tables with vectors that are on the search path, but for ragbench's own.

        In the place of LangChain's shared table stand its collections.
        """
        found = [row[0] for row in _catalogue(connection, "tables", VECTORS)]
        shared = _found(connection, "langchain_pg_collection")
        if shared is not None and "langchain_pg_embedding" in found:
            found.remove("langchain_pg_embedding")
            found += [row[0] for row in _rows(connection, f"SELECT name FROM {shared}")]
        return found

    def read(self, connection: Any, name: str, mapping: FieldMapping) -> PgvectorTable | None:
        """The table, or None; from here on the server refuses every write of the connection."""
        connection.execute("SET default_transaction_read_only = on")
        connection.execute("SET TIME ZONE 'UTC'")  # of dates without a zone
        look_on(connection)
        if (table := find_table(connection, name)) is None:
            return None
        columns = {one.name: one for one in table.columns if one.is_vector}
        vector = columns[mapping.chosen_vector(name, list(columns))]
        keys = _catalogue(connection, "keys", table.sql)
        key = keys[0][0] if len(keys) == 1 else None
        if key is None and mapping.id is None:
            raise ConfigError(
                f"the table '{name}' has no primary key of one column: name its id with "
                "--field id=COLUMN"
            )
        metrics = _indexed(connection, table, vector)
        metric = mapping.metric or (metrics[0] if len(metrics) == 1 else None)
        space = Space(
            vector=vector.name,
            dimension=vector.dimension or _dimension(connection, table, vector),
            metric=metric or "cosine",
            metric_known=metric is not None,
        )
        lexemes = _lexemes(connection, name, table, mapping)
        return PgvectorTable(connection, table, space, key=key, lexemes=lexemes)

    def names(self, connection: Any) -> list[str]:
        if not _has_infos(connection):
            return []
        return [row[0] for row in _rows(connection, f"SELECT name FROM {_INFOS}")]

    def make(self, connection: Any, info: CollectionInfo) -> None:
        """An empty table and its entry in one transaction; of two at once the second is refused."""
        run = connection.execute
        with connection.transaction():
            run("SELECT pg_advisory_xact_lock(%s)", (_MAKING,))
            self._prepare(connection)
            if info.name in self.names(connection):
                raise StoreError(f"{self.address}: there is a collection '{info.name}' already")
            making = tables.table("ragbench.search.stores", "pgvector")["make"]
            run(making.format(table=_table(info.name), dimension=info.dimension))
            run(f"INSERT INTO {_INFOS} VALUES (%s, %s)", (info.name, info_to_json(info)))

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
        require("pgvector.psycopg", extra="pgvector").register_vector(connection)

    def attach(self, connection: Any, name: str) -> OwnTable | None:
        if name in self.names(connection):
            return OwnTable(self.address, connection, name)
        if find_table(connection, name) is not None:
            raise ForeignCollectionError(self.address, name)
        return None

    def remove(self, connection: Any, name: str) -> None:
        if not _has_infos(connection):
            return
        with connection.transaction():
            if _rows(connection, f"DELETE FROM {_INFOS} WHERE name = %s RETURNING name", name):
                connection.execute(f"DROP TABLE {_table(name)}")


class PgvectorTable:
    """See `ragbench.search.stores.base.Reader`. A row's fields are its columns."""

    most = None

    def __init__(
        self,
        connection: Any,
        table: SqlTable,
        space: Space,
        *,
        key: str | None,
        lexemes: _Lexemes | None = None,
    ) -> None:
        self.space, self.key = space, key
        self.words = None if lexemes is None else lexemes.words
        self._lexemes = lexemes
        self._connection = connection
        self._table, self._part = _escaped(table.sql), table.part
        self._readable = [one for one in table.columns if one.kind not in _LEFT_OUT]
        self._columns = [one.name for one in self._readable]
        self._vector = quoted(space.vector)
        self._kind = next(one.kind for one in table.columns if one.name == space.vector)

    def count(self) -> int:
        where, values = self._where(EVERYTHING)
        [(count,)] = self._asked(f"SELECT count(*) FROM {self._table} WHERE {where}", *values)
        return int(count)

    def sample(self, limit: int) -> list[Row]:
        where, values = self._where(EVERYTHING)
        asked = f"SELECT {self._listed('0::float8')} FROM {self._table} WHERE {where} LIMIT %s"
        return [self._row(row) for row in self._asked(asked, *values, limit)]

    def condition(self, filters: Filter | None, native: object) -> Sql:
        """See `Reader`; a native one is SQL, which the connection lets only read."""
        parts = [EVERYTHING]
        if filters is not None:
            parts.append(column_condition(filters, self._readable))
        if native is not None:
            parts.append(native_condition(native))
        return joined(parts)

    @property
    def is_exact(self) -> bool:
        """See `Engine`: whether no index may miss a nearest vector."""
        return not _catalogue(self._connection, "approximate", self._table)

    def nearest(self, rows: Rows, limit: int, condition: Sql, effort: Effort) -> list[list[Row]]:
        where, values = self._where(condition)
        how = f"{self._vector} {_OPERATORS[self.space.metric]} %s::{self._kind}"
        asked = f"SELECT {self._listed(how)} FROM {self._table} WHERE {where} ORDER BY 1 LIMIT %s"
        found: list[list[Row]] = []
        with nullcontext() if effort == NORMAL else self._connection.transaction():
            if effort.exact:
                self._connection.execute("SET LOCAL enable_indexscan = off")
            elif effort.ef is not None:
                self._connection.execute(f"SET LOCAL hnsw.ef_search = {effort.ef}")
            for row in rows:
                query = f"[{','.join(map(repr, row.tolist()))}]"
                found.append([self._row(hit) for hit in self._asked(asked, query, *values, limit)])
        return found

    def matching(self, texts: Sequence[str], limit: int, condition: Sql) -> list[list[Row]]:
        """See `Reader`; rows that hold any word of the question, by ``ts_rank_cd``."""
        assert self._lexemes is not None
        where, values = self._where(condition)
        vector = self._lexemes.vector
        # Of the words any, not all, as BM25 has it: few passages hold all words of a question.
        words = "replace(plainto_tsquery(%s::regconfig, %s)::text, '&', '|')::tsquery"
        asked = (
            f"SELECT {self._listed(f'ts_rank_cd({vector}, asked, 1)')} FROM {self._table}, "
            f"(SELECT {words} AS asked) AS question WHERE {vector} @@ asked AND {where} "
            "ORDER BY 1 DESC LIMIT %s"
        )
        said, form = (text.replace("\0", " ") for text in texts), self._lexemes.configuration
        found = (self._asked(asked, form, text, *values, limit) for text in said)
        return [[self._row(hit)._replace(score=float(hit[0])) for hit in hits] for hits in found]

    def _asked(self, sql: str, *values: object) -> list[Any]:
        return _rows(self._connection, sql, *values)

    def _listed(self, first: str) -> str:
        return ", ".join([first, *map(quoted, self._columns)])

    def _where(self, condition: Sql) -> tuple[str, tuple[object, ...]]:
        there = f"{self._vector} IS NOT NULL AND {condition.sql}"
        if self._part is None:
            return there, condition.values
        return f"{there} AND collection_id = %s", (*condition.values, self._part)

    def _row(self, row: Sequence[Any]) -> Row:
        fields = dict(zip(self._columns, row[1:], strict=True))
        own = "" if self.key is None else str(fields[self.key])
        # A cosine distance is one minus the cosine; the inner product comes as its negative.
        score = 1.0 - row[0] if self.space.metric == "cosine" else -row[0]
        return Row(own, fields, float(score))


class OwnTable(PgvectorTable):
    """One that ragbench fills; see `ragbench.search.stores.base.Writer`."""

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
        asked = f"UPDATE {_INFOS} SET info = %s WHERE name = %s"
        self._connection.execute(asked, (info_to_json(info), self._name))

    def condition(self, filters: Filter | None, native: object) -> Sql:
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
        asked = f"DELETE FROM {self._table} WHERE chunk_id = ANY(%s)"
        self._connection.execute(asked, (list(ids),))

    def kept(self, ids: Sequence[str]) -> list[Mapping[str, Any]]:
        asked = f"SELECT {self._listed('0')} FROM {self._table} WHERE chunk_id = ANY(%s)"
        found = self._connection.execute(asked, (list(ids),), binary=True).fetchall()
        return [self._row(row).fields for row in found]

    def rows(self, ids: Sequence[str]) -> dict[str, Rows]:
        asked = f"SELECT chunk_id, embedding::real[] FROM {self._table} WHERE chunk_id = ANY(%s)"
        found = self._connection.execute(asked, (list(ids),), binary=True)
        return {id_: np.asarray(vector, dtype=np.float32) for id_, vector in found}

    def digests(self) -> dict[str, str]:
        return dict(self._asked(f"SELECT chunk_id, digest FROM {self._table}"))


def _has_infos(connection: Any) -> bool:
    return _rows(connection, "SELECT to_regclass(%s)", _INFOS) != [(None,)]


def _table(name: str) -> str:
    return f'"ragbench_{fitted_name(name)}"'


def _rows(connection: Any, sql: str, *values: object) -> list[Any]:
    found: list[Any] = connection.execute(sql, values).fetchall()
    return found


def _catalogue(connection: Any, query: str, *values: object) -> list[Any]:
    """What a query of ``pgvector.toml`` finds."""
    return _rows(connection, tables.table("ragbench.search.stores", "pgvector")[query], *values)


def look_on(connection: Any) -> None:
    """Lets an HNSW index look on until enough rows are found, where the server's pgvector can.

    Without, it gives 40 rows at most, however many are asked for.
    """
    if _rows(connection, "SELECT to_regtype('vector')") == [(None,)]:
        return
    connection.execute("SELECT NULL::vector")  # what pgvector can is known once it is loaded
    _catalogue(connection, "look_on")


def _indexed(connection: Any, table: SqlTable, vector: SqlColumn) -> list[MetricName]:
    rows = _catalogue(connection, "operators", table.sql, vector.name)
    parts = [str(row[0]).split("_") for row in rows]
    return [_OPS[part[1]] for part in parts if len(part) == 3 and part[1] in _OPS]


def _dimension(connection: Any, table: SqlTable, vector: SqlColumn) -> int | None:
    """Of a column without a length, that of one row."""
    name, sql = quoted(vector.name), _escaped(table.sql)
    asked = f"SELECT vector_dims({name}) FROM {sql} WHERE {name} IS NOT NULL LIMIT 1"
    rows = _rows(connection, asked)
    return int(rows[0][0]) if rows else None


def _lexemes(connection: Any, name: str, table: SqlTable, mapping: FieldMapping) -> _Lexemes | None:
    """The column of a full-text search and its configuration; None where there is none."""
    vectors = [one.name for one in table.columns if one.kind == "tsvector"]
    texts = [one.name for one in table.columns if one.kind in ("text", "varchar")]
    field = mapping.chosen_words(name, [*vectors, *texts] if mapping.words else vectors)
    if field is None:
        return None
    rows = _catalogue(connection, "generated", table.sql, field)
    found = _CONFIGURED.search(str(rows[0][0]) if rows else "")
    configuration = mapping.language or (found.group(1) if found else "simple")
    expression = quoted(field)
    if field not in vectors:
        word = configuration.replace("'", "''")
        expression = f"to_tsvector('{word}', {expression})"
    how = f"ts_rank_cd, {configuration}" + ("" if found or mapping.language else " assumed")
    return _Lexemes(Words(field=field, how=how), _escaped(expression), configuration)


def _escaped(sql: str) -> str:
    """A name in a statement with placeholders: a percent sign is none."""
    return sql.replace("%", "%%")


# --- tables with vectors, and how hard their index looks


class SqlTable(Record):
    """A table with vectors, or the part of one that is a collection of LangChain's."""

    sql: str
    """Its name, quoted."""
    columns: tuple[SqlColumn, ...]
    part: object = None
    """The ``collection_id`` of its rows; None for all rows."""


def find_table(connection: Any, name: str) -> SqlTable | None:
    """The table of a name that has a column of vectors."""
    sql = _found(connection, name) or ("." in name and _found(connection, *name.split(".", 1)))
    if sql:
        columns = _columns(connection, sql)
        return SqlTable(sql=sql, columns=columns) if any(one.is_vector for one in columns) else None
    shared = _found(connection, "langchain_pg_embedding")
    names = _found(connection, "langchain_pg_collection")
    if shared is None or names is None:
        return None
    for (part,) in _rows(connection, f"SELECT uuid FROM {names} WHERE name = %s", name):
        return SqlTable(sql=shared, columns=_columns(connection, shared), part=part)
    return None


def _found(connection: Any, *parts: str) -> str | None:
    quoted = ".".join('"' + part.replace('"', '""') + '"' for part in parts)
    [(found,)] = _rows(connection, "SELECT to_regclass(%s)::text", quoted)
    return cast("str | None", found)


def _columns(connection: Any, sql: str) -> tuple[SqlColumn, ...]:
    return tuple(
        SqlColumn(name=name, kind=kind, dimension=size if kind in VECTORS and size > 0 else None)
        for name, kind, size in _catalogue(connection, "columns", sql)
    )
