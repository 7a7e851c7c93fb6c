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
- A query that asks several things is read as a whole and part by part. Each part must be stated
  somewhere, in one chunk or in several; the probability is then that of what is stated least.
- The retrieval quality is Good when the answer is present, Partial when it is not and a chunk is
  relevant all the same, Poor when no chunk is relevant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ragbench.core.chunk import Chunk
from ragbench.core.record import Record, replace
from ragbench.core.validation import (
    AnswerWord,
    AnswerWorth,
    Conflict,
    EvidenceQuote,
    RetrievalQuality,
    Verdict,
    WarningKind,
)
from ragbench.text.question import parse_question
from ragbench.text.sentences import Span, split_sentences
from ragbench.text.table_rows import TableRow, is_heading, rows_in
from ragbench.text.tables import Patterns, table
from ragbench.text.tokens import tokenise
from ragbench.validators.calibration import DecisionRule, Thresholds
from ragbench.validators.conflicts import find_conflicts
from ragbench.validators.inspect import InspectedChunks
from ragbench.validators.parts import QueryPart, split_query
from ragbench.validators.slots import unbound
from ragbench.validators.worth import answer_worth, unreliable, word_limit

NOTHING_RELEVANT = "No relevant information found in retrieved data."
"""What the specification demands, word for word, when no chunk is relevant (FR-013)."""
_QUOTED_CHUNKS = 5
"""Evidence is quoted from so many chunks at most."""
_LISTED_CHUNKS = 5
"""Chunks that the message names; the record holds all of them."""
_WORDS = Patterns("ragbench.validators", "words", "question", re.IGNORECASE)
"""The expressions for questions, from ``words.toml``."""
_STATED = 0.5
"""A part is stated somewhere where that is at least as likely as not."""


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
    """Why the chunk is relevant, in words; empty where the validator gives none."""
    answered: float | None = None
    """That it answers just this question, in [0, 1], where a second opinion was asked; None where
    the probability says all."""
    topic: float = 0.0
    """The probability before anything spoke against it; set by `settled`."""
    doubt: str = ""
    """Why it is no answer, though it looks like one."""


Ask = Callable[[QueryPart], Sequence[Finding]]
"""Gives a finding per chunk for a query, or for one of its parts."""
NO_ANSWER = 0.05
"""At most so probable is an answer where a slot is unbound: of what the rules object to on labelled
sets so much holds one all the same (docs/measured/validators.md)."""
_UNCLEAR = "the query does not say what it asks about"
_ANSWERS_OTHER = "it is on the topic, and answers another question"


def settled(question: str, finding: Finding, rule: DecisionRule) -> Finding:
    """The finding in a chunk with its final probability: scaled, and lowered by objections to it.

    A finding is what a validator found in one chunk. A near miss, which is on the topic and no
    answer, keeps the topic's probability, so that it stays relevant.

    Args:
        question: the query, or one question in it.
    """
    limits = rule.thresholds
    topic = rule.on_scale(finding.probability)
    if topic < limits.relevant:
        # Nothing can lower it below relevant again: most chunks need no look at their text.
        if topic == finding.probability:
            return finding
        return replace(finding, probability=topic)
    # Rows first, since objections read what is quoted.
    finding = _with_rows(question, finding)
    probability = topic
    doubt = ""
    # Of several questions each is looked at by itself: that a text answers another one is no news.
    opinion = finding.answered
    if opinion is not None and len(split_query(question)) == 1:
        # A second opinion can only lower: the topic alone is no answer.
        probability = min(topic, rule.on_scale(opinion))
        # A near miss falls below a threshold that the topic reaches: it is not "probably there".
        highest_reached = limits.relevant
        if topic >= limits.present:
            highest_reached = limits.present
        # Only where the opinion costs it a threshold is there something to doubt.
        if probability < highest_reached:
            doubt = _ANSWERS_OTHER
    text = finding.chunk.text
    spans = finding.spans
    quoted = " ".join(text[span.start : span.end] for span in spans)
    objection = ""
    # "The shop is open on Sunday" has nothing new, and answers "Is it open?".
    if quoted and _WORDS["asks"].match(question) and not _new_words(question, quoted):
        # A reader that finds the text an answer has read a heading with the sentence below it.
        last_span = spans[-1]
        end = _end_of_next_sentence(text, last_span.end)
        behind = text[last_span.end : end]
        says_more_behind = len(_new_words(question, behind)) >= _FEWEST_NEW_WORDS
        # A reader with a second tower that found an answer is trusted with the sentence below.
        if finding.answered is not None and says_more_behind:
            spans = (*spans[:-1], Span(last_span.start, end))
            quoted += behind
        else:
            objection = "it only repeats the question"
    # What a slot says is more exact than that the question is repeated.
    # Looked at in any case, also where the question is repeated.
    slot_objection = unbound(question, text, quoted, rule.slots)
    if slot_objection:
        objection = slot_objection
    if objection:
        # Never raised: it may be below already.
        probability = min(probability, NO_ANSWER)
        doubt = objection
    return replace(finding, probability=probability, topic=topic, doubt=doubt, spans=spans)


