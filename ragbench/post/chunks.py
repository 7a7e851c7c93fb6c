"""Chunks with new texts, numbered for a model, as plain mappings; the times that they hold."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import partial
from numbers import Real
from typing import Any, Literal, cast

from ragbench.core.chat import Message, task_messages
from ragbench.core.chunk import Chunk
from ragbench.core.readable_metadata import DERIVED
from ragbench.core.record import Record, replace
from ragbench.errors import InputError
from ragbench.io.only import seconds_of
from ragbench.io.values import is_list
from ragbench.llm.schema import Schema, field_schema
from ragbench.post.operator import Query, RankedChunk
from ragbench.text.sentences import Span
from ragbench.text.tables import table

# --- chunks before a language model


def passages_task(prompt: str, question: str, chunks: Sequence[RankedChunk]) -> list[Message]:
    """A task of ``prompts.toml`` for a language model, with the question and the numbered passages.

    Passages are numbered from 1, and come as JSON: no text can pass for an order.

    Args:
        prompt: the name of the task in ``prompts.toml``.
    """
    passages: list[dict[str, object]] = []
    for number, entry in enumerate(chunks, start=1):
        passages.append({"number": number, "text": entry.chunk.text})
    data = json.dumps({"question": question, "passages": passages}, ensure_ascii=False)
    prompts = table("ragbench.text", "prompts")
    return task_messages(prompts[prompt], data)


def numbers_schema(key: str, count: int) -> Schema[list[int]]:
    """The form of an answer that names passages, such as ``{"keep": [1, 3]}``.

    The model gets the form with its task, and its answer is checked by it.

    Args:
        count: how many passages there are.
    """
    numbers = {"type": "array", "items": {"type": "integer"}}
    return field_schema(key, numbers, partial(_checked_numbers, key, count))


def _checked_numbers(key: str, count: int, value: object) -> list[int]:
    """The numbers of passages that a model's answer names under a key.

    Args:
        count: how many passages there are, numbered from 1.

    Raises:
        ValueError: it is no such list, or names a passage that is not there: the model is then
            asked again, with this message.
    """
    if not is_list(value):
        raise ValueError(f"'{key}' is not a list")
    for number in value:
        # `type`, because true is an int, too, and no number of a passage.
        if type(number) is not int or not 1 <= number <= count:
            raise ValueError(f"'{key}' names passage {number!r}; there are {count}")
    return cast("list[int]", value)


# --- chunks with new texts


def rewritten(
    entry: RankedChunk, text: str, *, by: str, also_from: Sequence[str] = ()
) -> RankedChunk:
    """A chunk with another text. Id, document, offsets and metadata are those of the origin.

    The metadata says who wrote the text, and of which chunks: a report can show where it is from.

    Args:
        by: name of the operator that wrote the text.
        also_from: ids of further chunks that the text was made of.
    """
    change = {"by": by, "from": [entry.chunk.id, *also_from]}
    metadata = _metadata_with_change(entry, change)
    chunk = replace(entry.chunk, text=text, metadata=metadata)
    return replace(entry, chunk=chunk)


def rewritten_by(
    name: str, chunks: Sequence[RankedChunk], text_of: Callable[[RankedChunk], str | None]
) -> list[RankedChunk]:
    """The chunks with the texts that a function gives them; one that it gives None stays.

    Args:
        name: of the operator, for the chunk's list of changes.
    """
    entries: list[RankedChunk] = []
    for entry in chunks:
        text = text_of(entry)
        entries.append(entry if text is None else rewritten(entry, text, by=name))
    return entries


def sliced(entry: RankedChunk, spans: Sequence[Span], *, by: str) -> RankedChunk:
    """A chunk with some stretches of its text; the same object when that is all of it.

    Where the origin knows its offsets in its document, so does the result: from the first
    character kept to the last. Each stretch, as ``[start, end]`` in the origin's text, is in the
    metadata.
    """
    chunk = entry.chunk
    stretches = [chunk.text[span.start : span.end] for span in spans]
    text = " ".join(stretches)
    if text == chunk.text:
        return entry
    start = chunk.start
    end = chunk.end
    # Offsets of another length than the text's are those of something else: they stay.
    if start is not None and end is not None and end - start == len(chunk.text):
        end = start + spans[-1].end
        start += spans[0].start
    places = [[span.start, span.end] for span in spans]
    change = {"by": by, "from": [chunk.id], "spans": places}
    metadata = _metadata_with_change(entry, change)
    shortened = replace(chunk, text=text, start=start, end=end, metadata=metadata)
    return replace(entry, chunk=shortened)


def made_from(origins: Sequence[RankedChunk], text: str, *, id: str, by: str) -> RankedChunk:
    """A chunk whose text an operator made of several, such as a summary.

    It has no score and no place of its own in retrieval. Its metadata name the origins, and its
    document where all share it.

    Args:
        id: of the new chunk.
        by: name of the operator.
    """
    origin_ids = [entry.chunk.id for entry in origins]
    change: dict[str, Any] = {"by": by, "from": origin_ids}
    document_id = None
    document_ids = {entry.chunk.document_id for entry in origins}
    if len(document_ids) == 1:  # of several documents none can be named
        (document_id,) = document_ids
    chunk = Chunk(id=id, text=text, document_id=document_id, metadata={DERIVED: [change]})
    return RankedChunk(chunk=chunk, score=None, rank=1, initial_score=None, initial_rank=None)


def _metadata_with_change(entry: RankedChunk, change: dict[str, Any]) -> dict[str, Any]:
    """A chunk's metadata with one more change at the end of the list of its changes.

    Args:
        change: the operator that wrote the text (``by``), and ids of the chunks it is from
            (``from``). Reports and stored steps read these keys.
    """
    metadata = entry.chunk.metadata
    earlier_changes: list[Any] = []
    value = metadata.get(DERIVED)
    # The key may be the user's own, with a value that is no list: it is overwritten.
    if isinstance(value, list):
        earlier_changes = cast("list[Any]", value)
    return {**metadata, DERIVED: [*earlier_changes, change]}


# --- chunks as the items of a mapping, for `ragbench.post.stage.PostRetrieval.execute`

_ID_KEYS = ("id", "entry_id", "node_id")
"""Keys under which items have their id; the first one with a value counts."""


def query_of(data: Mapping[str, Any]) -> Query:
    """The question of a mapping, as `PostRetrieval.execute` takes it, for the operators.

    With it come its embedding and the time that ages are counted from, where they are there.

    Raises:
        InputError: the question is no text, or ``now`` is no time.
    """
    question = data.get("question", "")
    if not isinstance(question, str):
        raise InputError(f"question must be a text, not {type(question).__name__}")
    now = data.get("now")
    time = None
    if now is not None:
        time = parse_time(now)
        if time is None:
            raise InputError(f"now must be a time, such as 2025-01-31T12:00:00Z, not {now!r}")
    return Query(text=question, embedding=data.get("query_embedding"), now=time)


def chunks_of(data: Mapping[str, Any]) -> list[Chunk]:
    """The items of ``memory_data`` in a user's mapping as chunks; each has an id of its own.

    An item without an id is named by its position, one whose id another item has by both; each
    differs from all ids that were given.
    """
    items: Any = data.get("memory_data") or []
    if isinstance(items, (str, bytes)) or not isinstance(items, Sequence):
        raise InputError(f"memory_data must be a list, not {type(items).__name__}")
    chunks: list[Chunk] = []
    for position, item in enumerate(cast("Sequence[Any]", items)):
        chunks.append(chunk_of(item, f"memory_data[{position}]"))
    all_ids = {chunk.id for chunk in chunks}
    earlier_ids = {""}  # an item without an id has an empty one
    for position, chunk in enumerate(chunks):
        id = chunk.id
        if id in earlier_ids:
            id = f"{id}#{position}" if id else str(position)
            while id in all_ids:  # another item may have this very id
                id += "'"
            chunks[position] = replace(chunk, id=id)
        all_ids.add(id)
        earlier_ids.add(id)
    return chunks


def written_back(
    data: Mapping[str, Any],
    originals: Sequence[Chunk],
    chunks: Sequence[RankedChunk],
    score_field: str | None,
) -> list[dict[str, Any]]:
    """Chunks as items of a user's mapping again: each with its other keys, text and score updated.

    Args:
        data: the mapping that came in.
        originals: its chunks, as `chunks_of` made them.
        chunks: what post-retrieval left.
        score_field: the metadata key under which each score is written, too.
    """
    item_of_id: dict[str, Mapping[str, Any]] = {}
    for chunk, item in zip(originals, data.get("memory_data") or [], strict=True):
        item_of_id[chunk.id] = item
    new_items: list[dict[str, Any]] = []
    for entry in chunks:
        chunk = entry.chunk
        # A chunk that an operator added came from no item.
        item = item_of_id.get(chunk.id, {"id": chunk.id})
        new_item = {**item, "text": chunk.text, "metadata": chunk.metadata}
        # An item that had none gets none; one that had one loses a score that no longer holds.
        if entry.score is not None or "score" in item:
            new_item["score"] = entry.score
        if score_field is not None and entry.score is not None:
            new_item["metadata"] = {**chunk.metadata, score_field: entry.score}
        new_items.append(new_item)
    return new_items


def chunk_of(item: object, where: str) -> Chunk:
    """A chunk of an item whose fields a user's own program wrote: each is checked.

    Its id is empty where the item names none.

    Mappings of `PostRetrieval.execute` and of chunk services have such items.

    Raises:
        InputError: a field has another type.

    Args:
        where: the item's place, for errors.
    """
    values = _as_mapping(item, where)
    metadata = _as_mapping(values.get("metadata") or {}, f"{where}: metadata")
    text = values.get("text")
    if not isinstance(text, str):
        raise InputError(f"{where}: text must be a text, not {type(text).__name__}")
    score = values.get("score")
    if score is not None:
        # A bool of Python is a `Real`, too. numpy's numbers are, and its bools are not.
        if isinstance(score, bool) or not isinstance(score, Real) or not math.isfinite(score):
            raise InputError(f"{where}: score must be a finite number, not {score!r}")
        # As a plain float: JSON and stores know no other kinds.
        score = float(score)
    id = _id_in(values) or _id_in(metadata)
    return Chunk(
        id=id,
        text=text,
        score=score,
        document_id=metadata.get("document_id"),
        metadata=metadata,
    )


def _id_in(values: Mapping[str, Any]) -> str:
    """The id that an item of a user's, or its metadata, names; empty where it names none.

    Programs name it ``id``, ``entry_id`` or ``node_id``.
    """
    for key in _ID_KEYS:
        id = values.get(key)
        # Not falsy: 0 is an id, too.
        if id not in (None, ""):
            return str(id)
    return ""


def _as_mapping(value: object, where: str) -> Mapping[str, Any]:
    """The value where it is a mapping; else raises an error with its place in the user's data.

    Args:
        where: that place, such as ``memory_data[3]``.
    """
    if not isinstance(value, Mapping):
        raise InputError(f"{where} must be a mapping, not {type(value).__name__}")
    return cast("Mapping[str, Any]", value)


# --- times in chunks' metadata

Precision = Literal["year", "month", "day", "time"]
"""How precise a point in time is: a text may name only its year, month or day."""

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
        """The known year, month or day as text in ISO 8601, no more precise than it was given.

        A date in a prompt must not look more exact than it is known.
        """
        day = self.time.astimezone(UTC).date().isoformat()
        if self.precision == "year":
            return day[:4]
        if self.precision == "month":
            return day[:7]
        return day


def known_time(value: object) -> KnownTime | None:
    """Reads a point in time, and how precise it is.

    Args:
        value: a `datetime`; a `date`; a year as a number or a text; a text in ISO 8601, RFC 2822
            or as people write dates ("May 3, 2024", "2023-05"; of two numbers that could both be
            the month, the first is); seconds, milliseconds, microseconds or nanoseconds since
            1970. Without a zone it is UTC.

    None when the value is nothing of the kind, or names no year.
    """
    # A datetime is a date, and a bool an int: the narrower kind is looked for first.
    if isinstance(value, datetime):
        time = value
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return KnownTime(time=time, precision="time")
    if isinstance(value, date):
        return _time_of_day(value)
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _time_of_number(float(value))
    if isinstance(value, str):
        return _time_of_text(value.strip())
    return None


def parse_time(value: object) -> datetime | None:
    """The point in time that `known_time` reads; None when the value names none.

    Ages are counted from it, whatever its precision.
    """
    known_point = known_time(value)
    if known_point is None:
        return None
    return known_point.time


def _time_of_day(day: date, precision: Precision = "day") -> KnownTime:
    """The first moment of a day, in UTC, as a known time.

    Args:
        precision: how much of the day was given: of a year alone, it is the first of January.
    """
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return KnownTime(time=midnight, precision=precision)


def _time_of_number(number: float) -> KnownTime | None:
    """The point in time that a number in metadata means.

    It is a year, a day such as 20240501, or a time since 1970. Years and days are tried first: as
    seconds they would lie in 1970.
    """
    if number.is_integer():
        # An int: for a float, `in` looks through the whole range.
        whole = int(number)
        if whole in _YEARS:
            return _time_of_day(date(whole, 1, 1), "year")
        if whole in _DAYS:
            with suppress(ValueError):  # 20241399 is no day
                return _time_of_day(date.fromisoformat(str(whole)))
    seconds = seconds_of(number)
    if seconds is None:
        return None
    time = datetime.fromtimestamp(seconds, UTC)
    return KnownTime(time=time, precision="time")


def _time_of_text(text: str) -> KnownTime | None:
    """The point in time that a text names, read by the strictest form first: the last one guesses.

    None where the text names no year.
    """
    # Digits alone are what the same number would be: a year, a day or a time since 1970.
    with suppress(ValueError):
        return _time_of_number(float(text))
    if len(text) > _LONGEST:
        return None
    with suppress(ValueError):
        return _time_of_day(date.fromisoformat(text))
    with suppress(ValueError):
        return known_time(datetime.fromisoformat(text))
    # Loaded late: few texts come this far.
    from dateutil import parser  # type: ignore[import-untyped]

    # The parser takes what a text leaves out from a default. Where two defaults that differ in
    # everything give different values, the text did not say it. Both years are leap years, so that
    # 29 February is a day in each.
    try:
        time = parser.parse(text, default=datetime(2000, 1, 1, 0))
        time_by_second_default = parser.parse(text, default=datetime(2004, 3, 2, 1))
    except (ValueError, OverflowError, TypeError):
        return None
    if time.year != time_by_second_default.year:
        return None
    if time.month != time_by_second_default.month:
        return _time_of_day(date(time.year, 1, 1), "year")
    if time.day != time_by_second_default.day:
        return _time_of_day(date(time.year, time.month, 1), "month")
    if time.hour != time_by_second_default.hour:
        return _time_of_day(time.date())
    return known_time(time)


def ages_in_hours(chunks: Sequence[Chunk], field: str, now: datetime | None) -> list[float | None]:
    """The age of each chunk in hours, at least 0; None where its metadata have no time.

    Without ``now`` the newest chunk has the age 0.

    Args:
        field: the metadata key of the time.
    """
    times = [parse_time(chunk.metadata.get(field)) for chunk in chunks]
    present = parse_time(now)
    if present is None:
        present = max((time for time in times if time is not None), default=None)
    ages: list[float | None] = []
    for time in times:
        if present is None or time is None:
            ages.append(None)
            continue
        hours = (present - time).total_seconds() / 3600
        ages.append(max(0.0, hours))  # a date in the future is no age
    return ages


def age_text(known: KnownTime, now: datetime) -> str:
    """A chunk's age in words, no more precise than its time: "12 days old", "this year".

    A time in the future is "in 2 months".
    """
    date_then = known.time.astimezone(UTC).date()
    today = now.astimezone(UTC).date()
    # Whole calendar years, months or days: a part of one would say more than is known.
    years = today.year - date_then.year
    if known.precision == "year":
        age = years
        unit = "year"
        text_for_now = "this year"
    elif known.precision == "month":
        age = 12 * years + today.month - date_then.month
        unit = "month"
        text_for_now = "this month"
    else:
        age = (today - date_then).days
        unit = "day"
        text_for_now = "today"
    # The time may be the present year or month, of which no day is known.
    if age == 0:
        return text_for_now
    if abs(age) != 1:
        unit += "s"
    amount = f"{abs(age)} {unit}"
    if age < 0:
        return f"in {amount}"
    return f"{amount} old"
