"""The kind of answer that a question asks for, whether a text holds such a thing, and where."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

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
    """A question taken apart for matching against sentences: language, telling tokens, kind.

    A sentence answers a question more likely if it has more of the question's telling tokens.
    """
    text = normalise(query)
    language = guess_language(query)
    # In the question's order, as the pairs need it.
    tokens = tokenise(text)
    # Only some languages have fillers; a question of fillers alone keeps them.
    if language in table("ragbench.text", "question")["fillers"]:
        tokens = _without_fillers(text, language) or tokens
    functional_tokens = function_tokens(language)
    content_tokens = [token for token in tokens if token not in functional_tokens]
    if not content_tokens:
        content_tokens = tokens
    content_set = set(content_tokens)
    # Pairs of common words alone are in every text.
    pairs = [pair for pair in pairwise(tokens) if not content_set.isdisjoint(pair)]
    wants_number = _RULES["wants_number"].search(text) is not None
    return ParsedQuestion(
        language=language,
        tokens=tuple(dict.fromkeys(content_tokens)),  # each once, in reading order
        pairs=frozenset(pairs),
        wants_number=wants_number,
    )


def _without_fillers(text: str, language: str) -> list[str]:
    """The tokens of a question in a language without spaces, once its function words are cut out.

    Tokens of such a language are pairs of characters. So a single one that is left between two
    fillers is no token that a sentence could hold.

    Args:
        text: the question as `normalise` gives it.
    """
    unfilled = _FILLERS[language].sub(" ", text)
    return [token for token in tokenise(unfilled) if len(token) > 1 or token.isascii()]


def holds_number(text: str) -> bool:
    """Whether a text holds a digit, a number word or the name of a month.

    Where the question asks "how many" or "when", such a sentence may be its answer.
    """
    return _RULES["number_word"].search(normalise(text)) is not None


@lru_cache(maxsize=16)
def function_tokens(language: str) -> frozenset[str]:
    """The tokens of a language's function words, such as "the".

    They are in every sentence, and so show no match of a question and a sentence.
    """
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
    """The kind of answer that a question asks for, such as a date; ``OTHER`` where it is unknown.

    The order of `AnswerType` decides where a question fits two kinds.
    """
    text = normalise(query)
    for kind in AnswerType:
        # `OTHER` has no pattern: it is the type of a question that no pattern fits.
        if kind is AnswerType.OTHER:
            continue
        if _ASKED[kind].search(text):
            return kind
    return AnswerType.OTHER


_NAMED = (AnswerType.PERSON, AnswerType.PLACE, AnswerType.NAME)
"""Kinds of answers that are names."""


def holds_type(text: str, kind: AnswerType, query_tokens: frozenset[str]) -> bool:
    """Whether a text holds something of a kind of answer that the question does not say itself.

    The lexical validator prefers sentences with a date where the question asks for one. Where it
    cannot be known whether a text has one, the answer is yes.

    Args:
        query_tokens: the tokens of the question.
    """
    # Before the text is read: nothing is asked for that could be missing.
    if kind is AnswerType.OTHER:
        return True
    plain = normalise(text)
    if kind is AnswerType.REASON:
        return _RULES["reason"].search(plain) is not None
    # Scripts without capitals may hold a name at any place.
    if kind in _NAMED and _may_hold_any_name(text, kind):
        return True
    candidates: list[str]
    if kind is AnswerType.DATE:
        candidates = _RULES["date"].findall(plain)
    elif kind is AnswerType.NUMBER:
        words = [word.strip(".,;:()") for word in plain.split()]
        candidates = [word for word in words if _RULES["number_in_text"].search(word)]
    else:
        # The text with its capitals, which names are known by.
        candidates = _RULES["capitalised"].findall(text)
        if kind is AnswerType.PERSON:
            candidates += _RULES["people"].findall(plain)
    # A candidate that the question has itself answers nothing.
    return any(query_tokens.isdisjoint(tokenise(candidate)) for candidate in candidates)


def _may_hold_any_name(text: str, kind: AnswerType) -> bool:
    """Whether a text may hold a name that cannot be seen, or holds a preposition of place.

    In scripts without capitals names look like other words.

    Args:
        kind: of the answer that is asked for, one of `_NAMED`.
    """
    if not text.isascii():
        has_capitals = any(letter.isupper() for letter in text)
        if not has_capitals:  # in such a script names look like other words
            return True
    if kind is not AnswerType.PLACE:
        return False
    return _RULES["preposition"].search(text) is not None


def said_as_clause(question: str) -> str | None:
    """A question as part of a sentence: "when X was built" for "When was X built?".

    "It is not stated here when X was built" is a text without an answer, by which a validator is
    tested. None where the question begins otherwise than with a question word.
    """
    text = question.strip().rstrip(" ?")
    thing = _RULES["thing"].match(text)
    if thing is not None:  # "What is the limit?" -> "what the limit is"
        verb, subject = thing.groups()
        return f"what {subject} {verb}"
    clause = _RULES["clause"].match(text[:1].lower() + text[1:])
    if clause is None:
        return None
    question_words, words = clause.groups()
    return f"{question_words} {_subject_before_verb(words)}"


def _subject_before_verb(words_of_question: str) -> str:
    """The words behind a question word as in a statement: "X was built" for "was X built".

    The verb goes before the last participle; where there is none, to the end.
    """
    verb, *words = words_of_question.split()
    if not words:
        return words_of_question
    # In "which rooms are not heated" the subject is before the verb already.
    if words[0] in ("not", "never"):
        return words_of_question
    if verb.lower() in ("did", "does", "do"):
        return " ".join(words)
    if not _RULES["auxiliary"].fullmatch(verb.lower()):
        return words_of_question
    # The verb goes before the last participle; without one, to the end: "how high X is".
    place_of_verb = len(words)
    for position in range(len(words) - 1, 0, -1):
        if _RULES["participle"].search(words[position]):
            place_of_verb = position
            break
    words.insert(place_of_verb, verb)
    return " ".join(words)


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
"""A word with the space behind it: the last word of a name never matches."""
_COMMA_WORDS = 3
"""Words that a comma counts as."""
_LONGEST_SENTENCE = 2_000
"""Letters of a sentence: longer ones are tables or text without marks."""


def answer_span(query: str, question: ParsedQuestion, sentence: str) -> Span | None:
    """The part of a sentence that a question asks for.

    Of the dates, numbers or names that the question does not say itself, the one whose distance to
    the question's tokens in the sentence is the least: the sum of ``1 / (1 + words between)`` over
    these tokens is the largest. None where answers of that kind have no look of their own, or
    nothing of that kind is in the sentence.

    A short answer is quoted from the sentence by it. Another result for any sentence needs another
    `SPANS_VERSION`.
    """
    # Each token is compared with each candidate: a very long sentence would take seconds.
    if len(sentence) > _LONGEST_SENTENCE:
        return None
    query_tokens = frozenset(question.tokens)
    words = _words_with_places(sentence)
    query_places: list[tuple[int, str]] = []
    for word in words:
        tokens = tokenise(word.match[0])
        for token in query_tokens.intersection(tokens):
            query_places.append((word.place, token))
    best_span: Span | None = None
    highest = 0.0
    for span in _possible_answers(query, question.language, sentence):
        tokens = tokenise(sentence[span.start : span.end])
        if not query_tokens.isdisjoint(tokens):
            continue  # the question says it itself
        nearness = _nearness(span, words, query_places)
        # Of parts that are equally near the first one: `>` keeps it.
        if best_span is None or nearness > highest:
            best_span = span
            highest = nearness
    return best_span


class _Word(NamedTuple):
    """A word of a sentence."""

    place: int
    """How many words are before it, where a comma counts as several."""
    match: re.Match[str]


def _words_with_places(sentence: str) -> list[_Word]:
    """Each word of a sentence with its place; a comma or its like parts words further.

    What belongs together is seldom parted by a comma. The distance of an answer to the question's
    words is counted by it.
    """
    words: list[_Word] = []
    place = 0
    for piece in _NAMES["piece"].finditer(sentence):
        if piece["word"]:
            words.append(_Word(place, piece))
            place += 1
        else:
            # A comma counts as so many words between.
            place += _COMMA_WORDS
    return words


def _nearness(span: Span, words: Sequence[_Word], query_places: Sequence[tuple[int, str]]) -> float:
    """How near a part of a sentence is to the question's tokens, each where it is nearest.

    The sum of ``1 / (1 + words between)`` over the tokens. Of several dates or names in a sentence
    the nearest one is the answer. Another result gives another span: see `SPANS_VERSION`.

    Args:
        span: the part.
        words: of the sentence.
        query_places: where in the sentence each token of the question is, as `_Word.place`.
    """
    # Places of words, counted within the sentence: letters would favour short words.
    span_places: list[int] = []
    for word in words:
        if span.start < word.match.end() and word.match.start() < span.end:
            span_places.append(word.place)
    nearness_by_token: dict[str, float] = {}
    for place, token in query_places:
        words_between = 0
        # A part without a word has no place, and counts as near to all.
        if span_places:
            # One of the two is the distance and the other negative; for a token within the part
            # both are.
            words_behind_token = span_places[0] - place - 1
            words_before_token = place - span_places[-1] - 1
            words_between = max(0, words_behind_token, words_before_token)
        nearness = 1 / (1 + words_between)
        # A token that comes twice counts once, by its nearest place.
        nearness_by_token[token] = max(nearness_by_token.get(token, 0.0), nearness)
    return sum(nearness_by_token.values())


def _possible_answers(query: str, language: str, sentence: str) -> Iterator[Span]:
    """The spans of a sentence that may answer a question: dates, numbers or names, as it asks for.

    Nothing where the kind of answer has no look of its own. Another result gives another span: see
    `SPANS_VERSION`.
    """
    kind = asked_type(query)
    if kind is AnswerType.DATE:
        wants_year = _LOOK["which_year"].search(query) is not None
        for date in _LOOK["date"].finditer(sentence):
            start, end = date.span()
            # "In which year" is answered by the year of a whole date alone.
            if wants_year:
                year = _LOOK["a_year"].search(date[0])
                if year is not None:
                    end = start + year.end()
                    start += year.start()
            yield Span(start, end)
    elif kind is AnswerType.NUMBER:
        yield from _possible_numbers(query, sentence)
    elif kind in _NAMED and language != "de" and not any(map(is_spaceless, sentence)):
        # German nouns have capitals, too; scripts without spaces have none.
        yield from _possible_names(sentence, is_any=kind is not AnswerType.NAME)


def _possible_numbers(query: str, sentence: str) -> Iterator[Span]:
    """The spans of a sentence's numbers that may answer a question for a number.

    "How long" is answered by a number with a unit, "what share" by a percentage, and none of both
    by the year of a date. Where the sentence has no such number, each of its numbers may be one.
    Another result gives another span: see `SPANS_VERSION`.
    """
    # All numbers are kept where the narrower choice finds none: an answer may lack its unit.
    numbers = [Span(*number.span()) for number in _LOOK["number"].finditer(sentence)]
    if _LOOK["measured"].search(query):
        numbers = _with_units(numbers, sentence) or numbers
    elif _LOOK["share"].search(query):
        shares: list[Span] = []
        for number in numbers:
            if _LOOK["a_share"].search(sentence[number.start : number.end]):
                shares.append(number)
        numbers = shares or numbers
    dates = [range(*date.span()) for date in _LOOK["date"].finditer(sentence)]
    outside_dates: list[Span] = []
    for number in numbers:
        is_in_date = any(number.start in date for date in dates)
        if not is_in_date:
            outside_dates.append(number)
    # A year within a date is a number only where there is no other.
    yield from outside_dates or numbers


def _with_units(numbers: Sequence[Span], sentence: str) -> list[Span]:
    """The numbers of a sentence that have a unit, each as a span with its unit: "5 days".

    They answer questions such as "how long".
    """
    with_units: list[Span] = []
    for number in numbers:
        # Right behind the number; "for 5 of the days" has no unit.
        unit = _LOOK["unit"].match(sentence, number.end)
        if unit is not None:
            with_units.append(Span(number.start, unit.end()))
    return with_units


def _possible_names(sentence: str, *, is_any: bool) -> Iterator[Span]:
    """The spans of a sentence's names: runs of words with capitals.

    A word with a capital at the beginning of a sentence is no name for that alone. Another result
    gives another span: see `SPANS_VERSION`.

    Args:
        is_any: False: only several words, or one like "Berlin". So abbreviations and the numbers of
            models are left out.
    """
    common_words = _common_words()
    for match in _NAMES["name"].finditer(sentence):
        start, end = match.span()
        # "The Louvre" and "In Paris": the words before the name have a capital, too.
        word = _FIRST_WORD.match(sentence, start, end)
        while word is not None and word[1].lower() in common_words:
            start = word.end()
            word = _FIRST_WORD.match(sentence, start, end)
        name = sentence[start:end]
        # The first word of a sentence has a capital anyway.
        is_only_first_word = start == 0 and name.isalpha()
        if is_only_first_word or name.lower() in common_words:
            continue
        if _LOOK["date"].fullmatch(name):  # the name of a month
            continue
        if is_any or _NAMES["like_a_name"].search(name):
            yield Span(start, end)


@cache
def _common_words() -> frozenset[str]:
    """Words that begin a sentence more often than names do: their capital shows no name.

    "The Louvre" is named without its "The".
    """
    function_words_of_english = function_words()["en"].split()
    further_words = table("ragbench.text", "question")["no_names"].split()
    return frozenset([*function_words_of_english, *further_words])
