"""From probabilities to a verdict: slots, the whole question and its parts, evidence, message.

- A chunk's probability is that it holds the answer; the best chunk's is that of the answer.
- The answer is present from the probability ``present`` on: chosen for a precision of 98 %, beside
  siblings of 94 %.
  ``relevant`` is lower, and what is between the two is Partial: the answer is probably there.
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
from functools import lru_cache
from typing import NamedTuple

from ragbench.core.chunk import Chunk
from ragbench.core.record import Record, replace
from ragbench.core.validation import (
    AnswerWord,
    AnswerWorth,
    EvidenceQuote,
    RetrievalQuality,
    Verdict,
)
from ragbench.text.question import parse_question
from ragbench.text.sentences import Span, split_sentences
from ragbench.text.tables import Patterns
from ragbench.text.tokens import tokenise
from ragbench.validators.calibration import DecisionRule, Thresholds
from ragbench.validators.conflicts import find_conflicts
from ragbench.validators.inspect import InspectedChunks
from ragbench.validators.slots import is_yes_or_no, unbound
from ragbench.validators.worth import answer_worth, unreliable, word_limit

NOTHING_RELEVANT = "No relevant information found in retrieved data."
"""What the specification demands, word for word, when no chunk is relevant (FR-013)."""
_QUOTED_CHUNKS = 5
"""Evidence is quoted from so many chunks at most."""
_WORDS = Patterns("ragbench.validators", "words", "question", re.IGNORECASE)
NAMED = re.compile(r"(?<!^)\b[A-ZÀ-ÖØ-Þ][\w'’.-]*|\b[\w.-]{0,64}\d[\w.-]*")
"""Words that are written like names, and numbers."""
_FEWEST_WORDS = 3
"""Words that each piece of a query must have to be a question by itself."""
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
    plain = " ".join(query.split())
    attributes = _WORDS["attributes"].match(plain)
    if attributes:  # "the height and weight of X"
        return tuple(f"{attributes[1]} {attributes[group]} {attributes[4]}" for group in (2, 3))
    pieces = _WORDS["joint"].split(plain)
    if not 2 <= len(pieces) <= _MOST_PARTS:
        return (query,)
    for piece in pieces:
        if len(piece.split()) < _FEWEST_WORDS or not _WORDS["whole"].search(piece):
            return (query,)
    names: list[str] = []
    for piece in pieces:
        names += [name for name in NAMED.findall(piece) if name != "I"]
    subject = _subject(pieces[0])
    parts: list[str] = []
    for position, piece in enumerate(pieces):
        context = names
        if not names and position > 0 and _WORDS["points"].search(piece):
            context = subject  # "when was it sold": what is "it"?
        missing = [word for word in dict.fromkeys(context) if word not in piece]
        parts.append(f"{piece} ({' '.join(missing)})" if missing else piece)
    return tuple(parts)


def _subject(question: str) -> list[str]:
    """The words behind the last "of" that say something; of all where there is no "of"."""
    content = parse_question(question).tokens
    words = question.rpartition(" of ")[2].split()
    return [word for word in words if not set(tokenise(word)).isdisjoint(content)]


class Finding(Record):
    """What a validator found in one chunk."""

    chunk: Chunk
    probability: float
    """That it holds an answer, in [0, 1]."""
    spans: Sequence[Span] = ()
    """Where the answer most probably is, in reading order; slices of the chunk's text."""
    beside: Sequence[Span] = ()
    """Other places that are quoted."""
    reason: str = ""
    answered: float | None = None
    """That it answers just this question, in [0, 1], where a second opinion was asked; None where
    the probability says all."""
    topic: float = 0.0
    """The probability before anything spoke against it; set by `settled`."""
    doubt: str = ""
    """Why it is no answer, though it looks like one."""


Ask = Callable[[str], Sequence[Finding]]
"""Gives a finding per chunk for a question."""
NO_ANSWER = 0.05
"""At most so probable is an answer where a slot is unbound: of what the rules object to on labelled
sets so much holds one all the same (docs/measured/validators.md)."""
_ANSWERS_OTHER = "it is on the topic, and answers another question"


def settled(question: str, finding: Finding, rule: DecisionRule) -> Finding:
    """The finding on the scale of the labels, no higher than the objections to it allow."""
    limits = rule.thresholds
    topic = rule.on_scale(finding.probability)
    if topic < limits.relevant:
        if topic == finding.probability:
            return finding
        return replace(finding, probability=topic)
    probability = topic
    doubt = ""
    # "Smoking is forbidden" answers "Is smoking allowed?", and of several questions each is looked
    # at by itself: there it does not count that a text answers another one.
    opinion = None if is_yes_or_no(question) else finding.answered
    if opinion is not None and len(split_query(question)) == 1:
        probability = min(topic, rule.on_scale(opinion))
        # A near miss falls below a threshold that the topic reaches: it is not "probably there".
        reached = limits.present if topic >= limits.present else limits.relevant
        if probability < reached:
            doubt = _ANSWERS_OTHER
    text = finding.chunk.text
    spans = finding.spans
    quoted = " ".join(text[span.start : span.end] for span in spans)
    objection = ""
    # "The shop is open on Sunday" has nothing new, and answers "Is it open?".
    if quoted and _WORDS["asks"].match(question) and not _new_words(question, quoted):
        # A reader that finds the text an answer has read a heading with the sentence below it.
        end = _end_of_next_sentence(text, spans[-1].end)
        behind = text[spans[-1].end : end]
        if finding.answered is not None and len(_new_words(question, behind)) >= _FEWEST_NEW_WORDS:
            spans = (*spans[:-1], Span(spans[-1].start, end))
            quoted += behind
        else:
            objection = "it only repeats the question"
    objection = unbound(question, text, quoted, rule.slots) or objection
    if objection:
        probability = min(probability, NO_ANSWER)
        doubt = objection
    return replace(finding, probability=probability, topic=topic, doubt=doubt, spans=spans)


