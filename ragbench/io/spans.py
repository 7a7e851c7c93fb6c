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
from ragbench.io.dumps.form import DumpRecord, constructed, getter, numbered, opened_json, text_of
from ragbench.io.dumps.forms import forms
from ragbench.io.dumps.guess import guess_mapping
from ragbench.io.fields import named, read_table
from ragbench.io.values import ValueProblem, as_list, as_object, is_list, is_object

Values = Mapping[str, object]
Find = Callable[[str], Any]
RETRIEVER, RERANKER, MODEL = "retriever", "reranker", "model"
_ERRORS = frozenset({"2", "error", "status_code_error", "statuscode.error"})
_TOKENS = ("prompt_tokens", "completion_tokens", "total_tokens")
_DEEPEST = 8
_SPELLED = frozenset('"{[')
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
    documents: list[dict[str, Any]] | None = None
    """What a retriever found, or a reranker left; None where no list of documents is recorded."""
    before: list[dict[str, Any]] | None = None
    """What a reranker was given."""
    error: str | None = None
    about: dict[str, Any] = {}  # msgspec copies it
    """Session, user, tags, feedback, tokens, where they are known."""
    line: int | None = None


class SpanForm(Record):
    summary: str
    spans: Sequence[str] = ()
    inner: str = ""
    about: str = ""
    is_json: bool = False
    attributes: str
    paths: Mapping[str, tuple[tuple[str, Callable[[object], object] | None], ...]]
    """Where each part may be: a field, or what leads to it."""

    def first(self, name: str, record: Values) -> object:
        for path, find in self.paths.get(name, ()):
            value = record.get(path) if find is None else find(record)
            if value is not None and value != "":
                return value
        return None


@cache
def span_forms() -> Mapping[str, SpanForm]:
    found: dict[str, SpanForm] = {}
    rows = read_table("span_forms.toml")["form"]
    for name, row in rows.items():
        if "like" in row:
            row = {**rows[row["like"]], **row}
            del row["like"]
        own = {field: row[field] for field in SpanForm.__struct_fields__ if field in row}
        paths = {part: row[part].split() for part in row.keys() - own.keys() - {"signs", "types"}}
        finders = {part: tuple((at, _path(at)) for at in some) for part, some in paths.items()}
        found[name] = SpanForm(**own, paths=finders)
    return found


_found = cache(getter)


def _path(path: str) -> Callable[[object], object] | None:
    if not path.endswith(".-1"):
        return getter(path) if "." in path else None
    find = getter(path.removesuffix(".-1"))
    return lambda record: held[-1] if is_list(held := find(record)) and held else None


named_in = partial(named, file="span_forms.toml")


@cache
def _attributes_known() -> Mapping[str, tuple[str, int]]:
    """Each attribute that says something, with what it says and how telling it is."""
    named = named_in("attributes").items()
    return {path: (name, at) for name, paths in named for at, path in enumerate(paths)}


def said_in(attributes: Values) -> dict[str, object]:
    """What attributes say, by its name."""
    known, found = _attributes_known(), dict[str, tuple[int, object]]()
    for key, value in attributes.items():
        at = known.get(key)
        if at is not None and value is not None and value != "":
            name, rank = at
            if name not in found or rank < found[name][0]:
                found[name] = rank, value
    return {name: value for name, (_, value) in found.items()}


def _unnested(attributes: Values) -> Values:
    """Attributes of which some are objects, with what these hold under its whole name."""
    paths = (path for path in _attributes_known() if "." in path)
    deep = ((path, _found(path)(attributes)) for path in paths)
    return {**{path: value for path, value in deep if value is not None}, **attributes}


@cache
def _kinds() -> Mapping[str, str]:
    return {said: kind for kind, names in named_in("kinds").items() for said in names}


# --- records to spans


