"""The numbers, quantities, dates, times and identifiers that a text names, however it writes them.

"two years" and "24 months", "€110" and "110 EUR", "12 March 2024" and "2024-03-12", "1.5 million"
and "1,500,000", "2 pm" and "14:00" are each one thing. The words are in ``amounts.toml``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from functools import cache, lru_cache
from typing import NamedTuple

from ragbench.text.letters import bare, plain_letters
from ragbench.text.tables import table
from ragbench.text.units import Unit, units_by_word


class Agreement(Enum):
    """What a comparison says of two statements."""

    SAME = "the same"
    DIFFERENT = "different"
    UNCLEAR = "not comparable"
    """They are in units that do not compare, or too near each other to tell."""


TOLERANCES = {"time": 0.015, "length": 0.002, "mass": 0.002}
"""Between two units: a month is no exact number of days; miles and pounds are rounded."""
_APPROXIMATELY = 0.05
"""How far "about 400" reaches."""


class Amount(NamedTuple):
    """A number with what it counts."""

    dimension: str
    """As `Unit.dimension`; empty for a number alone."""
    value: float
    """In the base unit."""
    number: float
    """As it is written."""
    place: float = 0.0
    """What its last digit counts: .1 of 4.2, 1e6 of "5 million"; 0 where it was not read."""
    step: float = 0.0
    """The same in the base unit."""
    bound: str = ""
    """``least``, ``more``, ``most``, ``less`` or ``about``; empty for the number itself."""

    def equals(self, other: Amount) -> bool:
        """Whether both may be the same: a number alone equals whatever has that number."""
        return self.compared(other) is Agreement.SAME

    def compared(self, other: Amount) -> Agreement:
        """Whether another amount is the same, at the precision of the one that says less."""
        if not self.dimension or not other.dimension:
            return self._as_number(other)
        if self.dimension == other.dimension:
            agreement = self._near(other, self.value, other.value, self.step, other.step)
            if agreement is Agreement.SAME and _OPPOSITE.get(self.bound) == _SIDE.get(other.bound):
                return Agreement.DIFFERENT
            return agreement
        if self.number == other.number:
            return Agreement.DIFFERENT  # 5 ml for 5 mg
        return Agreement.UNCLEAR

    def _as_number(self, other: Amount) -> Agreement:
        agreement = self._near(other, self.number, other.number, self.place, other.place)
        if agreement is Agreement.SAME and _OPPOSITE.get(self.bound) == _SIDE.get(other.bound):
            return Agreement.DIFFERENT
        return agreement

    def _near(
        self, other: Amount, mine: float, theirs: float, step: float, step_of_other: float
    ) -> Agreement:
        """How near two figures are, of which the last digits count so much."""
        difference = abs(mine - theirs)
        rounding = max(step, step_of_other) / 2 * (1 + 1e-9)
        exact = 1e-6 * abs(mine)
        # Any number is "2" when it is rounded enough: one digit is no rounding of several, but in a
        # reference that gives decimals.
        rounded = self if step >= step_of_other else other
        is_rounding = abs(rounded.number) >= 10 * rounded.place or (
            rounded is self and self.place < 1
        )
        if not is_rounding:
            if exact < difference <= rounding:
                return Agreement.UNCLEAR
            rounding = min(step, step_of_other) / 2 * (1 + 1e-9)
        if "about" in (self.bound, other.bound):
            exact = _APPROXIMATELY * abs(mine)
        if self.dimension and self._size != other._size:
            # "90 minutes" is no "2 hours", to which it could be rounded: nobody knows.
            exact = max(exact, TOLERANCES.get(self.dimension, 0.0) * abs(mine))
            if exact < difference <= rounding:
                return Agreement.UNCLEAR
        else:
            exact = max(exact, rounding)
        if difference <= exact:
            return Agreement.SAME
        has_decimals = 0 < min(self.place, other.place) < 1
        if has_decimals and difference <= 2 * rounding:
            return Agreement.UNCLEAR  # rounded in another way
        return Agreement.DIFFERENT

    @property
    def _size(self) -> float:
        """The size of its unit, as far as its places tell."""
        return float(f"{self.step / self.place:.9g}") if self.place else 1.0


_SIDE = {"least": "low", "more": "low", "most": "high", "less": "high"}
_OPPOSITE = {
    "least": "high",
    "more": "high",
    "most": "low",
    "less": "low",
    "": "none",
    "about": "none",
}


class Date(NamedTuple):
    """A day, month or year, as far as it is named."""

    year: int | None
    month: int
    day: int | None

    def equals(self, other: Date) -> bool:
        """Whether nothing that both name differs."""
        for mine, theirs in zip(self, other, strict=True):
            if mine is not None and theirs is not None and mine != theirs:
                return False
        return True

    def is_within(self, other: Date) -> bool:
        """Whether the other date names all that this one does."""
        return all(mine in (None, theirs) for mine, theirs in zip(self, other, strict=True))


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
        if not (self.amounts or self.dates or self.spoken or self.identifiers):
            return False
        typed = _words().typed
        for token in self.tokens:
            if token not in typed and not token[-1].isdecimal() and token not in self.identifiers:
                return False
        return True

    def is_named_by(self, other: Wording) -> bool:
        """Whether the other text names all amounts and dates of this one."""
        amounts = list(other.amounts)
        amounts += [Amount("", date.year, date.year) for date in other.dates if date.year]
        for amount in self.amounts:
            if not any(map(amount.equals, amounts)):
                return False
        return all(any(map(date.is_within, other.dates)) for date in self.dates)

    @property
    def years(self) -> frozenset[int]:
        """Of its dates, and the numbers alone that may be a year."""
        years = {date.year for date in self.dates if date.year}
        for amount in self.amounts:
            if not amount.dimension and 1000 <= amount.number <= 2100:
                years.add(int(amount.number))
        return frozenset(years)


@lru_cache(maxsize=8192)
def wording(text: str) -> Wording:
    """How a text is worded, with the amounts and dates in it."""
    plain = plain_letters(text)
    if "'" in plain:
        plain = _GROUP_APOSTROPHE.sub(",", plain)
        plain = plain.replace("'s ", " ").replace("'", "")
    words = _words()
    if plain.isascii() and not _NEEDS_LEXER.search(plain):
        tokens = plain.lower().translate(_NO_LETTERS).split()  # all signs but letters part words
        if len(tokens) > _FEW and words.naming.isdisjoint(tokens):
            return Wording(tuple(tokens), (), ())
    if _HAN_SIGN.search(plain):
        plain = _HAN_NUMBER.sub(_han_number, plain)
    plain = _CLOCK_HALF.sub(r"\1m", plain)
    return _Reader(_lexemes(plain)).read()


_NEEDS_LEXER = re.compile(r"[\d$%@~<>]|://|www\.")
_GROUP_APOSTROPHE = re.compile(r"(?<=\d)'(?=\d{3}(?!\d))")
_CLOCK_HALF = re.compile(r"\b([aApP])\.\s?[mM]\.?(?!\w)")
_NO_LETTERS = "".join([chr(code) if chr(code).islower() else " " for code in range(128)])
"""A table for `str.translate`: every sign but a small letter becomes a space."""
_MOST_DIGITS = 300
"""Digits of a number that are read."""
_FEW = 4
"""Words of a text that is read whole: "a fortnight" is an amount there, and hardly elsewhere."""
_LARGEST = 1e300
"""The largest number."""

# --- the pieces of a text

_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962-\u0963\u0981-\u0983"
    "\u09bc-\u09d7\u0a01-\u0a51\u0a81-\u0acd\u0b01-\u0b57\u0b82-\u0bd7\u0c00-\u0c56\u0c81-\u0cd6"
    "\u0d00-\u0d57\u0dca-\u0ddf"
)
"""Signs on letters that Python does not count as parts of a word: vowels of Indic scripts."""
_ALONE = (
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e81-\u0eae"
    "\u0ec0-\u0ec6"
)
"""Letters of scripts that part no words: each is a piece."""
_ON_TOP = "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece"
"""Vowels and tones above and below Thai and Lao letters."""
_NUMBER = r"""
    \d{1,3}(?:\.\d{3}){1,8},\d{1,2}(?!\d)
    | \d{1,3}(?:\.\d{3}){2,8}(?![\d.])
    | \d{1,2}(?:,\d{2}){1,8},\d{3}(?!\d)(?:\.\d+)?
    | \d{1,3}(?:,\d{3}){1,8}(?![\d,]|\.\d{3}\b)(?:\.\d+)?
    | \d{1,3}(?:\ \d{3}){2,8}(?!\d)
    | \d+,\d{1,2}(?![\d,])
    | \d+(?:\.\d+(?!\d*:|\.\d))?
    | (?<![\w.])\.\d+
