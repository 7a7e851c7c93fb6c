"""The table of dump forms: a row says where a tool keeps its hits and their fields.

Sources: Qdrant 1.x OpenAPI (``QueryResponse``, ``ScrollResult``, ``GroupsResult``); Chroma
``QueryResult`` and ``GetResult``; pymilvus 2 ``SearchResult`` and REST v2; Elasticsearch 8 and
OpenSearch 2 ``_search`` and ``_msearch``; Pinecone ``query`` and ``search``; Weaviate client 4 and
GraphQL ``Get``; Vespa; Azure AI Search ``docs/search``; Bedrock ``Retrieve``; OpenAI vector store
search; Solr ``select``; Typesense ``search``; RediSearch by redis-py; Dify ``retrieve``; Cohere
``rerank``; OpenInference spans (Phoenix); LangChain ``Document``, ``dumpd`` and pairs with scores;
LlamaIndex ``NodeWithScore`` and ``Response``; Haystack 2 ``Document.to_dict``; RAGAS
``SingleTurnSample``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

from ragbench.errors import ConfigError
from ragbench.io.dumps.form import (
    ID_NAMES,
    SCORE_NAMES,
    TEXT_NAMES,
    DumpForm,
    Hits,
    getter,
    is_list,
    is_object,
)

_TEXTS = ("text", "content", "chunk_text", "page_content", "body", "chunk", "passage", "document")


def _below(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}.{text}" for name in names for text in _TEXTS)


def _plain(value: object) -> Sequence[Hits] | None:
    """A list of objects with texts, or of texts; with numbers among them it is a table's row."""
    if not is_list(value):
        return None
    are_texts = bool(value) and isinstance(value[0], str)
    if are_texts and any(type(one) in (int, float) for one in value):
        return None
    return [value] if not value or are_texts or PLAIN.is_hit(value[0]) else None


def _chroma(value: object) -> Sequence[Hits] | None:
    """Columns: a list for each field, or for each field a list per query."""
    ids = value.get("ids") if is_object(value) else None
    if not is_object(value) or not is_list(ids):
        return None
    if not any(is_list(value.get(name)) for name in ("documents", "metadatas", "distances")):
        return None
    columns = {name: held for name in _CHROMA if is_list(held := value.get(name))}
    if any(map(is_list, ids)):
        each = [
            {name: column[at] for name, column in columns.items() if at < len(column)}
            for at in range(len(ids))
        ]
    else:
        each = [{**columns}]
    return [_rows_of({n: c for n, c in query.items() if is_list(c)}) for query in each]


_CHROMA = {
    "ids": "id",
    "documents": "document",
    "metadatas": "metadata",
    "distances": "distance",
    "scores": "score",
}


def _rows_of(columns: dict[str, Sequence[object]]) -> Hits:
    size = max(map(len, columns.values()), default=0)
    return [
        {_CHROMA[n]: column[at] if at < len(column) else None for n, column in columns.items()}
        for at in range(size)
    ]


def _elasticsearch(value: object) -> Sequence[Hits] | None:
    responses = value.get("responses") if is_object(value) else None
    # A search that failed has no hits, not even none.
    return ELASTICSEARCH.batch(responses) if is_list(responses) else None


def _milvus(value: object) -> Sequence[Hits] | None:
    """REST: hits of several queries stand in one list; ``topks`` says how many are whose."""
    data = value.get("data") if is_object(value) and "code" in value else None
    if not is_object(value) or not is_list(data):
        return None
    if data and not (is_object(data[0]) and "distance" in data[0]):
        return None
    sizes = value.get("topks")
    if not is_list(sizes) or len(sizes) < 2:
        return [data]
    found: list[Hits] = []
    at = 0
    for size in sizes:
        end = at + size if isinstance(size, int) else len(data)
        found.append(data[at:end])
        at = end
    return found


def _qdrant(value: object) -> Sequence[Hits] | None:
    """The envelope of REST, and what a client's scroll returns: points and the next offset."""
    if is_object(value) and "result" in value and ("status" in value or "time" in value):
        inner = value["result"]
        return [[]] if inner == [] else QDRANT.unwrap(inner)
    if is_list(value) and len(value) == 2 and isinstance(value[1], (str, int, type(None))):
        points = QDRANT.hits(value[0])
        return None if points is None else [points]
    return None


def _qdrant_groups(value: object) -> object:
    groups = value.get("groups") if is_object(value) else None
    if not is_list(groups):
        return None
    hits = (getter("hits")(group) for group in groups)
    return list(chain.from_iterable(one for one in hits if is_list(one)))


def _qdrant_points(value: object) -> object:
    points = value.get("points") if is_object(value) else None
    is_record = is_object(value) and not value.keys().isdisjoint({"query", "question", "chunks"})
    return None if points == [] and is_record else points


