"""What a question asks for: its content tokens, and whether it wants a number."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from ragbench.text.language import FUNCTION_WORDS, guess_language
from ragbench.text.tokens import normalise, tokenise

__all__ = ["Question", "holds_number", "parse_question"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
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
_NUMBER = re.compile(
    r"\d|[〇一二三四五六七八九十百千万亿億两兩半]"
    r"|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozens?|hundreds?"
    r"|thousands?|millions?|billions?|half|third|quarter|once|twice|daily|weekly|monthly|yearly"
    r"|january|february|march|april|june|july|august|september|october|november|december"
    r"|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|hundert|tausend|einmal|zweimal"
    r"|deux|trois|quatre|cinq|sept|huit|neuf|dix|cent|mille"
    r"|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|cien|mil"
    r"|due|tre|quattro|cinque|sei|sette|otto|nove|dieci|dois|três|quatro|oito|dez)\b"
)


def parse_question(query: str) -> Question:
    """Takes a question apart.

    Args:
        query: the question, in any language; languages without a list of function words keep all
            their tokens.
    """
    text = normalise(query)
    language = guess_language(query)
    filler = _FILLERS.get(language)
    tokens = tokenise(text)
    if filler is not None:
        # A single character left between fillers is no pair that a sentence could hold.
        rest = tokenise(filler.sub(" ", text))
        tokens = [token for token in rest if len(token) > 1 or token.isascii()] or tokens
    functional = _function_tokens(language)
    content = tuple(dict.fromkeys(token for token in tokens if token not in functional))
    if not content:
        content = tuple(dict.fromkeys(tokens))
    known = set(content)
    return Question(
        language=language,
        tokens=content,
        pairs=frozenset(pair for pair in pairwise(tokens) if not known.isdisjoint(pair)),
        wants_number=_WANTS_NUMBER.search(text) is not None,
    )


def holds_number(text: str) -> bool:
    """Whether a text holds a digit, a number word or the name of a month."""
    return _NUMBER.search(normalise(text)) is not None


@lru_cache(maxsize=16)
def _function_tokens(language: str) -> frozenset[str]:
    return frozenset(tokenise(FUNCTION_WORDS.get(language, "")))
