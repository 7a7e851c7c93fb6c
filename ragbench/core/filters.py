"""Which chunks a search may return, by their metadata.

A filter is a value: it says what must hold, and no store. Users write it as a plain mapping
(`ragbench.core.filter_form`); `matches` is the definition that every store is tested against.

A field is a key of the metadata, or leads by dots into their objects (``dept.name``); a key that is
spelled so comes first. ``document_id`` is the chunk's document where the metadata hold no such key.
What the parts mean for the value ``v`` under a field:

- **Kinds.** Numbers, texts and flags are three kinds, and values of two kinds are never equal:
  ``True`` is not ``1`` and ``1`` is not ``"1"``; ``1`` and ``1.0`` are the same number. Numbers
  compare as 64-bit floats, texts by their characters.
- **Equals, In.** `v` is one of the values. When `v` is a list, one of its items is.
- **Range.** Bounds are numbers, or ISO 8601 dates as texts (``"2023"``, ``"2023-05"``,
  ``"2023-05-01"``, ``"2023-05-01T12:00:00+02:00"``). A number lies in a range of numbers; a text
  that is such a date lies in a range of dates. A date stands for its first moment, is taken as
  UTC where it names no zone, and counts to the millisecond. Anything else is outside, lists too.
- **Prefix.** `v` is a text that begins with these characters, or a list one of whose items is. The
  empty prefix is that of every text.
- **Exists.** The field is there and not ``None``.
- **A missing field,** ``None``, NaN, objects and lists inside of lists match no value and no range.
- **And, Or, Not** are those of logic: an `And` of nothing holds, an `Or` of nothing does not, and
  `Not` holds where what it denies does not, so also where the field is missing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Generic, TypeAlias, TypeVar, cast

from ragbench.core.record import Record, replace
from ragbench.errors import ConfigError

Scalar: TypeAlias = str | int | float | bool
"""What a field can be compared with."""
Bound: TypeAlias = int | float | str
"""The end of a range: a number, or an ISO 8601 date as text."""

_DATE = re.compile(
    r"\d{4}(?:-\d\d(?:-\d\d(?:[T ](?:[01]\d|2[0-3]):\d\d(?::\d\d(?:[.,]\d{1,9})?)?"
    r"(?:Z|[+-]\d\d(?::?[0-5]\d)?)?)?)?)?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Equals(Record):
    """The field holds this value."""

    field: str
    value: Scalar

    def __post_init__(self) -> None:
        _check_value(self.field, self.value)


class In(Record):
    """The field holds one of these values."""

    field: str
    values: tuple[Scalar, ...]

    def __post_init__(self) -> None:
        for value in self.values:
            _check_value(self.field, value)


class Exists(Record):
    """The field is there, and not null."""

    field: str

    def __post_init__(self) -> None:
        _check_field(self.field)


class Prefix(Record):
    """The field holds a text that begins so."""

    field: str
    prefix: str

    def __post_init__(self) -> None:
        _check_field(self.field)
        if not isinstance(self.prefix, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(
                f"filter on '{self.field}': a prefix is a text, found {_shown(self.prefix)}"
            )


class Range(Record):
    """The field lies between bounds: all numbers, or all ISO 8601 dates."""

    field: str
    gt: Bound | None = None
    """It is greater (later) than this."""
    gte: Bound | None = None
    """It is this or greater."""
    lt: Bound | None = None
    """It is less (earlier) than this."""
    lte: Bound | None = None
    """It is this or less."""

    def __post_init__(self) -> None:
        _check_field(self.field)
        kinds = {_bound_kind(self.field, name, bound) for name, bound in self.bounds().items()}
        if len(kinds) != 1:
            problem = "of numbers and of dates" if kinds else "none: give gt, gte, lt or lte"
            raise ConfigError(f"filter on '{self.field}': the bounds are {problem}")

    def bounds(self) -> dict[str, Bound]:
        every = {"gt": self.gt, "gte": self.gte, "lt": self.lt, "lte": self.lte}
        return {name: bound for name, bound in every.items() if bound is not None}

    @property
    def of_dates(self) -> bool:
        return any(isinstance(bound, str) for bound in self.bounds().values())

    def limits(self) -> dict[str, float]:
        """The bounds as numbers: as they are, or a date's milliseconds since 1970."""
        read = instant if self.of_dates else number
        return {name: float(read(bound) or 0) for name, bound in self.bounds().items()}


