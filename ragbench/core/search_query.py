"""The texts that are searched for in place of a question, and their place in a result.

A transform before retrieval may search for a rewritten question, for several, or for a text that
looks like the answer.
"""

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
    """A text that is searched for in place of a question."""

    text: str
    kind: QueryKind = "query"
    """``"query"``: a question, or words of one. ``"passage"``: a text that looks like the passage
    to be found; an embedder that treats passages in another way embeds it as one."""
    weight: AboveZero = 1.0
    """Weight of its ranking among the rankings of the other texts; above 0."""


class Transformed(Record):
    """The result of a transform of a query, or of all of them."""

    queries: tuple[SearchQuery, ...]
    """The texts to search for; the query itself may be one of them."""
    failures: tuple[Failure, ...] = ()
    """Failures inside that were recovered from; ``stage`` names the transform."""


def pre_retrieved(result: RetrievalResult[Any]) -> Transformed:
    """The texts that a retrieval searched for; none where its metadata have no such record.

    A transform before retrieval noted them there, under its stage's name.
    """
    try:
        return msgspec.convert(record_of(result, PRE_RETRIEVE), Transformed)
    except (msgspec.ValidationError, ConfigError):  # a user's RAG may have a key of this name, too
        return Transformed(queries=())
