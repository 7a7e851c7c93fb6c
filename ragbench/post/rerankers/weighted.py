"""Score, age and metadata."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from ragbench.core.chunk import Chunk
from ragbench.core.fusion import min_max
from ragbench.post.operator import Query, above, at_least, between, refuse
from ragbench.post.rerank import NotedScores
from ragbench.post.rerankers.fusion import given_scores, unscored_note
from ragbench.post.times import ages_in_hours

_FROM_NEWEST = "no 'now' is set: ages were counted from the newest chunk"


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeWeightedReranker:
    """``score * exp(-rate * age in hours)`` (post-retrieval operators, "time_weighted").

    Where a given score is below 0, fading would raise it: all scores are then first shifted, so
    that the lowest is 0, and a note says so.
    """

    name = "time_weighted"

    NEEDS: ClassVar[tuple[str, ...]] = ("times in the metadata",)
    reads_now: ClassVar[bool] = True

    rate: float = 0.01
    """How much is lost an hour, at least 0; 0.01 halves a score in 69 hours."""
    time_field: str = "timestamp"
    """The field of a chunk's metadata that holds its time."""
    undated: float = 0.5
    """What a chunk without a time is multiplied by, in [0, 1]."""
    default_score: float = 0.5
    """Stands in where a chunk has no score."""

    def __post_init__(self) -> None:
        refuse(at_least("rate", self.rate, 0), between("undated", self.undated, 0, 1))

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
        if query.now is None and undated < len(chunks):
            notes.append(_FROM_NEWEST)
        return NotedScores(
            tuple(
                score * (self.undated if age is None else math.exp(-self.rate * age))
                for score, age in zip(scores, ages, strict=True)
            ),
            tuple(notes),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Factor:
    """One part of the mean."""

    field: str = "score"
    """``"score"``: the given score. ``"recency"``: exp(-rate * age in hours), in (0, 1]. Anything
    else: a number in the chunk's metadata (true counts as 1, false as 0)."""
    weight: float = 1.0
    """Its weight, at least 0."""
    default: float = 0.5
    """Its value for a chunk that has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightedReranker:
    """Sum of weight * value over sum of weights (post-retrieval operators, "weighted")."""

    name = "weighted"

    factors: Sequence[Factor] = (Factor(),)
    """At least one, and one weight above 0."""
    normalise: Literal["none", "min_max"] = "none"
    """``"min_max"`` maps each factor's values among the candidates to [0, 1] first, which scores
    without an upper limit (BM25) need beside others."""
    time_field: str = "timestamp"
    """The field of a chunk's metadata that holds its time."""
    recency_rate: float = 0.1
    """The rate of ``"recency"`` an hour, at least 0."""

    def __post_init__(self) -> None:
        refuse(
            *(at_least("factors have a weight that", one.weight, 0) for one in self.factors),
            above("factors have weights whose sum", sum(one.weight for one in self.factors), 0),
            at_least("recency_rate", self.recency_rate, 0),
        )

    @property
    def reads_now(self) -> bool:
        """Whether what it gives depends on the time."""
        return any(factor.field == "recency" for factor in self.factors)

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        totals = [0.0] * len(chunks)
        notes: list[str] = []
        for factor in self.factors:
            known = self._values(factor.field, query, chunks)
            missing = sum(value is None for value in known)
            if missing:
                notes.append(
                    f"{missing} of {len(chunks)} chunks have no number for '{factor.field}': "
                    f"{factor.default:g} was taken"
                )
            values = [factor.default if value is None else value for value in known]
            if self.normalise == "min_max":
                values = min_max(values)
            if factor.field == "recency" and query.now is None and missing < len(chunks):
                notes.append(_FROM_NEWEST)
            totals = [
                total + factor.weight * value for total, value in zip(totals, values, strict=True)
            ]
        weight = sum(factor.weight for factor in self.factors)
        return NotedScores(tuple(total / weight for total in totals), tuple(notes))

    def _values(self, field: str, query: Query, chunks: Sequence[Chunk]) -> list[float | None]:
        if field == "score":
            return [chunk.score for chunk in chunks]
        if field == "recency":
            ages = ages_in_hours(chunks, self.time_field, query.now)
            return [None if age is None else math.exp(-self.recency_rate * age) for age in ages]
        return [_number(chunk.metadata.get(field)) for chunk in chunks]


def _number(value: object) -> float | None:
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    return None
