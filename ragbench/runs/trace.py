"""What every stage gave for one case: the record that prepare, scoring and reports read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ragbench.interface.results import GenerationResult, RetrievalResult
from ragbench.records.cases import Case
from ragbench.records.cells import Outcome
from ragbench.records.validation import Validation

__all__ = ["Trace"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """One case of a run, with the outcome of each stage that it went through."""

    case: Case
    retrieval: Outcome[RetrievalResult[Any]]
    """What the RAG's retrieval gave. A RAG that only generates: skipped."""
    generation: Outcome[GenerationResult[Any]]
    """What the RAG's generation gave. A RAG that only retrieves: skipped."""
    post_retrieval: Outcome[RetrievalResult[Any]] | None = None
    """What stood after post-retrieval; None when the run has no such stage."""
    validation: Outcome[Validation] | None = None
    """The verdict on what generation was given; None when the run has no such stage."""

    @property
    def context(self) -> Outcome[RetrievalResult[Any]]:
        """What generation was given: post-retrieval's outcome, or else retrieval's."""
        return self.retrieval if self.post_retrieval is None else self.post_retrieval
