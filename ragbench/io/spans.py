"""Spans of traces, as whatever tool wrote them; ``span_forms.toml`` says where their parts are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any

import msgspec

from ragbench.core.record import Record
from ragbench.errors import DataError
from ragbench.io.dumps.decode import Decoder, from_form
from ragbench.io.dumps.form import (
    DumpForm,
    DumpRecord,
    constructed,
    getter,
    numbered,
    opened_json,
    text_of,
)
from ragbench.io.dumps.forms import forms
from ragbench.io.dumps.guess import guess_mapping
from ragbench.io.fields import field_names, read_table
from ragbench.io.values import ValueProblem, as_list, as_object, is_list, is_object

Values = Mapping[str, object]
Find = Callable[[str], Any]
"""Finds a part of a span by its name, such as ``output``; None where the span lacks it."""
Documents = list[dict[str, Any]]
"""Documents as objects of ``id``, ``text``, ``score`` and ``metadata``, as far as known."""
RETRIEVER = "retriever"
RERANKER = "reranker"
MODEL = "model"
_ERROR_STATUSES = frozenset({"2", "error", "status_code_error", "statuscode.error"})
"""How tools write that a span failed; 2 is OTLP's number for it."""
_TOKENS = ("prompt_tokens", "completion_tokens", "total_tokens")
"""Parts of a span that are counts: `ragbench.io.trace_cases` adds them up."""
_DEEPEST = 8
"""Levels of objects and lists in which a value of a span is looked for."""
_DEEPEST_SPAN = 1000
"""Levels of spans within spans that are followed."""
_JSON_BEGINS = frozenset('"{[')
"""How a value begins of a tool that writes each as JSON."""


class Span(msgspec.Struct, array_like=True, frozen=True):
    """What counts of a span. A question and an answer are as they came: most are never needed."""

    trace: str
    id: str
    parent: str | None
    name: str
    kind: str
    """What it did, of ``[kinds]``; empty for all else."""
    start: Any = None
    end: Any = None
    input: Any = None
    output: Any = None
    documents: Documents | None = None
    """What a retriever found, or a reranker left; None where no list of documents is recorded."""
    before: Documents | None = None
    """What a reranker was given."""
    error: str | None = None
    about: dict[str, Any] = {}  # msgspec copies it
    """Session, user, tags, feedback, tokens, where they are known."""
    line: int | None = None


PathFinder = tuple[str, Callable[[object], object] | None]
"""A path in a record, and the function that finds it; None for the name of a field."""


class SpanForm(Record):
    """How a tool writes spans; a table of ``span_forms.toml``, which explains the fields."""

    summary: str
    spans: Sequence[str] = ()
    """The lists that lead from a record to its spans, one level each."""
    inner: str = ""
    """The field of a span that holds the spans within it."""
    about: str = ""
    """The field of a record whose fields count as the record's own."""
    is_json: bool = False
    """Whether the tool writes questions and answers as JSON in a text."""
    attributes: str
    """The field that holds a span's attributes; ``attributes.*`` for a column each."""
    paths: Mapping[str, tuple[PathFinder, ...]]
    """Where each part of a span may be, the more telling places first."""

    def first(self, name: str, record: Values) -> object:
        """The first value that a record of a span has for one of its parts, such as ``start``.

        A tool moves a part from one version to the next, so that a form lists several places. None
        where no place holds a value; an empty text is none.

        Args:
            name: a part with paths in ``span_forms.toml``.
            record: the span, or its trace, as the tool wrote it.
        """
        for path, find in self.paths.get(name, ()):
            if find is None:
                value = record.get(path)
            else:
                value = find(record)
            if value is not None and value != "":
                return value
        return None


