"""Elasticsearch and OpenSearch: search and multi-search responses, or their hits alone.

Source: Elasticsearch 8 and OpenSearch 2, response bodies of ``_search`` and ``_msearch``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.data.dumps.form import DumpForm, Hits, is_list, is_object, list_of_hits, lists_of_hits

__all__ = ["FORM"]


def _is_hit(value: object) -> bool:
    return is_object(value) and "_id" in value and ("_score" in value or "_source" in value)


def _unwrap(value: object) -> Sequence[Hits] | None:
    responses = value.get("responses") if is_object(value) else None
    if is_list(responses):
        # A search that failed has no hits, not even none.
        return lists_of_hits(responses, _hits)
    one = _hits(value)
    return None if one is None else [one]


def _hits(value: object) -> Hits | None:
    if is_object(value) and is_object(value.get("hits")):
        value = value["hits"]
    if is_object(value) and is_list(value.get("hits")):
        value = value["hits"]
        if is_list(value) and not value:
            return value
    return list_of_hits(value, _is_hit)


FORM = DumpForm(
    name="elasticsearch",
    summary="Elasticsearch and OpenSearch responses: search and multi-search.",
    example='{"hits": {"hits": [{"_id": "a", "_score": 3.1, "_source": {"text": "..."}}]}}',
    unwrap=_unwrap,
    is_hit=_is_hit,
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
