"""Filters in PostgreSQL's terms, over the plain columns that ragbench writes.

Values are compared in ``metadata`` (JSONB). PostgreSQL has no statistics of what JSON contains, so
the fields that have an index of their own (`ragbench.stores.pgvector_indexes`) are compared by what
that index holds: a text that says the kind and the value, or a number. Lists are all one value
there, and looked into beside it. Other fields are compared by containment, which the index of all
metadata knows. A field that no path of keys leads to is in ``fields``, a date's milliseconds are in
``dates`` (`ragbench.stores.plain`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ragbench.core.filters import (
    And,
    Equals,
    Exists,
    Filter,
    In,
    Not,
    Or,
    Prefix,
    Range,
    Scalar,
    number,
)
from ragbench.stores.plain import field_key, plain_text, straight_path

_Leaf: TypeAlias = Equals | In | Exists | Prefix | Range
_SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_EXACT = 2.0**53
"""Numbers below it are the same whole numbers as decimals and as floats."""
_KEPT = 500
"""Characters of a text that its field's index holds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """A part of a statement and the values of its placeholders."""

    sql: str
    values: tuple[Any, ...] = ()


IsIndexed: TypeAlias = Callable[[str], bool]
"""Whether an expression of a table has an index of its own."""


def condition(filters: Filter, is_indexed: IsIndexed, *, denied: bool = False) -> Condition:
    if isinstance(filters, (And, Or)):
        word = " AND " if isinstance(filters, And) else " OR "
        parts = (condition(part, is_indexed, denied=denied) for part in filters.filters)
        return _joined(parts, word)
    if isinstance(filters, Not):
        inner = condition(filters.filter, is_indexed, denied=True)
        return Condition(sql=f"(NOT {inner.sql})", values=inner.values)
    name = plain_text(filters.field)
    if isinstance(filters, Range) and filters.of_dates:
        return _range(date_expression(name), filters, denied=denied)
    if name == "document_id":
        return _document(filters, denied=denied)
    path = straight_path(name)
    if path is not None and len(path) == 1:
        by_value = _indexed(filters, path, is_indexed, denied=denied)
        return by_value or _holds(filters, "metadata", path, denied=denied)
    key = field_key(name)
    spelled = _spelled(_holds(filters, "fields", (key,), denied=denied))
    if path is None:
        return spelled
    straight = _holds(filters, "metadata", path, denied=denied)
    return _joined([_both(straight, _not_spelled(key)), spelled], " OR ")


def number_expression(path: Sequence[str], column: str = "metadata") -> str:
    """The number at a path, NaN for a list, else null. Indexes are made of this very text."""
    value = _value(column, path)
    text = _value(column, path, as_text=True)
    return (
        f"(CASE jsonb_typeof({value}) WHEN 'number' THEN ({text})::float8 "
        "WHEN 'array' THEN 'NaN'::float8 END)"
    )


def value_expression(name: str) -> str:
    """A field's text behind an ``s``, ``true``, ``false``, or ``a`` for a list; else null.

    Of a text the first 500 characters: an index takes no longer ones. Indexes are made of this
    very text.
    """
    value, text = _value("metadata", (name,)), _value("metadata", (name,), as_text=True)
    return (
        f"((CASE jsonb_typeof({value}) WHEN 'string' THEN 's' || left({text}, {_KEPT}) "
        f"WHEN 'boolean' THEN {text} WHEN 'array' THEN 'a' END) COLLATE \"C\")"
    )


def date_expression(name: str) -> str:
    """A field's date in milliseconds; null where there is none. Indexes are made of this text."""
    return f"((dates->>{quoted_text(field_key(name))})::float8)"


def quoted_text(text: str) -> str:
    """A text as a literal, in a statement with placeholders."""
    return "'" + text.replace("'", "''").replace("%", "%%") + "'"


def _joined(parts: Iterable[Condition], word: str) -> Condition:
    listed = list(parts)
    return Condition(
        sql=f"({word.join(part.sql for part in listed)})",
        values=tuple(value for part in listed for value in part.values),
    )


def _both(one: Condition, other: Condition) -> Condition:
    return _joined([one, other], " AND ")


