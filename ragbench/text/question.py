"""What a question asks for, and whether a text holds such a thing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise

from ragbench.text.language import function_words, guess_language
from ragbench.text.tables import Patterns
from ragbench.text.tokens import normalise, tokenise


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedQuestion:
    """A question, taken apart for matching against sentences."""

    language: str
    """ISO 639-1 code, as guessed."""
    tokens: tuple[str, ...]
    """Its distinct content tokens, in reading order: function and question words are left out,
    unless it has no others."""
    pairs: frozenset[tuple[str, str]]
    """Tokens that stand side by side in it, at least one of them a content token."""
    wants_number: bool
    """Whether it asks for a number, an amount or a date."""


_RULES = Patterns("ragbench.text", "question")
_ASKED = Patterns("ragbench.text", "question", "asked")
_FILLERS = Patterns("ragbench.text", "question", "fillers")


def parse_question(query: str) -> ParsedQuestion:
    text = normalise(query)
    language = guess_language(query)
    tokens = tokenise(text)
    if language in _FILLERS:
        # A single character left between fillers is not a pair that a sentence could hold.
        rest = tokenise(_FILLERS[language].sub(" ", text))
        tokens = [token for token in rest if len(token) > 1 or token.isascii()] or tokens
    functional = _function_tokens(language)
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
def _function_tokens(language: str) -> frozenset[str]:
    return frozenset(tokenise(function_words().get(language, "")))


class AnswerType(StrEnum):
    """Kinds of answers that can be recognised by their look."""

    DATE = "date"
    """A day, a month, a year, a century."""
    NUMBER = "number"
    """How many, how much, how long."""
    PERSON = "person"
    """A name, or a group of people."""
    PLACE = "place"
    """Where."""
    NAME = "name"
    """Something called by a name: which city, what company."""
    REASON = "reason"
    """Why, how."""
    OTHER = "other"
    """Nothing that has a look of its own."""


def asked_type(query: str) -> AnswerType:
    """The kind of answer that a question asks for; ``OTHER`` where it is unknown."""
    text = normalise(query)
    return next(
        (AnswerType(kind) for kind in _ASKED if _ASKED[kind].search(text)), AnswerType.OTHER
    )


_NAMED = (AnswerType.PERSON, AnswerType.PLACE, AnswerType.NAME)


def holds_type(text: str, kind: AnswerType, asked: frozenset[str]) -> bool:
    """Whether a text holds something of a kind that the question does not say itself."""
    if kind in _NAMED:
        return _holds_name(text, kind, asked)
    plain = normalise(text)
    if kind is AnswerType.DATE:
        return _is_new(_RULES["date"].findall(plain), asked)
    if kind is AnswerType.NUMBER:
        words = [word.strip(".,;:()") for word in plain.split()]
        return _is_new(filter(_RULES["number_in_text"].search, words), asked)
    return kind is AnswerType.OTHER or _RULES["reason"].search(plain) is not None


def _holds_name(text: str, kind: AnswerType, asked: frozenset[str]) -> bool:
    if not text.isascii() and not any(letter.isupper() for letter in text):
        return True  # a script without capitals: names cannot be recognised
    if _is_new(_RULES["capitalised"].findall(text), asked):
        return True
    if kind is AnswerType.PERSON:
        return _is_new(_RULES["people"].findall(normalise(text)), asked)
    return kind is AnswerType.PLACE and _RULES["preposition"].search(text) is not None


def _is_new(found: Iterable[str], asked: frozenset[str]) -> bool:
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
