"""The table of dump forms, ``forms.toml``: where a tool keeps its hits and their fields.

Sources: Qdrant 1.x OpenAPI (``QueryResponse``, ``ScrollResult``, ``GroupsResult``); Chroma
``QueryResult`` and ``GetResult``; pymilvus 2 ``SearchResult`` and REST v2; Elasticsearch 8 and
OpenSearch 2 ``_search`` and ``_msearch``; Pinecone ``query`` and ``search``; Weaviate client 4 and
GraphQL ``Get``; Vespa; Azure AI Search ``docs/search``; Bedrock ``Retrieve``; OpenAI vector store
search; Solr ``select``; Typesense ``search``; RediSearch by redis-py; Dify ``retrieve``; Cohere
``rerank``; Vertex AI ``SearchResponse`` and ``RetrieveContextsResponse``; OpenAI ``Response``;
Marqo ``search``; OpenInference spans (Phoenix); LangChain ``Document``, ``dumpd`` and pairs with
scores;
LlamaIndex ``NodeWithScore`` and ``Response``; Haystack 2 ``Document.to_dict``; RAGAS
``SingleTurnSample``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, islice, zip_longest
from typing import Any

from ragbench.errors import ConfigError
from ragbench.io.dumps.form import DumpForm, Hits, constructed, getter, numbered
from ragbench.io.dumps.reranked import reranked
from ragbench.io.fields import named, read_table
from ragbench.io.values import as_list, as_object, is_list, is_object


def plain(form: DumpForm, value: object) -> Sequence[Hits] | None:
    """A list of objects with texts, or of texts; or objects with texts, each under its id.

    With numbers among its texts a list is a table's row.
    """
    if is_object(value) and value and all(map(form.is_hit, value.values())):
        return [[{**as_object(chunk), "id": id} for id, chunk in value.items()]]
    if not is_list(value):
        return None
    are_texts = bool(value) and isinstance(value[0], str)
    if are_texts and any(type(one) in (int, float) for one in value):
        return None
    return [value] if not value or are_texts or form.is_hit(value[0]) else None


def chroma(_: DumpForm, value: object) -> Sequence[Hits] | None:
    """Columns: a list for each field, or for each field a list per query."""
    known = as_object(value)
    ids, others = known.get("ids"), map(known.get, ("documents", "metadatas", "distances"))
    if not is_list(ids) or not any(map(is_list, others)):
        return None
    names: Mapping[str, str] = read_table("fields.toml")["chroma"]
    columns = {key: held for name, key in names.items() if is_list(held := known.get(name))}
    each: list[dict[str, object]] = [{**columns}]
    if any(map(is_list, ids)):
        each = [
            {key: column[at] for key, column in columns.items() if at < len(column)}
            for at in range(len(ids))
        ]
    found: list[Hits] = []
    for query in each:
        lists = {key: column for key, column in query.items() if is_list(column)}
        found.append([dict(zip(lists, row, strict=True)) for row in zip_longest(*lists.values())])
    return found


_VERTEX_DATA = ("derivedStructData", "derived_struct_data", "structData", "struct_data")
_VERTEX_TEXTS = (
    ("extractive_segments extractiveSegments", "content"),
    ("extractive_answers extractiveAnswers", "content"),
    ("snippets", "snippet"),
)


def vertex(value: object) -> object:
    chunk, document = map(as_object, map(as_object(value).get, ("chunk", "document")))
    if isinstance(chunk.get("content"), str):
        score = chunk.get("relevanceScore", chunk.get("relevance_score"))
        metadata = chunk.get("documentMetadata", chunk.get("document_metadata"))
        known = {"id": chunk.get("id"), "text": chunk["content"]}
        return {**known, "score": score, "metadata": metadata}
    data = next((document[name] for name in _VERTEX_DATA if name in document), None)
    if not is_object(data):
        return None
    for names, field in _VERTEX_TEXTS:
        held = as_list(next((data[name] for name in names.split() if name in data), None))
        texts = (as_object(one).get(field) for one in held)
        if found := [text for text in texts if isinstance(text, str)]:
            return {"id": document.get("id"), "text": "\n".join(found), "metadata": data}
    named_texts = map(data.get, named("hit")["any_text"])
    text = next((text for text in named_texts if isinstance(text, str)), None)
    return {"id": document.get("id"), "text": text, "metadata": data}


def elasticsearch(form: DumpForm, value: object) -> Sequence[Hits] | None:
    responses = as_object(value).get("responses")
    # A search that failed has no hits, not even none.
    return form.batch(responses) if is_list(responses) else None


def milvus(_: DumpForm, value: object) -> Sequence[Hits] | None:
    """REST: hits of several queries stand in one list; ``topks`` says how many are whose."""
    known = as_object(value)
    data, sizes = known.get("data"), known.get("topks")
    if "code" not in known or not is_list(data):
        return None
    if data and "distance" not in as_object(data[0]):
        return None
    if not is_list(sizes) or len(sizes) < 2:
        return [data]
    hits = iter(data)
    return [[*islice(hits, size if isinstance(size, int) else None)] for size in sizes]


def qdrant(form: DumpForm, value: object) -> Sequence[Hits] | None:
    """The envelope of REST, and what a client's scroll returns: points and the next offset."""
    if is_object(value) and "result" in value and ("status" in value or "time" in value):
        inner = value["result"]
        return [[]] if inner == [] else form.unwrap(inner)
    if is_list(value) and len(value) == 2 and isinstance(value[1], (str, int, type(None))):
        points = form.hits(value[0])
        return None if points is None else [points]
    return None