"""
_WRITTEN_WORD = rf"""
    (?P<word> [^\W\d_{_ALONE}](?:[^\W\d_{_ALONE}]|[{_MARKS}])*
        | [{_ALONE}][{_ON_TOP}]* | °[CF]? )
"""
_ASCII_WORD = "(?P<word> [A-Za-z]+ )"
_ADDRESS = r"""
    (?P<link> (?:https?://|www\.)[^\s<>"']+ )
    | (?P<mail> [\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8} ) |
"""
_IN_DIGITS = rf"""
    (?P<phone> \+\d[\d\ ()/.-]{{6,20}}\d | \(\d{{3}}\)\ ?\d{{3}}-\d{{4}}\b
        | \b\d{{3}}-\d{{3}}-\d{{4}}\b | \b\d{{3}}-\d{{4}}\b
        | \b0\d{{1,4}}[\ /-]\d[\d\ -]{{4,20}}\d\b )
    | (?=\d) (?:
        (?P<day> \b\d{{4}}-\d{{1,2}}-\d{{1,2}}\b | \b\d{{1,2}}\.\d{{1,2}}\.\d{{4}}\b
            | \b\d{{1,2}}/\d{{1,2}}/\d{{4}}\b )
        | (?P<version> \b(?!\d{{1,3}}(?:\.\d{{3}}){{2,8}}\b)\d+(?:\.\d+){{2,}}(?:-[a-z]\w*)? )
        | (?P<clock> \b\d{{1,2}}:\d{{2}}(?::\d{{2}})?(?![\d:]) )
        | (?P<ratio> \b\d+(?:\.\d+)?:\d+(?:\.\d+)?\b )
        | (?P<part> (?<![\w/.])\d\d?[/⁄](?:[234568]|10)(?![\w/]) )
    )
    | (?P<number> (?:(?<![^\s(])-(?=[\d.]))?(?:{_NUMBER}) )
    | (?P<sign> \^[23] | [/%‰$€£¥₹~≈<>≥≤-] )
"""


@cache
def _lexer(*, is_ascii: bool, has_addresses: bool) -> re.Pattern[str]:
    """The pattern of all pieces: the fastest that a text's letters allow."""
    addresses = _ADDRESS if has_addresses else ""
    word = _ASCII_WORD if is_ascii else _WRITTEN_WORD
    return re.compile(f"{addresses}{word} | {_IN_DIGITS}", re.VERBOSE)


_SIGN_WORDS = {"€": "eur", "$": "usd", "£": "gbp", "%": "percent", "¥": "jpy", "₹": "inr", "‰": "‰"}


class _Lexeme:
    """A piece of a text; no tuple, which takes longer to make, and a text has hundreds."""

    __slots__ = ("end", "kind", "raw", "start", "word")

    def __init__(self, kind: str, raw: str, start: int, end: int) -> None:
        self.kind = kind
        self.raw = raw
        self.word = raw.lower() if kind == "word" else _SIGN_WORDS.get(raw, raw.lower())
        """In small letters; a sign by its word."""
        self.start = start
        self.end = end


def _lexemes(text: str) -> list[_Lexeme]:
    """The pieces of a text in their order."""
    has_addresses = "@" in text or "://" in text or "www." in text
    lexer = _lexer(is_ascii=text.isascii(), has_addresses=has_addresses)
    return [
        _Lexeme(match.lastgroup or "", match[0], *match.span()) for match in lexer.finditer(text)
    ]


# --- numbers in Chinese signs

_HAN_NUMBER = re.compile(
    r"(?:(百分之)(?=[〇零一二两三四五六七八九十百千万]))?"
    r"([〇零一二两三四五六七八九十百千万]{1,40})(?(1)|(?=[年月日天个元人次倍分小%]))"
)
_HAN_SIGN = re.compile("[〇零一二两三四五六七八九十百千万]")
_HAN_DIGITS = {
    "〇": 0,
    "零": 0,
    "一": 1,
    "二": 2,
    "两": 2,
    "三": 3,
    "四": 4,
    "五": 5,
    "六": 6,
    "七": 7,
    "八": 8,
    "九": 9,
}
_HAN_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10000}


def _han_number(match: re.Match[str]) -> str:
    """A number in Chinese signs in digits: 二百五十 is 250."""
    if (
        not set(match[2]) & set(_HAN_DIGITS)
        and match.start()
        and match.string[match.start() - 1].isdecimal()
    ):
        return match[0]  # the 万 of 150万 is a scale
    total = 0
    digit = 0
    for sign in match[2]:
        scale = _HAN_SCALES.get(sign)
        if scale is None:
            digit = _HAN_DIGITS[sign]
            continue
        if scale == 10000:
            # All signs before it count ten thousands; alone it is one.
            total = (total + digit or 1) * scale
        else:
            total += (digit or 1) * scale
        digit = 0
    percent = " percent" if match[1] else ""
    return f" {total + digit}{percent} "


# --- the words of the tables


class _Words(NamedTuple):
    """The words of ``amounts.toml``, as they are looked up."""

    months: dict[str, int]
    ambiguous: frozenset[str]
    """Names of months that are other words, too: may, march."""
    month_names: list[str]
    numbers: dict[str, float]
    ordinals: dict[str, float]
    scales: dict[str, float]
    short_scales: dict[str, float]
    """Letters that are a scale behind a currency's number: £50m."""
    units: dict[str, Unit]
    currencies: frozenset[str]
    between: frozenset[str]
    """Words between a number and its unit: "ten calendar days"."""
    working: frozenset[str]
    bounds: dict[tuple[str, ...], str]
    ends_of_bounds: frozenset[str]
    fractions: dict[str, float]
    times: dict[str, float]
    rates: dict[str, float]
    each: frozenset[str]
    typed: frozenset[str]
    """The words of a text that names amounts and dates, and nothing else."""
    naming: frozenset[str]
    """The words of which a text without digits must hold one to name anything."""
    special: frozenset[str]
    """The same, and words that begin an amount beside another: an hour."""


@cache
def _words() -> _Words:
    """The words of all languages, read once."""
    entries = table("ragbench.text", "amounts")
    numbers = _values_of(entries["numbers"])
    ordinals = _values_of(entries["ordinals"])
    month_names: list[str] = []
    months: dict[str, int] = {}
    for month, row in enumerate(entries["months"], 1):
        names = row.split()
        month_names.append(names[0])
        months.update(dict.fromkeys(names, month))
    bounds: dict[tuple[str, ...], str] = {}
    for bound, phrases in entries["bounds"].items():
        for phrase in phrases:
            bounds[tuple(phrase.split())] = bound
    spoken = entries["spoken"]
    fractions = _values_of(spoken["fractions"])
    times = _values_of(spoken["times"])
    rates = _values_of(spoken["rates"])
    scales = _values_of(entries["scales"])
    units = dict(units_by_word())
    filling = entries["filling"].split()
    unit_words = [word.lower() for phrase in units for word in phrase.split()]
    clock_words = ("am", "pm", "noon", "midnight", "uhr", "oclock")
    typed = {
        *unit_words,
        *month_names,
        *filling,
        *numbers,
        *fractions,
        *times,
        *rates,
        *scales,
        *entries["working"].split(),
        *clock_words,
        "times",
        "each",
        "every",
        "per",
        "and",
        "i",
    }
    naming = frozenset(
        [*months, *numbers, *ordinals, *fractions, *times, *rates, *_EVERY, "noon", "midnight"]
    )
    return _Words(
        # "sept" is September in one language and seven in another: the number counts.
        months={word: month for word, month in months.items() if word not in numbers},
        ambiguous=frozenset(entries["ambiguous_months"].split()),
        month_names=month_names,
        numbers=numbers,
        ordinals=ordinals,
        scales=scales,
        short_scales=_values_of(entries["short_scales"]),
        units=units,
        currencies=frozenset(entries["currencies"].split()),
        between=frozenset(entries["between"].split()),
        working=frozenset(entries["working"].split()),
        bounds=bounds,
        ends_of_bounds=frozenset(phrase[-1] for phrase in bounds),
        fractions=fractions,
        times=times,
        rates=rates,
        each=frozenset(spoken["each"].split()),
        typed=frozenset(typed),
        naming=naming,
        special=naming | {"a", "an"},
    )


def _values_of(rows: Sequence[str]) -> dict[str, float]:
    """The words of rows that begin with a number, each with the number of its row."""
    values: dict[str, float] = {}
    for row in rows:
        value, *words = row.split()
        values.update(dict.fromkeys(words, float(value)))
    return values


# --- reading

_ORDINAL_ENDINGS = ("st", "nd", "rd", "th")
_EVERY = ("every", "each", "alle", "cada")
_END = _Lexeme("", "", -1, -1)
_OF = ("of", "de", "di", "of the")
_RANGE_WORDS = ("to", "and", "bis", "until", "till", "a", "à")


class _Reader:
    """Reads a text's pieces from the first to the last."""

    def __init__(self, lexemes: Sequence[_Lexeme]) -> None:
        self._lexemes = lexemes
        self._words = _words()
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
            # Most pieces are words that name nothing.
            if lexeme.kind == "word" and lexeme.word.isascii() and lexeme.word not in special:
                self._tokens.append(lexeme.word)
                position += 1
            else:
                position = self._read_at(position)
        return Wording(
            tuple(self._tokens),
            tuple(self._amounts),
            tuple(self._dates),
            tuple(self._spoken),
            tuple(self._identifiers),
        )

    def _at(self, position: int) -> _Lexeme:
        """The piece at a position; an empty one behind the ends."""
        return self._lexemes[position] if 0 <= position < len(self._lexemes) else _END

    def _read_at(self, position: int) -> int:
        """Reads what begins at a position, and gives the position behind it."""
        lexeme = self._lexemes[position]
        if lexeme.kind == "number":
            return self._number(position)
        if lexeme.kind in _IDENTIFIERS:
            self._identifier(lexeme)
            return position + 1
        if lexeme.kind == "day":
            self._day(lexeme)
            return position + 1
        if lexeme.kind == "clock":
            return self._clock(position)
        if lexeme.kind == "part":
            above, below = re.split("[/⁄]", lexeme.raw)
            return self._fraction(position, float(above) / (float(below) or 1.0), position + 1)
        if lexeme.kind == "sign":
            if lexeme.raw in _SIGN_WORDS:
                self._tokens.append(lexeme.word)
            return position + 1
        return self._word(position)

    # --- words

    def _word(self, position: int) -> int:
        words = self._words
        lexeme = self._lexemes[position]
        word = bare(lexeme.word)
        if word in words.months:
            return self._month(position, words.months[word])
        if word in words.fractions and (word not in words.ordinals or self._counts_parts(position)):
            return self._fraction(position, words.fractions[word], position + 1)
        if word in words.times:
            return self._times(position, words.times[word], position + 1)
        if word in words.rates:
            self._tokens.append(lexeme.word)
            self._spoken.append(_rate(1.0, words.rates[word]))
            return position + 1
        if word in _EVERY:
            return self._every(position)
        if word in ("noon", "midnight"):
            self._add_clock(720 if word == "noon" else 0)
            return position + 1
        if word in ("a", "an") and self._at(position + 1).word in words.units:
            return self._article(position)
        if word in words.numbers or word in words.ordinals:
            return self._number(position)
        self._tokens.append(lexeme.word)
        return position + 1

    def _counts_parts(self, position: int) -> bool:
        """Whether "third" is a part: a third, two thirds."""
        word = self._lexemes[position].word
        before = self._at(position - 1).word
        is_plural = word.endswith("s") and before in self._words.numbers
        return is_plural or (before in ("a", "one") and self._at(position + 1).word in ("of", ""))

    def _article(self, position: int) -> int:
        """Reads "an hour" as one, where a half follows, or the text says no more."""
        self._tokens.append(self._lexemes[position].word)
        unit, end = self._unit(position + 1)
        is_all = end >= len(self._lexemes) and position <= 2
        if unit is None or not (is_all or self._follows_half(end)):
            return position + 1
        return self._quantity(1.0, 1.0, "", position, position + 1)

    # --- numbers

    def _number(self, position: int) -> int:
        """Reads a number with its unit."""
        words = self._words
        number, place, end = self._figure(position)
        part = bare(self._at(end).word)
        if part == "times":
            return self._times(position, number, end + 1)
        if self._is_part(part, number):  # two thirds
            return self._fraction(position, number * words.fractions[part], end + 1)
        while self._at(end).word in words.scales:
            scale = words.scales[self._at(end).word]
            number = min(number * scale, _LARGEST)
            place = min(place * scale, _LARGEST)
            end += 1
        short_scale = self._short_scale(position, end)
        if short_scale is not None:
            number *= short_scale
            place *= short_scale
            end += 1
        return self._quantity(number, place, self._bound(position), position, end)

    def _figure(self, position: int) -> tuple[float, float, int]:
        """A number alone, what its last digit counts, and the position behind it."""
        words = self._words
        lexeme = self._lexemes[position]
        end = position + 1
        following = self._at(end)
        if lexeme.kind == "number":
            number, place = _read_digits(lexeme.raw)
            is_ordinal = following.word in _ORDINAL_ENDINGS and following.start == lexeme.end
            return number, place, end + is_ordinal
        word = bare(lexeme.word)
        number = words.ordinals[word] if word in words.ordinals else words.numbers[word]
        # "twenty two", "twenty-second"
        hyphens = following.raw == "-"
        digit_word = self._at(end + hyphens).word
        digit = words.numbers.get(digit_word, words.ordinals.get(digit_word, 0))
        if number >= 20 and 0 < digit < 10:
            return number + digit, 1.0, end + hyphens + 1
        return number, 1.0, end

    def _is_part(self, word: str, number: float) -> bool:
        """Whether a word behind a number names parts of a whole: "thirds"."""
        words = self._words
        if word not in words.fractions or word in words.numbers:
            return False
        if word == "quarters" and number > 3:  # of a year
            return False
        return number == 1 or word.endswith("s")

    def _short_scale(self, position: int, end: int) -> float | None:
        """The scale of a letter right behind a number: the k of 5k, the m of £50m."""
        glued = self._at(end)
        scale = self._words.short_scales.get(glued.word)
        if scale is None or glued.start != self._lexemes[position].end:
            return None
        is_money = self._at(position - 1).word in self._words.currencies
        is_millions = glued.raw == "M" and self._at(end + 1).raw != "/"
        return scale if is_money or is_millions or glued.word == "k" else None

    def _quantity(self, number: float, place: float, bound: str, position: int, end: int) -> int:
        """Adds a number with the unit behind it, or the currency before it."""
        words = self._words
        behind_number = self._at(end).word
        if behind_number in ("am", "pm") and number <= 12:
            self._add_clock(_minutes(int(number), 0, behind_number))
            return end + 1
        if behind_number in ("uhr", "oclock") and number <= 24:
            self._add_clock(60 * int(number))
            return end + 1
        before = self._at(position - 1).word
        unit, behind = self._unit(end)
        if before in words.currencies and (unit is None or unit.dimension not in words.currencies):
            unit = words.units[before]
            behind = end
        is_money = unit is not None and unit.dimension in words.currencies
        if is_money and _THOUSANDS.fullmatch(self._lexemes[position].raw):
            number *= 1000  # "5.000 €": no currency has three decimals
            place = 1.0
        if self._follows_half(behind):
            number += 0.5
            place = 0.1
            behind += 3
            if unit is None:
                unit, behind = self._unit(behind)
        amount = _amount_of(number, place, unit, bound)
        self._tokens.append(f"{number:.12g}")
        self._append_words(end, behind)
        self._share_unit(amount, position)
        if self._joins(amount, position):
            first = self._amounts.pop()
            amount = first._replace(value=first.value + amount.value, step=amount.step)
        self._amounts.append(amount)
        return behind

    def _follows_half(self, position: int) -> bool:
        """Whether "and a half" follows: an hour and a half."""
        return [self._at(position + offset).word for offset in range(3)] == ["and", "a", "half"]

    def _append_words(self, begin: int, end: int) -> None:
        """Adds the pieces of a unit to the words of the text."""
        for lexeme in self._lexemes[begin:end]:
            if lexeme.kind == "word" or lexeme.raw in _SIGN_WORDS:
                self._tokens.append(lexeme.word)

    def _share_unit(self, amount: Amount, position: int) -> None:
        """Of "5 to 7 days" the 5 are days, too."""
        if not amount.dimension or not self._amounts or self._amounts[-1].dimension:
            return
        between = self._at(position - 1)
        is_range = between.raw == "-" or between.word in ("to", "bis")
        is_range = is_range or (between.word in _RANGE_WORDS and "between" in self._tokens[-6:])
        if is_range and self._at(position - 2).kind == "number":
            first = self._amounts[-1]
            size = amount.value / amount.number if amount.number else 1.0
            self._amounts[-1] = first._replace(
                dimension=amount.dimension, value=first.number * size, step=first.place * size
            )

    def _joins(self, amount: Amount, position: int) -> bool:
        """Whether an amount goes on from the one before: the minutes of "1 hour 30 minutes"."""
        if amount.dimension not in ("time", "length", "mass") or not self._amounts:
            return False
        first = self._amounts[-1]
        if first.dimension != amount.dimension or amount.value >= first.step > 0 or first.step == 0:
            return False
        before = self._at(position - 1)
        if before.word == "and":
            before = self._at(position - 2)
        is_adjacent = before.kind == "word" and before.word in self._words.units
        return is_adjacent and amount.step < first.step

    def _bound(self, position: int) -> str:
        """How the words before a number bound it."""
        position -= self._at(position - 1).word in self._words.currencies
        if self._at(position - 1).word not in self._words.ends_of_bounds:
            return ""
        for length in (4, 3, 2, 1):
            before = tuple(
                lexeme.word for lexeme in self._lexemes[max(position - length, 0) : position]
            )
            bound = self._words.bounds.get(before)
            if bound is not None:
                return bound
        return ""

    def _unit(self, position: int) -> tuple[Unit | None, int]:
        """The unit at a position, and the position behind it."""
        words = self._words
        first = self._at(position)
        if first.raw == "-":  # "a 30-day period"
            position += 1
            first = self._at(position)
        if first.word in words.between and first.word not in words.units:
            position += 1
            first = self._at(position)
        if first.word in words.working:
            unit, end = self._unit(position + 1)
            if unit is not None and unit.dimension == "time":
                return Unit("working time", unit.size), end
            return None, position
        unit = words.units.get(f"{first.word} {self._at(position + 1).word}")
        if unit is not None:
            return unit, position + 2
        unit = _unit_of(first, words)
        if unit is None:
            return None, position
        end = position + 1
        power = self._at(end)
        if power.raw in ("^2", "^3") and power.start == first.end:
            unit = unit.to_the_power(int(power.raw[1]))
            end += 1
        if self._at(end).raw == "/" or self._at(end).word in ("per", "pro"):
            below = _unit_of(self._at(end + 1), words)
            if below is not None:
                return unit.per(below), end + 2
        return unit, end

    # --- parts and frequencies

    def _fraction(self, position: int, share: float, end: int) -> int:
        """A part of one; with a unit behind it ("half a minute") an amount."""
        for lexeme in self._lexemes[position:end]:
            self._tokens.append(lexeme.word)
        behind = end
        while self._at(behind).word in ("of", "a", "an"):
            behind += 1
        unit, unit_end = self._unit(behind)
        if unit is not None and unit.dimension in ("time", "length", "mass", "length^3"):
            self._append_words(end, unit_end)
            self._amounts.append(_amount_of(share, 0.0, unit, ""))
            return unit_end
        self._spoken.append(Amount("share", share, share, 0.0, 1e-6))
        return end

    def _times(self, position: int, count: float, end: int) -> int:
        """How often; with "a year" behind it in which time."""
        for lexeme in self._lexemes[position:end]:
            self._tokens.append(lexeme.word)
        if self._at(end).word in self._words.each or self._at(end).raw == "/":
            unit, behind = self._unit(end + 1)
            if unit is not None and unit.dimension == "time":
                self._append_words(end, behind)
                self._spoken.append(_rate(count, unit.size))
                return behind
        self._spoken.append(Amount("times", count, count, 1.0, 1.0))
        return end

    def _every(self, position: int) -> int:
        """Reads "every six months": once in that time."""
        self._tokens.append(self._lexemes[position].word)
        following = self._at(position + 1)
        count = self._words.numbers.get(bare(following.word), 1.0)
        end = position + 1
        if following.kind == "number":
            count, _ = _read_digits(following.raw)
            end += 1
        elif following.word in self._words.numbers:
            end += 1
        unit, behind = self._unit(end)
        if unit is None or unit.dimension != "time" or not count:
            return position + 1
        if end > position + 1:
            self._tokens.append(f"{count:.12g}")
        self._append_words(end, behind)
        self._spoken.append(_rate(1.0, count * unit.size))
        return behind

    # --- times, dates, identifiers

    def _clock(self, position: int) -> int:
        hours, minutes = self._lexemes[position].raw.split(":")[:2]
        half = self._at(position + 1).word
        end = position + 1 + (half in ("am", "pm", "uhr"))
        self._add_clock(_minutes(int(hours), int(minutes), half))
        return end

    def _add_clock(self, minutes: int) -> None:
        """A time of the day."""
        self._tokens.append(f"clock{minutes}")
        self._amounts.append(Amount("clock", minutes, minutes / 60, 0.0, 0.0))

    def _identifier(self, lexeme: _Lexeme) -> None:
        word = lexeme.word.rstrip(".,;:!?)")
        if lexeme.kind == "phone":
            word = "+" * word.startswith("+") + re.sub(r"\D", "", word)
        elif lexeme.kind == "version":
            word = word.removeprefix("v")
        self._identifiers.append(word)
        self._tokens.append(word)

    def _day(self, lexeme: _Lexeme) -> None:
        """A day in digits; of 3/4/2024 only the year is sure."""
        parts = [int(part) for part in re.split("[-./]", lexeme.raw)]
        year, month, day = parts if "-" in lexeme.raw else reversed(parts)
        if "/" in lexeme.raw and month <= 12 and day <= 12 and month != day:
            self._tokens.append(lexeme.word)
            self._amounts.append(Amount("", year, year, 1.0, 1.0))
            return
        if month > 12:
            day, month = month, day
        if not 1 <= month <= 12 or not 1 <= day <= 31:
            self._tokens.append(lexeme.word)
            self._identifiers.append(lexeme.word)
            return
        self._dates.append(Date(year, month, day))
        self._tokens += [str(day), self._words.month_names[month - 1], str(year)]

    def _month(self, position: int, month: int) -> int:
        """Reads the name of a month, with day and year around it where there are any."""
        words = self._words
        lexeme = self._lexemes[position]
        before = self._at(position - 1)
        if before.word in _ORDINAL_ENDINGS:
            before = self._at(position - 2)
        is_dated = before.kind == "number" or self._at(position + 1).kind == "number"
        if before.word in _OF:
            is_dated = is_dated or self._at(position - 2).word in _ORDINAL_ENDINGS
        if not is_dated and bare(lexeme.word) in words.ambiguous:
            self._tokens.append(lexeme.word)
            return position + 1
        day: int | None = None
        last = self._amounts[-1] if self._amounts else None
        begins = before.kind == "number" or (
            before.word in _OF and self._tokens[-2:-1] and self._tokens[-2].isdecimal()
        )
        if (
            begins
            and last is not None
            and not last.dimension
            and last.place == 1.0
            and 1 <= last.number <= 31
        ):
            day = int(last.number)
            self._amounts.pop()
        behind = position + 1
        self._tokens.append(words.month_names[month - 1])
        if self._at(behind).word in _OF:
            behind += 1
        following = self._at(behind)
        if day is None and _is_day(following):
            day = int(following.raw)
            self._tokens.append(str(day))
            behind += 1
            if self._at(behind).word in _ORDINAL_ENDINGS:
                behind += 1
        year: int | None = None
        following = self._at(behind)
        if following.kind == "number" and len(following.raw) == 4 and following.raw.isdecimal():
            year = int(following.raw)
            self._tokens.append(str(year))
            behind += 1
        self._dates.append(Date(year, month, day))
        return behind


def _is_day(lexeme: _Lexeme) -> bool:
    """Whether a piece may be the day of a month."""
    is_short = lexeme.kind == "number" and lexeme.raw.isdecimal() and len(lexeme.raw) <= 2
    return is_short and 1 <= int(lexeme.raw) <= 31


_IDENTIFIERS = ("link", "mail", "phone", "version", "ratio")
_THOUSANDS = re.compile(r"-?\d{1,3}\.\d{3}")


def _read_digits(raw: str) -> tuple[float, float]:
    """A number in digits, and what its last digit counts."""
    plain = raw[:_MOST_DIGITS].replace(" ", "")
    if "," in plain:
        whole, _, decimals = plain.rpartition(",")
        is_decimal = len(decimals) <= 2 and "." not in decimals
        if is_decimal:
            plain = f"{whole.replace('.', '').replace(',', '')}.{decimals}"
        else:
            plain = plain.replace(",", "")
    elif plain.count(".") > 1:
        plain = plain.replace(".", "")
    _, _, decimals = plain.partition(".")
    return float(plain), 10.0 ** -min(len(decimals), 300)


def _amount_of(number: float, place: float, unit: Unit | None, bound: str) -> Amount:
    """A number in a unit."""
    if unit is None:
        return Amount("", number, number, place, place, bound)
    value = min(number * unit.size, _LARGEST) + unit.zero
    return Amount(unit.dimension, value, number, place, place * unit.size, bound)


def _rate(count: float, seconds: float) -> Amount:
    """So many times in so many seconds."""
    rate = count / seconds
    return Amount("rate", rate, rate, 0.0, 0.02 * rate)


def _minutes(hours: int, minutes: int, half: str) -> int:
    """The minutes of a day since midnight."""
    if half in ("am", "pm"):
        hours = hours % 12 + 12 * (half == "pm")
    return 60 * hours + minutes


def _unit_of(lexeme: _Lexeme, words: _Words) -> Unit | None:
    """The unit that a piece names, by its symbol as it is written, or its word."""
    if lexeme.kind not in ("word", "sign") or (
        lexeme.kind == "sign" and lexeme.raw not in _SIGN_WORDS
    ):
        return None
    return (
        words.units.get(lexeme.raw)
        or words.units.get(lexeme.word)
        or words.units.get(bare(lexeme.word))
    )
