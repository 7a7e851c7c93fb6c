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
from ragbench.io.fields import field_names
from ragbench.io.source import Problems
from ragbench.io.values import as_object, as_score, is_list
from ragbench.safe_text import counted, shown_line

Values = Mapping[str, object]
RecordT = TypeVar("RecordT", bound=AnyRow)
_ItemT = TypeVar("_ItemT")
_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3), (0.0, 1.0))
"""The least number that is a time in nanoseconds, microseconds, milliseconds and seconds since
1970, with how many of these a second has."""
_SHOWN = 5
"""Names or values that a message lists; of more it says that there are more."""
_COUNTED = 10 * _SHOWN
"""Values of a field that are counted for a message, so that memory stays flat."""


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
    """A date or a time that is itself included; a date stands for the whole day."""
    where: Mapping[str, str] = field(default_factory=dict[str, str])
    """Field, of the record or its metadata (dots lead into objects), to its value."""

    def __post_init__(self) -> None:
        """Reads both times at once, so that a wrong one is refused before a source is opened.

        Both options are also compared: a beginning after the end would take no record.
        """
        begin, end = self.span
        if begin > end:
            raise ConfigError(f"--since {self.since} is after --until {self.until}")

    @property
    def span(self) -> tuple[float, float]:
        """The first and the last point in time of the wanted records, in seconds since 1970.

        Without a limit it is infinite, so that each record is within it.
        """
        begin = -float("inf")
        if self.since is not None:
            # A date alone begins at midnight, and as an end it lasts to its last moment.
            begin = _seconds_of_option(self.since, "--since", time.min)
        end = float("inf")
        if self.until is not None:
            end = _seconds_of_option(self.until, "--until", time.max)
        return begin, end

    @property
    def described(self) -> str:
        """The conditions for a record to be taken, in words, for notes and errors.

        Its words are those of the options, so that a user recognises what was asked for.
        """
        conditions: list[str] = []
        if self.since is not None:
            conditions.append(f"since {self.since}")
        if self.until is not None:
            conditions.append(f"until {self.until}")
        conditions += [f"where {name}={value}" for name, value in self.where.items()]
        return ", ".join(conditions)

    def of(self, records: Iterator[RecordT], problems: Problems, name: str) -> Iterator[RecordT]:
        """Yields the records that meet the conditions of time and of values.

        A record without a time is a problem where the conditions name a time.

        Raises:
            DataError: there are records, and none meets the conditions; says which there are.
        """
        begin, end = self.span
        is_timed = self.since is not None or self.until is not None
        conditions: list[tuple[str, str, Getter]] = []
        for field_path, value in self.where.items():
            conditions.append((field_path, value, getter(field_path)))
        seen = _SeenRecords(values={field_path: Counter() for field_path in self.where})
        for record in records:
            seconds = time_of(record.values) if is_timed else begin
            if seconds is None:
                seen.untimed += 1
                time_names = _shortened_list(field_names("time")["when"])
                message = f"says no time{{more}}: --since and --until need one ({time_names})"
                problems.add_kind("no time", message, path=record.path, line=record.line)
                continue
            seen.count += 1
            seen.earliest = min(seen.earliest, seconds)
            seen.latest = max(seen.latest, seconds)
            is_meant = begin <= seconds <= end
            # All conditions are looked at, as a message lists the values of each field.
            for field_path, value, find in conditions:
                texts = list(_texts_of_value(_value_at(record.values, field_path, find)))
                if value not in texts:
                    is_meant = False
                    counts = seen.values[field_path]
                    if len(counts) < _COUNTED:
                        counts.update(texts)
            if is_meant:
                seen.meant += 1
                yield record
        # A record without a time is a problem of its own, and might have been one of those meant.
        if seen.count and not seen.meant and not seen.untimed:
            problems.raise_if_any()
            message = f"none of {counted(seen.count, 'record')} is taken ({self.described})"
            contents = "; ".join(seen.contents(is_timed=is_timed))
            raise DataError([Problem(message=f"{message}: {contents}", path=name)])


