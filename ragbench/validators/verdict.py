"""From probabilities to a verdict: rule, evidence, conflicts, sentences.

Only sentences that speak of the same thing can contradict each other: they share most of their
words, or each holds nearly all that the query asks about. Two that say the same but for a name
contradict each other in it. What differs between them is reported, never resolved.

- A chunk's probability is that it holds the answer; the best chunk's is that of the answer.
- The answer is present from the probability ``present`` on: chosen for a precision of 98 %.
  ``relevant`` lies below, and what lies between is Partial.
- A chunk is relevant from ``relevant`` on where the answer is not present: it is the best there is.
  Where the answer is present, only chunks that reach ``present`` themselves are: what is less
  certain beside them is on the topic, and nearly never an answer.
- What speaks against a chunk (`ragbench.validators.objections`) keeps it in the middle of both.
- Where a second opinion was asked of a chunk on the topic, the lower of both probabilities counts,
  and it stays relevant: a near miss is Partial.
- The retrieval quality is Good when the answer is present, Partial when it is not and a chunk is
  relevant all the same, Poor when no chunk is relevant.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from ragbench.core.chunk import Chunk
from ragbench.core.validation import Conflict, EvidenceQuote, RetrievalQuality, Verdict
from ragbench.errors import ConfigError
from ragbench.text.question import AnswerType, asked_type, parse_question, said_as_clause
from ragbench.text.sentences import Span, split_sentences
from ragbench.text.tokens import normalise, tokenise
from ragbench.validators.inspect import InspectedChunks
from ragbench.validators.objections import Objection

_ALIKE = 0.5
"""Share of common words from which on two statements speak of the same thing."""
_COVERED = 0.75
"""Share of the query's words that a statement holds that answers it."""
_SAME = 0.6
"""Share of all words of two statements that are common, from which on they say the same."""
_NAME = re.compile(r"\b[A-ZÀ-ÖØ-Þ][\w'’.-]*")
_DATE = re.compile(
    r"\b(?:1\d{3}|20\d\d)\b"
    r"|\b(?:january|february|march|april|june|july|august|september|october|november|december)\b"
    r"|\b\d{4}-\d\d-\d\d\b"
)
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*(?:\s?%)?(?![\w])")
_NEGATION = re.compile(
    r"\b(?:not|no|never|neither|nor|cannot|without|\w+n't|nicht|kein\w*|nie|ne|pas|jamais|nunca|não)\b"
    r"|n['’]t\b|不|没|未|ない|ません"
)


@dataclass(frozen=True, slots=True)
class _Said:
    """A sentence."""

    words: frozenset[str]
    telling: Mapping[str, Mapping[str, str]]
    """By kind, the words that may be the answer, each as it is written: names (with a capital) and
    numbers that do not stand in the query."""


@dataclass(frozen=True, slots=True)
class _Statement:
    evidence: EvidenceQuote
    words: frozenset[str]
    """Its words without numbers and negations."""
    dates: frozenset[str]
    numbers: frozenset[str]
    said: tuple[_Said, ...]
    """Sentence by sentence."""
    negated: bool
    covers: bool
    """Whether it holds nearly all that the query asks about."""


def find_conflicts(query: str, evidence: Sequence[EvidenceQuote]) -> tuple[Conflict, ...]:
    """Contradictions between pieces of evidence from different chunks."""
    asked = frozenset(parse_question(query).tokens)
    kind = asked_type(query)
    stated = [_statement(one, asked) for one in evidence]
    found = [
        conflict
        for one, other in combinations(stated, 2)
        if one.evidence.chunk_id != other.evidence.chunk_id
        for conflict in [_between(one, other, kind)]
        if conflict is not None
    ]
    return tuple(found)


def _statement(evidence: EvidenceQuote, asked: frozenset[str]) -> _Statement:
    text = normalise(evidence.text)
    tokens = frozenset(tokenise(evidence.text))
    dates = frozenset(_DATE.findall(text)) - asked
    numbers = frozenset(one.replace(",", "") for one in _NUMBER.findall(text)) - dates - asked
    return _Statement(
        evidence=evidence,
        words=frozenset(token for token in tokens if not token[0].isdigit()),
        dates=dates,
        numbers=numbers,
        said=tuple(
            _said(evidence.text[slice(*one)], asked) for one in split_sentences(evidence.text)
        ),
        negated=_NEGATION.search(text) is not None,
        covers=bool(asked) and len(asked & tokens) >= _COVERED * len(asked),
    )


