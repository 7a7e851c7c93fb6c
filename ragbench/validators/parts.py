"""A query and its parts: what was found for each of the questions in it, and the verdict on all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ragbench.core.validation import Verdict
from ragbench.text.sentences import Span
from ragbench.text.tokens import tokenise
from ragbench.validators.calibration import DecisionRule
from ragbench.validators.inspect import InspectedChunks
from ragbench.validators.verdict import Finding, decide

_ASKS = (
    r"(?:who|whom|whose|what|when|where|why|which|how|does|do|did|is|are|was|were|can|could|has|have"
    r"|wer|was|wann|wo|warum|wie|welche[rsnm]?|quand|où|pourquoi|comment|combien|cuándo|dónde|cómo)"
)
_JOINT = re.compile(
    rf"\?\s+(?=\S)|[？]\s*(?=\S)|[,;]?\s+(?:and|und|et|y)\s+(?={_ASKS}\b)", re.IGNORECASE
)
NAME = re.compile(r"(?<!^)\b[A-ZÀ-ÖØ-Þ][\w'’.-]*|\b[\w.-]{0,64}\d[\w.-]*")
_ASKING = re.compile(rf"\b{_ASKS}\b", re.IGNORECASE)
_FEWEST_WORDS = 3
_MOST_PARTS = 8
"""A query that asks more things is read as one: each part costs as much as a query."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    text: str
    findings: Sequence[Finding]
    """One a chunk."""

    @property
    def probability(self) -> float:
        """That its answer is there: that of the best chunk, so that both are one number."""
        return max((one.probability for one in self.findings), default=0.0)


def split_query(query: str) -> tuple[str, ...]:
    """The questions in a query; each keeps the names that only another one says.

    A query is cut behind a question mark and before a question word that follows "and", and only
    where each piece asks something in at least three words and there are at most eight.

    Example:
        >>> split_query("Who built the X200 and when was it sold?")
        ('Who built the X200', 'when was it sold? (X200)')
    """
    text = " ".join(query.split())
    pieces = [piece.strip() for piece in _JOINT.split(text) if piece.strip()]
    asking = [
        piece for piece in pieces if _ASKING.search(piece) and len(piece.split()) >= _FEWEST_WORDS
    ]
    if not 2 <= len(pieces) <= _MOST_PARTS or asking != pieces:
        return (query,)
    names = list(dict.fromkeys(NAME.findall(query)))
    return tuple(_named(piece, names) for piece in pieces)


def _named(piece: str, names: Sequence[str]) -> str:
    said = set(tokenise(piece))
    missing = [name for name in names if said.isdisjoint(tokenise(name))]
    return f"{piece} ({' '.join(missing)})" if missing else piece


def _merged(findings: Sequence[Finding]) -> Finding:
    """What a chunk was found to hold for any part."""
    best = max(findings, key=lambda one: one.probability)
    near = [one for one in findings if one.probability >= best.probability / 2]
    spans: list[Span] = []
    for span in sorted({span for one in near for span in one.spans}):
        if spans and span.start < spans[-1].end:
            spans[-1] = Span(spans[-1].start, max(spans[-1].end, span.end))
        else:
            spans.append(span)
    return replace(best, spans=tuple(spans))


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredPool:
    """What a validator made of a pool, before calibration."""

    query: str
    intake: InspectedChunks
    parts: Sequence[Part]
    """One for each question in the query, at least one; each with a finding a chunk."""
    answer_probability: float | None = None
    """That the answer is present, where the validator says so itself; None for that of the best
    chunk, and of the least certain part."""
    reasons: Sequence[str] = ()
    warnings: Sequence[str] = ()
    details: Mapping[str, float] | None = None

    def verdict(self, limits: DecisionRule, validator: str) -> Verdict:
        parts = [
            replace(part, findings=[limits.applied(one) for one in part.findings])
            for part in self.parts
        ]
        probability = min(part.probability for part in parts)
        if self.answer_probability is not None:
            probability = limits.on_scale(self.answer_probability)
        lacking = [one.text for one in parts if one.probability < limits.thresholds.present]
        about = [
            f"part '{part.text}': an answer has the probability {part.probability:.2f}"
            for part in parts
            if len(parts) > 1
        ]
        return decide(
            self.query,
            self.intake,
            [*map(_merged, zip(*(part.findings for part in parts), strict=True))],
            answer_probability=probability,
            thresholds=limits.thresholds,
            validator=validator,
            lacking=lacking or [self.query],
            reasons=(*about, *self.reasons),
            warnings=self.warnings,
            details=self.details,
        )
