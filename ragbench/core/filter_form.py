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

from collections.abc import Iterable, Mapping
from typing import Any, cast

from ragbench.core.filters import (
    And,
    Bound,
    Dialect,
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
_WORDS = frozenset({"all", "any", "field", "not"})
_DEPTH = 50


def parse_filters(value: object, *, where: str = "filter") -> Filter:
    return _parse(value, where, 0)


def filters_to_json(filters: Filter) -> dict[str, Any]:
    """A filter in its plain form; `parse_filters` gives an equal filter back."""
    return _PLAIN(filters)


def _plain(field: str, condition: object) -> dict[str, Any]:
    return {"field": {field: condition}} if field in _WORDS else {field: condition}


_PLAIN: Dialect[dict[str, Any]] = Dialect(
    both=lambda parts: {"all": parts},
    either=lambda parts: {"any": parts},
    denied=lambda part: {"not": part},
    equal=lambda field, values: _plain(
        field, values[0] if len(values) == 1 else {"in": list(values)}
    ),
    within=lambda bounds: _plain(bounds.field, bounds.bounds()),
    exists=lambda field: _plain(field, {"exists": True}),
    prefix=lambda field, text: _plain(field, {"prefix": text}),
)


def _parse(value: object, where: str, depth: int) -> Filter:
    if depth > _DEPTH:
        raise ConfigError(f"{where}: nested more than {_DEPTH} levels deep")
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"{where}: expected a mapping of fields such as {{year: 2023}}, found {_kind(value)}"
        )
    found: list[Filter] = []
    for key, inner in cast("Mapping[object, object]", value).items():
        if not isinstance(key, str):
            raise ConfigError(f"{where}: a field is named by a text, found {key!r}: quote it")
        found += _parse_entry(key, inner, f"{where}.{key}", depth)
    return found[0] if len(found) == 1 else And(filters=tuple(found))


def _parse_entry(key: str, inner: object, where: str, depth: int) -> list[Filter]:
    if key == "all":
        return [And(filters=_parse_list(inner, where, depth))]
    if key == "any":
        return [Or(filters=_parse_list(inner, where, depth))]
    if key == "not":
        return [Not(filter=_parse(inner, where, depth + 1))]
    if key != "field":
        return _parse_field(key, inner, where)
    if not isinstance(inner, Mapping):
        raise ConfigError(f"{where}: expected {{NAME: condition}}, found {_kind(inner)}")
    parts = cast("Mapping[object, object]", inner).items()
    return [part for name, one in parts for part in _parse_field(name, one, f"{where}.{name}")]


def _parse_list(value: object, where: str, depth: int) -> tuple[Filter, ...]:
    if not isinstance(value, (list, tuple)):
        raise ConfigError(f"{where}: expected a list of filters, found {_kind(value)}")
    parts = cast("Iterable[object]", value)
    return tuple(
        _parse(part, f"{where}[{position}]", depth + 1) for position, part in enumerate(parts)
    )


def _parse_field(name: object, value: object, where: str) -> list[Filter]:
    if not isinstance(name, str):
        raise ConfigError(f"{where}: a field is named by a text, found {name!r}: quote it")
    if not isinstance(value, Mapping):
        return [Equals(field=name, value=_scalar(value, where))]
    conditions = cast("Mapping[object, object]", value)
    unknown = [str(key) for key in conditions if key not in _CONDITIONS]
    if unknown or not conditions:
        found = f"unknown condition '{unknown[0]}'" if unknown else "no condition"
        raise ConfigError(f"{where}: {found}; known: {', '.join(_CONDITIONS)}")
    parts: list[Filter] = []
    if "eq" in conditions:
        parts.append(Equals(field=name, value=_scalar(conditions["eq"], f"{where}.eq")))
    if "in" in conditions:
        parts.append(In(field=name, values=_scalars(conditions["in"], f"{where}.in")))
    if "prefix" in conditions:
        parts.append(_prefix(name, conditions["prefix"], f"{where}.prefix"))
    if "exists" in conditions:
        parts.append(_exists(name, conditions["exists"], f"{where}.exists"))
    bounds = {key: conditions[key] for key in _BOUNDS if key in conditions}
    if bounds:
        parts.append(_range(name, bounds, where))
    return parts


def _exists(name: str, wanted: object, where: str) -> Filter:
    if not isinstance(wanted, bool):
        raise ConfigError(f"{where}: expected true or false, found {_kind(wanted)}")
    return Exists(field=name) if wanted else Not(filter=Exists(field=name))


def _prefix(name: str, wanted: object, where: str) -> Prefix:
    if not isinstance(wanted, str):
        raise ConfigError(f"{where}: expected a text, found {_kind(wanted)}")
    return Prefix(field=name, prefix=wanted)


def _range(name: str, bounds: Mapping[str, object], where: str) -> Range:
    for key, bound in bounds.items():
        if bound is None:
            raise ConfigError(f"{where}.{key}: expected a number or an ISO 8601 date, found null")
    return Range(field=name, **{key: cast("Bound", bound) for key, bound in bounds.items()})


def _scalars(value: object, where: str) -> tuple[Scalar, ...]:
    if not isinstance(value, (list, tuple)):
        raise ConfigError(f"{where}: expected a list of values, found {_kind(value)}")
    values = cast("Iterable[object]", value)
    return tuple(_scalar(item, f"{where}[{position}]") for position, item in enumerate(values))


def _scalar(value: object, where: str) -> Scalar:
    if isinstance(value, (str, bool, int, float)):
        return value
    found = _kind(value)
    hint = ": write {in: [...]} for one of several values" if found == "a list" else ""
    raise ConfigError(f"{where}: expected a text, a number, true or false, found {found}{hint}")


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    return f"{type(value).__name__} {str(value)[:40]!r}"
