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
  percent sign and its two hexadecimal digits;
- ``exact``: the whole chunk as a JSON text, where the plain fields do not give it back: negative
  zeros, numbers of more than 64 bits, floats that are written as whole numbers, NUL characters and
  halves of surrogate pairs. Those last are written as `ESCAPE` and four hexadecimal digits in the
  plain fields, and such numbers as the nearest float.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, cast

import orjson

from ragbench.core.chunk import Chunk, stored_chunk
from ragbench.core.filters import field_values, instant, number
from ragbench.errors import StoreError

MAX_ID = 2048

"""The longest id, in bytes of UTF-8; what PostgreSQL can keep in an index."""


def similarity(score: float) -> float:
    """A score as stores give it out: within [-1, 1], to six decimals, never -0.0."""
    rounded = round(score, 6)
    if -1.0 <= rounded <= 1.0:
        return rounded + 0.0
    return 1.0 if rounded > 0 else -1.0


_MAX_DEPTH = 100
ESCAPE = "\ufdd0"
"""Stands, with four hexadecimal digits behind it, for a character that not every store keeps: NUL,
half of a surrogate pair, itself. It is no character of any writing."""
_LEAST, _GREATEST = -(2**63), 2**63 - 1
_LONG = 1e16
"""Floats from here on other programs write as whole numbers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredChunk:
    """A chunk, ready for a store."""

    id: str
    chunk: Chunk
    """As it was given; what a store keeps of it is its own copy."""
    body: str
    """The chunk as JSON, from which `decode` makes it again."""
    digest: str
    """Of `body`, 32 hexadecimal digits."""
    is_plain: bool
    """Whether plain fields give the chunk back: its texts have no NUL characters nor halves of
    surrogate pairs, its numbers fit 64 bits and are no negative zero, nor floats that are written
    as whole numbers."""
    words: Mapping[int, float] | None = None
    """What a store ranks it by, see `ragbench.stores.words.WordsForm`; None where it does not."""


def encode(chunk: Chunk) -> StoredChunk:
    """Prepares a chunk for a store; its score is left out."""
    check_id(chunk.id)
    if not isinstance(chunk.text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise StoreError(f"chunk '{_short(chunk.id)}': the text is a {type(chunk.text).__name__}")
    body, is_plain = _body(chunk)
    return StoredChunk(id=chunk.id, chunk=chunk, body=body, digest=_digest(body), is_plain=is_plain)


def searched_fields(chunk: Chunk) -> Mapping[str, Any]:
    """What filters ask of a chunk: its metadata, and the document that it was cut from."""
    if chunk.document_id is None or "document_id" in chunk.metadata:
        return chunk.metadata
    return {**chunk.metadata, "document_id": chunk.document_id}


def decode(body: str, score: float | None = None) -> Chunk:
    # A leading space says that the fast reader would change something.
    values = json.loads(body) if body.startswith(" ") else orjson.loads(body)
    return stored_chunk(values, score)


def read_chunk(values: Mapping[str, Any], score: float | None = None) -> Chunk:
    """The chunk of the fields that a store keeps; of ``exact`` where they do not give it back."""
    exact = values.get("exact")
    return stored_chunk(values, score) if exact is None else decode(exact, score)


def chunk_digest(chunk: Chunk) -> str:
    """What changes when anything of a chunk but its score changes."""
    check_id(chunk.id)
    return _digest(_body(chunk)[0])


def check_id(value: object) -> None:
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


def _body(chunk: Chunk) -> tuple[str, bool]:
    values: dict[str, Any] = {"chunk_id": chunk.id, "text": chunk.text}
    if chunk.document_id is not None:
        values["document_id"] = chunk.document_id
    if chunk.start is not None:
        values["start"] = chunk.start
    if chunk.end is not None:
        values["end"] = chunk.end
    plain = (chunk.start or 0) <= _GREATEST and (chunk.end or 0) <= _GREATEST
    if chunk.metadata:
        values["metadata"] = dict(chunk.metadata)
        where = f"chunk '{_short(chunk.id)}': metadata"
        plain &= _checked_json(values["metadata"], where, 0)
    try:
        body = orjson.dumps(values, option=orjson.OPT_PASSTHROUGH_SUBCLASS).decode()
    except TypeError:
        # Integers of more than 64 bits and lone surrogates: the standard library keeps them.
        return " " + json.dumps(values, separators=(",", ":")), False
    return body, plain and "\\u0000" not in body and ESCAPE not in body


def _checked_json(value: object, where: str, depth: int) -> bool:
    """Refuses what is not JSON; says whether all its numbers are plain."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        return _LEAST <= cast("int", value) <= _GREATEST
    if kind is float:
        return _is_plain_float(cast("float", value), where)
    if depth >= _MAX_DEPTH:
        raise StoreError(f"{where[:200]}: nested more than {_MAX_DEPTH} levels deep")
    plain = True
    if kind is dict:
        for key, inner in cast("dict[object, object]", value).items():
            if type(key) is not str:
                raise StoreError(f"{where}: the key {key!r} is not a text")
            plain &= _checked_json(inner, f"{where}.{key}", depth + 1)
    elif kind is list or kind is tuple:
        plain = kind is list
        for inner in cast("list[object]", value):
            plain &= _checked_json(inner, f"{where}[]", depth + 1)
    else:
        raise StoreError(
            f"{where}: a {kind.__name__} is not a JSON value: make it text or a number"
        )
    return plain


