"""Chunks as Milvus keeps them, and filters in its terms."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import orjson

from ragbench.core.filters import And, Filter, Not, Or, Prefix, Range
from ragbench.errors import StoreError
from ragbench.stores.engine import Kept
from ragbench.stores.labels import labels_and_numbers, number_name, wanted_labels
from ragbench.stores.plain import plain
from ragbench.stores.record import StoredChunk, read_chunk

_PART = 16000
"""Characters: four bytes each are within the 65,535 bytes that a text may have."""
LONGEST = 65535
PARTS = 4096
_LABELS = 2500
"""Of 24 digits and a comma, as one text, they are within those 65,535 bytes."""
_JSON = 65000
"""Bytes of a field of JSON; servers take 65,536."""
READ = ["chunk_id", "document_id", "text", "start", "end", "metadata", "exact"]
"""What a chunk is made of."""
_SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


@dataclass(frozen=True, kw_only=True, slots=True)
class Entity:
    """What is written of a chunk, but for its vector."""

    fields: dict[str, Any]
    labels: list[str]
    numbers: dict[str, float]


def made_entity(address: str, stored: StoredChunk) -> Entity:
    labels, numbers = labels_and_numbers(stored.chunk)
    if len(labels) > _LABELS or len(stored.body) > PARTS * _PART:
        raise StoreError(
            f"{address}: the chunk '{stored.id[:60]}' is too large: Milvus takes at most "
            f"{_LABELS} metadata values and {PARTS * _PART:,} characters of JSON"
        )
    chunk = plain(stored)
    text, document_id = _cut(chunk.text), _cut(chunk.document_id or "")
    metadata = chunk.metadata if len(orjson.dumps(chunk.metadata)) <= _JSON else {}
    start = -1 if chunk.start is None else chunk.start
    end = -1 if chunk.end is None else chunk.end
    fields: dict[str, Any] = {
        "key": entity_key(chunk.chunk_id),
        "chunk_id": chunk.chunk_id,
        "document_id": document_id,
        "text": text,
        "start": start,
        "end": end,
        "metadata": metadata,
        "digest": chunk.digest,
    }
    back = read_chunk(kept_values({**fields, "exact": []}))
    given = stored.chunk
    same = chunk.exact is None and (
        (back.text, back.document_id, back.start, back.end, back.metadata)
        == (given.text, given.document_id, given.start, given.end, chunk.metadata)
    )
    fields["exact"] = [] if same else _parts(stored.body)
    return Entity(fields=fields, labels=labels, numbers=numbers)


def _cut(text: str) -> str:
    if len(text) <= _PART:
        return text
    return text.encode()[:LONGEST].decode("utf-8", "ignore")


def kept_values(values: Mapping[str, Any]) -> Kept:
    """The fields that were read, as `read_chunk` takes them."""
    found: dict[str, Any] = {name: values[name] for name in ("chunk_id", "text", "metadata")}
    if values["document_id"]:
        found["document_id"] = values["document_id"]
    for name in ("start", "end"):
        if values[name] >= 0:
            found[name] = values[name]
    if values["exact"]:
        found["exact"] = "".join(values["exact"])
    return found


def condition(filters: Filter, *, lite: bool) -> str:
    """A folded filter as Milvus' boolean expression.

    Labels and names are hexadecimal digits and limits are numbers: nothing is to be escaped.
    """
    if isinstance(filters, (And, Or)):
        word = " and " if isinstance(filters, And) else " or "
        return f"({word.join(condition(part, lite=lite) for part in filters.filters)})"
    if isinstance(filters, Not):
        return f"(not {condition(filters.filter, lite=lite)})"
    if isinstance(filters, Range):
        name = number_name(filters.field, dates=filters.of_dates)
        # To compare with what is missing is neither true nor false: first it must be there.
        # And of a chunk that is written again Milvus Lite keeps numbers that it no longer has: only
        # the label says that one is gone.
        tests = [f"{name} {_SIGNS[word]} {limit!r}" for word, limit in filters.limits().items()]
        return f"({' and '.join([_contains([name], lite=lite), *tests])})"
    assert not isinstance(filters, Prefix), "said by the texts that begin so"
    return _contains(wanted_labels(filters), lite=lite)


def _contains(labels: list[str], *, lite: bool) -> str:
    if lite:
        return "(" + " or ".join(f'labels like "%,{name},%"' for name in labels) + ")"
    if len(labels) == 1:
        return f'array_contains(labels, "{labels[0]}")'
    return f"array_contains_any(labels, {json.dumps(labels)})"


def entity_key(identifier: str) -> str:
    """The primary key of a chunk's id."""
    return blake2b(identifier.encode(), digest_size=16).hexdigest()


def _parts(body: str) -> list[str]:
    if len(body) <= _PART:
        return [body]
    return [body[first : first + _PART] for first in range(0, len(body), _PART)]