def _doubted(finding: Finding, doubt: str) -> Finding:
    """A finding, turned into no answer by a doubt, such as that the query is unclear.

    The chunk stays on the topic as surely as it seemed to answer. A finding that is no answer
    anyway needs no doubt as its reason.

    A finding is what a validator found in one chunk.
    """
    if finding.probability <= NO_ANSWER:
        return finding
    # `topic` is 0 where nothing was settled: the probability stands in.
    topic = max(finding.topic, finding.probability)
    return replace(finding, probability=NO_ANSWER, topic=topic, doubt=doubt)


_FEWEST_NEW_WORDS = 4
"""Words beside the question's from which on a sentence behind a heading is more than the next one
of a list."""


def _with_rows(question: str, finding: Finding) -> Finding:
    """The finding with whole rows of tables quoted: label and value, and the header beside them.

    A sentence of a table may be several rows, or half of one: a value without its label says
    nothing. Of rows that share no word with the question none is quoted where another one shares
    some.

    A finding is what a validator found in one chunk.
    """
    text = finding.chunk.text
    rows: list[TableRow] = []
    spans = _rows_parted(question, text, finding.spans, rows)
    beside = _rows_parted(question, text, finding.beside, rows)
    # Most texts hold no table.
    if not rows:
        return finding
    row_spans = [row.span for row in rows]
    # Rows with some word of the question, if there are any.
    spans_with_words = [span for span in row_spans if _shared_words(question, text, span)]
    if spans_with_words:
        row_spans = spans_with_words
    headers = [row.header for row in rows if row.header is not None]
    return replace(
        finding,
        spans=_joined([*spans, *row_spans]),
        beside=_joined([*beside, *headers]),
    )


def _rows_parted(
    question: str, text: str, places: Sequence[Span], rows: list[TableRow]
) -> list[Span]:
    """The quoted places of a text that are in no table; best rows of the others go to ``rows``.

    A quote in a table is then extended to its row.
    """
    outside: list[Span] = []
    for place in places:
        best_rows = _best_rows(question, text, rows_in(text, place))
        # `rows` belongs to the caller, for spans and for what is quoted beside them.
        rows += best_rows
        if not best_rows:
            outside.append(place)
    return outside


def _best_rows(question: str, text: str, rows: Sequence[TableRow]) -> list[TableRow]:
    """The rows of a table that share most words with a question, headers left out.

    A quote in a table is extended to these rows, since a value needs its label.
    """
    headers = [row.header for row in rows]
    best_rows: list[TableRow] = []
    highest_count = 0
    for row in rows:
        # A header has no value.
        if row.span in headers:
            continue
        count = _shared_words(question, text, row.span)
        if count > highest_count:
            highest_count = count
            best_rows = []
        # All rows with the highest count, also where that is 0.
        if count == highest_count:
            best_rows.append(row)
    return best_rows


def _shared_words(question: str, text: str, place: Span) -> int:
    """How many of a question's words are in a part of a text, such as a row of a table.

    The row with most of them is the one that the question asks about.
    """
    question_tokens = set(parse_question(question).tokens)
    return len(question_tokens.intersection(tokenise(text[place.start : place.end])))


def _new_words(question: str, text: str) -> set[str]:
    """The words of a text that the question does not have.

    A text without any only repeats the question.
    """
    return set(parse_question(text).tokens).difference(tokenise(question))


