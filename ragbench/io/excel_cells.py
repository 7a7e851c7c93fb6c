"""Cells of a workbook as a person reads them, by their number format.

A cell that shows ``25%`` holds .25, one that shows ``36:00:00`` holds a day and a half. A reference
or an answer is the text that is shown; a field for a number (a score, seconds) is the number.
Formats that are not known here show the plain number.
"""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import NamedTuple

from ragbench.io.values import NumberText

_SECTION = re.compile(r'(?:"[^"]*"|\\.|[^;"\\])+')
"""A part of a number format up to the next semicolon; one in a quoted text ends none."""
_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"'  # a text
    r"|\\(?P<escaped>.)"  # a character
    r"|\[\$(?P<currency>[^\]-]*)(?:-[^\]]*)?\]"  # [$€-407]
    r"|\[(?P<bracket>[^\]]*)\]"  # a colour, a condition, or hours that go on
    r"|_(?:.)|\*(?:.)"  # a space as wide as a character, and what fills a cell
    r"|(?P<digits>[0#?][0#?,]*(?:\.[0#?]*,*)?(?:[eE][+-]0+)?|\.[0#?]+)"
    r"|(?P<percent>%)"
    r"|(?P<other>.)",
    re.DOTALL,
)
_COLOURS = frozenset({"black", "blue", "cyan", "green", "magenta", "red", "white", "yellow"})
"""Colours that a format names in brackets: they show no text."""
_CLOCK_PART = re.compile(
    r"\[?h+\]?|\[?m+\]?|\[?s+\]?(?:\.0+)?|AM/PM|A/P|\"[^\"]*\"|\\.|.", re.IGNORECASE | re.DOTALL
)
_NOT_OF_A_DATE = re.compile(r'"[^"]*"|\\.|\[\$[^\]]*\]|\[(?:' + "|".join(sorted(_COLOURS)) + r")\]")
"""Letters in a format that are no part of a date."""
_SIGNIFICANT = 15
"""Digits that Excel keeps of a number."""


def cell_text(value: object, number_format: str) -> str:
    """The text that Excel shows in a cell; empty for an empty cell. Dates are ISO 8601.

    A reference or an answer is the text that people saw, not the number behind it: a cell that
    shows ``25%`` holds .25.

    Args:
        value: the cell's value, of the type that a workbook's reader gives.
        number_format: Excel's format of the cell, such as ``0.0%`` or ``[h]:mm``.
    """
    if value is None:
        return ""
    # Before numbers, and `datetime` before `date`: each is a kind of the other in Python.
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return _number_text(value, number_format)
    if isinstance(value, timedelta):
        return _duration_text(value, number_format)
    if isinstance(value, datetime):
        return _moment_text(value, number_format)
    if isinstance(value, time):
        return _time_text(value, number_format)
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


# --- numbers


class _NumberFormat(NamedTuple):
    """A section of a number format that shows one number, such as ``€ #,##0.00``."""

    before: str
    """The text before the digits."""
    digits: str
    """How the digits are shown, such as ``#,##0.00``; empty where the section is a text alone."""
    behind: str
    percents: int
    """How many percent signs there are: each shows a hundred times the number."""


def _number_text(value: float, number_format: str) -> str:
    """A number as its Excel format shows it; the plain number where the format is not known.

    Where the two differ, the text carries the plain number, too: a field for a number needs that.
    """
    plain = _plain_number(value)
    section, is_signed = _section_of(value, number_format)
    parts = _parsed_section(section)
    if parts is None:
        return plain
    digits = ""  # of a section that is a text alone: "none" for zero
    if parts.digits:
        digits = _digits_text(abs(value), parts)
    sign = ""
    # What is rounded to zero has no sign.
    if value < 0 and is_signed and re.search("[1-9]", digits) is not None:
        sign = "-"
    text = f"{sign}{parts.before}{digits}{parts.behind}".strip()
    if text == plain:
        return text
    return NumberText.of(text, plain)


def _plain_number(value: float) -> str:
    """A number without a format, with the 15 digits that Excel keeps: .1 + .2 is 0.3.

    A whole number has no decimals, as people typed it: workbooks store each number as a binary
    fraction.
    """
    if value == int(value):
        return str(int(value))
    # Binary fractions show as the decimal that was typed: .1 + .2 is 0.3.
    return repr(float(f"{value:.{_SIGNIFICANT}g}"))


