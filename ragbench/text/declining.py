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
from ragbench.text.tables import Patterns, regex_text, table
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
    opens: bool = False
    """Its first statement says so, whatever follows."""


_ANSWERS = Reading(declines=False, in_part=False)
_LONGEST = 600
_MOST_SENTENCES = 6
"""Characters and sentences: a longer text says more than that it has no answer."""
_LONGEST_CITED = 4 * _LONGEST
"""Characters with the citations, which are left out."""


@lru_cache(maxsize=4096)
def read_answer(text: str) -> Reading:
    """Whether an answer declines, as a whole or in part."""
    text = behind_thoughts(text)  # what a model thinks is not what it answers
    if not text.strip(_EDGES):
        return Reading(declines=True, in_part=False, opens=True)
    folded = text[:_LONGEST].casefold()
    # Most answers have no word that speaks of declining, and are read no further.
    for word, rule in _cues():
        if word in folded and (rule is None or rule.search(folded)):
            break
    else:
        return _ANSWERS
    text = text.strip()
    plain = without_citations(text[:_LONGEST_CITED]).translate(_EMPHASIS)
    kinds = [_kind(part) for part in _parts(plain[:_LONGEST])]
    if _DECLINES not in kinds:
        return _ANSWERS
    is_short = len(plain) <= _LONGEST and len(text) <= _LONGEST_CITED
    answers_nothing = None not in kinds
    declines = is_short and answers_nothing and len(kinds) <= _MOST_SENTENCES
    statements = [kind for kind in kinds if kind != _GOES_WITH]
    return Reading(declines=declines, in_part=not declines, opens=statements[0] == _DECLINES)


@cache
def _cues() -> tuple[tuple[str, re.Pattern[str] | None], ...]:
    """Words of which every text that declines holds one; and how, where as a whole word alone.

    To look for each is a tenth of the work of one expression that begins with any of them.
    """
    rules = "|".join(table("ragbench.text", "declining")["cue"]).replace("n['’]t", "n't|n’t")
    cues: list[tuple[str, re.Pattern[str] | None]] = []
    for rule in rules.split("|"):
        is_whole_word = r"\b" in rule
        cues.append((rule.replace(r"\b", ""), re.compile(rule) if is_whole_word else None))
    return tuple(cues)


_DECLINES = "declines"
_GOES_WITH = "goes with it"


def _parts(text: str) -> list[str]:
    """Its sentences, and what stands between semicolons, each in the form that the rules know."""
    plain = unicodedata.normalize("NFKC", text).translate(_APOSTROPHES)
    parts: list[str] = []
    for span in split_sentences(plain):
        sentence = plain[span.start : span.end].casefold()
        for part in re.split(r"[;\n]|(?<=。)", sentence):
            stripped = " ".join(part.split()).strip(_EDGES)
            if stripped:
                parts.append(stripped)
    return parts


def _kind(part: str) -> str | None:
    """Whether a part declines, or only goes with that; None where it answers."""
    core = _rules("opens").sub("", part)  # without "I'm sorry, but" and its like
    if _rules("declines").fullmatch(core) and not _SIGNS["but"].search(core):
        return _DECLINES
    if not core or _rules("goes_with").fullmatch(core):
        return _GOES_WITH
    return None


@cache
def _rules(kind: str) -> re.Pattern[str]:
    """The rules of all languages; compiled when an answer first needs them: 0.2 s."""
    file = table("ragbench.text", "declining")
    rules: list[str] = []
    for language in file["languages"].values():
        for rule in language.get(kind, ()):
            rules.append(f"(?:{regex_text(rule, language)})")
    pattern = "|".join(rules)
    if kind == "opens":  # what may come before an answer may come several times
        pattern = f"^(?:(?:{pattern}){file['behind_opening']})+"
    return re.compile(pattern)


_EMPHASIS = str.maketrans({"*": None, "_": None})
_EDGES = " \t\r\n.!。।…\"'“”«»()[]{}*_#>-"
_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "`": "'"})
_SIGNS = Patterns("ragbench.text", "declining")
