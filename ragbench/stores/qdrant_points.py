"""Chunks as Qdrant keeps them, the same in its embedded engine and on a server.

Qdrant takes whole numbers and UUIDs as ids: a point's id is a UUID of version 5 made of the
chunk's, which is kept in the payload.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from ragbench.core.filters import And, Filter, Not, Or, Range
from ragbench.errors import StoreError
from ragbench.stores.record import StoredChunk, number_name, wanted_labels

__all__ = [
    "DENSE",
    "MOST_INDEXED",
    "check_collisions",
    "condition",
    "payload",
    "point_id",
]

DENSE = "dense"
MOST_INDEXED = 16
"""Of so many fields the numbers are indexed; each index makes writing slower."""

_NAMESPACE = uuid.UUID("6f3c6b5e-3a53-5d0c-9d39-1c0f9f2f9a54")


def point_id(identifier: str) -> str:
    """The point's id of a chunk's id."""
    return str(uuid.uuid5(_NAMESPACE, identifier))


def payload(chunk: StoredChunk) -> dict[str, Any]:
    """What is kept beside the vectors."""
    return {
        "id": chunk.id,
        "body": chunk.body,
        "digest": chunk.digest,
        # Which numbers there are Qdrant knows by itself.
        "labels": [name for name in chunk.labels if name not in chunk.numbers],
        "numbers": dict(chunk.numbers),
    }


def check_collisions(
    chunks: Sequence[StoredChunk], points: Sequence[str], stored: Iterable[Mapping[str, Any]]
) -> None:
    """Refuses to overwrite another chunk whose id gives the same UUID.

    Args:
        chunks: what is to be written.
        points: the ids of their points.
        stored: payloads with ``id``, of the points of these ids that are there.

    Raises:
        StoreError: two ids give one UUID.
    """
    known: dict[str, str] = {point_id(values["id"]): values["id"] for values in stored}
    for chunk, point in zip(chunks, points, strict=True):
        other = known.setdefault(point, chunk.id)
        if other != chunk.id:
            raise StoreError(
                f"the ids '{other}' and '{chunk.id}' are one to Qdrant (UUID {point}): rename one"
            )


def condition(filters: Filter, models: ModuleType) -> Any:
    """A folded filter in Qdrant's terms.

    Args:
        filters: the filter.
        models: ``qdrant_edge``, or ``qdrant_client.models``.
    """
    found = _condition(filters, models)
    return found if isinstance(found, models.Filter) else models.Filter(must=[found])


def _condition(filters: Filter, models: ModuleType) -> Any:
    # Flat where it can be: what is nested is planned less well.
    if isinstance(filters, And):
        return models.Filter(must=[_condition(part, models) for part in filters.filters])
    if isinstance(filters, Or):
        return models.Filter(should=[_condition(part, models) for part in filters.filters])
    if isinstance(filters, Not):
        return models.Filter(must_not=[_condition(filters.filter, models)])
    if isinstance(filters, Range):
        kind = getattr(models, "RangeFloat", None) or models.Range
        name = number_name(filters.field, dates=filters.of_dates)
        return models.FieldCondition(key=f"numbers.{name}", range=kind(**filters.limits()))
    labels = wanted_labels(filters)
    match = models.MatchValue(value=labels[0]) if len(labels) == 1 else models.MatchAny(any=labels)
    return models.FieldCondition(key="labels", match=match)
