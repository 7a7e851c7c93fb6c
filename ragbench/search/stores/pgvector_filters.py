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
"""SQL's signs of comparison, by the words of a filter's range."""
_EXACT = 2.0**53
"""Numbers below it are the same whole numbers as decimals and as floats."""
# Types of columns, by what their values are compared with.
_NUMBERS = ("int2", "int4", "int8", "float4", "float8", "numeric")
_TEXTS = ("text", "varchar", "bpchar", "uuid")
_DATES = ("date", "timestamp", "timestamptz")
_JSON = ("json", "jsonb")
_DAY = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?)?$"
"""Texts that are cast to dates; others in JSON, such as a bare year, lie within no range."""


VECTORS = ["vector", "halfvec"]
"""Types of columns that are searched by vectors."""


class SqlColumn(Record):
    """A column of a table, as the database's catalogue describes it."""

    name: str
    kind: str
    """Its type's name, such as ``jsonb``."""
    dimension: int | None
    """Of a column of vectors its length, where the column has one."""

    @property
    def is_vector(self) -> bool:
        """Whether the column can be searched by vectors.

        A sparse vector, such as ``sparsevec``, cannot. A collection has to have such a column.
        """
        return self.kind in VECTORS


class Sql(Record):
    """A condition of SQL and the values of its placeholders, in their order.

    Values of a filter are never written into the text. A percent sign in it is written twice.
    """

    sql: str
    values: tuple[Any, ...] = ()


EVERYTHING = Sql(sql="true")
_NOTHING = Sql(sql="false")


def joined(parts: Iterable[Sql], word: str = " AND ") -> Sql:
    """Conditions of SQL as one, in parentheses, with their values in the order of the placeholders.

    Every filter is put together with it: parts inside of others keep their parentheses.

    Args:
        word: between the conditions; all have to hold by default.
    """
    texts: list[str] = []
    values: list[Any] = []
    for part in parts:
        texts.append(part.sql)
        values += part.values
    return Sql(sql=f"({word.join(texts)})", values=tuple(values))


def _any_holds(parts: Iterable[Sql]) -> Sql:
    """A condition of SQL that holds where any of the conditions does.

    Filters say so by ``or`` and by lists of values.
    """
    return joined(parts, " OR ")


def _does_not_hold(part: Sql) -> Sql:
    """A condition of SQL that holds where this one is false or unknown.

    In SQL a missing field is null, and NOT null is null: the row would be lost. ragbench's filters
    count a row without the field as one that is not equal.
    """
    return Sql(sql=f"(NOT coalesce({part.sql}, false))", values=part.values)


_SQL = partial(Dialect[Sql], both=joined, either=_any_holds, denied=_does_not_hold)
"""What tables of both kinds have in common; how a field is tested differs."""


def column_condition(filters: Filter, columns: Sequence[SqlColumn]) -> Sql:
    """A folded filter as SQL over the columns of a table that another program made.

    The type of a column decides how it is tested, as PostgreSQL refuses what it cannot compare.

    Args:
        filters: folded (`ragbench.core.filters.folded`).
        columns: those that a filter can name.

    Raises:
        ConfigError: the filter names a column that the table has not.
    """
    dialect = _SQL(
        equal=lambda field, values: _equals_any(_tests_of_field(field, columns), values),
        within=lambda range_: _tests_of_field(range_.field, columns).within(range_),
        exists=lambda field: _tests_of_field(field, columns).exists(),
        prefix=lambda field, prefix: _tests_of_field(field, columns).prefix(prefix),
    )
    return dialect(filters)


def native_condition(text: object) -> Sql:
    """The user's own SQL as a condition: the part after WHERE, without placeholders.

    The connection of such a search may only read.

    Raises:
        ConfigError: the condition is no text, or empty.
    """
    sql = checked_native(text, str, "PostgreSQL", 'an SQL condition, such as "year >= 2023"')
    return Sql(sql=f"({sql.replace('%', '%%')})")


def quoted(name: str) -> str:
    """A column's name, quoted, for a statement with placeholders: its percent signs are doubled.

    A name from the user, or the database, can so never change the statement.
    """
    doubled_quotes = name.replace('"', '""')
    return f'"{doubled_quotes}"'.replace("%", "%%")


