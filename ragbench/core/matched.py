"""Which retrieved chunk is which relevant context, and how that was recognised."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """A retrieved chunk that is a relevant context."""

    rank: int
    """The chunk's place in the retrieval, from 1."""
    gold: int
    """The position of the relevant context in `Matched.golds`, from 0."""
    by: MatchedBy


@dataclass(frozen=True, kw_only=True, slots=True)
class Matched:
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

    def rank_of(self, gold: int) -> int | None:
        """The first rank at which a relevant context was found; None where it was not."""
        return next((match.rank for match in self.matches if match.gold == gold), None)

    @property
    def missed(self) -> tuple[int, ...]:
        """Positions of the relevant contexts (grade above 0) that no chunk is."""
        found = {match.gold for match in self.matches}
        return tuple(at for at, grade in enumerate(self.grades) if grade > 0 and at not in found)
