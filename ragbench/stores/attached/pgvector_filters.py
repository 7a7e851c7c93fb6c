"""Filters and words in PostgreSQL's terms, over columns that ragbench did not make."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ragbench.core.filters import And, Exists, Filter, In, Not, Or, Prefix, Range, Scalar
from ragbench.errors import ConfigError
from ragbench.stores.pgvector_filters import Condition
from ragbench.stores.pgvector_sql import SqlColumn

_SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_NUMBERS = ("int2", "int4", "int8", "float4", "float8", "numeric")
_TEXTS = ("text", "varchar", "bpchar", "uuid")
_DATES = ("date", "timestamp", "timestamptz")
_JSON = ("json", "jsonb")
_DAY = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?)?$"
"""Texts that are cast to dates; others in JSON, such as a bare year, lie within no range."""
_NEVER = Condition(sql="false", values=())


def sql_condition(filters: Filter, columns: Sequence[SqlColumn]) -> Condition:
    """A folded filter as a condition that is never null.

    Plain columns are compared as they are and JSON columns by containment, so that the indexes
    that applications make for such filters are used.
    """
    if isinstance(filters, And | Or):
        parts = [sql_condition(part, columns) for part in filters.filters]
        word = " AND " if isinstance(filters, And) else " OR "
        values = tuple(value for part in parts for value in part.values)
        return Condition(sql=f"({word.join(part.sql for part in parts)})", values=values)
    if isinstance(filters, Not):
        inner = sql_condition(filters.filter, columns)
        # What is missing is null, and its denial would be, too.
        return Condition(sql=f"(NOT coalesce({inner.sql}, false))", values=inner.values)
    column, path = _column(filters.field, columns)
    if isinstance(filters, Range):
        return _range(filters, column, path)
    if isinstance(filters, Exists):
        return _exists(column, path)
    if isinstance(filters, Prefix):
        return _prefix(column, path, filters.prefix)
    wanted = filters.values if isinstance(filters, In) else (filters.value,)
    equal = [_equal(column, path, value) for value in wanted]
    return Condition(
        sql=f"({' OR '.join(one.sql for one in equal)})",
        values=tuple(value for one in equal for value in one.values),
    )


def native_condition(given: object) -> Condition:
    """What the user says in SQL: the part after WHERE, without placeholders."""
    if not isinstance(given, str) or not given.strip():
        raise ConfigError(
            'the native filter of PostgreSQL is an SQL condition, such as "year >= 2023", '
            f"found {given!r}"
        )
    return Condition(sql=f"({given.replace('%', '%%')})", values=())


def quoted(name: str) -> str:
    """A column's name in a statement with placeholders: a percent sign is none."""
    return ('"' + name.replace('"', '""') + '"').replace("%", "%%")


def _column(field: str, columns: Sequence[SqlColumn]) -> tuple[SqlColumn, list[str]]:
    known = {one.name: one for one in columns}
    if field in known:
        return known[field], []
    name, _, rest = field.partition(".")
    if rest and name in known and known[name].kind in _JSON:
        return known[name], rest.split(".")
    raise ConfigError(
        f"filter: the table has no column '{field}'; there are: {', '.join(sorted(known))}"
    )


def _exists(column: SqlColumn, path: list[str]) -> Condition:
    name = quoted(column.name)
    if column.kind not in _JSON:
        return Condition(sql=f"({name} IS NOT NULL)", values=())
    # Null in JSON reads as a null, too.
    return Condition(sql=f"({name}::jsonb #>> %s IS NOT NULL)", values=(list(path),))


def _prefix(column: SqlColumn, path: list[str], prefix: str) -> Condition:
    name = quoted(column.name)
    if column.kind in _TEXTS:
        return Condition(sql=f"starts_with({name}::text, %s)", values=(prefix,))
    # Of JSON a text, or an item of a list; of a column of texts an item.
    value = f"({name}::jsonb #> %s)" if column.kind in _JSON else f"to_jsonb({name})"
    given = (list(path),) if column.kind in _JSON else ()
    listed = f"CASE jsonb_typeof({value}) WHEN 'array' THEN {value}"
    items = f"jsonb_array_elements({listed} ELSE jsonb_build_array({value}) END)"
    sql = (
        f"EXISTS (SELECT 1 FROM {items} item WHERE jsonb_typeof(item) = 'string' "
        "AND starts_with(item #>> '{}', %s))"
    )
    return Condition(sql=sql, values=(*given, *given, *given, prefix))


def _equal(column: SqlColumn, path: list[str], value: Scalar) -> Condition:
    name = quoted(column.name)
    if column.kind in _JSON:
        # GIN indexes know containment. Of a list in the metadata one item has to be equal.
        forms = [json.dumps(_within(path, one)) for one in (value, [value])]
        sql = f"({name}::jsonb @> %s::jsonb OR {name}::jsonb @> %s::jsonb)"
        return Condition(sql=sql, values=tuple(forms))
    if column.kind == "bool":
        same = isinstance(value, bool)
    elif column.kind in _NUMBERS:
        same = isinstance(value, (int, float)) and not isinstance(value, bool)
    elif column.kind in _TEXTS:
        same = isinstance(value, str)
    else:
        return Condition(sql=f"to_jsonb({name}) @> %s::jsonb", values=(json.dumps(value),))
    # A uuid is compared as what it reads: a text that is none would be an error.
    shown = f"{name}::text" if column.kind == "uuid" else name
    return Condition(sql=f"{shown} = %s", values=(value,)) if same else _NEVER


def _within(path: Sequence[str], value: Any) -> Any:
    for name in reversed(path):
        value = {name: value}
    return value


def _range(filters: Range, column: SqlColumn, path: list[str]) -> Condition:
    bounds = filters.bounds()
    if column.kind in _JSON:
        value = f"({quoted(column.name)}::jsonb #> %s)"
        found = (list(path),)
        kind, cast = ("string", "timestamptz") if filters.of_dates else ("number", "numeric")
        told = f"jsonb_typeof({value}) = '{kind}'"
        if filters.of_dates:
            told += f" AND {value} #>> '{{}}' ~ %s"
        tests = " AND ".join(
            f"({value} #>> '{{}}')::{cast} {_SIGNS[word]} %s::{cast}" for word in bounds
        )
        guard = (*found, *found, _DAY) if filters.of_dates else found
        values = [part for bound in bounds.values() for part in (*found, _day(bound))]
        return Condition(
            sql=f"(CASE WHEN {told} THEN {tests} ELSE false END)", values=(*guard, *values)
        )
    wanted = _DATES if filters.of_dates else _NUMBERS
    if column.kind not in wanted:
        return _NEVER
    suffix = "::timestamptz" if filters.of_dates else ""
    tests = " AND ".join(f"{quoted(column.name)} {_SIGNS[word]} %s{suffix}" for word in bounds)
    return Condition(sql=f"({tests})", values=tuple(_day(bound) for bound in bounds.values()))


def _day(bound: object) -> object:
    """A date that PostgreSQL reads: a year or a month is its first day."""
    if not isinstance(bound, str):
        return bound
    return bound + {4: "-01-01", 7: "-01"}.get(len(bound), "") if re.match(r"\d", bound) else bound
