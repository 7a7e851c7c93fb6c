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

__all__ = [
    "ANTONYMS",
    "NEAR_MISS",
    "Objection",
    "object_to",
    "without_echo",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Objection:
    """What speaks against a passage."""

    kind: str
    """``"number"``, ``"unknown"``, ``"opposite"``, ``"negation"``, ``"asked"`` or, of a model,
    ``"near miss"``."""
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

_NUMBER = re.compile(r"(?<![\w.,-])\d+(?:[.,]\d+)*(?:s\b)?(?![\w-])")
_OWN_CASE = re.compile(r"\b(?:i|my|me|we|our|us)\b", re.IGNORECASE)
_SPELLED = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve"),
)
_UNKNOWN = re.compile(
    r"\b(?:is|are|was|were|remains?|still) (?:still |yet |currently )?(?:unknown|unclear"
    r"|undisclosed|unspecified|a mystery|an open question|under (?:discussion|investigation))\b"
    r"|\b(?:not|never|n't)(?: yet)?(?: been)? (?:known|recorded|reported|disclosed|announced"
    r"|published|revealed|determined|specified|documented|decided)\b"
    r"|\b(?:nobody|no ?one) (?:knows|remembers)\b|\bno (?:records?|figures?|sources?) (?:of|for|is"
    r"|are|tells?|says?|exists?)\b|\b(?:to be (?:determined|announced|confirmed)|tbd|tba)\b"
    r"|:\s*n/a\b|\bavailable (?:up)?on request\b|\bcannot be (?:determined|said|known)\b",
    re.IGNORECASE,
)
_BLANK = re.compile(
    r"\b(?:the|an|this|your|verified)? ?(?:answers?|answered|solution)\b.{0,60}\b(?:here|below|next"
    r"|following|stated|given|found|section|page|document|text|passage)\b"
    r"|\b(?:this|the following|these) (?:passage|page|text|document|article|section|chunk)s?\b"
    r".{0,40}\b(?:answer|explain|state|contain|describe|tell|relevant)\w*"
    r"|\b(?:see|read|go to|turn to)\b.{0,20}\b(?:page|next|section|chapter|appendix|below)\b"
    r"|\bpage \d+\b|_{3,}|\.{4,}|\bverified answer for\b"
    r"|\b(?:frequently asked|faq|table of contents|help cent(?:re|er)|contact us)\b",
    re.IGNORECASE,
)
_CLAIM = re.compile(
    r"\b(?:answers?|passage|document|relevant|explains?|instructions?)\b[^.!?\n]*$", re.IGNORECASE
)
"""A claim to hold the answer, right before the question: what follows is no reply to it."""
_PLACE_IN_BOOK = re.compile(
    r"\b(?:chapter|section|unit|page|exercise|question|part|figure|table)\s*[\d.]+|^\s*[\d.]+[.)]?\s",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"\s*(?:(?:in|on|at|for|to|by|from|with|of|about) )?"
    r"(?:who|whom|whose|what|when|where|why|which|how)\b",
    re.IGNORECASE,
)
_LEAST_NEW = 2
"""New content words behind a repeated question from which on something may be answered."""
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
    """What speaks against an answer.

    Args:
        query: the question.
        text: the chunk's text, with its title.
        answer: where the answer is said to stand in it.
    """
    sentence = _around(text, answer)
    return (
        _other_number(query, text)
        or _says_unknown(query, sentence)
        or _says_opposite(query, sentence)
        or _affirms(query, sentence)
        or _lacks_kind(query, sentence)
    )


def _around(text: str, answer: Span) -> str:
    """The sentences that hold a span."""
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
    found = _UNKNOWN.search(sentence)
    if found is None or found[0].split()[-1].lower() in query.lower():
        return None  # a question about what is unknown
    kind = asked_type(query)
    telling = (AnswerType.DATE, AnswerType.NUMBER, AnswerType.PERSON)
    if kind in telling and holds_type(sentence, kind, frozenset(tokenise(query))):
        return None
    return Objection(kind="unknown", text=f"it says '{found[0].strip(' :')}'")


