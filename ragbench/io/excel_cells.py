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
_CLOCK_PART = re.compile(
    r"\[?h+\]?|\[?m+\]?|\[?s+\]?(?:\.0+)?|AM/PM|A/P|\"[^\"]*\"|\\.|.", re.IGNORECASE | re.DOTALL
)
_NO_DATE = re.compile(r'"[^"]*"|\\.|\[\$[^\]]*\]|\[(?:' + "|".join(sorted(_COLOURS)) + r")\]")
"""Letters in a format that are no part of a date."""
_SIGNIFICANT = 15
"""Digits that Excel keeps of a number."""


def cell_text(value: object, number_format: str) -> str:
    """What a cell shows; empty for an empty one. Dates are ISO 8601."""
    if value is None:
        return ""
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
    return value.isoformat() if isinstance(value, date) else str(value)


# --- numbers


class _Format(NamedTuple):
    """A section of a number format that shows one number."""

    before: str
    digits: str
    behind: str
    percents: int


def _number_text(value: float, number_format: str) -> str:
    plain = _plain_number(value)
    section, is_signed = _section_of(value, number_format)
    parts = _parsed(section)
    if parts is None:
        return plain
    # A section may be a text alone: "none" for zero.
    shown = _digits_text(abs(value), parts) if parts.digits else ""
    sign = "-" if value < 0 and is_signed and re.search("[1-9]", shown) else ""
    text = f"{sign}{parts.before}{shown}{parts.behind}".strip()
    return text if text == plain else NumberText.of(text, plain)


def _plain_number(value: float) -> str:
    if value == int(value):
        return str(int(value))
    # Binary fractions show as the decimal that was typed: .1 + .2 is 0.3.
    return repr(float(f"{value:.{_SIGNIFICANT}g}"))


def _section_of(value: float, number_format: str) -> tuple[str, bool]:
    """The section for a number, and whether a negative one shows its sign there."""
    sections = _SECTION.findall(number_format)
    if value < 0 and len(sections) > 1:
        return sections[1], False
    if value == 0 and len(sections) > 2:
        return sections[2], False
    return (sections[0] if sections else ""), True


@lru_cache(maxsize=256)
def _parsed(section: str) -> _Format | None:
    """The parts of a section; None where it is a format that is not known here."""
    before, digits, behind, percents = "", "", "", 0
    for token in _TOKEN.finditer(section):
        if token["digits"] is not None:
            if digits:  # a fraction, or a number in groups such as 000-000
                return None
            digits = token["digits"]
            continue
        literal = _literal(token)
        if literal is None:
            return None
        percents += token["percent"] is not None
        if digits:
            behind += literal
        else:
            before += literal
    if not digits and not before:
        return None
    return _Format(before=before, digits=digits, behind=behind, percents=percents)


def _literal(token: re.Match[str]) -> str | None:
    """The text that a token shows; None where it means something that is not known here."""
    bracket = token["bracket"]
    if bracket is not None:
        is_colour = bracket.lower() in _COLOURS or bracket.lower().startswith("color")
        return "" if is_colour else None
    if token["percent"] is not None:
        return "%"
    other = token["other"]
    if other is not None:
        # A letter is a part of a date or of General, and a stroke one of a fraction.
        return None if other.isalpha() or other in "/@" else other
    return token["quoted"] or token["escaped"] or token["currency"] or ""


def _digits_text(number: float, parts: _Format) -> str:
    digits, _, exponent = parts.digits.upper().partition("E")
    whole, _, fraction = digits.partition(".")
    # Trailing commas show thousands, or millions, as one.
    thousands = len(digits) - len(digits.rstrip(","))
    whole, fraction = whole.rstrip(","), fraction.rstrip(",")
    if exponent:
        places = len(fraction)
        mantissa, _, power = f"{number:.{places}E}".partition("E")
        width = len(exponent) - 1
        return f"{mantissa}E{power[0]}{int(power[1:]):0{width}d}"
    exact = Decimal(_plain_number(number))
    exact = exact.scaleb(2 * parts.percents - 3 * thousands)
    rounded = exact.quantize(Decimal(1).scaleb(-len(fraction)), rounding=ROUND_HALF_UP)
    before, _, behind = f"{rounded:f}".partition(".")
    optional = len(fraction) - len(fraction.rstrip("#?"))
    least = len(fraction) - optional
    while len(behind) > least and behind.endswith("0"):
        behind = behind[:-1]
    is_grouped = "," in whole
    width = whole.count("0")
    before = before.lstrip("0").rjust(width, "0")
    if is_grouped:
        before = re.sub(r"(?<=\d)(?=(?:\d{3})+$)", ",", before)
    return f"{before}.{behind}" if behind else before or "0"


# --- dates, times, durations


def _moment_text(moment: datetime, number_format: str) -> str:
    has_date, has_time = _shows(number_format)
    if has_time and not has_date:
        return _time_text(moment.time(), number_format)
    if moment.time() == time() or (has_date and not has_time):
        return moment.date().isoformat()
    return moment.isoformat()


def _shows(number_format: str) -> tuple[bool, bool]:
    """Whether a format shows a date, and a time."""
    plain = re.sub(
        r'"[^"]*"|\\.|\[\$[^\]]*\]|\[(?:' + "|".join(_COLOURS) + r")\]", "", number_format.lower()
    )
    return bool(re.search("[yd]", plain)), bool(re.search("[hs]", plain))


def _time_text(moment: time, number_format: str) -> str:
    elapsed = timedelta(
        hours=moment.hour,
        minutes=moment.minute,
        seconds=moment.second,
        microseconds=moment.microsecond,
    )
    has_date, has_time = _shows(number_format)
    return _clock_text(elapsed, number_format) if has_time and not has_date else moment.isoformat()


def _duration_text(elapsed: timedelta, number_format: str) -> str:
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
    has_half = "am/pm" in section.lower() or "a/p" in section.lower()
    # Excel rounds to the last unit that is shown.
    total = elapsed.total_seconds()
    decimals = re.search(r"s\]?\.(0+)", section, re.I)
    if has_seconds and decimals is None:
        total = float(Decimal(repr(total)).quantize(Decimal(1), rounding=ROUND_HALF_UP))
    seconds = int(total)
    text = ""
    for part in _CLOCK_PART.findall(section):
        text += _clock_part(part, seconds, total, has_half=has_half)
    return text.strip()


def _clock_part(part: str, seconds: int, total: float, *, has_half: bool) -> str:
    kind = part.lower().strip("[]")
    letter = kind[:1]
    if kind in ("am/pm", "a/p"):
        half = "AM" if seconds // 3600 % 24 < 12 else "PM"
        return half if kind == "am/pm" else half[0]
    if letter not in ("h", "m", "s"):
        return part.strip('"').removeprefix("\\")
    goes_on = part.startswith("[")
    letters, _, decimals = kind.replace("]", "").partition(".")
    unit = {"h": 3600, "m": 60, "s": 1}[letter]
    count = seconds // unit
    if not goes_on:
        count %= 24 if letter == "h" else 60
    if letter == "h" and has_half:
        count = count % 12 or 12
    shown = f"{count:0{len(letters)}d}"
    if decimals:
        shown += f"{total % 1:.{len(decimals)}f}"[1:]
    return shown