def _said(sentence: str, asked: frozenset[str]) -> _Said:
    words = tokenise(sentence)
    names = [(token, name) for name in _NAME.findall(sentence) for token in tokenise(name)]
    return _Said(
        words=frozenset(words),
        telling={
            "name": {one: name.rstrip(".") for one, name in names if one not in asked},
            "number": {one: one for one in words if one[0].isdigit() and one not in asked},
        },
    )


def _between_sentences(one: _Said, other: _Said) -> tuple[str, str] | None:
    """Kind and detail where two sentences say the same but for names alone, or numbers alone."""
    first, second = one.words - other.words, other.words - one.words
    same = len(one.words & other.words) >= _SAME * len(one.words | other.words)
    if not (same and first and second):
        return None
    for kind in one.telling:
        mine, theirs = one.telling[kind], other.telling[kind]
        if first <= mine.keys() and second <= theirs.keys():
            said = " ".join(word for token, word in mine.items() if token in first)
            against = " ".join(word for token, word in theirs.items() if token in second)
            return kind, f"{said} against {against}"
    return None


def _between(one: _Statement, other: _Statement, kind: AnswerType) -> Conflict | None:
    common = len(one.words & other.words) / max(1, min(len(one.words), len(other.words)))
    alike = common >= _ALIKE
    answers = one.covers and other.covers
    if _differ(one.dates, other.dates) and (alike or (answers and kind is AnswerType.DATE)):
        return _conflict("date", one, other, _against(one.dates, other.dates))
    if _differ(one.numbers, other.numbers) and (alike or (answers and kind is AnswerType.NUMBER)):
        return _conflict("number", one, other, _against(one.numbers, other.numbers))
    sentences = (_between_sentences(a, b) for a, b in product(one.said, other.said))
    if (found := next(filter(None, sentences), None)) is not None:
        return _conflict(found[0], one, other, found[1])
    if one.negated != other.negated and alike and answers:
        says, denies = (other, one) if one.negated else (one, other)
        detail = f"{says.evidence.chunk_id} says what {denies.evidence.chunk_id} denies"
        return _conflict("negation", one, other, detail)
    return None


def _differ(one: frozenset[str], other: frozenset[str]) -> bool:
    return bool(one) and bool(other) and one.isdisjoint(other)


def _against(one: frozenset[str], other: frozenset[str]) -> str:
    return f"{', '.join(sorted(one))} against {', '.join(sorted(other))}"


def _conflict(kind: str, one: _Statement, other: _Statement, detail: str) -> Conflict:
    return Conflict(kind=kind, first=one.evidence, second=other.evidence, detail=detail)


def best_sentences(
    sentences: Sequence[Span], scores: Sequence[float], *, most: int = 2, share: float = 0.85
) -> tuple[Span, ...]:
    """The best sentence and those that come near it; neighbours become one span."""
    # Sorting keeps the order of equals: the earlier sentence wins.
    ranked = sorted(range(len(sentences)), key=lambda at: -scores[at])[:most]
    if not ranked:
        return ()
    floor = share * scores[ranked[0]]
    kept = sorted(at for at in ranked if at == ranked[0] or scores[at] >= floor)
    spans: list[Span] = []
    for at, before in zip(kept, [None, *kept], strict=False):
        if before is not None and at == before + 1:
            spans[-1] = Span(spans[-1].start, sentences[at].end)
        else:
            spans.append(sentences[at])
    return tuple(spans)


NOTHING_RELEVANT = "No relevant information found in retrieved data."
"""What the specification demands, word for word, when no chunk is relevant (FR-013)."""


def message_for(
    quality: RetrievalQuality, relevant: Sequence[str], lacking: Sequence[str] = ()
) -> str:
    if not relevant:
        return NOTHING_RELEVANT
    named = ", ".join(relevant[:5]) + (", ..." if len(relevant) > 5 else "")
    chunks = f"{len(relevant)} relevant {'chunk' if len(relevant) == 1 else 'chunks'} ({named})"
    if quality is RetrievalQuality.GOOD:
        return f"The answer is in the retrieved data: {chunks}."
    missing = f" Not stated for certain: {'; '.join(lacking)}." if lacking else ""
    return f"On topic, and no certain answer: {chunks}.{missing}"


