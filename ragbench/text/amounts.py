"""The numbers, quantities and dates that a text names, however they are written.

"two years" and "24 months", "€110" and "110 EUR", "12 March 2024" and "2024-03-12", "1.5 million"
and "1,500,000" are each one thing. The words are in ``amounts.toml``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from ragbench.text.tables import table

TOLERANCES = {"seconds": 0.015, "metres": 0.002, "grams": 0.002}
"""A month is no exact number of days; miles and kilometres are rounded."""


class Amount(NamedTuple):
    dimension: str
    """A base unit (``seconds``), a currency, ``percent``; empty for a number alone."""
    value: float
    """In the base unit."""
    number: float
    """As it is written."""

    def equals(self, other: Amount) -> bool:
        """Whether both may be the same: a number alone equals whatever has that number."""
        if self.dimension and other.dimension:
            near = TOLERANCES.get(self.dimension, 1e-6) * abs(self.value)
            return self.dimension == other.dimension and abs(self.value - other.value) <= near
        return abs(self.number - other.number) <= 1e-6 * abs(self.number)


class Date(NamedTuple):
    """A day, month or year, as far as it is named."""

    year: int | None
    month: int
    day: int | None

    def equals(self, other: Date) -> bool:
        """Whether nothing that both name differs."""
        pairs = zip(self, other, strict=True)
        return all(one is None or two is None or one == two for one, two in pairs)

    def is_within(self, other: Date) -> bool:
        """Whether the other date says all that this one does."""
        return all(one is None or one == two for one, two in zip(self, other, strict=True))


class Wording(NamedTuple):
    """A text as it is compared."""

    tokens: tuple[str, ...]
    """Words in small letters without accents; numbers in one form, and so the names of months."""
    amounts: tuple[Amount, ...]
    dates: tuple[Date, ...]

    @property
    def is_typed(self) -> bool:
        """Whether it names amounts and dates, and nothing else."""
        words = _words()
        plain = {one for one in self.tokens if not _is_number(one)}
        rest = plain - words.units.keys() - set(words.month_names) - words.filling
        return bool(self.amounts or self.dates) and not rest

    def is_named_by(self, other: Wording) -> bool:
        """Whether the other text names all amounts and dates of this one."""
        held = (
            *other.amounts,
            *(Amount("", one.year, one.year) for one in other.dates if one.year),
        )
        return all(any(one.equals(each) for each in held) for one in self.amounts) and all(
            any(one.is_within(each) for each in other.dates) for one in self.dates
        )

    @property
    def years(self) -> frozenset[int]:
        bare = (one.number for one in self.amounts if not one.dimension)
        named = {one.year for one in self.dates if one.year}
        return frozenset({int(number) for number in bare if 1000 <= number <= 2100} | named)


@lru_cache(maxsize=4096)
def wording(text: str) -> Wording:
    """How a text is worded, with the amounts and dates in it."""
    (plain, has_digit), special = _plain(text), _words().special
    tokens = _ASCII_TOKEN if plain.isascii() else _TOKEN
    if not has_digit:
        # Without numbers, the words of a plain text are what lies between all other signs.
        is_plain = tokens is _ASCII_TOKEN
        raw = plain.translate(_NO_LETTERS).split() if is_plain else tokens.findall(plain)
        if special.isdisjoint(raw):
            return Wording(tuple(raw), (), ())
    else:
        raw = tokens.findall(_ORDINAL.sub(r"\1", plain))
    if tokens is _ASCII_TOKEN:
        # All that is no word of small letters is a number.
        places = [at for at, one in enumerate(raw) if one < "a" or one in special]
    else:
        places = [at for at, one in enumerate(raw) if one in special or one[-1].isdecimal()]
    return _Reading(raw).wording(places)


_HAN = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_NUMBER = r"(?:(?<![^\s(])-)?\d+(?:\.\d+(?!\d*:))?"
_TOKEN = re.compile(rf"[^\W\d_{_HAN}]+|{_NUMBER}|[{_HAN}]")
_ASCII_TOKEN = re.compile(f"[a-z]+|{_NUMBER}")
_NO_LETTERS = "".join(chr(at) if chr(at).islower() else " " for at in range(128))
_HAN_NUMBER = re.compile(
    r"(?:(百分之)(?=[〇零一二两三四五六七八九十百千万]))?"
    r"([〇零一二两三四五六七八九十百千万]+)(?(1)|(?=[年月日天个元人次倍分小%]))"
)
_HAN_SIGN = re.compile("[〇零一二两三四五六七八九十百千万]")
_HAN_DIGITS = {sign: at for at, sign in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_HAN_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10000}
_DIGIT = re.compile(r"\d")
_LONGEST, _MOST = 300, 1e300
"""Digits of a number that are read, and the largest one."""
_ORDINAL = re.compile(r"(\d)(?:st|nd|rd|th)\b")
_GROUPS = re.compile(r"(?<=\d)[,'’\u2009\u202f](?=\d{3}(?!\d))")
_EUROPEAN = re.compile(r"(?<![\d.,])(\d{1,3}(?:\.\d{3})+),(\d{1,2})(?!\d)")
_DECIMAL_COMMA = re.compile(r"(?<![\d.,])(\d+),(\d{1,2})(?![\d,])")
_ISO = re.compile(r"\b(\d{4})-(\d{1,2})-(\d{1,2})\b")
_THOUSANDS = re.compile(r"\d{1,3}\.\d{3}")
_GROUPED = re.compile(r"\d[,'\u2009\u202f]\d")
_MARK = re.compile("[\u0300-\U0010ffff]")
_SYMBOLS = {"€": " eur ", "$": " usd ", "£": " gbp ", "%": " percent ", "¥": " jpy "}


def _plain(text: str) -> tuple[str, bool]:
    """In small letters without accents; signs of currencies as words, numbers without groups.

    And whether it has a digit.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text.replace("’", "'").replace("−", "-"))
        text = _MARK.sub(_unmarked, text).replace("ß", "ss")
        if _HAN_SIGN.search(text):
            text = _HAN_NUMBER.sub(_han_number, text)
    text = text.lower()
    if "$" in text or "%" in text or not text.isascii():
        for symbol, word in _SYMBOLS.items():
            text = text.replace(symbol, word)
    has_digit = _DIGIT.search(text) is not None
    if has_digit:
        if "-" in text:
            text = _ISO.sub(_day_of_iso, text)
        if _GROUPED.search(text):
            text = _EUROPEAN.sub(lambda m: m[1].replace(".", "") + "." + m[2], text)
            text = _DECIMAL_COMMA.sub(r"\1.\2", _GROUPS.sub("", text))
    return text.replace("'s ", " ").replace("'", "") if "'" in text else text, has_digit


