"""How a text is worded: its words, and the amounts, dates and identifiers that it names.

"12 March 2024" and "2024-03-12", "2 pm" and "14:00", "two" and "2" are worded alike. A text is cut
into pieces (``lexemes.py``), and read from the first to the last; the words of numbers, units and
months are in ``amounts.toml`` and ``units.toml``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from ragbench.text.amount_words import (
    EVERY,
    HALVES_OF_DAY,
    NOON_AND_MIDNIGHT,
    O_CLOCK,
    amount_words,
)
from ragbench.text.amounts import Amount, Date, amount_in_unit, rate, year_as_amount
from ragbench.text.han_numbers import han_numbers_in_digits
from ragbench.text.letters import bare, plain_letters
from ragbench.text.lexemes import IDENTIFIER_KINDS, NO_LEXEME, SIGN_WORDS, Lexeme, lexemes
from ragbench.text.units import Unit


class Wording(NamedTuple):
    """A text as it is compared."""

    tokens: tuple[str, ...]
    """Words in small letters; numbers in one form, and so the names of months."""
    amounts: tuple[Amount, ...]
    dates: tuple[Date, ...]
    spoken: tuple[Amount, ...] = ()
    """Parts of one ("half"), and how often something happens ("twice a year", "weekly")."""
    identifiers: tuple[str, ...] = ()
    """Addresses, versions, phone numbers and ratios: each is one thing, letter by letter."""

    @property
    def is_typed(self) -> bool:
        """Whether the text names amounts, dates or identifiers, and nothing else.

        Metrics compare such a text by what it names, and not by its words: "14 days" is "two
        weeks".
        """
        if not self.names_any:
            return False
        typed_words = amount_words().typed
        for token in self.tokens:
            # Identifiers may hold letters ("v2.1b"), so they are looked up whole.
            if token in typed_words or token in self.identifiers:
                continue
            # What is left may be a number; any other word makes it a text to compare by words.
            is_number = token[-1].isdecimal()
            if not is_number:
                return False
        return True

    @property
    def names_any(self) -> bool:
        """Whether the text names an amount, a date or an identifier at all.

        Without any, there is nothing to compare but words.
        """
        return bool(self.amounts or self.dates or self.spoken or self.identifiers)

    @property
    def years(self) -> frozenset[int]:
        """The years of the text's dates, and its numbers from 1000 to 2100 without a unit.

        "in 1998" names a year as a number alone.
        """
        # Dates without a year, as "12 May", name none.
        years = {date.year for date in self.dates if date.year}
        for amount in self.amounts:
            is_without_unit = amount.dimension == ""
            # Outside of these bounds a bare number is seldom a year.
            if is_without_unit and 1000 <= amount.number <= 2100:
                years.add(int(amount.number))
        return frozenset(years)

    @property
    def years_of_dates(self) -> tuple[Amount, ...]:
        """The years of the text's dates as numbers, which compare with the number of "in 1998".

        A date itself does not compare with a number.
        """
        return tuple([year_as_amount(date.year) for date in self.dates if date.year])

    def is_named_by(self, other: Wording) -> bool:
        """Whether another text names all amounts and dates of this one, in whatever form.

        Then it holds what this text, a short answer, says: "two weeks" is named by "14 days".
        """
        # The years of dates count as amounts: "in 1998" is met by "12 May 1998".
        amounts = (*other.amounts, *other.years_of_dates)
        for amount in self.amounts:
            if not amount_is_among(amount, amounts):
                return False
        return all(_date_is_within(date, other.dates) for date in self.dates)


def amount_is_among(amount: Amount, amounts: Iterable[Amount]) -> bool:
    """Whether one of some amounts is the same as an amount, in whatever unit it is written.

    Two equal amounts may be unequal objects: 24 months and 2 years.
    """
    return any(map(amount.equals, amounts))


def _date_is_within(date: Date, dates: Iterable[Date]) -> bool:
    """Whether one of some dates names all that a date names of day, month and year.

    A reference's "May 1998" is named by an answer's "12 May 1998", and not the other way round.
    """
    return any(map(date.is_within, dates))


@lru_cache(maxsize=8192)
def wording(text: str) -> Wording:
    """How a text is worded, in one form for all ways to write it, with its amounts and dates.

    Answers and references are compared in this form: another result changes ``answer_correct`` and
    other metrics, whose versions are raised with it.
    """
    plain = plain_letters(text)
    # "1'000" is a number; every other apostrophe is left out, and a genitive with its s.
    if "'" in plain:
        plain = _GROUP_APOSTROPHE.sub(",", plain)
        plain = plain.replace("'s ", " ").replace("'", "")
    # Most sentences name nothing, which a look at their words tells without reading the pieces.
    if plain.isascii() and not _NAMES_BY_SIGNS.search(plain):
        words = tuple(plain.lower().translate(_LETTERS_ALONE).split())
        names_nothing = amount_words().naming.isdisjoint(words)
        # Short texts are read whole: they may be a reference, whose identifiers count.
        if names_nothing and len(words) > _MOST_WORDS_READ_WHOLE:
            return Wording(words, (), ())
    # Behind the quick way, which only texts in ASCII take: Chinese numbers are never in ASCII.
    plain = han_numbers_in_digits(plain)
    plain = _HALF_OF_DAY_WITH_POINTS.sub(r"\1m", plain)
    reader = _WordingReader(lexemes(plain))
    return reader.read()


_NAMES_BY_SIGNS = re.compile(r"[\d$%@~<>]|://|www\.")
"""What a text without number words must have to name an amount or an identifier."""
_GROUP_APOSTROPHE = re.compile(r"(?<=\d)'(?=\d{3}(?!\d))")
"""Between groups of three digits, as the Swiss write 1'250'000."""
_HALF_OF_DAY_WITH_POINTS = re.compile(r"\b([aApP])\.\s?[mM]\.?(?!\w)")
"""As in "9 a.m.", which is read like "9 am"."""
_LETTERS_ALONE = "".join([chr(code) if chr(code).islower() else " " for code in range(128)])
"""A table for `str.translate`: every sign but a small letter becomes a space."""
_MOST_WORDS_READ_WHOLE = 4
"""Words of a text that is always read piece by piece: "a day" is an amount there, and hardly in a
sentence."""
_MOST_DIGITS = 300
"""Digits of a number that are read: a float holds no more before its point."""
_LARGEST = 1e300
"""The largest number: products of larger ones are infinite."""
_MOST_WORDS_OF_BOUND = 4
"""Words of the longest phrase that bounds a number, such as "no more than"."""
_WORDS_FROM_BETWEEN = 6
"""How far before "and 7 days" the word of "between 5" is looked for."""

_ORDINAL_ENDINGS = ("st", "nd", "rd", "th")
_OF = ("of", "de", "di")
"""Between a day and its month, or a month and its year."""
_RANGE_WORDS = ("to", "bis")
"""Between the two ends of a range: 5 to 7 days."""
_CONTINUED = ("time", "length", "mass")
"""Dimensions of which one amount is written in two units: 1 hour 30 minutes, 6 feet 2 inches."""
_MEASURED_IN_PARTS = ("time", "length", "mass", "length^3")
"""Dimensions of which a part is an amount of its own: half a minute, a third of a litre."""
_AND_A_HALF = ("and", "a", "half")
_THREE_DECIMALS = re.compile(r"-?\d{1,3}\.\d{3}")


class _Figure(NamedTuple):
    """A number that is read, without its unit."""

    number: float
    place: float
    """What its last digit counts."""
    end: int
    """The position behind it."""


class _WordingReader:
    """Reads the pieces of a text from the first to the last.

    Each method that reads takes the position of a piece, adds what begins there to the words,
    amounts, dates and identifiers, and gives the position behind it.
    """

    def __init__(self, pieces: Sequence[Lexeme]) -> None:
        """Begins before the first piece of a text.

        An object reads one text once.

        Args:
            pieces: the words, numbers and signs of the text, in their order.
        """
        # The pieces of the text, read from left to right by position.
        self._lexemes = pieces
        self._words = amount_words()
        # What was read so far; each list becomes a field of the `Wording`.
        self._tokens: list[str] = []
        self._amounts: list[Amount] = []
        self._dates: list[Date] = []
        # Amounts without a number of their own: "half", "weekly".
        self._spoken: list[Amount] = []
        self._identifiers: list[str] = []

    def read(self) -> Wording:
        """Reads all pieces of the text from the first to the last, and returns what it names.

        Most pieces are words that name nothing: these are not looked at further.
        """
        special = self._words.special
        position = 0
        while position < len(self._lexemes):
            lexeme = self._lexemes[position]
            word = lexeme.word
            # Most pieces are words that name nothing.
            if lexeme.kind == "word" and word.isascii() and word not in special:
                self._tokens.append(word)
                position += 1
            else:
                position = self._read_piece(position)
        return Wording(
            tuple(self._tokens),
            tuple(self._amounts),
            tuple(self._dates),
            tuple(self._spoken),
            tuple(self._identifiers),
        )

    def _piece_at(self, position: int) -> Lexeme:
        """The piece of the text at a position; an empty one before the first and behind the last.

        So the methods that read may look around without asking where the text ends.
        """
        if 0 <= position < len(self._lexemes):
            return self._lexemes[position]
        return NO_LEXEME

    def _word_at(self, position: int) -> str:
        """The word of the piece at a position, in small letters; empty outside of the text.

        Callers look around a piece by it, as for "am" behind a number.
        """
        return self._piece_at(position).word

    def _read_piece(self, position: int) -> int:
        """Reads what begins at a position of the text, by the kind of its first piece.

        The kind is that of the pattern that cut the piece (`ragbench.text.lexemes`).

        Returns:
            The position behind all that was read.
        """
        lexeme = self._lexemes[position]
        kind = lexeme.kind
        if kind == "number":
            return self._read_number(position)
        if kind == "word":
            return self._read_word(position)
        if kind == "clock":
            return self._read_clock(position)
        if kind == "part":  # 3/4, with a slash or the sign of fractions
            numerator, denominator = re.split("[/⁄]", lexeme.raw)
            # A denominator of 0 is no match of the pattern.
            share = float(numerator) / float(denominator)
            return self._read_fraction(position, share, position + 1)
        if kind in IDENTIFIER_KINDS:
            self._add_identifier(lexeme)
        elif kind == "day":
            self._add_day(lexeme)
        # Of other signs, such as a dash, nothing is kept: they are read with what is around them.
        elif lexeme.raw in SIGN_WORDS:
            self._tokens.append(lexeme.word)
        return position + 1

    # --- words

    def _read_word(self, position: int) -> int:
        """Reads a word of the text, with the month, part, rate or number that it names.

        Amounts that are written out are compared with those in digits: "a third" with "1/3". The
        order decides about words of two meanings: "May" is a month before it is a word, "third" a
        part before it is a number. Another result for any answer needs a higher version of
        ``answer_correct``.

        Returns:
            The position behind all that was read: "a dozen" takes two words.
        """
        words = self._words
        lexeme = self._lexemes[position]
        word = bare(lexeme.word)
        end = position + 1
        if word in words.months:
            return self._read_month(position, words.months[word])
        is_ordinal = word in words.ordinals
        is_part = word in words.fractions
        # "a third of" and "the third of May" have the same word: what follows decides.
        if is_part and is_ordinal:
            is_part = self._is_part_of(position)
        if is_part:
            return self._read_fraction(position, words.fractions[word], end)
        if word in words.times:
            return self._read_times(position, words.times[word], end)
        if word in words.rates:
            # A rate such as "weekly" has no number: it means once in that time.
            self._tokens.append(lexeme.word)
            self._spoken.append(rate(1.0, words.rates[word]))
            return end
        if word in EVERY:
            return self._read_every(position)
        if word in NOON_AND_MIDNIGHT:
            self._add_time_of_day(NOON_AND_MIDNIGHT[word])
            return end
        # "a day" and "an hour" are an amount of one; before other words the article is a word.
        if word in ("a", "an") and self._word_at(end) in words.units:
            return self._read_article(position)
        if word in words.numbers or is_ordinal:
            return self._read_number(position)
        self._tokens.append(lexeme.word)
        return end

    def _is_part_of(self, position: int) -> bool:
        """Whether the word "third" or the like is a part, as in "a third of", and no ordinal.

        "the third of" is a day or a place in an order.
        """
        word_before = self._word_at(position - 1)
        word_behind = self._word_at(position + 1)
        # Behind the last word of a text there is an empty one.
        return word_before in ("a", "one") and word_behind in ("of", "")

    def _read_article(self, position: int) -> int:
        """Reads "an hour" as one hour, where a half follows, or where the text says no more.

        In a sentence "a day" and "a metre" seldom are amounts.

        Returns:
            The position behind all that was read.
        """
        self._tokens.append(self._lexemes[position].word)
        behind = position + 1
        unit, end = self._unit_at(behind)
        if unit is None:
            return behind
        # Up to two words may be before the article, as in "within about an hour".
        is_whole_text = end >= len(self._lexemes) and position <= 2
        if is_whole_text or self._follows_half(end):
            article = _Figure(number=1.0, place=1.0, end=behind)
            return self._read_quantity(article, "", position)
        return behind

    # --- numbers

    def _read_number(self, position: int) -> int:
        """Reads a number in digits or words, with its scale ("thousand", "k") and its unit.

        The order matters: "two thirds" is a part, "5 times" a frequency, and only then a unit is
        looked for. Another result for any answer needs a higher version of ``answer_correct``.

        Returns:
            The position behind all that was read.
        """
        words = self._words
        number, place, end = self._figure_at(position)
        word_behind = bare(self._word_at(end))
        if word_behind == "times":
            return self._read_times(position, number, end + 1)
        if self._is_part(word_behind, number):  # two thirds
            share = number * words.fractions[word_behind]
            return self._read_fraction(position, share, end + 1)
        # Several scales follow each other in "5 hundred thousand".
        while self._word_at(end) in words.scales:
            scale = words.scales[self._word_at(end)]
            number = min(number * scale, _LARGEST)
            place = min(place * scale, _LARGEST)
            end += 1
        short_scale = self._short_scale(position, end)
        if short_scale is not None:
            number *= short_scale
            place *= short_scale
            end += 1
        bound = self._bound_before(position)
        return self._read_quantity(_Figure(number, place, end), bound, position)

    def _figure_at(self, position: int) -> _Figure:
        """The number at a position, in digits or one or two words, without its scale and unit.

        "twenty-two" is two words, "3rd" a number with an ending.
        """
        words = self._words
        lexeme = self._lexemes[position]
        end = position + 1
        behind = self._piece_at(end)
        if lexeme.kind == "number":
            number, place = _number_in_digits(lexeme.raw)
            # Right behind: "3 rd" is a number and a word.
            if behind.word in _ORDINAL_ENDINGS and behind.is_right_behind(lexeme):
                end += 1
            return _Figure(number, place, end)
        word = bare(lexeme.word)
        if word in words.ordinals:
            number = words.ordinals[word]
        else:
            number = words.numbers[word]
        if behind.raw == "-":  # twenty-two
            behind = self._piece_at(end + 1)
            end_of_second_word = end + 2
        else:
            end_of_second_word = end + 1
        digit = words.numbers.get(behind.word)
        if digit is None:
            digit = words.ordinals.get(behind.word, 0)
        # A ten and a digit are one number, "twenty-two"; "five six" are two.
        if number >= 20 and 0 < digit < 10:
            return _Figure(number + digit, 1.0, end_of_second_word)
        return _Figure(number, 1.0, end)

    def _is_part(self, word: str, number: float) -> bool:
        """Whether a word behind a number names parts of a whole: "thirds" behind 2.

        "5 thirds" names parts, "5 third" has an ordinal.

        Args:
            number: before the word, which has one form for one part (third) and another for
                several (thirds).
        """
        words = self._words
        if word not in words.fractions or word in words.numbers:
            return False
        if word == "quarters" and number > 3:  # "4 quarters" are of a year
            return False
        return number == 1 or word.endswith("s")

    def _short_scale(self, position: int, end: int) -> float | None:
        """The scale of a letter right behind a number, such as the k of 5k; None for other letters.

        5m are metres, unless a currency is before them, as in £5m.

        Args:
            position: of the number.
            end: of the letter.
        """
        letter = self._piece_at(end)
        scale = self._words.short_scales.get(letter.word)
        if scale is None or not letter.is_right_behind(self._lexemes[position]):
            # "5 k" with a blank is a number and a letter.
            return None
        is_money = self._word_at(position - 1) in self._words.currencies
        # "M" in capitals is millions, unless "M/s" follows.
        is_millions = letter.raw == "M" and self._piece_at(end + 1).raw != "/"
        if is_money or is_millions or letter.word == "k":
            return scale
        return None

    def _read_quantity(self, figure: _Figure, bound: str, position: int) -> int:
        """Adds a number to the text's amounts, with the unit behind it or the currency before it.

        A number before "am" or "o'clock" is a time of day. The order matters: a range shares its
        unit before an amount is joined with the one before ("1 hour 30 minutes"). Another result
        for any answer needs a higher version of ``answer_correct``.

        Args:
            figure: the number.
            bound: as `Amount.bound`.
            position: of the first piece of the number.

        Returns:
            The position behind all that was read.
        """
        words = self._words
        number, place, end = figure
        word_behind = self._word_at(end)
        # 1 to 12 with a half of the day, up to 24 with "o'clock": other numbers are something else.
        if word_behind in HALVES_OF_DAY and number <= 12:
            minutes = _minutes_of_day(int(number), 0, word_behind)
            self._add_time_of_day(minutes)
            return end + 1
        if word_behind in O_CLOCK and number <= 24:
            self._add_time_of_day(60 * int(number))
            return end + 1
        # The unit behind the number goes before a currency in front: "$5 million" has both.
        unit, behind = self._unit_at(end)
        is_money = unit is not None and unit.dimension in words.currencies
        word_before = self._word_at(position - 1)
        if word_before in words.currencies and not is_money:
            unit = words.units[word_before]
            behind = end
            is_money = True
        if is_money and _THREE_DECIMALS.fullmatch(self._lexemes[position].raw):
            # In "5.000 €" the point is between thousands: no currency has three decimals.
            number *= 1000
            place = 1.0
        if self._follows_half(behind):
            number += 0.5
            # An amount with a half is exact to a tenth, as 1.5 is.
            place = 0.1
            behind += len(_AND_A_HALF)
            # The unit is before the half ("an hour and a half"), or behind it.
            if unit is None:
                unit, behind = self._unit_at(behind)
        amount = amount_in_unit(number, place, unit, bound)
        self._tokens.append(f"{number:.12g}")
        self._add_unit_words(end, behind)
        self._share_unit_of_range(amount, position)
        # "1 hour 30 minutes" is one amount, the sum of its parts.
        if self._continues_last_amount(amount, position):
            begun = self._amounts.pop()
            amount = begun._replace(value=begun.value + amount.value, step=amount.step)
        self._amounts.append(amount)
        return behind

    def _follows_half(self, position: int) -> bool:
        """Whether "and a half" follows at a position, which adds to the number before it.

        In "two and a half hours" it is read with the number, and not as a part of its own.
        """
        for offset, word in enumerate(_AND_A_HALF):
            if self._word_at(position + offset) != word:
                return False
        return True

    def _add_unit_words(self, begin: int, end: int) -> None:
        """Adds the words of a unit to the words of the text, by which texts are compared, too.

        Signs such as € count as words of their unit.

        Args:
            begin: the position of the unit's first piece.
            end: the position behind its last one.
        """
        for lexeme in self._lexemes[begin:end]:
            if lexeme.kind == "word" or lexeme.raw in SIGN_WORDS:
                self._tokens.append(lexeme.word)

    def _share_unit_of_range(self, amount: Amount, position: int) -> None:
        """Gives the 5 of "5 to 7 days" the unit of the 7: without it, it would be 5 of anything.

        Only where "to", a dash or "between ... and" shows that both are ends of a range. Another
        result for any answer needs a higher version of ``answer_correct``.

        Args:
            amount: the upper end; the lower one is the amount that was read last.
            position: of the amount's number.
        """
        # Without a unit there is nothing to give, and without an earlier amount nobody to get it.
        if not amount.dimension or not self._amounts:
            return
        low = self._amounts[-1]
        # The lower end has a unit of its own.
        if low.dimension:
            return
        between = self._piece_at(position - 1)
        is_range = between.raw == "-" or between.word in _RANGE_WORDS
        if between.word == "and":
            is_range = "between" in self._tokens[-_WORDS_FROM_BETWEEN:]  # "between 5 and 7 days"
        if not is_range or self._piece_at(position - 2).kind != "number":
            return
        # From the amount itself, since a unit's size is not kept: value for each 1 that is written.
        unit_size = 1.0
        if amount.number:
            unit_size = amount.value / amount.number
        self._amounts[-1] = low._replace(
            dimension=amount.dimension,
            value=low.number * unit_size,
            step=low.place * unit_size,
        )

    def _continues_last_amount(self, amount: Amount, position: int) -> bool:
        """Whether an amount goes on from the one read before: the minutes of "1 hour 30 minutes".

        Read as two amounts, "1 hour 30 minutes" would not be "90 minutes".

        Args:
            position: of the amount's number.
        """
        if amount.dimension not in _CONTINUED or not self._amounts:
            return False
        begun = self._amounts[-1]
        if begun.dimension != amount.dimension:
            return False
        # The minutes are less than an hour, which is what the last digit of "1 hour" counts.
        is_less_than_last_digit = begun.step > 0 and amount.value < begun.step
        if not is_less_than_last_digit or amount.step >= begun.step:
            return False
        # The unit of the amount before is right before this number, or before an "and".
        before = self._piece_at(position - 1)
        if before.word == "and":
            before = self._piece_at(position - 2)
        return before.kind == "word" and before.word in self._words.units

    def _bound_before(self, position: int) -> str:
        """How the words before a number bound it, ``most`` by "no more than"; or empty.

        "At least 5" and "at most 5" have the same number, and contradict each other.

        Args:
            position: of the number.
        """
        end = position
        if self._word_at(position - 1) in self._words.currencies:  # no more than $ 5
            end -= 1
        # Most numbers have no bound, which their last word before tells.
        if self._word_at(end - 1) not in self._words.ends_of_bounds:
            return ""
        # The longest phrase counts: "no less than" is no "less than".
        for length in range(_MOST_WORDS_OF_BOUND, 0, -1):
            start = max(end - length, 0)
            phrase = tuple([lexeme.word for lexeme in self._lexemes[start:end]])
            bound = self._words.bounds.get(phrase)
            if bound is not None:
                return bound
        return ""

    def _unit_at(self, position: int) -> tuple[Unit | None, int]:
        """The unit that begins at a position, or None, and the position behind it.

        A unit may be of several pieces: "km per hour", "m²", "calendar days". Another result for
        any answer needs a higher version of ``answer_correct``.
        """
        words = self._words
        lexeme = self._piece_at(position)
        if lexeme.raw == "-":  # "a 30-day period"
            position += 1
            lexeme = self._piece_at(position)
        # "5 full days": a word may be between number and unit, unless it is a unit itself.
        if lexeme.word in words.between and lexeme.word not in words.units:
            position += 1
            lexeme = self._piece_at(position)
        if lexeme.word in words.working:
            # Five working days are no five days, so they have a dimension of their own.
            unit, end = self._unit_at(position + 1)
            if unit is not None and unit.dimension == "time":
                return Unit("working time", unit.size), end
            return None, position
        # Two words first: "square metres" begins with a word that is no unit.
        end = position + 1
        two_words = f"{lexeme.word} {self._word_at(end)}"
        unit = words.units.get(two_words)
        if unit is not None:
            return unit, end + 1
        unit = self._unit_by_word(lexeme)
        if unit is None:
            return None, position
        # Right behind only: "5 m 2" is no square.
        power = self._piece_at(end)
        if power.raw in ("^2", "^3") and power.is_right_behind(lexeme):
            exponent = int(power.raw[1])
            unit = unit.to_the_power(exponent)
            end += 1
        ratio_sign = self._piece_at(end)
        # "kg per person" ends before the "per": a person is no unit.
        if ratio_sign.raw == "/" or ratio_sign.word in ("per", "pro"):
            denominator = self._unit_by_word(self._piece_at(end + 1))
            if denominator is not None:
                return unit.per(denominator), end + 2
        return unit, end

    def _unit_by_word(self, lexeme: Lexeme) -> Unit | None:
        """The unit that one piece names by its symbol or word; None where it names none.

        "M" and "m" are two units, so that the symbol as it is written comes first.
        """
        if lexeme.kind != "word" and lexeme.raw not in SIGN_WORDS:
            return None
        units = self._words.units
        # First as it is written, then in small letters: "M" and "m" are two units.
        for name in (lexeme.raw, lexeme.word, bare(lexeme.word)):
            if name in units:
                return units[name]
        return None

    # --- parts and frequencies

    def _read_fraction(self, position: int, share: float, end: int) -> int:
        """Reads a part of one ("half"); with a unit behind it ("half a minute") it is an amount.

        A part without a unit compares with percentages: a half is 50 %. Another result for any
        answer needs a higher version of ``answer_correct``.

        Args:
            share: of one, such as 0.5.
            end: the position behind the part.

        Returns:
            The position behind all that was read.
        """
        self._add_pieces(position, end)
        # "half an hour" and "half of a minute": articles are no words of a unit.
        behind = end
        while self._word_at(behind) in ("of", "a", "an"):
            behind += 1
        unit, end_of_unit = self._unit_at(behind)
        if unit is not None and unit.dimension in _MEASURED_IN_PARTS:
            self._add_unit_words(end, end_of_unit)
            # A part in words has no last digit, so it has no place that could be rounded.
            self._amounts.append(amount_in_unit(share, 0.0, unit))
            return end_of_unit
        # The step is room for the errors of division: 2/3 and 4/6 are the same.
        self._spoken.append(Amount("share", value=share, number=share, place=0.0, step=1e-6))
        return end

    def _read_times(self, position: int, count: float, end: int) -> int:
        """Reads how often something happens ("twice"); with "a year" behind it in which time.

        With a time it is a rate, which compares with "weekly" and the like. Another result for any
        answer needs a higher version of ``answer_correct``.

        Args:
            count: how often.
            end: the position behind the count.

        Returns:
            The position behind all that was read.
        """
        # The words stay words: they are compared as such where no rate is found.
        self._add_pieces(position, end)
        behind_count = self._piece_at(end)
        # "a year", "per year" or "/year".
        if behind_count.word in self._words.each or behind_count.raw == "/":
            unit, behind = self._unit_at(end + 1)
            if unit is not None and unit.dimension == "time":
                self._add_unit_words(end, behind)
                self._spoken.append(rate(count, unit.size))
                return behind
        # Without a time behind it the count is an amount of "times", as "two times" is.
        self._spoken.append(Amount("times", value=count, number=count, place=1.0, step=1.0))
        return end

    def _read_every(self, position: int) -> int:
        """Reads "every six months": something happens once in that time.

        The rate compares with "twice a year".

        Returns:
            The position behind all that was read.
        """
        self._tokens.append(self._lexemes[position].word)
        end = position + 1
        lexeme = self._piece_at(end)
        count: float | None = None
        # In digits or in letters; "every month" has neither.
        if lexeme.kind == "number":
            count, _ = _number_in_digits(lexeme.raw)
        else:
            count = self._words.numbers.get(bare(lexeme.word))
        begin_of_unit = end
        if count is not None:
            begin_of_unit += 1
        unit, behind = self._unit_at(begin_of_unit)
        # "every six people" is no rate, and every 0 days would divide by nothing.
        if unit is None or unit.dimension != "time" or count == 0:
            return end
        seconds = unit.size
        if count is not None:
            # The count in one form, as digits: "six" and "6" are the same word then.
            self._tokens.append(f"{count:.12g}")
            seconds *= count
        self._add_unit_words(begin_of_unit, behind)
        self._spoken.append(rate(1.0, seconds))
        return behind

    def _add_pieces(self, begin: int, end: int) -> None:
        """Adds the pieces from one position to another to the words of the text, as they are.

        What they name is added to the amounts apart from that.
        """
        for lexeme in self._lexemes[begin:end]:
            self._tokens.append(lexeme.word)

    # --- times of day, dates, identifiers

    def _read_clock(self, position: int) -> int:
        """Reads a time of day in digits, "2:30", with "am" or "pm" behind it.

        Seconds are left out: times of day compare by their minutes.

        Returns:
            The position behind all that was read.
        """
        # Of 14:00:30 the seconds are left out: times of day compare by their minutes.
        hours, minutes = self._lexemes[position].raw.split(":")[:2]
        word_behind = self._word_at(position + 1)
        minutes_of_day = _minutes_of_day(int(hours), int(minutes), word_behind)
        self._add_time_of_day(minutes_of_day)
        if word_behind in (*HALVES_OF_DAY, "uhr"):
            return position + 2
        return position + 1

    def _add_time_of_day(self, minutes: int) -> None:
        """Adds a time of day to the text's amounts, by its minutes since midnight.

        Its word is one that no text has, so that "2 pm" and "14:00" are the same word.
        """
        self._tokens.append(f"clock{minutes}")
        self._amounts.append(Amount("clock", value=minutes, number=minutes / 60))

    def _add_identifier(self, lexeme: Lexeme) -> None:
        """Adds an address, version, phone number or ratio to the text's identifiers, in one form.

        Identifiers are compared letter by letter, so that marks around them and between the digits
        of a phone number must not count.

        Args:
            lexeme: the piece that is one.
        """
        identifier = lexeme.word.rstrip(".,;:!?)")
        if lexeme.kind == "phone":  # without the spaces, points and brackets between digits
            country_sign = "+" if identifier.startswith("+") else ""
            digits = re.sub(r"\D", "", identifier)
            identifier = country_sign + digits
        self._identifiers.append(identifier)
        self._tokens.append(identifier)

    def _add_day(self, lexeme: Lexeme) -> None:
        """Adds a day in digits to the text's dates; of 3/4/2024 the year alone.

        Which of 3 and 4 is the month differs between countries. Another result for any answer needs
        a higher version of ``answer_correct``.

        Args:
            lexeme: the piece that is a day.
        """
        parts = [int(part) for part in re.split("[-./]", lexeme.raw)]
        if "-" in lexeme.raw:  # 2024-03-12
            year, month, day = parts
        else:  # 12.03.2024
            day, month, year = parts
        is_american_or_british = "/" in lexeme.raw and month <= 12 and day <= 12
        if is_american_or_british and month != day:
            self._tokens.append(lexeme.word)
            self._amounts.append(year_as_amount(year))
            return
        if month > 12:  # 3/14/2024 is American
            day, month = month, day
        is_date = 1 <= month <= 12 and 1 <= day <= 31
        if not is_date:
            self._tokens.append(lexeme.word)
            self._identifiers.append(lexeme.word)
            return
        self._dates.append(Date(year, month, day))
        self._tokens += [str(day), self._words.month_names[month - 1], str(year)]

    def _read_month(self, position: int, month: int) -> int:
        """Reads the name of a month, with day and year around it where there are any.

        Names that are also words, such as "may" and "march", are months beside a number only.
        Another result for any answer needs a higher version of ``answer_correct``.

        Args:
            month: its number, 1 to 12.

        Returns:
            The position behind all that was read.
        """
        lexeme = self._lexemes[position]
        end = position + 1
        before = self._piece_at(position - 1)
        if before.word in _ORDINAL_ENDINGS:  # 3rd May
            before = self._piece_at(position - 2)
        if bare(lexeme.word) in self._words.ambiguous_months:
            is_beside_number = before.kind == "number" or self._piece_at(end).kind == "number"
            word_before_of = self._word_at(position - 2)
            is_behind_of = before.word in _OF and word_before_of in _ORDINAL_ENDINGS
            # A number may also be two pieces before: the 3rd of May.
            if not is_beside_number and not is_behind_of:
                self._tokens.append(lexeme.word)
                return end
        day = self._take_day_before(before)
        self._tokens.append(self._words.month_names[month - 1])
        if self._word_at(end) in _OF:
            end += 1
        if day is None and _is_day(self._piece_at(end)):  # May 3rd
            day = int(self._piece_at(end).raw)
            self._tokens.append(str(day))
            end += 1
            if self._word_at(end) in _ORDINAL_ENDINGS:
                end += 1
        year: int | None = None
        if _is_year(self._piece_at(end)):
            year = int(self._piece_at(end).raw)
            self._tokens.append(str(year))
            end += 1
        self._dates.append(Date(year, month, day))
        return end

    def _take_day_before(self, before: Lexeme) -> int | None:
        """The day before a month ("12 March", "the 3rd of May"); None where there is none.

        Its number was read as an amount already, and is taken back: it counts nothing.

        Args:
            before: the piece before the month, or before the ending of "3rd".
        """
        is_behind_number = before.kind == "number"
        if before.word in _OF and len(self._tokens) > 1:
            # The words of "the 3rd of" end with the number and "of".
            is_behind_number = self._tokens[-2].isdecimal()
        if not is_behind_number or not self._amounts:
            return None
        # The number was read as an amount already, since texts are read from the left.
        amount = self._amounts[-1]
        is_whole_number = not amount.dimension and amount.place == 1.0
        if not is_whole_number or not 1 <= amount.number <= 31:
            return None
        self._amounts.pop()
        return int(amount.number)


def _is_day(lexeme: Lexeme) -> bool:
    """Whether a piece beside a month may be its day: a number of one or two digits, up to 31.

    "May 1998" and "May 500" name no day.
    """
    if lexeme.kind != "number" or not lexeme.raw.isdecimal():
        return False
    return len(lexeme.raw) <= 2 and 1 <= int(lexeme.raw) <= 31


def _is_year(lexeme: Lexeme) -> bool:
    """Whether a piece behind a month may be its year: a number of four digits.

    "May 12" names a day.
    """
    if lexeme.kind != "number" or not lexeme.raw.isdecimal():
        return False
    return len(lexeme.raw) == 4


def _number_in_digits(digits: str) -> tuple[float, float]:
    """A number in digits, and what its last digit counts.

    A comma before one or two digits is that of decimals (12,50), else it is between thousands;
    several points are between thousands (4.523.000). A text does not say which way of writing it
    uses: the places of the marks show it.
    """
    # Longer runs of digits are no number that an answer names: the cut keeps `float` quick.
    plain = digits[:_MOST_DIGITS].replace(" ", "")
    if "," in plain:
        whole, _, decimals = plain.rpartition(",")
        # A point behind the comma would be the decimal one: 1,234.5.
        is_decimal_comma = len(decimals) <= 2 and "." not in decimals
        if is_decimal_comma:
            whole_digits = whole.replace(".", "").replace(",", "")
            plain = f"{whole_digits}.{decimals}"
        else:
            plain = plain.replace(",", "")
    # A single point is left as it is: of decimals more often than of thousands.
    elif plain.count(".") > 1:
        plain = plain.replace(".", "")
    _, _, decimals = plain.partition(".")
    place = 10.0 ** -len(decimals)
    return float(plain), place


def _minutes_of_day(hours: int, minutes: int, half: str) -> int:
    """The minutes since midnight of a time of day, by which times compare.

    "2 pm" and "14:00" are both 840.

    Args:
        hours: as written, 1 to 12 where ``half`` is given.
        half: ``am`` or ``pm``; other words are none of the time.
    """
    # 12 am is 0 and 12 pm is 12: the twelve counts as 0 before the half is added.
    if half in HALVES_OF_DAY:
        hours %= 12
    if half == "pm":
        hours += 12
    return 60 * hours + minutes
