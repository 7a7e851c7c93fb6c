"""The table of dump forms, ``forms.toml``: where a tool keeps its hits and their fields.

Sources: Qdrant 1.x OpenAPI (``QueryResponse``, ``ScrollResult``, ``GroupsResult``); Chroma
``QueryResult`` and ``GetResult``; pymilvus 2 ``SearchResult`` and REST v2; Elasticsearch 8 and
OpenSearch 2 ``_search`` and ``_msearch``; Pinecone ``query`` and ``search``; Weaviate client 4 and
GraphQL ``Get``; Vespa; Azure AI Search ``docs/search``; Bedrock ``Retrieve``; OpenAI vector store
search; Solr ``select``; Typesense ``search``; RediSearch by redis-py; Dify ``retrieve``; Cohere
``rerank``; Vertex AI ``SearchResponse`` and ``RetrieveContextsResponse``; OpenAI ``Response``;
Marqo ``search``; OpenInference spans (Phoenix); LangChain ``Document``, ``dumpd`` and pairs with
scores; LlamaIndex ``NodeWithScore`` and ``Response``; Haystack 2 ``Document.to_dict``; RAGAS
``SingleTurnSample``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, islice, zip_longest
from typing import Any

from ragbench.errors import ConfigError
from ragbench.io.dumps.form import DumpForm, Hits, constructed, getter, numbered
from ragbench.io.dumps.reranked import reranked
from ragbench.io.fields import field_names, read_table
from ragbench.io.values import as_list, as_object, is_list, is_object
from ragbench.safe_text import listed_names


def plain(form: DumpForm, value: object) -> Sequence[Hits] | None:
    """The hits in a plain list of objects with texts, or of texts; or in objects by their ids.

    A list that has numbers among its texts is the row of a table, and no list of hits.

    A form in ``forms.toml`` names this function.
    """
    # Chunks by their ids: the key becomes the id of each.
    if is_object(value) and value and all(map(form.is_hit, value.values())):
        chunks: list[dict[str, object]] = []
        for id, chunk in value.items():
            chunks.append({**as_object(chunk), "id": id})
        return [chunks]
    if not is_list(value):
        return None
    # One query without hits.
    if not value:
        return [value]
    if isinstance(value[0], str):
        has_numbers = any(type(item) in (int, float) for item in value)
        return None if has_numbers else [value]
    if not form.is_hit(value[0]):
        return None
    return [value]


def chroma(_: DumpForm, value: object) -> Sequence[Hits] | None:
    """The hits of Chroma's responses, which have a list for each field, or one per query in each.

    Other stores give an object for each hit: the lists are put together to such objects.

    No path leads to such hits, so the form in ``forms.toml`` names this function.
    """
    response = as_object(value)
    ids = response.get("ids")
    if not is_list(ids):
        return None
    if not any(is_list(response.get(name)) for name in ("documents", "metadatas", "distances")):
        return None
    field_by_name: Mapping[str, str] = read_table("fields.toml")["chroma"]
    columns: dict[str, Sequence[object]] = {}
    for name, field in field_by_name.items():
        column = response.get(name)
        if is_list(column):
            columns[field] = column

    if not any(map(is_list, ids)):  # of `get`, which has no queries
        return [_rows_of_columns(columns)]
    hits_by_query: list[Hits] = []
    for query_number in range(len(ids)):
        columns_of_query: dict[str, Sequence[object]] = {}
        for field, lists in columns.items():
            if query_number >= len(lists):
                continue
            column = lists[query_number]
            if is_list(column):  # Chroma writes null for a field that was not asked for
                columns_of_query[field] = column
        hits_by_query.append(_rows_of_columns(columns_of_query))
    return hits_by_query


def _rows_of_columns(columns: Mapping[str, Sequence[object]]) -> list[dict[str, object]]:
    """An object for each hit of a response that has a list per field; short lists end in nulls.

    Hits are decoded as objects, whatever their store returned.

    Args:
        columns: by the field of a hit, its value for each hit.
    """
    names = list(columns)
    rows: list[dict[str, object]] = []
    for values in zip_longest(*columns.values()):
        rows.append(dict(zip(names, values, strict=True)))
    return rows


_VERTEX_DATA = ("derivedStructData", "derived_struct_data", "structData", "struct_data")
"""Where a document of Vertex AI Search has what was found in it, the more telling ones first."""
_VERTEX_TEXTS = (
    (("extractive_segments", "extractiveSegments"), "content"),
    (("extractive_answers", "extractiveAnswers"), "content"),
    (("snippets",), "snippet"),
)
"""The names of each list of passages, the longer ones first, and the field with their text."""


def vertex(value: object) -> object:
    """A result of Vertex AI Search as a flat object: a chunk, or a document with its passages.

    Its texts are in one of several lists, which no path can name. None for any other value.

    The form in ``forms.toml`` names this function.
    """
    chunk = as_object(as_object(value).get("chunk"))
    if isinstance(chunk.get("content"), str):
        return {
            "id": chunk.get("id"),
            "text": chunk["content"],
            "score": chunk.get("relevanceScore", chunk.get("relevance_score")),
            "metadata": chunk.get("documentMetadata", chunk.get("document_metadata")),
        }
    document = as_object(as_object(value).get("document"))
    data = _first_present(document, _VERTEX_DATA)
    if not is_object(data):
        return None
    return {"id": document.get("id"), "text": _vertex_text(data), "metadata": data}


def _vertex_text(data: Mapping[str, object]) -> str | None:
    """The passages that Vertex AI Search found in a document, as lines; else another text of it.

    Args:
        data: the document's fields; the longer passages of them count first.
    """
    for names, field in _VERTEX_TEXTS:
        texts: list[str] = []
        for passage in as_list(_first_present(data, names)):
            text = as_object(passage).get(field)
            if isinstance(text, str):
                texts.append(text)
        if texts:
            return "\n".join(texts)
    for name in field_names("hit")["any_text"]:
        text = data.get(name)
        if isinstance(text, str):
            return text
    return None


def _first_present(fields: Mapping[str, object], names: Sequence[str]) -> object:
    """The value of the first of several names that an object has; None where it has none.

    Tools spell one name in several ways, such as camel case and underscores.
    """
    for name in names:
        if name in fields:
            return fields[name]
    return None


def elasticsearch(form: DumpForm, value: object) -> Sequence[Hits] | None:
    """The hits of Elasticsearch's ``_msearch``, which answers several searches at once.

    None where one of the searches failed: its response has no list of hits, not even an empty one.

    The form in ``forms.toml`` names this function.
    """
    responses = as_object(value).get("responses")
    # `batch` gives None where a response has no list of hits.
    return form.batch(responses) if is_list(responses) else None


def milvus(_: DumpForm, value: object) -> Sequence[Hits] | None:
    """The hits of Milvus' REST responses, in which those of several queries are in one list.

    ``topks`` says how many hits each query has.

    No path leads to such hits, so the form in ``forms.toml`` names this function.
    """
    response = as_object(value)
    hits = response.get("data")
    if "code" not in response or not is_list(hits):
        return None
    if hits and "distance" not in as_object(hits[0]):
        return None
    sizes = response.get("topks")
    if not is_list(sizes) or len(sizes) < 2:
        return [hits]
    hits_by_query: list[Hits] = []
    remaining_hits = iter(hits)
    for size in sizes:
        # A size that is no number leaves all the remaining hits to its query.
        count = size if isinstance(size, int) else None
        hits_by_query.append([*islice(remaining_hits, count)])
    return hits_by_query


def qdrant(form: DumpForm, value: object) -> Sequence[Hits] | None:
    """The hits in Qdrant's REST responses, and in a client's scroll: points and the next offset.

    None for any other value. ``forms.toml`` lists paths to hits, by which these two forms cannot be
    recognised.

    The form in ``forms.toml`` names this function.
    """
    if is_object(value) and "result" in value:
        is_envelope = "status" in value or "time" in value
        if not is_envelope:
            return None
        if value["result"] == []:  # a search that found nothing
            return [[]]
        return form.unwrap(value["result"])
    # The offset is the id of the next point, a text or a number; null after the last one.
    if is_list(value) and len(value) == 2 and isinstance(value[1], (str, int, type(None))):
        points = form.hits(value[0])
        return None if points is None else [points]
    return None


def qdrant_groups(value: object) -> object:
    """The hits of Qdrant's groups, one group after the other, as one list for the one query.

    A search by groups, such as documents, is judged like one without them.

    The form in ``forms.toml`` names this function as one of the places of hits.
    """
    groups = as_object(value).get("groups")
    if not is_list(groups):
        return None
    hits: list[object] = []
    for group in groups:
        hits += as_list(as_object(group).get("hits"))
    return hits


def qdrant_points(value: object) -> object:
    """The points of a response of Qdrant; None if an empty list so named is another record's.

    A list of points that holds some is recognised by them. Of an empty one only the fields beside
    it tell whether the object is a response.

    The form in ``forms.toml`` names this function as one of the places of hits.
    """
    response = as_object(value)
    points = response.get("points")
    if points == []:
        is_record = any(name in response for name in ("query", "question", "chunks"))
        if is_record:
            return None
    return points


def weaviate(_: DumpForm, value: object) -> Sequence[Hits] | None:
    """The hits in Weaviate's GraphQL responses, under ``data.Get`` and names of collections.

    The names are the user's own, so all collections of the response are one list.

    No path leads to such hits, so the form in ``forms.toml`` names this function.
    """
    objects_of_collection = as_object(getter("data.Get")(value))
    lists = [*filter(is_list, objects_of_collection.values())]
    if not lists:
        return None
    return [list(chain.from_iterable(lists))]


def openai_response(value: object) -> object:
    """The results of all file searches that a response of OpenAI made; None without any.

    The model may search several times for one answer, which is given all results.

    The form in ``forms.toml`` names this function as one of the places of hits.
    """
    results: list[object] = []
    for item in as_list(as_object(value).get("output")):
        results += as_list(as_object(item).get("results"))
    return results or None


def haystack_pipeline(value: object) -> object:
    """The documents of the last component of a Haystack pipeline that put some out.

    Its output is ``{"retriever": {"documents": ...}, "ranker": {"documents": ...}}``, and the last
    list is what generation was given.

    The form in ``forms.toml`` names this function as one of the places of hits.
    """
    documents: object = None
    for output in as_object(value).values():
        if "documents" in as_object(output):
            documents = as_object(output)["documents"]
    return documents


def langchain(value: object) -> object:
    """A document of LangChain's as a flat object, also when it is serialised or with its score.

    None for any other value.

    The form in ``forms.toml`` names this function, which makes a hit of each document.
    """
    # A document with its score, as searches with scores return it.
    if is_list(value) and len(value) == 2 and type(value[1]) in (int, float):
        document = langchain(value[0])
        if not is_object(document):
            return None
        return {**document, "score": value[1]}
    if not is_object(value):
        return None
    fields = constructed(value)
    # LangChain.js writes camel case.
    for name in ("page_content", "pageContent"):
        if name in fields:
            return {**fields, "page_content": fields[name]}
    return None


def ragas(_: DumpForm, value: object) -> Sequence[Hits] | None:
    """The hits of a RAGAS sample: texts, and beside them lists of their ids and scores.

    None for any other record: other tools have contexts, too, so that one more field must be
    RAGAS'.

    The form in ``forms.toml`` names this function.
    """
    if not is_object(value):
        return None
    sample = value
    if is_object(value.get("eval_sample")):  # what RAGAS writes of an experiment
        sample = as_object(value["eval_sample"])
    if "retrieved_contexts" in sample:
        contexts = sample["retrieved_contexts"]
    elif "contexts" in sample:
        contexts = sample["contexts"]
    else:
        return None
    if contexts is None:  # the field is there: nothing was retrieved
        contexts = list[object]()
    if not is_list(contexts) or (contexts and is_object(contexts[0])):
        return None
    columns_beside = _ragas_columns(sample)
    # Other tools have contexts, too: one more field must say that the record is of RAGAS.
    has_question = "user_input" in sample or {"question", "contexts"} <= sample.keys()
    if contexts and not has_question and not columns_beside:
        return None
    columns: dict[str, Sequence[object]] = {"text": contexts}
    for field, column in columns_beside.items():
        # A list of another length is not the contexts': which of them it speaks of is unknown.
        if len(column) == len(contexts):
            columns[field] = column
    return [_rows_of_columns(columns)]


def _ragas_columns(sample: Mapping[str, object]) -> dict[str, Sequence[object]]:
    """The lists of a RAGAS sample beside its texts, such as scores, by the field of a chunk.

    ``fields.toml`` has the names of these lists; of several for a field the first counts.
    """
    columns: dict[str, Sequence[object]] = {}
    for field, names in field_names("ragas_columns").items():
        for name in names:
            column = sample.get(name)
            if is_list(column):
                columns[field] = column
                break
    return columns


def openinference_flat(value: object) -> object:
    """The documents of a span whose attributes number them, as objects in their order.

    Attributes such as ``retrieval.documents.0.document.content`` hold no objects: Phoenix may
    export them as flat as they were. None where there are none.

    The form in ``forms.toml`` names this function as one of the places of hits.
    """
    fields = as_object(value)
    if is_object(fields.get("attributes")):
        fields = as_object(fields["attributes"])
    # Phoenix's tables have the names with this prefix.
    for prefix in ("retrieval.documents", "attributes.retrieval.documents"):
        documents = numbered(fields, prefix)
        if documents:
            return documents
    return None


_FUNCTIONS: Mapping[str, Any] = {
    "plain": plain,
    "chroma": chroma,
    "reranked": reranked,
    "vertex": vertex,
    "elasticsearch": elasticsearch,
    "milvus": milvus,
    "qdrant": qdrant,
    "qdrant_groups": qdrant_groups,
    "qdrant_points": qdrant_points,
    "weaviate": weaviate,
    "openai_response": openai_response,
    "haystack_pipeline": haystack_pipeline,
    "langchain": langchain,
    "ragas": ragas,
    "openinference_flat": openinference_flat,
}
"""The functions that ``forms.toml`` names, for what its paths cannot say."""


@cache
def forms() -> Mapping[str, DumpForm]:
    """All forms of retrieval results, by name, in the order in which they are tried on a dump.

    The order is that of ``forms.toml``, and counts: some forms fit the responses of others, too.
    """
    table = read_table("dumps/forms.toml")
    return {name: _form_of_table(name, dict(row)) for name, row in table.items()}


def _form_of_table(name: str, row: dict[str, Any]) -> DumpForm:
    """The form of a store's response that a table of ``forms.toml`` describes.

    Paths become tuples, and names of functions the functions of this module in `_FUNCTIONS`.
    """
    for field in ("id", "text", "score", "metadata"):
        if field in row:
            row[field] = _candidate_paths(field, row[field])
    places: list[Any] = []
    for path in row.get("at", "").split():
        if path.startswith("("):  # the name of a function
            places.append(_FUNCTIONS[path.strip("()")])
        else:
            places.append(path)
    row["at"] = tuple(places)
    row["hit"] = tuple(row.get("hit", ()))
    for field in ("special", "adapt"):
        if field in row:
            row[field] = _FUNCTIONS[row[field]]
    return DumpForm(name=name, **row)


def _candidate_paths(field: str, text: str) -> tuple[str, ...]:
    """The paths where a hit's field may be, from a line of ``forms.toml``.

    ``usual`` is the usual names of the field, and ``*`` at the end those of a text below a path.

    Args:
        field: the field of a chunk, such as ``text``.
    """
    paths: list[str] = []
    for path in text.split():
        if path == "usual":
            paths += field_names("hit")[field]
        elif path.endswith("*"):
            prefix = path.removesuffix("*")
            paths += [prefix + name for name in field_names("hit")["any_text"]]
        else:
            paths.append(path)
    return tuple(paths)


RANKED = {
    "trec": ("A TREC run; --corpus has the texts, --queries the topics.", "q1 Q0 doc7 1 12.3 bm25"),
    "beir": (
        "BEIR results, a JSON object of query, document and score; --corpus is the BEIR folder.",
        '{"q1": {"doc7": 12.3}}',
    ),
}
"""Rankings, which hold ids alone, with summary and example of each."""

_ALIASES = {"opensearch": "elasticsearch", "rows": "pgvector", "jsonl": "plain", "json": "plain"}
"""Names that ``--format`` takes, too: of equal forms, and those that a form once had."""


def form_names() -> tuple[str, ...]:
    """The names of all forms of retrieval results, as ``--format`` takes and lists them.

    The names are in commands and scripts of users: a name that is changed needs an alias.
    """
    return (*forms(), *RANKED)


def find_form(name: str, others: Iterable[str] = ()) -> DumpForm:
    """The form of retrieval results with a name, or with another name that ``--format`` takes.

    Args:
        others: further names that the error lists, as the user might have meant one of them.

    Raises:
        ConfigError: there is no such form.
    """
    form = forms().get(_ALIASES.get(name, name))
    if form is None:
        names = [*dict.fromkeys((*others, *form_names()))]
        raise ConfigError(f"unknown format '{name}'.{listed_names(name, names)}")
    return form
