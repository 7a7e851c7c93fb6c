"""The one thing that a validator brings: a verdict on one retrieval."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from ragbench.records.corpus import Chunk
from ragbench.records.validation import Retrieval, Validation

__all__ = ["Validator", "validate_all"]


@runtime_checkable
class Validator(Protocol):
    """Says which chunks answer a query, and where. It never ranks for others and never answers.

    The same input gives the same verdict.
    """

    @property
    def name(self) -> str:
        """How reports and errors call it."""
        ...

    @property
    def identity(self) -> str:
        """Changes whenever the same input could get another verdict: settings, weights, models."""
        ...

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Validation:
        """Judges what was retrieved for one query.

        Args:
            query: the question; an empty one gets a verdict with a warning.
            chunks: in the retriever's order; none at all, empty texts and ids that are missing or
                double are allowed and warned of.

        Returns:
            The verdict, with an empty ``query_id``. Each piece of evidence is a slice of its chunk.

        Raises:
            RagbenchError: a model is missing or gives no answer.
        """
        ...


def validate_all(validator: Validator, retrievals: Iterable[Retrieval]) -> Iterator[Validation]:
    """Verdicts one by one, in order, each with its query's id; nothing is kept."""
    for retrieval in retrievals:
        verdict = validator.validate(retrieval.query, retrieval.chunks)
        yield replace(verdict, query_id=retrieval.query_id)
