"""What speaks against a passage that looks like an answer, by its text alone, without a model.

Each check is narrow: it objects only where it is nearly always right, and costs few right answers
(`docs/measured/validators.md` has both). A passage that only repeats the question (indexes, exam
sheets, tickets, claims to answer) is near it in words and in meaning, and says nothing: what it
repeats is removed before words or a reader look at it, unless a reply follows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from ragbench.text.question import AnswerType, asked_type, holds_type, parse_question
from ragbench.text.sentences import Span, split_sentences
from ragbench.text.tables import Patterns, table
from ragbench.text.tokens import normalise, tokenise

_RULES = Patterns("ragbench.validators", "objections", flags=re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Objection:
    """What speaks against a passage."""

    kind: str
    """``"number"``, ``"unknown"``, ``"opposite"``, ``"negation"``, ``"asked"`` or, of a model,
    ``"near miss"``."""
    text: str


NEAR_MISS = Objection(kind="near miss", text="it is on the topic, and answers another question")
"""Of a model that was asked a second time."""


def object_to(query: str, text: str, answer: Span) -> Objection | None:
    sentence = _around(text, answer)
    # "Is smoking allowed?" is answered by "Smoking is forbidden".
    is_open = _RULES["yes_or_no"].match(query) is None
    return (
        (_other_number(query, text) if is_open else None)
        or _says_unknown(query, sentence)
        or (_says_opposite(query, sentence) if is_open else None)
        or _affirms(query, sentence)
        or _lacks_kind(query, sentence)
    )


def _around(text: str, answer: Span) -> str:
    held = [
        one for one in split_sentences(text) if one.start < answer.end and answer.start < one.end
    ]
    return text[held[0].start : held[-1].end] if held else text[slice(*answer)]


def _other_number(query: str, text: str) -> Objection | None:
    """A number of the question that stands nowhere in the chunk, as digits or as a word."""
    if _RULES["own_case"].search(query):
        return None
    plain = normalise(text).replace(",", "")
    for number in _RULES["number"].findall(normalise(query)):
        if not re.search(_forms(number), plain):
            return Objection(kind="number", text=f"'{number}' of the query stands nowhere in it")
    return None


def _forms(number: str) -> str:
    """How a number may be written: 1700s and 18th century, 2 and two and II."""
    digits = number.removesuffix("s").replace(",", "")
    spelled = table("ragbench.validators", "objections")["spelled"].split()
    if number.endswith("s") and len(digits) == 4:
        century = f"|{int(digits[:2]) + 1}th" if digits.endswith("00") else ""
        return f"{digits[:3]}{century}"
    exactly = rf"(?<!\d){re.escape(digits)}(?!\d)"
    if digits.isdigit() and int(digits) < len(spelled):
        return rf"{exactly}|\b{spelled[int(digits)]}\b|\b[ivx]+\b"
    return exactly


def _says_unknown(query: str, sentence: str) -> Objection | None:
    """That it is unknown, where nothing of the asked kind stands beside it."""
    found = _RULES["unknown"].search(sentence)
    if found is None or found[0].split()[-1].lower() in query.lower():
        return None  # a question about what is unknown
    kind = asked_type(query)
    distinct = (AnswerType.DATE, AnswerType.NUMBER, AnswerType.PERSON)
    if kind in distinct and holds_type(sentence, kind, frozenset(tokenise(query))):
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


@cache
def antonyms() -> Mapping[str, tuple[str, ...]]:
    """English words of which one cannot stand for the other, both ways, in small letters."""
    found: dict[str, tuple[str, ...]] = {}
    for pair in table("ragbench.validators", "objections")["antonyms"].split("|"):
        one, other = pair.split()
        found[one] = (*found.get(one, ()), other)
        found[other] = (*found.get(other, ()), one)
    return found


@cache
def _opposites() -> Mapping[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for word, others in antonyms().items():
        stem = _stem(word)
        found[stem] = found.get(stem, frozenset()) | frozenset(map(_stem, others))
    return found


@lru_cache(maxsize=8192)
def _stem(word: str) -> str:
    """One form for all of a word: lost, loses and losing are one word here."""
    if _RULES["ambiguous"].match(word):
        return word
    irregular = table("ragbench.validators", "objections")["irregular"]
    return "".join(tokenise(irregular.get(word, word)))


_AFFIRMED = 0.6
"""Share of the question's words from which on a sentence says what the question denies."""


def _affirms(query: str, sentence: str) -> Objection | None:
    """The question asks what is not so, and the sentence says the same without any denial."""
    if not (_RULES["not"].search(query) and _RULES["fact"].match(query)):
        return None
    if _RULES["condition"].search(query) or "whether or not" in query.lower():
        return None
    asked = frozenset(parse_question(_RULES["not"].sub(" ", query)).tokens)
    held = len(asked & frozenset(tokenise(sentence)))
    if _RULES["denies"].search(sentence) or held < _AFFIRMED * len(asked):
        return None
    return Objection(kind="negation", text="it says what is so, and the query asks what is not")


def _lacks_kind(query: str, sentence: str) -> Objection | None:
    """A date, a time or a number is asked for, and none is said."""
    for kind in ("date", "time", "number"):
        if _RULES[f"asks_{kind}"].match(query) and not _RULES[f"holds_{kind}"].search(sentence):
            return Objection(kind="asked", text=f"it names no {kind}")
    return None


