"""Points in time as they stand in metadata, and ages counted from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

from ragbench.records.corpus import Chunk

__all__ = ["ages_in_hours", "parse_time"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECONDS_FROM = 1e11
"""Seconds would lie in the year 5138: such numbers are milliseconds."""


def parse_time(value: object) -> datetime | None:
    """Reads a point in time.

    Args:
        value: a `datetime`, a `date` (its midnight), a text in ISO 8601, or seconds or
            milliseconds since 1970 as a number or a text. Without a time zone it is UTC.

    Returns:
        The time, with a zone; None when the value is nothing of the kind.
    """
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _since_epoch(float(value))
    return _from_text(value.strip()) if isinstance(value, str) else None


def ages_in_hours(chunks: Sequence[Chunk], field: str, now: datetime | None) -> list[float | None]:
    """How old each chunk is.

    Args:
        chunks: the chunks.
        field: the field of their metadata that holds the time.
        now: what ages are counted from; None for the newest time among the chunks.

    Returns:
        Hours, at least 0 (a time in the future counts as now); None for a chunk without a time.
    """
    times = [parse_time(chunk.metadata.get(field)) for chunk in chunks]
    known = [time for time in times if time is not None]
    if not known:
        return [None] * len(chunks)
    present = max(known) if now is None else parse_time(now) or max(known)
    return [
        None if time is None else max(0.0, (present - time).total_seconds() / 3600)
        for time in times
    ]


def _from_text(text: str) -> datetime | None:
    try:
        return parse_time(datetime.fromisoformat(text))
    except ValueError:
        pass
    try:
        return _since_epoch(float(text))
    except ValueError:
        return None


def _since_epoch(number: float) -> datetime | None:
    if not math.isfinite(number):
        return None
    seconds = number / 1000 if abs(number) >= _MILLISECONDS_FROM else number
    try:
        return _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return None