def _section_of(value: float, number_format: str) -> tuple[str, bool]:
    """The section of an Excel format for a number, and whether it shows a minus sign by itself.

    A format has up to four sections: for numbers above zero, below zero, zero, and text. A section
    for numbers below zero writes the sign itself, or brackets in its place.
    """
    sections = _SECTION.findall(number_format)
    if value < 0 and len(sections) > 1:
        return sections[1], False
    if value == 0 and len(sections) > 2:
        return sections[2], False
    if not sections:
        return "", True
    return sections[0], True


@lru_cache(maxsize=256)
def _parsed_section(section: str) -> _NumberFormat | None:
    """The parts of a section of an Excel number format; None if it has a part not known here.

    Then the cell shows the plain number. Cached: a column of a workbook has one format for all its
    cells.
    """
    before = ""
    digits = ""
    behind = ""
    percents = 0
    for token in _TOKEN.finditer(section):
        if token["digits"] is not None:
            if digits:  # a fraction, or a number in groups such as 000-000
                return None
            digits = token["digits"]
            continue
        literal = _literal(token)
        if literal is None:
            return None
        if token["percent"] is not None:
            percents += 1
        if digits:
            behind += literal
        else:
            before += literal
    if not digits and not before:
        return None
    return _NumberFormat(before=before, digits=digits, behind=behind, percents=percents)


def _literal(token: re.Match[str]) -> str | None:
    """The text that a token of an Excel format shows; None where its meaning is not known here.

    A token that is not known here makes the whole format unknown: then the plain number is shown.

    Args:
        token: a match of `_TOKEN` that is no place for digits.
    """
    bracket = token["bracket"]
    if bracket is not None:
        is_colour = bracket.lower() in _COLOURS or bracket.lower().startswith("color")
        return "" if is_colour else None
    if token["percent"] is not None:
        return "%"
    character = token["other"]
    if character is not None:
        # A letter is a part of a date or of General, and a stroke one of a fraction.
        return None if character.isalpha() or character in "/@" else character
    return token["quoted"] or token["escaped"] or token["currency"] or ""


def _digits_text(number: float, parts: _NumberFormat) -> str:
    """A number of zero or more with the digits of an Excel format: ``#,##0.0#`` shows 1,234.5.

    Zeros, groups of three, percent and powers of ten are as Excel shows them.
    """
    digits, _, exponent = parts.digits.upper().partition("E")
    whole_format, _, fraction_format = digits.partition(".")
    # Each trailing comma shows a thousand as one: "0," shows 12000 as 12.
    trailing_commas = len(digits) - len(digits.rstrip(","))
    whole_format = whole_format.rstrip(",")
    fraction_format = fraction_format.rstrip(",")
    if exponent:
        mantissa, _, power = f"{number:.{len(fraction_format)}E}".partition("E")
        sign = power[0]
        width = len(exponent) - 1  # without its sign
        power_digits = power[1:].lstrip("0").rjust(width, "0")
        return f"{mantissa}E{sign}{power_digits}"
    # Each percent sign shows a hundred times the number, each trailing comma a thousandth of it.
    places = 2 * parts.percents - 3 * trailing_commas
    exact = Decimal(_plain_number(number)).scaleb(places)
    last_place = Decimal(1).scaleb(-len(fraction_format))
    rounded = exact.quantize(last_place, rounding=ROUND_HALF_UP)
    whole, _, fraction = f"{rounded:f}".partition(".")
    # A place for # or ? shows no zero at the end; one for 0 does.
    min_places = len(fraction_format.rstrip("#?"))
    while len(fraction) > min_places and fraction.endswith("0"):
        fraction = fraction[:-1]
    min_width = whole_format.count("0")
    whole = whole.lstrip("0").rjust(min_width, "0")
    if "," in whole_format:  # a comma between groups of three digits
        whole = re.sub(r"(?<=\d)(?=(?:\d{3})+$)", ",", whole)
    if fraction:
        return f"{whole}.{fraction}"
    return whole or "0"


# --- dates, times, durations


