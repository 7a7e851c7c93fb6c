"""A chunk as stores keep it; one order of results.

Every implementation agrees on the following, and one contract suite holds them to it.

- A score is the cosine similarity of query and chunk, in [-1, 1], higher is better, rounded to six
  decimals (float32 carries no more). A vector of zeros has similarity 0 to everything.
- Results are ordered by score, then by id (code points); which of several equally good chunks make
  the cut follows from that order, too, and not from the engine.
- An id is any text without NUL characters that is not empty, at most `MAX_ID` bytes of UTF-8 long.
- A chunk comes back as it was given: id, text, document id, offsets and metadata, which may be
  any JSON. Its ``score`` is not stored.
- Filters mean what `ragbench.core.filters.matches` says, and the store executes them.
- A write is visible to the next read, and is kept when the method has returned (the store
  ``memory`` writes its folder in `VectorStore.mark` and `VectorStore.close` only).
- Errors are `ragbench.errors.StoreError`: one line that names the address without its password.

Stores differ in what their metadata can hold: Chroma takes scalars only, PostgreSQL refuses NUL
characters, Qdrant turns long integers into floats, ids have types and lengths. So each store keeps
the whole chunk as one text, which comes back unchanged, and beside it only two things for filters:

- labels, one a value: a digest of the field's name and the value, equal exactly when
  `ragbench.core.filters` calls the values equal. Equality is then membership, everywhere; that a
  field is there is a label, too, and a field within an object has its dotted name.
  Which numbers there are is said by labels, too, for engines where denying a comparison with what
  is missing is not true;
- numbers, one a field: its number, or its date in milliseconds, under a name made of the field's.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import orjson

from ragbench.core.chunk import Chunk, stored_chunk
from ragbench.core.filters import (
    Equals,
    Exists,
    In,
    equality_key,
    equality_keys,
    field_values,
    instant,
    number,
)
from ragbench.errors import StoreError

__all__ = [
    "Fetch",
    "Ranked",
    "StoredChunk",
    "check_id",
    "chunk_digest",
    "decode",
    "encode",
    "label",
    "number_name",
    "searched_fields",
    "similarity",
    "top_k",
    "wanted_labels",
]

MAX_ID = 2048

"""The longest id, in bytes of UTF-8; what PostgreSQL can keep in an index."""


class Ranked(Protocol):
    """A chunk, or what becomes one."""

    @property
    def id(self) -> str:
        """What decides between equal scores."""
        ...

    @property
    def score(self) -> float | None:
        """Higher is better."""
        ...


RankedT = TypeVar("RankedT", bound=Ranked)

Fetch: TypeAlias = Callable[[Sequence[int], int], list[list[RankedT]]]
"""Asks the engine: for these queries (by position), at most so many chunks each, with scores."""


def similarity(score: float) -> float:
    """A score as stores give it out: within [-1, 1], to six decimals, never -0.0."""
    rounded = round(score, 6)
    if -1.0 <= rounded <= 1.0:
        return rounded + 0.0
    return 1.0 if rounded > 0 else -1.0


def top_k(
    fetch: Fetch[RankedT], queries: int, k: int, *, most: int | None = None
) -> list[list[RankedT]]:
    """The first `k` chunks of each query by score, then by id.

    Engines order ties as they like, and cut anywhere within them. So one chunk more than `k` is
    asked for: when it ties with the last, more are, until the tie is whole.

    Args:
        fetch: asks the engine.
        queries: how many queries there are.
        k: how many chunks to return for each.
        most: the most chunks that the engine gives for one query; a tie that is longer is cut
            where the engine cuts it.
    """
    limit = _within(k + 1, most)
    found = fetch(range(queries), limit)
    for query, chunks in enumerate(found):
        chunks.sort(key=_order)
        asked = limit
        while len(chunks) >= asked and chunks[-1].score == chunks[k - 1].score:
            if asked == most:
                break
            asked = _within(4 * asked, most)
            chunks = fetch([query], asked)[0]
            chunks.sort(key=_order)
        found[query] = chunks[:k]
    return found


def _within(limit: int, most: int | None) -> int:
    return limit if most is None else min(limit, most)


def _order(chunk: Ranked) -> tuple[float, str]:
    return -(chunk.score or 0.0), chunk.id


_MAX_DEPTH = 100
_EXISTS = "e:"
"""In the place of an equality key: the field is there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredChunk:
    """A chunk, ready for a store."""

    id: str
    body: str
    """The chunk as JSON."""
    digest: str
    """Of `body`, 32 hexadecimal digits."""
    labels: tuple[str, ...]
    """One for each value that a field can be equal to, and the keys of `numbers`; sorted."""
    numbers: Mapping[str, float]
    """What fields can be ordered by."""


