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

_LEAST_CONFIDENCE = 0.5
"""Confidence from which on py3langid is believed."""
_WORD = re.compile(r"[^\W\d_]+")


def function_words() -> Mapping[str, str]:
    """For each language its function words, such as "the": they say little of a text's subject.

    By them a language is guessed, and words that matter are told from those that do not.
    """
    return cast("Mapping[str, str]", table("ragbench.text", "language")["function_words"])


def guess_language(text: str) -> str:
    """The language that a text is most likely in; English where nothing decides.

    Kana, Hangul, Han and Cyrillic decide by themselves (for ``ja``, ``ko``, ``zh``, ``ru``). Text
    in other letters gets the language most of whose function words it holds. Where a wrong guess
    does harm, there is `recognised_language`.
    """
    if not text.isascii():
        for language, script in _scripts_of_languages("scripts"):
            if re.search(script, text):
                return language
    # Of equals, and so without any function word, max() takes the first: English.
    counts = _function_word_counts(text)
    return max(counts, key=counts.__getitem__)


def language_of(query: str) -> str | None:
    """The language of a query, where it is recognised and not guessed; None where nothing decides.

    Its script or its function words decide; else py3langid (the extra ``onnx`` brings it), where it
    is sure. Keywords, names and numbers are of no language.
    """
    # Function words first: they tell languages of one script apart.
    recognised = recognised_language(query) or _language_by_script("other_scripts", query)
    if recognised:
        return recognised
    has_letters = any(letter.isalpha() for letter in query)
    # Without the package nothing decides; a guess would choose the wrong word lists.
    if not has_letters or find_spec("py3langid") is None:
        return None
    language, confidence = _language_identifier().classify(query)
    if confidence < _LEAST_CONFIDENCE:
        return None
    return str(language)


@lru_cache(maxsize=1)
def _language_identifier() -> Any:
    """The language model of py3langid, read once, in about half a second.

    It is read only for queries that script and function words leave open.
    """
    module: Any = require("py3langid.langid", extra="onnx")
    return module.LanguageIdentifier.from_model_file(module.MODEL_FILE, norm_probs=True)


def recognised_language(text: str) -> str | None:
    """The language of a text, where its script or its function words are clear; else None.

    None for a list of names or numbers, and where two languages are near: "die" is a word of
    several.
    """
    if not text.isascii():
        language = _language_by_script("scripts", text)
        if language:
            return language
    counts = _function_word_counts(text)
    second_most, most = sorted(counts.values())[-2:]
    if most - second_most < 2:  # one word more may be a name
        return None
    return max(counts, key=counts.__getitem__)


def differ_in_language(first: str, second: str) -> bool:
    """Whether two texts are in different languages; False unless both are recognised.

    The words of such texts cannot be compared. A comparison of words then proves nothing, and is
    not made.
    """
    first_language = recognised_language(first)
    second_language = recognised_language(second)
    # A short text is often of no known language: then words may still compare.
    if first_language is None or second_language is None:
        return False
    return first_language != second_language


def _language_by_script(section: str, text: str) -> str | None:
    """The language in whose script more than a fifth of a text is; None where there is none.

    Fewer letters may be a name in a text of another language.

    Args:
        section: of ``language.toml`` with the scripts that are looked for.
    """
    for language, script in _scripts_of_languages(section):
        letters = re.findall(script, text)
        # The share is of all characters, blanks and digits included.
        if len(letters) * 5 > len(text):
            return language
    return None


def _scripts_of_languages(section: str) -> Iterable[tuple[str, str]]:
    """The languages of a section of ``language.toml``, each with a pattern of its letters.

    Only languages that their script tells from others are there.
    """
    return cast("Mapping[str, str]", table("ragbench.text", "language")[section]).items()


def _function_word_counts(text: str) -> dict[str, int]:
    """For each language the number of a text's words that are function words in it.

    The language with the most is the likeliest.

    Args:
        text: of which a word may count for several languages.
    """
    languages_by_word = _languages_by_word()
    # Languages without a function word have 0, and are not missing.
    counts = dict.fromkeys(function_words(), 0)
    for word in _WORD.findall(normalise(text)):
        for language in languages_by_word.get(word, ()):
            counts[language] += 1
    return counts


@lru_cache(maxsize=1)
def _languages_by_word() -> dict[str, list[str]]:
    """For each function word the languages that have it: "die" is German, and Dutch.

    A text is read once this way, and not once for each language.
    """
    languages_by_word: dict[str, list[str]] = {}
    for language, words in function_words().items():
        # A set: a word counts once for a language.
        for word in set(normalise(words).split()):
            languages_by_word.setdefault(word, []).append(language)
    return languages_by_word
