"""What a question asks for, and whether a text holds such a thing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise

from ragbench.text.language import FUNCTION_WORDS, guess_language
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


# Languages without spaces: what asks, and particles, would otherwise blur into pairs of characters.
_FILLERS = {
    "zh": re.compile(
        "有?什么时候|什么时间|为什么|有?什么|何时|何地|为何|如何|怎么样?|怎样|有?哪一?[年天个位些里儿种家]"
        "|有?(?:多少|几)[年月天日次个人名元]?|有?多[久长大高]|谁|的|了|吗|呢|是|请问"
    ),
    "ja": re.compile(
        "いつ|どこ|だれ|誰|何|なに|なぜ|どの|どれ|どう|いくつ|いくら|ですか|ますか|でしょうか|ました"
        "|ます|です|は|が|を|の|に|で|と"
    ),
    "ko": re.compile(
        "무엇|언제|어디|누구|얼마|몇|어떤|어느|입니까|습니까|인가요|나요|은|는|이|가|을|를|의"
    ),
}
_WANTS_NUMBER = re.compile(
    r"\bwhen\b|\bhow (?:many|much|long|often|old|large|big|far|tall|high|fast|late|early)\b"
    r"|\b(?:what|which) (?:year|date|day|month|century|decade|time|percentage|number|amount)\b"
    r"|\bwann\b|\bwie ?(?:viele?|lange|oft|alt|gross|hoch|weit|spät|teuer)\b"
    r"|\bwelche[sm] (?:jahr|datum)\b"
    r"|\bquand\b|\bcombien\b|\bquelle (?:année|date)\b"
    r"|\bcuándo\b|\bcuánt[oa]s?\b|\bqué (?:año|fecha)\b"
    r"|\bquando\b|\bquant[eiao]s?\b|\bwanneer\b|\bhoeveel\b|\bhoe (?:lang|vaak|oud|groot)\b"
    r"|何时|什么时[候间]|哪一?[年天]|几|多少|多久|多长|多大|多高|いつ|いくつ|いくら|何[年月日人時個]"
    r"|언제|얼마|몇|\bкогда\b|\bсколько\b",
)
_NUMBER_WORD = re.compile(
    r"\d|[〇一二三四五六七八九十百千万亿億两兩半]"
    r"|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozens?|hundreds?"
    r"|thousands?|millions?|billions?|half|third|quarter|once|twice|daily|weekly|monthly|yearly"
    r"|january|february|march|april|june|july|august|september|october|november|december"
    r"|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|hundert|tausend|einmal|zweimal"
    r"|deux|trois|quatre|cinq|sept|huit|neuf|dix|cent|mille"
    r"|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|cien|mil"
    r"|due|tre|quattro|cinque|sei|sette|otto|nove|dieci|dois|três|quatro|oito|dez)\b"
)


def parse_question(query: str) -> ParsedQuestion:
    text = normalise(query)
    language = guess_language(query)
    filler = _FILLERS.get(language)
    tokens = tokenise(text)
    if filler is not None:
        # A single character left between fillers is not a pair that a sentence could hold.
        rest = tokenise(filler.sub(" ", text))
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
        wants_number=_WANTS_NUMBER.search(text) is not None,
    )


def holds_number(text: str) -> bool:
    """Whether a text holds a digit, a number word or the name of a month."""
    return _NUMBER_WORD.search(normalise(text)) is not None


@lru_cache(maxsize=16)
def _function_tokens(language: str) -> frozenset[str]:
    return frozenset(tokenise(FUNCTION_WORDS.get(language, "")))


class AnswerType(StrEnum):
    """Kinds of answers that can be told by their look."""

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
    """Nothing that its look would tell."""


MONTHS = (
    "january|february|march|april|may|june|july|august|september|october|november|december"
    "|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
    "|januar|februar|märz|mai|juni|juli|oktober|dezember"
    "|janvier|février|mars|avril|juin|juillet|août|septembre|octobre|novembre|décembre"
    "|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre"
)
"""Names of months, in small letters, as a pattern."""
_ASKED: tuple[tuple[AnswerType, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        (
            AnswerType.DATE,
            r"\bwhen\b|\b(?:what|which)(?: \w+)? (?:year|date|day|month|century|decade|era"
            r"|period)s?\b"
            r"|\bwann\b|\bwelche[mns]? (?:jahr|datum)|\bquand\b|\bcuándo\b|\bquando\b|\bwanneer\b"
            r"|什么时[候间]|何时|哪一?[年天月]|いつ|何[年月日]|언제|\bкогда\b",
        ),
        (
            AnswerType.NUMBER,
            r"\bhow (?:many|much|long|old|large|big|far|tall|high|fast|often|deep|wide|heavy)\b"
            r"|\bwhat (?:percent(?:age)?|number|proportion|fraction|share|amount|distance|age)\b"
            r"|\bwhat (?:is|was|are|were) the (?:population|percentage|number|cost|price|length)\b"
            r"|\bwie ?(?:viele?|lange|oft|alt|gross|hoch|weit|teuer)\b|\bcombien\b|\bcuánt[oa]s?\b"
            r"|\bquant[ieao]\b|\bhoeveel\b|多少|几[个位名人年]|多[久长大高]|いくつ|いくら|얼마|몇"
            r"|\bсколько\b",
        ),
        (
            AnswerType.PERSON,
            r"\bwho(?:m|se)?\b|\bwer\b|\bwen\b|\bwem\b|\bquién(?:es)?\b|\bchi\b|\bquem\b"
            r"|\bwie\b(?= \w+t )"
            r"|谁|誰|だれ|누구|\bкто\b|\bqui\b",
        ),
        (
            AnswerType.PLACE,
            r"\bwhere\b|\b(?:what|which) (?:city|country|state|region|town|place|location"
            r"|continent)\b"
            r"|\bwo(?:her|hin)?\b|\bdónde\b|\bdove\b|\bonde\b|\bwaar\b|\boù\b|哪里|何地|在哪|どこ"
            r"|어디|\bгде\b",
        ),
        (
            AnswerType.REASON,
            r"\bwhy\b|\bhow (?:do|does|did|can|could|is|are|was|were|to)\b|\bwarum\b"
            r"|\bwieso\b|\bpourquoi\b"
            r"|\bpor qué\b|\bperché\b|\bwaarom\b|为什么|为何|如何|怎[么样]|なぜ|왜|\bпочему\b",
        ),
        (AnswerType.NAME, r"\bwhich\b|\bwhat\b[^?]{0,40}\b(?:name|called|known|title|term)\b"),
    )
)
_DATE = re.compile(
    rf"\b(?:1\d{{3}}|20\d\d)s?\b|\b(?:{MONTHS})\b|\b\d{{1,2}}(?:st|nd|rd|th) centur"
    r"|\bcentur(?:y|ies)\b|\bdecades?\b|\b\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b"
    r"|\b(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday|today|yesterday|bc|ad|bce)\b"
    r"|(?<!\d)\d++\s*[年月日]|世纪|世紀"
)
_NUMBER_IN_TEXT = re.compile(
    r"\d|[〇一二三四五六七八九十百千万亿億两兩半]"
    r"|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen"
    r"|fourteen|fifteen"
    r"|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
    r"|dozens?|hundreds?|thousands?|millions?|billions?|half|third|quarter|once|twice|daily|weekly"
    r"|monthly|yearly|annual(?:ly)?|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|hundert|tausend"
    r"|deux|trois|quatre|cinq|sept|huit|neuf|dix|cent|mille|dos|tres|cuatro|cinco|seis|siete|ocho"
    r"|nueve|diez|cien|mil|due|tre|quattro|cinque|sette|otto|nove|dieci)\b"
)
_REASON = re.compile(
    r"\b(?:because|since|due to|so that|in order to|therefore|thus|caus\w+|reason\w*"
    r"|result\w*|by \w+ing"
    r"|to \w+|weil|damit|wegen|durch|car|parce|afin|porque|para|poiché|omdat|door)\b"
    r"|因为|由于|所以|通过|ため|から"
)
_CAPITALISED = re.compile(r"(?<![.!?]\s)(?<!^)\b[A-ZÀ-ÖØ-Þ][\w'’-]+")
_PEOPLE = re.compile(
    r"\b(?:people|men|women|children|members?|king|queen|president|minister|emperor|pope|soldiers?"
    r"|students?|workers?|users?|customers?|he|she|they|scientists?|researchers?|leaders?"
    r"|players?)\b"
)
_PREPOSITION = re.compile(r"\b(?:in|at|near|from|to|on|across|along|between|outside|inside|into)\b")


def asked_type(query: str) -> AnswerType:
    """The kind of answer that a question asks for; ``OTHER`` when nothing tells."""
    text = normalise(query)
    return next((kind for kind, pattern in _ASKED if pattern.search(text)), AnswerType.OTHER)


def holds_type(text: str, kind: AnswerType, asked: frozenset[str]) -> bool:
    """Whether a text holds something of a kind that the question does not say itself."""
    return _HOLDS[kind](text, asked)


def _new(found: list[str], asked: frozenset[str]) -> bool:
    return any(asked.isdisjoint(tokenise(one)) for one in found)


def _date(text: str, asked: frozenset[str]) -> bool:
    return _new(_DATE.findall(normalise(text)), asked)


def _number(text: str, asked: frozenset[str]) -> bool:
    words = [word.strip(".,;:()") for word in normalise(text).split()]
    return _new([word for word in words if _NUMBER_IN_TEXT.search(word)], asked)


def _name(text: str, asked: frozenset[str]) -> bool:
    if not text.isascii() and not any(letter.isupper() for letter in text):
        return True  # a script without capitals: names cannot be told
    return _new(_CAPITALISED.findall(text), asked)


def _person(text: str, asked: frozenset[str]) -> bool:
    return _name(text, asked) or _new(_PEOPLE.findall(normalise(text)), asked)


def _place(text: str, asked: frozenset[str]) -> bool:
    return _name(text, asked) or _PREPOSITION.search(text) is not None


def _reason(text: str, asked: frozenset[str]) -> bool:
    return _REASON.search(normalise(text)) is not None


def _always(text: str, asked: frozenset[str]) -> bool:
    return True


_HOLDS: dict[AnswerType, Callable[[str, frozenset[str]], bool]] = {
    AnswerType.DATE: _date,
    AnswerType.NUMBER: _number,
    AnswerType.PERSON: _person,
    AnswerType.PLACE: _place,
    AnswerType.NAME: _name,
    AnswerType.REASON: _reason,
    AnswerType.OTHER: _always,
}


_AUXILIARY = re.compile(
    r"\b(is|are|was|were|do|does|did|can|could|will|would|has|have|had|should)\b(?!n't| not)"
)
_PARTICIPLE = re.compile(
    r"(?:ed|en|wn|ne|ilt|old|aid|ade|ent|ound|orn|ept|ost|ought|aught|ld|ut|ing)$"
)
_THING = re.compile(r"what (is|was|are|were) ((?:the|a|an|his|her|its|their) .+)$", re.IGNORECASE)
_CLAUSE = re.compile(
    r"(in what \w+|in which \w+|what \w+|which \w+|how many \w+|how much|how long|how|when|where"
    r"|why|who|whom|what) (.+)$"
)


def said_as_clause(question: str) -> str | None:
    """A question as part of a sentence: "When was X built?" -> "when X was built".

    None where the question begins otherwise than with a question word.
    """
    text = question.strip().rstrip(" ?")
    thing = _THING.match(text)
    if thing:
        return f"what {thing[2]} {thing[1]}"
    found = _CLAUSE.match(text[:1].lower() + text[1:])
    return f"{found[1]} {_in_order(found[2])}" if found else None


def _in_order(rest: str) -> str:
    """Subject before verb: "was X built" -> "X was built"."""
    verb, *words = rest.split()
    if words[:1] in (["not"], ["never"]):
        return rest  # "which rooms are not heated": the subject stands before the verb
    if verb.lower() in ("did", "does", "do"):
        return " ".join(words) or rest
    if words and _AUXILIARY.fullmatch(verb.lower()):
        for at in range(len(words) - 1, 0, -1):
            if _PARTICIPLE.search(words[at]):
                return " ".join([*words[:at], verb, *words[at:]])
        return " ".join([*words, verb])
    return rest