def not_stated(part: str, relevant: Sequence[Chunk]) -> str:
    """What of a question the chunks leave open, in a few words."""
    if (clause := said_as_clause(part)) is not None:
        return clause
    said = frozenset(token for chunk in relevant for token in tokenise(chunk.text))
    missing = [token for token in parse_question(part).tokens if token not in said]
    return ", ".join(f"'{one}'" for one in missing) if missing else f"'{part.strip()}'"


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
        if not (0 < self.relevant < 1 and 0 < self.present < 1):
            raise ConfigError(
                f"thresholds must lie between 0 and 1, not {self.relevant:g} and {self.present:g}"
            )
        if self.relevant > self.present:
            raise ConfigError(
                f"a chunk must be relevant (from {self.relevant:g}) before it is an answer (from "
                f"{self.present:g}): set both, relevant at most as high as present"
            )

    @property
    def middle(self) -> float:
        """The middle of the two, by odds: at most so probable is what something speaks against."""
        return logistic((logit(self.relevant) + logit(self.present)) / 2)


def logistic(logit: float) -> float:
    """1 / (1 + exp(-logit)), without overflow."""
    if logit >= 0:
        return 1 / (1 + math.exp(-logit))
    return math.exp(logit) / (1 + math.exp(logit))


def logit(probability: float) -> float:
    """ln(p / (1 - p)), for a probability in (0, 1)."""
    return math.log(probability / (1 - probability))


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
    objection: Objection | None = None
    """What speaks against an answer there."""
    answered: float | None = None
    """That it answers just this question, in [0, 1], where a second opinion was asked; None where
    the probability says all."""


def decide(
    query: str,
    intake: InspectedChunks,
    findings: Sequence[Finding],
    *,
    answer_probability: float,
    thresholds: Thresholds,
    validator: str,
    lacking: Sequence[str] = (),
    reasons: Sequence[str] = (),
    warnings: Sequence[str] = (),
    details: Mapping[str, float] | None = None,
) -> Verdict:
    """The verdict that probabilities come to.

    Args:
        answer_probability: that the answer is present, in [0, 1].
    """
    # Sorting keeps the order of equals: the retriever's.
    ranked = sorted(findings, key=lambda one: -one.probability)
    present = answer_probability >= thresholds.present and bool(ranked)
    relevant = _relevant(ranked, thresholds, present=present)
    quality = _quality(present, relevant)
    evidence = tuple(
        quote(one.chunk, span) for one in relevant[:_QUOTED_CHUNKS] for span in one.spans
    )
    named = tuple(one.chunk.id for one in relevant)
    told = [*reasons, _about_answer(answer_probability, thresholds.present, present)]
    told += [text for one in relevant[:_QUOTED_CHUNKS] for text in _about_chunk(one)]
    open_questions = [not_stated(part, [one.chunk for one in relevant]) for part in lacking]
    return Verdict(
        query_id="",
        relevant_chunk_ids=named,
        relevance={one.chunk.id: round(one.probability, 4) for one in findings},
        answer_present=present,
        answer_probability=round(answer_probability, 4),
        evidence=evidence,
        retrieval_quality=quality,
        message=message_for(quality, named, open_questions),
        validator=validator,
        reasons=tuple(told),
        warnings=(*intake.warnings, *warnings),
        inspection=intake.found,
        conflicts=find_conflicts(query, evidence),
        details=dict(details or {}),
    )


def _relevant(ranked: Sequence[Finding], thresholds: Thresholds, *, present: bool) -> list[Finding]:
    """The relevant ones, the best first; where the answer is present there is at least one."""
    for floor in (thresholds.present, thresholds.relevant) if present else (thresholds.relevant,):
        found = [one for one in ranked if one.probability >= floor]
        if found:
            return found
    return [*ranked[:1]] if present else []


def _about_chunk(finding: Finding) -> list[str]:
    told = [finding.reason] if finding.reason else []
    if finding.objection is not None:
        told.append(f"no certain answer: {finding.objection.text}")
    return [f"{finding.chunk.id}: {one}" for one in told]


def quote(chunk: Chunk, span: Span) -> EvidenceQuote:
    return EvidenceQuote(
        chunk_id=chunk.id, start=span.start, end=span.end, text=chunk.text[span.start : span.end]
    )


def _quality(present: bool, relevant: Sequence[Finding]) -> RetrievalQuality:
    if present:
        return RetrievalQuality.GOOD
    return RetrievalQuality.PARTIAL if relevant else RetrievalQuality.POOR


def _about_answer(probability: float, threshold: float, present: bool) -> str:
    side = "reaches" if present else "stays below"
    return f"the probability of an answer, {probability:.2f}, {side} {threshold:.2f}"