def _end_of_next_sentence(text: str, position: int) -> int:
    """The end of the first sentence that reaches beyond a position; 0 where there is none.

    A heading is quoted together with the sentence below it.
    """
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
    """The verdict on a query's chunks, made of what a validator found in each of them.

    Every validator ends here, so that equal probabilities give equal verdicts, whoever found them.

    Args:
        ask: gives a finding for each chunk, for the query or for one of the questions in it.
        rule: how probabilities become a verdict.
        validator: the name that the verdict gives.
        answer_probability: that of the answer where a validator has one itself; None for that of
            the best chunk.
    """
    limits = rule.thresholds
    whole = QueryPart(text=query)
    # For the whole query first, whatever parts it has.
    findings = [settled(query, finding, rule) for finding in ask(whole)]
    is_unclear = WarningKind.UNCLEAR_QUERY in [warning.kind for warning in intake.warnings]
    if is_unclear:
        findings = [_doubted(finding, _UNCLEAR) for finding in findings]
    probability = max((finding.probability for finding in findings), default=0.0)
    parts: list[_JudgedPart] = []
    if answer_probability is not None:
        # The validator has judged the query as a whole: parts are not asked about.
        probability = rule.on_scale(answer_probability)
        if is_unclear:
            probability = min(probability, NO_ANSWER)
    elif not is_unclear:
        pieces = split_query(query)
        if len(pieces) > 1:
            parts = [_judged_part(piece, ask, rule) for piece in pieces]
            findings = [_with_parts(finding, parts, limits) for finding in findings]
            # Also where the whole seemed to answer: each part must be stated.
            probability = _of_parts(probability, parts, limits)
    # By the same threshold as the answer.
    not_stated = [part.text for part in parts if part.probability < limits.present]
    present = probability >= limits.present and bool(findings)
    doubt = ""
    # Only a Yes is worth withholding.
    if present:
        doubt = _why_unreliable(query, findings, rule)
    present = present and not doubt
    # By `present` after doubts: a withheld Yes makes the retrieval Partial.
    relevant = _relevant_findings(findings, limits, present=present)
    evidence = tuple(_quoted_evidence(relevant))
    word, worth = _in_words(probability, rule, doubt, present=present)
    all_reasons = [*_reasons_of_parts(parts), *reasons]
    if doubt:
        all_reasons.append(f"not judged reliably: {doubt}")
    all_reasons += _reasons_of_verdict(query, relevant, probability, limits)
    # Quotes of one chunk are not compared: most cases have no more, and need no look at words.
    conflicts: tuple[Conflict, ...] = ()
    if len(relevant) > 1:
        conflicts = find_conflicts(query, evidence)
    return Verdict(
        query_id="",
        relevant_chunk_ids=tuple([finding.chunk.id for finding in relevant]),
        # Rounded to four digits, so that machines agree on what is stored.
        relevance={finding.chunk.id: round(finding.probability, 4) for finding in findings},
        answer_present=present,
        answer_probability=round(probability, 4),
        answer_word=word,
        answer_worth=worth,
        evidence=evidence,
        retrieval_quality=_retrieval_quality(relevant, present=present),
        message=_message_of_verdict(query, relevant, not_stated, len(parts), present=present),
        validator=validator,
        reasons=tuple(all_reasons),
        warnings=(*[warning.message for warning in intake.warnings], *warnings),
        inspection=intake.warnings,
        conflicts=conflicts,
        details=dict(details or {}),
    )


def _retrieval_quality(relevant: Sequence[Finding], *, present: bool) -> RetrievalQuality:
    """The quality of a retrieval: its chunks hold the answer, are on the topic, or are neither.

    A user sees by it whether to mend the retrieval or the answers.
    """
    if present:
        return RetrievalQuality.GOOD
    if relevant:
        return RetrievalQuality.PARTIAL
    return RetrievalQuality.POOR


def _in_words(
    probability: float, rule: DecisionRule, doubt: str, *, present: bool
) -> tuple[AnswerWord | None, AnswerWorth | None]:
    """The word for a probability, and how often it was true; None where it was not measured.

    Where the answer is not called present, the word is not Yes but "likely" at most.

    Args:
        doubt: why no word would be reliable.
    """
    if doubt:
        return AnswerWord.NOT_JUDGED, None
    limit = word_limit(rule.words, probability)
    if limit is None:
        return None, None
    word = limit.word
    # The worth below stays that of the probability, not of the weaker word.
    if word is AnswerWord.YES and not present:
        word = AnswerWord.LIKELY
    return word, answer_worth(limit, probability, rule.labels)


