"""Questions that a passage only repeats: indexes, exam sheets, tickets, logs, claims to answer.

A passage with the question in it is near the question in words and in meaning, and says nothing.
What it repeats is left out before words or a reader look at it, unless a reply stands behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from ragbench.text.question import AnswerType, asked_type, holds_type, parse_question
from ragbench.text.sentences import Span, split_sentences
from ragbench.text.tokens import tokenise
from ragbench.validators.objections import UNKNOWN

_PROMISE = re.compile(
    r"\b(?:the|an|this|your|verified)? ?(?:answers?|answered|solution)\b.{0,60}\b(?:here|below|next"
    r"|following|stated|given|found|section|page|document|text|passage)\b"
    r"|\b(?:this|the following|these) (?:passage|page|text|document|article|section|chunk)s?\b"
    r".{0,40}\b(?:answer|explain|state|contain|describe|tell|relevant)\w*"
    r"|\b(?:see|read|go to|turn to)\b.{0,20}\b(?:page|next|section|chapter|appendix|below)\b"
    r"|\bverified answer for\b|\b(?:frequently asked|faq)\b"
    r"|\bsame (?:question|problem|issue|here)\b|\bme too\b|\bthanks in advance\b"
    r"|\b(?:no|0) (?:answers?|repl(?:y|ies)|responses?|results|matches|hits)\b"
    r"|\bcould(?:n['’]t| not) find\b|\b(?:any|some)(?:one|body) (?:help|know)\w*\b",
    re.IGNORECASE,
)
"""A sentence that promises an answer, sends elsewhere for it, or asks along: it is none itself."""
_LISTED = re.compile(
    r"(?:^|(?<=[\n|]))\s*(?:(?:related|popular|recent|trending|similar|suggested|top) (?:searches"
    r"|questions|queries|topics|articles|posts|pages)|people also (?:ask|asked|search|search for)"
    r"|most (?:viewed|read|asked|popular|searched)|see also|tags|topics|keywords"
    r"|categories)\s*[:|]",
    re.IGNORECASE,
)
"""What introduces a list of titles and searches, none of which says anything."""
_FURNITURE = re.compile(
    rf"{_LISTED.pattern}|\bpage \d+\b|_{{3,}}|\.{{4,}}(?:\s*\d+\b)?"
    r"|\b(?:table of contents|help cent(?:re|er)|contact us|read more)\b",
    re.IGNORECASE,
)
"""What a page has around its text: it is no word of a reply."""
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
_YES_OR_NO = re.compile(
    r"\s*(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may|must)"
    r"(?:n['’]t)?\b",
    re.IGNORECASE,
)
_APART_BEFORE = re.compile(r"(?:^|[\n|/•·>:;\"“(\[]|\s[-–—]|\.{3}|…)\s*$")
_APART_BEHIND = re.compile(r"\s*(?:$|[\n|/•·<;\"”)\]]|[-–—]\s|\.{3}|…)")
_REPLY_LABEL = re.compile(r"\W*(?:a|ans|answer|reply|response)\s*[:.]\s*", re.IGNORECASE)
_YES = re.compile(r"\W*(?:yes|no|yep|nope|true|false|correct|never|always|only)\b", re.IGNORECASE)
_AROUND = 80
"""Characters before and behind a repeated question that tell what it is there for."""
_LEAST_NEW = 2
"""New content words behind a repeated question from which on something may be answered."""


def without_echo(query: str, text: str) -> str | None:
    """A chunk without the question that it repeats: what it says beside it.

    Places stay: what is left out becomes spaces. A reply right behind the question that holds
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
        places += [one for one in split_sentences(text) if _PROMISE.search(text[slice(*one)])]
        places += [Span(*one.span()) for one in _FURNITURE.finditer(text)]
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
    asks = _ASKS.match(query) or _YES_OR_NO.match(query)
    for found in pattern.finditer(text):
        before = text[max(0, found.start() - _AROUND) : found.start()]
        behind = text[found.end() : found.end() + _AROUND]
        if (
            asks
            or found[1]
            or _CLAIM.search(before)
            or (_APART_BEFORE.search(before) and _APART_BEHIND.match(behind))
            or _PROMISE.match(behind.lstrip())
        ):
            yield Span(*found.span())


def _is_answered(query: str, asked: frozenset[str], text: str, echo: Span) -> bool:
    """Whether a reply stands right behind a repeated question: two sentences, up to the next."""
    before = text[max(0, echo.start - _AROUND) : echo.start]
    if _CLAIM.search(before) or _LISTED.search(before[before.rfind("\n") + 1 :]):
        return False
    rest = text[echo.end : echo.end + 400].partition("?")
    kept = rest[0] if not rest[1] else re.sub(r"[^.!\n|]*$", "", rest[0])
    sentences = [kept[slice(*one)] for one in split_sentences(kept)][:2]
    if not sentences or kept.lstrip().startswith("/") or _PROMISE.search(sentences[0]):
        return False
    behind = " ".join(one for one in sentences if not _PROMISE.search(one))
    return _is_reply(query, asked, _FURNITURE.sub(" ", behind))


def _is_reply(query: str, asked: frozenset[str], behind: str) -> bool:
    if UNKNOWN.search(behind):
        return False
    kind = asked_type(query)
    if kind in (AnswerType.DATE, AnswerType.NUMBER):
        return holds_type(behind, kind, asked)
    if _YES_OR_NO.match(query) and _YES.match(_REPLY_LABEL.sub("", behind, count=1)):
        return True
    label = _REPLY_LABEL.match(behind)
    said = behind if label is None else behind[label.end() :]
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
        if not (_ASKS.match(query) or _LISTED.search(said)):
            continue  # "The shop is open on Sunday" has nothing new, and answers "Is it open?"
        bare = _PLACE_IN_BOOK.sub(" ", _FURNITURE.sub(" ", said))
        # Most sentences share too little, which costs an eighth of taking them apart to see.
        if len(content.intersection(tokenise(bare))) < shared:
            continue
        words = frozenset(parse_question(_PROMISE.sub(" ", bare)).tokens)
        if not words - asked:
            found.append(one)
    return found
