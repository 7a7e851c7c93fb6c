"""Chunks as Qdrant keeps them, the same in its embedded engine and on a server.

Qdrant takes whole numbers and UUIDs as ids: a point's id is a UUID of version 5 made of the
chunk's, which is kept in the payload. The payload is the plain form (`ragbench.stores.plain`);
what is empty of it is left out.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from ragbench.core.filters import number
from ragbench.errors import StoreError
from ragbench.stores.plain import PlainChunk, field_key
from ragbench.stores.qdrant_filters import written_path
from ragbench.stores.record import StoredChunk

DENSE = "dense"
WORDS = "words"
"""The sparse vector of a collection that ranks by words itself; the store weighs them."""
KEPT = ["chunk_id", "document_id", "text", "start", "end", "metadata", "exact"]
"""What of a payload a chunk is made of."""
_MOST_INDEXED = 16
"""So many fields of the metadata are indexed; each index makes writing slower."""
_NAMESPACE = uuid.UUID("6f3c6b5e-3a53-5d0c-9d39-1c0f9f2f9a54")


def point_id(identifier: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, identifier))


def payload(chunk: PlainChunk) -> dict[str, Any]:
    """What is kept beside the vectors."""
    found: dict[str, Any] = {"chunk_id": chunk.chunk_id, "text": chunk.text}
    for name in ("document_id", "start", "end", "exact"):
        value = getattr(chunk, name)
        if value is not None:
            found[name] = value
    for name in ("metadata", "dates", "lists", "fields"):
        value = getattr(chunk, name)
        if value:
            found[name] = value
    if chunk.fields:
        found["spelled"] = list(chunk.fields)
    found["digest"] = chunk.digest
    return found


class FieldIndexes:
    """Which payload indexes a collection is to have: of the fields that are seen, the first 16."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def missing(self, chunks: Sequence[PlainChunk]) -> Mapping[str, str]:
        """The paths to be indexed for these chunks, with a kind: keyword, float or bool."""
        found: dict[str, str] = {}
        for chunk in chunks:
            for name, value in chunk.metadata.items():
                kind = _kind(value)
                if kind and name not in self._known and '"' not in name and "\\" not in name:
                    found.setdefault(name, kind)
        room = _MOST_INDEXED - len(self._known)
        fresh = {name: found[name] for name in sorted(found)[:room]}
        self._known.update(fresh)
        paths = {written_path(["metadata", name]): kind for name, kind in fresh.items()}
        dated = {key for chunk in chunks for key in chunk.dates}
        for name in fresh:
            if field_key(name) in dated:
                paths[written_path(["dates", field_key(name)])] = "float"
        return paths


def _kind(value: object) -> str | None:
    if isinstance(value, list):
        items = cast("list[object]", value)
        value = items[0] if items else None
    if isinstance(value, str):
        return "keyword"
    if isinstance(value, bool):
        return "bool"
    return None if number(value) is None else "float"


def check_collisions(
    chunks: Sequence[StoredChunk], points: Sequence[str], stored: Iterable[Mapping[str, Any]]
) -> None:
    """Refuses to overwrite another chunk whose id gives the same UUID."""
    known: dict[str, str] = {point_id(values["chunk_id"]): values["chunk_id"] for values in stored}
    for chunk, point in zip(chunks, points, strict=True):
        other = known.setdefault(point, chunk.id)
        if other != chunk.id:
            raise StoreError(
                f"the ids '{other}' and '{chunk.id}' are one to Qdrant (UUID {point}): rename one"
            )


def weight_of(number: int, found: Sequence[tuple[float, Any]]) -> float | None:
    """What a word is worth, of the best hit of a search for it alone."""
    if not found or found[0][0] <= 0:
        return None
    score, vector = found[0]
    return float(score) / float(vector.values[list(vector.indices).index(number)])
