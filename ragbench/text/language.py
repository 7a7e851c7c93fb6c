"""The language of a short text: by its script, its function words, and py3langid."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from ragbench.text.tokens import normalise

FUNCTION_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "en": """a about after all am an and any are as at be been before being but by can could
            did do does doing for from had has have he her him his how i if in into is it its many
            may me might much must my no not of on or our out shall she should so such than that
            the their them then there these they this those to up us was we were what when where
            which while who whom whose why will with would you your""",
        "de": """aber als am an auch auf aus bei bin bis da damit darf das dass dem den der des die
            doch du durch ein eine einem einen einer eines er es für gegen gibt hat habe haben ich
            ihr im in ist ja kann man mein mit muss nach nicht noch nur ob oder sein sich sie sind
            so soll über um und uns unter viel viele vom von vor wann war waren warum was welche
            welchem welchen welcher welches wem wen wenn wer werden wessen wie wieso wieviel wir
            wird wo woher wohin wurde wurden zu zum zur""",
        "fr": """à au aux avec ce ces cet cette combien comment d dans de des donc du elle elles en
            est et eu fait il ils j je l la le les leur lui ma mais mes mon n ne nous on ont ou où
            par pas pour pourquoi qu quand que quel quelle quelles quels qui quoi s sa se ses si
            son sont sur t un une vous y été était""",
        "es": """a al como cómo con cuál cuáles cuándo cuando cuánta cuántas cuánto cuántos de del
            desde dónde donde e el ella ellos en es esta este está fue ha han hay la las lo los más
            me mi no o para pero por porque que qué quién quiénes se ser si sin sobre son su sus
            también tiene un una y yo""",
        "it": """a ai al alla anche che chi ci come con cosa cui d da dal dalla dei del della delle
            di dove e è gli ha hanno i il in io l la le lo ma mi nei nel nella non o per perché più
            qual quale quali quando quanta quante quanti quanto se si sono sta su sua sul suo tra
            un una uno è""",
        "pt": """a ao aos as com como da das de do dos e é ela ele em é esta este eu foi há mais mas
            na nas no nos não o onde os ou para pela pelo por porque porquê qual quais quando quanta
            quantas quanto quantos que quem se sem ser seu sua são também tem um uma""",
        "nl": """aan als bij dan dat de die dit door een en er haar heb hebben heeft het hij hoe
            hoeveel ik in is je kan kunnen maar met mijn moet na naar niet nog of om ons ook op over
            te tot uit van veel voor waar waarom wanneer was wat we welk welke werd wie worden wordt
            ze zich zijn zij""",
    }
)
"""Words that say little of what a text is about, by language."""

# The first script found decides; kana comes before Han, because Japanese mixes both.
_SCRIPTS = (
    ("ja", r"[\u3041-\u30ff]"),
    ("ko", r"[\uac00-\ud7a3]"),
    ("zh", r"[\u4e00-\u9fff]"),
    ("ru", r"[\u0400-\u04ff]"),
)
# Scripts that name one language, or nearly: enough to know that a text is not English.
_OTHER_SCRIPTS = (
    ("ar", r"[\u0600-\u06ff]"),
    ("he", r"[\u0590-\u05ff]"),
    ("hi", r"[\u0900-\u097f]"),
    ("el", r"[\u0370-\u03ff]"),
    ("th", r"[\u0e00-\u0e7f]"),
)
_SURE = 0.5
"""Confidence from which on py3langid is believed."""
_WORD = re.compile(r"[^\W\d_]+")


def guess_language(text: str) -> str:
    """Guesses the language of a text.

    Kana, Hangul, Han and Cyrillic decide by themselves (for ``ja``, ``ko``, ``zh``, ``ru``).
    Text in other letters gets the language most of whose function words it holds.
    """
    if not text.isascii():
        for language, script in _SCRIPTS:
            if re.search(script, text):
                return language
    # max() takes the first of equals: English.
    counts = _function_words(text)
    return max(counts, key=counts.__getitem__)


def language_of(query: str) -> str | None:
    """The language of a query, where it can be told: never a guess.

    Its script or its function words tell; else py3langid (the extra ``onnx`` brings it), where it
    is sure. Keywords, names and numbers are of no language.

    None when nothing tells.
    """
    told = tell_language(query)
    if told is not None:
        return told
    for language, script in _OTHER_SCRIPTS:
        if len(re.findall(script, query)) * 5 > len(query):
            return language
    if find_spec("py3langid") is None or not any(letter.isalpha() for letter in query):
        return None
    language, confidence = _identifier().classify(query)
    return str(language) if confidence >= _SURE else None


@lru_cache(maxsize=1)
def _identifier() -> Any:
    """Read once, in about half a second: only for queries that script and words leave open."""
    module = import_module("py3langid.langid")
    return module.LanguageIdentifier.from_model_file(module.MODEL_FILE, norm_probs=True)


def tell_language(text: str, *, least: int = 2) -> str | None:
    """The language of a text, where its script or its words really tell.

    None when nothing tells, as for a list of names or numbers.
    """
    if not text.isascii():
        for language, script in _SCRIPTS:
            if len(re.findall(script, text)) * 5 > len(text):
                return language
    counts = _function_words(text)
    second, first = sorted(counts.values())[-2:]
    if first < least or first - second < min(least, 2):
        return None
    return max(counts, key=counts.__getitem__)


def _function_words(text: str) -> dict[str, int]:
    counts = dict.fromkeys(FUNCTION_WORDS, 0)
    known = _languages()
    for word in _WORD.findall(normalise(text)):
        for language in known.get(word, ()):
            counts[language] += 1
    return counts


@lru_cache(maxsize=1)
def _languages() -> dict[str, tuple[str, ...]]:
    words = {word for known in _known().values() for word in known}
    return {
        word: tuple(name for name, known in _known().items() if word in known) for word in words
    }


@lru_cache(maxsize=1)
def _known() -> dict[str, frozenset[str]]:
    return {
        language: frozenset(normalise(words).split()) for language, words in FUNCTION_WORDS.items()
    }
