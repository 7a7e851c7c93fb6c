"""Tokens for lexical matching, in any language and without a model.

The text is normalised by Unicode NFKC and casefolded, then cut by script:

- Words are runs of letters with their combining marks. An apostrophe or a hyphen ends a word.
- Numbers, dates and codes stay whole: ``3.14``, ``12:30``, ``2024-05-01``, ``err-4021``,
  ``v2.3.1``. Commas between groups of three digits are dropped: ``1,000`` gives ``1000``.
- Scripts written without spaces, and Korean, become overlapping pairs of characters; a character
  that stands alone is a token. Such text can so be searched without a dictionary.

English endings are removed from words of plain ASCII letters by the Snowball stemmer
(https://snowballstem.org/algorithms/english/stemmer.html). Words of other languages in those
letters go through it as well: query and text are treated alike, so little is lost.
"""

from __future__ import annotations

import importlib
import re
import threading
import unicodedata
from functools import lru_cache
from itertools import pairwise
from typing import Protocol

__all__ = ["TOKENISER_VERSION", "normalise", "tokenise"]

TOKENISER_VERSION = "1"
"""Changes whenever the same text gives other tokens."""

# Kana, Han, Hangul; Thai, Lao, Myanmar and Khmer.
_UNSPACED = (
    "\u3005\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
    "\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u1049\u1050-\u109d\u1780-\u17d3"
)
# Marks that belong to the letter before them, and the Indic blocks where marks and letters mix.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a"
    "\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"
    "\u0900-\u0963\u0966-\u0dff"
)
_NEEDS_CARE = re.compile(rf"[{_UNSPACED}{_MARKS}]")


def _run_of(letters: str) -> str:
    """A pattern for runs of letters and digits, with what joins numbers and codes.

    A run begins with a letter or digit, never with a mark.
    """
    return rf"(?=[^\W_]){letters}(?:(?:[-_/]|(?<=\d)[.:,](?=\d)){letters})*+"


_PLAIN = re.compile(_run_of(r"[^\W_]++"))
# The same for lower-case ASCII, in two thirds of the time.
_ASCII = re.compile(_run_of("[a-z0-9]++").removeprefix(r"(?=[^\W_])"))
_CAREFUL = re.compile(rf"[{_UNSPACED}]++|" + _run_of(rf"(?:[^\W_{_UNSPACED}]++|[{_MARKS}]++)++"))
_UNSPACED_START = re.compile(rf"[{_UNSPACED}]")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+")
_DIGIT = re.compile(r"\d")
_JOINT = re.compile(r"[-_/]")


def normalise(text: str) -> str:
    """The text in Unicode NFKC and casefolded; its length may change."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", text).casefold()


def tokenise(text: str) -> list[str]:
    """Cuts a text into tokens.

    Args:
        text: anything, also the empty string.

    Returns:
        The tokens in reading order, repeated ones included.
    """
    if text.isascii() and text.isalpha():
        return [*_tokens_of(text.lower())]
    normal = normalise(text)
    return [token for run in _runs(normal).findall(normal) for token in _tokens_of(run)]


def _runs(normal: str) -> re.Pattern[str]:
    if normal.isascii():
        return _ASCII
    return _CAREFUL if _NEEDS_CARE.search(normal) else _PLAIN


# Most runs are words that come again and again.
@lru_cache(maxsize=1 << 17)
def _tokens_of(run: str) -> tuple[str, ...]:
    """What one run of characters gives: one token, or several."""
    if run.isalpha() and run.isascii():
        return (_stem(run),)
    if _UNSPACED_START.match(run):
        return (run,) if len(run) == 1 else tuple(map("".join, pairwise(run)))
    if _GROUPED.fullmatch(run):
        return (run.replace(",", ""),)
    if _DIGIT.search(run):
        return (run,)
    return tuple(map(_stem, _JOINT.split(run)))


class _Stemmer(Protocol):
    maxCacheSize: int

    def stemWord(self, word: str, /) -> str: ...


# A stemmer keeps a buffer of its own, so each thread has one.
_local = threading.local()


def _stem(word: str) -> str:
    # Casefolded already: such a word is of the letters a to z.
    english = len(word) > 2 and word.isascii() and word.isalpha()
    return _stemmer().stemWord(word) if english else word


def _stemmer() -> _Stemmer:
    known: _Stemmer | None = getattr(_local, "stemmer", None)
    if known is not None:
        return known
    # By name, because the package has no types.
    stemmer: _Stemmer = importlib.import_module("Stemmer").Stemmer("english")
    # Its own cache costs more than stemming does; `_tokens_of` has one.
    stemmer.maxCacheSize = 0
    _local.stemmer = stemmer
    return stemmer