def _says_opposite(query: str, sentence: str) -> Objection | None:
    """A word of the question is missing there, and its opposite is said."""
    said = frozenset(re.findall(r"[a-z]+", sentence.lower()))
    asked = re.findall(r"[a-z]+", query.lower())
    for word in asked:
        if word in said or word not in ANTONYMS:
            continue
        for other in ANTONYMS[word]:
            if other in said and other not in asked:
                return Objection(kind="opposite", text=f"it says '{other}', not '{word}'")
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


def without_echo(query: str, text: str) -> str | None:
    """A chunk without the question that it repeats: what it says beside it.

    Places stay: what is left out becomes spaces. A reply right behind the question that holds
    something new, of the kind that is asked for, keeps the question: "Opening hours? 8 to 17".

    Returns:
        None where the chunk does not repeat the question, or answers it right behind.
    """
    asks = _question_pattern(query)
    echoes = [] if asks is None else list(asks.finditer(text))
    asked = frozenset(tokenise(query))
    idle = [] if echoes else _nothing_new(query, asked, text)
    if not echoes and not idle:
        return None
    for one in echoes:
        claims = _CLAIM.search(text[max(0, one.start() - 80) : one.start()])
        if claims is None and _is_reply(query, asked, _behind(text, one.end())):
            return None
    places = [Span(*one.span()) for one in echoes] + idle
    if echoes:
        places += [one for one in split_sentences(text) if _BLANK.search(text[slice(*one)])]
    letters = list(text)
    for place in places:
        for at in range(place.start, place.end):
            letters[at] = " "
    return "".join(letters)


@lru_cache(maxsize=256)
def _question_pattern(query: str) -> re.Pattern[str] | None:
    """Finds the words of a question one behind the other, whatever stands between them."""
    words = re.findall(r"\w+", query)
    if len(words) < 3:
        return None
    # Keywords stand one behind the other in any text on them; only as a question are they one.
    end = r"\b(?:\s*\?+)?" if _ASKS.match(query) else r"\b\s*\?+"
    return re.compile(r"\b" + r"\W+".join(map(re.escape, words)) + end, re.IGNORECASE)


def _behind(text: str, at: int) -> str:
    """What stands behind a question, up to the next one; two sentences at most."""
    rest = text[at : at + 400].partition("?")
    kept = rest[0] if not rest[1] else re.sub(r"[^.!\n|]*$", "", rest[0])
    sentences = [kept[slice(*one)] for one in split_sentences(kept)]
    return " ".join(one for one in sentences[:2] if not _BLANK.search(one))


def _is_reply(query: str, asked: frozenset[str], behind: str) -> bool:
    if _UNKNOWN.search(behind):
        return False
    kind = asked_type(query)
    tokens = parse_question(behind).tokens
    new = [word for word in tokens if word not in asked and not word[0].isdigit()]
    if kind in (AnswerType.DATE, AnswerType.NUMBER):
        return holds_type(behind, kind, asked)
    return len(new) >= _LEAST_NEW


def _nothing_new(query: str, asked: frozenset[str], text: str) -> list[Span]:
    """Sentences that hold most of the question's words and no other: they cannot answer it."""
    if not _ASKS.match(query):
        return []  # "The shop is open on Sunday" has nothing new, and answers "Is it open?"
    content = frozenset(parse_question(query).tokens)
    shared = max(2, 0.6 * len(content))
    found: list[Span] = []
    for one in split_sentences(text):
        said = _PLACE_IN_BOOK.sub(" ", text[slice(*one)])
        # Most sentences share too little, which costs an eighth of taking them apart to see.
        if len(content.intersection(tokenise(said))) < shared:
            continue
        words = frozenset(parse_question(said).tokens)
        telling = frozenset[str]() if _BLANK.search(said) else words - asked
        if len(words & content) >= shared and not telling:
            found.append(one)
    return found