def _moment_text(moment: datetime, number_format: str) -> str:
    """A cell's date with a time as its format shows it: in ISO 8601, or the time of day alone.

    Excel stores a date alone as midnight, and a time alone with a date: only the format shows which
    is meant.
    """
    has_date, has_time = _shows(number_format)
    if has_time and not has_date:
        return _time_text(moment.time(), number_format)
    if moment.time() == time() or (has_date and not has_time):
        return moment.date().isoformat()
    return moment.isoformat()


def _shows(number_format: str) -> tuple[bool, bool]:
    """Whether an Excel format shows a date, and whether it shows a time.

    An ``m`` alone is either a month or a minute, so it counts for neither.
    """
    letters = _NOT_OF_A_DATE.sub("", number_format.lower())
    # An m is either a month or a minute: it shows neither alone.
    has_date = re.search("[yd]", letters) is not None
    has_time = re.search("[hs]", letters) is not None
    return has_date, has_time


def _time_text(moment: time, number_format: str) -> str:
    """A time of day as its Excel format shows it; ISO 8601 where the format shows a date, too.

    Excel stores a time of day as a part of a day, so its format alone shows how people read it.
    """
    # The time since midnight, which a format shows in its own units.
    elapsed = timedelta(
        hours=moment.hour,
        minutes=moment.minute,
        seconds=moment.second,
        microseconds=moment.microsecond,
    )
    has_date, has_time = _shows(number_format)
    if has_time and not has_date:
        return _clock_text(elapsed, number_format)
    return moment.isoformat()


def _duration_text(elapsed: timedelta, number_format: str) -> str:
    """A duration by its Excel format, such as ``[h]:mm``; else in hours, minutes and seconds.

    Excel stores 36 hours as a day and a half: only the format shows which unit people see.
    """
    _, has_time = _shows(number_format)
    if not has_time:
        number_format = "[h]:mm:ss"
    sign = "-" if elapsed < timedelta() else ""
    return sign + _clock_text(abs(elapsed), number_format)


def _clock_text(elapsed: timedelta, number_format: str) -> str:
    """A time of day or a duration by a format such as ``h:mm`` or ``[h]:mm:ss``.

    ``mm`` are minutes behind hours or before seconds; in a format without a date, they always are.
    """
    section = re.sub(r"\[\$[^\]]*\]|_.|\*.", "", number_format.split(";")[0])
    has_seconds = "s" in section.lower()
    is_twelve_hours = "am/pm" in section.lower() or "a/p" in section.lower()
    # Excel rounds to the last unit that is shown, if that is seconds.
    total = elapsed.total_seconds()
    decimals = re.search(r"s\]?\.(0+)", section, re.I)
    if has_seconds and decimals is None:
        total = float(Decimal(repr(total)).quantize(Decimal(1), rounding=ROUND_HALF_UP))
    seconds = int(total)
    text = ""
    for part in _CLOCK_PART.findall(section):
        text += _clock_part(part, seconds, total, is_twelve_hours=is_twelve_hours)
    return text.strip()


def _clock_part(part: str, seconds: int, total: float, *, is_twelve_hours: bool) -> str:
    """The text of one part of an Excel time format: ``hh``, ``[h]``, ``ss.00``, ``AM/PM``, a text.

    Args:
        part: the part as the format spells it.
        seconds: the time in whole seconds.
        total: the same with the decimals.
        is_twelve_hours: whether the format has ``AM/PM``, so that hours go up to twelve.
    """
    kind = part.lower().strip("[]")
    letter = kind[:1]
    if kind in ("am/pm", "a/p"):
        hour = seconds // 3600 % 24
        half = "AM" if hour < 12 else "PM"
        return half if kind == "am/pm" else half[0]
    if letter not in ("h", "m", "s"):
        return part.strip('"').removeprefix("\\")
    letters, _, decimals = kind.replace("]", "").partition(".")
    seconds_of_unit = {"h": 3600, "m": 60, "s": 1}[letter]
    count = seconds // seconds_of_unit
    # In brackets a unit counts on: [h] shows 36 hours, h shows 12.
    if not part.startswith("["):
        units_of_next = 24 if letter == "h" else 60
        count %= units_of_next
    if letter == "h" and is_twelve_hours:
        count = count % 12 or 12  # midnight and noon are twelve
    text = f"{count:0{len(letters)}d}"
    if decimals:
        text += f"{total % 1:.{len(decimals)}f}"[1:]  # without the zero before the point
    return text
