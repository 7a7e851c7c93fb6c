"""Filters in the words of PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ragbench.records.filters import And, Filter, In, Not, Or, Range, equality_key
from ragbench.stores.record import label, number_name

__all__ = ["Condition", "condition"]

_SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """A part of a statement and the values of its placeholders."""

    sql: str
    values: tuple[Any, ...]


def condition(filters: Filter) -> Condition:
    """A folded filter as a condition that is true or false, never unknown."""
    if isinstance(filters, (And, Or)):
        parts = [condition(part) for part in filters.filters]
        word = " AND " if isinstance(filters, And) else " OR "
        return Condition(
            sql=f"({word.join(part.sql for part in parts)})",
            values=tuple(value for part in parts for value in part.values),
        )
    if isinstance(filters, Not):
        inner = condition(filters.filter)
        return Condition(sql=f"(NOT {inner.sql})", values=inner.values)
    if isinstance(filters, Range):
        return _range(filters)
    values = filters.values if isinstance(filters, In) else (filters.value,)
    keys = [key for value in values if (key := equality_key(value)) is not None]
    labels = [label(filters.field, key) for key in keys]
    return Condition(sql="(labels && %s::text[])", values=(labels,))


def _range(filters: Range) -> Condition:
    name = number_name(filters.field, dates=filters.of_dates)
    number = f"(numbers->>'{name}')::float8"  # the name is hexadecimal digits
    limits = filters.limits()
    tests = " AND ".join(f"{number} {_SIGNS[word]} %s::float8" for word in limits)
    # What is missing is null, and to compare with null is neither true nor false.
    return Condition(sql=f"coalesce({tests}, false)", values=tuple(limits.values()))
