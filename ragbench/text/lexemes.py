"""The pieces that a text is read by: words, numbers, signs, days, times of day and identifiers.

A piece is cut by its letters alone. What it means beside others, ``wording.py`` decides.
"""

from __future__ import annotations

import re
from functools import cache

SIGN_WORDS = {
    "€": "eur",
    "$": "usd",
    "£": "gbp",
    "%": "percent",
    "¥": "jpy",
    "₹": "inr",
    "‰": "‰",
}
"""Signs that are a unit or a currency, each with the word of it."""

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
    \d{1,3}(?:\.\d{3}){1,8},\d{1,2}(?!\d)                           # 1.234,56
    | \d{1,3}(?:\.\d{3}){2,8}(?![\d.])                              # 4.523.000
    | \d{1,2}(?:,\d{2}){1,8},\d{3}(?!\d)(?:\.\d+)?                  # 12,50,000
    | \d{1,3}(?:,\d{3}){1,8}(?![\d,]|\.\d{3}\b)(?:\.\d+)?           # 1,234.56
    | \d{1,3}(?:\ \d{3}){2,8}(?!\d)                                 # 67 000 000
    | \d+,\d{1,2}(?![\d,])                                          # 12,5
    | \d+(?:\.\d+(?!\d*:|\.\d))?                                    # 12.5
    | (?<![\w.])\.\d+                                               # .5
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
_WITH_DIGITS = rf"""
    (?P<phone> \+\d[\d\ ()/.-]{{6,20}}\d                            # +49 30 1234567
        | \(\d{{3}}\)\ ?\d{{3}}-\d{{4}}\b                           # (212) 555-0100
        | \b\d{{3}}-\d{{3}}-\d{{4}}\b                               # 212-555-0100
        | \b\d{{3}}-\d{{4}}\b                                       # 555-0100
        | \b0\d{{1,4}}[\ /-]\d[\d\ -]{{4,20}}\d\b )                 # 030 1234567
    | (?=\d) (?:
        (?P<day> \b\d{{4}}-\d{{1,2}}-\d{{1,2}}\b                    # 2024-03-12
            | \b\d{{1,2}}\.\d{{1,2}}\.\d{{4}}\b                     # 12.3.2024
            | \b\d{{1,2}}/\d{{1,2}}/\d{{4}}\b )                     # 3/12/2024
        | (?P<version>                                              # 2.10.0-rc1, but not 4.523.000
            \b(?!\d{{1,3}}(?:\.\d{{3}}){{2,8}}\b)\d+(?:\.\d+){{2,}}(?:-[a-z]\w*)? )
        | (?P<clock> \b\d{{1,2}}:\d{{2}}(?::\d{{2}})?(?![\d:]) )    # 14:30
        | (?P<ratio> \b\d+(?:\.\d+)?:\d+(?:\.\d+)?\b )              # 2:1
        | (?P<part> (?<![\w/.])\d\d?[/⁄](?:[234568]|10)(?![\w/]) )  # 3/4
    )
    | (?P<number> (?:(?<![^\s(])-(?=[\d.]))?(?:{_NUMBER}) )
    | (?P<sign> \^[23] | [/%‰$€£¥₹~≈<>≥≤-] )
"""

IDENTIFIER_KINDS = ("link", "mail", "phone", "version", "ratio")
"""Kinds of pieces that are compared letter by letter."""


class Lexeme:
    """A piece of a text. It is no tuple: one takes longer to make, and a text has hundreds."""

    __slots__ = ("end", "kind", "raw", "start", "word")

    def __init__(self, kind: str, raw: str, start: int, end: int) -> None:
        """Makes a piece of a text from a match of the pattern of all pieces.

        The word of a sign is that of its unit, so that "€" and "EUR" are one.

        Args:
            kind: the group of the pattern, which `ragbench.text.wording` reads pieces by.
            raw: the piece as it is written.
            start: where it begins in the text.
            end: the position behind it.
        """
        self.kind = kind
        """The group of the pattern that the piece matches: ``word``, ``number``, ``sign``."""
        self.raw = raw
        """The piece as the text has it."""
        # A word is in small letters at once, without a look-up: most pieces are words.
        if kind == "word":
            self.word = raw.lower()
        else:
            self.word = SIGN_WORDS.get(raw, raw.lower())
        """In small letters; a sign by its word."""
        self.start = start
        self.end = end

    def is_right_behind(self, other: Lexeme) -> bool:
        """Whether no blank parts the piece from another one before it, as the k of 5k.

        "5 k" and "5k", "3 rd" and "3rd" are read differently.
        """
        return self.start == other.end


NO_LEXEME = Lexeme("", "", -1, -1)
"""What is before the first piece of a text, and behind the last."""


def lexemes(text: str) -> list[Lexeme]:
    """The pieces of a text in their order: words, numbers, signs, days, times of day, identifiers.

    What is no piece, such as a comma, is left out. A piece is cut by its letters alone; what it
    means beside others, `ragbench.text.wording` decides.
    """
    # Most texts have no address, and the pattern without addresses is faster.
    has_addresses = "@" in text or "://" in text or "www." in text
    pattern = _pattern_of_pieces(is_ascii=text.isascii(), has_addresses=has_addresses)
    # Every group of the pattern is named, so that `lastgroup` is the kind.
    return [
        Lexeme(match.lastgroup or "", match[0], *match.span()) for match in pattern.finditer(text)
    ]


@cache
def _pattern_of_pieces(*, is_ascii: bool, has_addresses: bool) -> re.Pattern[str]:
    """The pattern of all pieces of a text: the fastest that the letters of the text allow.

    Kept for each kind of text: to compile one takes milliseconds.

    Args:
        has_addresses: whether links or mail addresses may be in the text.
    """
    addresses = _ADDRESS if has_addresses else ""
    word = _ASCII_WORD if is_ascii else _WRITTEN_WORD
    return re.compile(f"{addresses}{word} | {_WITH_DIGITS}", re.VERBOSE)
