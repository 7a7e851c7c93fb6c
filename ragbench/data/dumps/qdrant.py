"""Qdrant: query, search, scroll, groups and their batches, as REST and the clients give them.

Source: OpenAPI description of Qdrant 1.x: ``QueryResponse``, ``ScoredPoint``, ``ScrollResult``,
``GroupsResult``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from ragbench.data.dumps.form import DumpForm, Hits, is_list, is_object, list_of_hits, lists_of_hits

__all__ = ["FORM"]

_POINT_FIELDS = ("payload", "version", "vector", "shard_key", "order_value")


def _is_point(value: object) -> bool:
    return is_object(value) and "id" in value and any(name in value for name in _POINT_FIELDS)


def _unwrap(value: object) -> Sequence[Hits] | None:
    if is_object(value) and "result" in value and ("status" in value or "time" in value):
        value = value["result"]
        if value == []:
            return [[]]
    one = _points(value)
    if one is not None:
        return [one]
    if not is_list(value) or not value:
        return None
    if _points(value[0]) is not None and _is_offset(value[-1]) and len(value) == 2:
        return [_points(value[0]) or ()]  # what a client's scroll returns: points, next offset
    return lists_of_hits(value, _points)


def _points(value: object) -> Hits | None:
    """The points of one query's result."""
    if is_object(value):
        groups = value.get("groups")
        if is_list(groups):
            return list(chain.from_iterable(_group(group) for group in groups))
        points = value.get("points")
        if points == [] and not any(name in value for name in ("query", "question", "chunks")):
            return []
        value = points
    return list_of_hits(value, _is_point)


def _group(group: object) -> Hits:
    hits = group.get("hits") if is_object(group) else None
    return hits if is_list(hits) else ()


def _is_offset(value: object) -> bool:
    return value is None or isinstance(value, (str, int))


FORM = DumpForm(
    name="qdrant",
    summary="Qdrant responses: query, search, scroll, groups, batches; REST and client forms.",
    example='{"result": {"points": [{"id": 1, "score": 0.9, "payload": {"text": "..."}}]}}',
    unwrap=_unwrap,
    is_hit=_is_point,
    text=(
        *("payload.text", "payload.page_content", "payload.content", "payload.document"),
        *("payload.chunk", "payload.chunk_text", "payload.passage", "payload.body"),
        *("payload._node_content.text", "payload.context"),
    ),
    metadata=("payload",),
    any_text_in="payload",
    scores_are_distances=False,
)
"""Similarities as a rule; distances come out by their order (Euclid, Manhattan)."""