def _why_unreliable(query: str, findings: Sequence[Finding], rule: DecisionRule) -> str:
    """The reason why a Yes is not reliable; empty where it is.

    Validators that read words or short texts are often wrong on some questions and texts. A
    language model reads all of a text: its Yes is never withheld.
    """
    if not rule.withholds:
        return ""
    # The chunk that decides the verdict.
    best = max(findings, key=lambda finding: finding.probability)
    question = query
    if len(split_query(query)) > 1:
        question = ""  # each part is a question by itself: no kind of question holds for the query
    return unreliable(question, best.chunk.text, best.spans)


class _JudgedPart(NamedTuple):
    """One of several questions, and where it is stated."""

    text: str
    """In the words of the user."""
    findings: Sequence[Finding]
    """Only of chunks that name the part's subject."""
    probability: float
    """That of its best chunk; 0 without any."""


def _judged_part(part: QueryPart, ask: Ask, rule: DecisionRule) -> _JudgedPart:
    """One of several questions in a query with its findings, in chunks that name its subject.

    "When was it sold?" is answered in many chunks: only one that names the X200 answers it here.

    A finding is what a validator found in one chunk.
    """
    context_tokens = set(tokenise(" ".join(part.context)))
    findings: list[Finding] = []
    for finding in ask(part):
        shared_tokens = context_tokens.intersection(tokenise(finding.chunk.text))
        # Half of the context's words: a chunk may call a thing by a part of its name.
        if 2 * len(shared_tokens) >= len(context_tokens):
            # `part.question` has the context in it, so that slots compare with the right names.
            findings.append(settled(part.question, finding, rule))
    probability = max((finding.probability for finding in findings), default=0.0)
    return _JudgedPart(part.text, findings, probability)


def _of_parts(whole: float, parts: Sequence[_JudgedPart], limits: Thresholds) -> float:
    """The probability of an answer to a query that asks several things, from those of its parts.

    The probability is that of the part that is stated least. Where one chunk answers the whole
    query, it is enough that each part is rather stated than not.

    A query is answered only where each of its questions is.

    Args:
        whole: the probability for the query as a whole.
    """
    least = min(part.probability for part in parts)
    # At least relevant, and rather stated than not: the whole may then speak.
    if least >= max(limits.relevant, _STATED):
        return max(whole, least)
    return least


def _with_parts(whole: Finding, parts: Sequence[_JudgedPart], limits: Thresholds) -> Finding:
    """A chunk's finding for the whole query, joined with the parts of the query that it answers.

    Joined so, a chunk that answers one of two questions is relevant, and quoted for that question.

    A finding is what a validator found in one chunk.
    """
    stated: list[Finding] = []
    for part in parts:
        for finding in part.findings:
            # The same chunk, by identity: parts were asked about the same objects.
            if finding.chunk is whole.chunk and finding.probability >= limits.present:
                stated.append(finding)
    best = max([whole, *stated], key=lambda finding: finding.probability)
    # Quotes of all parts that the chunk states.
    spans = list(best.spans)
    for finding in stated:
        spans += finding.spans
    return replace(best, spans=_joined(spans), topic=max(whole.topic, best.topic))


