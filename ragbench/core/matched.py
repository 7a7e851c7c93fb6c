"""Which retrieved chunks are relevant contexts, and where the missing relevant contexts are.

`Matched` compares a retrieval with the gold of its case; `GoldSearch` is the outcome of the stage
that searches the collection for the gold that retrieval missed.
"""

from __future__ import annotations

from enum import StrEnum

from ragbench.core.record import Record


class MatchedBy(StrEnum):
    """The reason why a chunk counts as a relevant context."""

    ID = "id"
    """Its id is the gold's."""
    DOCUMENT = "document"
    """It was cut from the gold document."""
    OVERLAP = "overlap"
    """It was cut from the evidence's document, and its offsets overlap with the evidence."""
    TEXT = "text"
    """Its text contains the gold text, or is a part of it."""


class Match(Record):
    """A retrieved chunk that is a relevant context."""

    rank: int
    """The chunk's rank in the retrieval, from 1."""
    gold: int
    """The position of the relevant context in `Matched.golds`, from 0."""
    by: MatchedBy


class Matched(Record):
    """A case's retrieval compared with what is relevant to the case."""

    golds: tuple[str, ...]
    """The relevant contexts: ids where they were compared by id, else texts in the form in which
    they are compared (NFKC, casefolded). Contexts that are judged not relevant are included."""
    grades: tuple[int, ...]
    """The grade of each of these; 1 where there are no grades."""
    is_by_id: bool
    """Whether ``golds`` are ids."""
    chunks: int
    """Number of retrieved chunks."""
    matches: tuple[Match, ...]
    """Sorted by rank. A chunk may contain several relevant contexts, and several chunks the same
    one. All chunks of a relevant document are included."""
    repeated: tuple[int, ...] = ()
    """Ranks that rank metrics skip: of an id that is there again, or, where documents are relevant,
    of a further chunk of a document that is there already."""


class GoldCause(StrEnum):
    """Where a gold context was lost in a retrieval; from the best cause to the worst."""

    RETRIEVED = "retrieved"
    """It is among the retrieved chunks."""
    RANKED_LOWER = "ranked_lower"
    """The same search finds it if it is asked for more chunks."""
    LOST_BY_THRESHOLD = "lost_by_threshold"
    """The same search finds it without the score threshold."""
    LOST_BY_INDEX = "lost_by_index"
    """An exact search finds it among the same number of chunks; the store's index does not."""
    LOST_BY_FILTER = "lost_by_filter"
    """The collection contains it, and the filter excludes it."""
    NOT_RANKED = "not_ranked"
    """The collection contains it, at a rank below all those that were searched."""
    CUT = "cut"
    """Chunks contain parts of it, and no chunk all of it."""
    NOT_INDEXED = "not_indexed"
    """No chunk contains any of it."""
    UNKNOWN = "unknown"
    """The collection cannot be searched for it."""


class SearchedGold(Record):
    """One gold context, and where it was lost."""

    gold: str
    """Its id; its text where it has none."""
    cause: GoldCause
    rank: int | None = None
    """Its best rank, from 1: in the retrieval itself, or in the search that ``cause`` describes;
    None where no search found it."""
    chunk_ids: tuple[str, ...] = ()
    """The chunks that contain it, or parts of it where it is cut; in no order."""


class GoldSearch(Record):
    """Where the gold of one case was lost: the outcome of the stage ``locate``."""

    golds: tuple[SearchedGold, ...]
    """At least one, in the case's order."""
    retrieved: int
    """Number of retrieved chunks."""
    depth: int
    """Number of chunks of each ranking that were searched."""

    @property
    def nearest(self) -> SearchedGold:
        """The case's gold context that came nearest to generation; of equals, by the better rank.

        Reports name its cause for the whole case: the members of `GoldCause` are in order from the
        nearest.
        """
        order = list(GoldCause)
        return min(self.golds, key=lambda gold: (order.index(gold.cause), gold.rank or 0))

    @property
    def cause(self) -> GoldCause:
        """Where the gold context was lost that came nearest to generation.

        A report counts the case under it.
        """
        return self.nearest.cause