def qdrant_groups(value: object) -> object:
    groups = as_object(value).get("groups")
    if not is_list(groups):
        return None
    hits = map(getter("hits"), groups)
    return list(chain.from_iterable(one for one in hits if is_list(one)))


def qdrant_points(value: object) -> object:
    known = as_object(value)
    is_record = not known.keys().isdisjoint({"query", "question", "chunks"})
    return None if known.get("points") == [] and is_record else known.get("points")


def weaviate(_: DumpForm, value: object) -> Sequence[Hits] | None:
    lists = [*filter(is_list, as_object(getter("data.Get")(value)).values())]
    return [list(chain.from_iterable(lists))] if lists else None


def openai_response(value: object) -> object:
    calls = as_list(as_object(value).get("output"))
    results = (as_object(one).get("results") for one in calls)
    return [*chain.from_iterable(filter(is_list, results))] or None


def haystack_pipeline(value: object) -> object:
    """A pipeline's output: ``{"retriever": {"documents": ...}, "ranker": {"documents": ...}}``."""
    held = [one for one in as_object(value).values() if "documents" in as_object(one)]
    return as_object(held[-1])["documents"] if held else None


def langchain(value: object) -> object:
    """A document as a flat object, also when it is serialised or in a pair with its score."""
    if is_list(value) and len(value) == 2 and type(value[1]) in (int, float):
        inner = langchain(value[0])
        return {**inner, "score": value[1]} if is_object(inner) else None
    if not is_object(value):
        return None
    value = constructed(value)
    # LangChain.js writes camel case.
    text = value.get("page_content", value.get("pageContent"))
    has_one = "page_content" in value or "pageContent" in value
    return {**value, "page_content": text} if has_one else None


def ragas(_: DumpForm, value: object) -> Sequence[Hits] | None:
    """Texts, and beside them a list of their ids, of their scores, or both."""
    if not is_object(value):
        return None
    inner = value.get("eval_sample")
    sample = inner if is_object(inner) else value
    name = next((one for one in ("retrieved_contexts", "contexts") if one in sample), None)
    contexts = None if name is None else sample[name]
    if contexts is None and name is not None:
        contexts = list[object]()
    if not is_list(contexts) or any(is_object(item) for item in contexts[:1]):
        return None
    is_known = "user_input" in sample or {"question", "contexts"} <= sample.keys() or not contexts
    columns: dict[str, Sequence[object]] = {"text": contexts}
    for field, names in named("ragas_columns").items():
        found = next(filter(is_list, map(sample.get, names)), None)
        is_known = is_known or found is not None
        if found is not None and len(found) == len(contexts):
            columns[field] = found
    if not is_known:
        return None
    return [[dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]]


def openinference_flat(value: object) -> object:
    """``retrieval.documents.0.document.content`` and so on, as objects in their order."""
    attributes = as_object(value).get("attributes")
    held = attributes if is_object(attributes) else as_object(value)
    prefixes = ("retrieval.documents", "attributes.retrieval.documents")
    return next(filter(None, (numbered(held, prefix) for prefix in prefixes)), None)


_FUNCTIONS: Mapping[str, Any] = {
    function.__name__: function
    for function in (
        *(plain, chroma, reranked, vertex, elasticsearch, milvus, qdrant, qdrant_groups),
        *(qdrant_points, weaviate, openai_response, haystack_pipeline, langchain, ragas),
        openinference_flat,
    )
}
"""Those that ``forms.toml`` names."""


@cache
def forms() -> Mapping[str, DumpForm]:
    """Forms whose records hold everything, by name, in the order in which they are tried."""
    table = read_table("dumps/forms.toml")
    return {name: _form(name, dict(row)) for name, row in table.items()}


def _form(name: str, row: dict[str, Any]) -> DumpForm:
    for field in ("id", "text", "score", "metadata"):
        if field in row:
            row[field] = tuple(chain.from_iterable(_paths(field, row[field])))
    at = row.get("at", "").split()
    row["at"] = tuple(_FUNCTIONS[p[1:-1]] if p.startswith("(") else p for p in at)
    row["hit"] = tuple(row.get("hit", ()))
    for field in ("special", "adapt"):
        if field in row:
            row[field] = _FUNCTIONS[row[field]]
    return DumpForm(name=name, **row)


def _paths(field: str, paths: str) -> Iterator[Iterable[str]]:
    for path in paths.split():
        if path == "usual":
            yield named("hit")[field]
        elif path.endswith("*"):
            yield (f"{path[:-1]}{text}" for text in named("hit")["any_text"])
        else:
            yield (path,)


RANKED = {
    "trec": ("A TREC run; --corpus has the texts, --queries the topics.", "q1 Q0 doc7 1 12.3 bm25"),
    "beir": (
        "BEIR results, a JSON object of query, document and score; --corpus is the BEIR folder.",
        '{"q1": {"doc7": 12.3}}',
    ),
}
"""Rankings, which hold ids alone, with summary and example of each."""

_ALIASES = {"opensearch": "elasticsearch", "rows": "pgvector", "jsonl": "plain", "json": "plain"}


def form_names() -> tuple[str, ...]:
    return (*forms(), *RANKED)


def find_form(name: str, others: Iterable[str] = ()) -> DumpForm:
    """The form of a name, or of one that it had.

    Args:
        others: what else might have been meant.
    """
    found = forms().get(_ALIASES.get(name, name))
    if found is None:
        known = ", ".join((*others, *form_names()))
        raise ConfigError(f"unknown format '{name}'. Known: {known}")
    return found
