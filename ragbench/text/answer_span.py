"""The part of a sentence that a question asks for: a date, a number, a name.

Found by the kind of the question and the look of the words alone; of several, the one that stands
nearest to the question's own words is taken. Where the kind is another, or nothing of it is there,
the whole sentence is the better answer, and there is no span.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from ragbench.text.language import function_words
from ragbench.text.question import AnswerType, ParsedQuestion, asked_type
from ragbench.text.sentences import Span
from ragbench.text.tables import Patterns, table
from ragbench.text.tokens import is_spaceless, tokenise

SPANS_VERSION = "1"
"""Changes whenever the same sentence gives another span."""

_LOOK = Patterns("ragbench.text", "question", "spans", re.IGNORECASE)
_NAMES = Patterns("ragbench.text", "question", "names")
_FIRST_WORD = re.compile(r"(\w+)\s+")
_PARTED = 3
"""Words that a comma counts as."""
_LONGEST = 2_000
"""Letters of a sentence: longer ones are tables or text without marks."""


def answer_span(query: str, question: ParsedQuestion, sentence: str) -> Span | None:
    """The part of a sentence that a question asks for.

    Of the dates, numbers or names that the question does not say itself, the one whose distance
    to the question's tokens in the sentence is the least: the sum of ``1 / (1 + words between)``
    over these tokens is the largest.

    None where answers of that kind have no look of their own, or nothing of that kind is in the
    sentence.
    """
    if len(sentence) > _LONGEST:
        return None
    asked = frozenset(question.tokens)
    places = _places(sentence)
    said = [
        (place, token) for place, word in places for token in asked.intersection(tokenise(word[0]))
    ]
    best: tuple[float, Span] | None = None
    for span in _of_kind(query, question.language, sentence):
        if not asked.isdisjoint(tokenise(sentence[span.start : span.end])):
            continue
        covered = [at for at, word in places if span.start < word.end() and word.start() < span.end]
        near = _nearness(covered, said)
        if best is None or near > best[0]:
            best = near, span
    return None if best is None else best[1]


def _places(sentence: str) -> list[tuple[int, re.Match[str]]]:
    """Each word and its place; what a comma or its like parts is further apart."""
    found: list[tuple[int, re.Match[str]]] = []
    place = 0
    for piece in _NAMES["piece"].finditer(sentence):
        if piece["word"]:
            found.append((place, piece))
            place += 1
        else:
            place += _PARTED
    return found


def _nearness(covered: Sequence[int], said: Sequence[tuple[int, str]]) -> float:
    """How near a span stands to the question's tokens, each where it is nearest."""
    nearest: dict[str, float] = {}
    for at, token in said:
        between = max(0, covered[0] - at - 1, at - covered[-1] - 1) if covered else 0
        nearest[token] = max(nearest.get(token, 0.0), 1 / (1 + between))
    return sum(nearest.values())


def _of_kind(query: str, language: str, sentence: str) -> Iterator[Span]:
    kind = asked_type(query)
    if kind is AnswerType.DATE:
        yield from _dates(query, sentence)
    elif kind is AnswerType.NUMBER:
        yield from _numbers(query, sentence)
    elif kind in _NAMED and language != "de" and not any(map(is_spaceless, sentence)):
        # German nouns have capitals, too; scripts without spaces have none.
        yield from _names(sentence, is_any=kind is not AnswerType.NAME)


_NAMED = (AnswerType.PERSON, AnswerType.PLACE, AnswerType.NAME)


def _dates(query: str, sentence: str) -> Iterator[Span]:
    wants_year = _LOOK["which_year"].search(query) is not None
    for found in _LOOK["date"].finditer(sentence):
        year = _LOOK["a_year"].search(found[0]) if wants_year else None
        if year is None:
            yield Span(*found.span())
        else:
            yield Span(found.start() + year.start(), found.start() + year.end())


def _numbers(query: str, sentence: str) -> Iterator[Span]:
    """With a unit where the question names none; those of dates where there are no others."""
    numbers = [Span(*found.span()) for found in _LOOK["number"].finditer(sentence)]
    if _LOOK["measured"].search(query):
        units = [(one, _LOOK["unit"].match(sentence, one.end)) for one in numbers]
        numbers = [Span(one.start, unit.end()) for one, unit in units if unit] or numbers
    elif _LOOK["share"].search(query):
        shares = [one for one in numbers if _LOOK["a_share"].search(sentence[one.start : one.end])]
        numbers = shares or numbers
    dates = [range(*found.span()) for found in _LOOK["date"].finditer(sentence)]
    outside = [one for one in numbers if not any(one.start in date for date in dates)]
    yield from outside or numbers


def _names(sentence: str, *, is_any: bool) -> Iterator[Span]:
    """Runs of words with capitals; a single word that begins the sentence has one anyway."""
    for found in _NAMES["name"].finditer(sentence):
        start, end = found.span()
        while (word := _FIRST_WORD.match(sentence, start, end)) and _is_common(word[1]):
            start = word.end()
        name = sentence[start:end]
        if (start == 0 and name.isalpha()) or _is_common(name) or _LOOK["date"].fullmatch(name):
            continue
        if is_any or _NAMES["like_a_name"].search(name):
            yield Span(start, end)


def _is_common(word: str) -> bool:
    return word.lower() in _common_words()


@cache
def _common_words() -> frozenset[str]:
    """What begins a sentence more often than a name."""
    more = table("ragbench.text", "question")["no_names"]
    return frozenset((*function_words()["en"].split(), *more.split()))
