"""Texts as tokens, for comparing answers.

Two normalisations:

- ``squad``: exactly what SQuAD's official evaluation script does: lower case, the 32 punctuation
  characters of ASCII removed, the English articles removed, split at white space.
- ``multilingual``: the same for ASCII texts. Otherwise in NFKC, all Unicode punctuation removed,
  and each character of a script that is written without spaces is a token of its own, after MLQA
  (Lewis et al. 2020, arXiv:1910.07475). In Chinese this gives the usual character F1.
"""

from __future__ import annotations

import re
import string
import unicodedata
from functools import lru_cache

__all__ = ["multilingual_tokens", "squad_tokens"]

_ARTICLES = frozenset({"a", "an", "the"})
_ARTICLE = re.compile(r"\b(a|an|the)\b", re.UNICODE)
_ASCII_PUNCTUATION = dict.fromkeys(map(ord, string.punctuation))
_SPACELESS = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Burmese
    "\u1780-\u17ff"  # Khmer
    "\u3005\u3007\u3040-\u30ff\u31f0-\u31ff"  # Japanese kana, iteration mark, zero
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U00020000-\U0003ffff"  # Han, supplementary planes
)
_TOKEN = re.compile(rf"[{_SPACELESS}]|[^\s{_SPACELESS}]+")


@lru_cache(maxsize=4096)
def multilingual_tokens(text: str) -> tuple[str, ...]:
    """The tokens of a text in any script; empty when it holds nothing but punctuation."""
    if text.isascii():
        words = text.lower().translate(_ASCII_PUNCTUATION).split()
    else:
        plain = unicodedata.normalize("NFKC", text).lower()
        words = _TOKEN.findall("".join([char for char in plain if not _is_punctuation(char)]))
    return tuple([word for word in words if word not in _ARTICLES])


@lru_cache(maxsize=4096)
def squad_tokens(text: str) -> tuple[str, ...]:
    """The tokens of a text as in SQuAD's evaluation script, version 2.0."""
    plain = text.lower().translate(_ASCII_PUNCTUATION)
    return tuple(_ARTICLE.sub(" ", plain).split())


@lru_cache(maxsize=4096)
def _is_punctuation(char: str) -> bool:
    return char in string.punctuation or unicodedata.category(char).startswith("P")