@dataclass(kw_only=True, slots=True)
class _SeenRecords:
    """The times and values that records have, for the message that no record is meant."""

    values: dict[str, Counter[str]]
    """Path of a field in a condition, to how often it has which value that was not meant."""
    count: int = 0
    """Records that say a time, where one is needed."""
    meant: int = 0
    """Of these, how many meet the conditions."""
    untimed: int = 0
    """Records that say no time, where one is needed."""
    earliest: float = float("inf")
    """Of these records, in seconds since 1970; so is `latest`."""
    latest: float = -float("inf")

    def contents(self, *, is_timed: bool) -> Iterator[str]:
        """Yields, for the error that no record is taken, the values and times that records have.

        Next to the conditions, a user sees by it which of them is misspelled or too narrow.

        Args:
            is_timed: whether a condition names a time.
        """
        for field_path, counts in self.values.items():
            values = [shown_line(value) for value, _ in counts.most_common()]
            if values:
                yield f"'{field_path}' is {_shortened_list(values)}"
            else:
                yield f"none has '{field_path}'"
        if is_timed:
            yield f"they are from {_iso_time(self.earliest)} to {_iso_time(self.latest)}"


def _shortened_list(names: Sequence[str]) -> str:
    """The names or values of a list as one text, with three dots where there are more than five.

    A message stays a line or two, however many values a field has.
    """
    text = ", ".join(names[:_SHOWN])
    if len(names) > _SHOWN:
        text += " ..."
    return text


def _seconds_of_option(text: str, option: str, time_of_date: time) -> float:
    """The point in time that a user wrote after an option such as ``--since``, as seconds.

    Seconds are since 1970, like those of records.

    Args:
        text: a date or a time as the user wrote it; in UTC where it names no zone.
        option: the option's name, for the error.
        time_of_date: the time of the day that is meant where the text is a date alone.

    Raises:
        ConfigError: the text is neither.
    """
    text_of_time = text.strip()
    try:
        moment = datetime.fromisoformat(text_of_time)
    except ValueError:
        raise ConfigError(
            f"{option} {text}: expected a date or a time, such as 2026-09-21 or 2026-09-21T10:00Z"
        ) from None
    # ISO 8601 also writes 20260921, which is shorter.
    is_date = len(text_of_time) <= len("2026-09-21")
    if is_date:
        moment = datetime.combine(moment, time_of_date)
    return _seconds_since_1970(moment)


def _seconds_since_1970(moment: datetime) -> float:
    """A point in time in seconds; without a zone it is read as UTC, so that each machine agrees.

    Records of several systems are compared by it.
    """
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


