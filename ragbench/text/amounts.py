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
    """A number with what it counts."""

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
    """Words in small letters without accents; numbers in one form, and so the names of months."""
    amounts: tuple[Amount, ...]
    dates: tuple[Date, ...]

    @property
    def is_typed(self) -> bool:
        """Whether it names amounts and dates, and nothing else."""
        if not self.amounts and not self.dates:
            return False
        typed = _words().typed
        return all(token in typed or token[-1].isdecimal() for token in self.tokens)

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
    plain = text.lower() if text.isascii() else _unaccented(text)
    is_ascii = plain.isascii()
    if "$" in plain or "%" in plain or not is_ascii:
        for symbol, word in _SYMBOLS.items():
            plain = plain.replace(symbol, word)
        is_ascii = plain.isascii()
    has_digit = _DIGIT.search(plain) is not None
    if has_digit:
        plain = _with_plain_numbers(plain)
    if "'" in plain:
        plain = plain.replace("'s ", " ").replace("'", "")
    if has_digit:
        plain = _ORDINAL.sub("", plain)
    if not has_digit and is_ascii:
        tokens = plain.translate(_NO_LETTERS).split()  # all signs but letters part words
    else:
        tokens = (_ASCII_TOKEN if is_ascii else _TOKEN).findall(plain)
    special = _words().special
    if not special.isdisjoint(tokens):
        begins = [
            position
            for position, token in enumerate(tokens)
            if token in special or _is_number(token)
        ]
    elif has_digit:
        begins = [position for position, token in enumerate(tokens) if _is_number(token)]
    else:
        return Wording(tuple(tokens), (), ())
    return _read(tokens, begins)


def _is_number(token: str) -> bool:
    """Whether a token is written in digits: no other one ends with one."""
    return token[-1].isdecimal()


