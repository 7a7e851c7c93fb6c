"""Points in time as metadata hold them: dates of any spelling, years that are years, ages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal

from ragbench.core.chunk import Chunk

Precision = Literal["year", "month", "day", "time"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECONDS_FROM = 1e11
"""Seconds would lie in the year 5138: such numbers are milliseconds ..."""
_MICROSECONDS_FROM = 1e14
_NANOSECONDS_FROM = 1e17
_YEARS = range(1000, 3000)
"""Whole numbers that are years: as seconds they would lie in the first hour of 1970."""
_DAYS = range(19_000_101, 21_001_232)
"""Whole numbers that may be a day such as 20240501: as seconds they would lie in 1970."""
_LONGEST = 64
"""Characters of a text that is read as a date."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownTime:
    """A point in time, as precise as it was given."""

    time: datetime
    """With a zone. Of a year, month or day its first moment, in UTC."""
    precision: Precision

    @property
    def shown(self) -> str:
        """The year, the month or the day, as in ISO 8601."""
        day = self.time.astimezone(UTC).date().isoformat()
        return {"year": day[:4], "month": day[:7]}.get(self.precision, day)


def known_time(value: object) -> KnownTime | None:
    """Reads a point in time, and how precise it is.

    Args:
        value: a `datetime`; a `date`; a year as a number or a text; a text in ISO 8601, RFC 2822
            or as people write dates ("May 3, 2024", "2023-05"; of two numbers that could both be
            the month, the first is); seconds, milliseconds, microseconds or nanoseconds since
            1970. Without a zone it is UTC.

    None when the value is nothing of the kind, or names no year.
    """
    if isinstance(value, datetime):
        return KnownTime(
            time=value if value.tzinfo else value.replace(tzinfo=UTC), precision="time"
        )
    if isinstance(value, date):
        return _of_day(value)
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _from_number(float(value))
    return _from_text(value.strip()) if isinstance(value, str) else None


def parse_time(value: object) -> datetime | None:
    """The point in time that `known_time` reads; None without one."""
    known = known_time(value)
    return None if known is None else known.time


def _of_day(day: date, precision: Precision = "day") -> KnownTime:
    return KnownTime(time=datetime(day.year, day.month, day.day, tzinfo=UTC), precision=precision)


def _from_number(number: float) -> KnownTime | None:
    if not math.isfinite(number):
        return None
    # An int: for a float, `in` looks through the whole range.
    whole = int(number) if number.is_integer() else -1
    if whole in _YEARS:
        return _of_day(date(whole, 1, 1), "year")
    if whole in _DAYS:
        try:
            return _of_day(date.fromisoformat(str(whole)))
        except ValueError:
            pass
    size, seconds = abs(number), number
    for limit, parts in (
        (_NANOSECONDS_FROM, 1e9),
        (_MICROSECONDS_FROM, 1e6),
        (_MILLISECONDS_FROM, 1e3),
    ):
        if size >= limit:
            seconds = number / parts
            break
    try:
        return KnownTime(time=_EPOCH + timedelta(seconds=seconds), precision="time")
    except OverflowError:
        return None


def _from_text(text: str) -> KnownTime | None:
    try:
        return _from_number(float(text))
    except ValueError:
        pass
    if len(text) > _LONGEST:
        return None
    try:
        return _of_day(date.fromisoformat(text))
    except ValueError:
        pass
    try:
        return known_time(datetime.fromisoformat(text))
    except ValueError:
        return _as_people_write(text)


def _as_people_write(text: str) -> KnownTime | None:
    """By dateutil. What a text leaves out comes from a default: two of them show what that is."""
    from dateutil import parser  # type: ignore[import-untyped]

    try:
        first, second = (
            parser.parse(text, default=datetime(year, month, day, hour))
            for year, month, day, hour in ((2000, 1, 1, 0), (2004, 3, 2, 1))
        )
    except (ValueError, OverflowError, TypeError):
        return None
    if first.year != second.year:
        return None
    if first.month != second.month:
        return _of_day(date(first.year, 1, 1), "year")
    if first.day != second.day:
        return _of_day(date(first.year, first.month, 1), "month")
    if first.hour != second.hour:
        return _of_day(first.date())
    return known_time(first)


def ages_in_hours(chunks: Sequence[Chunk], field: str, now: datetime | None) -> list[float | None]:
    """How old each chunk is. None for a chunk without a time."""
    times = [parse_time(chunk.metadata.get(field)) for chunk in chunks]
    known = [time for time in times if time is not None]
    if not known:
        return [None] * len(chunks)
    present = max(known) if now is None else parse_time(now) or max(known)
    return [
        None if time is None else max(0.0, (present - time).total_seconds() / 3600)
        for time in times
    ]


def age_text(known: KnownTime, now: datetime) -> str:
    """An age in words, no more precise than the time: "12 days old", "this year", "in 2 months"."""
    then, today = known.time.astimezone(UTC).date(), now.astimezone(UTC).date()
    if known.precision == "year":
        return _ago(today.year - then.year, "year", "this year")
    if known.precision == "month":
        months = 12 * (today.year - then.year) + today.month - then.month
        return _ago(months, "month", "this month")
    return _ago((today - then).days, "day", "today")


def _ago(count: int, unit: str, none: str) -> str:
    if count == 0:
        return none
    amount = f"{abs(count)} {unit if abs(count) == 1 else f'{unit}s'}"
    return f"{amount} old" if count > 0 else f"in {amount}"
