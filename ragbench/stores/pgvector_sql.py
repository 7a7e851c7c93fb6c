"""Tables with vectors, and how hard their index looks."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ragbench.stores.base import NORMAL, Effort

_VECTORS = ["vector", "halfvec"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlColumn:
    """A column of a table."""

    name: str
    kind: str
    """Its type's name, such as ``jsonb``."""
    dimension: int | None
    """Of a column of vectors its length, where the column has one."""

    @property
    def is_vector(self) -> bool:
        return self.kind in _VECTORS


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlTable:
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
    asked = f"SELECT uuid FROM {names} WHERE name = %s"
    row = connection.execute(asked, (name,)).fetchone()
    if row is None:
        return None
    return SqlTable(sql=shared, columns=_columns(connection, shared), part=row[0])


def has_approximate_index(connection: Any, table: str) -> bool:
    """Whether a table, by its quoted name, has an index that may miss a nearest vector."""
    row = connection.execute(
        "SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
        "JOIN pg_am a ON a.oid = c.relam WHERE i.indrelid = %s::regclass "
        "AND a.amname = ANY(%s)",
        (table, ["hnsw", "ivfflat"]),
    ).fetchone()
    return bool(row[0])


@contextmanager
def searching(connection: Any, effort: Effort) -> Generator[None]:
    """How hard the vectors' index looks, for the length of a block."""
    if effort == NORMAL:
        yield
        return
    with connection.transaction():
        if effort.exact:
            connection.execute("SET LOCAL enable_indexscan = off")
        else:
            connection.execute(f"SET LOCAL hnsw.ef_search = {effort.ef}")
        yield


def table_names(connection: Any) -> list[str]:
    """The tables with vectors that are on the search path, but for ragbench's own.

    In the place of LangChain's shared table stand its collections.
    """
    rows = connection.execute(
        "SELECT DISTINCT c.relname::text FROM pg_class c "
        "JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid "
        "WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND a.attnum > 0 AND t.typname = ANY(%s) "
        "AND NOT starts_with(c.relname, 'ragbench_') AND pg_table_is_visible(c.oid)",
        (_VECTORS,),
    )
    found = [row[0] for row in rows.fetchall()]
    shared = _found(connection, "langchain_pg_collection")
    if shared is not None and "langchain_pg_embedding" in found:
        found.remove("langchain_pg_embedding")
        found += [row[0] for row in connection.execute(f"SELECT name FROM {shared}").fetchall()]
    return found


def _found(connection: Any, *parts: str) -> str | None:
    quoted = ".".join('"' + part.replace('"', '""') + '"' for part in parts)
    found: str | None = connection.execute("SELECT to_regclass(%s)::text", (quoted,)).fetchone()[0]
    return found


def _columns(connection: Any, sql: str) -> tuple[SqlColumn, ...]:
    rows = connection.execute(
        "SELECT a.attname::text, t.typname::text, a.atttypmod FROM pg_attribute a "
        "JOIN pg_type t ON t.oid = a.atttypid "
        "WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        (sql,),
    ).fetchall()
    return tuple(
        SqlColumn(name=name, kind=kind, dimension=size if kind in _VECTORS and size > 0 else None)
        for name, kind, size in rows
    )
