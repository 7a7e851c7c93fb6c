"""Filters in PostgreSQL's terms: over the plain columns that ragbench writes, and over any others.

JSON is compared by containment, so that the indexes that applications make for such filters are
used, and those of ragbench's own. There a field that no path of keys leads to is in ``fields``, a
date's milliseconds are in ``dates`` (`ragbench.search.stores.record`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from ragbench.core.filters import Dialect, Filter, Range, Scalar, number
from ragbench.core.record import Record
from ragbench.errors import ConfigError
from ragbench.search.stores.base import checked_native
from ragbench.search.stores.record import field_key, straight_path

_SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_EXACT = 2.0**53
"""Numbers below it are the same whole numbers as decimals and as floats."""
_NUMBERS = ("int2", "int4", "int8", "float4", "float8", "numeric")
_TEXTS = ("text", "varchar", "bpchar", "uuid")
_DATES = ("date", "timestamp", "timestamptz")
_JSON = ("json", "jsonb")
_DAY = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?)?$"
"""Texts that are cast to dates; others in JSON, such as a bare year, lie within no range."""


VECTORS = ["vector", "halfvec"]


class SqlColumn(Record):
    name: str
    kind: str
    """Its type's name, such as ``jsonb``."""
    dimension: int | None
    """Of a column of vectors its length, where the column has one."""

    @property
    def is_vector(self) -> bool:
        return self.kind in VECTORS


class Sql(Record):
    sql: str
    values: tuple[Any, ...] = ()


EVERYTHING = Sql(sql="true")
_NOTHING = Sql(sql="false")


def joined(parts: Iterable[Sql], word: str = " AND ") -> Sql:
    every = list(parts)
    return Sql(
        sql=f"({word.join(part.sql for part in every)})",
        values=tuple(value for part in every for value in part.values),
    )


def _either(parts: Iterable[Sql]) -> Sql:
    return joined(parts, " OR ")


def _denied(part: Sql) -> Sql:
    # What is missing is null, and its denial would be, too.
    return Sql(sql=f"(NOT coalesce({part.sql}, false))", values=part.values)


_SQL = partial(Dialect[Sql], both=joined, either=_either, denied=_denied)


def column_condition(filters: Filter, columns: Sequence[SqlColumn]) -> Sql:
    """A folded filter over the columns of a table that ragbench did not make."""

    def at(field: str) -> _Column:
        return _column(field, columns)

    return _SQL(
        equal=lambda field, values: _either(at(field).equal(value) for value in values),
        within=lambda wanted: at(wanted.field).within(wanted),
        exists=lambda field: at(field).exists(),
        prefix=lambda field, prefix: at(field).prefix(prefix),
    )(filters)


def native_condition(given: object) -> Sql:
    """What the user says in SQL: the part after WHERE, without placeholders."""
    sql = checked_native(given, str, "PostgreSQL", 'an SQL condition, such as "year >= 2023"')
    return Sql(sql=f"({sql.replace('%', '%%')})")


def quoted(name: str) -> str:
    """A column's name in a statement with placeholders: a percent sign is none."""
    return ('"' + name.replace('"', '""') + '"').replace("%", "%%")


class _Json(Record, kw_only=False):
    """The value at a path of keys in a column of JSON, or in what is made JSON."""

    column: str
    path: Sequence[str] = ()

    @property
    def value(self) -> str:
        return f"({self.column}{''.join(f'->{_literal(key)}' for key in self.path)})"

    def equal(self, value: Scalar) -> Sql:
        found = None if isinstance(value, (str, bool)) else number(value)
        if found is not None and abs(found) >= _EXACT:
            # As decimals, and so in containment, two numbers differ that are one float.
            return self._item("number", "(item #>> '{}')::float8 = %s::float8", found)
        # GIN indexes know containment. Of a list one item has to be equal.
        wanted = tuple(self._nested(one) for one in (value, [value]))
        contained = f"{self.column} @> %s::jsonb"
        return Sql(sql=f"({contained} OR {contained})", values=wanted)

    def exists(self) -> Sql:
        return Sql(sql=f"({self.value} IS NOT NULL AND {self.value} <> 'null'::jsonb)")

    def prefix(self, prefix: str) -> Sql:
        return self._item("string", "starts_with(item #>> '{}', %s)", prefix)

    def within(self, wanted: Range) -> Sql:
        text, kind = f"({self.value} #>> '{{}}')", f"jsonb_typeof({self.value})"
        if not wanted.of_dates:
            number_ = f"(CASE {kind} WHEN 'number' THEN {text}::float8 END)"
            return _compared(number_, wanted.limits(), "::float8")
        day = f"(CASE WHEN {kind} = 'string' AND {text} ~ %s THEN {text}::timestamptz END)"
        tests = _compared(day, _days(wanted), "::timestamptz")
        values = tuple(part for bound in tests.values for part in (_DAY, bound))
        return Sql(sql=tests.sql, values=values)

    def _item(self, kind: str, test: str, wanted: object) -> Sql:
        items = f"CASE jsonb_typeof({self.value}) WHEN 'array' THEN {self.value}"
        items = f"jsonb_array_elements({items} ELSE jsonb_build_array({self.value}) END)"
        sql = f"EXISTS (SELECT 1 FROM {items} item WHERE jsonb_typeof(item) = '{kind}' AND {test})"
        return Sql(sql=sql, values=(wanted,))

    def _nested(self, value: object) -> str:
        for key in reversed(self.path):
            value = {key: value}
        return json.dumps(value, ensure_ascii=False)


