"""Where a quotation stands, and whether it is long enough to prove anything."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ragbench.text.sentences import Span
from ragbench.text.tokens import is_spaceless, multilingual_tokens


class QuotePlace(NamedTuple):
    text: int
    """Position of the text, from 0."""
    span: Span
    """In that text as it is; from the first of its parts to the last, where words are left out."""


_SAME = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′ʼ`´", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
    }
)
_TRIMMED = " \"'.,;:…"
_FEWEST_LETTERS = 2


def locate_quote(quote: str, text: str) -> Span | None:
    """Finds a quotation in a text.

    Both are compared in Unicode NFKD, casefolded, with runs of white space as one space, invisible
    characters left out, and one form of quotation marks and dashes. Nothing else may differ, and no
    number may be cut. Marks at the ends of the quotation do not count.

    None when it does not stand there, or says nothing.
    """
    wanted = _normalised(quote)[0].strip(_TRIMMED)
    if sum(letter.isalnum() for letter in wanted) < _FEWEST_LETTERS:
        return None
    normal, starts, ends = _normalised(text)
    at = normal.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        # A quotation never begins or ends in the middle of a number: 199 is none of 1995.
        edges = (normal[at - 1 : at + 1] if at else "", normal[end - 1 : end + 1])
        if not any(len(edge) == 2 and edge[0].isdigit() and edge[1].isdigit() for edge in edges):
            return Span(starts[at], ends[end - 1])
        at = normal.find(wanted, at + 1)
    return None


# The contexts of a case are searched for each of its quotations.
@lru_cache(maxsize=64)
def _normalised(text: str) -> tuple[str, list[int], list[int]]:
    """The normal form, and for each of its characters where in the text its origin starts, ends."""
    letters: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    at = 0
    while at < len(text):
        end = at + 1
        # Marks belong to the letter before them: their order is normalised with it.
        while end < len(text) and unicodedata.combining(text[end]):
            end += 1
        for letter in _forms(text[at:end]):
            if letter == " " and letters and letters[-1] == " ":
                ends[-1] = end
                continue
            letters.append(letter)
            starts.append(at)
            ends.append(end)
        at = end
    return "".join(letters), starts, ends


def _forms(cluster: str) -> str:
    if cluster.isspace():
        return " "
    if unicodedata.category(cluster[0]) in ("Cf", "Cc"):
        return ""
    plain = unicodedata.normalize("NFKD", cluster).translate(_SAME)
    folded = unicodedata.normalize("NFKD", plain.casefold()).translate(_SAME)
    return " ".join(folded.split()) if any(map(str.isspace, folded)) else folded


_OMITTED = re.compile(r"\s*(?:\[\s*(?:\.\.\.|…)\s*\]|\(\s*(?:\.\.\.|…)\s*\)|\.\.\.|…)\s*")
_FEWEST_WORDS = 2


def find_quote(quote: str, texts: Sequence[str]) -> QuotePlace | None:
    """Finds a quotation in the first of some texts that holds it.

    Compared as by `locate_quote`. Where words are left out (``...``, ``[...]``), all parts must
    stand in the same text, in their order.

    None when none of them holds it, or it says nothing.
    """
    parts = [part for part in _OMITTED.split(quote) if any(map(str.isalnum, part))]
    for position, text in enumerate(texts):
        found: list[Span] = []
        for part in parts:
            at = found[-1].end if found else 0
            span = locate_quote(part, text[at:])
            if span is None:
                break
            found.append(Span(span.start + at, span.end + at))
        if found and len(found) == len(parts):
            return QuotePlace(position, Span(found[0].start, found[-1].end))
    return None


def says_enough(quote: str, text: str) -> bool:
    """Whether a quotation is long enough to prove something: a word alone stands anywhere.

    Returns:
        True from two words on, articles not counted; in scripts without spaces from four characters
    """
    return _words(quote) >= _FEWEST_WORDS or _words(quote) == _words(text) > 0


def _words(text: str) -> float:
    return sum(0.5 if is_spaceless(token) else 1.0 for token in multilingual_tokens(text))