class And(Record):
    """All of these hold; with none of them it always holds."""

    filters: tuple[Filter, ...]


class Or(Record):
    """At least one of these holds; with none of them it never does."""

    filters: tuple[Filter, ...]


class Not(Record):
    """This does not hold."""

    filter: Filter


Filter: TypeAlias = Equals | In | Exists | Prefix | Range | And | Or | Not
_SaidT = TypeVar("_SaidT")


class Dialect(Record, Generic[_SaidT]):
    """How one engine says each part of a filter; called with a folded filter, it translates it."""

    both: Callable[[list[_SaidT]], _SaidT]
    either: Callable[[list[_SaidT]], _SaidT]
    denied: Callable[[_SaidT], _SaidT]
    equal: Callable[[str, Sequence[Scalar]], _SaidT]
    """The field holds one of these values."""
    within: Callable[[Range], _SaidT]
    exists: Callable[[str], _SaidT]
    prefix: Callable[[str, str], _SaidT]
    """The field holds a text that begins so."""

    def __call__(self, filters: Filter) -> _SaidT:
        if isinstance(filters, And):
            return self.both([self(part) for part in filters.filters])
        if isinstance(filters, Or):
            return self.either([self(part) for part in filters.filters])
        if isinstance(filters, Not):
            return self.denied(self(filters.filter))
        if isinstance(filters, Range):
            return self.within(filters)
        if isinstance(filters, Exists):
            return self.exists(filters.field)
        if isinstance(filters, Prefix):
            return self.prefix(filters.field, filters.prefix)
        values = filters.values if isinstance(filters, In) else (filters.value,)
        return self.equal(filters.field, values)


def matches(filters: Filter, metadata: Mapping[str, Any]) -> bool:
    return matcher(filters)(metadata)


def field_values(metadata: Mapping[str, Any]) -> dict[str, object]:
    """Every field of metadata with its value, those within objects by their dotted names.

    Example:
        >>> field_values({"dept": {"name": "legal"}})
        {'dept': {'name': 'legal'}, 'dept.name': 'legal'}
    """
    found: dict[str, object] = dict(metadata)
    level: list[tuple[str, object]] = list(metadata.items())
    while level:  # what stands nearer to the top comes first
        level = [
            (f"{name}.{key}", inner)
            for name, value in level
            if isinstance(value, Mapping)
            for key, inner in cast("Mapping[str, object]", value).items()
        ]
        for name, value in level:
            found.setdefault(name, value)
    return found


def _value(metadata: Mapping[str, Any], field: str) -> object:
    if field in metadata or "." not in field:
        return metadata.get(field)
    return field_values(metadata).get(field)


def folded(filters: Filter) -> Filter | bool:
    """The same filter without empty and nested parts; True or False where it depends on nothing.

    What is left holds no empty `And`, `Or` or `In`, no `And` within an `And`, and no `Not` of a
    `Not`: a `Dialect` need not think of them.
    """
    if isinstance(filters, In):
        return filters if filters.values else False
    if isinstance(filters, Not):
        inner = folded(filters.filter)
        if isinstance(inner, bool):
            return not inner
        return inner.filter if isinstance(inner, Not) else Not(filter=inner)
    if isinstance(filters, And | Or):
        return _folded_parts(type(filters), filters.filters)
    return filters


def fields_of(filters: Filter) -> list[str]:
    """The fields that a filter asks for, each once, in their order."""
    found: list[str] = []

    def noted(name: str) -> str:
        found.append(name)
        return name

    renamed(filters, noted)
    return list(dict.fromkeys(found))


def renamed(filters: Filter, name: Callable[[str], str]) -> Filter:
    """The same filter over other fields: `name` gives the new one of each."""
    if isinstance(filters, And | Or):
        return replace(filters, filters=tuple(renamed(part, name) for part in filters.filters))
    if isinstance(filters, Not):
        return Not(filter=renamed(filters.filter, name))
    return replace(filters, field=name(filters.field))


def equality_key(value: object) -> str | None:
    """What two values have in common exactly when they are equal; None for what never is.

    Example:
        >>> equality_key(1) == equality_key(1.0), equality_key(True) == equality_key(1)
        (True, False)
    """
    if isinstance(value, str):
        return f"t:{value}"
    if isinstance(value, bool):
        return "f:true" if value else "f:false"
    found = number(value)
    return None if found is None else f"n:{found!r}"


