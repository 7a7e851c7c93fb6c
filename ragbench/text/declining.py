"""Whether a text declines to answer: the whole of it, or a part.

A text is taken sentence by sentence. It declines when one sentence says that there is no answer
and every other one only goes with that: an apology, an offer of help, advice to ask somebody else,
what the sources speak of instead. A sentence that none of the rules know is an answer, and so is
one that goes on behind a "but". The rules of seventeen languages are in ``declining.toml``.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from typing import NamedTuple

from ragbench.text.citations import without_citations
from ragbench.text.sentences import split_sentences
from ragbench.text.tables import Patterns, expression, table
from ragbench.text.thoughts import behind_thoughts

RULES = 8
"""Raised whenever another text than before counts as declined: scores of other rules do not
compare."""


class Reading(NamedTuple):
    """How an answer reads."""

    declines: bool
    """The whole of it says that there is no answer."""
    in_part: bool
    """A sentence says so, and others answer all the same."""


_ANSWERS = Reading(declines=False, in_part=False)
_LONGEST, _MOST = 600, 6
"""Characters and sentences: a longer text says more than that it has no answer."""
_CITED = 4 * _LONGEST
"""Characters with the citations, which are left out."""


@lru_cache(maxsize=4096)
def read_answer(text: str) -> Reading:
    text = behind_thoughts(text)  # what a model thinks is not what it answers
    if not text.strip(_EDGES):
        return Reading(declines=True, in_part=False)
    folded = text[:_LONGEST].casefold()
    for word, rule in _cues():
        if word in folded and (rule is None or rule.search(folded)):
            break
    else:
        return _ANSWERS
    text = text.strip()
    said = without_citations(text[:_CITED]).translate(_EMPHASIS)
    kinds = [_kind(part) for part in _parts(said[:_LONGEST])]
    core = _DECLINES in kinds
    is_short = len(said) <= _LONGEST and len(text) <= _CITED
    whole = core and is_short and None not in kinds and len(kinds) <= _MOST
    return Reading(declines=whole, in_part=core and not whole)


@cache
def _cues() -> tuple[tuple[str, re.Pattern[str] | None], ...]:
    """Words of which every text that declines holds one; and how, where as a whole word alone.

    To look for each is a tenth of the work of one expression that begins with any of them.
    """
    rules = "|".join(table("ragbench.text", "declining")["cue"]).replace("n['’]t", "n't|n’t")
    return tuple(
        (rule.replace(r"\b", ""), re.compile(rule) if r"\b" in rule else None)
        for rule in rules.split("|")
    )


_DECLINES, _GOES_WITH = "declines", "goes with it"


def _parts(text: str) -> list[str]:
    """Its sentences, and what stands between semicolons, each in the form that the rules know."""
    plain = unicodedata.normalize("NFKC", text).translate(_APOSTROPHES)
    sentences = (plain[one.start : one.end].casefold() for one in split_sentences(plain))
    parts = (part for sentence in sentences for part in re.split(r"[;\n]|(?<=。)", sentence))
    stripped = (" ".join(part.split()).strip(_EDGES) for part in parts)
    return [part for part in stripped if part]


def _kind(part: str) -> str | None:
    rest = _rules("opens").sub("", part)
    if _rules("declines").fullmatch(rest) and not _SIGNS["but"].search(rest):
        return _DECLINES
    return _GOES_WITH if not rest or _rules("goes_with").fullmatch(rest) else None


@cache
def _rules(kind: str) -> re.Pattern[str]:
    """The rules of all languages; compiled when an answer first needs them: 0.2 s."""
    known = table("ragbench.text", "declining")
    found = "|".join(
        f"(?:{expression(rule, language)})"
        for language in known["languages"].values()
        for rule in language.get(kind, ())
    )
    # What may come before an answer may come several times.
    return re.compile(f"^(?:(?:{found}){known['behind_opening']})+" if kind == "opens" else found)


_EMPHASIS = str.maketrans({"*": None, "_": None})
_EDGES = " \t\r\n.!。।…\"'“”«»()[]{}*_#>-"
_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "`": "'"})
_SIGNS = Patterns("ragbench.text", "declining")