def _is_plain_float(number: float, where: str) -> bool:
    if not math.isfinite(number):
        raise StoreError(f"{where}: {number!r} is not a JSON number")
    return -_LONG < number < _LONG and (number != 0 or math.copysign(1, number) > 0)


def _digest(body: str) -> str:
    return blake2b(body.encode(), digest_size=16).hexdigest()


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


# --- the plain fields

_ODD = re.compile(f"[\x00\ud800-\udfff{ESCAPE}]")
_UNQUOTED = re.compile(r'["%\\]')


def plain(stored: StoredChunk) -> dict[str, Any]:
    """The fields of a chunk; see the module."""
    chunk = stored.chunk
    metadata = dict(chunk.metadata)
    text, document_id, start, end = chunk.text, chunk.document_id, chunk.start, chunk.end
    if not stored.is_plain:
        metadata = cast("dict[str, Any]", _plain_value(metadata))
        text = plain_text(text)
        document_id = None if document_id is None else plain_text(document_id)
        start, end = _offset(start), _offset(end)
    dates: dict[str, int] = {}
    lists: list[str] = []
    fields: dict[str, Any] = {}
    for name, value in _named(metadata).items():
        if isinstance(value, str):
            moment = instant(value)
            if moment is not None:
                dates[field_key(name)] = moment
        elif isinstance(value, list | tuple):
            lists.append(name)
        if name == "document_id" or not _leads_to(metadata, name, cast("object", value)):
            fields[field_key(name)] = value
    if document_id is not None and "document_id" not in metadata:
        moment = instant(document_id)
        if moment is not None:
            dates["document_id"] = moment
    return {
        "chunk_id": chunk.id,
        "document_id": document_id,
        "text": text,
        "start": start,
        "end": end,
        "metadata": metadata,
        "digest": stored.digest,
        "dates": dates or None,
        "lists": lists or None,
        "fields": fields or None,
        "exact": None if stored.is_plain else stored.body,
    }


def straight_path(name: str) -> tuple[str, ...] | None:
    """The keys that lead to a field, its name being split at its dots; None where none can.

    Not every engine can be given a key with a quotation mark or a backslash.
    """
    return None if _UNQUOTED.search(name) else tuple(name.split("."))


def field_key(name: str) -> str:
    return _UNQUOTED.sub(lambda found: f"%{ord(found.group()):02X}", name)


def plain_text(text: str) -> str:
    """A text as every store keeps it: equal texts stay equal, prefixes prefixes.

    Example:
        >>> plain_text("café"), plain_text(chr(0)) == ESCAPE + "0000"
        ('café', True)
    """
    return _ODD.sub(lambda found: f"{ESCAPE}{ord(found.group()):04x}", text)


def _named(metadata: Mapping[str, Any]) -> Mapping[str, object]:
    """`field_values`, at once for metadata without objects."""
    if any(isinstance(value, dict) for value in metadata.values()):
        return field_values(metadata)
    return metadata


def _leads_to(metadata: Mapping[str, Any], name: str, value: object) -> bool:
    if name in metadata and "." not in name and not _UNQUOTED.search(name):
        return True
    path = straight_path(name)
    if path is None:
        return False
    found: object = metadata
    for key in path:
        if not isinstance(found, dict) or key not in found:
            return False
        found = cast("dict[str, object]", found)[key]
    return found is value


def _plain_value(value: object) -> object:
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        if _LEAST <= value <= _GREATEST:
            return value
        found = number(value)
        # A list within a list equals nothing and lies within nothing, as this number does.
        return [[str(value)]] if found is None else found
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        return {plain_text(key): _plain_value(inner) for key, inner in items}
    if isinstance(value, list | tuple):
        return [_plain_value(inner) for inner in cast("list[object]", value)]
    return value


def _offset(value: int | None) -> int | None:
    return value if value is not None and _LEAST <= value <= _GREATEST else None
