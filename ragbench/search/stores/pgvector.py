"""The store ``postgresql``: PostgreSQL with the extension pgvector; tables of others are read.

A collection is a table ``ragbench_NAME`` of the schema that the connection comes to; what is kept
with collections stands in ``ragbench_collections``. Search is exact: ragbench makes no index of
vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import orjson

from ragbench.core.chunk import stored_chunk
from ragbench.core.filters import Filter
from ragbench.errors import ConfigError, ForeignCollectionError, StoreError
from ragbench.masking import mask_url
from ragbench.plugins import np, require
from ragbench.search.stores.base import (
    NORMAL,
    CollectionInfo,
    Effort,
    MetricName,
    Rankings,
    Row,
    Rows,
    Space,
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
    Sql,
    SqlColumn,
    column_condition,
    joined,
    native_condition,
    own_condition,
    quoted,
)
from ragbench.search.stores.pgvector_tables import (
    Lexemes,
    SqlTable,
    catalogue_rows,
    escaped,
    fetch_rows,
    find_lexemes,
    find_table,
    index_metrics,
    let_indexes_look_on,
    primary_key,
    stored_dimension,
    tables_with_vectors,
)
from ragbench.search.stores.record import StoredChunk, plain
from ragbench.text import tables

_INFOS = "ragbench_collections"
"""The table with what is kept of each collection that ragbench fills."""
_TIMEOUT = 15
"""Seconds until a server that does not answer counts as down."""
_MAKING = 0x72616762
"""The number of the lock that makes collections one after the other: "ragb" in ASCII."""
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
"""The columns of a table that ragbench fills, and their types."""
_READ = ("chunk_id", "document_id", "text", "start", "end", "metadata", "embedding")
"""What a chunk is made of, and what is searched."""
_OPERATORS: dict[MetricName, str] = {
    "cosine": "<=>",
    "dot": "<#>",
    "euclid": "<->",
    "manhattan": "<+>",
}
"""pgvector's operators for the distance of two vectors."""
_LEFT_OUT = ("vector", "halfvec", "sparsevec", "tsvector")
"""Types of columns that are for searching, not for reading."""


