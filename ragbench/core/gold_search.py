"""Where the gold of a case is in the collection that was searched, and what lost it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class GoldCause(StrEnum):
    """What became of a gold context in a retrieval, from the best to the worst."""

    RETRIEVED = "retrieved"
    """It is among the chunks that were retrieved."""
    RANKED_LOWER = "ranked_lower"
    """The same search has it at a later rank than were asked for."""
    LOST_BY_THRESHOLD = "lost_by_threshold"
    """The same search without a score threshold has it."""
    LOST_BY_INDEX = "lost_by_index"
    """An exact search has it among as many chunks as were asked for; the store's index does not."""
    LOST_BY_FILTER = "lost_by_filter"
    """The collection holds it, and the filter lets it not pass."""
    NOT_RANKED = "not_ranked"
    """The collection holds it, and it is not among the chunks that were looked at."""
    CUT = "cut"
    """Chunks hold parts of it, and none holds all of it."""
    NOT_INDEXED = "not_indexed"
    """No chunk holds any of it."""
    UNKNOWN = "unknown"
    """The collection cannot be asked for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldFate:
    """What became of one gold context."""

    gold: str
    """Its id; its text where it has none."""
    cause: GoldCause
    rank: int | None = None
    """Where it was first found, from 1: in the retrieval itself, or in the search that ``cause``
    speaks of; None where no search found it."""
    chunk_ids: tuple[str, ...] = ()
    """The chunks that were found to hold it, or parts of it where it is cut; in no order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldSearch:
    """What became of the gold of one case: the outcome of the stage ``locate``."""

    golds: tuple[GoldFate, ...]
    """At least one, in the case's order."""
    retrieved: int
    """How many chunks were retrieved."""
    depth: int
    """How many chunks of a ranking were looked at."""

    @property
    def nearest(self) -> GoldFate:
        """The gold that came nearest to generation, which says what the retrieval missed."""
        order = list(GoldCause)
        return min(self.golds, key=lambda fate: (order.index(fate.cause), fate.rank or 0))

    @property
    def cause(self) -> GoldCause:
        return self.nearest.cause
