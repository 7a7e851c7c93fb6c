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
from ragbench.text.language import (
    differ_in_language,
    function_words,
    guess_language,
    recognised_language,
)
from ragbench.text.sentences import Span, split_sentences, touched
from ragbench.text.tokens import tokenise
from ragbench.text.wording import Wording
from ragbench.text.wording import wording as read_wording

_LIST_ITEM = re.compile(r"^\s*(?:\(?\d{1,3}[.)]|[-*•#>]+)\s+|https?://\S+")
_LARGEST_SMALL = 10
"""The largest number that in letters is as often a word: "one of the", "in two ways"."""
_LEAST_CLOSE = 0.5
"""Share of a sentence's words from which on a passage says it or its opposite."""
LONGEST = 20_000
"""Characters of an answer that are read: nobody answers at such a length."""
LEAST = 0.25
"""Share of a sentence's words that a passage shares which supports it."""
_MOST_MISSING_NAMED = 3
"""Missing numbers or names that a message lists."""


_MONTHS = (
    "",  # months are counted from 1
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

    @property
    def size(self) -> int:
        """How many numbers and dates a text names.

        In shares of what a passage supports, each counts as much as a word.
        """
        return len(self.amounts) + len(self.dates)

    def lacking(self, shown: Numbers) -> list[str]:
        """The numbers and dates that are not among the shown ones, each as a reader would write it.

        What an answer names and no chunk has is made up, or computed.

        Args:
            shown: the numbers of the chunks and of the question.
        """
        if not self.size:
            return []
        # Made once here: each number and date is looked up in it.
        index = _values_by_dimension(shown)
        missing: list[str] = []
        for amount in self.amounts:
            if not _is_number_shown(amount, index):
                missing.append(_number_text(amount))
        for date in self.dates:
            if not _is_date_shown(date, shown, index):
                missing.append(_date_text(date))
        return missing


def _number_text(amount: Amount) -> str:
    """A number as a reader would write it, for a message; a time of day with its minutes.

    It lists numbers that no chunk has.
    """
    if amount.dimension == "clock":
        hours, minutes = divmod(int(amount.value), 60)
        return f"{hours}:{minutes:02}"
    # Without commas below 10,000: it may be a year.
    if amount.number >= 10_000:
        return f"{amount.number:,.12g}"
    return f"{amount.number:.12g}"


def _date_text(date: Date) -> str:
    """A date as a reader would write it, for a message: "31 March 2024", or "March 2024".

    Parts that the text does not name are left out.
    """
    parts: list[str] = []
    if date.day:
        parts.append(str(date.day))
    if date.month:
        parts.append(_MONTHS[date.month])
    if date.year:
        parts.append(str(date.year))
    return " ".join(parts)


_AS_WRITTEN = ""
_BARE = "bare"
"""Numbers without a unit."""


@lru_cache(maxsize=64)
def _values_by_dimension(shown: Numbers) -> dict[str, list[float]]:
    """The shown numbers, sorted, by dimension: each number of an answer is looked up there.

    Under ``_AS_WRITTEN`` are all numbers, whatever they count, and under ``_BARE`` those without a
    unit; under any other key the values in the base unit of that dimension.
    """
    values: dict[str, list[float]] = {_AS_WRITTEN: [], _BARE: []}
    for amount in shown.amounts:
        values[_AS_WRITTEN].append(amount.number)
        dimension = amount.dimension or _BARE
        values.setdefault(dimension, []).append(amount.value)
    for date in shown.dates:
        # An answer may write "31" for "31 March", or the year alone.
        for part in (date.year, date.day):
            if part:
                values[_AS_WRITTEN].append(part)
                values[_BARE].append(part)
    for numbers in values.values():
        numbers.sort()
    return values


def _is_date_shown(date: Date, shown: Numbers, index: dict[str, list[float]]) -> bool:
    """Whether a date is among the shown ones, or its day in one place and its year in another.

    A table may have the year in its heading and the day in a row.

    Args:
        index: of the numbers of ``shown``, by `_values_by_dimension`.
    """
    # A year alone may be read as a number where no date is around it, as in a heading.
    day = date._replace(year=None)
    is_year_shown = date.year is None or date.year in index[_AS_WRITTEN]
    for shown_date in shown.dates:
        if date.is_within(shown_date):
            return True
        if is_year_shown and day.is_within(shown_date):
            return True
    return False


def _is_number_shown(amount: Amount, index: dict[str, list[float]]) -> bool:
    """Whether a number is among the shown ones, or is one of them rounded.

    An answer that says 4.2 for 4.23 makes nothing up. It must keep two digits or more, and a year
    is not rounded. Another result needs higher versions of ``numbers_supported`` and ``support``.

    Args:
        index: of the shown numbers, by `_values_by_dimension`.
    """
    rounding = 0.0
    # Wide bounds: a number that is taken for a year must only be shown as it is.
    is_year = 1000 <= amount.number <= 2100
    if not is_year:
        rounding = _rounding_of(amount.number)
    if not amount.dimension:
        return _has_value_near(index[_AS_WRITTEN], amount.number, rounding)
    # The unit may be missing beside the number that a chunk shows: "in EUR" above a column of
    # prices.
    if _has_value_near(index[_BARE], amount.number, rounding):
        return True
    # From here on in the base unit of the dimension.
    margin = TOLERANCES.get(amount.dimension, 0.0) * abs(amount.value)
    if amount.number:
        unit_size = abs(amount.value / amount.number)
        margin = max(margin, rounding * unit_size)
    values = index.get(amount.dimension, [])
    return _has_value_near(values, amount.value, margin)


def _rounding_of(number: float) -> float:
    """How far a number may be from the exact one that it is a rounding of: of 4.2 it is 0.05.

    0 where it has one digit: nearly any number is "2" when it is rounded enough. Another result
    needs higher versions of ``numbers_supported`` and ``support``.
    """
    magnitude = abs(number)
    # The digits that count: zeros at either end only give the size.
    digits = len(f"{magnitude:.12g}".replace(".", "").strip("0"))
    if digits < 2:
        return 0.0
    # 10 to this power is what the last digit counts; half of it is the rounding.
    exponent_of_last_digit = math.floor(math.log10(magnitude)) - digits + 1
    return 0.5 * 10.0**exponent_of_last_digit


def _has_value_near(values: Sequence[float], value: float, margin: float) -> bool:
    """Whether sorted values hold one that is no further from a value than a margin.

    A binary search for each number, and no look at all of them: a chunk may be a table of
    thousands.
    """
    # At least the errors of converting units, far below any difference that a text would write.
    margin = max(margin, 1e-6 * abs(value))
    position = bisect_left(values, value - margin)
    return position < len(values) and values[position] <= value + margin


@lru_cache(maxsize=4096)
def numbers_of(text: str) -> Numbers:
    """The numbers and dates that a text asserts.

    Those of citation marks and of numbered lists are none. Small numbers in words are left out,
    too: "one of the" counts nothing. For a source, which may have a number in any form, there is
    `all_numbers`. Another result needs higher versions of ``numbers_supported`` and ``support``.
    """
    without_marks = NAMED.sub("", MARKS.sub("", text))
    plain = _LIST_ITEM.sub(" ", without_marks)
    wording = _wording_with_short_years(plain)
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
def _wording_with_short_years(text: str) -> Wording:
    """The numbers and dates of a text, with "2018-19" read as two years.

    The reader of wordings alone would take the 19 for a number that no chunk has.
    """
    if "-" in text or "–" in text or "/" in text:
        text = _SHORT_YEAR.sub(r"\1\2-\1\3", text)
    return read_wording(text)


_SHORT_YEAR = re.compile(r"\b(1[5-9]|20)(\d\d)[-–/](\d\d)\b(?![-–/]\d)")
"""2018-19; where a further part follows it is a date."""


def _is_number(amount: Amount, text: str) -> bool:
    """Whether an amount counts as a number of a text: large, with a unit, or written in digits.

    A "two" in words is as often no amount ("in two ways"), and its lack in a chunk would prove
    nothing.
    """
    if amount.dimension or abs(amount.number) > _LARGEST_SMALL:
        return True
    digits = re.escape(f"{amount.number:.12g}")
    return re.search(rf"(?<!\d){digits}(?!\d)", text) is not None


def all_numbers(texts: Iterable[str]) -> Numbers:
    """The numbers and dates of several texts, in words too: a source may have a number in any form.

    Looser than `numbers_of`, since a number that a source may have is not missing there.
    """
    # Mappings for their order and for equal amounts once.
    amounts: dict[Amount, None] = {}
    dates: dict[Date, None] = {}
    for text in texts:
        wording = _wording_with_short_years(text)
        amounts.update(dict.fromkeys(wording.amounts))
        dates.update(dict.fromkeys(wording.dates))
    return Numbers(tuple(amounts), tuple(dates))


# --- words and names

_CAPITALISED = re.compile(r"(?<![\w'’-])[^\W\d_a-zß-öø-ÿ][\w’'&.-]*[\w]")
_CAPITALISED_WORDS = (
    "i monday tuesday wednesday thursday friday saturday sunday january february march april "
    "may june july august september october november december according document doc section"
)
_NO_NAMES = frozenset(_CAPITALISED_WORDS.split())
"""Words that have a capital and name nobody and nothing."""


@lru_cache(maxsize=8192)
def words_of(text: str) -> frozenset[str]:
    """The stems of the telling words of a text, by which a sentence and a passage compare.

    Numbers are left out: `numbers_of` compares them by their value. Another result needs higher
    versions of ``support`` and of the metrics of citations.
    """
    common = _common_stems(guess_language(text))
    stems: set[str] = set()
    for stem in tokenise(MARKS.sub("", text)):
        # Words in all texts of the language make any two of them alike.
        if stem not in common and not stem[0].isdigit():
            stems.add(stem)
    return frozenset(stems)


@lru_cache(maxsize=64)
def _common_stems(language: str) -> frozenset[str]:
    """The stems of the function words of a language, and of English ones: answers mix the two.

    Such words are in every passage, and support nothing.
    """
    words = function_words()
    return frozenset(tokenise(f"{words.get(language, '')} {words.get('en', '')}"))


def names_of(sentence: str) -> frozenset[str]:
    """The stems of a sentence's words with a capital: names, which a proof must hold.

    The first word is left out, and all of a heading or a text in capitals. None in German, where
    every noun has a capital. Another result needs a higher version of ``support``.
    """
    if recognised_language(sentence) == "de":
        return frozenset()
    plain = _LIST_ITEM.sub("", MARKS.sub("", sentence)).strip()
    capitalised: list[str] = []
    for match in _CAPITALISED.finditer(plain):
        # A quotation mark may be before the first word.
        begins_sentence = match.start() <= 1
        if not begins_sentence or match[0].isupper():
            capitalised.append(match[0])
    # A heading, or a text in capitals. Up to four words may be all names: "Ada and Bob Lovelace".
    word_count = len(plain.split())
    if word_count > 4 and len(capitalised) * 2 > word_count:
        return frozenset()
    stems: set[str] = set()
    for name in capitalised:
        if name.lower() not in _NO_NAMES:
            stems.update(stem for stem in tokenise(name) if not stem[0].isdigit())
    return frozenset(stems)


@lru_cache(maxsize=512)
def sentences_of(text: str) -> tuple[Span, ...]:
    """The sentences of a text, as spans of it.

    Remembered, since an answer and its chunks are cut by several metrics.
    """
    return tuple(split_sentences(text))


def around(text: str, start: int, end: int) -> str:
    """The whole sentences of a text that a stretch of it touches.

    A judge quotes half a sentence, and the number that proves it may be in the other half.

    Args:
        start: where the stretch begins.
        end: the position behind it.
    """
    stretch = Span(start, end)
    span = touched(sentences_of(text), stretch) or stretch
    return text[span.start : span.end]


def shared(sentence: str, passage: str) -> float:
    """Share of a sentence's words and numbers that a passage holds, 0 to 1; 0 where it has none.

    By it a citation is held against its chunk, and compared with the other chunks.
    """
    words = words_of(sentence)
    numbers = numbers_of(sentence)
    size = len(words) + numbers.size
    if not size:
        return 0.0
    common = len(words & words_of(passage))
    if numbers.size:
        # A sentence's number that the passage lacks counts as a word that it lacks.
        lacking = numbers.lacking(all_numbers([passage]))
        common += numbers.size - len(lacking)
    return common / size


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
    most of its words must not deny what it affirms. Another result needs a higher version of
    ``support``.

    Args:
        whole: whether all of the sentence is to be proved, numbers and names included.
    """
    surroundings = " ".join(passage.around for passage in passages)
    numbers = numbers_of(sentence)
    names = names_of(sentence)
    missing_numbers = numbers.lacking(all_numbers([surroundings, question]))
    missing_names = names - _all_stems(question)
    for passage in passages:
        missing_names -= _all_stems(passage.text)
    missing = missing_numbers or sorted(missing_names)
    if whole and missing:
        return f"no quote has {', '.join(missing[:_MOST_MISSING_NAMED])}"
    if differ_in_language(sentence, passages[0].text):
        # The words of two languages cannot be compared: a number or a name must be common.
        named = numbers.size + len(names)
        lacking = len(missing_numbers) + len(missing_names)
        return None if lacking < named else _FOREIGN
    words = words_of(sentence)
    if words:
        quotes = " ".join(passage.quote for passage in passages)
        if words.isdisjoint(words_of(quotes)):
            return "no quote shares a word with it"
        if len(words & words_of(surroundings)) < LEAST * len(words):
            return "the quotes share too few of its words"
    for passage in passages:
        contradiction = _contradiction(sentence, passage.around)
        if contradiction is not None:
            return contradiction
    return None


_FOREIGN = "the quotes are in another language, and share neither a number nor a name"


@lru_cache(maxsize=1024)
def _all_stems(text: str) -> frozenset[str]:
    """The stems of all words of a text, common ones too.

    A name that is also a common word ("Will") must be found in a passage. Names and texts are
    compared in this form.
    """
    return frozenset(tokenise(text))


_LETTERS = re.compile(r"[^\W\d_]+")
_APOSTROPHES = re.compile("['’]")


def _contradiction(sentence: str, passage: str) -> str | None:
    """How a passage says most of a sentence with the contrary meaning; None where it does not.

    A quote that says "is not allowed" shares nearly all words with "is allowed", and proves the
    contrary. The text completes a message about a judge's quote. Another result needs a higher
    version of ``support``.
    """
    words = words_of(sentence)
    common = words & words_of(passage)
    # A passage that shares less says something else, and denies nothing.
    if len(words) < 2 or len(common) < _LEAST_CLOSE * len(words):
        return None
    sentence_words = _lower_words(sentence)
    passage_words = _lower_words(passage)
    denials = word_list("denials")
    does_sentence_deny = not denials.isdisjoint(sentence_words)
    does_passage_deny = not denials.isdisjoint(passage_words)
    if does_sentence_deny != does_passage_deny:
        return "the quote says it with another sign: one of both denies"
    # "opens" in the sentence, and "closes" in the passage alone.
    only_in_sentence = sentence_words - passage_words
    only_in_passage = passage_words - sentence_words
    opposites_by_word = opposites()
    for word in sorted(only_in_sentence & opposites_by_word.keys()):
        opposites_in_passage = opposites_by_word[word] & only_in_passage
        if opposites_in_passage:
            return f"the quote says {min(opposites_in_passage)} for {word}"
    return None


def _lower_words(text: str) -> frozenset[str]:
    """The words of a text in small letters, without stemming: "isn't" is the one word "isnt".

    Words of denial are listed in this form.
    """
    without_apostrophes = _APOSTROPHES.sub("", text.lower())
    return frozenset(_LETTERS.findall(without_apostrophes))
