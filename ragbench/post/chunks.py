"""Chunks with new texts, numbered for a model, as plain mappings; the times that they hold."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from numbers import Real
from typing import Any, Literal, cast

from ragbench.core.chat import Message, task_messages
from ragbench.core.chunk import Chunk
from ragbench.core.record import Record, replace
from ragbench.errors import InputError
from ragbench.io.only import seconds_of
from ragbench.io.values import is_list
from ragbench.llm.schema import Schema, field_schema
from ragbench.post.operator import Query, RankedChunk
from ragbench.text.sentences import Span
from ragbench.text.tables import table


def asked_of(prompt: str, question: str, chunks: Sequence[RankedChunk]) -> list[Message]:
    """A task of ``prompts.toml`` with the question and the passages, numbered from 1.

    They come as JSON: no text can pass for an order.
    """
    passages = [{"number": at, "text": one.chunk.text} for at, one in enumerate(chunks, start=1)]
    data = json.dumps({"question": question, "passages": passages}, ensure_ascii=False)
    return task_messages(table("ragbench.text", "prompts")[prompt], data)


def numbers_schema(key: str, count: int) -> Schema[list[int]]:
    """The form of an answer that names passages, such as ``{"keep": [1, 3]}``."""

    def check(value: object) -> list[int]:
        if not is_list(value):
            raise ValueError(f"'{key}' is not a list")
        for number in value:
            if type(number) is not int or not 1 <= number <= count:
                raise ValueError(f"'{key}' names passage {number!r}; there are {count}")
        return cast("list[int]", value)

    return field_schema(key, {"type": "array", "items": {"type": "integer"}}, check)


DERIVED = "derived"
"""The metadata key of the list of changes that a text went through, oldest first."""


def rewritten(entry: RankedChunk, text: str, *, by: str, more: Sequence[str] = ()) -> RankedChunk:
    """A chunk with another text. Id, document, offsets and metadata are those of the origin."""
    change = {"by": by, "from": [entry.chunk.id, *more]}
    return replace(entry, chunk=replace(entry.chunk, text=text, metadata=_with(entry, change)))


def rewritten_by(
    name: str, chunks: Sequence[RankedChunk], text_of: Callable[[RankedChunk], str | None]
) -> list[RankedChunk]:
    """The chunks with the texts that a function gives them; one that it gives None stays."""
    texts = ((entry, text_of(entry)) for entry in chunks)
    return [entry if text is None else rewritten(entry, text, by=name) for entry, text in texts]


def sliced(entry: RankedChunk, spans: Sequence[Span], *, by: str) -> RankedChunk:
    """A chunk with some stretches of its text; the same object when that is all of it.

    Where the origin knows its offsets in its document, so does the result: from the first
    character kept to the last. Each stretch, as ``[start, end]`` in the origin's text, is in the
    metadata.
    """
    chunk = entry.chunk
    text = " ".join([chunk.text[span.start : span.end] for span in spans])
    if text == chunk.text:
        return entry
    change = {"by": by, "from": [chunk.id], "spans": [[span.start, span.end] for span in spans]}
    start, end = chunk.start, chunk.end
    if start is not None and end is not None and end - start == len(chunk.text):
        start, end = start + spans[0].start, start + spans[-1].end
    new = replace(chunk, text=text, start=start, end=end, metadata=_with(entry, change))
    return replace(entry, chunk=new)


def made_from(origins: Sequence[RankedChunk], text: str, *, id: str, by: str) -> RankedChunk:
    """A chunk that stands for several: it has no score and no place of its own in retrieval."""
    change: dict[str, Any] = {"by": by, "from": [entry.chunk.id for entry in origins]}
    documents = {entry.chunk.document_id for entry in origins}
    return RankedChunk(
        chunk=Chunk(
            id=id,
            text=text,
            document_id=documents.pop() if len(documents) == 1 else None,
            metadata={DERIVED: [change]},
        ),
        score=None,
        rank=1,
        initial_score=None,
        initial_rank=None,
    )


def _with(entry: RankedChunk, change: dict[str, Any]) -> dict[str, Any]:
    before = entry.chunk.metadata.get(DERIVED)
    earlier: list[Any] = [*before] if isinstance(before, list) else []
    return {**entry.chunk.metadata, DERIVED: [*earlier, change]}


_IDS = ("id", "entry_id", "node_id")


def query_of(data: Mapping[str, Any]) -> Query:
    question = data.get("question", "")
    if not isinstance(question, str):
        raise InputError(f"question must be a text, not {type(question).__name__}")
    now = data.get("now")
    time = None if now is None else parse_time(now)
    if now is not None and time is None:
        raise InputError(f"now must be a time, such as 2025-01-31T12:00:00Z, not {now!r}")
    return Query(text=question, embedding=data.get("query_embedding"), now=time)


def chunks_of(data: Mapping[str, Any]) -> list[Chunk]:
    """The items of ``memory_data`` as chunks; each has an id that no other one has.

    An item without an id is named by its position, one whose id another item has by both; each
    differs from all ids that were given.
    """
    items: Any = data.get("memory_data") or []
    if isinstance(items, (str, bytes)) or not isinstance(items, Sequence):
        raise InputError(f"memory_data must be a list, not {type(items).__name__}")
    chunks = [_chunk(at, item) for at, item in enumerate(cast("Sequence[Any]", items))]
    taken, known = {chunk.id for chunk in chunks}, {""}
    for at, chunk in enumerate(chunks):
        wanted = chunk.id
        if wanted in known:
            wanted = f"{wanted}#{at}" if wanted else str(at)
            while wanted in taken:
                wanted += "'"
            chunks[at] = replace(chunk, id=wanted)
        taken.add(wanted)
        known.add(wanted)
    return chunks


def written_back(
    data: Mapping[str, Any],
    given: Sequence[Chunk],
    chunks: Sequence[RankedChunk],
    score_field: str | None,
) -> list[dict[str, Any]]:
    """Chunks as items: an item that came in with its other keys, text and score updated."""
    items: dict[str, Mapping[str, Any]] = {
        chunk.id: item for chunk, item in zip(given, data.get("memory_data") or [], strict=True)
    }
    written: list[dict[str, Any]] = []
    for entry in chunks:
        item = items.get(entry.chunk.id, {"id": entry.chunk.id})
        new = {**item, "text": entry.chunk.text, "metadata": entry.chunk.metadata}
        if entry.score is not None or "score" in item:
            new["score"] = entry.score
        if score_field is not None and entry.score is not None:
            new["metadata"] = {**entry.chunk.metadata, score_field: entry.score}
        written.append(new)
    return written


def _chunk(position: int, item: object) -> Chunk:
    where = f"memory_data[{position}]"
    known = _mapping(item, where)
    metadata = _mapping(known.get("metadata") or {}, f"{where}: metadata")
    text, score = known.get("text"), known.get("score")
    if not isinstance(text, str):
        raise InputError(f"{where}: text must be a text, not {type(text).__name__}")
    # numpy's numbers are `Real` or `Integral`, too, and none of them is a bool of Python's.
    if score is not None and (
        isinstance(score, bool) or not isinstance(score, Real) or not math.isfinite(score)
    ):
        raise InputError(f"{where}: score must be a finite number, not {score!r}")
    ids = (place.get(key) for place in (known, metadata) for key in _IDS)
    return Chunk(
        id=next((str(one) for one in ids if one not in (None, "")), ""),
        text=text,
        score=None if score is None else float(score),
        document_id=metadata.get("document_id"),
        metadata=metadata,
    )


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{where} must be a mapping, not {type(value).__name__}")
    return cast("Mapping[str, Any]", value)


Precision = Literal["year", "month", "day", "time"]

_YEARS = range(1000, 3000)
"""Whole numbers that are years: as seconds they would lie in the first hour of 1970."""
_DAYS = range(19_000_101, 21_001_232)
"""Whole numbers that may be a day such as 20240501: as seconds they would lie in 1970."""
_LONGEST = 64
"""Characters of a text that is read as a date."""


class KnownTime(Record):
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
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return KnownTime(time=aware, precision="time")
    if isinstance(value, date):
        return _of_day(value)
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _from_number(float(value))
    return _from_text(value.strip()) if isinstance(value, str) else None


def parse_time(value: object) -> datetime | None:
    known = known_time(value)
    return None if known is None else known.time


def _of_day(day: date, precision: Precision = "day") -> KnownTime:
    return KnownTime(time=datetime(day.year, day.month, day.day, tzinfo=UTC), precision=precision)


def _from_number(number: float) -> KnownTime | None:
    # An int: for a float, `in` looks through the whole range.
    whole = int(number) if number.is_integer() else -1
    if whole in _YEARS:
        return _of_day(date(whole, 1, 1), "year")
    with suppress(ValueError, OverflowError):
        if whole in _DAYS:
            return _of_day(date.fromisoformat(str(whole)))
    moment = seconds_of(number)
    return None if moment is None else known_time(datetime.fromtimestamp(moment, UTC))


def _from_text(text: str) -> KnownTime | None:
    with suppress(ValueError):
        return _from_number(float(text))
    if len(text) > _LONGEST:
        return None
    with suppress(ValueError):
        return _of_day(date.fromisoformat(text))
    with suppress(ValueError):
        return known_time(datetime.fromisoformat(text))
    from dateutil import parser  # type: ignore[import-untyped]

    # What a text leaves out comes from a default: two of them show what that is.
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
    return _of_day(first.date()) if first.hour != second.hour else known_time(first)


def ages_in_hours(chunks: Sequence[Chunk], field: str, now: datetime | None) -> list[float | None]:
    times = [parse_time(chunk.metadata.get(field)) for chunk in chunks]
    newest = max((time for time in times if time is not None), default=None)
    present = parse_time(now) or newest
    return [
        max(0.0, (present - time).total_seconds() / 3600) if present and time else None
        for time in times
    ]


def age_text(known: KnownTime, now: datetime) -> str:
    """An age in words, no more precise than the time: "12 days old", "this year", "in 2 months"."""
    then, today = known.time.astimezone(UTC).date(), now.astimezone(UTC).date()
    months = 12 * (today.year - then.year) + today.month - then.month
    count, unit, none = {
        "year": (today.year - then.year, "year", "this year"),
        "month": (months, "month", "this month"),
    }.get(known.precision, ((today - then).days, "day", "today"))
    if count == 0:
        return none
    amount = f"{abs(count)} {unit if abs(count) == 1 else f'{unit}s'}"
    return f"{amount} old" if count > 0 else f"in {amount}"
