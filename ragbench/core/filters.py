"""Which chunks a search may return, by their metadata.

A filter is a value, and the same for every store: a `Dialect` translates it. Users write it as a
plain mapping (`ragbench.core.filter_form`); `matches` is the definition that every store is tested
against.

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
from functools import lru_cache, partial
from typing import Any, Generic, TypeAlias, TypeVar, cast

from ragbench.core.record import Record, replace
from ragbench.errors import ConfigError

Scalar: TypeAlias = str | int | float | bool
"""A value that a field can be compared with."""
Bound: TypeAlias = int | float | str
"""The end of a range: a number, or an ISO 8601 date as text."""

_DATE = re.compile(
    r"\d{4}(?:-\d\d(?:-\d\d(?:[T ](?:[01]\d|2[0-3]):\d\d(?::\d\d(?:[.,]\d{1,9})?)?"
    r"(?:Z|[+-]\d\d(?::?[0-5]\d)?)?)?)?)?",
    re.ASCII,
)
"""ISO 8601 from a year alone to a time with a zone; hours and zones within their range."""
_LONGEST_DATE = 35
"""Characters of the longest text that `_DATE` matches."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Equals(Record):
    """The field holds this value."""

    field: str
    value: Scalar

    def __post_init__(self) -> None:
        """Refuses a value that no store can compare, however the filter was made.

        Such are null, NaN, lists and objects: stores would treat them in different ways.
        """
        _check_value(self.field, self.value)


class In(Record):
    """The field holds one of these values."""

    field: str
    values: tuple[Scalar, ...]

    def __post_init__(self) -> None:
        """Refuses a value that no store can compare, however the filter was made.

        Such are null, NaN, lists and objects: stores would treat them in different ways.
        """
        for value in self.values:
            _check_value(self.field, value)


class Exists(Record):
    """The field is there, and not null."""

    field: str

    def __post_init__(self) -> None:
        """Refuses a field that is named by something else than a text.

        Metadata keys are texts, so no chunk could have such a field.
        """
        _check_field(self.field)