def spans_of(form: SpanForm, record: Values, line: int | None) -> Iterator[Span]:
    """The spans of a record, those that it holds within others too."""
    if form.about:
        record = {**as_object(record.get(form.about)), **record}
    found: list[object] = [record]
    for level in form.spans:
        held = [opened_json(_found(name)(one)) for one in found for name in level.split()]
        found = [one for many in held if is_list(many) for one in many]
    left = [(one, record, 0) for one in reversed(found)]
    while left:
        one, outer, depth = left.pop()
        if not is_object(one):
            continue
        inner = one.get(form.inner) if form.inner else None
        if is_list(inner) and depth < 1000:
            left += [(child, one, depth + 1) for child in reversed(inner)]
        yield _span(form, one, outer, line)


def _span(form: SpanForm, record: Values, outer: Values, line: int | None) -> Span:
    attributes = _attributes(form, record)
    is_nested = dict in map(type, attributes.values())
    known = said_in(_unnested(attributes) if is_nested else attributes)
    id = str(form.first("id", record) or "")
    parent = form.first("parent", record)
    if parent is None and form.inner and outer is not record:
        parent = form.first("id", outer)

    def find(name: str) -> Any:
        value = form.first(name, record)
        if value is None and not parent and outer is not record:
            value = form.first(name, outer)  # what is said of the trace
        if value is None:
            value = known.get(name)
        return opened_json(value, _SPELLED) if form.is_json else value

    kind = _kinds().get(str(find("kind") or "").lower(), "")
    documents, before = _listings(kind, attributes, find)
    status = str(form.first("status", record) or "").lower()
    is_error = status in _ERRORS or (not status and form.first("error", record) is not None)
    return Span(
        trace=str(form.first("trace", record) or form.first("trace", outer) or id),
        id=id,
        parent=str(parent) if parent else None,
        name=str(record.get("name") or ""),
        kind=kind,
        start=form.first("start", record),
        end=form.first("end", record),
        input=find("input"),
        output=None if kind in (RETRIEVER, RERANKER) else find("output"),
        documents=documents,
        before=before,
        error=str(find("error") or "error") if is_error else None,
        about=_about(kind, find, is_root=not parent),
        line=line,
    )


def _listings(kind: str, attributes: Values, find: Find) -> Sequence[list[dict[str, Any]] | None]:
    """What a retriever found or a reranker left, and what a reranker was given."""
    if kind == RETRIEVER:
        return _listed(attributes, "documents") or retrieved_in(find("output")), None
    if kind != RERANKER:
        return None, None
    after, before = (_listed(attributes, name) for name in ("after", "before"))
    return after or retrieved_in(find("output")), before or retrieved_in(find("input"))


def _about(kind: str, find: Find, *, is_root: bool) -> dict[str, Any]:
    names = _TOKENS if kind == MODEL else ()
    if is_root or kind == RETRIEVER:
        names = (*names, "session", "user", "tags", "metadata")
    names = (*names, "feedback")
    return {name: value for name in names if (value := find(name)) not in (None, "", [], {})}


def _attributes(form: SpanForm, record: Values) -> Values:
    if form.attributes.endswith("*"):
        prefix = form.attributes[:-1]
        flat = {n.removeprefix(prefix): v for n, v in record.items() if n.startswith(prefix)}
        held = record.get(prefix.rstrip("."))
        return {**held, **flat} if is_object(held) else flat
    held = opened_json(_found(form.attributes)(record))
    if is_list(held):  # OTLP: keys with values that name their type
        return _keyed(held)
    return as_object(held)


def _otlp(value: object, depth: int = 0) -> object:
    if not is_object(value) or not value or depth > _DEEPEST:
        return None
    kind, held = next(iter(value.items()))
    if kind in ("arrayValue", "array_value"):
        return [_otlp(one, depth + 1) for one in as_list(as_object(held).get("values"))]
    if kind in ("kvlistValue", "kvlist_value"):
        return _keyed(as_list(as_object(held).get("values")), depth + 1)
    return held


