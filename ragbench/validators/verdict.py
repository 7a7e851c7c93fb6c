"""From probabilities to a verdict: slots, the whole question and its parts, evidence, message.

- A chunk's probability is that it holds the answer; the best chunk's is that of the answer.
- The answer is present from the probability ``present`` on: chosen for a precision of 98 %, beside
  siblings of 94 %.
  ``relevant`` lies below, and what lies between is Partial: the answer is probably there.
- A chunk is relevant from ``relevant`` on where the answer is not present: it is the best there is.
  Where the answer is present, only chunks that reach ``present`` themselves are: what is less
  certain beside them is on the topic, and nearly never an answer.
- A near miss is on the topic and no answer: a slot of the question is unbound, it only repeats the
  question, or a second opinion, asked of what is on the topic, does not find it answered. Its
  probability is what that says; it stays relevant, so that the retrieval is Partial.
- A query is read whole. Where it asks several things and is answered, each of them must be stated
  somewhere; the probability is then that of what is stated least. Parts never make an answer.
- The retrieval quality is Good when the answer is present, Partial when it is not and a chunk is
  relevant all the same, Poor when no chunk is relevant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from ragbench.core.chunk import Chunk
from ragbench.core.record import Record, replace
from ragbench.core.validation import EvidenceQuote, RetrievalQuality, Verdict
from ragbench.text.question import parse_question
from ragbench.text.sentences import Span, split_sentences
from ragbench.text.tables import Patterns
from ragbench.text.tokens import tokenise
from ragbench.validators.calibration import DecisionRule, Thresholds
from ragbench.validators.conflicts import find_conflicts
from ragbench.validators.inspect import InspectedChunks
from ragbench.validators.slots import is_yes_or_no, unbound

NOTHING_RELEVANT = "No relevant information found in retrieved data."
"""What the specification demands, word for word, when no chunk is relevant (FR-013)."""
_QUOTED_CHUNKS = 5
"""Evidence is quoted from so many chunks at most."""
_WORDS = Patterns("ragbench.validators", "words", "question", re.IGNORECASE)
NAMED = re.compile(r"(?<!^)\b[A-ZÀ-ÖØ-Þ][\w'’.-]*|\b[\w.-]{0,64}\d[\w.-]*")
"""Words that are written like names, and numbers."""
_FEWEST_WORDS = 3
_MOST_PARTS = 8
"""A query that asks more things is read as one: each part costs as much as a query."""
_STATED = 0.5
"""A part is stated somewhere where that is at least as likely as not."""


@lru_cache(maxsize=1024)
def split_query(query: str) -> tuple[str, ...]:
    """The questions in a query; each keeps the names that only another one says, or the subject.

    A query is cut where a question begins behind a question mark, and before a question word that
    follows "and", where each piece is a question and has at least three words.

    Example:
        >>> split_query("Who built the X200 and when was it sold?")
        ('Who built the X200', 'when was it sold? (X200)')
    """
    asked = " ".join(query.split())
    both = _WORDS["attributes"].match(asked)
    if both:
        return tuple(f"{both[1]} {both[at]} {both[4]}" for at in (2, 3))
    pieces = _WORDS["joint"].split(asked)
    if (
        not 2 <= len(pieces) <= _MOST_PARTS
        or min(len(one.split()) for one in pieces) < _FEWEST_WORDS
        or not all(map(_WORDS["whole"].search, pieces))
    ):
        return (query,)
    names = [one for piece in pieces for one in NAMED.findall(piece) if one != "I"]
    content = parse_question(pieces[0]).tokens
    of_it = pieces[0].rpartition(" of ")[2].split()
    subject = [one for one in of_it if not set(tokenise(one)).isdisjoint(content)]
    told: list[str] = []
    for at, piece in enumerate(pieces):
        carried = names or (subject if at and _WORDS["points"].search(piece) else [])
        lacks = " ".join(one for one in dict.fromkeys(carried) if one not in piece)
        told.append(f"{piece} ({lacks})" if lacks else piece)
    return tuple(told)


class Finding(Record):
    chunk: Chunk
    probability: float
    """That it holds an answer, in [0, 1]."""
    spans: Sequence[Span] = ()
    """Where the answer most probably stands, in reading order; slices of the chunk's text."""
    beside: Sequence[Span] = ()
    """What else is quoted."""
    reason: str = ""
    answered: float | None = None
    """That it answers just this question, in [0, 1], where a second opinion was asked; None where
    the probability says all."""
    topic: float = 0.0
    """What the probability was before anything spoke against it; set by `settled`."""
    doubt: str = ""
    """Why it is no answer, though it looks like one."""