class PgvectorDatabase(WritableDatabase):
    """A database of PostgreSQL. The connection is one of psycopg."""

    def __init__(self, address: str) -> None:
        """The PostgreSQL database of an address; it is reached at its first use, not here.

        psycopg needs slashes in an address, which ragbench's may leave out.
        """
        super().__init__(mask_url(address))
        # psycopg takes an address with slashes only; ours may leave them out.
        self._dsn = address if "://" in address else address.replace(":", "://", 1)

    def load(self) -> tuple[type[Exception], ...]:
        """The exceptions of psycopg, PostgreSQL's client, and those of the network below it.

        `connected` turns these into errors of one line.
        """
        return (require("psycopg", extra="pgvector").Error, OSError)

    def connect(self) -> Any:
        """A new connection of psycopg, with fast JSON.

        A mere look leaves no table or extension behind.
        """
        psycopg = require("psycopg", extra="pgvector")
        # Needed later; a package that is missing is named before anything is reached.
        require("pgvector.psycopg", extra="pgvector")
        connection = psycopg.connect(self._dsn, autocommit=True, connect_timeout=_TIMEOUT)
        try:
            # Metadata are read with each hit.
            json_types = require("psycopg.types.json", extra="pgvector")
            json_types.set_json_loads(orjson.loads, connection)  # faster than the standard library
            # What exists already need not be reported.
            connection.execute("SET client_min_messages = warning")
            # The type must exist for that; where ragbench has made a table, it does.
            if _has_infos(connection):
                require("pgvector.psycopg", extra="pgvector").register_vector(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def listed(self, connection: Any) -> list[str]:
        """The names of other programs' tables with vectors.

        ragbench's own tables are left out, so that a user need not name the table where only one
        other is in the database.
        """
        return tables_with_vectors(connection)

    def read(self, connection: Any, name: str, mapping: FieldMapping) -> PgvectorTable | None:
        """Another program's table for reading, with its vector, metric and id.

        None without such a table. From here on the server refuses every write of this connection.

        Raises:
            ConfigError: the user has to choose a vector, or to name the column with the id.
        """
        connection.execute("SET default_transaction_read_only = on")
        connection.execute("SET TIME ZONE 'UTC'")  # of dates without a zone
        let_indexes_look_on(connection)
        table = find_table(connection, name)
        if table is None:
            return None
        vectors = {column.name: column for column in table.columns if column.is_vector}
        vector_name = mapping.chosen_vector(name, list(vectors))
        vector = vectors[vector_name]
        key = primary_key(connection, table)
        if key is None and mapping.id is None:
            raise ConfigError(
                f"the table '{name}' has no primary key of one column: name its id with "
                "--field id=COLUMN"
            )
        # The user's word comes first: a table may have indexes by several metrics, or none.
        metrics = index_metrics(connection, table, vector)
        metric = mapping.metric
        if not metric and len(metrics) == 1:
            metric = metrics[0]
        space = Space(
            vector=vector.name,
            dimension=vector.dimension or stored_dimension(connection, table, vector),
            metric=metric or "cosine",
            metric_known=metric is not None,
        )
        lexemes = find_lexemes(connection, name, table, mapping)
        return PgvectorTable(connection, table, space, key=key, lexemes=lexemes)

    def names(self, connection: Any) -> list[str]:
        """The names of ragbench's own collections: those with an entry in its table of collections.

        No names where that table was never made. Other tables of the database are not touched.
        """
        if not _has_infos(connection):
            return []
        return [row[0] for row in fetch_rows(connection, f"SELECT name FROM {_INFOS}")]

    def make(self, connection: Any, info: CollectionInfo) -> None:
        """Makes an empty table for a collection and its entry, in one transaction.

        A lock lets one process at a time do so: of two that make the same name the second is
        refused. The columns of the table are its stored form: `_COLUMNS` and ``pgvector.toml`` name
        them alike.
        """
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MAKING,))
            self._prepare(connection)
            # Looked for again: another process may have made it before the lock was free.
            if info.name in self.names(connection):
                raise StoreError(f"{self.address}: there is a collection '{info.name}' already")
            template = tables.table("ragbench.search.stores", "pgvector")["make"]
            statements = template.format(table=_own_table(info.name), dimension=info.dimension)
            connection.execute(statements)
            # Table and entry are made in one transaction: neither is ever there without the other.
            entry = (info.name, info_to_json(info))
            connection.execute(f"INSERT INTO {_INFOS} VALUES (%s, %s)", entry)

    def _prepare(self, connection: Any) -> None:
        """Makes pgvector's extension and ragbench's table of collections, if need be.

        Called before the first collection is made; a database that is only read is left as it is.

        Raises:
            StoreError: the extension cannot be made: it is not installed, or takes a superuser.
        """
        try:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except require("psycopg", extra="pgvector").Error as error:
            # Its first line names the cause; hints and positions follow.
            problem = str(error).splitlines()[0]
            raise StoreError(
                f"{self.address}: pgvector cannot be used there ({problem}): "
                "install it on the server, then run CREATE EXTENSION vector as a superuser"
            ) from error
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {_INFOS} (name text PRIMARY KEY, info text NOT NULL)"
        )
        require("pgvector.psycopg", extra="pgvector").register_vector(connection)

    def attach(self, connection: Any, name: str) -> OwnTable | None:
        """The table of one of ragbench's collections, for writing.

        None where there is no such table.

        Raises:
            ForeignCollectionError: there is a table of this name that another program made. Opened
                without a mapping it cannot be; with one it is read.
        """
        if name in self.names(connection):
            return OwnTable(self.address, connection, name)
        if find_table(connection, name) is not None:
            raise ForeignCollectionError(self.address, name)
        return None

    def remove(self, connection: Any, name: str) -> None:
        """Drops the table of one of ragbench's collections, never a table of another program.

        The entry decides what is ragbench's.
        """
        if not _has_infos(connection):
            return
        delete = f"DELETE FROM {_INFOS} WHERE name = %s RETURNING name"
        with connection.transaction():
            # Only where an entry was removed is the table ragbench's: another's may have the same
            # name.
            if fetch_rows(connection, delete, name):
                connection.execute(f"DROP TABLE {_own_table(name)}")