def _joined(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Places of a text in reading order, overlapping ones joined, so that none is quoted twice."""
    joined: list[Span] = []
    for span in sorted(set(spans)):
        # Touching ones stay apart, as sentences that follow each other.
        if joined and span.start < joined[-1].end:
            previous = joined.pop()
            span = Span(previous.start, max(previous.end, span.end))
        joined.append(span)
    return tuple(joined)


def _relevant_findings(
    findings: Sequence[Finding], limits: Thresholds, *, present: bool
) -> Sequence[Finding]:
    """The findings of the relevant chunks, the best first.

    Where the answer is present, chunks that hold it push out those that are only on the topic, and
    at least one chunk is relevant.

    A finding is what a validator found in one chunk.
    """
    # Sorting keeps the order of equals: the retriever's.
    # Of equal probability, the one that is surer on its topic.
    ranked = sorted(findings, key=lambda finding: (-finding.probability, -finding.topic))
    if present:
        sure = [finding for finding in ranked if finding.probability >= limits.present]
        # None: the validator's own probability decided, and no chunk's.
        if sure:
            return sure
    relevant: list[Finding] = []
    for finding in ranked:
        # A near miss stays relevant by its topic.
        if max(finding.probability, finding.topic) >= limits.relevant:
            relevant.append(finding)
    if present and not relevant:
        # The validator says itself that the answer is there: the best chunk must hold it.
        return ranked[:1]
    return relevant


def _quoted_evidence(relevant: Sequence[Finding]) -> Iterator[EvidenceQuote]:
    """The quotes of a verdict, from its best chunks; a heading comes with the sentence below it.

    A user checks by them whether the verdict is right.
    """
    # The best chunks only: a verdict must stay readable.
    for finding in relevant[:_QUOTED_CHUNKS]:
        chunk = finding.chunk
        places: list[Span] = []
        for place in (*finding.spans, *finding.beside):
            # A heading alone proves nothing.
            if is_heading(chunk.text, place):
                place = Span(place.start, _end_of_next_sentence(chunk.text, place.end))
            places.append(place)
        for start, end in _joined(places):
            text = chunk.text[start:end]
            yield EvidenceQuote(chunk_id=chunk.id, start=start, end=end, text=text)


def _message_of_verdict(
    query: str,
    relevant: Sequence[Finding],
    not_stated: Sequence[str],
    parts: int,
    *,
    present: bool,
) -> str:
    """The message of a verdict: one sentence that says whether the answer is there, and where.

    This sentence is often all of a verdict that is read. Without a relevant chunk its words are
    prescribed: `NOTHING_RELEVANT`.

    Args:
        not_stated: parts of the query that no chunk states for certain.
        parts: how many the query has; 0 where it asks one thing.
    """
    if not relevant:
        return NOTHING_RELEVANT
    ids = [finding.chunk.id for finding in relevant]
    listed_ids = ", ".join(ids[:_LISTED_CHUNKS])
    if len(ids) > _LISTED_CHUNKS:
        listed_ids += ", ..."
    noun = "chunks"
    if len(ids) == 1:
        noun = "chunk"
    chunks = f"{len(ids)} relevant {noun} ({listed_ids})"
    if present:
        return f"The answer is in the retrieved data: {chunks}."
    best = relevant[0]
    kind = "The answer is probably there"
    # Some parts are stated, and not all.
    if not_stated and len(not_stated) < parts:
        kind = "The answer is there in part"
    elif best.doubt:
        kind = f"A near miss ({best.chunk.id}: {best.doubt})"
    questions = not_stated
    if not questions:
        questions = [query]
    quoted_questions = "; ".join(f"'{question.strip()}'" for question in questions)
    return f"{kind}: {chunks}. Not stated for certain: {quoted_questions}."


def _reasons_of_parts(parts: Sequence[_JudgedPart]) -> Iterator[str]:
    """Reasons of a verdict on several questions: how probable an answer to each of them is.

    The part that is stated least decides the verdict: a reader sees which one it is.
    """
    for part in parts:
        yield f"part '{part.text}': an answer has the probability {part.probability:.2f}"


def _reasons_of_verdict(
    query: str, relevant: Sequence[Finding], probability: float, limits: Thresholds
) -> Iterator[str]:
    """Reasons of a verdict: the probability against its threshold, and each chunk for or against.

    The reasons let a reader see why a verdict is not another one.

    Args:
        relevant: the findings of the relevant chunks, the best first.
    """
    present = probability >= limits.present
    # Where chunks are on the topic and no answer, each has a reason of its own below.
    if present or not relevant:
        verb = "stays below"
        if present:
            verb = "reaches"
        yield f"the probability of an answer, {probability:.2f}, {verb} {limits.present:.2f}"
    for finding in relevant[:_QUOTED_CHUNKS]:
        name = finding.chunk.id
        if finding.reason:
            yield f"{name}: {finding.reason}"
        if finding.doubt:
            yield f"{name}: near miss ({finding.probability:.2f}): {finding.doubt}"
        elif not present:
            doubt = _missing_words(query, finding.chunk.text)
            yield f"{name}: probably there ({finding.probability:.2f}): {doubt}"


def _missing_words(query: str, text: str) -> str:
    """The words of a query that a chunk does not hold, as a reason why it may not answer.

    A user sees so what to look for in the data.
    """
    # "Where can I find the manual?": a text need not say "find".
    asking_tokens = tokenise(table("ragbench.validators", "words", "question")["asking"])
    content_tokens = set(parse_question(query).tokens).difference(asking_tokens)
    text_tokens = set(tokenise(text))
    missing_words: list[str] = []
    # Words as written, each once.
    for word in dict.fromkeys(re.findall(r"[^\W_][\w'’-]*", query)):
        tokens = tokenise(word)
        if content_tokens.intersection(tokens) and text_tokens.isdisjoint(tokens):
            missing_words.append(f"'{word}'")
    if missing_words:
        return f"it does not say {', '.join(missing_words)}"
    return "it names all that is asked about, and its answer is not clear"