def _keyed(pairs: Sequence[object], depth: int = 0) -> Values:
    known = [one for one in pairs if is_object(one)]
    return {str(one.get("key")): _otlp(one.get("value"), depth) for one in known}


# --- documents

_REPR = re.compile(r"<\w+\(.*\)>", re.DOTALL)


def _listed(attributes: Values, name: str) -> list[dict[str, Any]] | None:
    """Documents whose fields are attributes each: ``retrieval.documents.0.document.content``."""
    for prefix in named_in("attributes")[name]:
        if found := numbered(attributes, prefix):
            return documents_of(found)
        held = _found(prefix)(attributes)
        if held is not None and (documents := documents_of(held)) is not None:
            return documents
    return None


_OF_FRAMEWORKS = frozenset(
    {"ragbench", "plain", "openinference", "langchain", "llamaindex", "ragas"}
)
"""Forms of a dump that are no store's: `documents_of` knows more of their documents."""


def retrieved_in(value: object) -> list[dict[str, Any]] | None:
    """The documents in what a search returned: a store's response, or any list of documents."""
    value = opened_json(value)
    documents = documents_of(value)
    is_plain = is_list(value) and documents is not None
    if is_plain and all("id" in one and "text" in one for one in documents or ()):
        return documents
    response = _of_store(value)
    return documents if response is None else response


def _of_store(value: object) -> list[dict[str, Any]] | None:
    """The hits of a store's response, read as a dump of such responses is."""
    held = [value]
    if is_object(value):
        held += [
            opened_json(value[name]) for name in named_in("names")["documents"] if name in value
        ]
    for response in held:
        for form in forms().values():
            if form.name in _OF_FRAMEWORKS or form.unwrap(response) is None:
                continue
            record = DumpRecord("", None, {"response": response})
            with suppress(DataError, ValueProblem):
                decoder = guess_mapping([record], form=form, overrides={"chunks": "response"})
                hits = [hit for raw in decoder.raw(record) for hit in raw.hits]
                documents = [_of_hit(decoder, hit) for hit in hits]
                return [document for document in documents if document is not None]
    return None


_NO_ID = "#1"
"""What a dump calls its first chunk if it has no id."""


def _of_hit(decoder: Decoder, hit: object) -> dict[str, Any] | None:
    """A hit as a document. Each is read alone, since ids may be shared: see `DistinctChunks`."""
    chunk = next(iter(from_form(decoder, [hit]).chunks), None)
    if chunk is None:
        return None
    parts: dict[str, Any] = {
        "id": chunk.id if chunk.id != _NO_ID else None,
        "text": chunk.text or None,
        "score": chunk.score,
        "metadata": dict(chunk.metadata) or None,
    }
    return {name: part for name, part in parts.items() if part is not None}


def documents_of(value: object, depth: int = 0) -> list[dict[str, Any]] | None:
    """A list of documents, in whatever it is wrapped; None for anything that is no such list."""
    value = opened_json(value)
    if is_object(value) and depth < _DEEPEST:
        for name in named_in("names")["documents"]:
            if name in value and (found := documents_of(value[name], depth + 1)) is not None:
                return found
        return None
    if not is_list(value):
        return None
    hits = [_document(one) for one in value]
    if len(value) == 1 and hits == [None] and is_list(value[0]):
        return documents_of(value[0], depth + 1) if depth < _DEEPEST else None
    return [hit for hit in hits if hit is not None] if not hits or any(hits) else None


