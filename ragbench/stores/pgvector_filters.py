"""Filters in PostgreSQL's terms, over the plain columns that ragbench writes.

Values are compared in ``metadata`` (JSONB): equality by containment, which its index knows, ranges
by the number of a field, which has an index of its own. A field that no path of keys leads to is in
``fields``, a date's milliseconds are in ``dates`` (`ragbench.stores.plain`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
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

__all__ = [
    "Condition",
    "condition",
    "date_expression",
    "number_expression",
    "quoted_text",
]

_Leaf: TypeAlias = Equals | In | Exists | Prefix | Range
_SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_EXACT = 2.0**53
"""Numbers below it are the same whole numbers as decimals and as floats."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """A part of a statement and the values of its placeholders."""

    sql: str
    values: tuple[Any, ...] = ()


def condition(filters: Filter, *, denied: bool = False) -> Condition:
    """A folded filter as a condition.

    Args:
        filters: the filter.
        denied: whether it stands within a `Not`: then it must not be null where it is not true.
    """
    if isinstance(filters, (And, Or)):
        word = " AND " if isinstance(filters, And) else " OR "
        return _joined((condition(part, denied=denied) for part in filters.filters), word)
    if isinstance(filters, Not):
        inner = condition(filters.filter, denied=True)
        return Condition(sql=f"(NOT {inner.sql})", values=inner.values)
    name = plain_text(filters.field)
    if isinstance(filters, Range) and filters.of_dates:
        return _range(date_expression(name), filters, denied=denied)
    if name == "document_id":
        return _document(filters, denied=denied)
    path = straight_path(name)
    if path is not None and len(path) == 1:
        return _holds(filters, "metadata", path, denied=denied)
    key = field_key(name)
    spelled = _holds(filters, "fields", (key,), denied=denied)
    if path is None:
        return spelled
    straight = _holds(filters, "metadata", path, denied=denied)
    return _joined([_both(straight, _not_spelled(key)), spelled], " OR ")


def number_expression(path: Sequence[str], column: str = "metadata") -> str:
    """The number at a path; null where there is none. Indexes are made of this very text."""
    value = _value(column, path)
    text = _value(column, path, as_text=True)
    return f"(CASE WHEN jsonb_typeof({value}) = 'number' THEN ({text})::float8 END)"


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


def _not_spelled(key: str) -> Condition:
    return Condition(sql="NOT coalesce(jsonb_exists(fields, %s), false)", values=(key,))


def _document(filters: _Leaf, *, denied: bool) -> Condition:
    """A condition on the document; metadata that have such a key of their own come first."""
    own = _holds(filters, "fields", ("document_id",), denied=denied)
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
        column = Condition(sql="coalesce(document_id = ANY(%s), false)", values=(texts,))
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
        items = _items(_value(column, path))
        sql = (
            f"EXISTS (SELECT 1 FROM {items} item WHERE jsonb_typeof(item) = 'number' "
            "AND (item #>> '{}')::float8 = %s::float8)"
        )
        return Condition(sql=sql, values=(found,))
    kept = plain_text(value) if isinstance(value, str) else value
    wanted = (_nested(path, kept), _nested(path, [kept]))
    sql = f"({column} @> %s::jsonb OR {column} @> %s::jsonb)"
    if column != "metadata":
        sql = f"coalesce({sql}, false)"
    return Condition(sql=sql, values=wanted)


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
