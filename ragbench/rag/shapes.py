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
from decimal import Decimal
from functools import partial
from typing import Any, cast

from ragbench.core.record import Record
from ragbench.core.result import GenerationResult, RetrievalResult, kind_of
from ragbench.core.scalars import plain_number, plain_scalar
from ragbench.errors import InterfaceError
from ragbench.io.fields import field_names
from ragbench.io.values import as_object, is_object
from ragbench.rag.fallback import to_generation_result, to_retrieval_result

_BESIDE = ("context_ids", "scores", "context_metadata")
"""Further columns that may stand beside the contexts."""


def _usual_names(role: str) -> tuple[str, ...]:
    """Names under which systems hand something over, in the order in which they are tried.

    Args:
        role: what is handed over, such as ``"answer"`` or ``"contexts"``.
    """
    return field_names("returned")[role]


class _Item(Record, kw_only=False):
    """One document of a foreign retrieval, whatever its shape was; nothing of it is checked yet."""

    text: str
    id: object = None
    score: object = None
    metadata: Mapping[str, Any] | None = None


def read_retrieval(value: object, where: str) -> RetrievalResult[Any]:
    """Makes a result of whatever a foreign retrieval returned.

    Args:
        where: the system's name in messages.

    Raises:
        InterfaceError: it has no shape that is known; the message names those that are.
    """
    if isinstance(value, RetrievalResult):
        return to_retrieval_result(cast("object", value), where)
    if is_object(value):
        return _retrieval_from_mapping(value, where)
    if isinstance(value, (list, tuple)):
        documents = cast("Sequence[object]", value)
        # Strings alone hold neither ids nor scores that would have to be read.
        if all(isinstance(document, str) for document in documents):
            return RetrievalResult(cast("Sequence[str]", documents))
        items: list[_Item] = []
        for position, document in enumerate(documents):
            items.append(_item_of_document(document, position, where))
        result = _from_items(items)
        return to_retrieval_result(result, where)
    usual_names = ", ".join(_usual_names("contexts")[:3])
    raise InterfaceError(
        f"{where} must return a list of strings or documents, a mapping with one under "
        f"{usual_names}, or a RetrievalResult, not a {type(value).__name__}"
    )


def _retrieval_from_mapping(value: Mapping[str, Any], where: str) -> RetrievalResult[Any]:
    """A retrieval out of a mapping with contexts under one of the usual names.

    Lists of ids, scores and metadata beside them win over those that the contexts hold themselves.
    """
    documents = _first_value(value, _usual_names("contexts"))
    if documents is None:
        raise InterfaceError(
            f"{where} returned a mapping with {_keys_in_words(value)} and no contexts: it needs "
            f"one of {', '.join(_usual_names('contexts'))}"
        )
    if isinstance(documents, str):
        documents = [documents]  # a single context
    result = read_retrieval(documents, where)
    columns: dict[str, Any] = {"metadata": value.get("metadata")}
    for name in _BESIDE:
        column = _first_value(value, _usual_names(name))
        if column is not None:
            columns[name] = column
    result = replace(result, **columns)
    return to_retrieval_result(result, where)


def _from_items(items: Sequence[_Item]) -> RetrievalResult[Any]:
    """A retrieval of documents that were read one by one.

    Ids and scores are given for all or for none: a result has no place for a missing one.
    Each document may have had another shape.
    """
    texts: list[str] = []
    ids: list[Any] = []
    scores: list[Any] = []
    metadata: list[Mapping[str, Any]] = []
    for item in items:
        texts.append(item.text)
        ids.append(item.id)
        scores.append(item.score)
        metadata.append(item.metadata or {})
    # For all or for none: a result has no place for a missing one.
    have_ids = None not in ids
    have_scores = all(_is_score(score) for score in scores)
    have_metadata = any(metadata)
    return RetrievalResult(
        texts,
        context_ids=ids if have_ids else None,
        scores=scores if have_scores else None,
        context_metadata=metadata if have_metadata else None,
    )


def _item_of_document(value: object, position: int, where: str) -> _Item:
    """One document of a foreign retrieval, whose score may be beside it.

    A score is beside the document in a pair, or in LlamaIndex' wrapper. It wins over a score within
    the document, as it is that of this query.

    Args:
        position: of the document in the retrieval, for messages.
        where: the system's name in messages.
    """
    document: Any = value
    if isinstance(value, tuple) and len(cast("tuple[Any, ...]", value)) == 2:
        inner, score = cast("tuple[Any, Any]", value)
    elif hasattr(document, "node") and hasattr(document, "score"):
        inner = document.node
        score = document.score
    else:
        item = _item_without_score_beside(document)
        if item is None:
            raise InterfaceError(
                f"{where}: document {position} is a {type(document).__name__} without a text: it "
                f"needs one of {', '.join(_usual_names('text'))}"
            )
        return item
    # Once more: the document in a pair may be a wrapper itself.
    return replace(_item_of_document(inner, position, where), score=score)


