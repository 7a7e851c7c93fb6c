"""Given scores that fade with age."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ragbench.errors import ConfigError
from ragbench.postretrieval.query import Query
from ragbench.postretrieval.reranker import NotedScores
from ragbench.postretrieval.rerankers.given_scores import given_scores, unscored_note
from ragbench.postretrieval.rerankers.timestamps import ages_in_hours
from ragbench.records.corpus import Chunk

__all__ = ["TimeWeightedReranker"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeWeightedReranker:
    """``score * exp(-rate * age in hours)`` (post-retrieval operators, "time_weighted").

    Where a given score is below 0, fading would raise it: all scores are then first shifted, so
    that the lowest is 0, and a note says so.
    """

    NEEDS: ClassVar[tuple[str, ...]] = ("times in the metadata",)

    rate: float = 0.01
    """How much is lost an hour, at least 0; 0.01 halves a score in 69 hours."""
    time_field: str = "timestamp"
    """The field of a chunk's metadata that holds its time."""
    undated: float = 0.5
    """What a chunk without a time is multiplied by, in [0, 1]."""
    default_score: float = 0.5
    """Stands in where a chunk has no score."""

    def __post_init__(self) -> None:
        """Refuses settings out of their range."""
        if not 0 <= self.rate < math.inf:
            raise ConfigError(f"time_weighted: rate must be at least 0, not {self.rate:g}")
        if not 0 <= self.undated <= 1:
            raise ConfigError(f"time_weighted: undated must lie in [0, 1], not {self.undated:g}")

    @property
    def name(self) -> str:
        """``"time_weighted"``."""
        return "time_weighted"

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """The given scores, less those of old chunks."""
        scores = given_scores(chunks, self.default_score)
        notes = list(unscored_note(chunks, self.default_score))
        lowest = min(scores)
        if lowest < 0:
            scores = [score - lowest for score in scores]
            notes.append(f"scores below 0 cannot fade: all were raised by {-lowest:g}")
        ages = ages_in_hours(chunks, self.time_field, query.now)
        undated = sum(age is None for age in ages)
        if undated:
            notes.append(
                f"{undated} of {len(chunks)} chunks have no time in '{self.time_field}': "
                f"their scores were multiplied by {self.undated:g}"
            )
        return NotedScores(
            tuple(
                score * (self.undated if age is None else math.exp(-self.rate * age))
                for score, age in zip(scores, ages, strict=True)
            ),
            tuple(notes),
        )