class PgvectorTable:
    """A table that is read (`stores.base.Reader`). A row's fields are its columns."""

    row_limit = None

    def __init__(
        self,
        connection: Any,
        table: SqlTable,
        space: Space,
        *,
        key: str | None,
        lexemes: Lexemes | None = None,
    ) -> None:
        """An open table that is searched by its vectors.

        Vectors and full-text columns are for searching: rows come without them.

        Args:
            table: its columns, and the part of it that is the collection.
            space: the column of vectors that is searched, and its metric.
            key: the column that is a row's id.
            lexemes: how it is searched by words; None where it is not.
        """
        self.space = space
        self.key = key
        self.words = None
        if lexemes is not None:
            self.words = lexemes.words
        self._lexemes = lexemes
        self._connection = connection
        self._table_name = table.sql
        """The table's name as PostgreSQL's catalogue is asked for it."""
        self._table = escaped(table.sql)
        """The table's name as statements with placeholders hold it."""
        self._part = table.part
        """The collection that is searched in LangChain's table of all; None searches all rows."""
        self._readable = [column for column in table.columns if column.kind not in _LEFT_OUT]
        """The columns that rows come with, and that filters may test."""
        self._column_names = [column.name for column in self._readable]
        self._vector = quoted(space.vector)
        kinds = {column.name: column.kind for column in table.columns}
        self._vector_kind = kinds[space.vector]
        """The type of the vectors' column: query vectors are cast to it, as PostgreSQL compares
        half vectors with half vectors only."""

    def count(self) -> int:
        """How many rows of the table have a vector: those that a search can find.

        Reports show the number, and stored results of a search depend on it.
        """
        where, values = self._where_part(EVERYTHING)
        [(count,)] = self._fetch(f"SELECT count(*) FROM {self._table} WHERE {where}", *values)
        return int(count)

    def sample(self, limit: int) -> list[Row]:
        """Any rows of the table with a vector, at most `limit`: fields are guessed from them.

        The score of these rows is 0.
        """
        where, values = self._where_part(EVERYTHING)
        columns = self._selected_columns("0::float8")
        select = f"SELECT {columns} FROM {self._table} WHERE {where} LIMIT %s"
        return [self._row_of_hit(row) for row in self._fetch(select, *values, limit)]

    def condition(self, filters: Filter | None, native: object) -> Sql:
        """The filters, and a native one, the user's own SQL, as one condition of SQL.

        A search translates its filters once, and passes the result to `nearest` or `matching`.
        """
        parts = [EVERYTHING]
        if filters is not None:
            parts.append(column_condition(filters, self._readable))
        if native is not None:
            parts.append(native_condition(native))
        return joined(parts)

    @property
    def is_exact(self) -> bool:
        """Whether a search of the table compares every vector: it has no HNSW or IVFFlat index.

        Reports measure by exact searches how many chunks such an index misses.
        """
        return not catalogue_rows(self._connection, "approximate", self._table_name)

    def nearest(self, rows: Rows, limit: int, condition: Sql, effort: Effort) -> Rankings:
        """The rows nearest to each query vector, one statement each.

        The order is by the distance alone, as the index of a column is used only then. A score is
        higher for a nearer row, as in every store.
        """
        where, values = self._where_part(condition)
        operator = _OPERATORS[self.space.metric]
        distance = f"{self._vector} {operator} %s::{self._vector_kind}"
        columns = self._selected_columns(distance)
        select = f"SELECT {columns} FROM {self._table} WHERE {where} ORDER BY 1 LIMIT %s"
        rankings: Rankings = []
        # SET LOCAL lasts until the transaction ends: other searches keep the server's settings.
        settings_scope = nullcontext() if effort == NORMAL else self._connection.transaction()
        with settings_scope:
            if effort.exact:
                # Indexes of vectors are read by index scans only.
                self._connection.execute("SET LOCAL enable_indexscan = off")
            elif effort.ef is not None:
                self._connection.execute(f"SET LOCAL hnsw.ef_search = {effort.ef}")
            for row in rows:
                # A vector as pgvector writes it: [0.25,-0.5]. `repr` keeps all digits.
                numbers = ",".join(map(repr, row.tolist()))
                # In the order of the placeholders: vector, values of the condition, limit.
                hits = self._fetch(select, f"[{numbers}]", *values, limit)
                rankings.append([self._row_of_hit(hit) for hit in hits])
        return rankings

    def matching(self, texts: Sequence[str], limit: int, condition: Sql) -> Rankings:
        """The rows that hold any word of each question, ranked by PostgreSQL's ``ts_rank_cd``.

        The question is cut into words as the column was.
        """
        assert self._lexemes is not None
        where, values = self._where_part(condition)
        vector = self._lexemes.vector
        # Of the words any, not all, as BM25 has it: few passages hold all words of a question.
        words = "replace(plainto_tsquery(%s::regconfig, %s)::text, '&', '|')::tsquery"
        rank = f"ts_rank_cd({vector}, asked, 1)"  # 1: divided by the logarithm of the length
        select = (
            f"SELECT {self._selected_columns(rank)} FROM {self._table}, "
            f"(SELECT {words} AS asked) AS question WHERE {vector} @@ asked AND {where} "
            "ORDER BY 1 DESC LIMIT %s"
        )
        rankings: Rankings = []
        for text in texts:
            question = text.replace("\0", " ")  # which PostgreSQL refuses
            # In the order of the placeholders: configuration, question, values of the condition,
            # limit.
            hits = self._fetch(select, self._lexemes.configuration, question, *values, limit)
            ranking: list[Row] = []
            for hit in hits:
                rank_of_hit = float(hit[0])  # no distance: `_row_of_hit` would negate it
                ranking.append(self._row_of_hit(hit)._replace(score=rank_of_hit))
            rankings.append(ranking)
        return rankings

    def _fetch(self, sql: str, *values: object) -> list[Any]:
        """All rows of a statement, over this table's connection, as PostgreSQL's client gives them.

        `_row_of_hit` reads those of a search.
        """
        return fetch_rows(self._connection, sql, *values)

    def _selected_columns(self, score: str) -> str:
        """The columns that a statement selects, after a score; `_row_of_hit` reads this order.

        Vectors are left out, as chunks do not show them.

        Args:
            score: the SQL of the score.
        """
        return ", ".join([score, *map(quoted, self._column_names)])

    def _where_part(self, condition: Sql) -> tuple[str, tuple[object, ...]]:
        """The part of a statement after WHERE, with its values.

        It selects the rows that have a vector and pass the condition; in LangChain's shared table,
        only the rows of one collection.
        """
        where = f"{self._vector} IS NOT NULL AND {condition.sql}"
        if self._part is None:
            return where, condition.values
        return f"{where} AND collection_id = %s", (*condition.values, self._part)

    def _row_of_hit(self, row: Sequence[Any]) -> Row:
        """A row in the form of `_selected_columns` as a `Row`.

        Its distance becomes a score, higher for nearer rows.
        """
        distance, *values = row
        fields = dict(zip(self._column_names, values, strict=True))
        identifier = ""
        if self.key is not None:
            identifier = str(fields[self.key])
        # A cosine distance is one minus the cosine; the inner product comes as its negative.
        score = -distance
        if self.space.metric == "cosine":
            score = 1.0 - distance
        return Row(identifier, fields, float(score))