def _item_without_score_beside(document: Any) -> _Item | None:
    """A document by itself: a string, a mapping or an object with a text; None for anything else.

    The id and the score may be in the document's metadata, where vector stores and rerankers often
    put them.
    """
    if isinstance(document, str):
        return _Item(document)
    # Gives a field by its name: the value of a key, or an attribute.
    get: Callable[[str], Any] = partial(_attribute_or_none, document)
    if is_object(document):
        get = document.get
    text = _text_of_document(get)
    if text is None:
        return None
    metadata = as_object(get("metadata")) or as_object(get("meta"))
    origin = get("ref_doc_id")  # LlamaIndex: the document that a node was cut from
    if isinstance(origin, str) and "document_id" not in metadata:
        metadata = {**metadata, "document_id": origin}
    id_: Any = None
    for name in _usual_names("id"):
        candidate = plain_scalar(get(name))
        if candidate is not None and candidate != "":
            id_ = candidate
            break
    score = get("score")
    if is_object(document):
        score = _first_value(document, _usual_names("score"))
    # Vector stores and rerankers often put id and score into the metadata.
    if id_ is None:
        id_ = _first_value(metadata, _usual_names("id"))
    if score is None:
        score = _first_value(metadata, _usual_names("score"))
    return _Item(text, id_, score, metadata)


def _text_of_document(get: Callable[[str], Any]) -> str | None:
    """The text of a foreign document, by whichever of the usual names holds one; else None.

    Args:
        get: gives a field of the document by its name.
    """
    for name in _usual_names("text"):
        text = get(name)
        if isinstance(text, str):
            return text
    get_content = get("get_content")  # LlamaIndex nodes that are not text nodes
    if callable(get_content):
        content = get_content()
        if isinstance(content, str):
            return content
    return None


def _attribute_or_none(document: Any, name: str) -> Any:
    """An attribute of a foreign document; None where it has none or refuses to give it.

    Some frameworks have properties that raise for other kinds of nodes.
    """
    try:
        return getattr(document, name, None)
    except (ValueError, TypeError):  # properties that refuse, as LlamaIndex's on other node types
        return None


