"""Rerankers that combine: other rerankers by ranks or scores; score, age and metadata."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import ClassVar, Literal

from ragbench.core.checked import Checked, Share, Weight, refuse
from ragbench.core.chunk import Chunk
from ragbench.core.fusion import RRF_K, min_max, reciprocal_rank_scores
from ragbench.errors import ConfigError
from ragbench.post.chunks import ages_in_hours
from ragbench.post.operator import Query
from ragbench.post.rerank import NotedScores, Reranker, checked_scores
from ragbench.safe_text import counted


def given_scores(chunks: Sequence[Chunk], default: float) -> list[float]:
    """Each chunk's present score, or a default where it has none (0 is a score).

    Formulas need a number for each chunk; a note names the default.
    """
    scores: list[float] = []
    for chunk in chunks:
        scores.append(default if chunk.score is None else chunk.score)
    return scores


def unscored_note(chunks: Sequence[Chunk], default: float) -> tuple[str, ...]:
    """A note on chunks without a score; none when all have one.

    Args:
        default: the score that was taken for them.
    """
    unscored = [chunk for chunk in chunks if chunk.score is None]
    if not unscored:
        return ()
    counts = f"{len(unscored)} of {counted(len(chunks), 'chunk')}"
    return (f"{counts} had no score: {default:g} was taken",)


def standard(scores: Sequence[float]) -> list[float]:
    """Scores with mean 0 and standard deviation 1; equal scores all become 0.

    Lists of different scales can be added up so.
    """
    # The result does not depend on the scale; within [0, 1] huge scores have a finite deviation.
    scaled = min_max(scores)
    mean = fmean(scaled)
    deviation = pstdev(scaled) or 1.0  # equal scores have none to divide by
    return [(score - mean) / deviation for score in scaled]


@dataclass(frozen=True, kw_only=True, slots=True)
class FusionReranker(Checked):
    """What rerankers that fuse others have in common: their settings, and how others are asked."""

    rerankers: Sequence[Reranker]
    """Whose scores or orders are fused; at least one."""
    weights: Sequence[Weight] | None = None
    """One a reranker, at least 0; None for 1 each."""
    given_weight: Weight = 0.0
    """The weight of the given scores, or of the present order, at least 0."""

    def __post_init__(self) -> None:
        """Refuses weights that fit no reranker, or are all 0: nothing could be ranked.

        The error comes while settings are read, and not at the first question.
        """
        Checked.__post_init__(self)
        count = len(self.rerankers)
        if not count:
            raise ConfigError("rerankers must not be empty")
        if self.weights is not None and len(self.weights) != count:
            raise ConfigError(f"weights are {len(self.weights)} numbers for {count} rerankers")
        # Each is at least 0: a sum of 0 means that none counts.
        if not sum(self.every_weight):
            raise ConfigError("weights must hold a number above 0")

    @property
    def every_weight(self) -> list[float]:
        """The weight of the given scores, then those of the rerankers.

        The given scores are those that retrieval, or the operator before, gave.
        """
        weights = self.weights
        if not weights:
            weights = [1.0] * len(self.rerankers)
        return [self.given_weight, *weights]

    def members(
        self, query: Query, chunks: Sequence[Chunk]
    ) -> tuple[list[Sequence[float]], tuple[str, ...]]:
        """The scores of each member, and all their notes with the member's name before each.

        A member is a reranker whose scores are fused. Two of one name may note the same: each note
        is given once.
        """
        lists: list[Sequence[float]] = []
        notes: list[str] = []
        for reranker in self.rerankers:
            scores = checked_scores(reranker, query, chunks)
            lists.append(scores)
            # With the member's name: two members may note the same of their own scores.
            notes += [f"{reranker.name}: {note}" for note in scores.notes]
        return lists, tuple(dict.fromkeys(notes))


@dataclass(frozen=True, kw_only=True, slots=True)
class LinearFusionReranker(FusionReranker):
    """Weighted mean of the rerankers' scores, each list normalised among the candidates first.

    Unlike ranks, scores keep how far the candidates lie apart (Bruch, Gai and Ingber 2023, "An
    Analysis of Fusion Functions for Hybrid Retrieval").
    """

    name = "linear"

    normalise: Literal["min_max", "standard"] = "standard"
    """``"min_max"``: to [0, 1]. ``"standard"``: to mean 0 and standard deviation 1."""

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """The weighted mean of the rerankers' scores, each list normalised first.

        Chunks without a given score take the lowest of those with one.
        Other scores need a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        lists, notes = self.members(query, chunks)
        # The given scores come last here, and only where they weigh anything.
        weights = self.every_weight[1:]
        if self.given_weight:
            scored = [chunk.score for chunk in chunks if chunk.score is not None]
            # Whatever was not scored must not rise above what was.
            lowest = min(scored, default=0.0)
            lists.append(given_scores(chunks, lowest))
            notes += unscored_note(chunks, lowest)
            weights.append(self.given_weight)
        normalise = min_max if self.normalise == "min_max" else standard
        totals = [0.0] * len(chunks)
        for weight, scores in zip(weights, lists, strict=True):
            for place, score in enumerate(normalise(scores)):
                totals[place] += weight * score
        total_weight = sum(weights)
        means = [total / total_weight for total in totals]
        return NotedScores(means, notes)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReciprocalRankFusionReranker(FusionReranker):
    """Sum over rerankers of weight / (k + rank) (Cormack, Clarke and Büttcher 2009).

    It needs no common scale. The present order of the candidates can take part as one more list.
    """

    name = "rrf"

    k: Weight = float(RRF_K)
    """How little the first places differ from those behind them, at least 0."""

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """The sum over the rerankers of weight / (k + rank) for each chunk.

        A reranker's ranks come from its scores; equal scores are ranked in the present order.
        Other scores need a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        lists, notes = self.members(query, chunks)
        places = range(len(chunks))
        # The present order comes first, as its weight is the first of `every_weight`.
        rankings: list[Sequence[int]] = [places]
        for scores in lists:
            # sorted() is stable: equal scores are ranked in their present order.
            falling = [-score for score in scores]
            rankings.append(sorted(places, key=falling.__getitem__))
        totals = reciprocal_rank_scores(rankings, weights=self.every_weight, rrf_k=self.k)
        scores_in_order = [totals[place] for place in places]
        return NotedScores(scores_in_order, notes)


_FROM_NEWEST = "no 'now' is set: ages were counted from the newest chunk"


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeWeightedReranker(Checked):
    """``score * exp(-rate * age in hours)`` (post-retrieval operators, "time_weighted").

    Where a given score is below 0, fading would raise it: all scores are then first shifted, so
    that the lowest is 0, and a note says so.
    """

    name = "time_weighted"

    NEEDS: ClassVar[tuple[str, ...]] = ("times in the metadata",)
    reads_now: ClassVar[bool] = True

    rate: Weight = 0.01
    """How much is lost an hour, at least 0; 0.01 halves a score in 69 hours."""
    time_field: str = "timestamp"
    """The field of a chunk's metadata that holds its time."""
    undated: Share = 0.5
    """Factor of a chunk without a time, in [0, 1]."""
    default_score: float = 0.5
    """Score of a chunk without one."""

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """Each chunk's given score, faded by its age.

        Notes count the chunks without a score or a time.
        Other scores need a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        scores = given_scores(chunks, self.default_score)
        notes = list(unscored_note(chunks, self.default_score))
        lowest = min(scores)
        if lowest < 0:
            # The lowest becomes 0 and stays there, however old it is.
            scores = [score - lowest for score in scores]
            notes.append(f"scores below 0 cannot fade: all were raised by {-lowest:g}")
        ages = ages_in_hours(chunks, self.time_field, query.now)
        undated = ages.count(None)
        if undated:
            notes.append(
                f"{undated} of {counted(len(chunks), 'chunk')} had no time in '{self.time_field}': "
                f"their scores were multiplied by {self.undated:g}"
            )
        if query.now is None and undated < len(chunks):
            notes.append(_FROM_NEWEST)
        faded: list[float] = []
        for score, age in zip(scores, ages, strict=True):
            factor = self.undated
            if age is not None:
                factor = math.exp(-self.rate * age)
            faded.append(score * factor)
        return NotedScores(faded, notes)


@dataclass(frozen=True, kw_only=True, slots=True)
class Factor(Checked):
    """One of the values that `WeightedReranker` adds up."""

    field: str = "score"
    """``"score"``: the given score. ``"recency"``: exp(-rate * age in hours), in (0, 1]. Anything
    else: a number in the chunk's metadata (true counts as 1, false as 0)."""
    weight: Weight = 1.0
    """Its weight, at least 0."""
    default: float = 0.5
    """Its value for a chunk that has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightedReranker(Checked):
    """Sum of weight * value over sum of weights (post-retrieval operators, "weighted")."""

    name = "weighted"

    factors: Sequence[Factor] = (Factor(),)
    """At least one, and one weight above 0."""
    normalise: Literal["none", "min_max"] = "none"
    """``"min_max"`` maps each factor's values among the candidates to [0, 1] first, which scores
    without an upper limit (BM25) need beside others."""
    time_field: str = "timestamp"
    """The field of a chunk's metadata that holds its time."""
    recency_rate: Weight = 0.1
    """The rate of ``"recency"`` an hour, at least 0."""

    def __post_init__(self) -> None:
        """Refuses factors that all weigh 0: they could rank nothing.

        The error comes while settings are read, and not at the first question.
        """
        Checked.__post_init__(self)
        total = sum(factor.weight for factor in self.factors)
        refuse(None if total else "factors must hold a weight above 0")

    @property
    def reads_now(self) -> bool:
        """Whether ages count for this reranker: a run then sets its date and records it.

        Without ages, a run's results do not depend on its date.
        """
        return any(factor.field == "recency" for factor in self.factors)

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """The weighted mean of the factors' values for each chunk.

        Notes count the chunks that got a factor's default.
        Other scores need a higher `POST_RETRIEVAL_VERSION`: stored outcomes are used again.
        """
        totals = [0.0] * len(chunks)
        notes: list[str] = []
        for factor in self.factors:
            values: list[float] = []
            missing = 0
            for value in self._values(factor.field, query, chunks):
                if value is None:
                    missing += 1
                    values.append(factor.default)
                else:
                    values.append(value)
            if missing:
                notes.append(
                    f"{missing} of {counted(len(chunks), 'chunk')} had no number for "
                    f"'{factor.field}': {factor.default:g} was taken"
                )
            # Defaults are mapped with the others: they are on the scale of the field.
            if self.normalise == "min_max":
                values = min_max(values)
            if factor.field == "recency" and query.now is None and missing < len(chunks):
                notes.append(_FROM_NEWEST)
            for place, value in enumerate(values):
                totals[place] += factor.weight * value
        total_weight = sum(factor.weight for factor in self.factors)
        means = [total / total_weight for total in totals]
        return NotedScores(means, notes)

    def _values(self, field: str, query: Query, chunks: Sequence[Chunk]) -> list[float | None]:
        """Each chunk's value of one factor; None where it has none.

        Args:
            field: ``"score"``, ``"recency"`` or a field of the metadata.
        """
        if field == "score":
            return [chunk.score for chunk in chunks]
        values: list[float | None] = []
        if field == "recency":
            for age in ages_in_hours(chunks, self.time_field, query.now):
                value = None if age is None else math.exp(-self.recency_rate * age)
                values.append(value)
            return values
        for chunk in chunks:
            number = chunk.metadata.get(field)
            if isinstance(number, int | float) and math.isfinite(number):
                values.append(float(number))
            else:
                values.append(None)
        return values