Ask = Callable[[str], Sequence[Finding]]
"""Gives a finding per chunk for a question."""
_NO_ANSWER = 0.05
"""At most so probable is an answer where a slot is unbound: of what the rules object to on labelled
sets so much holds one all the same (docs/measured/validators.md)."""
_OTHER = "it is on the topic, and answers another question"


def settled(question: str, finding: Finding, rule: DecisionRule) -> Finding:
    """The finding on the scale of the labels, no higher than what speaks against it allows."""
    limits = rule.thresholds
    topic = probability = rule.on_scale(finding.probability)
    if topic < limits.relevant:
        same = topic == finding.probability
        return finding if same else replace(finding, probability=topic)
    doubt = ""
    # "Smoking is forbidden" answers "Is smoking allowed?", and of several questions each is looked
    # at by itself: there it does not count that a text answers another one.
    opinion = None if is_yes_or_no(question) else finding.answered
    if opinion is not None and len(split_query(question)) == 1:
        probability = min(topic, rule.on_scale(opinion))
        # What it leaves below either threshold that the topic reaches is not "probably there".
        low = limits.present if topic >= limits.present else limits.relevant
        doubt = _OTHER if probability < low else ""
    text, spans = finding.chunk.text, finding.spans
    quoted, against = " ".join(text[slice(*one)] for one in spans), ""
    # "The shop is open on Sunday" has nothing new, and answers "Is it open?".
    if quoted and _WORDS["asks"].match(question) and not _new(question, quoted):
        # A reader that finds the text an answer has read a heading with what it heads.
        end = next((one.end for one in split_sentences(text) if one.end > spans[-1].end), 0)
        behind = text[spans[-1].end : end]
        if finding.answered is None or len(_new(question, behind)) < _SAYS:
            against = "it only repeats the question"
        else:
            spans, quoted = (*spans[:-1], Span(spans[-1].start, end)), quoted + behind
    against = unbound(question, text, quoted, rule.slots) or against
    if against:
        probability, doubt = min(probability, _NO_ANSWER), against
    return replace(finding, probability=probability, topic=topic, doubt=doubt, spans=spans)


_SAYS = 4
"""Words beside the question's from which on a sentence behind a heading is more than the next one
of a list."""


def _new(question: str, text: str) -> set[str]:
    """The words of a text that the question does not hold."""
    return {*parse_question(text).tokens}.difference(tokenise(question))


def decide(
    query: str,
    intake: InspectedChunks,
    ask: Ask,
    rule: DecisionRule,
    *,
    validator: str,
    answer_probability: float | None = None,
    reasons: Sequence[str] = (),
    warnings: Sequence[str] = (),
    details: Mapping[str, float] | None = None,
) -> Verdict:
    """The verdict on what is found for a query.

    ``answer_probability`` is that of the answer where a validator says so itself; None for that of
    the best chunk.
    """
    limits, settle = rule.thresholds, partial(settled, rule=rule)
    findings: Sequence[Finding] = [settle(query, one) for one in ask(query)]
    probability = max((one.probability for one in findings), default=0.0)
    parts: Sequence[_Part] = ()
    if answer_probability is not None:
        probability = rule.on_scale(answer_probability)
    elif probability >= limits.present and len(pieces := split_query(query)) > 1:
        parts = [_part(query, piece, ask, settle) for piece in pieces]
        findings = [_with_parts(one, parts, limits) for one in findings]
    lacking = [one for one in parts if one.probability < max(limits.relevant, _STATED)]
    probability = min([probability, *(one.probability for one in lacking)])
    present = probability >= limits.present and bool(findings)
    relevant = _relevant(findings, limits, present=present)
    evidence = tuple(
        EvidenceQuote(chunk_id=one.chunk.id, start=a, end=b, text=one.chunk.text[a:b])
        for one in relevant[:_QUOTED_CHUNKS]
        for a, b in _joined([*one.spans, *one.beside])
    )
    quality = RetrievalQuality.PARTIAL if relevant else RetrievalQuality.POOR
    told = "part '{}': an answer has the probability {:.2f}"
    about = [told.format(one.text, one.probability) for one in parts]
    return Verdict(
        query_id="",
        relevant_chunk_ids=tuple(one.chunk.id for one in relevant),
        relevance={one.chunk.id: round(one.probability, 4) for one in findings},
        answer_present=present,
        answer_probability=round(probability, 4),
        evidence=evidence,
        retrieval_quality=RetrievalQuality.GOOD if present else quality,
        message=_message(query, relevant, [one.text for one in lacking], present=present),
        validator=validator,
        reasons=(*about, *reasons, *_reasons(query, relevant, probability, limits)),
        warnings=(*(one.message for one in intake.found), *warnings),
        inspection=intake.found,
        conflicts=find_conflicts(query, evidence) if len(relevant) > 1 else (),
        details=dict(details or {}),
    )


