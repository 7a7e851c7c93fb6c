"""The part of a sentence that a question asks for: a date, a number, a name.

Told by the kind of the question and the look of the words alone; of several, the one that stands
nearest to the question's own words is taken. Where the kind is another, or nothing of it is there,
the whole sentence is the better answer, and there is no span.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ragbench.text.language import FUNCTION_WORDS
from ragbench.text.question import MONTHS, AnswerType, ParsedQuestion, asked_type
from ragbench.text.sentences import Span
from ragbench.text.tokens import is_spaceless, tokenise

SPANS_VERSION = "1"
"""Changes whenever the same sentence gives another span."""

# "may" and "march" are verbs, too.
_MONTH = rf"(?:(?-i:March|May)|(?!march|may\b)(?:{MONTHS}))\b(?:\.(?=\s?\d))?"
_YEAR = r"(?:1\d{3}|20\d\d)"
_ORDINAL = "(?:st|nd|rd|th)"
_ERA = r"(?:\s?(?:BCE?|CE|AD))?"
_PART_OF = r"(?:the\s+)?(?:(?:early|late|mid)[\s-]*)?"
_DATE = re.compile(
    rf"\b(?:\d{{1,2}}(?:{_ORDINAL}|\.)?\s+(?:of\s+|de\s+)?)?{_MONTH}"
    rf"(?:\s+\d{{1,2}}{_ORDINAL}?(?!\d))?(?:,?\s+(?:of\s+|de\s+)?{_YEAR})?"
    rf"|\b{_PART_OF}{_YEAR}s\b"
    rf"|\b{_PART_OF}\w+{_ORDINAL}[\s-]centur(?:y|ies)\b{_ERA}"
    r"|\b\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b"
    rf"|\b{_YEAR}(?:\s?[-–]\s?(?:{_YEAR}|\d\d))?\b{_ERA}"
    r"|\bAD\s\d{1,4}\b|\b\d{1,4}\s?(?:BCE?|AD|CE)\b"
    r"|\b(?:[01]?\d|2[0-3])[:.][0-5]\d\b(?:\s?[ap]\.?m\b\.?)?|\b1?\d\s?[ap]\.?m\b\.?"
    r"|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b"
    r"|(?<!\d)\d{1,4}\s?(?:年(?:\s?\d\d?\s?月(?:\s?\d\d?\s?日)?)?|月(?:\s?\d\d?\s?日)?|世[纪紀])",
    re.IGNORECASE,
)
_NUMBER_WORD = (
    "(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen"
    "|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
    "|hundred|thousand|million|billion|trillion|dozens?|half"
    "|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf)"
)
_PERCENT = r"\s?[%％]|\sper\s?cent\b"
_HAN_NUMBER = "〇一二三四五六七八九十百千万亿億两兩半"
_COUNTED = "[年月天日个個人名元次种種岁歲位台条條件家所座支倍转轉度]"
_NUMBER = re.compile(
    # A lone "one" is an article more often than a number.
    rf"(?<![{_HAN_NUMBER}\d.,])(?!一(?!{_COUNTED}))"
    rf"[{_HAN_NUMBER}\d](?:[{_HAN_NUMBER}\d.,]*[{_HAN_NUMBER}\d])?"
    rf"(?:{_COUNTED}|(?=[\u4e00-\u9fff]))"
    r"|(?:[$€£¥]|\b(?:USD|EUR|GBP|CHF|US\$)\s?)?(?<![\w.-])\d(?:[\d.,]*\d)?"
    r"(?:\s?[-–]\s?\d(?:[\d.,]*\d)?)?(?![-\d])"
    r"(?:\s(?:hundred|thousand|million|billion|trillion)\b)?"
    rf"(?:{_PERCENT}|\s?[€$£¥]|\s(?:EUR|USD|GBP|CHF)\b)?"
    rf"|\b{_NUMBER_WORD}(?:[\s-](?:and\s)?{_NUMBER_WORD})*\b(?:{_PERCENT})?",
    re.IGNORECASE,
)
_MEASURED = re.compile(
    r"\bhow (?:long|far|old|tall|large|big|high|deep|wide|fast|heavy)\b"
    r"|\bwie ?(?:lange|alt|hoch|weit)\b",
    re.IGNORECASE,
)
_UNIT = re.compile(
    r"\s?-?\s?(?:years?|months?|weeks?|days?|hours?|minutes?|seconds?|miles?|km|kilomet(?:er|re)s?"
    r"|met(?:er|re)s?|feet|foot|inch(?:es)?|cm|mm|kg|tons?|tonnes?|pounds?|acres?|mph"
    r"|square\s(?:miles?|kilomet(?:er|re)s?|met(?:er|re)s?|feet)|°[CF]?"
    r"|jahre?n?|monate?n?|wochen?|tage?n?|stunden?|minuten?|meter)\b",
    re.IGNORECASE,
)
_WHICH_YEAR = re.compile(
    r"\b(?:what|which) year\b|\bwelche[mns]? jahr\b|哪一?年|何年", re.IGNORECASE
)
_A_YEAR = re.compile(rf"{_YEAR}(?!\d)(?:\s?年)?")
_SHARE = re.compile(r"\b(?:per\s?cent(?:age)?|share|proportion)\b|%|百分|prozent", re.IGNORECASE)
_A_SHARE = re.compile(_PERCENT, re.IGNORECASE)
_CAPITAL = r"(?:[A-ZÀ-ÖØ-Þ][\w'’.-]*\w|[A-Z]\b\.?)"
_NAME = re.compile(
    rf"{_CAPITAL}(?:\s(?:(?:of|of the|de|la|de la|del|der|von|van|du|al|bin|ibn)\s)?{_CAPITAL})*"
)
_FIRST_WORD = re.compile(r"(\w+)\s+")
_LIKE_A_NAME = re.compile(r"\S\s+\S|[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ]+$")
_NOT_A_NAME = {
    *FUNCTION_WORDS["en"].split(),
    *("although", "also", "another", "between", "both", "during", "each", "however", "most"),
    *("other", "since", "some", "then", "thus", "until"),
}
_PIECE = re.compile(r"(?P<word>\w+(?:['’.-]\w+)*)|[,;:()，；：、（）]")
_PARTED = 3
"""Words that a comma counts as."""
_LONGEST = 2_000
"""Letters of a sentence: longer ones are tables or text without marks."""


def answer_span(query: str, question: ParsedQuestion, sentence: str) -> Span | None:
    """The part of a sentence that a question asks for.

    Of the dates, numbers or names that the question does not say itself, the one whose distance
    to the question's tokens in the sentence is the least: the sum of ``1 / (1 + words between)``
    over these tokens is the largest.

    None where the kind of the question is told by no look, or nothing of that kind is in the
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
    for piece in _PIECE.finditer(sentence):
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
    wants_year = _WHICH_YEAR.search(query) is not None
    for found in _DATE.finditer(sentence):
        year = _A_YEAR.search(found[0]) if wants_year else None
        if year is None:
            yield Span(*found.span())
        else:
            yield Span(found.start() + year.start(), found.start() + year.end())


