"""Milvus: what ``MilvusClient.search`` returns, and the REST interface (v2).

The field is called ``distance`` whatever the metric: with COSINE and IP higher is better. The order
of the hits tells.

Source: pymilvus 2.x ``SearchResult``; RESTful API v2 ``/v2/vectordb/entities/search``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.data.dumps.form import DumpForm, Hits, is_list, is_object, list_of_hits, lists_of_hits

__all__ = ["FORM"]


def _is_hit(value: object) -> bool:
    return is_object(value) and "distance" in value and ("entity" in value or "fields" in value)


def _is_flat_hit(value: object) -> bool:
    return is_object(value) and "distance" in value


def _unwrap(value: object) -> Sequence[Hits] | None:
    if is_object(value) and "code" in value and is_list(value.get("data")):
        return _rest(value["data"], value.get("topks"))
    one = list_of_hits(value, _is_hit)
    if one is not None:
        return [one]
    if not is_list(value) or not value or not all(map(is_list, value)):
        return None
    return lists_of_hits(value, lambda item: list_of_hits(item, _is_hit))


def _rest(data: object, sizes: object) -> Sequence[Hits] | None:
    """Hits of several queries stand in one list; ``topks`` says how many are whose."""
    if not is_list(data) or (data and not _is_flat_hit(data[0])):
        return None
    if not is_list(sizes) or len(sizes) < 2:
        return [data]
    found: list[Hits] = []
    at = 0
    for size in sizes:
        end = at + size if isinstance(size, int) else len(data)
        found.append(data[at:end])
        at = end
    return found


FORM = DumpForm(
    name="milvus",
    summary="Milvus results of search: pymilvus and the REST interface.",
    example='[[{"id": 1, "distance": 0.9, "entity": {"text": "..."}}]]',
    unwrap=_unwrap,
    is_hit=_is_hit,
    id=("id", "pk", "entity.id", "entity.pk"),
    text=("entity.text", "entity.content", "entity.chunk", "entity.document", "text", "content"),
    score=("distance", "score"),
    metadata=("entity.metadata", "metadata", "entity", "fields"),
    any_text_in="entity",
    scores_are_distances=False,
)
