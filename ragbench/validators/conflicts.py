"""Contradictions between quotes: what differs is reported, never resolved.

Only sentences that speak of the same thing can contradict each other: they share most of their
words, or each holds nearly all that the query asks about. Two that say the same but for a name
contradict each other in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations, islice, product
from typing import NamedTuple

from ragbench.core.validation import Conflict, EvidenceQuote
from ragbench.text.question import answer_span, asked_type, parse_question
from ragbench.text.sentences import split_sentences
from ragbench.text.tables import Patterns
from ragbench.text.tokens import normalise, tokenise

_ALIKE = 0.5
"""Share of common words from which on two statements speak of the same thing."""
_COVERED = 0.75
"""Share of the query's words that a statement holds that answers it."""
_SAME = 0.6
"""Share of all words of two statements that are common, from which on they say the same."""
_WORDS = Patterns("ragbench.validators", "words", "statement")


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
    asked, kind = frozenset(parse_question(query).tokens), asked_type(query)
    stated = [_statement(one, asked) for one in evidence]
    conflicts: list[Conflict] = []
    for one, other in combinations(stated, 2):
        first, second = one.evidence, other.evidence
        if first.chunk_id == second.chunk_id:
            continue
        differing = chain(_differences(one, other, kind), _holders(query, one, other))
        for found, detail in islice(differing, 1):
            conflicts.append(Conflict(kind=found, first=first, second=second, detail=detail))
    return tuple(conflicts)


def _statement(evidence: EvidenceQuote, asked: frozenset[str]) -> _Statement:
    text = normalise(evidence.text)
    tokens = frozenset(tokenise(evidence.text))
    numbers, dates = _WORDS["number"].findall(text), frozenset(_WORDS["date"].findall(text)) - asked
    return _Statement(
        evidence=evidence,
        words=frozenset(token for token in tokens if not token[0].isdigit()),
        dates=dates,
        numbers=frozenset(one.replace(",", "") for one in numbers) - dates - asked,
        said=[_said(evidence.text[slice(*one)], asked) for one in split_sentences(evidence.text)],
        negated=_WORDS["negation"].search(text) is not None,
        covers=bool(asked) and len(asked & tokens) >= _COVERED * len(asked),
    )


def _said(sentence: str, asked: frozenset[str]) -> _Said:
    words = tokenise(sentence)
    names = [(token, name) for name in _WORDS["name"].findall(sentence) for token in tokenise(name)]
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
        differ = mine and theirs and mine.isdisjoint(theirs) and not _of_two_things(one, other)
        if differ and (alike or (answer and kind == name)):
            yield name, f"{', '.join(sorted(mine))} against {', '.join(sorted(theirs))}"
    for first, second in product(one.said, other.said):
        yield from _between_sentences(first, second)
    if one.negated != other.negated and alike and answer:
        says, denies = (other, one) if one.negated else (one, other)
        yield "negation", f"{says.evidence.chunk_id} says what {denies.evidence.chunk_id} denies"


def _of_two_things(one: _Statement, other: _Statement) -> bool:
    """Whether each names what the other does not, and they have nothing else of their own."""
    for mine, theirs in product(one.said, other.said):
        alone, against = mine.words - theirs.words, theirs.words - mine.words
        numbers = mine.distinct["number"].keys() | theirs.distinct["number"].keys()
        named = mine.distinct["name"].keys() | theirs.distinct["name"].keys()
        if alone - numbers and against - numbers and (alone | against) - numbers <= named:
            return True
    return False


def _holders(query: str, one: _Statement, other: _Statement) -> Iterator[tuple[str, str]]:
    """Two persons of whom only one can be what is asked for: "Who is the chief executive?"."""
    if not (_WORDS["one_holder"].match(query) and one.covers and other.covers):
        return
    question = parse_question(query)
    named: list[str] = []
    for said in (one.evidence.text, other.evidence.text):
        spans = [
            (piece, answer_span(query, question, piece))
            for piece in (said[slice(*sentence)] for sentence in split_sentences(said))
        ]
        named.append(next((piece[slice(*span)] for piece, span in spans if span), ""))
    if all(named) and set(tokenise(named[0])).isdisjoint(tokenise(named[1])):
        yield "name", f"{named[0]} against {named[1]}"


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
