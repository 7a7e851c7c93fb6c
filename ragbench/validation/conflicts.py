"""Evidence that contradicts other evidence: in a number, in a date, in a name, by a negation.

Only sentences that speak of the same thing can contradict each other: they share most of their
words, or each holds nearly all that the query asks about. Two that say the same but for a name
contradict each other in it. What differs between them is reported, never resolved.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from ragbench.records.validation import Conflict, Evidence
from ragbench.text.question import parse_question
from ragbench.text.sentences import split_sentences
from ragbench.text.tokens import normalise, tokenise
from ragbench.validation.answer_type import AnswerType, asked_type

__all__ = ["find_conflicts"]

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
    evidence: Evidence
    words: frozenset[str]
    """Its words without numbers and negations."""
    dates: frozenset[str]
    numbers: frozenset[str]
    said: tuple[_Said, ...]
    """Sentence by sentence."""
    negated: bool
    covers: bool
    """Whether it holds nearly all that the query asks about."""


def find_conflicts(query: str, evidence: Sequence[Evidence]) -> tuple[Conflict, ...]:
    """Contradictions between pieces of evidence from different chunks.

    Args:
        query: the question: a number or date that stands in it is no answer, and what it asks for
            decides which differences count.
        evidence: quotes.
    """
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


def _statement(evidence: Evidence, asked: frozenset[str]) -> _Statement:
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
