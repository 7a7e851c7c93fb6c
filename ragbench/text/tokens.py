"""Tokens for matching and for comparing answers.

Two normalisations:

- ``squad``: exactly what SQuAD's official evaluation script does: lower case, the 32 punctuation
  characters of ASCII removed, the English articles removed, split at white space.
- ``multilingual``: the same for ASCII texts. Otherwise in NFKC, all Unicode punctuation removed,
  and each character of a script that is written without spaces is a token of its own, after MLQA
  (Lewis et al. 2020, arXiv:1910.07475). In Chinese this gives the usual character F1.

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
import string
import threading
import unicodedata
from functools import lru_cache
from itertools import pairwise

_ARTICLES = frozenset({"a", "an", "the"})
_ARTICLE = re.compile(r"\b(a|an|the)\b", re.UNICODE)
_ASCII_PUNCTUATION = dict.fromkeys(map(ord, string.punctuation))
_PUNCTUATION = string.punctuation.encode()
_SPACELESS = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Burmese
    "\u1780-\u17ff"  # Khmer
    "\u3005\u3007\u3040-\u30ff\u31f0-\u31ff"  # Japanese kana, iteration mark, zero
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U00020000-\U0003ffff"  # Han, supplementary planes
)
# Patterns with wide ranges take milliseconds to compile: re does it once, when they are first used.
_TOKEN = rf"[{_SPACELESS}]|[^\s{_SPACELESS}]+"
_SPACELESS_LETTER = f"[{_SPACELESS}]"


def is_spaceless(text: str) -> bool:
    """Whether a text begins with a letter of a script that is written without spaces.

    Words cannot be counted there; characters can.
    """
    return re.match(_SPACELESS_LETTER, text) is not None


@lru_cache(maxsize=4096)
def multilingual_tokens(text: str) -> tuple[str, ...]:
    """The tokens by which answers of any script compare; empty where a text is punctuation alone.

    For ASCII texts those of SQuAD's script. Metrics such as ``token_f1`` are counted in them:
    another result for any text needs higher versions of these.
    """
    if text.isascii():
        # Bytes are translated three times as fast as texts.
        words = text.encode().lower().translate(None, _PUNCTUATION).decode().split()
    else:
        plain = unicodedata.normalize("NFKC", text).lower()
        letters = "".join([char for char in plain if not _is_punctuation(char)])
        words = re.findall(_TOKEN, letters)
    if _ARTICLES.isdisjoint(words):
        return tuple(words)
    return tuple([word for word in words if word not in _ARTICLES])


@lru_cache(maxsize=4096)
def squad_tokens(text: str) -> tuple[str, ...]:
    """The tokens of a text exactly as in SQuAD's evaluation script, version 2.0.

    For figures that must be those of published results: nothing here may be improved.
    """
    plain = text.lower().translate(_ASCII_PUNCTUATION)
    return tuple(_ARTICLE.sub(" ", plain).split())


@lru_cache(maxsize=4096)
def _is_punctuation(char: str) -> bool:
    """Whether a character is a mark, which no token has.

    Marks are those of Unicode's kinds, and signs such as $ that SQuAD's script removes.
    """
    return char in string.punctuation or unicodedata.category(char).startswith("P")


TOKENISER_VERSION = "2"
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
_NEEDS_CARE = rf"[{_UNSPACED}{_MARKS}]"


def _run_pattern(letters: str) -> str:
    """A pattern for runs of letters and digits, with what joins numbers and codes, such as "3.14".

    A run begins with a letter or digit, never with a mark. No group is repeated possessively:
    Python before 3.11.5 leaves its last letter out (CPython gh-106052). Nothing follows the last
    group, so that it is never tried again. Another pattern gives other tokens: see
    `TOKENISER_VERSION`.

    Args:
        letters: the pattern of letters within a run.
    """
    return rf"(?=[^\W_]){letters}(?:(?:[-_/]|(?<=\d)[.:,](?=\d)){letters})*"


_PLAIN = _run_pattern(r"[^\W_]++")
# The same for lower-case ASCII, in two thirds of the time.
_ASCII = re.compile(_run_pattern("[a-z0-9]++").removeprefix(r"(?=[^\W_])"))
_CAREFUL = rf"[{_UNSPACED}]++|" + _run_pattern(rf"(?:[^\W_{_UNSPACED}]++|[{_MARKS}]++)+")
_UNSPACED_START = rf"[{_UNSPACED}]"
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+")
"""A number with commas between groups of three digits."""
_DIGIT = re.compile(r"\d")
_JOINT = re.compile(r"[-_/]")
"""What joins words, which are then tokens of their own."""


def normalise(text: str) -> str:
    """A text in Unicode NFKC and casefolded, so that "Ｃafé" and "CAFÉ" give the same tokens.

    Its length may change: offsets in it are not those of the text. Indexes on disk hold the tokens:
    see `TOKENISER_VERSION`.
    """
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", text).casefold()


def tokenise(text: str) -> list[str]:
    """The tokens by which texts are searched and compared, in their order, English endings removed.

    Indexes on disk hold these tokens: another result for any text needs another
    `TOKENISER_VERSION`.
    """
    if text.isascii() and text.isalpha():  # one word, as most calls have
        return [*_tokens_of_run(text.lower())]
    normal = normalise(text)
    tokens: list[str] = []
    for run in _pattern_of_runs(normal).findall(normal):
        tokens += _tokens_of_run(run)
    return tokens


def chunk_tokens(text: str, title: object, title_weight: int) -> list[str]:
    """The tokens that a chunk is found by: those of its title so many times, and those of its text.

    A word of the title says more of the subject than one of the text.

    Args:
        title: from the metadata of the chunk, which may hold anything.
        title_weight: how often the title counts; 0 leaves it out.
    """
    text_tokens = tokenise(text)
    if not title_weight or not isinstance(title, str):
        return text_tokens
    return tokenise(title) * title_weight + text_tokens


def _pattern_of_runs(normal: str) -> re.Pattern[str]:
    """The pattern that cuts a text into runs of letters and digits.

    The fastest of three that the letters of the text allow: all of them give the same runs for it.

    Args:
        normal: the text as `normalise` gives it.
    """
    if normal.isascii():
        return _ASCII
    # These two take milliseconds to compile: that waits for a text that needs them; `re` keeps
    # both.
    if re.search(_NEEDS_CARE, normal):
        return re.compile(_CAREFUL)
    return re.compile(_PLAIN)


# Most runs are words that come again and again.
@lru_cache(maxsize=1 << 17)
def _tokens_of_run(run: str) -> tuple[str, ...]:
    """The tokens of one run of letters and digits: one, or several in a script without spaces.

    Indexes on disk hold these tokens: see `TOKENISER_VERSION`.
    """
    # An English word, as most runs are.
    if run.isalpha() and run.isascii():
        return (_stem_of_word(run),)
    # A script without spaces: overlapping pairs of characters, or a character that is alone.
    if re.match(_UNSPACED_START, run):
        if len(run) == 1:
            return (run,)
        return tuple(map("".join, pairwise(run)))
    if _GROUPED.fullmatch(run):
        return (run.replace(",", ""),)
    # A number, a date or a code stays whole.
    if _DIGIT.search(run):
        return (run,)
    return tuple(map(_stem_of_word, _JOINT.split(run)))


# A stemmer keeps a buffer of its own, so each thread has one.
_local = threading.local()


def _stem_of_word(word: str) -> str:
    """A word of English letters without its ending, by Snowball's stemmer; any other one as it is.

    "pay" and "paying" then are one token, and find each other. Indexes on disk hold the tokens: see
    `TOKENISER_VERSION`.
    """
    # Casefolded already: such a word is of the letters a to z.
    is_english = len(word) > 2 and word.isascii() and word.isalpha()
    if not is_english:
        return word
    if not hasattr(_local, "stemmer"):
        # By name, because the package has no types.
        _local.stemmer = importlib.import_module("Stemmer").Stemmer("english")
        # The stemmer's cache costs more than stemming does; `_tokens_of_run` has a cache.
        _local.stemmer.maxCacheSize = 0
    return str(_local.stemmer.stemWord(word))
