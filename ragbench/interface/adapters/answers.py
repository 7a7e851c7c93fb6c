"""Foreign answers, read by shape.

Understood, without importing any of them: strings; mappings with the answer under a usual name;
LangChain messages (``content``, ``response_metadata``, ``usage_metadata``); LlamaIndex responses
(``response``, ``source_nodes``, ``metadata``); Haystack outputs (``replies`` or ``answers``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ragbench.errors import InterfaceError
from ragbench.interface.adapters.documents import as_mapping, has_contexts, read_retrieval
from ragbench.interface.coerce import to_generation_result
from ragbench.interface.results import GenerationResult, RetrievalResult

__all__ = ["ANSWER_KEYS", "read_answer", "read_generation"]

ANSWER_KEYS = (
    "answer",
    "response",
    "output",
    "result",
    "output_text",
    "generation",
    "replies",
    "answers",
    "text",
)
"""Names under which systems hand over their answer, in the order in which they are tried."""


def read_generation(value: object, where: str) -> GenerationResult[Any]:
    """Makes a result of whatever a foreign generation returned.

    Args:
        value: a string, a `GenerationResult`, a message, a response object, or a mapping.
        where: what returned it, for the message.

    Raises:
        InterfaceError: there is no answer in it.
    """
    if isinstance(value, (str, GenerationResult)):
        return to_generation_result(cast("object", value), where)
    mapping = as_mapping(value)
    if mapping is not None:
        return _from_mapping(mapping, where)
    found = _from_object(value)
    if found is None:
        hint = ". For a retriever say as_rag(retrieve=...)" if _role(value) == "contexts" else ""
        raise InterfaceError(
            f"{where} must return a string, a GenerationResult or a mapping with one of "
            f"{', '.join(ANSWER_KEYS)}, not {_kind(value)}{hint}"
        )
    return found


def read_answer(
    value: object, where: str
) -> tuple[RetrievalResult[Any] | None, GenerationResult[Any]]:
    """Splits what a system returned that retrieves and generates in one call.

    Args:
        value: what `read_generation` understands, with contexts beside the answer where the
            system shows them; or a tuple of the answer and the contexts, in either order.
        where: what returned it, for the message.

    Returns:
        The retrieval, None when the system shows no contexts, and the generation.

    Raises:
        InterfaceError: there is no answer in it.
    """
    if isinstance(value, tuple):
        return _from_tuple(cast("tuple[Any, ...]", value), where)
    fields = as_mapping(value)
    if fields is not None:
        retrieval = read_retrieval(_for_retrieval(fields), where) if has_contexts(fields) else None
        return retrieval, read_generation(fields, where)
    nodes = getattr(value, "source_nodes", None)
    retrieval = None if nodes is None else read_retrieval(list(nodes), where)
    return retrieval, read_generation(value, where)


def _for_retrieval(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    # One mapping for both: its metadata belongs to the answer.
    return {key: value for key, value in fields.items() if key != "metadata"}


def _from_tuple(
    parts: tuple[Any, ...], where: str
) -> tuple[RetrievalResult[Any] | None, GenerationResult[Any]]:
    lists = [part for part in parts if _role(part) == "contexts"]
    answers = [part for part in parts if _role(part) == "answer"]
    metadata = [part for part in parts if _role(part) == "metadata"]
    if len(lists) != 1 or len(answers) != 1 or len(metadata) > 1:
        kinds = ", ".join(type(part).__name__ for part in cast("tuple[object, ...]", parts))
        raise InterfaceError(
            f"{where} returned a tuple of ({kinds}): it must hold one answer, one list of contexts "
            "and at most one mapping of metadata; return a mapping to name more"
        )
    generation = read_generation(answers[0], where)
    if metadata and generation.metadata is None:
        generation = GenerationResult.from_mapping(
            {**generation.to_dict(), "metadata": metadata[0]}
        )
    return read_retrieval(lists[0], where), generation


def _role(part: object) -> str:
    if isinstance(part, (list, tuple, RetrievalResult)):
        return "contexts"
    return "metadata" if isinstance(part, Mapping) else "answer"


def _from_mapping(fields: Mapping[str, Any], where: str) -> GenerationResult[Any]:
    name = next((name for name in ANSWER_KEYS if fields.get(name) is not None), None)
    if name is None:
        keys = ", ".join(repr(key) for key in fields) or "no keys"
        raise InterfaceError(
            f"{where} returned a mapping with {keys} and no answer: it needs one of "
            f"{', '.join(ANSWER_KEYS)}"
        )
    value = fields[name]
    answers = cast("list[object]", value) if isinstance(value, list) else [value]
    candidates = [read_generation(answer, where) for answer in answers]
    if not candidates:
        raise InterfaceError(f"{where} returned an empty list under '{name}'")
    known = candidates[0].to_dict()
    if len(candidates) > 1:
        known["multi_responses"] = [candidate.response for candidate in candidates]
    if fields.get("candidates") is not None:
        known["multi_responses"] = fields["candidates"]
    for option in ("multi_responses", "confidence", "abstained", "metadata"):
        if fields.get(option) is not None:
            known[option] = fields[option]
    return to_generation_result(GenerationResult.from_mapping(known), where)


def _from_object(value: Any) -> GenerationResult[Any] | None:
    for name in ("response", "content", "data", "text"):
        text = _joined(getattr(value, name, None))
        if text is not None:
            return GenerationResult(text, metadata=_metadata(value))
    return None


def _joined(text: object) -> str | None:
    """A message's text; some models give it in blocks."""
    if isinstance(text, str):
        return text
    if not isinstance(text, list) or not text:
        return None
    blocks: list[str] = []
    for block in cast("list[object]", text):
        fields = as_mapping(block)
        part = block if fields is None else fields.get("text")
        if isinstance(part, str):
            blocks.append(part)
    return "".join(blocks) if blocks else None


def _metadata(value: Any) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    for name in ("metadata", "meta", "response_metadata"):
        found.update(as_mapping(getattr(value, name, None)) or {})
    usage = as_mapping(getattr(value, "usage_metadata", None))
    if usage is not None:
        found["usage"] = dict(usage)
    return found or None


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