def _unmarked(match: re.Match[str]) -> str:
    return "" if unicodedata.combining(match[0]) else match[0]


def _han_number(match: re.Match[str]) -> str:
    total, digit = 0, 0
    for sign in match[2]:
        if (scale := _HAN_SCALES.get(sign)) is None:
            digit = _HAN_DIGITS[sign]
        elif scale == 10000:
            total, digit = (total + digit or 1) * scale, 0
        else:
            total, digit = total + (digit or 1) * scale, 0
    return f" {total + digit}{' percent' if match[1] else ''} "


def _day_of_iso(match: re.Match[str]) -> str:
    year, month, day = match.groups()
    names = _words().month_names
    return f" {int(day)} {names[int(month) - 1]} {year} " if 1 <= int(month) <= 12 else match[0]


class _Words(NamedTuple):
    months: dict[str, int]
    ambiguous: frozenset[str]
    month_names: list[str]
    numbers: dict[str, float]
    ordinals: dict[str, float]
    scales: dict[str, float]
    short_scales: dict[str, float]
    """Letters that are a scale behind a currency's number: £50m."""
    units: dict[str, tuple[str, float]]
    currencies: frozenset[str]
    between: frozenset[str]
    filling: frozenset[str]
    special: frozenset[str]
    """The words of which a text without digits must hold one to name anything."""


