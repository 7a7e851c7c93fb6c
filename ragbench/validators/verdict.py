"""From probabilities to a verdict: the questions in a query, rule, evidence, conflicts.

Only sentences that speak of the same thing can contradict each other: they share most of their
words, or each holds nearly all that the query asks about. Two that say the same but for a name
contradict each other in it. What differs between them is reported, never resolved.

- A chunk's probability is that it holds the answer; the best chunk's is that of the answer.
- The answer is present from the probability ``present`` on: chosen for a precision of 98 %.
  ``relevant`` lies below, and what lies between is Partial.
- A chunk is relevant from ``relevant`` on where the answer is not present: it is the best there is.
  Where the answer is present, only chunks that reach ``present`` themselves are: what is less
  certain beside them is on the topic, and nearly never an answer.
- Where a second opinion was asked of a chunk on the topic, the lower of both probabilities counts,
  and it stays relevant: a near miss is Partial. So is a quote that only repeats the question.
- A query that asks several things is present only where each of them is: the least certain counts.
- The retrieval quality is Good when the answer is present, Partial when it is not and a chunk is
  relevant all the same, Poor when no chunk is relevant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice, product
from typing import NamedTuple

from ragbench.core.chunk import Chunk
from ragbench.core.validation import Conflict, EvidenceQuote, RetrievalQuality, Verdict
from ragbench.text.question import asked_type, parse_question, said_as_clause
from ragbench.text.sentences import Span, split_sentences
from ragbench.text.tokens import normalise, tokenise
from ragbench.validators.calibration import DecisionRule, Thresholds
from ragbench.validators.inspect import InspectedChunks

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
_QUOTED_CHUNKS = 5
"""Evidence is quoted from so many chunks at most."""
_WH = r"(?:who|whom|whose|what|when|where|why|which|how)\b"
_ASKS = re.compile(rf"\s*(?:(?:in|on|at|for|to|by|from|with|of|about) )?{_WH}", re.IGNORECASE)
_JOINT = re.compile(
    rf"\?\s+(?={_WH}|(?:is|are|was|were|do|does|did|has|have|can|could|will)\b)"
    rf"|[,;]?\s+and\s+(?={_WH})",
    re.IGNORECASE,
)
NAMED = re.compile(r"(?<!^)\b[A-ZÀ-ÖØ-Þ][\w'’.-]*|\b[\w.-]{0,64}\d[\w.-]*")
"""Words that are written like names, and numbers."""
_FEWEST_WORDS = 3
_MOST_PARTS = 8
"""A query that asks more things is read as one: each part costs as much as a query."""


def split_query(query: str) -> tuple[str, ...]:
    """The questions in a query; each keeps the names that only another one says.

    A query is cut where a question begins behind a question mark, and before a question word that
    follows "and", where each piece has at least three words.

    Example:
        >>> split_query("Who built the X200 and when was it sold?")
        ('Who built the X200', 'when was it sold? (X200)')
    """
    pieces = _JOINT.split(" ".join(query.split()))
    if (
        not 2 <= len(pieces) <= _MOST_PARTS
        or min(len(one.split()) for one in pieces) < _FEWEST_WORDS
    ):
        return (query,)
    names = dict.fromkeys(name for piece in pieces for name in NAMED.findall(piece))
    lacking = [" ".join(name for name in names if name not in piece) for piece in pieces]
    named = zip(pieces, lacking, strict=True)
    return tuple(f"{piece} ({lacks})" if lacks else piece for piece, lacks in named)


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    chunk: Chunk
    probability: float
    """That it holds an answer, in [0, 1]."""
    spans: Sequence[Span]
    """Where the answer most probably stands, in reading order; slices of the chunk's text."""
    reason: str = ""
    answered: float | None = None
    """That it answers just this question, in [0, 1], where a second opinion was asked; None where
    the probability says all."""
    doubt: str = ""
    """Why it is no certain answer, though it looks like one."""


class Part(NamedTuple):
    """One of the questions in a query."""

    text: str
    findings: Sequence[Finding]
    """One a chunk."""


