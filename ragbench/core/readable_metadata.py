"""Metadata as a reader is shown them: without embeddings and what programs keep for themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

DERIVED = "derived"
"""The metadata key of the list of changes that a text went through, oldest first."""
LEGS = "ranked_by"
"""Metadata of a hybrid search's chunks: ``{"dense": {"rank": 3, "score": 0.41}, ...}``."""

_EMBEDDINGS = ("embedding", "embeddings", "vector", "vectors")
"""How a field of embeddings is named, or its name ends behind a ``_``."""
_LEAST_DIMENSIONS = 32
"""Numbers from which a list is an embedding, whatever its name is; coordinates have fewer."""
_LONGEST_WORD = 80
"""Characters up to which a text under such a name is a word or a model's name, not numbers."""


def readable_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata for a prompt, a page or a table: without what only programs read.

    What is left out: embeddings, by their name (``embedding``, ``query_vector`` ...) or as 32
    numbers and more; the records that ragbench keeps of a chunk (``derived``, ``ranked_by``); and
    names that begin with ``_``, in which frameworks keep a whole node. The same holds within
    values.
    """
    fields: dict[str, Any] = {}
    for name, value in metadata.items():
        if not _is_internal(str(name), value):
            fields[name] = readable(value)
    return fields


def _is_internal(name: str, value: object) -> bool:
    """Whether a field of metadata holds what only programs read, such as an embedding.

    A short text under such a name, as in ``embedding: minilm``, is for readers.
    """
    if name.startswith("_") or name in (DERIVED, LEGS) or _is_embedding(value):
        return True
    is_word = isinstance(value, str) and len(value) <= _LONGEST_WORD
    # The last word of the name, such as of ``query_vector``.
    return not is_word and name.lower().rpartition("_")[2] in _EMBEDDINGS


def readable(value: object) -> object:
    """A value of metadata, of any kind, without embeddings and other things for programs alone.

    Metadata of users may nest mappings and lists.
    """
    if isinstance(value, Mapping):
        return readable_metadata(cast("Mapping[str, Any]", value))
    if isinstance(value, (list, tuple)):
        items = cast("list[object]", value)
        return [readable(item) for item in items if not _is_embedding(item)]
    return value


def _is_embedding(value: object) -> bool:
    """Whether a value is a long list of numbers, or a list of such lists; arrays count as lists.

    Prompts and pages leave it out: hundreds of numbers mean nothing to a reader.
    """
    # Arrays of NumPy or torch, without importing either.
    if hasattr(value, "tolist"):
        value = cast("Any", value).tolist()
    if not isinstance(value, (list, tuple)) or not value:
        return False
    items = cast("list[object]", value)
    if len(items) >= _LEAST_DIMENSIONS and all(isinstance(item, (int, float)) for item in items):
        return True
    return all(_is_embedding(item) for item in items)