class Prefix(Record):
    """The field holds a text that begins with this prefix."""

    field: str
    prefix: str

    def __post_init__(self) -> None:
        """Refuses a prefix that is no text: numbers have no characters to begin with."""
        _check_field(self.field)
        if not isinstance(self.prefix, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(
                f"filter on '{self.field}': a prefix is a text, found {_shown(self.prefix)}"
            )


class Range(Record):
    """The field lies between bounds: all numbers, or all ISO 8601 dates."""

    field: str
    gt: Bound | None = None
    """Exclusive lower bound."""
    gte: Bound | None = None
    """Inclusive lower bound."""
    lt: Bound | None = None
    """Exclusive upper bound."""
    lte: Bound | None = None
    """Inclusive upper bound."""

    def __post_init__(self) -> None:
        """Refuses a range without a bound, or with bounds of numbers and of dates.

        In such a range lies nothing, and a search would return no chunk without a reason.
        """
        _check_field(self.field)
        kinds = {_bound_kind(self.field, name, bound) for name, bound in self.bounds().items()}
        # The function returns where all is right, so that one error serves both problems.
        if not kinds:
            problem = "none: give gt, gte, lt or lte"
        elif len(kinds) > 1:
            problem = "of numbers and of dates"
        else:
            return
        raise ConfigError(f"filter on '{self.field}': the bounds are {problem}")

    def bounds(self) -> dict[str, Bound]:
        """The range's bounds that are set, by name: ``gt``, ``gte``, ``lt``, ``lte``.

        A store's dialect writes one comparison for each.
        """
        bounds = {"gt": self.gt, "gte": self.gte, "lt": self.lt, "lte": self.lte}
        return {name: bound for name, bound in bounds.items() if bound is not None}

    @property
    def of_dates(self) -> bool:
        """Whether the range's bounds are dates; else they are numbers.

        A number never lies in a range of dates, and stores compare the two in different fields.
        """
        return any(isinstance(bound, str) for bound in self.bounds().values())

    def limits(self) -> dict[str, float]:
        """The range's bounds as numbers: as they are, or a date's milliseconds since 1970.

        Stores hold dates in the same form.
        """
        to_number = instant if self.of_dates else number
        limits: dict[str, float] = {}
        for name, bound in self.bounds().items():
            # Construction has refused what is neither a number nor a date.
            limits[name] = float(to_number(bound) or 0)
        return limits


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
_ConditionT = TypeVar("_ConditionT")
"""A condition in the language of one engine: a text of SQL, a mapping, a function ..."""


class Dialect(Record, Generic[_ConditionT]):
    """Translates filters into the language of one engine: a function for each kind of part.

    Stores translate a filter that `folded` gave, so their functions need not handle empty parts.
    `matcher` takes any filter.
    """

    both: Callable[[list[_ConditionT]], _ConditionT]
    """All of these conditions hold."""
    either: Callable[[list[_ConditionT]], _ConditionT]
    """At least one of these conditions holds."""
    denied: Callable[[_ConditionT], _ConditionT]
    """This condition does not hold."""
    equal: Callable[[str, Sequence[Scalar]], _ConditionT]
    """The field (first argument) holds one of these values (second)."""
    within: Callable[[Range], _ConditionT]
    """The field holds a number, or a date, in this range."""
    exists: Callable[[str], _ConditionT]
    """The field is there and not null."""
    prefix: Callable[[str, str], _ConditionT]
    """The field (first argument) holds a text that begins with the prefix (second)."""

    def __call__(self, filters: Filter) -> _ConditionT:
        """The filter as a condition in the engine's language, its parts from the inside out.

        Each store has a dialect: the functions for the parts of a filter, which are its fields
        here.
        """
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
        if isinstance(filters, In):
            return self.equal(filters.field, filters.values)
        # What is left is `Equals`: one value is a list of one.
        return self.equal(filters.field, (filters.value,))


def matches(filters: Filter, metadata: Mapping[str, Any]) -> bool:
    """Whether a chunk with these metadata passes the filter: the definition for every store.

    Stores translate a filter into their own language, and tests compare them with this function.
    """
    return matcher(filters)(metadata)


def field_values(metadata: Mapping[str, Any]) -> dict[str, object]:
    """Every field of metadata with its value, those within objects by their dotted names.

    A store that cannot look into objects keeps these fields, and filters by them.

    Example:
        >>> field_values({"dept": {"name": "legal"}})
        {'dept': {'name': 'legal'}, 'dept.name': 'legal'}
    """
    values: dict[str, object] = dict(metadata)
    # Level by level, from the top: of two fields with one dotted name, the one nearer to the top
    # counts.
    level = list(values.items())
    while level:
        next_level: list[tuple[str, object]] = []
        for name, value in level:
            if isinstance(value, Mapping):
                for key, inner in cast("Mapping[str, object]", value).items():
                    next_level.append((f"{name}.{key}", inner))
        for name, value in next_level:
            values.setdefault(name, value)
        level = next_level
    return values


def _value(metadata: Mapping[str, Any], field: str) -> object:
    """The metadata's value of one field, which may be within an object (``dept.name``).

    None where the field is missing. A key that is spelled with the dot comes first.
    """
    if field in metadata or "." not in field:
        return metadata.get(field)
    return field_values(metadata).get(field)


def folded(filters: Filter) -> Filter | bool:
    """The same filter without empty and nested parts; True or False where it depends on nothing.

    A folded filter has no empty `And`, `Or` or `In`, no `And` directly within an `And` and no `Or`
    within an `Or`, and no `Not` of a `Not`, so a `Dialect` need not handle them.
    """
    if isinstance(filters, In):
        if not filters.values:  # no value is one of none
            return False
        return filters
    if isinstance(filters, Not):
        inner = folded(filters.filter)
        # Decided already: its opposite is, too.
        if isinstance(inner, bool):
            return not inner
        if isinstance(inner, Not):
            return inner.filter
        return Not(filter=inner)
    if isinstance(filters, And | Or):
        return _folded_parts(type(filters), filters.filters)
    return filters


def fields_of(filters: Filter) -> list[str]:
    """The names of the metadata fields that a filter reads, each once, in their order.

    A store or a warning checks by them whether the chunks have these fields.
    """
    if isinstance(filters, And | Or):
        fields: list[str] = []
        for part in filters.filters:
            fields += fields_of(part)
        # Each once, in the order in which the filter names them.
        return list(dict.fromkeys(fields))
    if isinstance(filters, Not):
        return fields_of(filters.filter)
    return [filters.field]


def renamed(filters: Filter, name: Callable[[str], str]) -> Filter:
    """The same filter with each field renamed, by a function from its old name to the new one.

    A store that keeps the metadata under a prefix is asked in its own names so.
    """
    if isinstance(filters, And | Or):
        return replace(filters, filters=tuple(renamed(part, name) for part in filters.filters))
    if isinstance(filters, Not):
        return Not(filter=renamed(filters.filter, name))
    return replace(filters, field=name(filters.field))


def equality_key(value: object) -> str | None:
    """A text that is the same for two values exactly when a filter takes them for equal.

    None for a value that equals nothing: None, NaN, an object or a list. Python itself takes
    ``True`` for 1.

    Example:
        >>> equality_key(1) == equality_key(1.0), equality_key(True) == equality_key(1)
        (True, False)
    """
    if isinstance(value, str):
        return f"t:{value}"
    # Before numbers: to Python True is 1.
    if isinstance(value, bool):
        return "f:true" if value else "f:false"
    value_as_number = number(value)
    if value_as_number is None:
        return None
    return f"n:{value_as_number!r}"


def equality_keys(value: object) -> frozenset[str]:
    """The keys of a metadata value (see `equality_key`): one, or one for each item of a list.

    A field with a list holds a value if one of the items is it.
    """
    keys: set[str] = set()
    for item in _items(value):
        key = equality_key(item)
        if key is not None:
            keys.add(key)
    return frozenset(keys)


def texts_of(value: object) -> list[str]:
    """The texts in a metadata value: the value itself, or the texts among the items of a list.

    A filter by prefix reads these.
    """
    return [item for item in _items(value) if isinstance(item, str)]


def _items(value: object) -> Iterable[object]:
    """The items of a metadata value that is a list; a value of any other kind as the only item.

    A filter holds for a list where it holds for one of its items.
    """
    if isinstance(value, (list, tuple)):
        return cast("Iterable[object]", value)
    return (value,)


def number(value: object) -> float | None:
    """A metadata value as filters compare it with numbers; None when it is not a finite number.

    A flag is not a number here. Stores and this module must agree on it.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        value = float(value)
    except OverflowError:
        return None
    if not math.isfinite(value):
        return None
    return value + 0.0  # adding zero makes -0.0 the zero that it is equal to


def instant(value: object) -> int | None:
    """Milliseconds from 1970 to the first moment of a date; None when the value is not a date.

    Bounds of dates, and the dates in metadata, are compared as such numbers.

    Example:
        >>> instant("1970-01-02"), instant("1970-01-01T01:00:00+01:00"), instant("soon")
        (86400000, 0, None)
    """
    # A longer text is no date, and would only fill the cache.
    if not isinstance(value, str) or len(value) > _LONGEST_DATE:
        return None
    return _instant(value)


@lru_cache(maxsize=1024)
def _instant(value: str) -> int | None:
    """Milliseconds from 1970 to the first moment of a date text; None when it is not a date.

    Cached for `instant`, as the same few dates come with chunk after chunk.
    """
    if _DATE.fullmatch(value) is None:
        return None
    if len(value) == len("2023"):
        value += "-01-01"
    elif len(value) == len("2023-05"):
        value += "-01"
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return (moment - _EPOCH) // _MILLISECOND
    except (ValueError, OverflowError):  # the 30th of February; a zone that leads out of all years
        return None


_Test: TypeAlias = Callable[[Mapping[str, Any]], bool]
"""Whether a chunk with these metadata passes a filter."""


def _equal(field: str, values: Sequence[Scalar]) -> _Test:
    """A test of metadata: whether the field holds one of these values, by itself or in a list.

    Part of the reference by which all stores are tested.
    """
    keys = frozenset(map(equality_key, values))
    return lambda metadata: not keys.isdisjoint(equality_keys(_value(metadata, field)))


def _within(range_: Range) -> _Test:
    """A test of metadata: whether the field holds a number, or a date, within the bounds.

    Part of the reference by which all stores are tested.
    """
    to_number = instant if range_.of_dates else number
    limits = range_.limits()
    # Once for all chunks: the test runs for each chunk of a search.
    return partial(
        _lies_within,
        field=range_.field,
        to_number=to_number,
        gt=limits.get("gt", -math.inf),
        gte=limits.get("gte", -math.inf),
        lt=limits.get("lt", math.inf),
        lte=limits.get("lte", math.inf),
    )


def _lies_within(
    metadata: Mapping[str, Any],
    *,
    field: str,
    to_number: Callable[[object], float | None],
    gt: float,
    gte: float,
    lt: float,
    lte: float,
) -> bool:
    """Whether a chunk's metadata have under a field a number, or a date, between four bounds.

    A bound that the filter does not set is infinite.

    Args:
        to_number: makes a number of the value; None for a value of another kind, which is outside.
    """
    value = to_number(_value(metadata, field))
    if value is None:
        return False
    return gt < value < lt and gte <= value <= lte


def _prefixed(field: str, prefix: str) -> _Test:
    """A test of metadata: whether a field holds a text with this prefix, alone or in a list.

    Part of the reference by which all stores are tested.
    """
    return partial(_has_prefix, field=field, prefix=prefix)


def _has_prefix(metadata: Mapping[str, Any], *, field: str, prefix: str) -> bool:
    """Whether a chunk's metadata have under a field a text, or a list with one, that begins so.

    A value that is no text has no characters to begin with.
    """
    return any(text.startswith(prefix) for text in texts_of(_value(metadata, field)))


matcher: Dialect[_Test] = Dialect(
    both=lambda parts: lambda metadata: all(part(metadata) for part in parts),
    either=lambda parts: lambda metadata: any(part(metadata) for part in parts),
    denied=lambda part: lambda metadata: not part(metadata),
    equal=_equal,
    within=_within,
    exists=lambda field: lambda metadata: _value(metadata, field) is not None,
    prefix=_prefixed,
)
"""Makes a filter a function that tests metadata: the reference that every store agrees with."""


def _folded_parts(kind: type[And] | type[Or], parts: tuple[Filter, ...]) -> Filter | bool:
    """An `And` or `Or` of these parts without empty and nested parts, as `folded` gives it.

    True or False where the parts decide it for every chunk.
    """
    deciding_value = kind is Or  # one True decides an Or, one False an And
    folded_parts: list[Filter] = []
    for part in parts:
        folded_part = folded(part)
        if folded_part is deciding_value:
            return deciding_value
        if isinstance(folded_part, kind):
            folded_parts += folded_part.filters
        elif not isinstance(folded_part, bool):  # the other truth value changes nothing
            folded_parts.append(folded_part)
    if not folded_parts:
        return not deciding_value
    if len(folded_parts) == 1:
        return folded_parts[0]
    return kind(filters=tuple(folded_parts))


def _check_field(field: object) -> None:
    """Refuses a filter's field that is not named by a text, such as the number of a YAML key.

    Metadata keys are texts: no chunk could have such a field.
    """
    if not isinstance(field, str):
        raise ConfigError(f"filter: a field is named by a text, found {field!r}")


def _check_value(field: str, value: object) -> None:
    """Refuses a filter's value that no field is compared with: null, lists, objects and NaN.

    Stores would treat such a value in different ways.
    """
    _check_field(field)
    if equality_key(value) is None:
        raise ConfigError(
            f"filter on '{field}': expected a text, a number, true or false, found {_shown(value)}"
        )


def _bound_kind(field: str, name: str, bound: Bound) -> str:
    """The kind of a range's bound, ``"numbers"`` or ``"dates"``; raises where it is neither.

    A range with bounds of two kinds is refused.

    Args:
        name: of the bound, such as ``gte``, for the message.
    """
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
    """A value as the message of an error quotes it, at most 60 characters long.

    A filter may hold a whole document by mistake.
    """
    text = repr(value)
    if len(text) > 60:
        return f"{text[:57]}..."
    return text