def _indexed(
    filters: _Leaf, path: Sequence[str], is_indexed: IsIndexed, *, denied: bool
) -> Condition | None:
    if isinstance(filters, Exists | Range):
        return None  # the one looks at every row, the other is what it is with an index
    value, number_ = value_expression(path[0]), number_expression(path)
    if isinstance(filters, Prefix):
        if not is_indexed(value):
            return None
        found = _indexed_prefix(value, path, plain_text(filters.prefix))
    else:
        values = filters.values if isinstance(filters, In) else (filters.value,)
        texts = [one for one in values if isinstance(one, str | bool)]
        numbers = [one for one in values if not isinstance(one, str | bool)]
        if (texts and not is_indexed(value)) or (numbers and not is_indexed(number_)):
            return None
        parts = [_indexed_texts(value, path, texts)] if texts else []
        parts += [_indexed_numbers(number_, path, numbers)] if numbers else []
        found = _joined(parts, " OR ")
    # What is missing is null. The bare form uses the index.
    return Condition(sql=f"coalesce({found.sql}, false)", values=found.values) if denied else found


def _indexed_texts(expression: str, path: Sequence[str], values: Sequence[str | bool]) -> Condition:
    texts = [str(one).lower() if isinstance(one, bool) else plain_text(one) for one in values]
    keys = [
        text if isinstance(one, bool) else f"s{text[:_KEPT]}"
        for one, text in zip(values, texts, strict=True)
    ]
    own = Condition(sql=f"{expression} = ANY(%s)", values=([*keys, "a"],))
    whole: tuple[Condition, ...] = ()
    if any(len(text) >= _KEPT for text in texts):
        compared = f"{_value('metadata', path, as_text=True)} = ANY(%s)"
        whole = (Condition(sql=compared, values=(texts,)),)
    return _both(own, _single_or_listed(path, values, whole))


def _indexed_numbers(expression: str, path: Sequence[str], values: Sequence[float]) -> Condition:
    wanted = [*map(number, values), math.nan]
    own = Condition(sql=f"{expression} = ANY(%s::float8[])", values=(wanted,))
    return _both(own, _single_or_listed(path, values))


def _indexed_prefix(expression: str, path: Sequence[str], prefix: str) -> Condition:
    # Not starts_with: before PostgreSQL 15 it uses no index.
    pattern = re.sub(r"([\\%_])", r"\\\1", "s" + prefix[:_KEPT]) + "%"
    own = Condition(sql=f"{expression} LIKE %s", values=(pattern,))
    exact = _prefix(_value("metadata", path), prefix)
    if len(prefix) > _KEPT:
        own = _both(own, exact)
    listed = _both(Condition(sql=f"{expression} = 'a'"), exact)
    return _joined([own, listed], " OR ")


def _single_or_listed(
    path: Sequence[str], values: Iterable[Scalar], single: Iterable[Condition] = ()
) -> Condition:
    kind = Condition(sql=f"jsonb_typeof({_value('metadata', path)}) <> 'array'")
    held = (_in_list(path, one) for one in values)
    return _joined([_joined([kind, *single], " AND "), *held], " OR ")


def _in_list(path: Sequence[str], value: Scalar) -> Condition:
    found = None if isinstance(value, str | bool) else number(value)
    if found is not None and abs(found) >= _EXACT:
        return _large(_value("metadata", path), found)
    kept = plain_text(value) if isinstance(value, str) else value
    return Condition(sql="metadata @> %s::jsonb", values=(_nested(path, [kept]),))


def _spelled(held: Condition) -> Condition:
    """A condition on ``fields``; few rows have any, and an index knows which."""
    return Condition(sql=f"(fields IS NOT NULL AND {held.sql})", values=held.values)


def _not_spelled(key: str) -> Condition:
    return Condition(sql="NOT coalesce(jsonb_exists(fields, %s), false)", values=(key,))