class _Part(NamedTuple):
    """One of several questions, and where it is stated."""

    text: str
    findings: Sequence[Finding]
    probability: float


def _part(query: str, piece: str, ask: Ask, settle: Callable[[str, Finding], Finding]) -> _Part:
    carried = "" if piece in query else piece.rpartition(" (")[2]
    subject = set(tokenise(carried))
    found = [
        one
        for one in (settle(piece, one) for one in ask(piece))
        if 2 * len(subject.intersection(tokenise(one.chunk.text))) >= len(subject)
    ]
    return _Part(piece, found, max((one.probability for one in found), default=0.0))


def _with_parts(whole: Finding, parts: Sequence[_Part], limits: Thresholds) -> Finding:
    """What a chunk was found to hold, with what it states of the parts."""
    stated = [
        one
        for part in parts
        for one in part.findings
        if one.chunk is whole.chunk and one.probability >= limits.present
    ]
    best = max([whole, *stated], key=lambda finding: finding.probability)
    spans = [span for finding in (best, *stated) for span in finding.spans]
    return replace(best, spans=_joined(spans), topic=max(whole.topic, best.topic))


def _joined(spans: Sequence[Span]) -> tuple[Span, ...]:
    found: list[Span] = []
    for span in sorted(set(spans)):
        if found and span.start < found[-1].end:
            found[-1] = Span(found[-1].start, max(found[-1].end, span.end))
        else:
            found.append(span)
    return tuple(found)


def _relevant(
    findings: Sequence[Finding], limits: Thresholds, *, present: bool
) -> Sequence[Finding]:
    """The relevant ones, the best first; where the answer is present there is at least one."""
    # Sorting keeps the order of equals: the retriever's.
    ranked = sorted(findings, key=lambda one: (-one.probability, -one.topic))
    sure = [one for one in ranked if one.probability >= limits.present] if present else []
    near = [one for one in ranked if max(one.probability, one.topic) >= limits.relevant]
    return sure or near or (ranked[:1] if present else [])


def _message(
    query: str, relevant: Sequence[Finding], lacking: Sequence[str], *, present: bool
) -> str:
    """The verdict in a sentence; ``lacking`` are the parts of the query that nothing states."""
    if not relevant:
        return NOTHING_RELEVANT
    ids = [one.chunk.id for one in relevant]
    named = ", ".join(ids[:5]) + (", ..." if len(ids) > 5 else "")
    chunks = f"{len(ids)} relevant {'chunk' if len(ids) == 1 else 'chunks'} ({named})"
    if present:
        return f"The answer is in the retrieved data: {chunks}."
    best, asked = relevant[0], "; ".join(f"'{one.strip()}'" for one in lacking or [query])
    kind = "The answer is there in part" if lacking else "The answer is probably there"
    if best.doubt and not lacking:
        kind = f"A near miss ({best.chunk.id}: {best.doubt})"
    return f"{kind}: {chunks}. Not stated for certain: {asked}."


def _reasons(
    query: str, relevant: Sequence[Finding], probability: float, limits: Thresholds
) -> Iterator[str]:
    present = probability >= limits.present
    side = "reaches" if present else "stays below"
    if present or not relevant:
        yield f"the probability of an answer, {probability:.2f}, {side} {limits.present:.2f}"
    for one in relevant[:_QUOTED_CHUNKS]:
        doubt = one.doubt or ("" if present else _missing(query, one.chunk.text))
        kind = "near miss" if one.doubt else "probably there"
        told = [one.reason, doubt and f"{kind} ({one.probability:.2f}): {doubt}"]
        yield from (f"{one.chunk.id}: {said}" for said in told if said)


def _missing(query: str, text: str) -> str:
    """What a chunk does not say of the query, in the query's own words."""
    content, held = set(parse_question(query).tokens), set(tokenise(text))
    lacking: list[str] = []
    for word in dict.fromkeys(re.findall(r"[^\W_][\w'’-]*", query)):
        tokens = tokenise(word)
        if content.intersection(tokens) and held.isdisjoint(tokens):
            lacking.append(f"'{word}'")
    if lacking:
        return f"it does not say {', '.join(lacking)}"
    return "it names all that is asked about, and its answer is not clear"
