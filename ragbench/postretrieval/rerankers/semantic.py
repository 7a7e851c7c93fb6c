"""Cosine of the query's and each chunk's stored embedding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ragbench.errors import InterfaceError
from ragbench.postretrieval.query import Query
from ragbench.postretrieval.reranker import NotedScores
from ragbench.postretrieval.rerankers.given_scores import given_scores, unscored_note
from ragbench.postretrieval.rerankers.stored_embeddings import (
    FIELD,
    chunk_directions,
    query_direction,
)
from ragbench.records.corpus import Chunk

__all__ = ["SemanticReranker"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SemanticReranker:
    """Scores in [-1, 1]: the cosine of stored embeddings (post-retrieval operators, "semantic").

    A chunk without an embedding keeps its given score, and so do all when the query has none; a
    note says so. Such scores may be on another scale than cosines.
    """

    NEEDS: ClassVar[tuple[str, ...]] = ("embeddings of query and chunks",)

    embedding_field: str = FIELD
    """The field of a chunk's metadata that holds its embedding."""
    default_score: float = 0.5
    """Stands in where a chunk has neither an embedding nor a score."""

    @property
    def name(self) -> str:
        """``"semantic"``."""
        return "semantic"

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        """Cosines, or given scores where embeddings are missing.

        Raises:
            InterfaceError: an embedding is not a list of finite numbers, or they differ in length.
        """
        scores = given_scores(chunks, self.default_score)
        direction = query_direction(query)
        if direction is None:
            note = "the query has no embedding: the given scores were kept"
            return NotedScores(tuple(scores), (note, *unscored_note(chunks, self.default_score)))
        rows, places = chunk_directions(query, chunks, self.embedding_field)
        if rows is not None:
            if rows.shape[1] != len(direction):
                raise InterfaceError(
                    f"the query's embedding has {len(direction)} dimensions, those of the chunks "
                    f"{rows.shape[1]}: both must come from one model"
                )
            for place, cosine in zip(places, (rows @ direction).tolist(), strict=True):
                scores[place] = cosine
        return NotedScores(tuple(scores), self._notes(chunks, places))

    def _notes(self, chunks: Sequence[Chunk], places: list[int]) -> tuple[str, ...]:
        missing = len(chunks) - len(places)
        if not missing:
            return ()
        without = [chunk for at, chunk in enumerate(chunks) if at not in set(places)]
        note = f"{missing} of {len(chunks)} chunks have no embedding: their given scores were kept"
        return (note, *unscored_note(without, self.default_score))
