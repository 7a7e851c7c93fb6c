"""Texts of users as something that a terminal or a page can show without doing what they say."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["one_line"]

_ACTING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Letters that move the cursor, turn the direction of writing, are invisible, or are half of one.

Source: Unicode 15, general categories Cc, Cf and Cs; UAX 9 (directional formatting); Boucher &
Anderson 2021, "Trojan Source", arXiv:2111.00169.
"""
_JOINERS = "\u200c\u200d"
"""Persian, Hindi and emoji are written with these."""


def one_line(text: str, *, longest: int | None = None) -> str:
    """A text on one line, in which no letter acts: what would is spelled by its number.

    Args:
        text: anything.
        longest: letters that are kept of it.
    """
    line = " ".join(text.split())
    if longest is not None and len(line) > longest:
        line = f"{line[:longest].rstrip()} ..."
    return _ACTING.sub(_spelled, line)


def _spelled(found: re.Match[str]) -> str:
    letter = found[0]
    before = found.string[found.start() - 1 : found.start()]
    # Between letters they join; anywhere else they hide.
    if letter in _JOINERS and before and unicodedata.category(before)[0] in "LMS":
        return letter
    return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else f"\\U{ord(letter):08x}"