class _Json(Record, kw_only=False):
    """The value at a path of keys in a column of JSON, or in what is made JSON."""

    column: str
    path: Sequence[str] = ()

    @property
    def value(self) -> str:
        """The SQL that takes the value out of the JSON column, as JSON.

        Null where a key is missing. ``->`` leads to a key without making a text of its value. Tests
        of ranges, prefixes and existence begin with it.
        """
        steps = "".join(f"->{_sql_literal(key)}" for key in self.path)
        return f"({self.column}{steps})"

    def equal(self, value: Scalar) -> Sql:
        """The JSON value, or an item of the list that it is, equals the value of a filter.

        Containment is used wherever it can be: indexes know it, and stored tables have one for it.
        """
        if not isinstance(value, (str, bool)):
            as_float = number(value)
            if as_float is not None and abs(as_float) >= _EXACT:
                # Containment compares decimals: two of this size may differ and be the same float.
                same_float = "(item #>> '{}')::float8 = %s::float8"
                return self._any_item("number", same_float, as_float)
        # GIN indexes know containment. Of a list one item has to be equal.
        contains = f"{self.column} @> %s::jsonb"
        by_itself = self._nested(value)
        in_list = self._nested([value])
        return Sql(sql=f"({contains} OR {contains})", values=(by_itself, in_list))

    def exists(self) -> Sql:
        """The path leads to a JSON value that is not null; to SQL the null of JSON is a value.

        A filter by ``exists`` becomes this.
        """
        return Sql(sql=f"({self.value} IS NOT NULL AND {self.value} <> 'null'::jsonb)")

    def prefix(self, prefix: str) -> Sql:
        """The JSON value, or an item of the list that it is, is a text with this beginning.

        Every character counts as it is, unlike in LIKE.
        """
        return self._any_item("string", "starts_with(item #>> '{}', %s)", prefix)

    def within(self, range_: Range) -> Sql:
        """The JSON value is a number, or a text that reads as a date, between the bounds.

        Each CASE keeps PostgreSQL from casting another value, which would be an error. The
        placeholders' order is that of the values: a comparison has the pattern of dates before its
        bound.
        """
        text = f"({self.value} #>> '{{}}')"
        json_type = f"jsonb_typeof({self.value})"
        if not range_.of_dates:
            as_number = f"(CASE {json_type} WHEN 'number' THEN {text}::float8 END)"
            return _within_bounds(as_number, range_.limits(), "::float8")
        as_date = f"(CASE WHEN {json_type} = 'string' AND {text} ~ %s THEN {text}::timestamptz END)"
        comparison = _within_bounds(as_date, _date_bounds(range_), "::timestamptz")
        values: list[Any] = []
        for bound in comparison.values:  # each comparison holds the pattern before its bound
            values += (_DAY, bound)
        return Sql(sql=comparison.sql, values=tuple(values))

    def _any_item(self, json_type: str, test: str, value: object) -> Sql:
        """The JSON value, or an item of the list that it is, has a type and passes a test.

        ragbench's filters take a list for each of its items.

        Args:
            json_type: as ``jsonb_typeof`` calls it.
            test: SQL over ``item``, with one placeholder.
            value: of the placeholder.
        """
        # A value that is no list is made one of one item, so that one query serves both.
        items = (
            f"jsonb_array_elements(CASE jsonb_typeof({self.value}) WHEN 'array' THEN {self.value} "
            f"ELSE jsonb_build_array({self.value}) END)"
        )
        sql = (
            f"EXISTS (SELECT 1 FROM {items} item "
            f"WHERE jsonb_typeof(item) = '{json_type}' AND {test})"
        )
        return Sql(sql=sql, values=(value,))

    def _nested(self, value: object) -> str:
        """JSON that holds this value under the column's path, as containment compares it.

        An index on the whole column can so serve a filter on one key.
        """
        for key in reversed(self.path):
            value = {key: value}
        return json.dumps(value, ensure_ascii=False)


