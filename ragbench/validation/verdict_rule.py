"""From probabilities to a verdict: one rule for all validators.

- A chunk is relevant from the probability ``relevant`` on.
- The answer is present from the probability ``present`` on: chosen for a precision of 98 %.
- The retrieval quality is Good when the answer is present, Partial when it is not and a chunk is
  relevant all the same, Poor when no chunk is relevant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragbench.errors import ConfigError
from ragbench.records.corpus import Chunk
from ragbench.records.validation import Evidence, RetrievalQuality, Validation
from ragbench.text.sentences import Span
from ragbench.validation.conflicts import find_conflicts
from ragbench.validation.intake import Intake
from ragbench.validation.wording import message_for

__all__ = ["Finding", "Thresholds", "decide", "quote"]

_QUOTED_CHUNKS = 5
"""Evidence is quoted from so many chunks at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Thresholds:
    """From which probabilities on something is said."""

    relevant: float
    """Of a chunk to be relevant, in (0, 1)."""
    present: float
    """Of the answer to be present, in (0, 1)."""

    def __post_init__(self) -> None:
        """Refuses what is no probability: everything or nothing would pass."""
        if not (0 < self.relevant < 1 and 0 < self.present < 1):
            raise ConfigError(
                f"thresholds must lie between 0 and 1, not {self.relevant:g} and {self.present:g}"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """What a validator found in one chunk."""

    chunk: Chunk
    probability: float
    """That it holds an answer, in [0, 1]."""
    spans: Sequence[Span]
    """Where the answer most probably stands, in reading order; slices of the chunk's text."""
    reason: str = ""
    """Why, in a sentence."""


def decide(
    query: str,
    intake: Intake,
    findings: Sequence[Finding],
    *,
    answer_probability: float,
    thresholds: Thresholds,
    validator: str,
    reasons: Sequence[str] = (),
    warnings: Sequence[str] = (),
    details: Mapping[str, float] | None = None,
) -> Validation:
    """The verdict that probabilities come to.

    Args:
        query: the question.
        intake: the chunks as they were taken in.
        findings: one a chunk, in the order of the chunks.
        answer_probability: that the answer is present, in [0, 1].
        thresholds: from which probabilities on something is said.
        validator: who says so.
        reasons: what else the verdict rests on.
        warnings: what else is to be known of the input.
        details: counts by name.
    """
    # Sorting keeps the order of equals: the retriever's.
    ranked = sorted(findings, key=lambda one: -one.probability)
    relevant = [one for one in ranked if one.probability >= thresholds.relevant]
    present = answer_probability >= thresholds.present and bool(ranked)
    if present and not relevant:
        relevant = ranked[:1]
    quality = _quality(present, relevant)
    evidence = tuple(
        quote(one.chunk, span) for one in relevant[:_QUOTED_CHUNKS] for span in one.spans
    )
    named = tuple(one.chunk.id for one in relevant)
    told = [*reasons, _about_answer(answer_probability, thresholds.present, present)]
    told += [f"{one.chunk.id}: {one.reason}" for one in relevant[:_QUOTED_CHUNKS] if one.reason]
    return Validation(
        query_id="",
        relevant_chunk_ids=named,
        relevance={one.chunk.id: round(one.probability, 4) for one in findings},
        answer_present=present,
        answer_probability=round(answer_probability, 4),
        evidence=evidence,
        retrieval_quality=quality,
        message=message_for(quality, named),
        validator=validator,
        reasons=tuple(told),
        warnings=(*intake.warnings, *warnings),
        conflicts=find_conflicts(query, evidence),
        details=dict(details or {}),
    )


def quote(chunk: Chunk, span: Span) -> Evidence:
    """A stretch of a chunk, verbatim."""
    return Evidence(
        chunk_id=chunk.id, start=span.start, end=span.end, text=chunk.text[span.start : span.end]
    )


def _quality(present: bool, relevant: Sequence[Finding]) -> RetrievalQuality:
    if present:
        return RetrievalQuality.GOOD
    return RetrievalQuality.PARTIAL if relevant else RetrievalQuality.POOR


def _about_answer(probability: float, threshold: float, present: bool) -> str:
    side = "reaches" if present else "stays below"
    return f"the probability of an answer, {probability:.2f}, {side} {threshold:.2f}"