def _document(filters: _Leaf, *, denied: bool) -> Condition:
    """A condition on the document; metadata that have such a key of their own come first."""
    own = _spelled(_holds(filters, "fields", ("document_id",), denied=denied))
    if isinstance(filters, Exists):
        column = Condition(sql="document_id IS NOT NULL")
    elif isinstance(filters, Prefix):
        prefix = plain_text(filters.prefix)
        column = Condition(sql="coalesce(starts_with(document_id, %s), false)", values=(prefix,))
    elif isinstance(filters, Range):
        return own
    else:
        values = filters.values if isinstance(filters, In) else (filters.value,)
        texts = [plain_text(value) for value in values if isinstance(value, str)]
        found = "coalesce(document_id = ANY(%s), false)" if denied else "document_id = ANY(%s)"
        column = Condition(sql=found, values=(texts,))
    return _joined([_both(column, _not_spelled("document_id")), own], " OR ")


def _holds(filters: _Leaf, column: str, path: Sequence[str], *, denied: bool) -> Condition:
    """What must hold of the value at a path. Never null, but for a range that is not denied."""
    value = _value(column, path)
    if isinstance(filters, Range):
        return _range(number_expression(path, column), filters, denied=denied)
    if isinstance(filters, Exists):
        return Condition(sql=f"({value} IS NOT NULL AND {value} <> 'null'::jsonb)")
    if isinstance(filters, Prefix):
        return _prefix(value, plain_text(filters.prefix))
    values = filters.values if isinstance(filters, In) else (filters.value,)
    return _joined((_equal(column, path, one) for one in values), " OR ")


def _equal(column: str, path: Sequence[str], value: Scalar) -> Condition:
    found = None if isinstance(value, (str, bool)) else number(value)
    if found is not None and abs(found) >= _EXACT:
        # As decimals, and so in containment, two numbers differ that are one float.
        return _large(_value(column, path), found)
    kept = plain_text(value) if isinstance(value, str) else value
    wanted = (_nested(path, kept), _nested(path, [kept]))
    sql = f"({column} @> %s::jsonb OR {column} @> %s::jsonb)"
    if column != "metadata":
        sql = f"coalesce({sql}, false)"
    return Condition(sql=sql, values=wanted)


def _large(value: str, wanted: float) -> Condition:
    sql = (
        f"EXISTS (SELECT 1 FROM {_items(value)} item WHERE jsonb_typeof(item) = 'number' "
        "AND (item #>> '{}')::float8 = %s::float8)"
    )
    return Condition(sql=sql, values=(wanted,))


def _nested(path: Sequence[str], value: object) -> str:
    for key in reversed(path):
        value = {key: value}
    return json.dumps(value, ensure_ascii=False)


def _prefix(value: str, prefix: str) -> Condition:
    sql = (
        f"(CASE jsonb_typeof({value}) WHEN 'string' THEN starts_with({value} #>> '{{}}', %s) "
        f"WHEN 'array' THEN EXISTS (SELECT 1 FROM {_items(value)} item "
        "WHERE jsonb_typeof(item) = 'string' AND starts_with(item #>> '{}', %s)) ELSE false END)"
    )
    return Condition(sql=sql, values=(prefix, prefix))


def _range(expression: str, filters: Range, *, denied: bool) -> Condition:
    limits = filters.limits()
    tests = " AND ".join(f"{expression} {_SIGNS[word]} %s::float8" for word in limits)
    if not limits.keys() & {"lt", "lte"}:
        tests += f" AND {expression} <= 'Infinity'::float8"  # NaN, a list, is greater than all
    # What is missing is null, and so is a comparison with it. The bare form uses an index.
    sql = f"coalesce({tests}, false)" if denied else f"({tests})"
    return Condition(sql=sql, values=tuple(limits.values()))


def _items(value: str) -> str:
    """A value's items: those of a list, else itself."""
    listed = f"CASE jsonb_typeof({value}) WHEN 'array' THEN {value} ELSE jsonb_build_array({value})"
    return f"jsonb_array_elements({listed} END)"


def _value(column: str, path: Sequence[str], *, as_text: bool = False) -> str:
    arrow, last = "->", "->>" if as_text else "->"
    signs = [arrow] * (len(path) - 1) + [last]
    steps = (f"{sign}{quoted_text(key)}" for sign, key in zip(signs, path, strict=True))
    return f"({column}{''.join(steps)})"
