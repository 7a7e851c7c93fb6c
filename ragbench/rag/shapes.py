"""Foreign results and answers, read by shape.

Understood, without importing any of them: strings; ragbench's own chunks; LangChain documents
(``page_content``, ``metadata``, ``id``); LlamaIndex nodes, bare or as ``NodeWithScore`` (``node``,
``score``); Haystack documents (``content``, ``meta``, ``id``, ``score``); mappings with a text
under a usual name; each of these in a pair with its score.

As answers: strings; mappings with the answer under a usual name; LangChain messages (``content``,
``response_metadata``, ``usage_metadata``); LlamaIndex responses (``response``, ``source_nodes``,
``metadata``); Haystack outputs (``replies`` or ``answers``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from ragbench.core.record import Record
from ragbench.core.result import GenerationResult, RetrievalResult, kind_of
from ragbench.errors import InterfaceError
from ragbench.io.fields import named
from ragbench.io.values import as_object, is_object
from ragbench.rag.fallback import to_generation_result, to_retrieval_result

_BESIDE = ("context_ids", "scores", "context_metadata")
"""Further columns that may stand beside the contexts."""


def _names(of: str) -> tuple[str, ...]:
    """Names under which systems hand something over, in the order in which they are tried."""
    return named("returned")[of]


class _Item(Record, kw_only=False):
    text: str
    id: object = None
    score: object = None
    metadata: Mapping[str, Any] | None = None


def read_retrieval(value: object, where: str) -> RetrievalResult[Any]:
    """Makes a result of whatever a foreign retrieval returned."""
    if isinstance(value, RetrievalResult):
        return to_retrieval_result(cast("object", value), where)
    if is_object(value):
        return _document_from_mapping(value, where)
    if isinstance(value, (list, tuple)):
        documents = cast("Sequence[object]", value)
        if all(isinstance(document, str) for document in documents):
            return RetrievalResult(cast("Sequence[str]", documents))
        items = [_item(document, position, where) for position, document in enumerate(documents)]
        return to_retrieval_result(_from_items(items), where)
    raise InterfaceError(
        f"{where} must return a list of strings or documents, a mapping with one under "
        f"{', '.join(_names('contexts')[:3])}, or a RetrievalResult, not a {type(value).__name__}"
    )


def _document_from_mapping(value: Mapping[str, Any], where: str) -> RetrievalResult[Any]:
    documents = _value(value, _names("contexts"))
    if documents is None:
        raise InterfaceError(
            f"{where} returned a mapping with {_listed(value)} and no contexts: it needs one of "
            f"{', '.join(_names('contexts'))}"
        )
    result = read_retrieval([documents] if isinstance(documents, str) else documents, where)
    given = ((name, _value(value, _names(name))) for name in _BESIDE)
    beside = {name: found for name, found in given if found is not None}
    return to_retrieval_result(replace(result, metadata=value.get("metadata"), **beside), where)


def _from_items(items: Sequence[_Item]) -> RetrievalResult[Any]:
    ids: list[Any] = [item.id for item in items]
    scores: list[Any] = [item.score for item in items]
    metadata = [item.metadata or {} for item in items]
    return RetrievalResult(
        [item.text for item in items],
        context_ids=ids if None not in ids else None,
        scores=scores if all(map(_is_score, scores)) else None,
        context_metadata=metadata if any(metadata) else None,
    )


def _item(given: object, position: int, where: str) -> _Item:
    """A document; its score may stand beside it, in a pair or in LlamaIndex' wrapper."""
    document: Any = given
    if isinstance(given, tuple) and len(cast("tuple[Any, ...]", given)) == 2:
        inner, score = cast("tuple[Any, Any]", given)
    elif hasattr(document, "node") and hasattr(document, "score"):
        inner, score = document.node, document.score
    else:
        item = _bare(document)
        if item is None:
            raise InterfaceError(
                f"{where}: document {position} is a {type(document).__name__} without a text: it "
                f"needs one of {', '.join(_names('text'))}"
            )
        return item
    return replace(_item(inner, position, where), score=score)


def _bare(document: Any) -> _Item | None:
    if isinstance(document, str):
        return _Item(document)
    get: Callable[[str], Any] = document.get if is_object(document) else partial(_read, document)
    texts = (get(name) for name in _names("text"))
    text = next((text for text in texts if isinstance(text, str)), None)
    get_content = get("get_content")  # LlamaIndex nodes that are not text nodes
    if text is None and callable(get_content):
        text = get_content()
    if not isinstance(text, str):
        return None
    ids = (get(name) for name in _names("id"))
    id_ = next((found for found in ids if found not in (None, "")), None)
    score = _value(document, _names("score")) if is_object(document) else get("score")
    metadata = as_object(get("metadata")) or as_object(get("meta"))
    origin = get("ref_doc_id")  # LlamaIndex: the document that a node was cut from
    if isinstance(origin, str) and "document_id" not in metadata:
        metadata = {**metadata, "document_id": origin}
    # Vector stores and rerankers often put id and score into the metadata.
    return _Item(
        text,
        _value(metadata, _names("id")) if id_ is None else id_,
        _value(metadata, _names("score")) if score is None else score,
        metadata,
    )


def _read(document: Any, name: str) -> Any:
    try:
        return getattr(document, name, None)
    except (ValueError, TypeError):  # properties that refuse, as LlamaIndex's on other node types
        return None


