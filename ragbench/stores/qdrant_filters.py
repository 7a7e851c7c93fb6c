"""Filters in Qdrant's terms, over the plain payload that ragbench writes.

Qdrant means the same by a value as ragbench's filters do, but for three things, and each has its
guard: a list lies in a range where any of its items does (``lists`` names those fields), an empty
list does not exist, and a key with dots is not reached by them (``fields``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
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
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Both:
    """What must and what must not hold; flat, as what is nested is planned less well."""

    must: list[Any] = field(default_factory=list[Any])
    must_not: list[Any] = field(default_factory=list[Any])


def condition(filters: Filter, models: ModuleType) -> Any:
    """A folded filter in Qdrant's terms."""
    return _filter(_both(filters, models), models)


def written_path(keys: Sequence[str]) -> str:
    """A path into payloads: quoted where a key holds more than letters and digits."""
    return ".".join(key if _BARE.fullmatch(key) else f'"{key}"' for key in keys)


def _filter(both: _Both, models: ModuleType) -> Any:
    given = {name: value for name in ("must", "must_not") if (value := getattr(both, name))}
    return models.Filter(**given)


def _one(both: _Both, models: ModuleType) -> Any:
    if not both.must_not and len(both.must) == 1:
        return both.must[0]
    return _filter(both, models)


def _any(parts: Iterable[_Both], models: ModuleType) -> _Both:
    should = [_one(part, models) for part in parts]
    return _Both(must=[models.Filter(should=should)])


def _both(filters: Filter, models: ModuleType) -> _Both:
    if isinstance(filters, And):
        parts = [_both(part, models) for part in filters.filters]
        return _Both(
            must=[one for part in parts for one in part.must],
            must_not=[one for part in parts for one in part.must_not],
        )
    if isinstance(filters, Or):
        return _any((_both(part, models) for part in filters.filters), models)
    if isinstance(filters, Not):
        return _Both(must_not=[_one(_both(filters.filter, models), models)])
    return _leaf(filters, models)


def _leaf(filters: _Leaf, models: ModuleType) -> _Both:
    """A condition on a field: where a path of keys leads to it, and where it is spelled out."""
    name = plain_text(filters.field)
    key = field_key(name)
    if isinstance(filters, Range) and filters.of_dates:
        dates = written_path(["dates", key])
        return _Both(must=[_range(dates, filters, models)])
    spelled = _holds(filters, name, written_path(["fields", key]), models)
    path = straight_path(name)
    if path is None:
        return spelled
    keys = ["document_id"] if name == "document_id" else ["metadata", *path]
    straight = _holds(filters, name, written_path(keys), models)
    if len(path) == 1 and name != "document_id":
        return straight
    other = models.FieldCondition(key="spelled", match=models.MatchValue(value=key))
    apart = _Both(must=straight.must, must_not=[*straight.must_not, other])
    return _any((apart, spelled), models)


def _holds(filters: _Leaf, name: str, path: str, models: ModuleType) -> _Both:
    listed = models.FieldCondition(key="lists", match=models.MatchValue(value=name))
    if isinstance(filters, Range):
        return _Both(must=[_range(path, filters, models)], must_not=[listed])
    if isinstance(filters, Exists):
        # An empty list is no value to Qdrant, and one to ragbench.
        there = _Both(must_not=[_is_empty(path, models)])
        return _any((there, _Both(must=[listed])), models)
    if isinstance(filters, Prefix):
        match = models.MatchPrefix(prefix=plain_text(filters.prefix))
        return _Both(must=[models.FieldCondition(key=path, match=match)])
    values = filters.values if isinstance(filters, In) else (filters.value,)
    tests = _equal(path, values, models)
    return tests[0] if len(tests) == 1 else _any(tests, models)


def _equal(path: str, values: Sequence[Scalar], models: ModuleType) -> list[_Both]:
    texts = [plain_text(value) for value in values if isinstance(value, str)]
    tests: list[Any] = []
    if texts:
        alone = len(texts) == 1
        match = models.MatchValue(value=texts[0]) if alone else models.MatchAny(any=texts)
        tests.append(models.FieldCondition(key=path, match=match))
    for value in values:
        if isinstance(value, bool):
            match = models.MatchValue(value=_flag(value, models))
            tests.append(models.FieldCondition(key=path, match=match))
        elif not isinstance(value, str):
            # Qdrant's match knows whole numbers only, and 1.0 is 1.
            exactly = number(value)
            within = _kind(models)(gte=exactly, lte=exactly)
            tests.append(models.FieldCondition(key=path, range=within))
    return [_Both(must=[test]) for test in tests]


def _flag(value: bool, models: ModuleType) -> Any:
    """A flag that the models do not take for a number, as the embedded engine's do Python's."""
    if not hasattr(models, "RangeFloat"):
        return value
    import numpy as np

    return np.bool_(value)


def _range(path: str, filters: Range, models: ModuleType) -> Any:
    return models.FieldCondition(key=path, range=_kind(models)(**filters.limits()))


def _kind(models: ModuleType) -> Any:
    return getattr(models, "RangeFloat", None) or models.Range


def _is_empty(path: str, models: ModuleType) -> Any:
    if hasattr(models, "PayloadField"):
        return models.IsEmptyCondition(is_empty=models.PayloadField(key=path))
    return models.IsEmptyCondition(path)
