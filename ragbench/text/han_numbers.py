"""Numbers in Chinese signs, in digits: 二百五十 is 250, 百分之三十 is 30 percent."""

from __future__ import annotations

import re

_DIGITS = {
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
_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10000}
_SIGNS = "".join([*_DIGITS, *_SCALES])
_ANY_SIGN = re.compile(f"[{_SIGNS}]")
_NUMBER = re.compile(
    # "百分之" is "percent". Without it a number needs something that it counts behind it: most
    # of these signs are parts of words, too.
    rf"(?:(百分之)(?=[{_SIGNS}]))?([{_SIGNS}]{{1,40}})(?(1)|(?=[年月日天个元人次倍分小%]))"
)


def han_numbers_in_digits(text: str) -> str:
    """A text with its numbers in Chinese signs written in digits, so that both ways compare.

    Signs that are a part of another word stay: without "percent" before it a number needs something
    that it counts behind it.
    """
    if not _ANY_SIGN.search(text):
        return text
    return _NUMBER.sub(_number_in_digits, text)


def _number_in_digits(match: re.Match[str]) -> str:
    """The digits of a number in Chinese signs, between blanks, as `re.sub` puts them in its place.

    Digits before a scale count so many of it: 二百五十 is 2 * 100 + 5 * 10.

    Args:
        match: of `_NUMBER`: its first group is the sign for percent, its second the number's signs.
    """
    signs = match[2]
    has_digit = not set(_DIGITS).isdisjoint(signs)
    before = match.string[match.start() - 1] if match.start() else ""
    if not has_digit and before.isdecimal():
        return match[0]  # the 万 of 150万 is a scale of 150, and no number of its own
    total = 0
    digit = 0
    for sign in signs:
        scale = _SCALES.get(sign)
        if scale is None:
            digit = _DIGITS[sign]
            continue
        if scale == 10000:
            # All that was read before 万 counts ten thousands; 万 alone is one of them.
            total = (total + digit or 1) * scale
        else:
            total += (digit or 1) * scale
        digit = 0
    percent = " percent" if match[1] else ""
    return f" {total + digit}{percent} "