# --- repeated questions

_AROUND = 80
"""Characters before and behind a repeated question that show what it is there for."""
_LEAST_NEW = 2
"""New content words behind a repeated question from which on something may be answered."""


def without_echo(query: str, text: str) -> str | None:
    """A chunk without the question that it repeats: what it says beside it.

    Places stay: what is removed becomes spaces. A reply right behind the question that holds
    something new, of the kind that is asked for, keeps the question: "Opening hours? 8 to 17".

    None where the chunk does not repeat the question, or answers it right behind.
    """
    echoes = list(_repeated(query, text))
    asked = frozenset(tokenise(query))
    idle = [] if echoes else _nothing_new(query, asked, text)
    if not echoes and not idle:
        return None
    if any(_is_answered(query, asked, text, one) for one in echoes):
        return None
    places = echoes + idle
    if echoes:
        promises = (one for one in split_sentences(text) if _promises(text[slice(*one)]))
        furniture = (Span(*one.span()) for one in _RULES["furniture"].finditer(text))
        places += [*promises, *furniture]
    letters = list(text)
    for place in places:
        letters[slice(*place)] = " " * (place.end - place.start)
    return "".join(letters)


def _promises(sentence: str) -> bool:
    return _RULES["promise"].search(sentence) is not None


@lru_cache(maxsize=256)
def _question_pattern(query: str) -> re.Pattern[str] | None:
    """Finds the words of a question one behind the other, whatever stands between them."""
    words = re.findall(r"\w+", query)
    if len(words) < 3:
        return None
    body = r"\W+".join(map(re.escape, words))
    return re.compile(rf"\b{body}\b(\W{{0,3}}\?+)?", re.IGNORECASE)


def _repeated(query: str, text: str) -> Iterator[Span]:
    """Where a text repeats the question as a question.

    Keywords, and the beginning of a sentence, stand one behind the other in any text on them: they
    count only with a question mark, apart from other text, or beside a promise.
    """
    pattern = _question_pattern(query)
    if pattern is None:
        return
    asks = _RULES["asks"].match(query) or _RULES["yes_or_no"].match(query)
    for found in pattern.finditer(text):
        before = text[max(0, found.start() - _AROUND) : found.start()]
        behind = text[found.end() : found.end() + _AROUND]
        if (
            asks
            or found[1]
            or _RULES["claim"].search(before)
            or (_RULES["apart_before"].search(before) and _RULES["apart_behind"].match(behind))
            or _RULES["promise"].match(behind.lstrip())
        ):
            yield Span(*found.span())


def _is_answered(query: str, asked: frozenset[str], text: str, echo: Span) -> bool:
    """Whether a reply stands right behind a repeated question: two sentences, up to the next."""
    before = text[max(0, echo.start - _AROUND) : echo.start]
    if _RULES["claim"].search(before) or _RULES["listed"].search(before.rpartition("\n")[2]):
        return False
    rest = text[echo.end : echo.end + 400].partition("?")
    kept = rest[0] if not rest[1] else re.sub(r"[^.!\n|]*$", "", rest[0])
    sentences = [kept[slice(*one)] for one in split_sentences(kept)][:2]
    if not sentences or kept.lstrip().startswith("/") or _promises(sentences[0]):
        return False
    behind = " ".join(one for one in sentences if not _promises(one))
    return _is_reply(query, asked, _RULES["furniture"].sub(" ", behind))


def _is_reply(query: str, asked: frozenset[str], behind: str) -> bool:
    if _RULES["unknown"].search(behind):
        return False
    kind = asked_type(query)
    if kind in (AnswerType.DATE, AnswerType.NUMBER):
        return holds_type(behind, kind, asked)
    label = _RULES["reply_label"].match(behind)
    said = behind if label is None else behind[label.end() :]
    if _RULES["yes_or_no"].match(query) and _RULES["yes"].match(said):
        return True
    new = [word for word in parse_question(said).tokens if word not in asked]
    if label is not None:
        return bool(new)
    words = [word for word in new if len(word) > 1 and not word[0].isdigit()]
    named = kind in (AnswerType.PERSON, AnswerType.PLACE, AnswerType.NAME)
    return len(words) >= (1 if named and said.strip()[:1].isupper() else _LEAST_NEW)


def _nothing_new(query: str, asked: frozenset[str], text: str) -> list[Span]:
    """Sentences that hold most of the question's words and no other: they cannot answer it."""
    content = frozenset(parse_question(query).tokens)
    shared = max(2, 0.6 * len(content))
    found: list[Span] = []
    for one in split_sentences(text):
        said = text[slice(*one)]
        if not (_RULES["asks"].match(query) or _RULES["listed"].search(said)):
            continue  # "The shop is open on Sunday" has nothing new, and answers "Is it open?"
        bare = _RULES["place_in_book"].sub(" ", _RULES["furniture"].sub(" ", said))
        # Most sentences share too little, which costs an eighth of taking them apart to see.
        if len(content.intersection(tokenise(bare))) < shared:
            continue
        if asked.issuperset(parse_question(_RULES["promise"].sub(" ", bare)).tokens):
            found.append(one)
    return found