@cache
def _words() -> _Words:
    known = table("ragbench.text", "amounts")
    months = {word: at for at, row in enumerate(known["months"], 1) for word in row.split()}
    numbers, ordinals, scales, short = (
        {word: float(row.split()[0]) for row in known[kind] for word in row.split()[1:]}
        for kind in ("numbers", "ordinals", "scales", "short_scales")
    )
    units = {
        word: (dimension, float(row.split()[0]))
        for dimension, rows in known["units"].items()
        for row in rows
        for word in row.split()[1:]
    }
    names = [row.split()[0] for row in known["months"]]
    ambiguous = frozenset(known["ambiguous_months"].split())
    currencies, between, filling = (
        frozenset(known[kind].split()) for kind in ("currencies", "between", "filling")
    )
    special = frozenset({*months, *numbers, *ordinals})
    return _Words(
        months, ambiguous, names, numbers, ordinals, scales, short, units, currencies, between,
        filling, special,
    )  # fmt: skip


class _Reading:
    """Goes through the tokens of a text."""

    def __init__(self, raw: list[str]) -> None:
        self.raw = raw
        self.words = _words()
        self.tokens = list[str]()
        self.amounts = list[Amount]()
        self.dates = list[Date]()

    def wording(self, places: Sequence[int]) -> Wording:
        """Reads what begins at these places: numbers, and the names of numbers and months."""
        at, raw, words = 0, self.raw, self.words
        for place in places:
            if place < at:
                continue  # part of the number before
            self.tokens += raw[at:place]
            token = raw[place]
            if token in words.months and token not in words.numbers:
                self.tokens.append(self._month(place))
                at = place + 1
            else:
                at = self._number(place)
        self.tokens += raw[at:]
        return Wording(tuple(self.tokens), tuple(self.amounts), tuple(self.dates))

    def _month(self, at: int) -> str:
        """Reads what may be a month, with the date around it, and gives its name."""
        token, words = self.raw[at], self.words
        beside = self.raw[max(at - 1, 0) : at + 2]
        if token in words.ambiguous and not any(map(_is_number, beside)):
            return token
        self.dates.append(self._date(at, words.months[token]))
        return words.month_names[words.months[token] - 1]

    def _number(self, at: int) -> int:
        """Reads a number with what it counts, and gives where the text goes on."""
        raw, words, start = self.raw, self.words, at
        token = raw[at]
        at += 1
        if token in words.ordinals:
            number = words.ordinals[token]
        elif token in words.numbers:
            number = words.numbers[token]
            after = raw[at] if at < len(raw) else ""
            unit = words.numbers.get(after, words.ordinals.get(after, 0))
            if number >= 20 and 0 < unit < 10:
                number, at = number + unit, at + 1
        else:
            number = float(token[:_LONGEST])
        while at < len(raw) and raw[at] in words.scales:
            number, at = min(number * words.scales[raw[at]], _MOST), at + 1
        # A word may stand between a number and its unit: "ten working days".
        after = raw[at] if at < len(raw) else ""
        if after in words.between:
            after = raw[at + 1] if at + 1 < len(raw) else ""
            after = "" if after in words.between else after
        dimension, factor = words.units.get(after, ("", 1.0))
        before = raw[start - 1] if start else ""
        if before in words.currencies:
            if (scale := words.short_scales.get(raw[at] if at < len(raw) else "")) is not None:
                number, at = number * scale, at + 1
            dimension, factor = before, 1.0
        if dimension in words.currencies and _THOUSANDS.fullmatch(token):
            number *= 1000  # "5.000 €": no currency has three decimals
        self.amounts.append(Amount(dimension, number * factor, number))
        self.tokens.append(f"{number:.12g}")
        return at

    def _date(self, at: int, month: int) -> Date:
        """The date around the name of a month."""
        raw, year = self.raw, None
        before = at - 2 if at > 1 and raw[at - 1] in ("of", "de", "di") else at - 1
        day = _day(raw[before]) if before >= 0 else None
        if day is not None and self.amounts and self.amounts[-1].number == day:
            self.amounts.pop()  # a day is no amount
        after = at + 1
        if after < len(raw) and raw[after] in ("of", "de", "di"):
            after += 1
        if day is None and after < len(raw) and (day := _day(raw[after])) is not None:
            after += 1
        if after < len(raw) and len(raw[after]) == 4 and raw[after].isdecimal():
            year = int(raw[after])
        return Date(year, month, day)


def _is_number(token: str) -> bool:
    return token[-1].isdecimal()


def _day(token: str) -> int | None:
    return int(token) if token.isdecimal() and len(token) < 3 and 1 <= int(token) <= 31 else None
