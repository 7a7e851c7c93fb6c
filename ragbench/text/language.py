"""The language of a short text: by its script, its function words, and py3langid."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, cast

from ragbench.plugins import require
from ragbench.text.tables import table
from ragbench.text.tokens import normalise

_SURE = 0.5
"""Confidence from which on py3langid is believed."""
_WORD = re.compile(r"[^\W\d_]+")


def function_words() -> Mapping[str, str]:
    """Words that say little of what a text is about, by language."""
    return cast("Mapping[str, str]", table("ragbench.text", "language")["function_words"])


def guess_language(text: str) -> str:
    """Guesses the language of a text.

    Kana, Hangul, Han and Cyrillic decide by themselves (for ``ja``, ``ko``, ``zh``, ``ru``).
    Text in other letters gets the language most of whose function words it holds.
    """
    if not text.isascii():
        for language, script in _scripts("scripts"):
            if re.search(script, text):
                return language
    # max() takes the first of equals: English.
    counts = _counted(text)
    return max(counts, key=counts.__getitem__)


def language_of(query: str) -> str | None:
    """The language of a query, where it is recognised: never a guess.

    Its script or its function words decide; else py3langid (the extra ``onnx`` brings it), where it
    is sure. Keywords, names and numbers are of no language.

    None where nothing decides.
    """
    if found := recognised_language(query) or _by_script("other_scripts", query):
        return found
    if find_spec("py3langid") is None or not any(letter.isalpha() for letter in query):
        return None
    language, confidence = _identifier().classify(query)
    return str(language) if confidence >= _SURE else None


@lru_cache(maxsize=1)
def _identifier() -> Any:
    """Read once, in about half a second: only for queries that script and words leave open."""
    module: Any = require("py3langid.langid", extra="onnx")
    return module.LanguageIdentifier.from_model_file(module.MODEL_FILE, norm_probs=True)


def recognised_language(text: str) -> str | None:
    """The language of a text, where its script or its words are clear.

    None where nothing decides, as for a list of names or numbers.
    """
    if not text.isascii() and (found := _by_script("scripts", text)):
        return found
    counts = _counted(text)
    second, first = sorted(counts.values())[-2:]
    if first - second < 2:
        return None
    return max(counts, key=counts.__getitem__)


def _by_script(section: str, text: str) -> str | None:
    """The language in whose script more than a fifth of a text is."""
    scripts = _scripts(section)
    found = (name for name, script in scripts if len(re.findall(script, text)) * 5 > len(text))
    return next(found, None)


def _scripts(section: str) -> Iterable[tuple[str, str]]:
    return cast("Mapping[str, str]", table("ragbench.text", "language")[section]).items()


def _counted(text: str) -> dict[str, int]:
    known = _languages()
    counts = dict.fromkeys(known[""], 0)
    for word in _WORD.findall(normalise(text)):
        for language in known.get(word, ()):
            counts[language] += 1
    return counts


@lru_cache(maxsize=1)
def _languages() -> dict[str, tuple[str, ...]]:
    """The languages that a word says little in; under the empty word all that are known."""
    known = {name: set(normalise(words).split()) for name, words in function_words().items()}
    every = {"", *(word for words in known.values() for word in words)}
    return {
        word: tuple(name for name, words in known.items() if not word or word in words)
        for word in every
    }
