"""The validator by words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.core.chunk import Chunk
from ragbench.core.validation import Verdict
from ragbench.text.sentences import SENTENCES_VERSION, Span
from ragbench.text.tokens import TOKENISER_VERSION, tokenise
from ragbench.validators.calibration import (
    Absence,
    DecisionRule,
    ScoredPool,
    Weights,
    limits_for,
    logistic,
    shipped_rarity,
    shipped_weights,
)
from ragbench.validators.inspect import inspect_chunks
from ragbench.validators.lexical_features import LEXICAL_FEATURES, ScoredChunk, ask, read_in_windows
from ragbench.validators.verdict import Finding, best_sentences

__all__ = [
    "LexicalValidator",
    "Part",
    "merge_parts",
    "split_query",
]

_ASKS = (
    r"(?:who|whom|whose|what|when|where|why|which|how|does|do|did|is|are|was|were|can|could|has|have"
    r"|wer|was|wann|wo|warum|wie|welche[rsnm]?|quand|où|pourquoi|comment|combien|cuándo|dónde|cómo)"
)
_JOINT = re.compile(
    rf"\?\s+(?=\S)|[？]\s*(?=\S)|[,;]?\s+(?:and|und|et|y)\s+(?={_ASKS}\b)", re.IGNORECASE
)
_NAME = re.compile(r"(?<!^)\b[A-ZÀ-ÖØ-Þ][\w'’.-]*|\b[\w.-]{0,64}\d[\w.-]*")
_ASKING = re.compile(rf"\b{_ASKS}\b", re.IGNORECASE)
_FEWEST_WORDS = 3
_MOST_PARTS = 8
"""A query that asks more things is read as one: each part costs as much as a query."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """What was found for one of the questions in a query."""

    text: str
    findings: Sequence[Finding]
    """One a chunk."""
    answer_probability: float


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
    names = list(dict.fromkeys(_NAME.findall(query)))
    return tuple(_named(piece, names) for piece in pieces)


def merge_parts(parts: Sequence[Part]) -> tuple[list[Finding], float, list[str]]:
    """What the parts come to: findings, the probability of a whole answer, and reasons.

    A chunk counts for what it says of any part. The whole answer is there only when every part's
    is: its probability is that of the least certain part.
    """
    findings = [
        _merged([part.findings[place] for part in parts]) for place in range(len(parts[0].findings))
    ]
    lowest = min(part.answer_probability for part in parts)
    reasons = [
        f"part '{part.text}': an answer has the probability {part.answer_probability:.2f}"
        for part in parts
        if len(parts) > 1
    ]
    return findings, lowest, reasons


def _named(piece: str, names: Sequence[str]) -> str:
    said = set(tokenise(piece))
    missing = [name for name in names if said.isdisjoint(tokenise(name))]
    return f"{piece} ({' '.join(missing)})" if missing else piece


def _merged(findings: Sequence[Finding]) -> Finding:
    best = max(findings, key=lambda one: one.probability)
    near = [one for one in findings if one.probability >= best.probability / 2]
    spans = sorted({span for one in near for span in one.spans})
    return Finding(
        chunk=best.chunk,
        probability=best.probability,
        spans=_joined(spans),
        reason=best.reason,
    )


def _joined(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Overlapping spans as one."""
    found: list[Span] = []
    for span in spans:
        if found and span.start < found[-1].end:
            found[-1] = Span(found[-1].start, max(found[-1].end, span.end))
        else:
            found.append(span)
    return tuple(found)


@dataclass(frozen=True, kw_only=True, slots=True)
class LexicalValidator:
    """A logistic regression on what words tell of a chunk, and one on the whole pool.

    It cannot see an answer in other words than the question's, nor that a passage speaks of the
    right things without answering. docs/validators.md holds its figures.
    """

    calibration: str | None = None
    """A file that ``ragbench calibrate`` wrote; None for what was measured on public data."""
    relevant: float | None = None
    """Probability from which on a chunk is relevant; None for the measured one."""
    present: float | None = None
    """Probability from which on the answer is present; None for the measured one."""
    absence: Absence = "document-absent"
    """What the corpus holds when it lacks an answer: the measured threshold gives a Yes a precision
    of 98 % against that. ``"siblings"``, other passages of the right document, is stricter."""

    def __post_init__(self) -> None:
        """Refuses thresholds out of their range and files that cannot be read."""
        _ = self.limits

    @property
    def name(self) -> str:
        """``"lexical"``."""
        return "lexical"

    @property
    def identity(self) -> str:
        """Names the rules of the tokens and sentences, the weights and the limits."""
        versions = f"{TOKENISER_VERSION}.{SENTENCES_VERSION}"
        return f"lexical:{versions}:{self._weights.digest}:{self.limits.identity}"

    @property
    def limits(self) -> DecisionRule:
        """Its calibration and thresholds."""
        return limits_for(
            self.name,
            self._weights.thresholds(self.absence),
            calibration=self.calibration,
            relevant=self.relevant,
            present=self.present,
        )

    def validate(self, query: str, chunks: Sequence[Chunk]) -> Verdict:
        """Judges what was retrieved for one query; see `ragbench.validators.validator`."""
        intake = inspect_chunks(query, chunks)
        parts = [self._part(text, intake.chunks) for text in split_query(query)]
        findings, probability, reasons = merge_parts(parts)
        judgement = ScoredPool(
            query=query,
            intake=intake,
            findings=findings,
            answer_probability=probability,
            reasons=reasons,
        )
        return judgement.verdict(self.limits, self.name)

    def _part(self, query: str, chunks: Sequence[Chunk]) -> Part:
        asked = ask(query, shipped_rarity())
        scored = read_in_windows(asked, [chunk.text for chunk in chunks], self._weights.chunk)
        findings = [
            Finding(
                chunk=chunk,
                probability=logistic(one.logit),
                spans=best_sentences(one.sentences, one.scores),
                reason=_reason(one),
            )
            for chunk, one in zip(chunks, scored, strict=True)
        ]
        probability = self._weights.answer_probability([one.logit for one in scored])
        return Part(text=query, findings=findings, answer_probability=probability)

    @property
    def _weights(self) -> Weights:
        return shipped_weights("lexical", LEXICAL_FEATURES)


def _reason(scored: ScoredChunk) -> str:
    values = dict(zip(LEXICAL_FEATURES, scored.features, strict=True))
    told = f"two sentences hold {values['window_coverage']:.0%} of what the query asks about"
    if values["type_agrees"]:
        return f"{told}, and something of the kind asked for"
    return f"{told}, and nothing of the kind asked for" if values["type_disagrees"] else told