class _Plain(Record, kw_only=False):
    """A column whose values are numbers, texts, flags or dates."""

    name: str
    kind: str

    def equal(self, value: Scalar) -> Sql:
        """The column's value equals that of a filter; never where the two are of different kinds.

        PostgreSQL would raise an error, or cast one of them, which ragbench's filters do not.
        """
        kinds: Sequence[str] = _NUMBERS
        if isinstance(value, bool):
            kinds = ("bool",)
        elif isinstance(value, str):
            kinds = _TEXTS
        if self.kind not in kinds:
            return _NOTHING
        # A uuid is compared as the text that it reads: a text that is none would be an error.
        column = f"{self.name}::text" if self.kind == "uuid" else self.name
        return Sql(sql=f"{column} = %s", values=(value,))

    def exists(self) -> Sql:
        """The column has a value in the row: null is PostgreSQL's word for none.

        A filter by ``exists`` becomes this.
        """
        return Sql(sql=f"({self.name} IS NOT NULL)")

    def prefix(self, prefix: str) -> Sql:
        """The column's text begins with the prefix; never in a column of numbers or dates.

        A filter by ``prefix`` becomes this.
        """
        if self.kind not in _TEXTS:
            return _NOTHING
        return Sql(sql=f"starts_with({self.name}::text, %s)", values=(prefix,))

    def within(self, range_: Range) -> Sql:
        """The column's number or date is between the bounds of a filter's range.

        Never in a column of another kind: PostgreSQL would raise an error.
        """
        kinds = _DATES if range_.of_dates else _NUMBERS
        if self.kind not in kinds:
            return _NOTHING
        if range_.of_dates:
            return _within_bounds(self.name, _date_bounds(range_), "::timestamptz")
        return _within_bounds(self.name, range_.bounds())


class _Other(_Json, kw_only=False):
    """A column of another type, such as an array: a date is compared as one, the rest as JSON."""

    name: str = ""
    kind: str = ""

    def within(self, range_: Range) -> Sql:
        """The column's value, such as a date, is in the range; compared before it is made JSON.

        Made JSON, a date would be a text.
        """
        return _Plain(self.name, self.kind).within(range_)

    def exists(self) -> Sql:
        """The column has a value in the row: it knows null without being made JSON.

        A filter by ``exists`` becomes this.
        """
        return _Plain(self.name, self.kind).exists()


_Column = _Json | _Plain


def _equals_any(column: _Column, values: Sequence[Scalar]) -> Sql:
    """A condition of SQL that a column's value equals one of the values of a filter.

    A filter by ``in`` becomes this.
    """
    return _any_holds(column.equal(value) for value in values)


def _tests_of_field(field: str, columns: Sequence[SqlColumn]) -> _Column:
    """The tests that a filter can make of a field: on a column, or on a path into a column of JSON.

    A column's type decides how it is tested: PostgreSQL refuses what it cannot compare.

    Args:
        field: its name in the filter; dots lead into JSON, where no column has the whole name.

    Raises:
        ConfigError: there is no such column.
    """
    by_name = {column.name: column for column in columns}
    name, _, path = field.partition(".")
    if field in by_name:  # a column whose own name may have dots comes first
        name = field
        path = ""
    column = by_name.get(name)
    if column is None or (path and column.kind not in _JSON):
        raise ConfigError(
            f"filter: there is no column '{field}'; there are: {', '.join(sorted(by_name))}"
        )
    sql = quoted(name)
    if column.kind in _JSON:
        keys: Sequence[str] = ()
        if path:
            keys = path.split(".")
        # The type json knows no containment; jsonb is not changed by the cast, and its indexes
        # serve.
        return _Json(f"{sql}::jsonb", keys)
    if column.kind in (*_NUMBERS, *_TEXTS, "bool"):
        return _Plain(sql, column.kind)
    return _Other(f"to_jsonb({sql})", (), sql, column.kind)


