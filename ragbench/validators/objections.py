"""Why a passage that looks like an answer is none: checks of the text alone, without a model.

Each is narrow: it objects only where it is nearly always right, and costs few right answers
(`docs/validators.md` has both). Words alone and a reader's span are held against the same checks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ragbench.text.question import AnswerType, asked_type, holds_type, parse_question
from ragbench.text.sentences import Span, split_sentences
from ragbench.text.tokens import normalise, tokenise


@dataclass(frozen=True, kw_only=True, slots=True)
class Objection:
    """What speaks against a passage."""

    kind: str
    """``"number"``, ``"unknown"``, ``"opposite"``, ``"negation"``, ``"asked"`` or, of a model,
    ``"near miss"`` or ``"other question"``."""
    text: str
    """In a sentence."""


NEAR_MISS = Objection(kind="near miss", text="it is on the topic, and answers another question")
"""Of a model that was asked a second time."""


_ANTONYMS = """first last|minimum maximum|before after|most least|largest smallest|biggest smallest
highest lowest|oldest youngest|longest shortest|earliest latest|best worst|northern southern
north south|east west|eastern western|increase decrease|increased decreased|more fewer|above below
male female|men women|started stopped|won lost|win lose|born killed
upper lower|inside outside|internal external|public private|import export|imports exports
join leave|joined left|rich poor|early late|major minor|positive negative|allowed forbidden
accept reject|accepted rejected|supported opposed|support oppose|adults children|summer winter
created destroyed|built demolished|opened closed|always never
include exclude|included excluded|majority minority|ancient modern|cause prevent|caused prevented
rise fall|rose fell|gain lose|founded dissolved|appointed dismissed|victory defeat
advantage disadvantage|advantages disadvantages|attacked defended"""


def _both_ways(pairs: str) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for pair in re.split(r"[|\n]", pairs):
        one, other = pair.split()
        found[one] = (*found.get(one, ()), other)
        found[other] = (*found.get(other, ()), one)
    return found


ANTONYMS = _both_ways(_ANTONYMS)
"""English words of which one cannot stand for the other, both ways, in small letters."""
_IRREGULAR = {"won": "win", "lost": "lose", "loss": "lose", "rose": "rise", "fell": "fall"}
_AMBIGUOUS = re.compile(r"open|clos")
"""In one form only: what is close to the station is not closed."""


@lru_cache(maxsize=8192)
def _stem(word: str) -> str:
    """One form for all of a word: lost, loses and losing are one word here."""
    if _AMBIGUOUS.match(word):
        return word
    return "".join(tokenise(_IRREGULAR.get(word, word)))


@lru_cache(maxsize=1)
def _opposites() -> Mapping[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for word, others in ANTONYMS.items():
        stem = _stem(word)
        found[stem] = found.get(stem, frozenset()) | frozenset(map(_stem, others))
    return found


_NUMBER = re.compile(r"(?<![\w.,-])\d+(?:[.,]\d+)*(?:s\b)?(?![\w-])")
_OWN_CASE = re.compile(r"\b(?:i|my|me|we|our|us)\b", re.IGNORECASE)
_SPELLED = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve"),
)
UNKNOWN = re.compile(
    r"\b(?:is|are|was|were|remains?|still) (?:still |yet |currently )?(?:unknown|unclear"
    r"|undisclosed|unspecified|a mystery|an open question|under (?:discussion|investigation))\b"
    r"|\b(?:not|never|n't)(?: yet)?(?: been)? (?:known|recorded|reported|disclosed|announced"
    r"|published|revealed|determined|specified|documented|decided)\b"
    r"|\b(?:nobody|no ?one) (?:knows|remembers)\b|\b(?:we|they|i) (?:do not|don['’]t) know\b"
    r"|\bno (?:records?|figures?|sources?) (?:of|for|is|are|tells?|says?|exists?)\b"
    r"|\b(?:to be (?:determined|announced|confirmed)|tbd|tba)\b|:\s*n/a\b"
    r"|\bavailable (?:up)?on request\b|\bcannot be (?:determined|said|known)\b",
    re.IGNORECASE,
)
_CENTURIES = re.compile(r"s$")


_NOT = re.compile(r"\b(?:not|never|cannot)\b|n['’]t\b", re.IGNORECASE)
_FACT = re.compile(
    r"\s*(?:(?:in|on|at|for|to|by|from|with|of) )?(?:who|whom|whose|what|which|when|where)\b"
    r"(?! (?:if|to|caus|happens?|should)\b)",
    re.IGNORECASE,
)
"""A question of fact. "Why does it not start?" is answered by what makes it start."""
_CONDITION = re.compile(
    r"\b(?:if|whether|unless|caus\w+|i|my|me|we|our|you|your|only)\b|\bwhen (?!(?:is|are|was|were"
    r"|did|do|does|has|have|had|can|could|will|would|should)(?:n['’]t)?\b)",
    re.IGNORECASE,
)
_DENIES = re.compile(
    r"\b(?:not?|never|none|nor|neither|nobody|nothing|nowhere|cannot|without|lack\w*|fail\w*"
    r"|refus\w*|reject\w*|except\w*|exclu\w*|exempt\w*|instead|only|hardly|rarely|den(?:y|ied|ies)"
    r"|unlike|forbid\w*|prohibit\w*|ban(?:ned|s)?|avoid\w*|prevent\w*|stop\w*|oppos\w*|against"
    r"|absen\w+|un\w{4,}|non\w+|dis\w{4,}|\w*less|(?:other|rather) than"
    r"|in(?:active|valid|ability|capable|complete|correct|dependent|sufficient|eligible|accurate"
    r"|visible|formal|direct|effective)\w*|im(?:possib|proper|perfect|moral|mobile)\w*)\b"
    r"|n['’]t\b|\bnon-",
    re.IGNORECASE,
)
_AFFIRMED = 0.6
"""Share of the question's words from which on a sentence says what the question denies."""

