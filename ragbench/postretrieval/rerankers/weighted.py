"""A weighted mean of what is known of a chunk: its score, its age, its metadata."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ragbench.errors import ConfigError
from ragbench.postretrieval.query import Query
from ragbench.postretrieval.reranker import NotedScores
from ragbench.postretrieval.rerankers.normalise import min_max
from ragbench.postretrieval.rerankers.timestamps import ages_in_hours
from ragbench.records.corpus import Chunk

__all__ = ["Factor", "WeightedReranker"]


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
        """Refuses settings out of their range."""
        if any(not 0 <= factor.weight < math.inf for factor in self.factors):
            raise ConfigError("weighted: the weight of a factor must be at least 0")
        if not sum(factor.weight for factor in self.factors) > 0:
            raise ConfigError("weighted: give at least one factor with a weight above 0")
        if not 0 <= self.recency_rate < math.inf:
            raise ConfigError(
                f"weighted: recency_rate must be at least 0, not {self.recency_rate:g}"
            )

    @property
    def name(self) -> str:
        """``"weighted"``."""
        return "weighted"

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """The weighted means."""
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