def _at_either_place(field: str, test: Callable[[_Json], Sql], document: Sql | None) -> Sql:
    """A condition on a metadata field of a chunk in a table that ragbench fills.

    A name with dots may mean a path into objects, or a key with dots; ragbench spells the latter
    out in the column ``fields``. Both places are looked at.

    Args:
        field: its name in the filter.
        test: makes the condition for a path into a column.
        document: the same condition on the column with the document's id; None where no id meets
            it.
    """
    key = field_key(field)
    spelled = test(_Json("fields", (key,)))
    # Few rows have any, and an index knows which.
    spelled = Sql(sql=f"(fields IS NOT NULL AND {spelled.sql})", values=spelled.values)
    not_spelled = Sql(sql="NOT coalesce(jsonb_exists(fields, %s), false)", values=(key,))
    if field == "document_id":  # metadata that have such a key of their own come first
        if document is None:
            return spelled
        return _any_holds([joined([document, not_spelled]), spelled])
    path = straight_path(field)
    if path is None:  # no path can be written: the value is spelled out, or not there
        return spelled
    straight = test(_Json("metadata", path))
    # A name without dots is a key of the metadata themselves: the path leads to it.
    if len(path) == 1:
        return straight
    return _any_holds([joined([straight, not_spelled]), spelled])


def _own_equal(field: str, values: Sequence[Scalar]) -> Sql:
    """A field of a chunk in ragbench's own table equals one of the values; ids are texts alone.

    Both places where ragbench may have written the field are looked at.
    """
    texts = [value for value in values if isinstance(value, str)]
    document = Sql(sql="document_id = ANY(%s)", values=(texts,))
    return _at_either_place(field, lambda json_: _equals_any(json_, values), document)


def _own_range(range_: Range) -> Sql:
    """A field of a chunk in ragbench's own table is a number, or a date, in a range.

    Dates are compared by the milliseconds in the column ``dates``: no text has to be cast.
    """
    if not range_.of_dates:
        # A document's id is a text, and lies within no range of numbers.
        return _at_either_place(range_.field, lambda json_: json_.within(range_), None)
    key = _sql_literal(field_key(range_.field))
    milliseconds = f"((dates->>{key})::float8)"
    return _within_bounds(milliseconds, range_.limits(), "::float8")


def _own_exists(field: str) -> Sql:
    """A field of a chunk in ragbench's own table has a value.

    Both places where ragbench may have written the field are looked at.
    """
    return _at_either_place(field, _Json.exists, Sql(sql="document_id IS NOT NULL"))


def _own_prefix(field: str, prefix: str) -> Sql:
    """A field of a chunk in ragbench's own table is a text with this beginning.

    Both places where ragbench may have written the field are looked at.
    """
    document = Sql(sql="starts_with(document_id, %s)", values=(prefix,))
    return _at_either_place(field, lambda json_: json_.prefix(prefix), document)


own_condition: Dialect[Sql] = _SQL(
    equal=_own_equal, within=_own_range, exists=_own_exists, prefix=_own_prefix
)
"""A folded filter over the columns that ragbench writes."""


def _within_bounds(value: str, bounds: dict[str, Any], cast: str = "") -> Sql:
    """A condition of SQL that an expression lies between bounds, one placeholder each.

    The signs of the bounds are SQL's.

    Args:
        value: the expression.
        bounds: by the words of a filter's range: gt, gte, lt, lte.
        cast: after each placeholder, such as ``::float8``.
    """
    comparisons = [f"{value} {_SIGNS[word]} %s{cast}" for word in bounds]
    sql = " AND ".join(comparisons)
    return Sql(sql=f"({sql})", values=tuple(bounds.values()))


def _date_bounds(range_: Range) -> dict[str, Any]:
    """The bounds of a range of dates as PostgreSQL reads them.

    A year or a month is its first day.
    """
    days: dict[str, Any] = {}
    for word, bound in range_.bounds().items():
        text = str(bound)
        # The length tells a year or a month from a day: the filter has checked the form already.
        if len(text) == len("2024"):
            text += "-01-01"
        elif len(text) == len("2024-05"):
            text += "-01"
        days[word] = text
    return days


def _sql_literal(text: str) -> str:
    """A text as a literal of SQL in a statement with placeholders.

    Quotes and percent signs doubled. Paths of keys into JSON are made of these.
    """
    return "'" + text.replace("'", "''").replace("%", "%%") + "'"