class OwnTable(PgvectorTable):
    """A table that ragbench fills; see `ragbench.search.stores.base.Writer`."""

    read = staticmethod(stored_chunk)

    def __init__(self, address: str, connection: Any, name: str) -> None:
        """Opens the table of one of ragbench's collections.

        Its columns are those that ragbench made it with: the catalogue need not be read.
        """
        columns: list[SqlColumn] = []
        for column in _READ:
            columns.append(SqlColumn(name=column, kind=_COLUMNS[column], dimension=None))
        table = SqlTable(sql=_own_table(name), columns=tuple(columns))
        # Vectors are stored at length 1: their inner product is the cosine, and cheaper.
        space = Space(vector="embedding", dimension=None, metric="dot")
        super().__init__(connection, table, space, key="chunk_id")
        self._address = address
        self._name = name
        # To look rows up is as fast as to read on, wherever a table is in memory or on a SSD.
        connection.execute("SET random_page_cost = 1.1")
        # How many rows pass depends on the filter's values: plans are made for these.
        connection.execute("SET plan_cache_mode = force_custom_plan")
        let_indexes_look_on(connection)

    def read_info(self) -> CollectionInfo:
        """The collection's record of itself on the server now; another process may have changed it.

        A record kept here from the opening could be out of date.

        Raises:
            StoreError: the collection was removed meanwhile.
        """
        rows = self._fetch(f"SELECT info FROM {_INFOS} WHERE name = %s", self._name)
        if not rows:
            raise StoreError(f"{self._address}: the collection '{self._name}' was removed")
        [(info,)] = rows
        return info_from_json(info, self._address)

    def write_info(self, info: CollectionInfo) -> None:
        """Replaces the collection's record of itself.

        A complete collection is analysed first, once for all its writes: PostgreSQL then plans
        searches by the number and the values of its rows.
        """
        if info.complete:  # the planner learns how many rows there are, and of which values
            self._connection.execute(f"ANALYZE {self._table}")
        update = f"UPDATE {_INFOS} SET info = %s WHERE name = %s"
        self._connection.execute(update, (info_to_json(info), self._name))

    def condition(self, filters: Filter | None, native: object) -> Sql:
        """The filter as SQL over the columns that ragbench writes.

        A native filter does not come here: ragbench's own collections take none. A search
        translates its filter once, and passes the result to `nearest`.
        """
        if filters is None:
            return EVERYTHING
        return own_condition(filters)

    def write(self, chunks: Sequence[StoredChunk], rows: Rows) -> None:
        """Adds or replaces chunks with their vectors in one transaction: all of them, or none.

        A search never sees half of a batch.
        """
        columns = [quoted(name) for name in _COLUMNS]
        names = ", ".join(columns)
        # All columns are replaced but the first, ``chunk_id``, by which an old row is recognised.
        assignments = ", ".join(f"{name} = EXCLUDED.{name}" for name in columns[1:])
        # COPY is the fastest way in, and cannot replace rows: that is done from a temporary table.
        jsonb = require("psycopg.types.json", extra="pgvector").Jsonb
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.execute(f"CREATE TEMP TABLE ragbench_batch (LIKE {self._table}) ON COMMIT DROP")
            copy_statement = f"COPY ragbench_batch ({names}) FROM STDIN WITH (FORMAT BINARY)"
            with cursor.copy(copy_statement) as copy:
                copy.set_types(list(_COLUMNS.values()))
                for chunk, vector in zip(chunks, rows, strict=True):
                    fields = {**plain(chunk), "embedding": vector}
                    for name in ("metadata", "dates", "fields"):
                        # An absent value stays SQL's null: wrapped, it would be the null of JSON,
                        # which is a value.
                        if fields[name] is not None:
                            fields[name] = jsonb(fields[name], orjson.dumps)
                    copy.write_row([fields[name] for name in _COLUMNS])
            cursor.execute(
                f"INSERT INTO {self._table} ({names}) SELECT {names} FROM ragbench_batch "
                f"ON CONFLICT (chunk_id) DO UPDATE SET {assignments}"
            )

    def remove(self, ids: Sequence[str]) -> None:
        """Removes the chunks of these ids in one statement; unknown ids change nothing.

        An indexing removes so what the corpus no longer has.
        """
        delete = f"DELETE FROM {self._table} WHERE chunk_id = ANY(%s)"
        self._connection.execute(delete, (list(ids),))

    def stored(self, ids: Sequence[str]) -> list[Mapping[str, Any]]:
        """The stored columns of the chunks with these ids, without vectors.

        Unknown ids are left out. `read` makes chunks of them.
        """
        # The score goes unread; `_row_of_hit` expects one in the first place.
        select = f"SELECT {self._selected_columns('0')} FROM {self._table} WHERE chunk_id = ANY(%s)"
        rows = self._connection.execute(select, (list(ids),), binary=True).fetchall()
        return [self._row_of_hit(row).fields for row in rows]

    def rows(self, ids: Sequence[str]) -> dict[str, Rows]:
        """The vectors of these ids that the table has, by id.

        The vectors are read as arrays of numbers: pgvector's own type would come as texts.
        """
        select = f"SELECT chunk_id, embedding::real[] FROM {self._table} WHERE chunk_id = ANY(%s)"
        rows = self._connection.execute(select, (list(ids),), binary=True)
        return {chunk_id: np.asarray(vector, dtype=np.float32) for chunk_id, vector in rows}

    def digests(self) -> dict[str, str]:
        """The digest of every chunk in the table, by id.

        An indexing embeds only those that have changed.
        """
        return dict(self._fetch(f"SELECT chunk_id, digest FROM {self._table}"))


def _has_infos(connection: Any) -> bool:
    """Whether the database has ragbench's table of collections.

    Whether ragbench ever made one there. A database that was only looked at has none, and gets none
    by looking.
    """
    return fetch_rows(connection, "SELECT to_regclass(%s)", _INFOS) != [(None,)]


def _own_table(name: str) -> str:
    """The quoted name of the table in which ragbench keeps a collection.

    Another form of the name would hide the tables that are there.
    """
    return f'"ragbench_{fitted_name(name)}"'