def _numbers(query: str, sentence: str) -> Iterator[Span]:
    """With a unit where the question names none; those of dates where there are no others."""
    numbers = [Span(*found.span()) for found in _NUMBER.finditer(sentence)]
    if _MEASURED.search(query):
        units = [(one, _UNIT.match(sentence, one.end)) for one in numbers]
        numbers = [Span(one.start, unit.end()) for one, unit in units if unit] or numbers
    elif _SHARE.search(query):
        shares = [one for one in numbers if _A_SHARE.search(sentence[one.start : one.end])]
        numbers = shares or numbers
    dates = [range(*found.span()) for found in _DATE.finditer(sentence)]
    outside = [one for one in numbers if not any(one.start in date for date in dates)]
    yield from outside or numbers


def _names(sentence: str, *, is_any: bool) -> Iterator[Span]:
    """Runs of words with capitals; a single word that begins the sentence has one anyway."""
    for found in _NAME.finditer(sentence):
        start, end = found.span()
        while (word := _FIRST_WORD.match(sentence, start, end)) and _is_common(word[1]):
            start = word.end()
        name = sentence[start:end]
        if (start == 0 and name.isalpha()) or _is_common(name) or _DATE.fullmatch(name):
            continue
        if is_any or _LIKE_A_NAME.search(name):
            yield Span(start, end)


def _is_common(word: str) -> bool:
    return word.lower() in _NOT_A_NAME
