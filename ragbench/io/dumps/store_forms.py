"""The forms of databases: Qdrant, Chroma, Milvus, Elasticsearch.

Source: Chroma's ``QueryResult``, ``GetResult`` and ``SearchResult``.

Source: Elasticsearch 8 and OpenSearch 2, response bodies of ``_search`` and ``_msearch``.

The field is called ``distance`` whatever the metric: with COSINE and IP higher is better. The order
of the hits tells.

Source: pymilvus 2.x ``SearchResult``; RESTful API v2 ``/v2/vectordb/entities/search``.

Source: OpenAPI description of Qdrant 1.x: ``QueryResponse``, ``ScoredPoint``, ``ScrollResult``,
``GroupsResult``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from ragbench.io.dumps.form import DumpForm, Hits, is_list, is_object, list_of_hits, lists_of_hits

_COLUMNS = {
    "ids": "id",
    "documents": "document",
    "metadatas": "metadata",
    "distances": "distance",
    "scores": "score",
}


def _chroma_records(value: object) -> Sequence[Hits] | None:
    ids = value.get("ids") if is_object(value) else None
    if not is_object(value) or not is_list(ids):
        return None
    if not any(is_list(value.get(name)) for name in ("documents", "metadatas", "distances")):
        return None
    columns = {name: held for name in _COLUMNS if is_list(held := value.get(name))}
    if not any(map(is_list, ids)):
        return [_chroma_hits(columns)]
    return [_chroma_hits(_query(columns, number)) for number in range(len(ids))]


def _query(columns: Mapping[str, Sequence[object]], number: int) -> Mapping[str, object]:
    return {name: column[number] for name, column in columns.items() if number < len(column)}


def _chroma_hits(columns: Mapping[str, object]) -> Hits:
    known = {name: column for name, column in columns.items() if is_list(column)}
    size = max((len(column) for column in known.values()), default=0)
    return [
        {
            _COLUMNS[name]: column[place] if place < len(column) else None
            for name, column in known.items()
        }
        for place in range(size)
    ]


CHROMA = DumpForm(
    name="chroma",
    summary="Chroma results of query, get and search.",
    example='{"ids": [["a"]], "documents": [["..."]], "distances": [[0.2]]}',
    unwrap=_chroma_records,
    is_hit=lambda _: False,
    text=("document",),
    score=("distance", "score"),
    any_text_in="metadata",
    scores_are_distances=True,
)


def _is_elasticsearch_hit(value: object) -> bool:
    return is_object(value) and "_id" in value and ("_score" in value or "_source" in value)


def _elasticsearch_records(value: object) -> Sequence[Hits] | None:
    responses = value.get("responses") if is_object(value) else None
    if is_list(responses):
        # A search that failed has no hits, not even none.
        return lists_of_hits(responses, _elasticsearch_hits)
    one = _elasticsearch_hits(value)
    return None if one is None else [one]


def _elasticsearch_hits(value: object) -> Hits | None:
    if is_object(value) and is_object(value.get("hits")):
        value = value["hits"]
    if is_object(value) and is_list(value.get("hits")):
        value = value["hits"]
        if is_list(value) and not value:
            return value
    return list_of_hits(value, _is_elasticsearch_hit)


ELASTICSEARCH = DumpForm(
    name="elasticsearch",
    summary="Elasticsearch and OpenSearch responses: search and multi-search.",
    example='{"hits": {"hits": [{"_id": "a", "_score": 3.1, "_source": {"text": "..."}}]}}',
    unwrap=_elasticsearch_records,
    is_hit=_is_elasticsearch_hit,
    id=("_id",),
    text=(
        *("_source.text", "_source.content", "_source.body", "_source.passage", "_source.chunk"),
        *("_source.page_content", "_source.document", "_source.description"),
        *("fields.text", "fields.content", "fields.body"),
    ),
    score=("_score",),
    metadata=("_source.metadata", "_source", "fields"),
    any_text_in="_source",
    scores_are_distances=False,
)


def _is_milvus_hit(value: object) -> bool:
    return is_object(value) and "distance" in value and ("entity" in value or "fields" in value)


def _is_flat_hit(value: object) -> bool:
    return is_object(value) and "distance" in value


def _milvus_records(value: object) -> Sequence[Hits] | None:
    if is_object(value) and "code" in value and is_list(value.get("data")):
        return _rest(value["data"], value.get("topks"))
    one = list_of_hits(value, _is_milvus_hit)
    if one is not None:
        return [one]
    if not is_list(value) or not value or not all(map(is_list, value)):
        return None
    return lists_of_hits(value, lambda item: list_of_hits(item, _is_milvus_hit))


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


MILVUS = DumpForm(
    name="milvus",
    summary="Milvus results of search: pymilvus and the REST interface.",
    example='[[{"id": 1, "distance": 0.9, "entity": {"text": "..."}}]]',
    unwrap=_milvus_records,
    is_hit=_is_milvus_hit,
    id=("id", "pk", "entity.id", "entity.pk"),
    text=("entity.text", "entity.content", "entity.chunk", "entity.document", "text", "content"),
    score=("distance", "score"),
    metadata=("entity.metadata", "metadata", "entity", "fields"),
    any_text_in="entity",
    scores_are_distances=False,
)


_POINT_FIELDS = ("payload", "version", "vector", "shard_key", "order_value")


def _is_point(value: object) -> bool:
    return is_object(value) and "id" in value and any(name in value for name in _POINT_FIELDS)


def _qdrant_records(value: object) -> Sequence[Hits] | None:
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


QDRANT = DumpForm(
    name="qdrant",
    summary="Qdrant responses: query, search, scroll, groups, batches; REST and client forms.",
    example='{"result": {"points": [{"id": 1, "score": 0.9, "payload": {"text": "..."}}]}}',
    unwrap=_qdrant_records,
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
