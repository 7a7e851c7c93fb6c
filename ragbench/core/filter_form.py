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

# Deep enough for any filter that a person writes, and far from Python's limit of calls.
_DEPTH = 50


def parse_filters(value: object) -> Filter:
    """The filter of a mapping in the form that the head of this module shows.

    Users write filters in this documented form in YAML, JSON and options.

    Raises:
        ConfigError: it is not in this form; the message has the path of the wrong part.
    """
    return _parse(value, "filter", 0)


def _parse(value: object, path: str, depth: int) -> Filter:
    """The filter of one mapping, at the outside or below ``all``, ``any`` or ``not``.

    All entries of the mapping must hold.

    Args:
        path: of the mapping in the user's filter, for messages.
        depth: of the mapping in the filter: a limit keeps a hostile one from Python's own.
    """
    if depth > _DEPTH:
        raise ConfigError(f"{path}: nested more than {_DEPTH} levels deep")
    filters: list[Filter] = []
    for key, entry in _mapping(value, "a mapping of fields such as {year: 2023}", path).items():
        filters += _entry(key, entry, path, depth)
    # Alone it needs no `And` around it; an empty mapping is an `And` that always holds.
    if len(filters) == 1:
        return filters[0]
    return And(filters=tuple(filters))


def _entry(key: object, value: object, path: str, depth: int) -> list[Filter]:
    """The filters of one entry of a mapping, all of which must hold.

    An entry is a word of logic with its filters, or a field with its conditions. The words are the
    form that users write: see the head of this module.

    Args:
        path: of the mapping in the user's filter, for messages.
    """
    entry_path = f"{path}.{key}"
    if key == "all" or key == "any":
        parts: list[Filter] = []
        for position, part in enumerate(_list(value, "filters", entry_path)):
            parts.append(_parse(part, f"{entry_path}[{position}]", depth + 1))
        if key == "all":
            return [And(filters=tuple(parts))]
        return [Or(filters=tuple(parts))]
    if key == "not":
        return [Not(filter=_parse(value, entry_path, depth + 1))]
    if key == "field":  # fields that are called all, any, not or field
        filters: list[Filter] = []
        for field, conditions in _mapping(value, "{NAME: condition}", entry_path).items():
            filters += _conditions(field, conditions, entry_path)
        return filters
    return _conditions(key, value, path)


def _conditions(field: object, value: object, path: str) -> list[Filter]:
    """The filters on one field, all of which must hold.

    Users write a value that the field equals, or a mapping of conditions such as ``{gte: 2020}``.

    Args:
        path: of the mapping in the user's filter, for messages.
    """
    if not isinstance(field, str):
        raise ConfigError(f"{path}: a field is named by a text, found {field!r}: quote it")
    path = f"{path}.{field}"
    if not isinstance(value, Mapping):
        return [Equals(field=field, value=_scalar(value, path))]
    conditions = cast("Mapping[object, object]", value)
    unknown = [str(key) for key in conditions if key not in _CONDITIONS]
    if unknown or not conditions:
        problem = f"unknown condition '{unknown[0]}'" if unknown else "no condition"
        raise ConfigError(f"{path}: {problem}; known: {', '.join(_CONDITIONS)}")

    # All bounds make one range.
    bounds: dict[str, Bound] = {}
    for key in _BOUNDS:
        # In the order of `_BOUNDS`, whatever that of the mapping is.
        if key not in conditions:
            continue
        bound = conditions[key]
        if bound is None:  # which the range would take for "no bound"
            raise _unexpected(bound, "a number or an ISO 8601 date", f"{path}.{key}")
        bounds[key] = cast("Bound", bound)  # of any other kind; the range refuses what is none

    filters: list[Filter] = []
    for key in ("eq", "in", "prefix", "exists"):
        if key in conditions:
            filters.append(_condition(field, key, conditions[key], f"{path}.{key}"))
    if bounds:
        filters.append(Range(field=field, **bounds))
    return filters


def _condition(field: str, key: str, value: object, path: str) -> Filter:
    """The filter of one condition that is not a bound; bounds make one `Range` together.

    Args:
        key: ``eq``, ``in``, ``prefix`` or ``exists``.
        path: of the condition in the user's filter, for messages.
    """
    if key == "eq":
        return Equals(field=field, value=_scalar(value, path))
    if key == "in":
        values: list[Scalar] = []
        for position, item in enumerate(_list(value, "values", path)):
            values.append(_scalar(item, f"{path}[{position}]"))
        return In(field=field, values=tuple(values))
    if key == "prefix":
        if not isinstance(value, str):
            raise _unexpected(value, "a text", path)
        return Prefix(field=field, prefix=value)
    if not isinstance(value, bool):
        raise _unexpected(value, "true or false", path)
    if value:
        return Exists(field=field)
    # ``exists: false`` denies the test, so it also holds where the value is null.
    return Not(filter=Exists(field=field))


def _scalar(value: object, path: str) -> Scalar:
    """The value where a field can be compared with it; raises for a list, a mapping or null.

    Args:
        path: of the value in the user's filter, for messages.
    """
    if isinstance(value, (str, bool, int, float)):
        return value
    # A list is the usual slip, so its message says what to write instead.
    hint = ""
    is_list = isinstance(value, (list, tuple))
    if is_list:
        hint = ": write {in: [...]} for one of several values"
    raise _unexpected(value, "a text, a number, true or false", path, hint)


def _mapping(value: object, expected: str, path: str) -> Mapping[object, object]:
    """The value where it is a mapping; else raises an error with the expected form and the path.

    Args:
        expected: the form in words, such as ``{NAME: condition}``.
        path: of the value in the user's filter.
    """
    if not isinstance(value, Mapping):
        raise _unexpected(value, expected, path)
    return cast("Mapping[object, object]", value)


def _list(value: object, items: str, path: str) -> Sequence[object]:
    """The value where it is a list; else raises an error with the expected items and the path.

    Args:
        items: the expected items in words, such as ``filters``.
        path: of the value in the user's filter.
    """
    if not isinstance(value, (list, tuple)):
        raise _unexpected(value, f"a list of {items}", path)
    return cast("Sequence[object]", value)


def _unexpected(value: object, expected: str, path: str, hint: str = "") -> ConfigError:
    """The error for a part of a filter that is of another kind than expected.

    Users write filters in YAML or JSON, so the kinds are named in words of these: null, mapping,
    list. At most 40 characters of a value are quoted.
    """
    if value is None:
        found_kind = "null"
    elif isinstance(value, Mapping):
        found_kind = "a mapping"
    elif isinstance(value, (list, tuple)):
        found_kind = "a list"
    else:
        found_kind = f"{type(value).__name__} {str(value)[:40]!r}"
    return ConfigError(f"{path}: expected {expected}, found {found_kind}{hint}")