def _iso_time(seconds: float) -> str:
    """A point in time as a message shows it, in the form that ``--since`` takes.

    So a user can copy it from the message into the next command.
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _value_at(values: object, field_path: str, find: Callable[[object], object]) -> object:
    """The value of a record that a condition on a field compares; None if it has no such field.

    The value is at a path of the record, or else of its metadata, where readers put fields that are
    none of ragbench's. ``feedback.NAME`` gives the values of all feedback of that name: the reader
    of traces lists feedback in a case's metadata, each with its name and value.

    Args:
        field_path: as the user wrote it, such as ``user`` or ``session.id``.
        find: the function that `getter` makes of that path, once for all records.
    """
    metadata = as_object(values).get("metadata")
    top_name, _, feedback_name = field_path.partition(".")
    if top_name == "feedback":
        feedback = as_object(metadata).get("feedback")
        if is_list(feedback):
            feedback_values: list[object] = []
            for item in map(as_object, feedback):
                if item.get("name") == feedback_name:
                    feedback_values.append(item.get("value"))
            return feedback_values
    value = find(values)
    if value is None:
        value = find(metadata)
    return value


def time_of(values: object) -> float | None:
    """When a record was made, in seconds since 1970; None where no field of it holds a time.

    Fields of the record and of its metadata are tried by the names that are known for times; the
    first that holds one counts.
    """
    record = as_object(values)
    metadata = as_object(record.get("metadata"))
    for name in field_names("time")["when"]:
        for place in (record, metadata):
            seconds = seconds_of(place.get(name))
            if seconds is not None:
                return seconds
    return None


def _texts_of_value(value: object) -> Iterator[str]:
    """Yields the texts that a user may write for a value; of a list, those of each item.

    A condition comes as text from the command line: ``--where score=1`` means 1, 1.0 and "1".
    """
    if isinstance(value, bool):
        yield str(value).lower()
    elif isinstance(value, float) and value.is_integer():
        # A whole number is a float where a table has empty cells beside it.
        yield str(int(value))
        yield str(value)
    elif isinstance(value, (str, int, float)):
        yield str(value)
    elif is_list(value):
        for item in value:
            yield from _texts_of_value(item)


_EARLIEST = -62_135_596_800.0
"""The beginning of the year 1: before it a number is no time."""
_LATEST = 253_402_300_799.0
"""The end of the year 9999: after it a number is no time."""


def seconds_of(value: object) -> float | None:
    """A point in time in seconds since 1970; None for a value that is no time.

    Texts are dates of ISO 8601, or numbers; numbers say their unit by their size.
    """
    moment: datetime | None = None
    # Digits alone are a number of seconds: Python would take 20260921 for a date.
    if isinstance(value, str) and not value.isdecimal():
        with suppress(ValueError):
            moment = datetime.fromisoformat(value)
    if moment is not None:
        seconds = _seconds_since_1970(moment)
    else:
        number = as_score(value)
        if number is None or number < 0:
            return None
        parts_of_second = next(parts for least, parts in _UNITS if number >= least)
        seconds = number / parts_of_second
    if not _EARLIEST <= seconds <= _LATEST:
        return None
    return seconds


# --- the first of them, or a draw


class Selection(Record):
    """The first n cases, a random draw of n, or all.

    Raises:
        ConfigError: a number below 1, or both given.
    """

    limit: int | None = None
    """How many cases are taken from the beginning."""
    sample: int | None = None
    """How many cases are drawn."""
    seed: int = 0
    """Of the draw."""

    def __post_init__(self) -> None:
        """Refuses ``--limit`` together with ``--sample``, and a number of cases below 1.

        Both are options of the command line; a wrong one is refused before any file is read.
        """
        if self.limit is not None and self.sample is not None:
            raise ConfigError("--limit and --sample exclude each other: give one of them")
        for name, value in (("--limit", self.limit), ("--sample", self.sample)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, not {value}")

    def apply(
        self, cases: Iterable[_ItemT], id_of: Callable[[_ItemT], str] = attrgetter("id")
    ) -> Iterator[_ItemT]:
        """Yields the chosen cases: the first ones, a random draw, or all.

        A draw takes the n cases with the smallest hash of seed and id: the same cases in whatever
        order the dataset is, and most of them again when it grows.

        Args:
            id_of: gives the id of a case, where the cases are in some wrapper.
        """
        if self.sample is None:
            return islice(cases, self.limit)
        drawn = heapq.nsmallest(
            self.sample,
            enumerate(cases),
            key=lambda numbered_case: self._lot_of(id_of(numbered_case[1])),
        )
        # Back into the order of the dataset; cases need not be comparable.
        drawn.sort(key=lambda numbered_case: numbered_case[0])
        return (case for _, case in drawn)

    def _lot_of(self, id: str) -> bytes:
        """The lot of a case in the draw: a hash of the seed and the case's id.

        The same in each run with the seed, on any machine: with another hash, a draw with the same
        seed would take other cases than it did in earlier runs.
        """
        text = f"{self.seed}:{id}".encode("utf-8", "backslashreplace")
        return blake2b(text, digest_size=16).digest()


ALL_CASES = Selection()
