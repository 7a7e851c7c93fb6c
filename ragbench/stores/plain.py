"""A chunk as other programs read it: the fields that every collection of ``ragbench index`` has.

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

import re
from collections.abc import Mapping
from typing import Any, cast

from ragbench.core.filters import field_values, instant, number
from ragbench.stores.record import ESCAPE, StoredChunk

_ODD = re.compile(f"[\x00\ud800-\udfff{ESCAPE}]")
_UNQUOTED = re.compile(r'["%\\]')
_LEAST, _GREATEST = -(2**63), 2**63 - 1


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