@cache
def span_forms() -> Mapping[str, SpanForm]:
    """All forms in which tools write spans of traces, by name, from ``span_forms.toml``.

    Each path becomes a function here, once: a file of traces has thousands of spans.
    """
    forms: dict[str, SpanForm] = {}
    tables = read_table("span_forms.toml")["form"]
    for name, table in tables.items():
        if "like" in table:  # as that form, but for what this one says itself
            table = {**tables[table["like"]], **table}
            del table["like"]
        fields: dict[str, Any] = {}
        finders: dict[str, tuple[PathFinder, ...]] = {}
        for key, value in table.items():
            if key in SpanForm.__struct_fields__:
                fields[key] = value
            elif key not in ("signs", "types"):  # these are for recognising the form
                finders[key] = tuple((path, _path_finder(path)) for path in value.split())
        forms[name] = SpanForm(**fields, paths=finders)
    return forms


_cached_getter = cache(getter)


def _path_finder(path: str) -> Callable[[object], object] | None:
    """The function that finds the value at a path in a record of a span; None for a plain key.

    Dots lead into objects, and ``-1`` at the end is a list's last item. A plain key needs no
    function: looking it up in the record is quicker than a call.
    """
    if "." not in path:
        return None
    if not path.endswith(".-1"):
        return getter(path)
    find_list = getter(path.removesuffix(".-1"))

    return partial(_last_item, find_list)


def _last_item(find_list: Callable[[object], object], record: object) -> object:
    """The last item of a list in a record; None where there is no such list, or an empty one.

    Of the messages that went into a model, the last one is the question that was just sent.

    Args:
        find_list: finds the list in the record.
    """
    items = find_list(record)
    if not is_list(items) or not items:
        return None
    return items[-1]


span_words = partial(field_names, file="span_forms.toml")
"""A table of words of ``span_forms.toml``: the names of each thing, the more telling ones first."""


@cache
def _known_attributes() -> Mapping[str, tuple[str, int]]:
    """The part of a span that each known attribute holds, and the attribute's rank for it.

    Of several attributes for a part, the one with the lowest rank counts: the order in
    ``span_forms.toml``.
    """
    ranks: dict[str, tuple[str, int]] = {}
    for part, paths in span_words("attributes").items():
        for rank, path in enumerate(paths):
            ranks[path] = (part, rank)
    return ranks


def parts_of_attributes(attributes: Values) -> dict[str, object]:
    """The parts of a span that its attributes hold, such as ``input`` or ``session``, with values.

    Every convention names these attributes in its own way. Of several names for one part, the one
    that ``span_forms.toml`` lists first counts, and empty values do not.
    """
    known_attributes = _known_attributes()
    parts: dict[str, object] = {}
    best_ranks: dict[str, int] = {}
    for key, value in attributes.items():
        if key not in known_attributes or value is None or value == "":
            continue
        part, rank = known_attributes[key]
        if part not in best_ranks or rank < best_ranks[part]:
            best_ranks[part] = rank
            parts[part] = value
    return parts


def _with_nested_attributes(attributes: Values) -> Values:
    """A span's attributes, with those inside objects under their whole names, too.

    The conventions write ``session.id``; some exporters nest it as ``{"session": {"id": ...}}``.
    Only known attributes are looked for, and a name that is there already keeps its value.
    """
    flat: dict[str, object] = {}
    for path in _known_attributes():
        if "." in path:
            value = _cached_getter(path)(attributes)
            if value is not None:
                flat[path] = value
    return {**flat, **attributes}


@cache
def _kind_by_word() -> Mapping[str, str]:
    """What a span did (retriever, reranker, model), by each word that a tool has for it.

    Every tool names its kinds of spans itself; ``span_forms.toml`` lists the words.
    """
    kinds: dict[str, str] = {}
    for kind, words in span_words("kinds").items():
        kinds.update(dict.fromkeys(words, kind))
    return kinds


# --- records to spans