def decide(
    query: str,
    intake: InspectedChunks,
    parts: Sequence[Part],
    rule: DecisionRule,
    *,
    validator: str,
    answer_probability: float | None = None,
    reasons: Sequence[str] = (),
    warnings: Sequence[str] = (),
    details: Mapping[str, float] | None = None,
) -> Verdict:
    """The verdict on what was found for each question of a query.

    ``answer_probability`` is that of the answer where a validator says so itself; None for that of
    the best chunk, and of the least certain part.
    """
    limits = rule.thresholds
    settled = [Part(text, [_settled(text, one, rule) for one in found]) for text, found in parts]
    certain = [max((one.probability for one in found), default=0.0) for _, found in settled]
    probability = min(certain)
    if answer_probability is not None:
        probability = rule.on_scale(answer_probability)
    findings = settled[0].findings
    if len(parts) > 1:
        findings = [*map(_merged, zip(*(found for _, found in settled), strict=True))]
        told = zip(settled, certain, strict=True)
        about = [f"part '{one.text}': an answer has the probability {p:.2f}" for one, p in told]
        reasons = [*about, *reasons]
    present = probability >= limits.present and bool(findings)
    relevant = _relevant(findings, limits, present=present)
    evidence = tuple(
        EvidenceQuote(chunk_id=one.chunk.id, start=a, end=b, text=one.chunk.text[a:b])
        for one in relevant[:_QUOTED_CHUNKS]
        for a, b in one.spans
    )
    lacking = [one.text for one, p in zip(settled, certain, strict=True) if p < limits.present]
    side = "reaches" if present else "stays below"
    about_chunks = [
        f"{one.chunk.id}: {said}"
        for one in relevant[:_QUOTED_CHUNKS]
        for said in (one.reason, one.doubt and f"no certain answer: {one.doubt}")
        if said
    ]
    quality = RetrievalQuality.PARTIAL if relevant else RetrievalQuality.POOR
    return Verdict(
        query_id="",
        relevant_chunk_ids=tuple(one.chunk.id for one in relevant),
        relevance={one.chunk.id: round(one.probability, 4) for one in findings},
        answer_present=present,
        answer_probability=round(probability, 4),
        evidence=evidence,
        retrieval_quality=RetrievalQuality.GOOD if present else quality,
        message=_message(relevant, [] if present else lacking or [query]),
        validator=validator,
        reasons=(
            *reasons,
            f"the probability of an answer, {probability:.2f}, {side} {limits.present:.2f}",
            *about_chunks,
        ),
        warnings=(*(one.message for one in intake.found), *warnings),
        inspection=intake.found,
        conflicts=find_conflicts(query, evidence) if len(relevant) > 1 else (),
        details=dict(details or {}),
    )


def _settled(question: str, finding: Finding, rule: DecisionRule) -> Finding:
    """The finding on the scale of the labels, no higher than what speaks against it allows."""
    limits, doubt = rule.thresholds, ""
    probability = rule.on_scale(finding.probability)
    if finding.answered is not None and probability >= limits.relevant:
        second = max(limits.relevant, min(probability, rule.on_scale(finding.answered)))
        if second < limits.present <= probability:
            doubt = "it is on the topic, and answers another question"
        probability = second
    # "The shop is open on Sunday" has nothing new, and answers "Is it open?".
    if probability >= limits.present and finding.spans and _ASKS.match(question):
        quoted = " ".join(finding.chunk.text[slice(*one)] for one in finding.spans)
        if set(parse_question(quoted).tokens) <= set(tokenise(question)):
            probability, doubt = limits.middle, "it only repeats the question"
    return replace(finding, probability=probability, doubt=doubt)


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


def _relevant(
    findings: Sequence[Finding], limits: Thresholds, *, present: bool
) -> Sequence[Finding]:
    """The relevant ones, the best first; where the answer is present there is at least one."""
    # Sorting keeps the order of equals: the retriever's.
    ranked = sorted(findings, key=lambda one: -one.probability)
    for floor in (limits.present, limits.relevant) if present else (limits.relevant,):
        found = [one for one in ranked if one.probability >= floor]
        if found:
            return found
    return ranked[:1] if present else []


def _message(relevant: Sequence[Finding], lacking: Sequence[str]) -> str:
    """The verdict in a sentence; ``lacking`` are the questions without a certain answer."""
    if not relevant:
        return NOTHING_RELEVANT
    ids = [one.chunk.id for one in relevant]
    named = ", ".join(ids[:5]) + (", ..." if len(ids) > 5 else "")
    chunks = f"{len(ids)} relevant {'chunk' if len(ids) == 1 else 'chunks'} ({named})"
    if not lacking:
        return f"The answer is in the retrieved data: {chunks}."
    said = frozenset(token for one in relevant for token in tokenise(one.chunk.text))
    open_questions: list[str] = []
    for part in lacking:
        missing = [f"'{one}'" for one in parse_question(part).tokens if one not in said]
        clause = said_as_clause(part) or ", ".join(missing) or f"'{part.strip()}'"
        open_questions.append(clause)
    missing_text = "; ".join(open_questions)
    return f"On topic, and no certain answer: {chunks}. Not stated for certain: {missing_text}."