class _Plain(Record, kw_only=False):
    """A column whose values are numbers, texts, flags or dates."""

    name: str
    kind: str

    def equal(self, value: Scalar) -> Sql:
        kinds = {"bool": ("bool",), "str": _TEXTS}
        # A uuid is compared as what it reads: a text that is none would be an error.
        shown = f"{self.name}::text" if self.kind == "uuid" else self.name
        fits = self.kind in kinds.get(type(value).__name__, _NUMBERS)
        return Sql(sql=f"{shown} = %s", values=(value,)) if fits else _NOTHING

    def exists(self) -> Sql:
        return Sql(sql=f"({self.name} IS NOT NULL)")

    def prefix(self, prefix: str) -> Sql:
        test = Sql(sql=f"starts_with({self.name}::text, %s)", values=(prefix,))
        return test if self.kind in _TEXTS else _NOTHING

    def within(self, wanted: Range) -> Sql:
        if self.kind not in (_DATES if wanted.of_dates else _NUMBERS):
            return _NOTHING
        if wanted.of_dates:
            return _compared(self.name, _days(wanted), "::timestamptz")
        return _compared(self.name, wanted.bounds())


class _Other(_Json, kw_only=False):
    """A column of another type: a date is compared as one, the rest as JSON."""

    name: str = ""
    kind: str = ""

    def within(self, wanted: Range) -> Sql:
        return _Plain(self.name, self.kind).within(wanted)

    def exists(self) -> Sql:
        return _Plain(self.name, self.kind).exists()


_Column = _Json | _Plain


def _column(field: str, columns: Sequence[SqlColumn]) -> _Column:
    known = {one.name: one for one in columns}
    name, _, rest = field.partition(".")
    if field in known:
        name, rest = field, ""
    found = known.get(name)
    if found is None or (rest and found.kind not in _JSON):
        raise ConfigError(
            f"filter: there is no column '{field}'; there are: {', '.join(sorted(known))}"
        )
    if found.kind in _JSON:
        return _Json(f"{quoted(name)}::jsonb", rest.split(".") if rest else ())
    if found.kind in (*_NUMBERS, *_TEXTS, "bool"):
        return _Plain(quoted(name), found.kind)
    return _Other(f"to_jsonb({quoted(name)})", (), quoted(name), found.kind)


def _own(field: str, test: Callable[[_Json], Sql], document: Sql | None) -> Sql:
    """A condition on a field: where a path of keys leads to it, and where it is spelled out."""
    path, key = straight_path(field), field_key(field)
    spelled = test(_Json("fields", (key,)))
    # Few rows have any, and an index knows which.
    spelled = Sql(sql=f"(fields IS NOT NULL AND {spelled.sql})", values=spelled.values)
    other = Sql(sql="NOT coalesce(jsonb_exists(fields, %s), false)", values=(key,))
    if field == "document_id":  # metadata that have such a key of their own come first
        return spelled if document is None else _either([joined([document, other]), spelled])
    if path is None:
        return spelled
    straight = test(_Json("metadata", path))
    return straight if len(path) == 1 else _either([joined([straight, other]), spelled])


def _own_equal(field: str, values: Sequence[Scalar]) -> Sql:
    texts = [one for one in values if isinstance(one, str)]
    document = Sql(sql="document_id = ANY(%s)", values=(texts,))
    return _own(field, lambda held: _either(held.equal(one) for one in values), document)


def _own_range(wanted: Range) -> Sql:
    if not wanted.of_dates:
        return _own(wanted.field, lambda held: held.within(wanted), None)
    moment = f"((dates->>{_literal(field_key(wanted.field))})::float8)"
    return _compared(moment, wanted.limits(), "::float8")


own_condition: Dialect[Sql] = _SQL(
    equal=_own_equal,
    within=_own_range,
    exists=lambda field: _own(field, _Json.exists, Sql(sql="document_id IS NOT NULL")),
    prefix=lambda field, prefix: _own(
        field,
        lambda held: held.prefix(prefix),
        Sql(sql="starts_with(document_id, %s)", values=(prefix,)),
    ),
)
"""A folded filter over the columns that ragbench writes."""


def _compared(value: str, bounds: dict[str, Any], cast: str = "") -> Sql:
    tests = (f"{value} {_SIGNS[word]} %s{cast}" for word in bounds)
    return Sql(sql=f"({' AND '.join(tests)})", values=tuple(bounds.values()))


def _days(wanted: Range) -> dict[str, Any]:
    """Dates that PostgreSQL reads: a year or a month is its first day."""
    texts = {word: str(bound) for word, bound in wanted.bounds().items()}
    return {word: day + {4: "-01-01", 7: "-01"}.get(len(day), "") for word, day in texts.items()}


def _literal(text: str) -> str:
    """A text as a literal, in a statement with placeholders."""
    return "'" + text.replace("'", "''").replace("%", "%%") + "'"
