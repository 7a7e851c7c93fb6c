"""What a question asks for, whether a text holds such a thing, and where."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cache, lru_cache
from itertools import pairwise

from ragbench.core.record import Record
from ragbench.text.language import function_words, guess_language
from ragbench.text.sentences import Span
from ragbench.text.tables import Patterns, table
from ragbench.text.tokens import is_spaceless, normalise, tokenise


class ParsedQuestion(Record):
    """A question, taken apart for matching against sentences."""

    language: str
    """ISO 639-1 code, as guessed."""
    tokens: tuple[str, ...]
    """Its distinct content tokens, in reading order: without function and question words,
    unless it has no others."""
    pairs: frozenset[tuple[str, str]]
    """Neighbouring tokens in it, at least one of them a content token."""
    wants_number: bool
    """Whether it asks for a number, an amount or a date."""


_RULES = Patterns("ragbench.text", "question")
_ASKED = Patterns("ragbench.text", "question", "asked")
_FILLERS = Patterns("ragbench.text", "question", "fillers")


def parse_question(query: str) -> ParsedQuestion:
    text = normalise(query)
    language = guess_language(query)
    tokens = tokenise(text)
    if language in table("ragbench.text", "question")["fillers"]:
        # A single character left between fillers is not a pair that a sentence could hold.
        rest = tokenise(_FILLERS[language].sub(" ", text))
        tokens = [token for token in rest if len(token) > 1 or token.isascii()] or tokens
    functional = function_tokens(language)
    content = tuple(dict.fromkeys(token for token in tokens if token not in functional))
    if not content:
        content = tuple(dict.fromkeys(tokens))
    known = set(content)
    return ParsedQuestion(
        language=language,
        tokens=content,
        pairs=frozenset(pair for pair in pairwise(tokens) if not known.isdisjoint(pair)),
        wants_number=_RULES["wants_number"].search(text) is not None,
    )


def holds_number(text: str) -> bool:
    """Whether a text holds a digit, a number word or the name of a month."""
    return _RULES["number_word"].search(normalise(text)) is not None


@lru_cache(maxsize=16)
def function_tokens(language: str) -> frozenset[str]:
    """The tokens of words such as "the" and "is" in a language."""
    return frozenset(tokenise(function_words().get(language, "")))


class AnswerType(StrEnum):
    """Kinds of answers that can be recognised by their look; the first that is asked for counts."""

    DATE = "date"
    """A day, a month, a year, a century."""
    NUMBER = "number"
    """How many, how much, how long."""
    PERSON = "person"
    """A name, or a group of people."""
    PLACE = "place"
    """Where."""
    REASON = "reason"
    """Why, how."""
    NAME = "name"
    """Something called by a name: which city, what company."""
    OTHER = "other"
    """Nothing that has a look of its own."""


def asked_type(query: str) -> AnswerType:
    """The kind of answer that a question asks for; ``OTHER`` where it is unknown."""
    text, other = normalise(query), AnswerType.OTHER
    return next((one for one in AnswerType if one is other or _ASKED[one].search(text)), other)


_NAMED = (AnswerType.PERSON, AnswerType.PLACE, AnswerType.NAME)


def holds_type(text: str, kind: AnswerType, asked: frozenset[str]) -> bool:
    """Whether a text holds something of a kind that the question does not say itself."""
    plain = normalise(text)
    if kind is AnswerType.DATE:
        found = _RULES["date"].findall(plain)
    elif kind is AnswerType.NUMBER:
        words = [word.strip(".,;:()") for word in plain.split()]
        found = list(filter(_RULES["number_in_text"].search, words))
    elif kind in _NAMED:
        if not text.isascii() and not any(letter.isupper() for letter in text):
            return True  # a script without capitals: names cannot be recognised
        if kind is AnswerType.PLACE and _RULES["preposition"].search(text):
            return True
        people = _RULES["people"].findall(plain) if kind is AnswerType.PERSON else []
        found = [*_RULES["capitalised"].findall(text), *people]
    else:
        return kind is AnswerType.OTHER or _RULES["reason"].search(plain) is not None
    return any(asked.isdisjoint(tokenise(one)) for one in found)


def said_as_clause(question: str) -> str | None:
    """A question as part of a sentence: "When was X built?" -> "when X was built".

    None where the question begins otherwise than with a question word.
    """
    text = question.strip().rstrip(" ?")
    thing = _RULES["thing"].match(text)
    if thing:
        return f"what {thing[2]} {thing[1]}"
    found = _RULES["clause"].match(text[:1].lower() + text[1:])
    return f"{found[1]} {_in_order(found[2])}" if found else None


def _in_order(rest: str) -> str:
    """Subject before verb: "was X built" -> "X was built"."""
    verb, *words = rest.split()
    if words[:1] in (["not"], ["never"]):
        return rest  # "which rooms are not heated": the subject stands before the verb
    if verb.lower() in ("did", "does", "do"):
        return " ".join(words) or rest
    if words and _RULES["auxiliary"].fullmatch(verb.lower()):
        for at in range(len(words) - 1, 0, -1):
            if _RULES["participle"].search(words[at]):
                return " ".join([*words[:at], verb, *words[at:]])
        return " ".join([*words, verb])
    return rest


# --- where: the part of a sentence that a question asks for
#
# A date, a number or a name, found by the kind of the question and the look of the words; of
# several, the one nearest to the question's own words. Where the kind is another, or nothing of
# it is there, the whole sentence is the better answer, and there is no span.

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
        # How near it stands to the question's tokens, each where it is nearest.
        nearest: dict[str, float] = {}
        for at, token in said:
            between = max(0, covered[0] - at - 1, at - covered[-1] - 1) if covered else 0
            nearest[token] = max(nearest.get(token, 0.0), 1 / (1 + between))
        near = sum(nearest.values())
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


def _of_kind(query: str, language: str, sentence: str) -> Iterator[Span]:
    kind = asked_type(query)
    if kind is AnswerType.DATE:
        wants_year = _LOOK["which_year"].search(query) is not None
        for found in _LOOK["date"].finditer(sentence):
            year = _LOOK["a_year"].search(found[0]) if wants_year else None
            if year is None:
                yield Span(*found.span())
            else:
                yield Span(found.start() + year.start(), found.start() + year.end())
    elif kind is AnswerType.NUMBER:
        yield from _numbers(query, sentence)
    elif kind in _NAMED and language != "de" and not any(map(is_spaceless, sentence)):
        # German nouns have capitals, too; scripts without spaces have none.
        yield from _names(sentence, is_any=kind is not AnswerType.NAME)


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
    common = _common_words()
    for found in _NAMES["name"].finditer(sentence):
        start, end = found.span()
        while (word := _FIRST_WORD.match(sentence, start, end)) and word[1].lower() in common:
            start = word.end()
        name = sentence[start:end]
        is_first = start == 0 and name.isalpha()
        if is_first or name.lower() in common or _LOOK["date"].fullmatch(name):
            continue
        if is_any or _NAMES["like_a_name"].search(name):
            yield Span(start, end)


@cache
def _common_words() -> frozenset[str]:
    """What begins a sentence more often than a name."""
    more = table("ragbench.text", "question")["no_names"]
    return frozenset((*function_words()["en"].split(), *more.split()))
