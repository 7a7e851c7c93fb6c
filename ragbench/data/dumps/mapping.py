"""Which field of a dump means what: guessed from its first records, shown, and correctable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from enum import StrEnum

from ragbench.errors import ConfigError

__all__ = ["MAPPABLE", "DumpMapping", "Layout", "ScoreKind", "check_overrides"]

MAPPABLE = (
    *("query", "query_id", "chunks", "id", "text", "score", "metadata"),
    *("relevant", "answer_present"),
)
"""What ``--map`` takes before the equals sign."""


class Layout(StrEnum):
    """What one record of a dump is."""

    QUERIES = "queries"
    """A query with its chunks, or a response."""
    ROWS = "rows"
    """A chunk, with the query that it was retrieved for; those of a query follow one another."""


class ScoreKind(StrEnum):
    """Which scores are the better ones."""

    SIMILARITY = "similarity"
    """The higher ones."""
    DISTANCE = "distance"
    """The lower ones; a chunk's score is then the negative distance."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DumpMapping:
    """How a dump is read. Paths are in the record, those of a chunk's fields in the chunk."""

    format: str
    layout: Layout = Layout.QUERIES
    query: str | None = None
    query_id: str | None = None
    chunks: str | None = None
    """Empty when the record is the response itself."""
    id: str | None = None
    text: str | None = None
    score: str | None = None
    metadata: str | None = None
    relevant: str | None = None
    """Label of a chunk."""
    answer_present: str | None = None
    """Label of a query."""
    scores: ScoreKind | None = None
    """None for a dump without scores."""

    def described(self) -> str:
        """The mapping in one line, such as ``query=query text=payload.text``."""
        known = asdict(self)
        told = [f"{name}={known[name]}" for name in MAPPABLE if known[name]]
        if self.chunks == "":
            told.insert(0, "the record is a response")
        if self.scores is not None:
            told.append(f"({self.scores.value})")
        return "  ".join(told)


def check_overrides(overrides: Mapping[str, str]) -> None:
    """Refuses a correction of something that there is not.

    Raises:
        ConfigError: no such field.
    """
    for name in overrides:
        if name not in MAPPABLE:
            close = get_close_matches(name, MAPPABLE, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise ConfigError(f"--map {name}: no such field.{hint} Known: {', '.join(MAPPABLE)}")
