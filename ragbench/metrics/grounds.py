"""What a sentence asserts, as far as words can tell, and whether a passage shares it.

Nothing here decides that a sentence is right. It finds what a passage must have before anybody may
claim that the passage supports the sentence.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from ragbench.metrics.word_lists import opposites, word_list
from ragbench.text.amounts import TOLERANCES, Amount, Date
from ragbench.text.citations import MARKS, NAMED
from ragbench.text.language import function_words, guess_language, recognised_language
from ragbench.text.sentences import Span, split_sentences, touched
from ragbench.text.tokens import tokenise
from ragbench.text.wording import Wording
from ragbench.text.wording import wording as read_wording

_LIST_ITEM = re.compile(r"^\s*(?:\(?\d{1,3}[.)]|[-*•#>]+)\s+|https?://\S+")
_LARGEST_SMALL = 10
"""Up to here a number in letters is as often a word: "one of the", "in two ways"."""
_LEAST_CLOSE = 0.5
"""Share of a sentence's words from which on a passage says it or its opposite."""
LONGEST = 20_000
"""Characters of an answer that are read: nobody answers at such a length."""
LEAST = 0.25
"""Share of a sentence's words that a passage shares which supports it."""


_MONTHS = (
    "",
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


class Numbers(NamedTuple):
    """The numbers and dates of a text."""

    amounts: tuple[Amount, ...]
    dates: tuple[Date, ...]

    def lacking(self, shown: Numbers) -> list[str]:
        """Those that are not among the numbers that were shown, in words."""
        if not self.amounts and not self.dates:
            return []
        index = _index(shown)
        missing: list[str] = []
        for amount in self.amounts:
            if not _is_shown(amount, index):
                missing.append(_number_text(amount))
        for date in self.dates:
            if not _is_date_shown(date, shown, index):
                parts = (date.day, _MONTHS[date.month], date.year)
                missing.append(" ".join(str(part) for part in parts if part))
        return missing


def _number_text(amount: Amount) -> str:
    """A number as a reader knows it; a time of day with its minutes."""
    if amount.dimension == "clock":
        hours, minutes = divmod(int(amount.value), 60)
        return f"{hours}:{minutes:02}"
    number = amount.number
    return f"{number:,.12g}" if number >= 10_000 else f"{number:.12g}"


_AS_WRITTEN = ""
_BARE = "bare"
"""Numbers without a unit."""


@lru_cache(maxsize=64)
def _index(shown: Numbers) -> dict[str, list[float]]:
    """Values by dimension, sorted; under ``_AS_WRITTEN`` all numbers, whatever they count."""
    values: dict[str, list[float]] = {_AS_WRITTEN: [], _BARE: []}
    for amount in shown.amounts:
        values[_AS_WRITTEN].append(amount.number)
        values.setdefault(amount.dimension or _BARE, []).append(amount.value)
    for date in shown.dates:
        # An answer may write "31" for "31 March", or the year alone.
        for part in (date.year, date.day):
            if part:
                values[_AS_WRITTEN].append(part)
                values[_BARE].append(part)
    return {dimension: sorted(numbers) for dimension, numbers in values.items()}


def _is_date_shown(date: Date, shown: Numbers, index: dict[str, list[float]]) -> bool:
    """Whether a date was shown, or its day in one place and its year in another."""
    day = date._replace(year=None)
    is_year_shown = date.year is None or date.year in index[_AS_WRITTEN]
    for shown_date in shown.dates:
        if date.is_within(shown_date) or (is_year_shown and day.is_within(shown_date)):
            return True
    return False


def _is_shown(amount: Amount, index: dict[str, list[float]]) -> bool:
    """Whether a number was shown, or one that it is when rounded to at least two digits.

    A year is not rounded.
    """
    number = abs(amount.number)
    rounding = 0.0
    digits = len(f"{number:.12g}".replace(".", "").strip("0"))
    if digits >= 2 and not 1000 <= amount.number <= 2100:
        rounding = 0.5 * 10.0 ** (math.floor(math.log10(number)) - digits + 1)
    if not amount.dimension:
        return _holds_near(index[_AS_WRITTEN], amount.number, rounding)
    # Its unit may have been left out where it was shown: "in EUR" above a column of prices.
    if _holds_near(index[_BARE], amount.number, rounding):
        return True
    tolerance = TOLERANCES.get(amount.dimension, 0.0) * abs(amount.value)
    rounded = rounding * abs(amount.value / amount.number) if amount.number else 0.0
    values = index.get(amount.dimension, [])
    return _holds_near(values, amount.value, max(tolerance, rounded))


def _holds_near(values: Sequence[float], value: float, margin: float) -> bool:
    """Whether sorted values hold one that is no further away than a margin."""
    margin = max(margin, 1e-6 * abs(value))
    nearest = bisect_left(values, value - margin)
    return nearest < len(values) and values[nearest] <= value + margin


@lru_cache(maxsize=4096)
def numbers_of(text: str) -> Numbers:
    """The numbers and dates that a text names; those of marks and lists are none."""
    plain = _LIST_ITEM.sub(" ", NAMED.sub("", MARKS.sub("", text)))
    wording = _wording(plain)
    parts_of_dates: set[float | None] = set()
    for date in wording.dates:
        parts_of_dates.update((date.year, date.day))
    amounts: list[Amount] = []
    for amount in dict.fromkeys(wording.amounts):
        # The 31 and the 2024 of "31 March 2024" are the date's already.
        if not amount.dimension and amount.number in parts_of_dates:
            continue
        if _is_number(amount, plain):
            amounts.append(amount)
    return Numbers(tuple(amounts), wording.dates)


@lru_cache(maxsize=4096)
def _wording(text: str) -> Wording:
    """A text's numbers and dates, with "2018-19" read as two years."""
    if "-" in text or "–" in text or "/" in text:
        text = _SHORT_YEAR.sub(r"\1\2-\1\3", text)
    return read_wording(text)


_SHORT_YEAR = re.compile(r"\b(1[5-9]|20)(\d\d)[-–/](\d\d)\b(?![-–/]\d)")
"""2018-19; where a further part follows it is a date."""


def _is_number(amount: Amount, text: str) -> bool:
    """Whether an amount counts as a number: large, with a unit, or written in digits."""
    if amount.dimension or abs(amount.number) > _LARGEST_SMALL:
        return True
    digits = re.escape(f"{amount.number:.12g}")
    return re.search(rf"(?<!\d){digits}(?!\d)", text) is not None


def all_numbers(texts: Iterable[str]) -> Numbers:
    """Those of several texts, spelled ones too: a source may have a number in any form."""
    amounts: dict[Amount, None] = {}
    dates: dict[Date, None] = {}
    for text in texts:
        wording = _wording(text)
        amounts.update(dict.fromkeys(wording.amounts))
        dates.update(dict.fromkeys(wording.dates))
    return Numbers(tuple(amounts), tuple(dates))


# --- words and names

_CAPITALISED = re.compile(r"(?<![\w'’-])[^\W\d_a-zß-öø-ÿ][\w’'&.-]*[\w]")
_NOT_NAMES = (
    "i monday tuesday wednesday thursday friday saturday sunday january february march april "
    "may june july august september october november december according document doc section"
)
_NO_NAMES = frozenset(_NOT_NAMES.split())
"""Words that have a capital and name nobody and nothing."""


@lru_cache(maxsize=8192)
def words_of(text: str) -> frozenset[str]:
    """Stems of the words that say something; for numbers there is `numbers_of`."""
    common = _common_stems(guess_language(text))
    stems: set[str] = set()
    for stem in tokenise(MARKS.sub("", text)):
        if stem not in common and not stem[0].isdigit():
            stems.add(stem)
    return frozenset(stems)


@lru_cache(maxsize=64)
def _common_stems(language: str) -> frozenset[str]:
    """Function words of a language, and English ones: answers mix the two."""
    words = function_words()
    return frozenset(tokenise(f"{words.get(language, '')} {words.get('en', '')}"))


def names_of(sentence: str) -> frozenset[str]:
    """Stems of the words with a capital, the first one aside; none where most words have one.

    None in German, either, where every noun has one.
    """
    if recognised_language(sentence) == "de":
        return frozenset()
    plain = _LIST_ITEM.sub("", MARKS.sub("", sentence)).strip()
    capitalised: list[str] = []
    for match in _CAPITALISED.finditer(plain):
        begins_sentence = match.start() <= 1
        if not begins_sentence or match[0].isupper():
            capitalised.append(match[0])
    if len(capitalised) * 2 > len(plain.split()) > 4:
        return frozenset()  # a heading, or a text in capitals
    stems: set[str] = set()
    for name in capitalised:
        if name.lower() not in _NO_NAMES:
            stems.update(stem for stem in tokenise(name) if not stem[0].isdigit())
    return frozenset(stems)


@lru_cache(maxsize=512)
def sentences_of(text: str) -> tuple[Span, ...]:
    """The sentences of a passage with their places."""
    return tuple(split_sentences(text))


def around(text: str, start: int, end: int) -> str:
    """The whole sentences of a text that a stretch of it touches."""
    span = touched(sentences_of(text), Span(start, end)) or Span(start, end)
    return text[span.start : span.end]


def shared(sentence: str, passage: str) -> float:
    """Share of a sentence's words, names and numbers that a passage holds; 0 where it has none."""
    words = words_of(sentence)
    numbers = numbers_of(sentence)
    number_count = len(numbers.amounts) + len(numbers.dates)
    if not words and not number_count:
        return 0.0
    common = len(words & words_of(passage))
    if number_count:
        common += number_count - len(numbers.lacking(all_numbers([passage])))
    return common / (len(words) + number_count)


# --- proof


class Passage(NamedTuple):
    """A quotation from a text."""

    quote: str
    """As the text has it, letter by letter."""
    around: str
    """The sentences of the text that it touches."""
    text: str


def lacks(sentence: str, question: str, passages: Sequence[Passage], *, whole: bool) -> str | None:
    """What passages miss of a sentence that they are to prove; None where they share enough.

    Its numbers must be in the sentences that are quoted, its names in the texts of these or in the
    question, at least one of its words in the quotations themselves. A quoted sentence that has
    most of its words must not deny what it affirms.

    Args:
        whole: whether all of the sentence is to be proved, numbers and names included.
    """
    surroundings = " ".join(passage.around for passage in passages)
    numbers = numbers_of(sentence).lacking(all_numbers([surroundings, question]))
    names = names_of(sentence) - _stems(question)
    for passage in passages:
        names -= _stems(passage.text)
    if whole and (numbers or names):
        missing = numbers or sorted(names)
        return f"no quote has {', '.join(missing[:3])}"
    if is_foreign(sentence, passages[0].text):
        # The words of two languages cannot be compared: a number or a name must be common.
        all_of_sentence = numbers_of(sentence)
        anchor_count = len(all_of_sentence.amounts) + len(all_of_sentence.dates)
        anchor_count += len(names_of(sentence))
        missing_count = len(numbers) + len(names)
        return None if anchor_count > missing_count else _FOREIGN
    words = words_of(sentence)
    quoted = words_of(" ".join(passage.quote for passage in passages))
    if words and not words & quoted:
        return "no quote shares a word with it"
    if words and len(words & words_of(surroundings)) < LEAST * len(words):
        return "the quotes share too few of its words"
    for passage in passages:
        contradiction = _contradiction(sentence, passage.around)
        if contradiction is not None:
            return contradiction
    return None


_FOREIGN = "the quotes are in another language, and share neither a number nor a name"


def is_foreign(sentence: str, passage: str) -> bool:
    """Whether two texts are in different languages, as far as both are recognised."""
    language = recognised_language(sentence)
    passage_language = recognised_language(passage)
    if language is None or passage_language is None:
        return False
    return language != passage_language


@lru_cache(maxsize=1024)
def _stems(text: str) -> frozenset[str]:
    """The stems of the words, by which sentence and passage are compared."""
    return frozenset(tokenise(text))


_LETTERS = re.compile(r"[^\W\d_]+")
_APOSTROPHES = re.compile("['’]")


def _contradiction(sentence: str, passage: str) -> str | None:
    """How a passage says most of a sentence with another sign; None where it does not."""
    words = words_of(sentence)
    if len(words) < 2 or len(words & words_of(passage)) < _LEAST_CLOSE * len(words):
        return None
    in_sentence = _lower_words(sentence)
    in_passage = _lower_words(passage)
    denials = word_list("denials")
    if denials.isdisjoint(in_sentence) != denials.isdisjoint(in_passage):
        return "the quote says it with another sign: one of both denies"
    opposites_by_word = opposites()
    for word in sorted((in_sentence - in_passage) & opposites_by_word.keys()):
        opposite = opposites_by_word[word] & (in_passage - in_sentence)
        if opposite:
            return f"the quote says {min(opposite)} for {word}"
    return None


def _lower_words(text: str) -> frozenset[str]:
    """A text's words as they are, without stemming: "isn't" is one word."""
    return frozenset(_LETTERS.findall(_APOSTROPHES.sub("", text.lower())))