def _is_score(value: Any) -> bool:
    """Whether a foreign value can be a score: a finite number, NumPy's included; a flag is none.

    Without a score for each document, the result has none.
    """
    value = plain_number(value)
    is_number = hasattr(value, "__float__") and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def _first_value(value: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The value of the first name that has one in a foreign mapping; arrays become lists.

    None where no name has a value: NaN and the like count as none.
    """
    for name in names:
        entry = plain_scalar(value.get(name))
        if entry is None:
            continue
        if hasattr(entry, "tolist"):  # an array of NumPy, pandas or torch
            return entry.tolist()
        return entry
    return None


def _keys_in_words(value: Mapping[str, Any]) -> str:
    """The keys of a foreign mapping, for messages.

    Users see there under which name their system has the answer.
    """
    return ", ".join(repr(key) for key in value) or "no keys"


Halves = tuple[RetrievalResult[Any] | None, GenerationResult[Any]]
"""What one call of a system gives: what it retrieved, where it shows that, and its answer."""


def read_generation(value: object, where: str) -> GenerationResult[Any]:
    """Makes a result of whatever a foreign generation returned.

    Args:
        where: the system's name in messages.

    Raises:
        InterfaceError: it has no shape that is known; the message names those that are.
    """
    value = plain_scalar(value)
    if type(value) in (int, float, Decimal):  # an answer such as 42: recorded ones are read so, too
        value = str(value)
    if isinstance(value, (str, GenerationResult)):
        return to_generation_result(cast("object", value), where)
    mapping = answer_fields(value)
    if mapping is not None:
        return _answer_from_mapping(mapping, where)
    text = _message_text(value)
    if text is None:
        hint = ""
        is_stream = hasattr(value, "__next__") or hasattr(value, "__anext__")
        if is_stream:
            hint = " (join its pieces)"
        elif _role_of_part(value) == "contexts":
            hint = " (a retriever is a class with 'retrieve', or as_rag(retrieve=...))"
        raise InterfaceError(
            f"{where} returned {kind_of(value)}{hint}, and must return a string, a "
            f"GenerationResult or a mapping with one of {', '.join(_usual_names('answer'))}"
        )
    return GenerationResult(text, metadata=_metadata_of_object(value))


def _message_text(value: object) -> str | None:
    """The text of a framework's message or response; None where none of the usual names has one.

    Each framework has its own name for that field.
    """
    for name in ("response", "content", "data", "text"):
        text = _text_of_blocks(getattr(value, name, None))
        if text is not None:
            return text
    return None


def answer_fields(value: object) -> Mapping[str, Any] | None:
    """The fields of a foreign answer by name; None for anything without such fields.

    A mapping has them, and a named tuple, a dataclass or a pydantic model with an answer. A
    `GenerationResult` is no foreign object.
    """
    if is_object(value):
        return value
    # A `GenerationResult` is a dataclass with an answer, too, but is passed on whole by the caller.
    if isinstance(value, GenerationResult):
        return None
    cls: Any = type(value)
    names: list[str] = []
    # Where named tuples, dataclasses and models of pydantic list their fields.
    for attribute in ("_fields", "__dataclass_fields__", "model_fields"):
        names += getattr(cls, attribute, None) or ()
    has_answer = not set(names).isdisjoint(_usual_names("answer"))
    if not has_answer:
        return None
    return {name: getattr(value, name, None) for name in names}


def read_answer(value: object, where: str) -> Halves:
    """Splits what a system returned that retrieves and generates in one call into its two halves.

    The retrieval is None where it shows no contexts.

    Args:
        where: the system's name in messages.
    """
    fields = answer_fields(value)
    if fields is None and isinstance(value, tuple):
        return _halves_of_tuple(cast("tuple[Any, ...]", value), where)
    if fields is not None:
        generation = read_generation(fields, where)
        if _first_value(fields, _usual_names("contexts")) is None:
            return None, generation
        # One mapping for both: its metadata belongs to the answer.
        fields_of_retrieval = dict(fields)
        fields_of_retrieval.pop("metadata", None)
        return read_retrieval(fields_of_retrieval, where), generation
    retrieval = None
    nodes = getattr(value, "source_nodes", None)  # responses of LlamaIndex
    if nodes is not None:
        retrieval = read_retrieval(list(nodes), where)
    return retrieval, read_generation(value, where)


def _halves_of_tuple(parts: tuple[Any, ...], where: str) -> Halves:
    """Both halves of a call, contexts and answer, out of a tuple in any order.

    The parts are known by their types, and a tuple that could be read in two ways is refused.
    """
    contexts: list[Any] = []
    answers: list[Any] = []
    metadata: list[Any] = []
    parts_of_role = {"contexts": contexts, "answer": answers, "metadata": metadata}
    for part in parts:
        parts_of_role[_role_of_part(part)].append(part)
    if len(contexts) != 1 or len(answers) != 1 or len(metadata) > 1:
        kinds = ", ".join(type(part).__name__ for part in cast("tuple[object, ...]", parts))
        raise InterfaceError(
            f"{where} returned a tuple of ({kinds}): it must hold one answer, one list of contexts "
            "and at most one mapping of metadata; return a mapping to name more"
        )
    generation = read_generation(answers[0], where)
    # What the answer says of itself counts more than what is beside it.
    if metadata and generation.metadata is None:
        generation = replace(generation, metadata=metadata[0])
    return read_retrieval(contexts[0], where), generation


def _role_of_part(part: object) -> str:
    """Which part of a system's answer a member of a tuple is, by its type alone.

    The role is ``"contexts"``, ``"metadata"`` or ``"answer"``.
    """
    if isinstance(part, (list, tuple, RetrievalResult)):
        return "contexts"
    if isinstance(part, Mapping):
        return "metadata"
    return "answer"


def _answer_from_mapping(fields: Mapping[str, Any], where: str) -> GenerationResult[Any]:
    """An answer out of a foreign mapping.

    Of a list of answers, as Haystack's generators give, the first is the answer and all are the
    several responses.
    """
    value = _first_value(fields, _usual_names("answer"))
    answers: list[object] = [value]
    if isinstance(value, list):
        answers = cast("list[object]", value)
    if value is None or not answers:
        raise InterfaceError(
            f"{where} returned a mapping with {_keys_in_words(fields)} and no answer: it needs one "
            f"of {', '.join(_usual_names('answer'))}"
        )
    generations = [read_generation(answer, where) for answer in answers]
    responses: object = None
    if len(generations) > 1:
        responses = [generation.response for generation in generations]
    # The mapping's own fields win; None would take away what the answer itself brought along.
    responses = fields.get("candidates", responses)
    facts: dict[str, Any] = {}
    if responses is not None:
        facts["multi_responses"] = responses
    # Under ragbench's own name the responses win over ``candidates``.
    for name in ("multi_responses", "confidence", "abstained", "metadata"):
        fact = plain_scalar(fields.get(name))
        if fact is not None:
            facts[name] = fact
    generation = replace(generations[0], **facts)
    return to_generation_result(generation, where)


def _text_of_blocks(text: object) -> str | None:
    """The text of a foreign message, which some models give in blocks; None where it has none.

    A block is a text, or an object with one. Blocks of other kinds, such as images, are left out.
    """
    blocks: list[object] = [text]
    if isinstance(text, list):
        blocks = cast("list[object]", text)
    texts: list[str] = []
    for block in blocks:
        part = block
        fields = as_object(block)
        if fields:
            part = fields.get("text")
        if isinstance(part, str):
            texts.append(part)
    if not texts:
        return None
    # Without anything between: blocks are parts of one text.
    return "".join(texts)


def _metadata_of_object(value: Any) -> dict[str, Any] | None:
    """All that a framework's object holds beside its text, such as the model; None where nothing.

    Tokens come under ``usage``, where the metrics of tokens and cost look for them.
    """
    metadata: dict[str, Any] = {}
    for name in ("metadata", "meta", "response_metadata"):
        # Later names win: what a message says of its response is nearer than its general metadata.
        metadata |= as_object(getattr(value, name, None))
    usage = dict(as_object(getattr(value, "usage_metadata", None)))
    if usage:
        metadata["usage"] = usage
    return metadata or None
