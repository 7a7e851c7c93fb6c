"""What retrieval is asked to search for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ragbench.errors import ConfigError

__all__ = ["QueryKind", "SearchQuery"]

QueryKind = Literal["query", "passage"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchQuery:
    """One of the texts that are searched for in place of a question.

    Raises:
        ConfigError: the weight is not a finite number above 0.
    """

    text: str
    kind: QueryKind = "query"
    """``"query"``: a question, or words of one. ``"passage"``: a text that looks like what is
    sought; an embedder with a way of its own for passages embeds it in that way."""
    weight: float = 1.0
    """How much its ranking counts among those of the other texts; above 0."""

    def __post_init__(self) -> None:
        """Checks the weight."""
        if not 0 < self.weight < math.inf:
            raise ConfigError(f"the weight of a search query must be above 0, not {self.weight}")