def spans_of(form: SpanForm, record: Values, line: int | None) -> Iterator[Span]:
    """The spans in a record of a trace file, with those that are inside other spans.

    Args:
        form: how the tool wrote the record: a span each, a trace of them, or spans within spans.
        line: of the record in its file, by which a problem of a span names its place.
    """
    if form.about:
        record = {**as_object(record.get(form.about)), **record}
    roots: list[object] = [record]
    for level in form.spans:
        inner: list[object] = []
        for parent in roots:
            for name in level.split():
                inner += as_list(opened_json(_cached_getter(name)(parent)))
        roots = inner
    # Depth first, in the order of the file: the last of the list comes next.
    # Each value comes with the record that it is in, and with its depth.
    waiting = [(root, record, 0) for root in reversed(roots)]
    while waiting:
        value, outer, depth = waiting.pop()
        if not is_object(value):
            continue
        children = value.get(form.inner) if form.inner else None
        if is_list(children) and depth < _DEEPEST_SPAN:
            waiting += [(child, value, depth + 1) for child in reversed(children)]
        yield _span_of_record(form, value, outer, line)


def _span_of_record(form: SpanForm, record: Values, outer: Values, line: int | None) -> Span:
    """A tool's record of a span in the one form that cases are made from.

    Later steps know no tool: whatever differs between tools is settled here, by `form`.

    Args:
        outer: the record that it is in: of the span above, or of the trace; itself without one.
        line: of the record in its file.
    """
    attributes = _attributes_by_name(form, record)
    has_objects = any(type(value) is dict for value in attributes.values())
    if has_objects:
        parts = parts_of_attributes(_with_nested_attributes(attributes))
    else:
        parts = parts_of_attributes(attributes)
    id = str(form.first("id", record) or "")
    parent = form.first("parent", record)
    # A span that stands within another one need not name it.
    if parent is None and form.inner and outer is not record:
        parent = form.first("id", outer)

    trace_record = None if parent or outer is record else outer
    find = partial(_part_of_span, form, record, trace_record, parts)
    word_for_kind = str(find("kind") or "").lower()
    kind = _kind_by_word().get(word_for_kind, "")
    documents, before = _documents_of_span(kind, attributes, find)
    error = None
    status = str(form.first("status", record) or "").lower()
    # A span with a status says by it whether it failed; without one, an error says it.
    has_error = not status and form.first("error", record) is not None
    if status in _ERROR_STATUSES or has_error:
        error = str(find("error") or "error")
    trace = form.first("trace", record) or form.first("trace", outer)
    if not trace:
        # A tool without traces writes spans without the id of one: each span is its own trace.
        trace = id
    # What a search put out is read into `documents`: to keep it twice would double the file.
    output = None
    if kind not in (RETRIEVER, RERANKER):
        output = find("output")
    return Span(
        trace=str(trace),
        id=id,
        parent=str(parent) if parent else None,
        name=str(record.get("name") or ""),
        kind=kind,
        start=form.first("start", record),
        end=form.first("end", record),
        input=find("input"),
        output=output,
        documents=documents,
        before=before,
        error=error,
        about=_facts_about_span(kind, find, is_root=not parent),
        line=line,
    )


def _part_of_span(
    form: SpanForm, record: Values, trace: Values | None, parts: Values, name: str
) -> Any:
    """The value of a part of a span, from wherever the tool may have put it; None without one.

    The form's own fields count more than attributes, which any instrumentation may add.

    Args:
        record: the span as the tool wrote it.
        trace: the record of the trace, if this is its first span, for which the trace's parts
            count.
        parts: the parts that the span's attributes hold.
        name: the part, such as ``output``.
    """
    value = form.first(name, record)
    if value is None and trace is not None:
        value = form.first(name, trace)
    if value is None:
        value = parts.get(name)
    if form.is_json:
        return opened_json(value, _JSON_BEGINS)
    return value


def _documents_of_span(
    kind: str, attributes: Values, find: Find
) -> tuple[Documents | None, Documents | None]:
    """What a span retrieved or a reranker left, and the documents that a reranker got.

    Both lists are None for other kinds of spans. Attributes name documents by a convention, so they
    come before what the span put out, in which documents have to be recognised.

    Args:
        kind: what the span did; empty for all else.
        find: finds a part of the span, such as ``output``.
    """
    if kind == RETRIEVER:
        documents = _attribute_documents(attributes, "documents")
        if not documents:
            documents = retrieved_in(find("output"))
        return documents, None
    if kind == RERANKER:
        after = _attribute_documents(attributes, "after") or retrieved_in(find("output"))
        before = _attribute_documents(attributes, "before") or retrieved_in(find("input"))
        return after, before
    return None, None