_AUXILIARY = (
    r"(?:is|are|was|were|did|do|does|has|have|had|will|would|can|could|should)(?:n['’]t)?\b"
)
_COUNTED = (
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twent\w+"
    r"|thirt\w+|fort(?:y|ies)|fift\w+|sixt\w+|sevent\w+|eight\w+|ninet\w+"
)
_KIND: tuple[tuple[re.Pattern[str], re.Pattern[str], str], ...] = tuple(
    (re.compile(asks, re.IGNORECASE), re.compile(holds, re.IGNORECASE), named)
    for asks, holds, named in (
        (
            r"\W*(?:(?:in|on|by|since|from|during|until) )?(?:what|which) (?:\w+ )?"
            r"(?:year|date|century|decade)\b",
            rf"{_COUNTED}|years?|january|february|march|april|may|june|july|august|september|october"
            r"|november|december)\b|\bcentur|\bdecade",
            "date",
        ),
        (
            rf"\W*(?:since )?when {_AUXILIARY}",
            rf"{_COUNTED}|when(?:ever)?|while|during|after\w*|before|until|till|since|once|upon|ago"
            r"|later|earlier|early|late|now|today|tonight|yesterday|tomorrow|soon|immediately|always"
            r"|never|often|usually|every|each|daily|weekly|monthly|yearly|annual\w*|noon|midnight"
            r"|days?|weeks?|months?|years?|hours?|minutes?|morning|evening|afternoon|night|spring"
            r"|summer|autumn|winter|seasons?|ages?|eras?|periods?|epochs?|reign\w*|wars?|times?"
            r"|moment|dates?|birth|death|end|beginning|start|first|last|second|as|at|by|if|\w+ day"
            r"|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|january|february|march|april|may|june"
            r"|july|august|september|october|november|december|renaissance|easter|christmas"
            r"|older|younger|child\w*|adult\w*)\b|\bcentur|\bdecade",
            "time",
        ),
        (
            r"\W*how many\b",
            rf"{_COUNTED}|no|none|zero|hundreds?|thousands?|millions?|billions?|trillions?|dozens?"
            r"|half|thirds?|quarters?|once|twice|thrice|single|both|pair|couples?|doubled?|tripled?"
            r"|several|many|few|most|all|every|each|numerous|majority|minority|never|some|any"
            r"|unlimited|infinit\w+|percent|solo|duo|trio|first|second|an?)\b",
            "number",
        ),
    )
)
"""What a question asks for by its first words, what any answer to it holds, and its name."""


