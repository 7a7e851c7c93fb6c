"""Which records are taken: those of a time, those with some values; the first, or a draw."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, time
from hashlib import blake2b
from itertools import islice
from operator import attrgetter
from typing import TypeVar

from ragbench.core.record import Record, field
from ragbench.errors import ConfigError, DataError, Problem
from ragbench.io.dumps.form import AnyRow, Getter, getter
from ragbench.io.fields import named
from ragbench.io.source import Problems
from ragbench.io.values import as_object, as_score, is_list, is_object
from ragbench.safe_text import counted, shown_line

Values = Mapping[str, object]
RecordT = TypeVar("RecordT", bound=AnyRow)
_ItemT = TypeVar("_ItemT")
_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3), (0.0, 1.0))
"""From which number on a time counts in so many parts of a second."""
_SHOWN = 5


class Only(Record):
    """Of a source the records from a time on, up to one, and with these values.

    Example:
        >>> Only(since="2026-09-01", where={"user": "ada"}).described
        'since 2026-09-01, where user=ada'

    Raises:
        ConfigError: a time that cannot be read.
    """

    since: str | None = None
    """A date or a time, in UTC where it names no zone."""
    until: str | None = None
    """With it; a date stands for the whole day."""
    where: Mapping[str, str] = field(default_factory=dict[str, str])
    """Field, of the record or its metadata (dots lead into objects), to its value."""

    def __post_init__(self) -> None:
        begin, end = self.span
        if begin > end:
            raise ConfigError(f"--since {self.since} is after --until {self.until}")

    @property
    def span(self) -> tuple[float, float]:
        begin = -float("inf") if self.since is None else _moment(self.since, "--since", time.min)
        end = float("inf") if self.until is None else _moment(self.until, "--until", time.max)
        return begin, end

    @property
    def described(self) -> str:
        times = (("since", self.since), ("until", self.until))
        wheres = (("where", f"{name}={value}") for name, value in self.where.items())
        return ", ".join(f"{word} {said}" for word, said in (*times, *wheres) if said is not None)

    def of(self, records: Iterator[RecordT], problems: Problems, name: str) -> Iterator[RecordT]:
        """Those that are meant; one that says no time is a problem where a time is asked for.

        Raises:
            DataError: there are records, and none is meant; says which there are.
        """
        begin, end = self.span
        is_timed = self.since is not None or self.until is not None
        finders: list[tuple[str, str, Getter]] = [(n, v, getter(n)) for n, v in self.where.items()]
        seen = _Seen(where={where: Counter() for where in self.where})
        for record in records:
            values = record.values
            said = time_of(values) if is_timed else begin
            if said is None:
                seen.untimed += 1
                such = _named(named("time")["when"])
                message = f"says no time{{more}}: --since and --until need one ({such})"
                problems.add_kind("no time", message, path=record.path, line=record.line)
                continue
            seen.count += 1
            seen.first, seen.last = min(seen.first, said), max(seen.last, said)
            is_meant = begin <= said <= end
            for where, value, find in finders:
                held = list(_texts(_found(values, where, find)))
                if value not in held:
                    is_meant = False
                    known = seen.where[where]
                    known.update(held if len(known) < 10 * _SHOWN else ())
            if is_meant:
                seen.taken += 1
                yield record
        if seen.count and not seen.taken and not seen.untimed:
            problems.raise_if_any()
            message = f"none of {counted(seen.count, 'record')} is taken ({self.described})"
            there = "; ".join(seen.there(is_timed=is_timed))
            raise DataError([Problem(message=f"{message}: {there}", path=name)])


@dataclass(kw_only=True, slots=True)
class _Seen:
    """What the records say of which none may be meant."""

    where: dict[str, Counter[str]]
    count: int = 0
    taken: int = 0
    untimed: int = 0
    first: float = float("inf")
    last: float = -float("inf")

    def there(self, *, is_timed: bool) -> Iterator[str]:
        for where, held in self.where.items():
            values = [shown_line(one) for one, _ in held.most_common()]
            yield f"'{where}' is {_named(values)}" if values else f"none has '{where}'"
        if is_timed:
            yield f"they are from {_written(self.first)} to {_written(self.last)}"


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (" ..." if len(names) > _SHOWN else "")


def _moment(text: str, option: str, at: time) -> float:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ConfigError(
            f"{option} {text}: expected a date or a time, such as 2026-09-21 or 2026-09-21T10:00Z"
        ) from None
    if len(text.strip()) <= len("2026-09-21"):
        moment = datetime.combine(moment, at)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _written(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


def _found(values: object, path: str, find: Callable[[object], object]) -> object:
    """What a record holds at a path, or else its metadata; feedback is found by its name."""
    metadata = as_object(values).get("metadata")
    named, _, what = path.partition(".")
    if named == "feedback" and is_list(held := as_object(metadata).get(named)):
        return [one.get("value") for one in held if is_object(one) and one.get("name") == what]
    found = find(values)
    return find(metadata) if found is None else found


def time_of(values: object) -> float | None:
    places = (as_object(values), as_object(as_object(values).get("metadata")))
    held = (place.get(name) for name in named("time")["when"] for place in places)
    return next((said for one in held if (said := seconds_of(one)) is not None), None)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, bool):
        yield str(value).lower()
    elif isinstance(value, float) and value.is_integer():
        yield from (str(int(value)), str(value))
    elif isinstance(value, (str, int, float)):
        yield str(value)
    elif is_list(value):
        for one in value:
            yield from _texts(one)


_FIRST, _LAST = -62_135_596_800.0, 253_402_300_799.0
"""The years 1 and 9999: beyond them a number is no time."""


def seconds_of(value: object) -> float | None:
    """A point in time in seconds since 1970; numbers say their unit by their size."""
    found = None
    if isinstance(value, str) and not value.isdecimal():
        with suppress(ValueError):
            found = datetime.fromisoformat(value)
    if found is not None:
        moment = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    elif (number := as_score(value)) is None or number < 0:
        return None
    else:
        moment = next(number / parts for least, parts in _UNITS if number >= least)
    return moment if _FIRST <= moment <= _LAST else None


# --- the first of them, or a draw


class Selection(Record):
    """The first n cases, a random draw of n, or all.

    Raises:
        ConfigError: a number below 1, or both given.
    """

    limit: int | None = None
    sample: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.limit is not None and self.sample is not None:
            raise ConfigError("--limit and --sample exclude each other: give one of them")
        for name, value in (("--limit", self.limit), ("--sample", self.sample)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, not {value}")

    def apply(
        self, cases: Iterable[_ItemT], id_of: Callable[[_ItemT], str] = attrgetter("id")
    ) -> Iterator[_ItemT]:
        """The chosen cases.

        A draw takes the n cases with the smallest hash of seed and id: the same cases in whatever
        order the dataset stands, and when it grows, most of them again.
        """
        if self.sample is None:
            return islice(cases, self.limit)

        def rank(entry: tuple[int, _ItemT]) -> bytes:
            text = f"{self.seed}:{id_of(entry[1])}".encode("utf-8", "backslashreplace")
            return blake2b(text, digest_size=16).digest()

        drawn = heapq.nsmallest(self.sample, enumerate(cases), key=rank)
        return (case for _, case in sorted(drawn, key=lambda entry: entry[0]))


ALL_CASES = Selection()
