"""What a sentence asserts, as far as words can tell, and whether a passage shares it.

Nothing here says that a sentence is right: it says what must stand in a passage before anybody may
claim that the passage supports it.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from ragbench.metrics.word_lists import opposites, word_list
from ragbench.text.amounts import TOLERANCES, Amount, Date, Wording, wording
from ragbench.text.citations import MARKS, NAMED
from ragbench.text.language import function_words, guess_language, recognised_language
from ragbench.text.sentences import Span, split_sentences, touched
from ragbench.text.tokens import tokenise

_LISTED = re.compile(r"^\s*(?:\(?\d{1,3}[.)]|[-*•#>]+)\s+|https?://\S+")
_SMALL = 10
"""Up to here a number in letters is as often a word: "one of the", "in two ways"."""
_CLOSE = 0.5
"""Share of a sentence's words from which on a passage says it or its opposite."""
LONGEST = 20_000
"""Characters of an answer that are read: nobody answers at such a length."""
LEAST = 0.25
"""Share of a sentence's words that a passage shares which supports it."""


class Numbers(NamedTuple):
    amounts: tuple[Amount, ...]
    dates: tuple[Date, ...]

    def lacking(self, held: Numbers) -> list[str]:
        """Those that stand in no other text, as they are read."""
        if not self.amounts and not self.dates:
            return []
        index = _index(held)
        found: list[str] = []
        for amount in self.amounts:
            if not _is_held(amount, index):
                number = amount.number
                found.append(f"{number:,.12g}" if number >= 10_000 else f"{number:.12g}")
        for date in self.dates:
            day = date._replace(year=None)
            is_of_year = date.year is None or date.year in index[""]
            if not any(
                date.is_within(one) or (is_of_year and day.is_within(one)) for one in held.dates
            ):
                parts = (date.day, _MONTHS[date.month], date.year)
                found.append(" ".join(str(part) for part in parts if part))
        return found


