"""The forms of search services and tracers, each a list of hits at a known place.

Sources: Pinecone ``query`` and ``search``; Weaviate client v4 objects and GraphQL ``Get``; Vespa
query results; Azure AI Search ``docs/search``; Bedrock ``Retrieve``; OpenAI vector store search;
Solr ``select``; Typesense ``search``; RediSearch through redis-py; Dify ``retrieve``; Cohere
``rerank``; OpenInference spans (Phoenix), nested, as a data frame and flat.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from ragbench.io.dumps.form import (
    TEXT_NAMES,
    DumpForm,
    Hits,
    getter,
    is_list,
    is_object,
    list_of_hits,
)

_TEXTS = ("text", "content", "chunk_text", "page_content", "body", "chunk", "passage", "document")


def _below(name: str) -> tuple[str, ...]:
    return tuple(f"{name}.{text}" for text in _TEXTS)


def _unwraps(
    is_hit: Callable[[object], bool], *places: str
) -> Callable[[object], Sequence[Hits] | None]:
    """Finds the hits in a list of them, or at one of the places in a response."""

    def unwrap(value: object) -> Sequence[Hits] | None:
        for held in (value, *(getter(place)(value) for place in places)):
            hits = list_of_hits(held, is_hit)
            if hits is not None:
                return [hits]
        return None

    return unwrap


def _holds(*names: str) -> Callable[[object], bool]:
    """Whether a hit has all these fields; one that ends in a dot is an object."""

    def is_hit(value: object) -> bool:
        return is_object(value) and all(
            is_object(value.get(name[:-1])) if name.endswith(".") else name in value
            for name in names
        )

    return is_hit


def _has_text(value: object) -> bool:
    return is_object(value) and any(isinstance(value.get(name), str) for name in TEXT_NAMES)


def _is_pinecone(value: object) -> bool:
    search = _holds("_id", "_score", "fields.")(value)
    return search or (_holds("id", "score", "metadata.")(value) and not _has_text(value))


PINECONE = DumpForm(
    name="pinecone",
    summary="Pinecone results of query and search.",
    example='{"matches": [{"id": "a", "score": 0.9, "metadata": {"text": "..."}}]}',
    unwrap=_unwraps(_is_pinecone, "matches", "result.hits"),
    is_hit=_is_pinecone,
    id=("id", "_id"),
    text=(*_below("metadata"), *_below("fields")),
    score=("score", "_score"),
    metadata=("metadata", "fields"),
    any_text_in="metadata",
    scores_are_distances=False,
)


def _weaviate_records(value: object) -> Sequence[Hits] | None:
    found = getter("data.Get")(value)
    if is_object(found):
        lists = [held for held in found.values() if is_list(held)]
        return [list(chain.from_iterable(lists))] if lists else None
    return _unwraps(_holds("properties."), "objects")(value)


WEAVIATE = DumpForm(
    name="weaviate",
    summary="Weaviate objects of the client, and GraphQL responses.",
    example='{"objects": [{"uuid": "a", "properties": {"text": "..."}, "metadata": {"score": 1}}]}',
    unwrap=_weaviate_records,
    is_hit=_holds("properties."),
    id=("uuid", "id", "_additional.id"),
    text=(*_below("properties"), *_TEXTS),
    score=(
        *("metadata.score", "metadata.certainty", "metadata.distance"),
        *("_additional.score", "_additional.certainty", "_additional.distance"),
    ),
    metadata=("properties",),
    any_text_in="properties",
)
VESPA = DumpForm(
    name="vespa",
    summary="Vespa query results.",
    example='{"root": {"children": [{"id": "a", "relevance": 9.1, "fields": {"text": "..."}}]}}',
    unwrap=_unwraps(_holds("relevance", "fields."), "root.children", "children"),
    is_hit=_holds("relevance", "fields."),
    text=_below("fields"),
    score=("relevance",),
    metadata=("fields",),
    any_text_in="fields",
    scores_are_distances=False,
)
AZURE = DumpForm(
    name="azure",
    summary="Azure AI Search results.",
    example='{"value": [{"@search.score": 2.1, "id": "a", "content": "..."}]}',
    unwrap=_unwraps(_holds("@search.score"), "value"),
    is_hit=_holds("@search.score"),
    id=("id", "key", "chunk_id", "chunkId"),
    text=_TEXTS,
    score=("@search.rerankerScore", "@search.score"),
    any_text_in="",
    scores_are_distances=False,
)
BEDROCK = DumpForm(
    name="bedrock",
    summary="Results of Amazon Bedrock knowledge bases.",
    example='{"retrievalResults": [{"content": {"text": "..."}, "score": 0.7, "location": {}}]}',
    unwrap=_unwraps(_holds("content.", "location"), "retrievalResults"),
    is_hit=_holds("content.", "location"),
    id=("metadata.x-amz-bedrock-kb-chunk-id", "id"),
    text=("content.text",),
)


def _openai_records(value: object) -> Sequence[Hits] | None:
    found = _unwraps(_holds("file_id", "content"), "data", "search_results", "results")(value)
    return None if found is None else [[_openai_hit(one) for one in hits] for hits in found]


def _openai_hit(value: object) -> object:
    """A hit whose content, a list of parts, is one text."""
    if not is_object(value) or not is_list(parts := value.get("content")):
        return value
    texts = [one.get("text") for one in parts if is_object(one)]
    return {**value, "content": "\n".join(one for one in texts if isinstance(one, str))}


OPENAI = DumpForm(
    name="openai",
    summary="Results of OpenAI vector stores.",
    example='{"data": [{"file_id": "a", "score": 0.9, "content": [{"text": "..."}]}]}',
    unwrap=_openai_records,
    is_hit=_holds("file_id", "content"),
    id=("id", "file_id"),
    text=("content", "text"),
    metadata=("attributes",),
)
SOLR = DumpForm(
    name="solr",
    summary="Solr responses.",
    example='{"response": {"docs": [{"id": "a", "text": "...", "score": 3.2}]}}',
    unwrap=lambda value: (
        _unwraps(_has_text, "response.docs")(value)
        if is_object(value) and "response" in value
        else None
    ),
    is_hit=lambda _: False,
    text=_TEXTS,
    any_text_in="",
    scores_are_distances=False,
)
TYPESENSE = DumpForm(
    name="typesense",
    summary="Typesense results.",
    example='{"hits": [{"document": {"id": "a", "text": "..."}, "text_match": 57}]}',
    unwrap=_unwraps(_holds("document."), "hits", "results.0.hits"),
    is_hit=lambda value: _holds("document.")(value) and is_object(value) and "index" not in value,
    id=("document.id",),
    text=_below("document"),
    score=("vector_distance", "hybrid_search_info.rank_fusion_score", "text_match"),
    metadata=("document",),
    any_text_in="document",
)


def _is_redis(value: object) -> bool:
    return is_object(value) and "id" in value and value.get("payload", "") is None


REDIS = DumpForm(
    name="redis",
    summary="RediSearch documents, as redis-py gives them.",
    example='{"docs": [{"id": "a", "payload": null, "content": "...", "score": 0.1}]}',
    unwrap=lambda value: _unwraps(lambda hit: _is_redis(hit) and _has_text(hit), "docs")(value),
    is_hit=lambda value: _is_redis(value) and _has_text(value),
    text=_TEXTS,
    score=("score", "vector_score", "vector_distance", "__score"),
    any_text_in="",
)
DIFY = DumpForm(
    name="dify",
    summary="Dify retrieval records.",
    example='{"records": [{"segment": {"id": "a", "content": "..."}, "score": 0.8}]}',
    unwrap=_unwraps(_holds("segment."), "records"),
    is_hit=_holds("segment."),
    id=("segment.id",),
    text=("segment.content", "segment.text"),
    metadata=("segment.document",),
)
COHERE = DumpForm(
    name="cohere",
    summary="Cohere rerank results that return their documents.",
    example='{"results": [{"index": 0, "relevance_score": 0.9, "document": {"text": "..."}}]}',
    unwrap=_unwraps(_holds("index", "relevance_score", "document"), "results"),
    is_hit=_holds("index", "relevance_score", "document"),
    id=("document.id", "index"),
    text=("document.text", "document"),
    score=("relevance_score",),
    scores_are_distances=False,
)

_SPAN = re.compile(r"(?:attributes\.)?retrieval\.documents\.(\d+)\.(document\..+)")
_DOCUMENTS = ("attributes.retrieval.documents", "retrieval.documents")


def _openinference_records(value: object) -> Sequence[Hits] | None:
    if not is_object(value):
        return None
    for place in _DOCUMENTS:
        held = getter(place)(value)
        if is_list(held):
            return [[_span_document(one) for one in held]]
    attributes = value.get("attributes")
    flat = _flat_documents(attributes if is_object(attributes) else value)
    return [flat] if flat else None


def _flat_documents(value: Mapping[str, object]) -> Hits:
    """``retrieval.documents.0.document.content`` and so on, as objects in their order."""
    found: dict[int, dict[str, object]] = {}
    for name, held in value.items():
        if (match := _SPAN.fullmatch(name)) is not None:
            found.setdefault(int(match[1]), {})[match[2]] = held
    return [_span_document(found[number]) for number in sorted(found)]


def _span_document(value: object) -> object:
    """A document with plain names: nested, or with dots in its keys."""
    names = {"id": "document.id", "text": "document.content", "score": "document.score"}
    known = {name: getter(path)(value) for name, path in names.items()}
    metadata = getter("document.metadata")(value)
    return {**known, "metadata": metadata} if known["text"] is not None else value


OPENINFERENCE = DumpForm(
    name="openinference",
    summary="Retriever spans of OpenInference, as Phoenix exports them.",
    example='{"attributes": {"retrieval": {"documents": [{"document": {"content": "..."}}]}}}',
    unwrap=_openinference_records,
    is_hit=lambda _: False,
)

SEARCH_FORMS: tuple[DumpForm, ...] = (
    *(PINECONE, WEAVIATE, VESPA, AZURE, BEDROCK, OPENAI, SOLR, TYPESENSE, REDIS, DIFY, COHERE),
    OPENINFERENCE,
)
"""In the order in which they are tried."""