def _document(value: object) -> dict[str, Any] | None:
    value = opened_json(value)
    if isinstance(value, str):
        return {"text": value} if value and not _REPR.fullmatch(value) else None
    if is_list(value) and len(value) == 2 and type(value[1]) in (int, float):
        found = _document(value[0])
        return None if found is None else {**found, "score": value[1]}
    if not is_object(value):
        return None
    value = constructed(value)
    if any(name.startswith("document.") for name in value):
        value = {name.removeprefix("document."): held for name, held in value.items()}
    if "role" in value or "tool_calls" in value:
        return None  # a message
    outer = value
    for name in ("document", "node"):
        if is_object(inner := value.get(name)):
            value = {**outer, **inner}
    names = named_in("names")
    held = (opened_json(value.get(name)) for name in names["metadata"])
    metadata: Values = next(filter(is_object, held), dict[str, object]())
    text = _first(value, named("hit")["text"], _plain_text)
    text = _first(metadata, named("hit")["text"], _plain_text) if text is None else text
    id = _first(value, names["id"], _plain_id) or _first(
        metadata, names["id_in_metadata"], _plain_id
    )
    score = _first(value, named("hit")["score"], lambda held: held)
    if text is None and id is None:
        return None
    known: dict[str, Any] = {"id": id, "text": text, "score": score, "metadata": metadata or None}
    return {name: one for name, one in known.items() if one is not None}


def _first(value: Values, names: Sequence[str], plain: Callable[[Any], Any]) -> Any:
    for name in names:
        if name in value and (found := plain(value[name])) is not None:
            return found
    return None


def _plain_text(value: object) -> str | None:
    return value.get("text") if is_object(value) else text_of(value)  # type: ignore[return-value]


def _plain_id(value: object) -> str | None:
    return str(value) if value != "" and type(value) in (str, int) else None


# --- what was asked and answered

_USER = frozenset({"user", "human", "humanmessage"})
_GENERATION = frozenset({"message", "generation_info", "finish_reason", "delta"})
_SYSTEM = frozenset({"assistant", "ai", "model", "aimessage", "aimessagechunk"})


def said(value: object, what: str, depth: int = 0) -> str | None:
    """The question or the answer in what went into a span or came out of it; None if it has none.

    Args:
        what: ``"question"`` or ``"answer"``.
    """
    if isinstance(value, str):
        inner = opened_json(value)
        if isinstance(inner, str):
            return value if value.strip() else None
        value = inner
    if depth > _DEEPEST or value is None or isinstance(value, bool):
        return None
    within = partial(said, what=what, depth=depth + 1)
    if isinstance(value, (int, float)):
        return str(value) if what == "answer" else None
    if is_list(value):
        return _said_in_list(value, what, within)
    return _said_in_object(value, what, within) if is_object(value) else None


def _said_in_object(value: Values, what: str, within: Callable[[object], str | None]) -> str | None:
    value = constructed(value)
    for name in named_in("names")[what]:
        if name in value and (found := within(value[name])) is not None:
            return found
    only = next(iter(value), "") if len(value) == 1 else ""
    if only and only not in named_in("names")["documents"]:
        return within(value[only])
    return None


def _said_in_list(
    values: Sequence[object], what: str, within: Callable[[object], str | None]
) -> str | None:
    """What the last message of whoever speaks says; a text in parts as one."""
    roles = [_role(one) for one in values]
    if values and all(roles):
        wanted = _USER if what == "question" else _SYSTEM
        own = [one for one, role in zip(values, roles, strict=True) if role in wanted]
        last = own[-1] if own else None
        return within(last[1] if is_list(last) else last)
    parts = [opened_json(one) for one in values]
    if values and all(is_object(p) and p.get("type") == "text" for p in parts):
        return text_of(parts)
    if len(values) == 1 and (not is_object(one := parts[0]) or not _GENERATION.isdisjoint(one)):
        return None if isinstance(one, str) and _REPR.fullmatch(one) else within(one)
    return None


def _role(value: object) -> str:
    if is_list(value) and len(value) == 2 and isinstance(value[0], str):
        return value[0].lower() if value[0].lower() in _USER | _SYSTEM | {"system", "tool"} else ""
    value = opened_json(value)
    if not is_object(value):
        return ""
    value = constructed(value)
    role = value.get("role") or (value.get("type") if "content" in value else "")
    return str(role or "").lower() if role != "text" else ""
