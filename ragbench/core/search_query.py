"""The texts that are searched for in place of a question, and how a result keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from ragbench.core.biography import record_of
from ragbench.core.checked import AboveZero, Checked
from ragbench.core.outcome import Failure
from ragbench.core.record import Record
from ragbench.core.result import RetrievalResult
from ragbench.errors import ConfigError

PRE_RETRIEVE = "pre_retrieve"
"""The stage's name, and the key of its record in a retrieval's metadata."""

QueryKind = Literal["query", "passage"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchQuery(Checked):
    """One of the texts that are searched for in place of a question."""

    text: str
    kind: QueryKind = "query"
    """``"query"``: a question, or words of one. ``"passage"``: a text that looks like what is
    sought; an embedder with a way of its own for passages embeds it in that way."""
    weight: AboveZero = 1.0
    """How much its ranking counts among those of the other texts; above 0."""


class Transformed(Record):
    """The result of a transform of a query, or of all of them."""

    queries: tuple[SearchQuery, ...]
    """What is searched for in its place; the query itself is among them or is not."""
    failures: tuple[Failure, ...] = ()
    """What went wrong inside and was made up for; ``stage`` names the transform."""


def pre_retrieved(result: RetrievalResult[Any]) -> Transformed:
    """What was searched for; nothing where a result does not say."""
    try:
        return msgspec.convert(record_of(result, PRE_RETRIEVE), Transformed)
    except (msgspec.ValidationError, ConfigError):
        return Transformed(queries=())  # a RAG of a user's may have a key of this name, too
