"""Filters in the words of PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ragbench.records.filters import And, Filter, In, Not, Or, Range, equality_key
from ragbench.stores.record import label, number_name

__all__ = ["Condition", "condition", "number_expression"]

_SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """A part of a statement and the values of its placeholders."""

    sql: str
    values: tuple[Any, ...]


def condition(filters: Filter, *, denied: bool = False) -> Condition:
    """A folded filter as a condition.

    Args:
        filters: the filter.
        denied: whether it stands within a `Not`: then it must not be null where it is not true.
    """
    if isinstance(filters, (And, Or)):
        parts = [condition(part, denied=denied) for part in filters.filters]
        word = " AND " if isinstance(filters, And) else " OR "
        return Condition(
            sql=f"({word.join(part.sql for part in parts)})",
            values=tuple(value for part in parts for value in part.values),
        )
    if isinstance(filters, Not):
        inner = condition(filters.filter, denied=True)
        return Condition(sql=f"(NOT {inner.sql})", values=inner.values)
    if isinstance(filters, Range):
        limits = filters.limits()
        number = number_expression(number_name(filters.field, dates=filters.of_dates))
        tests = " AND ".join(f"{number} {_SIGNS[word]} %s::float8" for word in limits)
        # What is missing is null, and so is a comparison with it. The bare form uses an index.
        sql = f"coalesce({tests}, false)" if denied else f"({tests})"
        return Condition(sql=sql, values=tuple(limits.values()))
    values = filters.values if isinstance(filters, In) else (filters.value,)
    keys = [key for value in values if (key := equality_key(value)) is not None]
    labels = [label(filters.field, key) for key in keys]
    return Condition(sql="(labels && %s::text[])", values=(labels,))


def number_expression(name: str) -> str:
    """The number that is kept under a name, which is hexadecimal digits; null where there is none.

    Indexes are made of this very text.
    """
    return f"((numbers->>'{name}')::float8)"