def _weaviate(value: object) -> Sequence[Hits] | None:
    """GraphQL: a list per class."""
    found = getter("data.Get")(value)
    lists = [held for held in found.values() if is_list(held)] if is_object(found) else []
    return [list(chain.from_iterable(lists))] if lists else None


def _haystack_pipeline(value: object) -> object:
    """A pipeline's output: ``{"retriever": {"documents": ...}, "ranker": {"documents": ...}}``."""
    held = value.values() if is_object(value) else ()
    named = [one["documents"] for one in held if is_object(one) and "documents" in one]
    return named[-1] if named else None


def _langchain(value: object) -> object:
    """A document as a flat object, also when it is serialised or in a pair with its score."""
    if is_list(value) and len(value) == 2 and type(value[1]) in (int, float):
        inner = _langchain(value[0])
        return {**inner, "score": value[1]} if is_object(inner) else None
    if is_object(value) and value.get("type") == "constructor" and is_object(value.get("kwargs")):
        value = value["kwargs"]
    if not is_object(value):
        return None
    # LangChain.js writes camel case.
    text = value.get("page_content", value.get("pageContent"))
    has_one = "page_content" in value or "pageContent" in value
    return {**value, "page_content": text} if has_one else None


def _ragas(value: object) -> Sequence[Hits] | None:
    if not is_object(value):
        return None
    inner = value.get("eval_sample")
    sample = inner if is_object(inner) else value
    if "user_input" not in sample and not {"question", "contexts"} <= sample.keys():
        return None
    contexts = sample.get("retrieved_contexts", sample.get("contexts"))
    if contexts is None and "retrieved_contexts" in sample:
        contexts = list[object]()
    if not is_list(contexts) or any(is_object(item) for item in contexts[:1]):
        return None
    ids = sample.get("retrieved_context_ids")
    if not is_list(ids) or len(ids) != len(contexts):
        return [[{"text": text} for text in contexts]]
    return [[{"id": id, "text": text} for id, text in zip(ids, contexts, strict=True)]]


_SPAN = re.compile(r"(?:attributes\.)?retrieval\.documents\.(\d+)\.(document\..+)")


def _openinference_flat(value: object) -> object:
    """``retrieval.documents.0.document.content`` and so on, as objects in their order."""
    attributes = value.get("attributes") if is_object(value) else None
    held = attributes if is_object(attributes) else value
    found: dict[int, dict[str, object]] = {}
    for name, one in held.items() if is_object(held) else ():
        if (match := _SPAN.fullmatch(name)) is not None:
            found.setdefault(int(match[1]), {})[match[2]] = one
    return [found[number] for number in sorted(found)]


PLAIN = DumpForm(
    name="plain",
    summary="Plain JSON or JSONL: a query with a list of texts or objects, names guessed.",
    example='{"question": "...", "passages": [{"pid": 1, "passage": "..."}]}',
    special=_plain,
    hit=("+text",),
    id=(*ID_NAMES, "metadata.id", "metadata.chunk_id", "meta.id"),
    text=TEXT_NAMES,
    score=SCORE_NAMES,
    metadata=("metadata", "meta", "payload"),
    any_text_in="",
)
ROWS = DumpForm(
    name="pgvector",
    summary="Rows of a table, one per chunk, as CSV, TSV, JSONL or Parquet: PGVector and the like.",
    example="query_id,query,id,content,distance",
    special=_plain,
    hit=PLAIN.hit,
    id=PLAIN.id,
    text=PLAIN.text,
    score=PLAIN.score,
    metadata=("metadata", "cmetadata", "metadata_", "meta"),
)
QDRANT = DumpForm(
    name="qdrant",
    summary="Qdrant responses: query, search, scroll, groups, batches; REST and client forms.",
    example='{"result": {"points": [{"id": 1, "score": 0.9, "payload": {"text": "..."}}]}}',
    special=_qdrant,
    at=(_qdrant_groups, _qdrant_points),
    hit=("id payload", "id version", "id vector", "id shard_key", "id order_value"),
    is_batch=True,
    empty=True,
    text=(*_below("payload"), "payload._node_content.text", "payload.context"),
    metadata=("payload",),
    any_text_in="payload",
    scores_are_distances=False,
)
"""Similarities as a rule; distances come out by their order (Euclid, Manhattan)."""
ELASTICSEARCH = DumpForm(
    name="elasticsearch",
    summary="Elasticsearch and OpenSearch responses: search and multi-search.",
    example='{"hits": {"hits": [{"_id": "a", "_score": 3.1, "_source": {"text": "..."}}]}}',
    special=_elasticsearch,
    at=("hits.hits", "hits"),
    hit=("_id _score", "_id _source"),
    empty=True,
    id=("_id",),
    text=(*_below("_source"), "_source.description", *_below("fields")),
    score=("_score",),
    metadata=("_source.metadata", "_source", "fields"),
    any_text_in="_source",
    scores_are_distances=False,
)

