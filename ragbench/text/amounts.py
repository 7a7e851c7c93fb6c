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
        if not self.amounts and not self.dates:
            return False
        typed = _words().typed
        return all(one in typed or one[-1].isdecimal() for one in self.tokens)

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
    special = _words().special
    if has_digit or not is_ascii:
        raw = (_ASCII_TOKEN if is_ascii else _TOKEN).findall(plain)
    else:  # the words are what lies between all other signs
        raw = plain.translate(_NO_LETTERS).split()
    if not special.isdisjoint(raw):
        places = [at for at, one in enumerate(raw) if one in special or one[-1].isdecimal()]
    elif has_digit:
        places = [at for at, one in enumerate(raw) if one[-1].isdecimal()]
    else:
        return Wording(tuple(raw), (), ())
    return _read(raw, places)


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
        text = _ISO.sub(_day_of_iso, text)
    if ("," in text or "'" in text or not text.isascii()) and _GROUPED.search(text):
        text = _EUROPEAN.sub(lambda m: m[1].replace(".", "") + "." + m[2], text)
        text = _DECIMAL_COMMA.sub(r"\1.\2", _GROUPS.sub("", text))
    return text


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
    typed: frozenset[str]
    """The words of a text that names amounts and dates, and nothing else."""
    special: frozenset[str]
    """The words of which a text without digits must hold one to name anything."""


@cache
def _words() -> _Words:
    known = table("ragbench.text", "amounts")
    months = {word: at for at, row in enumerate(known["months"], 1) for word in row.split()}
    names = [row.split()[0] for row in known["months"]]
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
    ambiguous, currencies, between, filling = (
        frozenset(known[kind].split())
        for kind in ("ambiguous_months", "currencies", "between", "filling")
    )
    return _Words(
        {word: month for word, month in months.items() if word not in numbers},
        ambiguous, names, numbers, ordinals, scales, short, units, currencies, between,
        typed=frozenset({*units, *names, *filling}),
        special=frozenset({*months, *numbers, *ordinals}),
    )  # fmt: skip


def _read(raw: list[str], places: Sequence[int]) -> Wording:
    """Reads what begins at these places: numbers, and the names of numbers and months."""
    words, at = _words(), 0
    around = [*raw, "", ""]  # so that there is a word behind the last one, and before the first
    tokens: list[str] = []
    amounts: list[Amount] = []
    dates: list[Date] = []
    for place in places:
        if place < at:
            continue  # part of the number before
        tokens += raw[at:place]
        month = words.months.get(raw[place])
        if month is None:
            amount, at = _amount(around, place, words)
            amounts.append(amount)
            tokens.append(f"{amount.number:.12g}")
            continue
        at = place + 1
        is_dated = around[place - 1][-1:].isdecimal() or around[at][-1:].isdecimal()
        if is_dated or raw[place] not in words.ambiguous:
            dates.append(_date(around, place, month, amounts))
            tokens.append(words.month_names[month - 1])
        else:
            tokens.append(raw[place])
    return Wording((*tokens, *raw[at:]), tuple(amounts), tuple(dates))


def _amount(raw: list[str], start: int, words: _Words) -> tuple[Amount, int]:
    """A number with what it counts, and where the text goes on."""
    token, at = raw[start], start + 1
    if token in words.ordinals:
        number = words.ordinals[token]
    elif token in words.numbers:
        number, after = words.numbers[token], raw[at]
        unit = words.numbers.get(after, words.ordinals.get(after, 0))
        if number >= 20 and 0 < unit < 10:
            number, at = number + unit, at + 1
    else:
        number = float(token[:_LONGEST])
    while (scale := words.scales.get(raw[at])) is not None:
        number, at = min(number * scale, _MOST), at + 1
    # A word may stand between a number and its unit: "ten working days".
    unit_at = at + 1 if raw[at] in words.between else at
    dimension, factor = words.units.get(raw[unit_at], _NO_UNIT)
    if (before := raw[start - 1]) in words.currencies:
        if (scale := words.short_scales.get(raw[at])) is not None:
            number, at = number * scale, at + 1
        dimension, factor = before, 1.0
    if dimension in words.currencies and _THOUSANDS.fullmatch(token):
        number *= 1000  # "5.000 €": no currency has three decimals
    return Amount(dimension, number * factor, number), at


_NO_UNIT = ("", 1.0)


def _date(raw: list[str], at: int, month: int, amounts: list[Amount]) -> Date:
    """The date around the name of a month; its day is no longer one of the amounts."""
    day = _day(raw[at - 2] if at > 1 and raw[at - 1] in _OF else raw[at - 1])
    if day is not None and amounts and amounts[-1].number == day:
        amounts.pop()
    at += 2 if raw[at + 1] in _OF else 1
    if day is None and (day := _day(raw[at])) is not None:
        at += 1
    return Date(int(raw[at]) if len(raw[at]) == 4 and raw[at].isdecimal() else None, month, day)


_OF = ("of", "de", "di")


def _day(token: str) -> int | None:
    return int(token) if token.isdecimal() and len(token) < 3 and 1 <= int(token) <= 31 else None