_HAN = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_NUMBER = r"(?:(?<![^\s(])-)?\d+(?:\.\d+(?!\d*:))?"
_TOKEN = re.compile(rf"[^\W\d_{_HAN}]+|{_NUMBER}|[{_HAN}]")
_ASCII_TOKEN = re.compile(f"[a-z]+|{_NUMBER}")
_NO_LETTERS = "".join([chr(code) if chr(code).islower() else " " for code in range(128)])
"""A table for `str.translate`: every sign but a small letter becomes a space."""
_HAN_NUMBER = re.compile(
    r"(?:(百分之)(?=[〇零一二两三四五六七八九十百千万]))?"
    r"([〇零一二两三四五六七八九十百千万]+)(?(1)|(?=[年月日天个元人次倍分小%]))"
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
_DIGIT = re.compile(r"\d")
_MOST_DIGITS = 300
"""Digits of a number that are read."""
_LARGEST = 1e300
"""The largest number."""
_ORDINAL = re.compile(r"(?:st|nd|rd|th)(?<=\d..)\b")
_GROUPS = re.compile(r"(?<=\d)[,'’\u2009\u202f](?=\d{3}(?!\d))")
_EUROPEAN = re.compile(r"(?<![\d.,])(\d{1,3}(?:\.\d{3})+),(\d{1,2})(?!\d)")
_DECIMAL_COMMA = re.compile(r"(?<![\d.,])(\d+),(\d{1,2})(?![\d,])")
_ISO = re.compile(r"\b(\d{4})-(\d{1,2})-(\d{1,2})\b")
_GROUPED = re.compile(r"\d[,'\u2009\u202f]\d")
_THOUSANDS = re.compile(r"\d{1,3}\.\d{3}")
_MARK = re.compile("[^\x00-\u02ff]")
_SYMBOLS = {"€": " eur ", "$": " usd ", "£": " gbp ", "%": " percent ", "¥": " jpy "}


def _unaccented(text: str) -> str:
    """In small letters without accents; numbers in Chinese signs as digits."""
    text = unicodedata.normalize("NFKD", text.replace("’", "'").replace("−", "-"))
    text = _MARK.sub(_unmarked, text).replace("ß", "ss")
    if _HAN_SIGN.search(text):
        text = _HAN_NUMBER.sub(_han_number, text)
    return text.lower()


def _with_plain_numbers(text: str) -> str:
    """Days of ISO by their names, numbers without groups, and with a point for the comma."""
    if "-" in text:
        text = _ISO.sub(_day_with_month_name, text)
    if ("," in text or "'" in text or not text.isascii()) and _GROUPED.search(text):
        text = _EUROPEAN.sub(lambda number: f"{number[1].replace('.', '')}.{number[2]}", text)
        text = _DECIMAL_COMMA.sub(r"\1.\2", _GROUPS.sub("", text))
    return text


def _unmarked(match: re.Match[str]) -> str:
    """A character as it is, an accent as nothing."""
    return "" if unicodedata.combining(match[0]) else match[0]


def _han_number(match: re.Match[str]) -> str:
    """A number in Chinese signs in digits: 二百五十 is 250."""
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


def _day_with_month_name(match: re.Match[str]) -> str:
    """2024-03-12 as "12 march 2024", so that both are one date; as it is where that is no month."""
    year, month, day = match.groups()
    if not 1 <= int(month) <= 12:
        return match[0]
    return f" {int(day)} {_words().month_names[int(month) - 1]} {year} "


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
    units: dict[str, tuple[str, float]]
    currencies: frozenset[str]
    between: frozenset[str]
    """Words between a number and its unit: "ten working days"."""
    typed: frozenset[str]
    """The words of a text that names amounts and dates, and nothing else."""
    special: frozenset[str]
    """The words of which a text without digits must hold one to name anything."""


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
    units: dict[str, tuple[str, float]] = {}
    for dimension, rows in entries["units"].items():
        for word, factor in _values_of(rows).items():
            units[word] = (dimension, factor)
    filling = entries["filling"].split()
    return _Words(
        # "sept" is September in one language and seven in another: the number counts.
        months={word: month for word, month in months.items() if word not in numbers},
        ambiguous=frozenset(entries["ambiguous_months"].split()),
        month_names=month_names,
        numbers=numbers,
        ordinals=ordinals,
        scales=_values_of(entries["scales"]),
        short_scales=_values_of(entries["short_scales"]),
        units=units,
        currencies=frozenset(entries["currencies"].split()),
        between=frozenset(entries["between"].split()),
        typed=frozenset([*units, *month_names, *filling]),
        special=frozenset([*months, *numbers, *ordinals]),
    )


def _values_of(rows: Sequence[str]) -> dict[str, float]:
    """The words of rows that begin with a number, each with the number of its row."""
    values: dict[str, float] = {}
    for row in rows:
        value, *words = row.split()
        values.update(dict.fromkeys(words, float(value)))
    return values


def _read(tokens: list[str], begins: Sequence[int]) -> Wording:
    """Reads the numbers, and the names of numbers and months, that begin at these positions."""
    words = _words()
    around = [*tokens, "", ""]  # so that there is a word behind the last one, and before the first
    plain: list[str] = []
    amounts: list[Amount] = []
    dates: list[Date] = []
    end = 0
    for begin in begins:
        if begin < end:
            continue  # part of the number before
        plain += tokens[end:begin]
        month = words.months.get(tokens[begin])
        if month is None:
            amount, end = _amount(around, begin, words)
            amounts.append(amount)
            plain.append(f"{amount.number:.12g}")
            continue
        end = begin + 1
        is_dated = around[begin - 1][-1:].isdecimal() or around[end][-1:].isdecimal()
        if is_dated or tokens[begin] not in words.ambiguous:
            dates.append(_date(around, begin, month, amounts))
            plain.append(words.month_names[month - 1])
        else:
            plain.append(tokens[begin])
    return Wording((*plain, *tokens[end:]), tuple(amounts), tuple(dates))


def _amount(tokens: list[str], begin: int, words: _Words) -> tuple[Amount, int]:
    """The number that begins at a position with its unit, and the position behind the number."""
    token = tokens[begin]
    end = begin + 1
    if token in words.ordinals:
        number = words.ordinals[token]
    elif token in words.numbers:
        number = words.numbers[token]
        # "twenty two", "twenty second"
        digit = words.numbers.get(tokens[end], words.ordinals.get(tokens[end], 0))
        if number >= 20 and 0 < digit < 10:
            number += digit
            end += 1
    else:
        number = float(token[:_MOST_DIGITS])
    while tokens[end] in words.scales:
        number = min(number * words.scales[tokens[end]], _LARGEST)
        end += 1
    unit = tokens[end + 1] if tokens[end] in words.between else tokens[end]
    dimension, factor = words.units.get(unit, _NO_UNIT)
    before = tokens[begin - 1]
    if before in words.currencies:
        if tokens[end] in words.short_scales:
            number *= words.short_scales[tokens[end]]
            end += 1
        dimension = before
        factor = 1.0
    if dimension in words.currencies and _THOUSANDS.fullmatch(token):
        number *= 1000  # "5.000 €": no currency has three decimals
    return Amount(dimension, number * factor, number), end


_NO_UNIT = ("", 1.0)


def _date(tokens: list[str], position: int, month: int, amounts: list[Amount]) -> Date:
    """The date around the name of a month; its day is no longer one of the amounts."""
    before = tokens[position - 1]
    if position > 1 and before in _OF:
        before = tokens[position - 2]
    day = _day(before)
    if day is not None and amounts and amounts[-1].number == day:
        amounts.pop()
    behind = position + 1
    if tokens[behind] in _OF:
        behind += 1
    if day is None:
        day = _day(tokens[behind])
        if day is not None:
            behind += 1
    year: int | None = None
    if len(tokens[behind]) == 4 and tokens[behind].isdecimal():
        year = int(tokens[behind])
    return Date(year, month, day)


_OF = ("of", "de", "di")


def _day(token: str) -> int | None:
    """A word as the day of a month; None where it is none."""
    if not token.isdecimal() or len(token) > 2:
        return None
    day = int(token)
    return day if 1 <= day <= 31 else None
