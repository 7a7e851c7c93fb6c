"""The table of forms; those of frameworks: LangChain, LlamaIndex, Haystack, RAGAS.

Source: haystack-ai 2 ``Document.to_dict``, flat and not.

Source: langchain-core ``Document``, its ``dumpd`` form, and ``similarity_search_with_score``.

Source: llama-index-core ``NodeWithScore``, ``TextNode`` and ``Response``.

Source: ragas ``SingleTurnSample``; early files say ``question`` and ``contexts``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.errors import ConfigError
from ragbench.io.dumps import form as plain
from ragbench.io.dumps import store_forms as chroma
from ragbench.io.dumps import store_forms as elasticsearch
from ragbench.io.dumps import store_forms as milvus
from ragbench.io.dumps import store_forms as qdrant
from ragbench.io.dumps.form import DumpForm, Hits, is_list, is_object, list_of_hits, lists_of_hits
from ragbench.io.dumps.search_forms import SEARCH_FORMS

_HAYSTACK_FIELDS = ("blob", "meta", "sparse_embedding", "dataframe", "content_type")


def _is_document(value: object) -> bool:
    return (
        is_object(value) and "content" in value and any(name in value for name in _HAYSTACK_FIELDS)
    )


def _haystack_records(value: object) -> Sequence[Hits] | None:
    found = _haystack_documents(value)
    if found is None and is_object(value):
        # A pipeline's output: {"retriever": {"documents": [...]}, "ranker": {"documents": [...]}}.
        named = [one for one in value.values() if is_object(one) and "documents" in one]
        found = _haystack_documents(named[-1]) if named else None
    return None if found is None else [found]


def _haystack_documents(value: object) -> Hits | None:
    if is_object(value) and "documents" in value:
        value = value["documents"]
    return list_of_hits(value, _is_document)


HAYSTACK = DumpForm(
    name="haystack",
    summary="Haystack documents, and pipeline outputs that hold them.",
    example='{"retriever": {"documents": [{"id": "a", "content": "...", "meta": {}, "score": 1}]}}',
    unwrap=_haystack_records,
    is_hit=_is_document,
    text=("content",),
    metadata=("meta",),
)


def _document(value: object) -> dict[str, object] | None:
    """A document as a flat object, also when it is serialised or in a pair with its score."""
    if is_list(value) and len(value) == 2 and _is_score(value[1]):
        inner = _document(value[0])
        return None if inner is None else {**inner, "score": value[1]}
    if is_object(value) and value.get("type") == "constructor" and is_object(value.get("kwargs")):
        value = value["kwargs"]
    if not is_object(value):
        return None
    if "page_content" in value:
        return dict(value)
    # LangChain.js writes camel case.
    if "pageContent" in value:
        return {**value, "page_content": value["pageContent"]}
    return None


def _is_score(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _langchain_records(value: object) -> Sequence[Hits] | None:
    if not is_list(value) or not value:
        return None
    one = _langchain_documents(value)
    if one is not None:
        return [one]
    return lists_of_hits(value, _langchain_documents)


def _langchain_documents(value: object) -> Hits | None:
    if not is_list(value) or not value or _document(value[0]) is None:
        return None
    # What is no document is passed on, to be told as malformed.
    return [_document(item) or item for item in value]


LANGCHAIN = DumpForm(
    name="langchain",
    summary="LangChain documents, bare or with scores, and chains that return sources.",
    example='{"query": "...", "source_documents": [{"page_content": "...", "metadata": {}}]}',
    unwrap=_langchain_records,
    is_hit=lambda value: _document(value) is not None,
    id=(
        *("id", "metadata._id", "metadata.id", "metadata.chunk_id", "metadata.doc_id"),
        *("metadata.uuid", "metadata.document_id"),
    ),
    text=("page_content",),
    score=("score", "metadata.relevance_score", "metadata.score", "metadata._score"),
)


def _is_node(value: object) -> bool:
    if not is_object(value):
        return False
    inner = value.get("node")
    node = inner if is_object(inner) else value
    return "id_" in node or ("relationships" in node and ("text" in node or "metadata" in node))


def _llamaindex_records(value: object) -> Sequence[Hits] | None:
    if is_object(value) and "source_nodes" in value:
        value = value["source_nodes"]
    found = list_of_hits(value, _is_node)
    return None if found is None else [found]


LLAMAINDEX = DumpForm(
    name="llamaindex",
    summary="LlamaIndex nodes, bare or with scores, and responses with source nodes.",
    example='{"query": "...", "source_nodes": [{"node": {"id_": "a", "text": "..."}, "score": 1}]}',
    unwrap=_llamaindex_records,
    is_hit=_is_node,
    id=("node.id_", "id_", "node.node_id", "node.id", "node_id", "id"),
    text=("node.text", "text", "node.text_resource.text", "text_resource.text"),
    metadata=("node.metadata", "metadata"),
)


def _ragas_records(value: object) -> Sequence[Hits] | None:
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


RAGAS = DumpForm(
    name="ragas",
    summary="RAGAS datasets: user_input with retrieved_contexts; also question with contexts.",
    example='{"user_input": "...", "retrieved_contexts": ["..."], "retrieved_context_ids": ["a"]}',
    unwrap=_ragas_records,
    is_hit=lambda _: False,
)


_OWN_FORMS = DumpForm(
    name="ragbench",
    summary="ragbench's own form: one line per query.",
    example='{"query_id": "q1", "query": "..", "chunks": [{"id": "a", "text": "...", "score": 1}]}',
    unwrap=plain.FORM.unwrap,
    is_hit=plain.FORM.is_hit,
)
ROWS = DumpForm(
    name="pgvector",
    summary="Rows of a table, one per chunk, as CSV, TSV, JSONL or Parquet: PGVector and the like.",
    example="query_id,query,id,content,distance",
    unwrap=plain.FORM.unwrap,
    is_hit=plain.FORM.is_hit,
    id=plain.FORM.id,
    text=plain.FORM.text,
    score=plain.FORM.score,
    metadata=("metadata", "cmetadata", "metadata_", "meta"),
)

FORMS: tuple[DumpForm, ...] = (
    _OWN_FORMS,
    *SEARCH_FORMS,
    qdrant.QDRANT,
    chroma.CHROMA,
    milvus.MILVUS,
    ROWS,
    elasticsearch.ELASTICSEARCH,
    LANGCHAIN,
    LLAMAINDEX,
    HAYSTACK,
    RAGAS,
    plain.FORM,
)
"""Forms whose records hold everything."""

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
"""Forms that hold ids alone, with what to tell a user about each."""

_ALIASES = {"opensearch": "elasticsearch", "rows": "pgvector", "jsonl": "plain", "json": "plain"}


def form_names() -> tuple[str, ...]:
    return (*(form.name for form in FORMS), *JOINED_FORMS)


def find_form(name: str) -> DumpForm | str:
    """The form of a name; a joined form's own name."""
    wanted = _ALIASES.get(name, name)
    if wanted in JOINED_FORMS:
        return wanted
    for form in FORMS:
        if form.name == wanted:
            return form
    raise ConfigError(f"no dump format '{name}'. Known: {', '.join(form_names())}")