def _facts_about_span(kind: str, find: Find, *, is_root: bool) -> dict[str, Any]:
    """Session, user, tags, tokens and feedback of a span, as `Span.about` holds them.

    Only what a trace takes from a span of its kind is kept: tokens from models, for instance, since
    a span above them counts the same tokens again. Empty values are left out.

    Args:
        kind: what the span did.
        find: finds a part of the span.
        is_root: whether it is the first span of its trace.
    """
    names: list[str] = []
    if kind == MODEL:
        names += _TOKENS
    if is_root or kind == RETRIEVER:
        names += ["session", "user", "tags", "metadata"]
    names.append("feedback")  # a user's, on whatever span it was noted
    about: dict[str, Any] = {}
    for name in names:
        value = find(name)
        if value not in (None, "", [], {}):
            about[name] = value
    return about


def _attributes_by_name(form: SpanForm, record: Values) -> Values:
    """The attributes of a span by their names, however the form writes them.

    Tools have an object, a column for each attribute, or OTLP's list of keys and values.
    """
    if form.attributes.endswith("*"):
        # A table has a column for each attribute, one with them all, or both.
        prefix = form.attributes.removesuffix("*")
        attributes_column = record.get(prefix.rstrip("."))
        attributes_by_name = dict(as_object(attributes_column))
        for name, value in record.items():
            if name.startswith(prefix):
                attributes_by_name[name.removeprefix(prefix)] = value
        return attributes_by_name
    attributes = opened_json(_cached_getter(form.attributes)(record))
    if is_list(attributes):
        return _otlp_object(attributes)
    return as_object(attributes)


def _otlp_value(value: object, depth: int = 0) -> object:
    """The plain value that OTLP, OpenTelemetry's protocol, wraps in an object with its type.

    Exporters spell the types in camel case, as protobuf's JSON does, or with underscores.

    Args:
        depth: how many levels were opened so far, one more for each call of itself; beyond
            `_DEEPEST` the value is None.
    """
    typed_value = as_object(value)
    if not typed_value or depth > _DEEPEST:
        return None
    type_name, content = next(iter(typed_value.items()))  # the only key
    inner_values = as_list(as_object(content).get("values"))
    if type_name in ("arrayValue", "array_value"):
        return [_otlp_value(inner, depth + 1) for inner in inner_values]
    if type_name in ("kvlistValue", "kvlist_value"):
        return _otlp_object(inner_values, depth + 1)
    return content


def _otlp_object(pairs: Sequence[object], depth: int = 0) -> Values:
    """The object that OTLP, OpenTelemetry's protocol, writes as a list of keys and values.

    The protocol names the type of each value: ``{"key": ..., "value": {"stringValue": ...}}``.

    Args:
        depth: how many levels were opened so far; `_otlp_value` counts them.
    """
    fields: dict[str, object] = {}
    for pair in pairs:
        if is_object(pair):
            fields[str(pair.get("key"))] = _otlp_value(pair.get("value"), depth)
    return fields


# --- documents

_REPR = re.compile(r"<\w+\(.*\)>", re.DOTALL)
"""A Python object as it is printed, such as ``<Document(id=1)>``: a tool had no text of it."""


def _attribute_documents(attributes: Values, name: str) -> Documents | None:
    """A span's documents whose fields are attributes: ``retrieval.documents.0.document.content``.

    Attributes of OpenTelemetry hold no objects, so OpenInference numbers documents in their names.
    Exporters that can write objects put the list under the prefix itself.

    Args:
        name: which documents: ``documents``, or ``before`` and ``after`` a reranker.
    """
    for prefix in span_words("attributes")[name]:
        fields_by_number = numbered(attributes, prefix)
        if fields_by_number:
            return documents_of(fields_by_number)
        documents = documents_of(_cached_getter(prefix)(attributes))
        if documents is not None:
            return documents
    return None


