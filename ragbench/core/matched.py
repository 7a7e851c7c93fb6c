"""Which retrieved chunk is which relevant context, and where those are that are missing."""

from __future__ import annotations

from enum import StrEnum

from ragbench.core.record import Record


class MatchedBy(StrEnum):
    """What shows that a chunk is a relevant context."""

    ID = "id"
    """Its id is the gold's."""
    DOCUMENT = "document"
    """It was cut from the gold document."""
    OVERLAP = "overlap"
    """It was cut from the evidence's document, and its offsets overlap with the evidence."""
    TEXT = "text"
    """Its text holds the gold text, or is a part of it."""


class Match(Record):
    """A retrieved chunk that is a relevant context."""

    rank: int
    """The chunk's place in the retrieval, from 1."""
    gold: int
    """The position of the relevant context in `Matched.golds`, from 0."""
    by: MatchedBy


class Matched(Record):
    """A case's retrieval compared with what is relevant to the case."""

    golds: tuple[str, ...]
    """The relevant contexts: ids where they were compared by id, else texts, as they are compared
    (NFKC, casefolded). One that is judged as not relevant is there, too."""
    grades: tuple[int, ...]
    """Of each of them; 1 where there are no grades."""
    is_by_id: bool
    """Whether ``golds`` are ids."""
    chunks: int
    """How many were retrieved."""
    matches: tuple[Match, ...]
    """By rank. A chunk may hold several relevant contexts, several chunks the same one. Further
    chunks of a document are there, too."""
    repeated: tuple[int, ...] = ()
    """Ranks that are no place of their own for rank metrics: an id stands there again, or a further
    chunk of a document that stands above, where documents are what is relevant."""


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


class SearchedGold(Record):
    """What became of one gold context."""

    gold: str
    """Its id; its text where it has none."""
    cause: GoldCause
    rank: int | None = None
    """Where it was first found, from 1: in the retrieval itself, or in the search that ``cause``
    speaks of; None where no search found it."""
    chunk_ids: tuple[str, ...] = ()
    """The chunks that were found to hold it, or parts of it where it is cut; in no order."""


class GoldSearch(Record):
    """What became of the gold of one case: the outcome of the stage ``locate``."""

    golds: tuple[SearchedGold, ...]
    """At least one, in the case's order."""
    retrieved: int
    """How many chunks were retrieved."""
    depth: int
    """How many chunks of a ranking were looked at."""

    @property
    def nearest(self) -> SearchedGold:
        """The gold that came nearest to generation, which says what the retrieval missed."""
        order = list(GoldCause)
        return min(self.golds, key=lambda fate: (order.index(fate.cause), fate.rank or 0))

    @property
    def cause(self) -> GoldCause:
        return self.nearest.cause