def _is_score(value: Any) -> bool:
    is_number = hasattr(value, "__float__") and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def _value(value: Mapping[str, Any], names: Sequence[str]) -> Any:
    found: Any = next((value[name] for name in names if value.get(name) is not None), None)
    return found.tolist() if hasattr(found, "tolist") else found  # of NumPy, pandas, torch


def _listed(value: Mapping[str, Any]) -> str:
    return ", ".join(repr(key) for key in value) or "no keys"


Halves = tuple[RetrievalResult[Any] | None, GenerationResult[Any]]


def read_generation(value: object, where: str) -> GenerationResult[Any]:
    """Makes a result of whatever a foreign generation returned."""
    if type(value) in (int, float):  # as a recorded one
        value = str(value)
    if isinstance(value, (str, GenerationResult)):
        return to_generation_result(cast("object", value), where)
    mapping = answer_fields(value)
    if mapping is not None:
        return _answer_from_mapping(mapping, where)
    names = ("response", "content", "data", "text")
    texts = (_joined(getattr(value, name, None)) for name in names)
    text = next((text for text in texts if text is not None), None)
    if text is None:
        hint = ""
        if hasattr(value, "__next__") or hasattr(value, "__anext__"):
            hint = " (join its pieces)"
        elif _role(value) == "contexts":
            hint = " (a retriever is a class with 'retrieve', or as_rag(retrieve=...))"
        raise InterfaceError(
            f"{where} returned {kind_of(value)}{hint}, and must return a string, a "
            f"GenerationResult or a mapping with one of {', '.join(_names('answer'))}"
        )
    return GenerationResult(text, metadata=_metadata(value))


def answer_fields(value: object) -> Mapping[str, Any] | None:
    """A mapping; the fields of a named tuple, a dataclass or a pydantic model with an answer."""
    if is_object(value):
        return value
    kind: Any = type(value)
    lists = ("_fields", "__dataclass_fields__", "model_fields")
    names: list[str] = [name for held in lists for name in getattr(kind, held, None) or ()]
    if isinstance(value, GenerationResult) or set(names).isdisjoint(_names("answer")):
        return None
    return {name: getattr(value, name, None) for name in names}


def read_answer(value: object, where: str) -> Halves:
    """Splits what a system returned that retrieves and generates in one call."""
    fields = answer_fields(value)
    if fields is None and isinstance(value, tuple):
        return _from_tuple(cast("tuple[Any, ...]", value), where)
    if fields is not None:
        generation = read_generation(fields, where)
        if _value(fields, _names("contexts")) is None:
            return None, generation
        # One mapping for both: its metadata belongs to the answer.
        found = {key: value for key, value in fields.items() if key != "metadata"}
        return read_retrieval(found, where), generation
    nodes = getattr(value, "source_nodes", None)
    retrieval = None if nodes is None else read_retrieval(list(nodes), where)
    return retrieval, read_generation(value, where)


def _from_tuple(parts: tuple[Any, ...], where: str) -> Halves:
    roles = ("contexts", "answer", "metadata")
    lists, answers, metadata = ([part for part in parts if _role(part) == one] for one in roles)
    if len(lists) != 1 or len(answers) != 1 or len(metadata) > 1:
        kinds = ", ".join(type(part).__name__ for part in cast("tuple[object, ...]", parts))
        raise InterfaceError(
            f"{where} returned a tuple of ({kinds}): it must hold one answer, one list of contexts "
            "and at most one mapping of metadata; return a mapping to name more"
        )
    generation = read_generation(answers[0], where)
    if metadata and generation.metadata is None:
        generation = replace(generation, metadata=metadata[0])
    return read_retrieval(lists[0], where), generation


def _role(part: object) -> str:
    if isinstance(part, (list, tuple, RetrievalResult)):
        return "contexts"
    return "metadata" if isinstance(part, Mapping) else "answer"


def _answer_from_mapping(fields: Mapping[str, Any], where: str) -> GenerationResult[Any]:
    value = _value(fields, _names("answer"))
    answers = cast("list[object]", value) if isinstance(value, list) else [value]
    if value is None or not answers:
        raise InterfaceError(
            f"{where} returned a mapping with {_listed(fields)} and no answer: it needs one of "
            f"{', '.join(_names('answer'))}"
        )
    candidates = [read_generation(answer, where) for answer in answers]
    several = [one.response for one in candidates] if len(candidates) > 1 else None
    found = {"multi_responses": fields.get("candidates", several)}
    names = ("multi_responses", "confidence", "abstained", "metadata")
    found |= {name: fields[name] for name in names if fields.get(name) is not None}
    known: dict[str, Any] = {name: one for name, one in found.items() if one is not None}
    return to_generation_result(replace(candidates[0], **known), where)


def _joined(text: object) -> str | None:
    """A message's text; some models give it in blocks."""
    listed = cast("list[object]", text) if isinstance(text, list) else [text]
    parts = ((as_object(block) or {"text": block}).get("text") for block in listed)
    blocks = [part for part in parts if isinstance(part, str)]
    return "".join(blocks) if blocks else None


def _metadata(value: Any) -> dict[str, Any] | None:
    def held(name: str) -> dict[str, Any]:
        return dict(as_object(getattr(value, name, None)))

    usage = held("usage_metadata")
    found = {**held("metadata"), **held("meta"), **held("response_metadata")}
    return (found | ({"usage": usage} if usage else {})) or None