_OF_FRAMEWORKS = frozenset(
    {"ragbench", "plain", "openinference", "langchain", "llamaindex", "ragas"}
)
"""Forms of a dump that are no store's: `documents_of` knows more of their documents."""


def retrieved_in(value: object) -> Documents | None:
    """The documents in what a search returned: a store's response, or any list of documents.

    None where there are none. A trace has such documents in the output of a retriever, as the
    retriever's framework wrote it.
    """
    value = opened_json(value)
    documents = documents_of(value)
    if is_list(value) and documents is not None:
        # With ids and texts nothing is missing for which a store's form would have to be known.
        is_complete = all("id" in document and "text" in document for document in documents)
        if is_complete:
            return documents
    store_documents = _documents_of_response(value)
    return documents if store_documents is None else store_documents


def _documents_of_response(value: object) -> Documents | None:
    """The hits of a store's response as documents; None if the value is no such response.

    A retriever may put out what its store answered as it came: each form of a store is tried.
    """
    responses = [value]
    if is_object(value):
        for name in span_words("names")["documents"]:
            if name in value:
                responses.append(opened_json(value[name]))
    for response in responses:
        for form in forms().values():
            if form.name in _OF_FRAMEWORKS or form.unwrap(response) is None:
                continue
            record = DumpRecord("", None, {"response": response})
            # What only looks like a response of this form may be one of a later form.
            with suppress(DataError, ValueProblem):
                return _documents_in_form(record, form)
    return None


def _documents_in_form(record: DumpRecord, form: DumpForm) -> Documents:
    """The hits of a store's response as documents; the record has it under ``response``.

    The form is tried: if it does not fit after all, the caller goes on with the next one.

    Raises:
        DataError: its hits have no text that is found.
        ValueProblem: a hit holds what its form does not allow.
    """
    decoder = guess_mapping([record], form=form, overrides={"chunks": "response"})
    documents: Documents = []
    for retrieval in decoder.raw(record):
        for hit in retrieval.hits:
            document = _document_of_hit(decoder, hit)
            if document is not None:
                documents.append(document)
    return documents


_NO_ID = "#1"
"""What a dump calls its first chunk if it has no id."""


def _document_of_hit(decoder: Decoder, hit: object) -> dict[str, Any] | None:
    """A hit of a store's response as a document; None if the form takes it for none.

    Each hit is read alone, because ids may be shared: read together, hits with one id would become
    one chunk (see `DistinctChunks`).

    Args:
        decoder: how hits of this form are read.
    """
    chunks = from_form(decoder, [hit]).chunks
    if not chunks:
        return None
    chunk = chunks[0]
    id = None
    if chunk.id != _NO_ID:
        id = chunk.id
    text = chunk.text or None
    metadata = dict(chunk.metadata) or None
    return _with_parts(id=id, text=text, score=chunk.score, metadata=metadata)


def _with_parts(*, id: object, text: object, score: object, metadata: object) -> dict[str, Any]:
    """A document as an object of the parts that are not None.

    Several spans mention the same chunk. A part that is absent may be filled in by another mention;
    a None would stay.
    """
    parts = {"id": id, "text": text, "score": score, "metadata": metadata}
    return {name: part for name, part in parts.items() if part is not None}