def encode(chunk: Chunk) -> StoredChunk:
    """Prepares a chunk for a store; its score is left out.

    Raises:
        StoreError: the id is not a text, empty or too long; the text is not a text; the metadata
            are not JSON (the message names the place).
    """
    check_id(chunk.id)
    if not isinstance(chunk.text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise StoreError(f"chunk '{_short(chunk.id)}': the text is a {type(chunk.text).__name__}")
    body = _body(chunk)
    labels: set[str] = set()
    numbers: dict[str, float] = {}
    for name, value in field_values(searched_fields(chunk)).items():
        if value is not None:
            labels.add(label(name, _EXISTS))
            labels.update([label(name, key) for key in equality_keys(value)])
            _add_numbers(numbers, name, value)
    return StoredChunk(
        id=chunk.id,
        body=body,
        digest=_digest(body),
        labels=tuple(sorted(labels | numbers.keys())),
        numbers=numbers,
    )


def searched_fields(chunk: Chunk) -> Mapping[str, Any]:
    """What filters ask of a chunk: its metadata, and the document that it was cut from."""
    if chunk.document_id is None or "document_id" in chunk.metadata:
        return chunk.metadata
    return {**chunk.metadata, "document_id": chunk.document_id}


def wanted_labels(filters: Equals | In | Exists) -> list[str]:
    """The labels of which a chunk that passes has one."""
    if isinstance(filters, Exists):
        return [label(filters.field, _EXISTS)]
    values = filters.values if isinstance(filters, In) else (filters.value,)
    keys = [key for value in values if (key := equality_key(value)) is not None]
    return [label(filters.field, key) for key in keys]


def decode(body: str, score: float | None = None) -> Chunk:
    """The chunk of a stored text."""
    # A leading space says that the fast reader would change something.
    values = json.loads(body) if body.startswith(" ") else orjson.loads(body)
    return stored_chunk(values, score)


def chunk_digest(chunk: Chunk) -> str:
    """What changes when anything of a chunk but its score changes.

    Raises:
        StoreError: the chunk cannot be stored.
    """
    check_id(chunk.id)
    return _digest(_body(chunk))


def check_id(value: object) -> None:
    """Refuses what is not an id.

    Raises:
        StoreError: it is not a text, empty or too long, or holds what not every store keeps.
    """
    if not isinstance(value, str):
        raise StoreError(f"a chunk's id is a text, found {type(value).__name__} {value!r}")
    if not value:
        raise StoreError("a chunk's id is empty")
    if value.isascii():
        size = len(value)
    else:
        try:
            size = len(value.encode())
        except UnicodeEncodeError as error:
            raise StoreError(f"the chunk's id {_short(value)!r} is not valid Unicode") from error
    if size > MAX_ID:
        raise StoreError(f"the chunk's id '{_short(value)}' is longer than {MAX_ID} bytes")
    if "\x00" in value:
        raise StoreError(f"the chunk's id {_short(value)!r} holds a NUL character")


@lru_cache(maxsize=65536)
def label(field: str, key: str) -> str:
    """The label of a value, given its `ragbench.core.filters.equality_key`."""
    said = f"{len(field)}:{field}{key}".encode("utf-8", "surrogatepass")
    return blake2b(said, digest_size=12).hexdigest()


@lru_cache(maxsize=4096)
def number_name(field: str, *, dates: bool) -> str:
    """The name under which a field's number, or its date, is kept: letters and digits only."""
    said = field.encode("utf-8", "surrogatepass")
    return ("d" if dates else "n") + blake2b(said, digest_size=8).hexdigest()


def _add_numbers(numbers: dict[str, float], name: str, value: object) -> None:
    found = number(value)
    if found is not None:
        numbers[number_name(name, dates=False)] = found
        return
    moment = instant(value)
    if moment is not None:
        numbers[number_name(name, dates=True)] = float(moment)


def _body(chunk: Chunk) -> str:
    values: dict[str, Any] = {"id": chunk.id, "text": chunk.text}
    if chunk.document_id is not None:
        values["document_id"] = chunk.document_id
    if chunk.start is not None:
        values["start"] = chunk.start
    if chunk.end is not None:
        values["end"] = chunk.end
    if chunk.metadata:
        values["metadata"] = dict(chunk.metadata)
        _check_json(values["metadata"], f"chunk '{_short(chunk.id)}': metadata", 0)
    try:
        return orjson.dumps(values, option=orjson.OPT_PASSTHROUGH_SUBCLASS).decode()
    except TypeError:
        # Integers of more than 64 bits and lone surrogates: the standard library keeps them.
        return " " + json.dumps(values, separators=(",", ":"))


def _check_json(value: object, where: str, depth: int) -> None:
    kind = type(value)
    if kind is str or kind is bool or kind is int or value is None:
        return
    if kind is float:
        if not math.isfinite(cast("float", value)):
            raise StoreError(f"{where}: {value!r} is not a JSON number")
    elif depth >= _MAX_DEPTH:
        raise StoreError(f"{where[:200]}: nested more than {_MAX_DEPTH} levels deep")
    elif kind is dict:
        for key, inner in cast("dict[object, object]", value).items():
            if type(key) is not str:
                raise StoreError(f"{where}: the key {key!r} is not a text")
            _check_json(inner, f"{where}.{key}", depth + 1)
    elif kind is list or kind is tuple:
        for inner in cast("list[object]", value):
            _check_json(inner, f"{where}[]", depth + 1)
    else:
        raise StoreError(
            f"{where}: a {kind.__name__} is not a JSON value: make it text or a number"
        )


def _digest(body: str) -> str:
    return blake2b(body.encode(), digest_size=16).hexdigest()


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
