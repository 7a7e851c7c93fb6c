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
        """Whether it names amounts, dates or identifiers, and nothing else."""
        if not self.names_any:
            return False
        typed = amount_words().typed
        for token in self.tokens:
            is_number = token[-1].isdecimal()
            if token not in typed and not is_number and token not in self.identifiers:
                return False
        return True

    @property
    def names_any(self) -> bool:
        """Whether it names an amount, a date or an identifier at all."""
        return bool(self.amounts or self.dates or self.spoken or self.identifiers)

    @property
    def years(self) -> frozenset[int]:
        """The years of its dates, and the numbers alone that may be a year."""
        years = {date.year for date in self.dates if date.year}
        for amount in self.amounts:
            if not amount.dimension and 1000 <= amount.number <= 2100:
                years.add(int(amount.number))
        return frozenset(years)

    @property
    def years_of_dates(self) -> tuple[Amount, ...]:
        """The years of its dates as numbers, which compare with other numbers."""
        return tuple([year_as_amount(date.year) for date in self.dates if date.year])

    def is_named_by(self, other: Wording) -> bool:
        """Whether the other text names all amounts and dates of this one."""
        amounts = (*other.amounts, *other.years_of_dates)
        for amount in self.amounts:
            if not amount_is_among(amount, amounts):
                return False
        return all(any(map(date.is_within, other.dates)) for date in self.dates)


def amount_is_among(amount: Amount, amounts: Iterable[Amount]) -> bool:
    """Whether one of the amounts is the same, in whatever unit it is written."""
    return any(map(amount.equals, amounts))


@lru_cache(maxsize=8192)
def wording(text: str) -> Wording:
    """How a text is worded, with the amounts and dates in it."""
    plain = plain_letters(text)
    if "'" in plain:
        plain = _GROUP_APOSTROPHE.sub(",", plain)
        plain = plain.replace("'s ", " ").replace("'", "")
    if plain.isascii() and not _NAMES_BY_SIGNS.search(plain):
        tokens = tuple(plain.lower().translate(_LETTERS_ALONE).split())
        names_nothing = amount_words().naming.isdisjoint(tokens)
        if len(tokens) > _MOST_WORDS_READ_WHOLE and names_nothing:
            return Wording(tokens, (), ())
    plain = han_numbers_in_digits(plain)
    plain = _HALF_OF_DAY_WITH_POINTS.sub(r"\1m", plain)
    return _WordingReader(lexemes(plain)).read()


_NAMES_BY_SIGNS = re.compile(r"[\d$%@~<>]|://|www\.")
"""What a text without number words must have to name an amount or an identifier."""
_GROUP_APOSTROPHE = re.compile(r"(?<=\d)'(?=\d{3}(?!\d))")
"""Between groups of three digits, as the Swiss write 1'250'000."""
_HALF_OF_DAY_WITH_POINTS = re.compile(r"\b([aApP])\.\s?[mM]\.?(?!\w)")
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