def documents_of(value: object, depth: int = 0) -> Documents | None:
    """The documents in a list, however it is wrapped; None for anything that is no such list.

    Each framework wraps what its retriever returns in objects, lists or JSON text of its own.

    Args:
        depth: how many levels of objects and lists were opened so far, one more for each call of
            itself.
    """
    value = opened_json(value)
    if is_object(value) and depth < _DEEPEST:
        for name in span_words("names")["documents"]:
            if name not in value:
                continue
            documents = documents_of(value[name], depth + 1)
            if documents is not None:
                return documents
        return None
    if not is_list(value):
        return None
    documents_in_list: Documents = []
    for item in value:
        document = _document_of(item)
        if document is not None:
            documents_in_list.append(document)
    if documents_in_list or not value:
        return documents_in_list
    if len(value) == 1 and is_list(value[0]) and depth < _DEEPEST:  # a list for the one query
        return documents_of(value[0], depth + 1)
    return None


def _document_of(value: object) -> dict[str, Any] | None:
    """A document as an object of id, text, score and metadata; None for what is no document.

    Frameworks write documents as texts, pairs with a score, or objects of several shapes.
    """
    value = opened_json(value)
    if isinstance(value, str):
        # The printed form of a Python object is no text of a document.
        if not value or _REPR.fullmatch(value):
            return None
        return {"text": value}
    if is_list(value) and len(value) == 2 and type(value[1]) in (int, float):
        # LangChain's pair of a document and its score: the document is read by itself first.
        document = _document_of(value[0])
        if document is None:
            return None
        return {**document, "score": value[1]}
    if not is_object(value):
        return None
    value = constructed(value)
    if any(name.startswith("document.") for name in value):  # OpenInference's names
        value = {name.removeprefix("document."): part for name, part in value.items()}
    if "role" in value or "tool_calls" in value:
        return None  # a message
    # LangChain's and LlamaIndex's objects of a score have the document itself inside.
    fields = value
    for name in ("document", "node"):
        inner = fields.get(name)
        if is_object(inner):
            fields = {**value, **inner}
    return _document_of_fields(fields)


def _document_of_fields(fields: Values) -> dict[str, Any] | None:
    """The document that an object's fields describe; None without both text and id.

    What the object itself lacks may be in its metadata, where frameworks keep ids of sources.
    """
    names = span_words("names")
    metadata: Values = {}
    for name in names["metadata"]:
        candidate = opened_json(fields.get(name))
        if is_object(candidate):
            metadata = candidate
            break
    text = _first_value(fields, field_names("hit")["text"], _plain_text)
    if text is None:
        text = _first_value(metadata, field_names("hit")["text"], _plain_text)
    id = _first_value(fields, names["id"], _plain_id)
    if not id:
        id = _first_value(metadata, names["id_in_metadata"], _plain_id)
    if text is None and id is None:
        return None
    score = _first_value(fields, field_names("hit")["score"], lambda value: value)
    return _with_parts(id=id, text=text, score=score, metadata=metadata or None)


def _first_value(fields: Values, names: Sequence[str], plain: Callable[[Any], Any]) -> Any:
    """The first value of use among several fields for a part of a document, as a plain one.

    Frameworks have different names for the same part.

    Args:
        names: the fields, the more telling ones first.
        plain: makes a plain value of a field's; None of one that is of no use.
    """
    for name in names:
        if name not in fields:
            continue
        value = plain(fields[name])
        if value is not None:
            return value
    return None


def _plain_text(value: object) -> str | None:
    """The text of a document in a field that holds an object, several parts or the text itself.

    Frameworks write the text of a document in all three ways.

    None where the field holds no text.
    """
    if is_object(value):
        return value.get("text")  # type: ignore[return-value]
    return text_of(value)


def _plain_id(value: object) -> str | None:
    """The id of a document in a field, as text; None for an empty one or what is no id.

    Chunks that several spans mention are matched by it.

    The type itself is compared: to Python a truth value is a whole number, too.
    """
    if value == "" or type(value) not in (str, int):
        return None
    return str(value)


# --- what was asked and answered

_USER_ROLES = frozenset({"user", "human", "humanmessage"})
_SYSTEM_ROLES = frozenset({"assistant", "ai", "model", "aimessage", "aimessagechunk"})
_ROLES = _USER_ROLES | _SYSTEM_ROLES | {"system", "tool"}
"""All roles of a message: by one of these an object or a pair is known to be a message."""
_GENERATION_FIELDS = frozenset({"message", "generation_info", "finish_reason", "delta"})
"""An object with one of these is an answer of a model, as frameworks wrap it."""