def equality_keys(value: object) -> frozenset[str]:
    """The keys of a metadata value: one, or one for each item of a list."""
    items = cast("Iterable[object]", value) if isinstance(value, (list, tuple)) else (value,)
    return frozenset(key for item in items if (key := equality_key(item)) is not None)


def texts_of(value: object) -> list[str]:
    """The texts that a metadata value is or, as a list, holds."""
    items = cast("Iterable[object]", value) if isinstance(value, (list, tuple)) else (value,)
    return [item for item in items if isinstance(item, str)]


def number(value: object) -> float | None:
    """The number that a metadata value is in comparisons; None when it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    # Adding zero makes -0.0 the zero that it is equal to.
    return found + 0.0 if math.isfinite(found) else None


def instant(value: object) -> int | None:
    """Milliseconds from 1970 to the first moment of a date; None when the value is not a date.

    Example:
        >>> instant("1970-01-02"), instant("1970-01-01T01:00:00+01:00"), instant("soon")
        (86400000, 0, None)
    """
    # The longest date has 35 characters: a long text is not worth a look.
    return _instant(value) if isinstance(value, str) and len(value) <= 35 else None


@lru_cache(maxsize=1024)
def _instant(value: str) -> int | None:
    if _DATE.fullmatch(value) is None:
        return None
    whole = value + "-01-01"[len(value) - 4 :] if len(value) < 10 else value
    try:
        moment = datetime.fromisoformat(whole)
        return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MILLISECOND
    except (ValueError, OverflowError):
        return None


_Test: TypeAlias = Callable[[Mapping[str, Any]], bool]


def _equal(field: str, values: Sequence[Scalar]) -> _Test:
    wanted = frozenset(map(equality_key, values))
    return lambda metadata: not wanted.isdisjoint(equality_keys(_value(metadata, field)))


def _within(wanted: Range) -> _Test:
    read, limits = instant if wanted.of_dates else number, wanted.limits()
    above, least = limits.get("gt", -math.inf), limits.get("gte", -math.inf)
    below, most = limits.get("lt", math.inf), limits.get("lte", math.inf)

    def test(metadata: Mapping[str, Any]) -> bool:
        value = read(_value(metadata, wanted.field))
        return value is not None and above < value < below and least <= value <= most

    return test


matcher: Dialect[_Test] = Dialect(
    both=lambda parts: lambda metadata: all(part(metadata) for part in parts),
    either=lambda parts: lambda metadata: any(part(metadata) for part in parts),
    denied=lambda part: lambda metadata: not part(metadata),
    equal=_equal,
    within=_within,
    exists=lambda field: lambda metadata: _value(metadata, field) is not None,
    prefix=lambda field, prefix: (
        lambda metadata: any(text.startswith(prefix) for text in texts_of(_value(metadata, field)))
    ),
)
"""Whether metadata pass a filter: the reference that stores agree with."""


def _folded_parts(kind: type[And] | type[Or], parts: tuple[Filter, ...]) -> Filter | bool:
    deciding = kind is Or
    kept: list[Filter] = []
    for part in parts:
        inner = folded(part)
        if inner is deciding:
            return deciding
        if isinstance(inner, kind):
            kept += inner.filters
        elif not isinstance(inner, bool):
            kept.append(inner)
    if len(kept) <= 1:
        return kept[0] if kept else not deciding
    return kind(filters=tuple(kept))


def _check_field(field: object) -> None:
    if not isinstance(field, str):
        raise ConfigError(f"filter: a field is named by a text, found {field!r}")


def _check_value(field: str, value: object) -> None:
    _check_field(field)
    if equality_key(value) is None:
        raise ConfigError(
            f"filter on '{field}': expected a text, a number, true or false, found {_shown(value)}"
        )


def _bound_kind(field: str, name: str, bound: Bound) -> str:
    if isinstance(bound, str):
        if instant(bound) is None:
            raise ConfigError(
                f"filter on '{field}': {name} is a number or an ISO 8601 date such as "
                f"2023-05-01, found {_shown(bound)}"
            )
        return "dates"
    if number(bound) is None:
        raise ConfigError(f"filter on '{field}': {name} is not a number: {_shown(bound)}")
    return "numbers"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
