"""A chunk as stores keep it; one order of results.

Every implementation agrees on the following, and one contract suite holds them to it.

- A score is the cosine similarity of query and chunk, in [-1, 1], higher is better, rounded to six
  decimals (float32 carries no more). A vector of zeros has similarity 0 to everything.
- Results are ordered by score, then by id (code points); which of several equally good chunks make
  the cut follows from that order, too, and not from the engine.
- An id is any text without NUL characters that is not empty, at most `MAX_ID` bytes of UTF-8 long.
- A chunk comes back as it was given: id, text, document id, offsets and metadata, which may be any
  JSON. Its ``score`` is not stored. Numbers of more than 64 bits, NUL characters and halves of
  surrogate pairs, which not every engine keeps, are refused.
- Filters mean what `ragbench.core.filters.matches` says, and the store executes them.
- A write is visible to the next read, and is kept when the method has returned (the store
  ``memory`` writes its folder in `OwnCollection.mark` and `OwnCollection.close` only).
- Errors are `ragbench.errors.StoreError`: one line that names the address without its password.

What engines are given is the `StoredChunk`; what they keep are plain fields that any program can
read, the fields that every collection of ``ragbench index`` has:

=================  ===============================================================================
``chunk_id``       the chunk's id
``document_id``    the document that it was cut from; null where none is known
``text``           the passage
``start`` ``end``  its offsets in the document's text
``metadata``       the metadata as they are, JSON
``digest``         changes with any of these; ragbench sees by it what need not be embedded again
=================  ===============================================================================

Filters are executed on these. What plain values cannot say is kept beside them, in the few chunks
that have it:

- ``dates``: of each field that holds a date its milliseconds since 1970, for ranges;
- ``lists``: the names of the fields that hold a list, which lie within no range;
- ``fields``: the fields that a path of names does not lead to: of ``{"a.b": 1}`` the field ``a.b``,
  with its value. A quotation mark, a backslash or a percent sign in such a name is written as a
  percent sign and its two hexadecimal digits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import orjson

from ragbench.core.chunk import Chunk
from ragbench.core.filters import field_values, instant
from ragbench.errors import StoreError

MAX_ID = 2048

"""The longest id, in bytes of UTF-8; what PostgreSQL can keep in an index."""


def similarity(score: float) -> float:
    """A score as stores give it out: within [-1, 1], to six decimals, never -0.0."""
    return min(1.0, max(-1.0, round(score, 6))) + 0.0


_ODD = re.compile("[\x00\ud800-\udfff]")
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_UNQUOTED = re.compile(r'["%\\]')


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredChunk:
    id: str
    chunk: Chunk
    """As it was given; what a store keeps of it is its own copy."""
    body: bytes
    """The chunk as JSON."""
    digest: str
    """Of `body`, 32 hexadecimal digits."""
    words: Mapping[int, float] | None = None
    """What a store ranks it by, see `ragbench.stores.words.WordsForm`; None where it does not."""


def encode(chunk: Chunk) -> StoredChunk:
    """Prepares a chunk for a store; its score is left out."""
    check_id(chunk.id)
    where = f"chunk '{_short(chunk.id)}'"
    known = {"document_id": chunk.document_id, "start": chunk.start, "end": chunk.end}
    values: dict[str, Any] = {"chunk_id": chunk.id, "text": chunk.text}
    values |= {name: value for name, value in known.items() if value is not None}
    if chunk.metadata:
        values["metadata"] = dict(chunk.metadata)
    try:
        body = orjson.dumps(values)
        json.dumps(values, allow_nan=False)  # NaN and infinity, which the other makes null
    except (TypeError, ValueError) as error:
        raise StoreError(f"{where} holds what is not JSON: {error}") from error
    if type(chunk.text) is not str or _NUL.search(body):
        raise StoreError(f"{where}: its text is none, or NUL characters are in it: take them out")
    digest = blake2b(body, digest_size=16).hexdigest()
    return StoredChunk(id=chunk.id, chunk=chunk, body=body, digest=digest)


def searched_fields(chunk: Chunk) -> Mapping[str, Any]:
    """What filters ask of a chunk: its metadata, and the document that it was cut from."""
    if chunk.document_id is None or "document_id" in chunk.metadata:
        return chunk.metadata
    return {**chunk.metadata, "document_id": chunk.document_id}


def check_id(value: object) -> None:
    if not isinstance(value, str):
        raise StoreError(f"a chunk's id is a text, found {type(value).__name__} {value!r}")
    if not value:
        raise StoreError("a chunk's id is empty")
    if _ODD.search(value):
        raise StoreError(
            f"the chunk's id {_short(value)!r} holds a NUL character or half of a surrogate pair, "
            "which no store keeps"
        )
    if len(value.encode()) > MAX_ID:
        raise StoreError(f"the chunk's id '{_short(value)}' is longer than {MAX_ID} bytes")


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def plain(stored: StoredChunk) -> dict[str, Any]:
    chunk = stored.chunk
    dates: dict[str, int] = {}
    lists: list[str] = []
    fields: dict[str, Any] = {}
    for name, value in field_values(chunk.metadata).items():
        moment = instant(value)
        if moment is not None:
            dates[field_key(name)] = moment
        if name == "document_id" or not _leads_to(chunk.metadata, name, value):
            fields[field_key(name)] = value
        if isinstance(value, list | tuple):
            lists.append(name)
    moment = instant(chunk.document_id)
    if moment is not None and "document_id" not in chunk.metadata:
        dates["document_id"] = moment
    named = ("document_id", "text", "start", "end")
    return {
        "chunk_id": chunk.id,
        **{name: getattr(chunk, name) for name in named},
        "metadata": dict(chunk.metadata),
        "digest": stored.digest,
        "dates": dates or None,
        "lists": lists or None,
        "fields": fields or None,
    }


def straight_path(name: str) -> tuple[str, ...] | None:
    """The keys that lead to a field, its name being split at its dots; None where none can.

    Not every engine can be given a key with a quotation mark or a backslash.
    """
    return None if _UNQUOTED.search(name) else tuple(name.split("."))


def field_key(name: str) -> str:
    return _UNQUOTED.sub(lambda found: f"%{ord(found.group()):02X}", name)


def _leads_to(metadata: Mapping[str, Any], name: str, value: object) -> bool:
    found: Any = metadata
    for key in (path := straight_path(name)) or ():
        found = found.get(key) if isinstance(found, Mapping) else None
    return path is not None and found is value