def question_in(value: object) -> str | None:
    """The question in what went into a span, which becomes the case's; None if it has none.

    It looks through messages, objects and JSON text, in which each framework wraps a text.
    """
    return _speech_in(value, "question")


def answer_in(value: object) -> str | None:
    """The answer in what came out of a span, which becomes the recorded one; None if it has none.

    It looks through messages, objects and JSON text, in which each framework wraps a text.
    """
    return _speech_in(value, "answer")


def _speech_in(value: object, part: str, depth: int = 0) -> str | None:
    """The text of the question or the answer of a span, in whatever messages wrap it; else None.

    Args:
        value: what went into the span, or came out of it.
        part: ``"question"`` or ``"answer"``.
        depth: how many lists and objects were opened so far.
    """
    if isinstance(value, str):
        inner = opened_json(value)
        if isinstance(inner, str):
            return value if value.strip() else None
        value = inner
    if depth > _DEEPEST or isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        # A system may answer with a number; a question is never one.
        return str(value) if part == "answer" else None
    if is_list(value):
        return _speech_in_list(value, part, depth)
    if is_object(value):
        return _speech_in_object(value, part, depth)
    return None


def _speech_in_object(value: Values, part: str, depth: int) -> str | None:
    """The text of a question or an answer in an object: under a name for it, or in its only field.

    Chains take and return objects whose keys their users choose, such as ``{"question": ...}``.

    Args:
        part: ``"question"`` or ``"answer"``.
        depth: how many lists and objects were opened so far.
    """
    value = constructed(value)
    for name in span_words("names")[part]:
        if name not in value:
            continue
        text = _speech_in(value[name], part, depth + 1)
        if text is not None:
            return text
    if len(value) != 1:
        return None
    # An object with a single field wraps its value, unless that is documents.
    (name,) = value
    if not name or name in span_words("names")["documents"]:
        return None
    return _speech_in(value[name], part, depth + 1)


def _speech_in_list(values: Sequence[object], part: str, depth: int) -> str | None:
    """The last message of the user (question) or the system (answer) in a list of messages.

    Of a list of the parts of one text it is the whole text. None where it is not certain which item
    is meant: a list of other things may be documents.

    Args:
        part: ``"question"`` or ``"answer"``.
        depth: how many lists and objects were opened so far.
    """
    if not values:
        return None
    roles = [_role_in_message(value) for value in values]
    if all(roles):
        speaker_roles = _USER_ROLES if part == "question" else _SYSTEM_ROLES
        for message, role in zip(reversed(values), reversed(roles), strict=True):
            if role not in speaker_roles:
                continue
            content = message
            if is_list(message):  # a pair of role and content
                content = message[1]
            return _speech_in(content, part, depth + 1)
        return None
    items = [opened_json(value) for value in values]
    if all(is_object(item) and item.get("type") == "text" for item in items):
        return text_of(items)
    # Which of several items would be the text is not known; a single object may be a document.
    if len(items) > 1:
        return None
    item = items[0]
    if is_object(item) and _GENERATION_FIELDS.isdisjoint(item):
        return None
    if isinstance(item, str) and _REPR.fullmatch(item):
        return None
    return _speech_in(item, part, depth + 1)


def _role_in_message(value: object) -> str:
    """Who speaks in a message, such as ``user``, in lower case; empty for what is no message.

    A list is a conversation only where each of its items has a role.
    """
    if is_list(value) and len(value) == 2 and isinstance(value[0], str):
        name = value[0].lower()
        return name if name in _ROLES else ""
    message = as_object(opened_json(value))
    message = constructed(message)
    role = message.get("role")
    if not role and "content" in message:
        role = message.get("type")  # LangChain's name for it
    if role == "text":  # a part of a text in several parts has this type
        return ""
    return str(role or "").lower()
