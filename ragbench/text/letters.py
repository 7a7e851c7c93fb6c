"""Letters as words are compared by: what carries meaning stays, what is only form goes.

Case and the width of a letter are form. A mark on a letter is not: a dakuten, a vowel sign, a tone
part words from each other. An accent goes only where the other text writes the same word without
it: "Müller" is "Muller" and "Mueller", but "Thùy" is not "Thúy".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

_NARROW_BLANKS = re.compile("(?<=\\d)[\u00a0\u2009\u202f'’](?=\\d{3}(?!\\d))")
"""Between groups of three digits; Unicode's own normal form makes plain blanks of them."""
_UNWRITTEN = re.compile("[\u0591-\u05c7\u064b-\u0652\u0670\u0640\u00ad\u200b-\u200f\u2060\ufeff]")
"""Vowel points of Hebrew and Arabic, which most texts leave out, and signs of no width."""
_SIGNS = str.maketrans(
    {"’": "'", "‘": "'", "ʼ": "'", "−": "-", "²": "^2", "³": "^3", "Ё": "Е", "ё": "е"}
)
"""Signs that are written in several ways. The normal form would make a plain 2 of "m²"."""
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe", "æ": "ae"})


def plain_letters(text: str) -> str:
    """A text in letters of one width and composition, with its case and all marks that part words.

    Two texts that look the same then are the same, and "²" or a narrow blank keeps its meaning.
    """
    if text.isascii():
        return text
    # Before the normal form, which would turn a narrow blank into a plain one, and "²" into 2.
    with_commas = _NARROW_BLANKS.sub(",", text)
    plain = with_commas.translate(_SIGNS)
    return _UNWRITTEN.sub("", unicodedata.normalize("NFKC", plain))


@lru_cache(maxsize=1 << 14)
def bare(word: str) -> str:
    """A word without the accents of its Latin and Greek letters: "Müller" is "Muller".

    Only to compare with a text that is written without accents. In other scripts a mark makes
    another word, and stays.
    """
    if word.isascii():
        return word
    letters: list[str] = []
    for letter in word:
        base = unicodedata.normalize("NFD", letter)[0]
        is_latin_or_greek = base.isascii() or "\u0370" <= base <= "\u03ff"
        if is_latin_or_greek:
            letters.append(base)
        else:
            letters.append(letter)
    # ß, ø and ł have no accent that the normal form would part off.
    return "".join(letters).replace("ß", "ss").replace("ø", "o").replace("ł", "l")


def _spelled_out(word: str) -> str:
    """A word with two letters for an umlaut: "mueller" for "müller".

    Texts without accents are often written so.
    """
    return bare(word.translate(_UMLAUTS))


def as_written(words: Iterable[str], other_words: Sequence[str]) -> tuple[str, ...]:
    """Words of a text, each in the form of another text's word that only an accent parts it from.

    So "Muller" in an answer is the "Müller" of a reference. Only where one of both is written
    without accents: two accents are two words.

    Args:
        other_words: the words of the other text.
    """
    plain_words: set[str] = set()
    accented_words: dict[str, str] = {}  # by their forms without accents
    for word in other_words:
        if word.isascii():
            plain_words.add(word)
        else:
            # Two ways to write "ü" without its accent, u and ue: both lead to the word.
            accented_words[bare(word)] = word
            accented_words[_spelled_out(word)] = word
    written: list[str] = []
    for word in words:
        # Only a word of ASCII may lack an accent; others may have one too many.
        if word.isascii():
            written.append(accented_words.get(word, word))
        elif bare(word) in plain_words:
            written.append(bare(word))
        elif _spelled_out(word) in plain_words:
            written.append(_spelled_out(word))
        else:
            written.append(word)
    return tuple(written)


def readable_text(text: str) -> str:
    """The text without NUL characters and lone surrogates, which tokenizers stop at.

    Each is replaced by one character, so that words stay apart and offsets stay those of the text.
    """
    if "\0" in text:
        text = text.replace("\0", " ")
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates
        return text.encode("utf-8", "replace").decode()
    return text
