"""Indexes of single fields of the metadata, in PostgreSQL.

They are made when a collection is complete, of the fields that it has then: what an index holds
PostgreSQL also keeps statistics of, and without those it guesses how many rows a filter passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from ragbench.stores.pgvector_filters import date_expression, number_expression, value_expression
from ragbench.stores.plain import field_key, straight_path

_MOST = 16
"""Fields that have indexes, the most frequent ones; each makes writing slower."""
_KINDS: dict[str, Callable[[str], str]] = {
    "string": value_expression,
    "boolean": value_expression,
    "number": lambda name: number_expression((name,)),
}


class FieldIndexes:
    """Which fields of one table have an index."""

    def __init__(self, connection: Any, table: str) -> None:
        self._connection = connection
        self._table = table
        self._names = self._read()

    def __contains__(self, expression: str) -> bool:
        return self._name(expression) in self._names

    def bring_up(self) -> None:
        """Makes the indexes that the fields need, and drops those that they no longer do.

        The table's statistics are brought up to date, and what its index of all metadata has put
        off is done, so that the first searches need not.
        """
        execute = self._connection.execute
        wanted = {self._name(expression): expression for expression in self._wanted()}
        for name in sorted(self._names - wanted.keys()):
            execute(f"DROP INDEX IF EXISTS {name}")
        for name, expression in wanted.items():
            made = expression.replace("%%", "%")
            execute(f"CREATE INDEX IF NOT EXISTS {name} ON {self._table} ({made})")
        execute(
            "SELECT gin_clean_pending_list(i.indexrelid) FROM pg_index i "
            "JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam "
            "WHERE i.indrelid = %s::regclass AND a.amname = 'gin'",
            (self._table,),
        )
        execute(f"ANALYZE {self._table}")
        self._names = self._read()

    def _wanted(self) -> list[str]:
        """The expressions to index: of the fields that most rows have, and not as a list."""
        counted = self._connection.execute(
            "SELECT key, kind, count(*) FROM ("
            f"SELECT key, jsonb_typeof(value) AS kind FROM {self._table}, jsonb_each(metadata) "
            f"UNION ALL SELECT key, 'date' FROM {self._table}, jsonb_object_keys(dates) AS key"
            ") AS found WHERE kind <> 'null' GROUP BY key, kind"
        ).fetchall()
        fields: dict[str, Counter[str]] = {}
        for name, kind, count in counted:
            fields.setdefault(name, Counter())[kind] = count
        expressions = {name: _expressions(name, kinds) for name, kinds in fields.items()}
        useful = sorted(
            (name for name, found in expressions.items() if found),
            key=lambda name: (-(fields[name].total() - fields[name]["date"]), name),
        )
        return [one for name in useful[:_MOST] for one in expressions[name]]

    def _name(self, expression: str) -> str:
        said = blake2b(f"{self._table}\0{expression}".encode(), digest_size=12).hexdigest()
        return f"ragbench_{said}"

    def _read(self) -> set[str]:
        rows = self._connection.execute(
            "SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
            "WHERE i.indrelid = %s::regclass AND c.relname ~ '^ragbench_[0-9a-f]{24}$' "
            "AND i.indisvalid",
            (self._table,),
        )
        return {row[0] for row in rows.fetchall()}


def _expressions(name: str, kinds: Counter[str]) -> list[str]:
    """What is indexed of a field, by how many rows have which kind of value in it."""
    found: dict[str, None] = {}
    if kinds["date"] and field_key(name) == name:
        found[date_expression(name)] = None
    mostly_lists = 2 * kinds["array"] > kinds.total() - kinds["date"]
    if straight_path(name) == (name,) and name != "document_id" and not mostly_lists:
        found.update((of(name), None) for kind, of in _KINDS.items() if kinds[kind])
    return list(found)
