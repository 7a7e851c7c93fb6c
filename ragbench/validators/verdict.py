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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product
from typing import NamedTuple

from ragbench.core.chunk import Chunk
from ragbench.core.validation import Conflict, EvidenceQuote, RetrievalQuality, Verdict
from ragbench.errors import ConfigError
from ragbench.text.question import asked_type, parse_question, said_as_clause
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


class _Said(NamedTuple):
    words: frozenset[str]
    distinct: Mapping[str, Mapping[str, str]]
    """By kind, the words that may be the answer, each as it is written: names (with a capital) and
    numbers that do not stand in the query."""


class _Statement(NamedTuple):
    evidence: EvidenceQuote
    words: frozenset[str]
    """Its words without numbers and negations."""
    dates: frozenset[str]
    numbers: frozenset[str]
    said: Sequence[_Said]
    negated: bool
    covers: bool
    """Whether it holds nearly all that the query asks about."""


def find_conflicts(query: str, evidence: Sequence[EvidenceQuote]) -> tuple[Conflict, ...]:
    asked = frozenset(parse_question(query).tokens)
    kind = asked_type(query)
    stated = [_statement(one, asked) for one in evidence]
    conflicts: list[Conflict] = []
    for one, other in combinations(stated, 2):
        first, second = one.evidence, other.evidence
        differing = () if first.chunk_id == second.chunk_id else _differences(one, other, kind)
        for found, detail in islice(differing, 1):
            conflicts.append(Conflict(kind=found, first=first, second=second, detail=detail))
    return tuple(conflicts)


def _statement(evidence: EvidenceQuote, asked: frozenset[str]) -> _Statement:
    text = normalise(evidence.text)
    tokens = frozenset(tokenise(evidence.text))
    dates = frozenset(_DATE.findall(text)) - asked
    return _Statement(
        evidence=evidence,
        words=frozenset(token for token in tokens if not token[0].isdigit()),
        dates=dates,
        numbers=frozenset(one.replace(",", "") for one in _NUMBER.findall(text)) - dates - asked,
        said=[_said(evidence.text[slice(*one)], asked) for one in split_sentences(evidence.text)],
        negated=_NEGATION.search(text) is not None,
        covers=bool(asked) and len(asked & tokens) >= _COVERED * len(asked),
    )


def _said(sentence: str, asked: frozenset[str]) -> _Said:
    words = tokenise(sentence)
    names = [(token, name) for name in _NAME.findall(sentence) for token in tokenise(name)]
    return _Said(
        frozenset(words),
        {
            "name": {one: name.rstrip(".") for one, name in names if one not in asked},
            "number": {one: one for one in words if one[0].isdigit() and one not in asked},
        },
    )


def _differences(one: _Statement, other: _Statement, kind: str) -> Iterator[tuple[str, str]]:
    common = len(one.words & other.words) / max(1, min(len(one.words), len(other.words)))
    alike, answer = common >= _ALIKE, one.covers and other.covers
    values = (("date", one.dates, other.dates), ("number", one.numbers, other.numbers))
    for name, mine, theirs in values:
        differ = mine and theirs and mine.isdisjoint(theirs)
        if differ and (alike or (answer and kind == name)):
            yield name, f"{', '.join(sorted(mine))} against {', '.join(sorted(theirs))}"
    for first, second in product(one.said, other.said):
        yield from _between_sentences(first, second)
    if one.negated != other.negated and alike and answer:
        says, denies = (other, one) if one.negated else (one, other)
        yield "negation", f"{says.evidence.chunk_id} says what {denies.evidence.chunk_id} denies"


def _between_sentences(one: _Said, other: _Said) -> Iterator[tuple[str, str]]:
    """Where two sentences say the same but for names alone, or numbers alone."""
    first, second = one.words - other.words, other.words - one.words
    same = len(one.words & other.words) >= _SAME * len(one.words | other.words)
    if not (same and first and second):
        return
    for kind, mine in one.distinct.items():
        theirs = other.distinct[kind]
        if first <= mine.keys() and second <= theirs.keys():
            said = " ".join(word for token, word in mine.items() if token in first)
            against = " ".join(word for token, word in theirs.items() if token in second)
            yield kind, f"{said} against {against}"


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
    relevant: float
    present: float

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
    chunk: Chunk
    probability: float
    """That it holds an answer, in [0, 1]."""
    spans: Sequence[Span]
    """Where the answer most probably stands, in reading order; slices of the chunk's text."""
    reason: str = ""
    objection: Objection | None = None
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
    # Sorting keeps the order of equals: the retriever's.
    ranked = sorted(findings, key=lambda one: -one.probability)
    present = answer_probability >= thresholds.present and bool(ranked)
    relevant = _relevant(ranked, thresholds, present=present)
    quality = RetrievalQuality.PARTIAL if relevant else RetrievalQuality.POOR
    if present:
        quality = RetrievalQuality.GOOD
    evidence = tuple(
        EvidenceQuote(chunk_id=one.chunk.id, start=a, end=b, text=one.chunk.text[a:b])
        for one in relevant[:_QUOTED_CHUNKS]
        for a, b in one.spans
    )
    named = tuple(one.chunk.id for one in relevant)
    side = "reaches" if present else "stays below"
    about = (
        f"the probability of an answer, {answer_probability:.2f}, {side} {thresholds.present:.2f}"
    )
    about_chunks = [text for one in relevant[:_QUOTED_CHUNKS] for text in _about_chunk(one)]
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
        reasons=(*reasons, about, *about_chunks),
        warnings=(*(one.message for one in intake.found), *warnings),
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


def _about_chunk(finding: Finding) -> Iterator[str]:
    if finding.reason:
        yield f"{finding.chunk.id}: {finding.reason}"
    if finding.objection is not None:
        yield f"{finding.chunk.id}: no certain answer: {finding.objection.text}"