def object_to(query: str, text: str, answer: Span) -> Objection | None:
    sentence = _around(text, answer)
    return (
        _other_number(query, text)
        or _says_unknown(query, sentence)
        or _says_opposite(query, sentence)
        or _affirms(query, sentence)
        or _lacks_kind(query, sentence)
    )


def _around(text: str, answer: Span) -> str:
    held = [
        one for one in split_sentences(text) if one.start < answer.end and answer.start < one.end
    ]
    return text[held[0].start : held[-1].end] if held else text[slice(*answer)]


def _other_number(query: str, text: str) -> Objection | None:
    """A number of the question that stands nowhere in the chunk, as digits or as a word.

    Who asks of a case of their own ("I drove 240 km") is answered by a rule that does not name it.
    """
    if _OWN_CASE.search(query):
        return None
    plain = normalise(text)
    for number in _NUMBER.findall(normalise(query)):
        digits = _CENTURIES.sub("", number).replace(",", "")
        written = plain.replace(",", "")
        if number.endswith("s") and len(digits) == 4:
            century = f"{int(digits[:2]) + 1}th" if digits.endswith("00") else None
            found = digits[:3] in written or (century is not None and century in written)
        elif digits.isdigit() and int(digits) < len(_SPELLED):
            spelled = _SPELLED[int(digits)]
            found = (
                re.search(rf"(?<!\d){digits}(?!\d)|\b{spelled}\b|\b[ivx]+\b", written) is not None
            )
        else:
            found = re.search(rf"(?<!\d){re.escape(digits)}(?!\d)", written) is not None
        if not found:
            return Objection(kind="number", text=f"'{number}' of the query stands nowhere in it")
    return None


def _says_unknown(query: str, sentence: str) -> Objection | None:
    """That it is unknown, where nothing of the asked kind stands beside it."""
    found = UNKNOWN.search(sentence)
    if found is None or found[0].split()[-1].lower() in query.lower():
        return None  # a question about what is unknown
    kind = asked_type(query)
    telling = (AnswerType.DATE, AnswerType.NUMBER, AnswerType.PERSON)
    if kind in telling and holds_type(sentence, kind, frozenset(tokenise(query))):
        return None
    return Objection(kind="unknown", text=f"it says '{found[0].strip(' :')}'")


def _says_opposite(query: str, sentence: str) -> Objection | None:
    """A word of the question is missing there, and its opposite is said."""
    said = {_stem(word): word for word in re.findall(r"[a-z]+", sentence.lower())}
    asked = {_stem(word): word for word in re.findall(r"[a-z]+", query.lower())}
    for stem, word in asked.items():
        if stem in said:
            continue
        for other in sorted(_opposites().get(stem, ())):
            if other in said and other not in asked:
                return Objection(kind="opposite", text=f"it says '{said[other]}', not '{word}'")
    return None


def _affirms(query: str, sentence: str) -> Objection | None:
    """The question asks what is not so, and the sentence says the same without any denial."""
    if not (_NOT.search(query) and _FACT.match(query)) or _CONDITION.search(query):
        return None
    if "whether or not" in query.lower() or _DENIES.search(sentence):
        return None
    asked = frozenset(parse_question(_NOT.sub(" ", query)).tokens)
    if len(asked & frozenset(tokenise(sentence))) < _AFFIRMED * len(asked):
        return None
    return Objection(kind="negation", text="it says what is so, and the query asks what is not")


def _lacks_kind(query: str, sentence: str) -> Objection | None:
    """A date, a time or a number is asked for, and none is said."""
    for asks, holds, named in _KIND:
        if asks.match(query) and not holds.search(sentence):
            return Objection(kind="asked", text=f"it names no {named}")
    return None
