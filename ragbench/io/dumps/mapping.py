"""Which field means what, and whether scores are distances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from enum import StrEnum

from ragbench.core.score_order import ScoreOrders
from ragbench.errors import ConfigError
from ragbench.io.dumps.form import Hits, getter
from ragbench.io.values import ValueProblem, as_flag, as_score

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
    """Refuses a correction of something that there is not."""
    for name in overrides:
        if name not in MAPPABLE:
            close = get_close_matches(name, MAPPABLE, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise ConfigError(f"--map {name}: no such field.{hint} Known: {', '.join(MAPPABLE)}")


_DISTANCES = ("distance", "dist", "l2", "_distance", "cosine_distance")


def guess_kind(lists: Sequence[Hits], path: str | None, distances: bool | None) -> ScoreKind | None:
    """Guesses which scores are the better ones.

    A retriever hands over the best chunk first. When scores fall, higher is better; when they
    rise, lower is. Only when neither holds, the field's name decides, or what its tool is known
    for: Milvus, for one, calls both a distance.
    """
    if path is None:
        return None
    find = getter(path)
    orders = ScoreOrders()
    for hits in lists:
        known = [score for hit in hits if (score := as_score(find(hit))) is not None]
        orders.add(known)
    if orders.falling != orders.rising:
        return ScoreKind.DISTANCE if orders.rising > orders.falling else ScoreKind.SIMILARITY
    if distances is None:
        distances = path.rpartition(".")[2].lower() in _DISTANCES
    return ScoreKind.DISTANCE if distances else ScoreKind.SIMILARITY


_HIGHEST_GRADE = 4


def as_label(value: object) -> bool | None:
    """What a person says of a chunk or a query: yes and no, or a grade from 0 to 4.

    None for what is no label, such as a score.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value > 0 if value in range(_HIGHEST_GRADE + 1) else None
    try:
        return as_flag(value)
    except ValueProblem:
        return None
