"""Tables of PostgreSQL that hold vectors, and what the catalogue says of them.

The queries are in ``pgvector.toml``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from ragbench.core.record import Record
from ragbench.search.stores.base import MetricName, Words
from ragbench.search.stores.mapping import FieldMapping
from ragbench.search.stores.pgvector_filters import VECTORS, SqlColumn, quoted
from ragbench.text import tables

_METRICS: dict[str, MetricName] = {
    "cosine": "cosine",
    "ip": "dot",
    "l2": "euclid",
    "l1": "manhattan",
}
"""What the names of index operator classes say, such as ``vector_cosine_ops``."""
_CONFIGURED = re.compile(r"to_tsvector\('(?:\w+\.)?\"?(\w+)\"?'::regconfig")
"""The language in the expression of a generated column."""


class SqlTable(Record):
    """A table with vectors, or the part of one that is a collection of LangChain's."""

    sql: str
    """Its name, quoted."""
    columns: tuple[SqlColumn, ...]
    part: object = None
    """The ``collection_id`` of its rows; None for all rows."""


class Lexemes(NamedTuple):
    """What a full-text search looks at."""

    words: Words
    vector: str
    """The tsvector: a column, or an expression over one, as an index has it."""
    configuration: str
    """PostgreSQL's name for how texts are cut into words, such as ``english``."""


def fetch_rows(connection: Any, sql: str, *values: object) -> list[Any]:
    """All rows of a statement of SQL; a percent sign that is no placeholder is doubled in it.

    Values go through placeholders, never into the text.

    Args:
        values: of the placeholders.
    """
    rows: list[Any] = connection.execute(sql, values).fetchall()
    return rows


def catalogue_rows(connection: Any, query: str, *values: object) -> list[Any]:
    """The rows of one of the queries in ``pgvector.toml``, which ask PostgreSQL's catalogue.

    The catalogue describes tables, columns and indexes. Such queries are long, and read better in a
    file of their own.

    Args:
        query: the query's name in that file.
        values: for the query's placeholders, in their order.
    """
    queries = tables.table("ragbench.search.stores", "pgvector")
    return fetch_rows(connection, queries[query], *values)


def escaped(sql: str) -> str:
    """A name for a statement with placeholders: a single percent sign would be taken for one.

    psycopg refuses such a statement.
    """
    return sql.replace("%", "%%")


def tables_with_vectors(connection: Any) -> list[str]:
    """The tables with vectors on the search path, without those that ragbench fills.

    LangChain keeps all its collections in one table: their names take its place. A user chooses
    among these names where the address alone does not say which one is meant.
    """
    names = [row[0] for row in catalogue_rows(connection, "tables", VECTORS)]
    # LangChain keeps the names of its collections in a second table, which has no vectors.
    collections = _visible_table(connection, "langchain_pg_collection")
    if collections is not None and "langchain_pg_embedding" in names:
        names.remove("langchain_pg_embedding")
        rows = fetch_rows(connection, f"SELECT name FROM {collections}")
        names += [row[0] for row in rows]
    return names


def find_table(connection: Any, name: str) -> SqlTable | None:
    """The table of a name, if it has a column of vectors, or LangChain's collection of that name.

    None where there is neither. A name with a dot may be that of a schema and a table.
    """
    sql = _visible_table(connection, name)
    if sql is None and "." in name:  # a table's own name may have dots, so this comes second
        sql = _visible_table(connection, *name.split(".", 1))
    if sql is not None:
        columns = _columns(connection, sql)
        if not any(column.is_vector for column in columns):
            return None
        return SqlTable(sql=sql, columns=columns)
    # LangChain keeps all of its collections in one table, and their names in another.
    embeddings = _visible_table(connection, "langchain_pg_embedding")
    collections = _visible_table(connection, "langchain_pg_collection")
    if embeddings is None or collections is None:
        return None
    parts = fetch_rows(connection, f"SELECT uuid FROM {collections} WHERE name = %s", name)
    if not parts:
        return None
    [collection_id] = parts[0]
    columns = _columns(connection, embeddings)
    return SqlTable(sql=embeddings, columns=columns, part=collection_id)


def _visible_table(connection: Any, *parts: str) -> str | None:
    """The quoted name of a table on the search path, or in a schema; None where it is not there.

    A name from a user goes to the catalogue as a value first, and comes back as SQL can hold it.

    Args:
        parts: the table's name, or the schema's and the table's.
    """
    quoted_parts: list[str] = []
    for part in parts:
        # Quoted, or PostgreSQL would lower its letters.
        doubled_quotes = part.replace('"', '""')
        quoted_parts.append(f'"{doubled_quotes}"')
    name = ".".join(quoted_parts)
    [(sql,)] = fetch_rows(connection, "SELECT to_regclass(%s)::text", name)
    return cast("str | None", sql)


