"""Cases: what a RAG is asked, and what is known about the right answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """A verbatim span that supports the reference answer."""

    text: str
    """The span, exactly as it stands in its source."""
    document_id: str | None = None
    """The document or chunk that it stands in, where that is known."""
    start: int | None = None
    """Offset of the span in that document's text."""
    end: int | None = None
    """Offset behind the span in that document's text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One question with everything that is known about its right answer.

    None always means "not known". An empty tuple means "known to be none": a case with
    ``reference_context_ids=()`` says that nothing in the corpus answers the question.
    """

    id: str
    """Unique within its dataset."""
    query: str
    """What the RAG is asked."""
    reference: str | None = None
    """The right answer."""
    alternative_references: tuple[str, ...] = ()
    """Other answers that are as right as ``reference``."""
    reference_contexts: tuple[str, ...] | None = None
    """Texts that hold the answer."""
    reference_context_ids: tuple[str, ...] | None = None
    """Ids of the chunks or documents that hold the answer."""
    grades: Mapping[str, int] | None = None
    """Graded relevance by id, as in TREC qrels; 0 means judged and not relevant."""
    evidence: tuple[Evidence, ...] = ()
    """Verbatim spans that support the answer."""
    answerable: bool | None = None
    """Whether the corpus holds an answer."""
    cluster: str | None = None
    """What the case shares with others (document, conversation, template): cases of one cluster
    are not independent observations."""
    tags: tuple[str, ...] = ()
    """Labels that reports slice by."""
    language: str | None = None
    """BCP 47 code of the query's language."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields that ragbench does not know, kept as they came."""

    @property
    def references(self) -> tuple[str, ...]:
        """Every right answer, the main one first; empty when none is known."""
        if self.reference is None:
            return self.alternative_references
        return (self.reference, *self.alternative_references)

    @property
    def needs_all(self) -> bool:
        """Whether it takes every gold context to answer: ``needs: all`` in its record."""
        return self.metadata.get("needs") == "all"

    @property
    def judgements(self) -> Mapping[str, int] | None:
        """Relevance by id: ``grades``, else 1 for each reference id; None when neither is known."""
        if self.grades is not None:
            return self.grades
        if self.reference_context_ids is not None:
            return dict.fromkeys(self.reference_context_ids, 1)
        return None