_FEWEST_NEW_WORDS = 4
"""Words beside the question's from which on a sentence behind a heading is more than the next one
of a list."""


def _new_words(question: str, text: str) -> set[str]:
    """The words of a text that the question does not hold."""
    return set(parse_question(text).tokens).difference(tokenise(question))


def _end_of_next_sentence(text: str, position: int) -> int:
    """Where the first sentence ends that reaches beyond a position; 0 where there is none."""
    for span in split_sentences(text):
        if span.end > position:
            return span.end
    return 0


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
    """The verdict on the findings for a query.

    ``answer_probability`` is that of the answer where a validator says so itself; None for that of
    the best chunk.
    """
    limits = rule.thresholds
    findings = [settled(query, finding, rule) for finding in ask(query)]
    probability = max((finding.probability for finding in findings), default=0.0)
    parts: list[_Part] = []
    if answer_probability is not None:
        probability = rule.on_scale(answer_probability)
    elif probability >= limits.present:
        pieces = split_query(query)
        if len(pieces) > 1:
            parts = [_part(query, piece, ask, rule) for piece in pieces]
            findings = [_with_parts(finding, parts, limits) for finding in findings]
    # A query that asks several things is as sure as the part that is stated least.
    not_stated: list[str] = []
    for part in parts:
        if part.probability < max(limits.relevant, _STATED):
            not_stated.append(part.text)
            probability = min(probability, part.probability)
    present = probability >= limits.present and bool(findings)
    doubt = _unreliable(query, findings, rule) if present else ""
    present = present and not doubt
    relevant = _relevant(findings, limits, present=present)
    evidence = tuple(_evidence(relevant))
    word, worth = _in_words(probability, rule, doubt, present=present)
    quality = RetrievalQuality.POOR
    if relevant:
        quality = RetrievalQuality.PARTIAL
    if present:
        quality = RetrievalQuality.GOOD
    return Verdict(
        query_id="",
        relevant_chunk_ids=tuple([finding.chunk.id for finding in relevant]),
        relevance={finding.chunk.id: round(finding.probability, 4) for finding in findings},
        answer_present=present,
        answer_probability=round(probability, 4),
        answer_word=word,
        answer_worth=worth,
        evidence=evidence,
        retrieval_quality=quality,
        message=_message(query, relevant, not_stated, present=present),
        validator=validator,
        reasons=(
            *_reasons_of_parts(parts),
            *reasons,
            *([f"not judged reliably: {doubt}"] if doubt else []),
            *_reasons(query, relevant, probability, limits),
        ),
        warnings=(*[warning.message for warning in intake.warnings], *warnings),
        inspection=intake.warnings,
        conflicts=find_conflicts(query, evidence) if len(relevant) > 1 else (),
        details=dict(details or {}),
    )


def _in_words(
    probability: float, rule: DecisionRule, doubt: str, *, present: bool
) -> tuple[AnswerWord | None, AnswerWorth | None]:
    """The word for a probability, and how often it was true; a No is "likely" at most.

    Args:
        doubt: why no word would be reliable.
    """
    if doubt:
        return AnswerWord.NOT_JUDGED, None
    limit = word_limit(rule.words, probability)
    if limit is None:
        return None, None
    word = limit.word
    if word is AnswerWord.YES and not present:
        word = AnswerWord.LIKELY
    return word, answer_worth(limit, probability, rule.labels)


def _unreliable(query: str, findings: Sequence[Finding], rule: DecisionRule) -> str:
    """Why a Yes of a validator that reads words or short texts is not reliable."""
    if not rule.withholds:
        return ""
    best = max(findings, key=lambda finding: finding.probability)
    # Of a query with several parts each is a question by itself.
    question = query if len(split_query(query)) == 1 else ""
    return unreliable(question, best.chunk.text, best.spans)


class _Part(NamedTuple):
    """One of several questions, and where it is stated."""

    text: str
    findings: Sequence[Finding]
    probability: float