def _columns(connection: Any, sql: str) -> tuple[SqlColumn, ...]:
    """The columns of a table with their types, and of columns of vectors their length.

    The catalogue keeps a vector's length as its type's modifier.
    """
    columns: list[SqlColumn] = []
    for name, kind, modifier in catalogue_rows(connection, "columns", sql):
        # The modifier of another type means something else; -1 is a vector without a set length.
        dimension = modifier if kind in VECTORS and modifier > 0 else None
        columns.append(SqlColumn(name=name, kind=kind, dimension=dimension))
    return tuple(columns)


def primary_key(connection: Any, table: SqlTable) -> str | None:
    """The single column of a table's primary key.

    None where the table has no primary key, or one of several columns. The column holds the ids of
    chunks where the user names no other.
    """
    keys = catalogue_rows(connection, "keys", table.sql)
    if len(keys) != 1:
        return None
    name: str = keys[0][0]
    return name


def index_metrics(connection: Any, table: SqlTable, vector: SqlColumn) -> list[MetricName]:
    """The metrics by which the indexes on a column of vectors compare them; none without an index.

    Neither the column nor its type says so: the application chose it when it made the index.
    """
    metrics: list[MetricName] = []
    for (operator_class,) in catalogue_rows(connection, "operators", table.sql, vector.name):
        parts = str(operator_class).split("_")  # such as halfvec_l2_ops
        # Other operator classes, such as bit_hamming_ops, compare what is not searched here.
        if len(parts) == 3 and parts[1] in _METRICS:
            metrics.append(_METRICS[parts[1]])
    return metrics


def stored_dimension(connection: Any, table: SqlTable, vector: SqlColumn) -> int | None:
    """The length of one row's vector, for a column that is declared without a length.

    None where no row has a vector.
    """
    name = quoted(vector.name)
    # One row is enough: pgvector's operators refuse vectors of different lengths.
    query = f"SELECT vector_dims({name}) FROM {escaped(table.sql)} WHERE {name} IS NOT NULL LIMIT 1"
    rows = fetch_rows(connection, query)
    if not rows:
        return None
    [dimension] = rows[0]
    return int(dimension)


def find_lexemes(
    connection: Any, name: str, table: SqlTable, mapping: FieldMapping
) -> Lexemes | None:
    """The column that a full-text search looks at, with its language; None where there is none.

    A search by words has to cut questions as the column's texts were cut.

    Args:
        name: of the collection, for errors.
        mapping: which column and language the user names.
    """
    vectors = _names_of_kinds(table, ["tsvector"])
    candidates = vectors
    if mapping.words:  # a column of texts is searched only where the user names it
        candidates = [*vectors, *_names_of_kinds(table, ["text", "varchar"])]
    field = mapping.chosen_words(name, candidates)
    if field is None:
        return None
    configured = None
    generated = catalogue_rows(connection, "generated", table.sql, field)
    if generated:
        [generating_expression] = generated[0]
        configured = _CONFIGURED.search(str(generating_expression))
    ranking_note = ""
    # Questions have to be cut into words as the column was: as the user says, as the column's own
    # expression says, or else without stems, which is reported as an assumption.
    if mapping.language:
        configuration = mapping.language
    elif configured:
        configuration = configured.group(1)
    else:
        configuration = "simple"
        ranking_note = " assumed"
    expression = quoted(field)
    if field not in vectors:
        # Written as in the expression of an index, so that the planner takes the index.
        literal = configuration.replace("'", "''")
        expression = f"to_tsvector('{literal}', {expression})"
    words = Words(field=field, ranking=f"ts_rank_cd, {configuration}{ranking_note}")
    return Lexemes(words, escaped(expression), configuration)


def _names_of_kinds(table: SqlTable, kinds: Sequence[str]) -> list[str]:
    """The names of a table's columns whose type is one of `kinds`.

    A full-text search can look at some types only: a user chooses among their columns.
    """
    return [column.name for column in table.columns if column.kind in kinds]


def let_indexes_look_on(connection: Any) -> None:
    """Lets an HNSW index search on until enough rows are found, where the server's pgvector can.

    Without that setting it gives 40 rows at most, however many are wanted.
    """
    # A database without pgvector has no vectors to search, and no such setting.
    if fetch_rows(connection, "SELECT to_regtype('vector')") == [(None,)]:
        return
    connection.execute("SELECT NULL::vector")  # pgvector's settings are there once it is loaded
    catalogue_rows(connection, "look_on")