_ORDINAL_ENDINGS = ("st", "nd", "rd", "th")
_OF = ("of", "de", "di")
"""Between a day and its month, or a month and its year."""
_RANGE_WORDS = ("to", "bis")
_CONTINUED = ("time", "length", "mass")
"""Dimensions of which one amount is written in two units: 1 hour 30 minutes, 6 feet 2 inches."""
_MEASURED_IN_PARTS = ("time", "length", "mass", "length^3")
"""Dimensions of which a part is an amount of its own: half a minute, a third of a litre."""
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
        self._lexemes = pieces
        self._words = amount_words()
        self._tokens: list[str] = []
        self._amounts: list[Amount] = []
        self._dates: list[Date] = []
        self._spoken: list[Amount] = []
        self._identifiers: list[str] = []

    def read(self) -> Wording:
        """All that the text names."""
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

    def _at(self, position: int) -> Lexeme:
        """The piece at a position; an empty one before the first and behind the last."""
        if 0 <= position < len(self._lexemes):
            return self._lexemes[position]
        return NO_LEXEME

    def _word_at(self, position: int) -> str:
        """The word at a position, in small letters."""
        return self._at(position).word

    def _read_piece(self, position: int) -> int:
        """Reads what begins at a position, by the kind of its first piece."""
        lexeme = self._lexemes[position]
        kind = lexeme.kind
        if kind == "number":
            return self._read_number(position)
        if kind == "word":
            return self._read_word(position)
        if kind == "clock":
            return self._read_clock(position)
        if kind == "part":
            above, below = re.split("[/⁄]", lexeme.raw)
            return self._read_fraction(position, float(above) / float(below), position + 1)
        if kind in IDENTIFIER_KINDS:
            self._add_identifier(lexeme)
        elif kind == "day":
            self._add_day(lexeme)
        elif lexeme.raw in SIGN_WORDS:
            self._tokens.append(lexeme.word)
        return position + 1

    # --- words

    def _read_word(self, position: int) -> int:
        words = self._words
        lexeme = self._lexemes[position]
        word = bare(lexeme.word)
        end = position + 1
        if word in words.months:
            return self._read_month(position, words.months[word])
        is_ordinal = word in words.ordinals
        if word in words.fractions and (not is_ordinal or self._is_part_of(position)):
            return self._read_fraction(position, words.fractions[word], end)
        if word in words.times:
            return self._read_times(position, words.times[word], end)
        if word in words.rates:
            self._tokens.append(lexeme.word)
            self._spoken.append(rate(1.0, words.rates[word]))
            return end
        if word in EVERY:
            return self._read_every(position)
        if word in NOON_AND_MIDNIGHT:
            self._add_time_of_day(NOON_AND_MIDNIGHT[word])
            return end
        if word in ("a", "an") and self._word_at(end) in words.units:
            return self._read_article(position)
        if word in words.numbers or is_ordinal:
            return self._read_number(position)
        self._tokens.append(lexeme.word)
        return end

    def _is_part_of(self, position: int) -> bool:
        """Whether "third" is a part, as in "a third of", and not an ordinal."""
        is_all_or_part_of = self._word_at(position + 1) in ("of", "")
        return self._word_at(position - 1) in ("a", "one") and is_all_or_part_of

    def _read_article(self, position: int) -> int:
        """Reads "an hour" as one, where a half follows, or the text says no more.

        In a sentence "a day" and "a metre" seldom are amounts.
        """
        self._tokens.append(self._lexemes[position].word)
        unit, end = self._unit(position + 1)
        is_all = end >= len(self._lexemes) and position <= 2
        if unit is None or not (is_all or self._follows_half(end)):
            return position + 1
        return self._read_quantity(1.0, 1.0, "", position, position + 1)

    # --- numbers

    def _read_number(self, position: int) -> int:
        """Reads a number in digits or words, with its scale and unit."""
        words = self._words
        number, place, end = self._figure(position)
        word_behind = bare(self._word_at(end))
        if word_behind == "times":
            return self._read_times(position, number, end + 1)
        if self._is_part(word_behind, number):  # two thirds
            return self._read_fraction(position, number * words.fractions[word_behind], end + 1)
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
        return self._read_quantity(number, place, self._bound(position), position, end)

    def _figure(self, position: int) -> _Figure:
        """A number alone, in digits or in one or two words."""
        words = self._words
        lexeme = self._lexemes[position]
        end = position + 1
        behind = self._at(end)
        if lexeme.kind == "number":
            number, place = _number_in_digits(lexeme.raw)
            if behind.word in _ORDINAL_ENDINGS and behind.is_right_behind(lexeme):
                end += 1
            return _Figure(number, place, end)
        word = bare(lexeme.word)
        number = words.ordinals[word] if word in words.ordinals else words.numbers[word]
        if behind.raw == "-":  # twenty-two
            behind = self._at(end + 1)
            end_of_second = end + 2
        else:
            end_of_second = end + 1
        digit = words.numbers.get(behind.word, words.ordinals.get(behind.word, 0))
        if number >= 20 and 0 < digit < 10:
            return _Figure(number + digit, 1.0, end_of_second)
        return _Figure(number, 1.0, end)

    def _is_part(self, word: str, number: float) -> bool:
        """Whether a word behind a number names parts of a whole: "thirds"."""
        words = self._words
        if word not in words.fractions or word in words.numbers:
            return False
        if word == "quarters" and number > 3:  # quarters of a year
            return False
        return number == 1 or word.endswith("s")

    def _short_scale(self, position: int, end: int) -> float | None:
        """The scale of a letter right behind a number: the k of 5k, the m of £50m.

        5m are metres, unless a currency is before them.
        """
        letter = self._at(end)
        scale = self._words.short_scales.get(letter.word)
        if scale is None or not letter.is_right_behind(self._lexemes[position]):
            return None
        is_money = self._word_at(position - 1) in self._words.currencies
        is_millions = letter.raw == "M" and self._at(end + 1).raw != "/"
        if is_money or is_millions or letter.word == "k":
            return scale
        return None

    def _read_quantity(
        self, number: float, place: float, bound: str, position: int, end: int
    ) -> int:
        """Adds a number with the unit behind it, or the currency before it.

        Args:
            position: of the first piece of the number.
            end: the position behind the number.
        """
        words = self._words
        word_behind = self._word_at(end)
        if word_behind in HALVES_OF_DAY and number <= 12:
            self._add_time_of_day(_minutes(int(number), 0, word_behind))
            return end + 1
        if word_behind in O_CLOCK and number <= 24:
            self._add_time_of_day(60 * int(number))
            return end + 1
        unit, behind = self._unit(end)
        is_money = unit is not None and unit.dimension in words.currencies
        word_before = self._word_at(position - 1)
        if word_before in words.currencies and not is_money:
            unit = words.units[word_before]
            behind = end
            is_money = True
        if is_money and _THREE_DECIMALS.fullmatch(self._lexemes[position].raw):
            number *= 1000  # "5.000 €": no currency has three decimals
            place = 1.0
        if self._follows_half(behind):
            number += 0.5
            place = 0.1
            behind += 3
            if unit is None:
                unit, behind = self._unit(behind)
        amount = amount_in_unit(number, place, unit, bound)
        self._tokens.append(f"{number:.12g}")
        self._add_unit_words(end, behind)
        self._share_unit_of_range(amount, position)
        if self._continues(amount, position):
            begun = self._amounts.pop()
            amount = begun._replace(value=begun.value + amount.value, step=amount.step)
        self._amounts.append(amount)
        return behind

    def _follows_half(self, position: int) -> bool:
        """Whether "and a half" follows: an hour and a half."""
        if self._word_at(position) != "and":  # so it is nearly always
            return False
        return self._word_at(position + 1) == "a" and self._word_at(position + 2) == "half"

    def _add_unit_words(self, begin: int, end: int) -> None:
        """Adds the pieces of a unit to the words of the text."""
        for lexeme in self._lexemes[begin:end]:
            if lexeme.kind == "word" or lexeme.raw in SIGN_WORDS:
                self._tokens.append(lexeme.word)

    def _share_unit_of_range(self, amount: Amount, position: int) -> None:
        """Of "5 to 7 days" the 5 are days, too."""
        if not amount.dimension or not self._amounts or self._amounts[-1].dimension:
            return
        between = self._at(position - 1)
        is_range = between.raw == "-" or between.word in _RANGE_WORDS
        if between.word == "and":
            is_range = "between" in self._tokens[-6:]  # "between 5 and 7 days"
        if is_range and self._at(position - 2).kind == "number":
            low = self._amounts[-1]
            size = amount.value / amount.number if amount.number else 1.0
            self._amounts[-1] = low._replace(
                dimension=amount.dimension, value=low.number * size, step=low.place * size
            )

    def _continues(self, amount: Amount, position: int) -> bool:
        """Whether an amount goes on from the one before: the minutes of "1 hour 30 minutes"."""
        if amount.dimension not in _CONTINUED or not self._amounts:
            return False
        begun = self._amounts[-1]
        is_less_than_last_digit = begun.step > 0 and amount.value < begun.step
        if begun.dimension != amount.dimension or not is_less_than_last_digit:
            return False
        before = self._at(position - 1)
        if before.word == "and":
            before = self._at(position - 2)
        is_adjacent = before.kind == "word" and before.word in self._words.units
        return is_adjacent and amount.step < begun.step

    def _bound(self, position: int) -> str:
        """How the words before a number bound it: ``most`` by "no more than"."""
        if self._word_at(position - 1) in self._words.currencies:
            position -= 1
        if self._word_at(position - 1) not in self._words.ends_of_bounds:
            return ""
        # The longest phrase counts: "no less than" is no "less than".
        for length in range(_MOST_WORDS_OF_BOUND, 0, -1):
            before = self._lexemes[max(position - length, 0) : position]
            bound = self._words.bounds.get(tuple([lexeme.word for lexeme in before]))
            if bound is not None:
                return bound
        return ""

    def _unit(self, position: int) -> tuple[Unit | None, int]:
        """The unit at a position, and the position behind it."""
        words = self._words
        lexeme = self._at(position)
        if lexeme.raw == "-":  # "a 30-day period"
            position += 1
            lexeme = self._at(position)
        if lexeme.word in words.between and lexeme.word not in words.units:
            position += 1
            lexeme = self._at(position)
        if lexeme.word in words.working:
            unit, end = self._unit(position + 1)
            if unit is not None and unit.dimension == "time":
                return Unit("working time", unit.size), end
            return None, position
        end = position + 1
        unit = words.units.get(f"{lexeme.word} {self._word_at(end)}")
        if unit is not None:
            return unit, end + 1
        unit = self._unit_by_word(lexeme)
        if unit is None:
            return None, position
        power = self._at(end)
        if power.raw in ("^2", "^3") and power.is_right_behind(lexeme):
            unit = unit.to_the_power(int(power.raw[1]))
            end += 1
        if self._at(end).raw == "/" or self._word_at(end) in ("per", "pro"):
            unit_below = self._unit_by_word(self._at(end + 1))
            if unit_below is not None:
                return unit.per(unit_below), end + 2
        return unit, end

    def _unit_by_word(self, lexeme: Lexeme) -> Unit | None:
        """The unit that a piece names, by its symbol as it is written, or its word."""
        if lexeme.kind != "word" and lexeme.raw not in SIGN_WORDS:
            return None
        units = self._words.units
        return units.get(lexeme.raw) or units.get(lexeme.word) or units.get(bare(lexeme.word))

    # --- parts and frequencies

    def _read_fraction(self, position: int, share: float, end: int) -> int:
        """Reads a part of one; with a unit behind it ("half a minute") it is an amount."""
        self._add_pieces(position, end)
        behind = end
        while self._word_at(behind) in ("of", "a", "an"):
            behind += 1
        unit, end_of_unit = self._unit(behind)
        if unit is not None and unit.dimension in _MEASURED_IN_PARTS:
            self._add_unit_words(end, end_of_unit)
            self._amounts.append(amount_in_unit(share, 0.0, unit))
            return end_of_unit
        self._spoken.append(Amount("share", share, share, 0.0, 1e-6))
        return end

    def _read_times(self, position: int, count: float, end: int) -> int:
        """Reads how often something happens; with "a year" behind it in which time."""
        self._add_pieces(position, end)
        if self._word_at(end) in self._words.each or self._at(end).raw == "/":
            unit, behind = self._unit(end + 1)
            if unit is not None and unit.dimension == "time":
                self._add_unit_words(end, behind)
                self._spoken.append(rate(count, unit.size))
                return behind
        self._spoken.append(Amount("times", count, count, 1.0, 1.0))
        return end

    def _read_every(self, position: int) -> int:
        """Reads "every six months": once in that time."""
        self._tokens.append(self._lexemes[position].word)
        end = position + 1
        lexeme = self._at(end)
        count: float | None = None
        if lexeme.kind == "number":
            count, _ = _number_in_digits(lexeme.raw)
        else:
            count = self._words.numbers.get(bare(lexeme.word))
        begin_of_unit = end if count is None else end + 1
        unit, behind = self._unit(begin_of_unit)
        if unit is None or unit.dimension != "time" or count == 0:
            return end
        if count is not None:
            self._tokens.append(f"{count:.12g}")
        self._add_unit_words(begin_of_unit, behind)
        self._spoken.append(rate(1.0, (count or 1.0) * unit.size))
        return behind

    def _add_pieces(self, begin: int, end: int) -> None:
        """Adds pieces to the words of the text as they are."""
        for lexeme in self._lexemes[begin:end]:
            self._tokens.append(lexeme.word)

    # --- times of day, dates, identifiers

    def _read_clock(self, position: int) -> int:
        """Reads a time of day in digits, with the half of the day behind it."""
        hours, minutes = self._lexemes[position].raw.split(":")[:2]
        word_behind = self._word_at(position + 1)
        self._add_time_of_day(_minutes(int(hours), int(minutes), word_behind))
        if word_behind in (*HALVES_OF_DAY, "uhr"):
            return position + 2
        return position + 1

    def _add_time_of_day(self, minutes: int) -> None:
        """Adds a time of day, by its minutes since midnight."""
        self._tokens.append(f"clock{minutes}")
        self._amounts.append(Amount("clock", minutes, minutes / 60, 0.0, 0.0))

    def _add_identifier(self, lexeme: Lexeme) -> None:
        """Adds an address, a version, a phone number or a ratio, in one form."""
        identifier = lexeme.word.rstrip(".,;:!?)")
        if lexeme.kind == "phone":
            country_sign = "+" if identifier.startswith("+") else ""
            identifier = country_sign + re.sub(r"\D", "", identifier)
        self._identifiers.append(identifier)
        self._tokens.append(identifier)

    def _add_day(self, lexeme: Lexeme) -> None:
        """Adds a day in digits; of 3/4/2024 only the year is sure."""
        parts = [int(part) for part in re.split("[-./]", lexeme.raw)]
        year, month, day = parts if "-" in lexeme.raw else reversed(parts)
        is_american_or_british = "/" in lexeme.raw and month <= 12 and day <= 12
        if is_american_or_british and month != day:
            self._tokens.append(lexeme.word)
            self._amounts.append(year_as_amount(year))
            return
        if month > 12:
            day, month = month, day
        if not 1 <= month <= 12 or not 1 <= day <= 31:
            self._tokens.append(lexeme.word)
            self._identifiers.append(lexeme.word)
            return
        self._dates.append(Date(year, month, day))
        self._tokens += [str(day), self._words.month_names[month - 1], str(year)]

    def _read_month(self, position: int, month: int) -> int:
        """Reads the name of a month, with day and year around it where there are any."""
        lexeme = self._lexemes[position]
        end = position + 1
        before = self._at(position - 1)
        if before.word in _ORDINAL_ENDINGS:
            before = self._at(position - 2)
        is_dated = before.kind == "number" or self._at(end).kind == "number"
        if before.word in _OF and self._word_at(position - 2) in _ORDINAL_ENDINGS:
            is_dated = True  # the 3rd of May
        if not is_dated and bare(lexeme.word) in self._words.ambiguous_months:
            self._tokens.append(lexeme.word)
            return end
        day = self._take_day_before(before)
        self._tokens.append(self._words.month_names[month - 1])
        if self._word_at(end) in _OF:
            end += 1
        if day is None and _is_day(self._at(end)):
            day = int(self._at(end).raw)
            self._tokens.append(str(day))
            end += 1
            if self._word_at(end) in _ORDINAL_ENDINGS:
                end += 1
        year: int | None = None
        digits = self._at(end).raw
        if self._at(end).kind == "number" and len(digits) == 4 and digits.isdecimal():
            year = int(digits)
            self._tokens.append(str(year))
            end += 1
        self._dates.append(Date(year, month, day))
        return end

    def _take_day_before(self, before: Lexeme) -> int | None:
        """The day before a month ("12 March", "the 3rd of May"), which is no amount then.

        Args:
            before: the piece before the month, or before the ending of "3rd".
        """
        is_behind_of = before.word in _OF and len(self._tokens) > 1 and self._tokens[-2].isdecimal()
        if before.kind != "number" and not is_behind_of:
            return None
        if not self._amounts:
            return None
        amount = self._amounts[-1]
        is_whole_number = not amount.dimension and amount.place == 1.0
        if not is_whole_number or not 1 <= amount.number <= 31:
            return None
        self._amounts.pop()
        return int(amount.number)


def _is_day(lexeme: Lexeme) -> bool:
    """Whether a piece may be the day of a month."""
    is_short = lexeme.kind == "number" and lexeme.raw.isdecimal() and len(lexeme.raw) <= 2
    return is_short and 1 <= int(lexeme.raw) <= 31


def _number_in_digits(digits: str) -> tuple[float, float]:
    """A number in digits, and what its last digit counts."""
    plain = digits[:_MOST_DIGITS].replace(" ", "")
    if "," in plain:
        whole, _, decimals = plain.rpartition(",")
        is_decimal_comma = len(decimals) <= 2 and "." not in decimals
        if is_decimal_comma:
            plain = f"{whole.replace('.', '').replace(',', '')}.{decimals}"
        else:
            plain = plain.replace(",", "")
    elif plain.count(".") > 1:
        plain = plain.replace(".", "")
    _, _, decimals = plain.partition(".")
    return float(plain), 10.0 ** -len(decimals)


def _minutes(hours: int, minutes: int, half: str) -> int:
    """The minutes of a day since midnight.

    Args:
        half: ``am`` or ``pm``; other words are none of the time.
    """
    if half in HALVES_OF_DAY:
        hours %= 12
    if half == "pm":
        hours += 12
    return 60 * hours + minutes