def _part(query: str, piece: str, ask: Ask, rule: DecisionRule) -> _Part:
    """The findings for one of several questions, in chunks that name its subject."""
    # What `split_query` put in brackets: at least half of it must be in the chunk.
    context = "" if piece in query else piece.rpartition(" (")[2]
    subject = set(tokenise(context))
    findings: list[Finding] = []
    for finding in ask(piece):
        finding = settled(piece, finding, rule)
        shared = subject.intersection(tokenise(finding.chunk.text))
        if 2 * len(shared) >= len(subject):
            findings.append(finding)
    probability = max((finding.probability for finding in findings), default=0.0)
    return _Part(piece, findings, probability)


def _with_parts(whole: Finding, parts: Sequence[_Part], limits: Thresholds) -> Finding:
    """A chunk's finding for the whole query, with the parts that the chunk states."""
    stated: list[Finding] = []
    for part in parts:
        for finding in part.findings:
            if finding.chunk is whole.chunk and finding.probability >= limits.present:
                stated.append(finding)
    best = max([whole, *stated], key=lambda finding: finding.probability)
    spans = list(best.spans)
    for finding in stated:
        spans += finding.spans
    return replace(best, spans=_joined(spans), topic=max(whole.topic, best.topic))


def _joined(spans: Sequence[Span]) -> tuple[Span, ...]:
    """In reading order; those that overlap become one."""
    joined: list[Span] = []
    for span in sorted(set(spans)):
        if joined and span.start < joined[-1].end:
            previous = joined.pop()
            span = Span(previous.start, max(previous.end, span.end))
        joined.append(span)
    return tuple(joined)


def _relevant(
    findings: Sequence[Finding], limits: Thresholds, *, present: bool
) -> Sequence[Finding]:
    """The relevant ones, the best first; where the answer is present there is at least one."""
    # Sorting keeps the order of equals: the retriever's.
    ranked = sorted(findings, key=lambda finding: (-finding.probability, -finding.topic))
    if present:
        sure = [finding for finding in ranked if finding.probability >= limits.present]
        if sure:
            return sure
    near: list[Finding] = []
    for finding in ranked:
        if max(finding.probability, finding.topic) >= limits.relevant:
            near.append(finding)
    if present and not near:
        return ranked[:1]
    return near


def _evidence(relevant: Sequence[Finding]) -> Iterator[EvidenceQuote]:
    """The quotes of the best chunks."""
    for finding in relevant[:_QUOTED_CHUNKS]:
        chunk = finding.chunk
        for start, end in _joined([*finding.spans, *finding.beside]):
            text = chunk.text[start:end]
            yield EvidenceQuote(chunk_id=chunk.id, start=start, end=end, text=text)


def _message(
    query: str, relevant: Sequence[Finding], not_stated: Sequence[str], *, present: bool
) -> str:
    """The verdict in a sentence.

    Args:
        not_stated: parts of the query that no chunk states.
    """
    if not relevant:
        return NOTHING_RELEVANT
    ids = [finding.chunk.id for finding in relevant]
    listed = ", ".join(ids[:5])
    if len(ids) > 5:
        listed += ", ..."
    chunks = f"{len(ids)} relevant {'chunk' if len(ids) == 1 else 'chunks'} ({listed})"
    if present:
        return f"The answer is in the retrieved data: {chunks}."
    best = relevant[0]
    kind = "The answer is probably there"
    if not_stated:
        kind = "The answer is there in part"
    elif best.doubt:
        kind = f"A near miss ({best.chunk.id}: {best.doubt})"
    questions = "; ".join(f"'{question.strip()}'" for question in not_stated or [query])
    return f"{kind}: {chunks}. Not stated for certain: {questions}."


def _reasons_of_parts(parts: Sequence[_Part]) -> Iterator[str]:
    """How probable an answer to each of several questions is."""
    for part in parts:
        yield f"part '{part.text}': an answer has the probability {part.probability:.2f}"


def _reasons(
    query: str, relevant: Sequence[Finding], probability: float, limits: Thresholds
) -> Iterator[str]:
    """How the probability stands to its threshold, and what is said for and against each chunk."""
    present = probability >= limits.present
    if present or not relevant:
        side = "reaches" if present else "stays below"
        yield f"the probability of an answer, {probability:.2f}, {side} {limits.present:.2f}"
    for finding in relevant[:_QUOTED_CHUNKS]:
        name = finding.chunk.id
        if finding.reason:
            yield f"{name}: {finding.reason}"
        if finding.doubt:
            yield f"{name}: near miss ({finding.probability:.2f}): {finding.doubt}"
        elif not present:
            doubt = _missing(query, finding.chunk.text)
            yield f"{name}: probably there ({finding.probability:.2f}): {doubt}"


def _missing(query: str, text: str) -> str:
    """What a chunk does not say of the query, in the query's own words."""
    content = set(parse_question(query).tokens)
    text_tokens = set(tokenise(text))
    missing: list[str] = []
    for word in dict.fromkeys(re.findall(r"[^\W_][\w'’-]*", query)):
        tokens = tokenise(word)
        if content.intersection(tokens) and text_tokens.isdisjoint(tokens):
            missing.append(f"'{word}'")
    if missing:
        return f"it does not say {', '.join(missing)}"
    return "it names all that is asked about, and its answer is not clear"
