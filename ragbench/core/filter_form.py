"""Filters as users write them, in YAML, JSON or a Python mapping.

::

    {"year": 2023}                                      the field holds the value
    {"source": {"in": ["a.pdf", "b.pdf"]}}              one of the values
    {"year": {"gte": 2020, "lt": 2024}}                 between bounds: gt, gte, lt, lte
    {"date": {"gte": "2023-05-01"}}                     dates as ISO 8601
    {"path": {"prefix": "handbook/"}}                   a text that begins so
    {"dept.name": "legal"}                              a field within an object
    {"dept": {"exists": true}}                          is there and not null; false: is not
    {"document_id": "d1"}                               the chunks of a document
    {"year": 2023, "source": "a.pdf"}                   all of them
    {"any": [{"year": 2023}, {"year": 2024}]}           at least one
    {"all": [...]}, {"not": {...}}                      all of them; not this
    {"field": {"any": 1}}                               a field whose name is one of these words
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from ragbench.core.filters import (
    And,
    Bound,
    Equals,
    Exists,
    Filter,
    In,
    Not,
    Or,
    Prefix,
    Range,
    Scalar,
)
from ragbench.errors import ConfigError

_BOUNDS = ("gt", "gte", "lt", "lte")
_CONDITIONS = ("eq", "in", "prefix", "exists", *_BOUNDS)

_DEPTH = 50


def parse_filters(value: object) -> Filter:
    return _parse(value, "filter", 0)


def _parse(value: object, where: str, depth: int) -> Filter:
    if depth > _DEPTH:
        raise ConfigError(f"{where}: nested more than {_DEPTH} levels deep")
    given = _mapping(value, "a mapping of fields such as {year: 2023}", where)
    found = [part for key, inner in given.items() for part in _entry(key, inner, where, depth)]
    return found[0] if len(found) == 1 else And(filters=tuple(found))


def _entry(key: object, inner: object, where: str, depth: int) -> list[Filter]:
    place = f"{where}.{key}"
    if key == "all" or key == "any":
        parts = tuple(
            _parse(part, f"{place}[{at}]", depth + 1)
            for at, part in enumerate(_list(inner, "filters", place))
        )
        return [And(filters=parts) if key == "all" else Or(filters=parts)]
    if key == "not":
        return [Not(filter=_parse(inner, place, depth + 1))]
    if key == "field":
        named = _mapping(inner, "{NAME: condition}", place)
        return [part for name, one in named.items() for part in _conditions(name, one, place)]
    return _conditions(key, inner, where)


def _conditions(name: object, value: object, where: str) -> list[Filter]:
    if not isinstance(name, str):
        raise ConfigError(f"{where}: a field is named by a text, found {name!r}: quote it")
    where = f"{where}.{name}"
    if not isinstance(value, Mapping):
        return [Equals(field=name, value=_scalar(value, where))]
    given = cast("Mapping[object, object]", value)
    unknown = [str(key) for key in given if key not in _CONDITIONS]
    if unknown or not given:
        found = f"unknown condition '{unknown[0]}'" if unknown else "no condition"
        raise ConfigError(f"{where}: {found}; known: {', '.join(_CONDITIONS)}")
    bounds = {key: given[key] for key in _BOUNDS if key in given}
    for key, bound in bounds.items():
        if bound is None:
            raise _unexpected(bound, "a number or an ISO 8601 date", f"{where}.{key}")
    parts = [
        _condition(name, key, given[key], f"{where}.{key}")
        for key in ("eq", "in", "prefix", "exists")
        if key in given
    ]
    if bounds:
        parts.append(Range(field=name, **{key: cast("Bound", one) for key, one in bounds.items()}))
    return parts


def _condition(name: str, key: str, wanted: object, where: str) -> Filter:
    if key == "eq":
        return Equals(field=name, value=_scalar(wanted, where))
    if key == "in":
        given = enumerate(_list(wanted, "values", where))
        return In(field=name, values=tuple(_scalar(one, f"{where}[{at}]") for at, one in given))
    if key == "prefix":
        if not isinstance(wanted, str):
            raise _unexpected(wanted, "a text", where)
        return Prefix(field=name, prefix=wanted)
    if not isinstance(wanted, bool):
        raise _unexpected(wanted, "true or false", where)
    return Exists(field=name) if wanted else Not(filter=Exists(field=name))


def _scalar(value: object, where: str) -> Scalar:
    if isinstance(value, (str, bool, int, float)):
        return value
    is_list = isinstance(value, (list, tuple))
    hint = ": write {in: [...]} for one of several values" if is_list else ""
    raise _unexpected(value, "a text, a number, true or false", where, hint)


def _mapping(value: object, what: str, where: str) -> Mapping[object, object]:
    if not isinstance(value, Mapping):
        raise _unexpected(value, what, where)
    return cast("Mapping[object, object]", value)


def _list(value: object, of: str, where: str) -> Sequence[object]:
    if not isinstance(value, (list, tuple)):
        raise _unexpected(value, f"a list of {of}", where)
    return cast("Sequence[object]", value)


def _unexpected(value: object, wanted: str, where: str, hint: str = "") -> ConfigError:
    found = f"{type(value).__name__} {str(value)[:40]!r}"
    for kind, name in ((type(None), "null"), (Mapping, "a mapping"), ((list, tuple), "a list")):
        if isinstance(value, kind):
            found = name
    return ConfigError(f"{where}: expected {wanted}, found {found}{hint}")