_MONTHS = (
    *("", "January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)


@lru_cache(maxsize=64)
def _index(held: Numbers) -> dict[str, list[float]]:
    """Values by dimension, sorted; under the empty one as they are written, whatever they count."""
    found: dict[str, list[float]] = {"": [], "bare": []}
    # "31" may stand in "31 March".
    parts = [part for one in held.dates for part in (one.year, one.day) if part]
    for one in (*held.amounts, *(Amount("", part, part) for part in parts)):
        found[""].append(one.number)
        found.setdefault(one.dimension or "bare", []).append(one.value)
    return {dimension: sorted(values) for dimension, values in found.items()}


def _is_held(said: Amount, index: dict[str, list[float]]) -> bool:
    """Whether a number stands there, or one that it is when rounded to at least two digits.

    A year is not rounded.
    """
    number, rounding = abs(said.number), 0.0
    digits = len(f"{number:.12g}".replace(".", "").strip("0"))
    if digits >= 2 and not 1000 <= said.number <= 2100:
        rounding = 0.5 * 10.0 ** (math.floor(math.log10(number)) - digits + 1)
    places = [(said.number, rounding, index["bare" if said.dimension else ""])]
    if said.dimension:
        near = TOLERANCES.get(said.dimension, 0.0) * abs(said.value)
        rounded = rounding * abs(said.value / said.number) if said.number else 0.0
        places.append((said.value, max(near, rounded), index.get(said.dimension, [])))
    for value, most, values in places:
        margin = max(most, 1e-6 * abs(value))
        at = bisect_left(values, value - margin)
        if at < len(values) and values[at] <= value + margin:
            return True
    return False


@lru_cache(maxsize=4096)
def numbers_of(text: str) -> Numbers:
    """The numbers and dates that a text names; those of marks and lists are none."""
    plain = _LISTED.sub(" ", NAMED.sub("", MARKS.sub("", text)))
    read = _wording(plain)
    dated = {part for one in read.dates for part in (one.year, one.day)}
    known = dict.fromkeys(read.amounts)
    amounts = (one for one in known if one.dimension or one.number not in dated)
    return Numbers(tuple(one for one in amounts if _counts(one, plain)), read.dates)


@lru_cache(maxsize=4096)
def _wording(text: str) -> Wording:
    if "-" in text or "–" in text or "/" in text:
        text = _SHORT_YEAR.sub(r"\1\2-\1\3", text)
    return wording(text)


_SHORT_YEAR = re.compile(r"\b(1[5-9]|20)(\d\d)[-–/](\d\d)\b(?![-–/]\d)")
"""2018-19; what goes on is a date."""


def _counts(amount: Amount, text: str) -> bool:
    if amount.dimension or abs(amount.number) > _SMALL:
        return True
    return re.search(rf"(?<!\d){re.escape(f'{amount.number:.12g}')}(?!\d)", text) is not None


def all_numbers(texts: Iterable[str]) -> Numbers:
    """Those of several texts, spelled ones too: something may stand there in any form."""
    read = [_wording(text) for text in texts]
    return Numbers(
        tuple(dict.fromkeys(amount for one in read for amount in one.amounts)),
        tuple(dict.fromkeys(date for one in read for date in one.dates)),
    )


# --- words and names

_NAME = re.compile(r"(?<![\w'’-])[^\W\d_a-zß-öø-ÿ][\w’'&.-]*[\w]")


_WITH_CAPITALS = (
    "i monday tuesday wednesday thursday friday saturday sunday january february march april may "
    "june july august september october november december according document doc section"
)
_NO_NAMES = frozenset(_WITH_CAPITALS.split())


@lru_cache(maxsize=8192)
def words_of(text: str) -> frozenset[str]:
    """Stems of the words that say something; numbers are told apart by `numbers_of`."""
    common = _common(guess_language(text))
    return frozenset(
        one for one in tokenise(MARKS.sub("", text)) if one not in common and not one[0].isdigit()
    )


@lru_cache(maxsize=64)
def _common(language: str) -> frozenset[str]:
    words = function_words()
    return frozenset(tokenise(f"{words.get(language, '')} {words.get('en', '')}"))


def names_of(sentence: str) -> frozenset[str]:
    """Stems of the words with a capital, the first one aside; none where most words have one.

    None in German, either, where every noun has one.
    """
    if recognised_language(sentence) == "de":
        return frozenset()
    plain = _LISTED.sub("", MARKS.sub("", sentence)).strip()
    found = [match for match in _NAME.finditer(plain) if match.start() > 1 or match[0].isupper()]
    if len(found) * 2 > len(plain.split()) > 4:
        return frozenset()
    spoken = (one[0] for one in found if one[0].lower() not in _NO_NAMES)
    return frozenset(stem for name in spoken for stem in tokenise(name) if not stem[0].isdigit())


@lru_cache(maxsize=512)
def sentences_of(text: str) -> tuple[Span, ...]:
    return tuple(split_sentences(text))


def around(text: str, start: int, end: int) -> str:
    """The whole sentences of a text that a stretch of it touches."""
    found = touched(sentences_of(text), Span(start, end))
    return text[slice(*(found or (start, end)))]


def shared(sentence: str, passage: str) -> float:
    """Share of a sentence's words, names and numbers that a passage holds; 0 where it has none."""
    words = words_of(sentence)
    numbers = numbers_of(sentence)
    count = len(numbers.amounts) + len(numbers.dates)
    lacking = numbers.lacking(all_numbers([passage])) if count else ()
    known = len(words & words_of(passage)) + count - len(lacking)
    return known / (len(words) + count) if words or count else 0.0


# --- proof


class Passage(NamedTuple):
    """A quotation that stands in a text."""

    quote: str
    """As it stands there."""
    around: str
    """The sentences of the text that it touches."""
    text: str


def lacks(sentence: str, question: str, passages: Sequence[Passage], *, whole: bool) -> str | None:
    """What passages miss of a sentence that they are to prove; None where they share enough.

    Its numbers stand in the sentences that are quoted, its names in the texts of these or in the
    question, at least one of its words in the quotations themselves; and where a quoted sentence
    has most of its words, it says them with the same sign.

    Args:
        whole: whether all of the sentence is to be proved, numbers and names included.
    """
    beside = " ".join(one.around for one in passages)
    numbers = numbers_of(sentence).lacking(all_numbers([beside, question]))
    texts = [question, *(one.text for one in passages)]
    names = sorted(names_of(sentence) - frozenset(stem for text in texts for stem in _stems(text)))
    if whole and (numbers or names):
        return f"no quote has {', '.join((numbers or names)[:3])}"
    words, quoted = words_of(sentence), words_of(" ".join(one.quote for one in passages))
    if is_foreign(sentence, passages[0].text):  # the words of two languages cannot be compared
        said = numbers_of(sentence)
        anchors = len(said.amounts) + len(said.dates) + len(names_of(sentence))
        return None if anchors > len(numbers) + len(names) else _FOREIGN
    if words and not words & quoted:
        return "no quote shares a word with it"
    if words and len(words & words_of(beside)) < LEAST * len(words):
        return "the quotes share too few of its words"
    return next(filter(None, (_turned(sentence, one.around) for one in passages)), None)


_FOREIGN = "the quotes are in another language, and share neither a number nor a name"


def is_foreign(sentence: str, passage: str) -> bool:
    one, other = recognised_language(sentence), recognised_language(passage)
    return one is not None and other is not None and one != other


@lru_cache(maxsize=1024)
def _stems(text: str) -> frozenset[str]:
    return frozenset(tokenise(text))


_LETTERS, _APOSTROPHES = re.compile(r"[^\W\d_]+"), re.compile("['’]")


def _turned(sentence: str, passage: str) -> str | None:
    """Whether a passage says most of a sentence with another sign."""
    words = words_of(sentence)
    if len(words) < 2 or len(words & words_of(passage)) < _CLOSE * len(words):
        return None
    said, held = (
        frozenset(_LETTERS.findall(_APOSTROPHES.sub("", text.lower())))
        for text in (sentence, passage)
    )
    denials = word_list("denials")
    if denials.isdisjoint(said) != denials.isdisjoint(held):
        return "the quote says it with another sign: one of both denies"
    known = opposites()
    for word in sorted(said & known.keys() - held):
        if known[word] & held - said:
            return f"the quote says {min(known[word] & held)} for {word}"
    return None