FORMS: tuple[DumpForm, ...] = (
    DumpForm(
        name="ragbench",
        summary="ragbench's own form: one line per query.",
        example='{"query_id": "q1", "query": "..", "chunks": [{"id": "a", "text": "...", '
        '"score": 1}]}',
        special=_plain,
        hit=PLAIN.hit,
    ),
    DumpForm(
        name="pinecone",
        summary="Pinecone results of query and search.",
        example='{"matches": [{"id": "a", "score": 0.9, "metadata": {"text": "..."}}]}',
        at=("matches", "result.hits"),
        hit=("_id _score fields.", "id score metadata. -text"),
        id=("id", "_id"),
        text=_below("metadata", "fields"),
        score=("score", "_score"),
        metadata=("metadata", "fields"),
        any_text_in="metadata",
        scores_are_distances=False,
    ),
    DumpForm(
        name="weaviate",
        summary="Weaviate objects of the client, and GraphQL responses.",
        example='{"objects": [{"uuid": "a", "properties": {"text": "..."}, "metadata": {"score": '
        "1}}]}",
        special=_weaviate,
        at=("objects",),
        hit=("properties.",),
        id=("uuid", "id", "_additional.id"),
        text=(*_below("properties"), *_TEXTS),
        score=tuple(
            f"{place}.{name}"
            for place in ("metadata", "_additional")
            for name in ("score", "certainty", "distance")
        ),
        metadata=("properties",),
        any_text_in="properties",
    ),
    DumpForm(
        name="vespa",
        summary="Vespa query results.",
        example='{"root": {"children": [{"id": "a", "relevance": 9, "fields": {"text": "..."}}]}}',
        at=("root.children", "children"),
        hit=("relevance fields.",),
        text=_below("fields"),
        score=("relevance",),
        metadata=("fields",),
        any_text_in="fields",
        scores_are_distances=False,
    ),
    DumpForm(
        name="azure",
        summary="Azure AI Search results.",
        example='{"value": [{"@search.score": 2.1, "id": "a", "content": "..."}]}',
        at=("value",),
        hit=("@search.score",),
        id=("id", "key", "chunk_id", "chunkId"),
        text=_TEXTS,
        score=("@search.rerankerScore", "@search.score"),
        any_text_in="",
        scores_are_distances=False,
    ),
    DumpForm(
        name="bedrock",
        summary="Results of Amazon Bedrock knowledge bases.",
        example='{"retrievalResults": [{"content": {"text": "..."}, "score": 1, "location": {}}]}',
        at=("retrievalResults",),
        hit=("content. location",),
        id=("metadata.x-amz-bedrock-kb-chunk-id", "id"),
        text=("content.text",),
    ),
    DumpForm(
        name="openai",
        summary="Results of OpenAI vector stores.",
        example='{"data": [{"file_id": "a", "score": 0.9, "content": [{"text": "..."}]}]}',
        at=("data", "search_results", "results"),
        hit=("file_id content",),
        id=("id", "file_id"),
        text=("content", "text"),
        metadata=("attributes",),
    ),
    DumpForm(
        name="solr",
        summary="Solr responses.",
        example='{"response": {"docs": [{"id": "a", "text": "...", "score": 3.2}]}}',
        at=("response.docs",),
        hit=("+text",),
        is_bare=False,
        text=_TEXTS,
        any_text_in="",
        scores_are_distances=False,
    ),
    DumpForm(
        name="typesense",
        summary="Typesense results.",
        example='{"hits": [{"document": {"id": "a", "text": "..."}, "text_match": 57}]}',
        at=("hits", "results.0.hits"),
        hit=("document. -index",),
        id=("document.id",),
        text=_below("document"),
        score=("vector_distance", "hybrid_search_info.rank_fusion_score", "text_match"),
        metadata=("document",),
        any_text_in="document",
    ),
    DumpForm(
        name="redis",
        summary="RediSearch documents, as redis-py gives them.",
        example='{"docs": [{"id": "a", "payload": null, "content": "...", "score": 0.1}]}',
        at=("docs",),
        hit=("id payload=null +text",),
        text=_TEXTS,
        score=("score", "vector_score", "vector_distance", "__score"),
        any_text_in="",
    ),
    DumpForm(
        name="dify",
        summary="Dify retrieval records.",
        example='{"records": [{"segment": {"id": "a", "content": "..."}, "score": 0.8}]}',
        at=("records",),
        hit=("segment.",),
        id=("segment.id",),
        text=("segment.content", "segment.text"),
        metadata=("segment.document",),
    ),
    DumpForm(
        name="cohere",
        summary="Cohere rerank results that return their documents.",
        example='{"results": [{"index": 0, "relevance_score": 0.9, "document": {"text": "..."}}]}',
        at=("results",),
        hit=("index relevance_score document",),
        id=("document.id", "index"),
        text=("document.text", "document"),
        score=("relevance_score",),
        scores_are_distances=False,
    ),
    DumpForm(
        name="openinference",
        summary="Retriever spans of OpenInference, as Phoenix exports them.",
        example='{"attributes": {"retrieval": {"documents": [{"document": {"content": "..."}}]}}}',
        at=("attributes.retrieval.documents", "retrieval.documents", _openinference_flat),
        hit=("document.content",),
        is_bare=False,
        id=("document.id",),
        text=("document.content",),
        score=("document.score",),
        metadata=("document.metadata",),
    ),
    QDRANT,
    DumpForm(
        name="chroma",
        summary="Chroma results of query, get and search.",
        example='{"ids": [["a"]], "documents": [["..."]], "distances": [[0.2]]}',
        special=_chroma,
        text=("document",),
        score=("distance", "score"),
        any_text_in="metadata",
        scores_are_distances=True,
    ),
    DumpForm(
        name="milvus",
        summary="Milvus results of search: pymilvus and the REST interface.",
        example='[[{"id": 1, "distance": 0.9, "entity": {"text": "..."}}]]',
        special=_milvus,
        hit=("distance entity", "distance fields"),
        is_batch=True,
        id=("id", "pk", "entity.id", "entity.pk"),
        text=(*_below("entity"), "text", "content"),
        score=("distance", "score"),
        metadata=("entity.metadata", "metadata", "entity", "fields"),
        any_text_in="entity",
        scores_are_distances=False,  # called a distance whatever the metric: the order tells
    ),
    ROWS,
    ELASTICSEARCH,
    DumpForm(
        name="langchain",
        summary="LangChain documents, bare or with scores, and chains that return sources.",
        example='{"query": "...", "source_documents": [{"page_content": "...", "metadata": {}}]}',
        adapt=_langchain,
        is_batch=True,
        id=(
            *("id", "metadata._id", "metadata.id", "metadata.chunk_id", "metadata.doc_id"),
            *("metadata.uuid", "metadata.document_id"),
        ),
        text=("page_content",),
        score=("score", "metadata.relevance_score", "metadata.score", "metadata._score"),
    ),
    DumpForm(
        name="llamaindex",
        summary="LlamaIndex nodes, bare or with scores, and responses with source nodes.",
        example='{"query": "...", "source_nodes": [{"node": {"id_": "a", "text": "..."}, '
        '"score": 1}]}',
        at=("source_nodes",),
        hit=(
            *("node.id_", "id_", "node.relationships node.text", "relationships text"),
            *("node.relationships node.metadata", "relationships metadata"),
        ),
        id=("node.id_", "id_", "node.node_id", "node.id", "node_id", "id"),
        text=("node.text", "text", "node.text_resource.text", "text_resource.text"),
        metadata=("node.metadata", "metadata"),
    ),
    DumpForm(
        name="haystack",
        summary="Haystack documents, and pipeline outputs that hold them.",
        example='{"retriever": {"documents": [{"id": "a", "content": "...", "meta": {}, '
        '"score": 1}]}}',
        at=("documents", _haystack_pipeline),
        hit=tuple(
            f"content {name}"
            for name in ("blob", "meta", "sparse_embedding", "dataframe", "content_type")
        ),
        text=("content",),
        metadata=("meta",),
    ),
    DumpForm(
        name="ragas",
        summary="RAGAS datasets: user_input with retrieved_contexts; also question with contexts.",
        example='{"user_input": "...", "retrieved_contexts": ["..."], "retrieved_context_ids": '
        '["a"]}',
        special=_ragas,
    ),
    PLAIN,
)
"""Forms whose records hold everything, in the order in which they are tried."""

JOINED_FORMS = {
    "trec": (
        "A TREC run; --corpus has the texts, --queries the topics.",
        "q1 Q0 doc7 1 12.3 bm25",
    ),
    "beir": (
        "BEIR results, a JSON object of query, document and score; --corpus is the BEIR folder.",
        '{"q1": {"doc7": 12.3}}',
    ),
}
"""Forms that hold ids alone, with summary and example of each."""

_ALIASES = {"opensearch": "elasticsearch", "rows": "pgvector", "jsonl": "plain", "json": "plain"}


def form_names() -> tuple[str, ...]:
    return (*(form.name for form in FORMS), *JOINED_FORMS)


def find_form(name: str) -> DumpForm | str:
    wanted = _ALIASES.get(name, name)
    if wanted in JOINED_FORMS:
        return wanted
    for form in FORMS:
        if form.name == wanted:
            return form
    raise ConfigError(f"no dump format '{name}'. Known: {', '.join(form_names())}")
