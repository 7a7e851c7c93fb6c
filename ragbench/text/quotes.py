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
    """Where a quotation stands among some texts."""

    text: int
    """Position of the text, from 0."""
    span: Span
    """In that text as it is; from the first of its parts to the last, where words are left out."""


_ONE_FORM = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′ʼ`´", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
    }
)
_TRIMMED = " \"'.,;:…"
"""Marks at the ends of a quotation, which a model adds or leaves out."""
_FEWEST_LETTERS = 2
"""Letters and digits of a quotation that says anything."""


def locate_quote(quote: str, text: str) -> Span | None:
    """The place of a quotation in a text; None where the text does not hold it, or it says nothing.

    A model that quotes changes marks and spaces, and must change nothing else. So both are compared
    in Unicode NFKD, casefolded, with runs of white space as one space, invisible characters left
    out, and one form of quotation marks and dashes. Marks at the ends of the quotation do not
    count. No number may be cut.
    """
    normal_quote, _, _ = _normalised_with_offsets(quote)
    normal_quote = normal_quote.strip(_TRIMMED)
    # A quote of a few letters is in any text, and proves nothing.
    letters = sum(map(str.isalnum, normal_quote))
    if letters < _FEWEST_LETTERS:
        return None
    normal_text, starts, ends = _normalised_with_offsets(text)
    start = normal_text.find(normal_quote)
    while start >= 0:
        end = start + len(normal_quote)
        cuts_number = _cuts_number(normal_text, start) or _cuts_number(normal_text, end)
        if not cuts_number:
            # The last letter's own end: one letter of the text may be several after NFKD.
            return Span(starts[start], ends[end - 1])
        # From the next letter on: the quote may be there again, with no number cut.
        start = normal_text.find(normal_quote, start + 1)
    return None


def _cuts_number(text: str, position: int) -> bool:
    """Whether a cut before a position goes through a number: 199 is no quotation of 1995.

    A quotation with a part of a number proves another number.

    Args:
        text: in which the quotation was found.
        position: where the quotation begins, or behind its end.
    """
    if not 0 < position < len(text):
        return False
    return text[position - 1].isdigit() and text[position].isdigit()


# The contexts of a case are searched for each of its quotations.
@lru_cache(maxsize=64)
def _normalised_with_offsets(text: str) -> tuple[str, list[int], list[int]]:
    """A text in the form in which quotations compare, with the way back to its own offsets.

    A quotation is found in the normal form and shown in the text itself. Remembered, since the
    contexts of a case are searched for each of its quotations.

    Returns:
        The normal form; and for each of its characters where its origin in the text starts, and
        ends.
    """
    letters: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    start = 0
    while start < len(text):
        end = start + 1
        # Combining marks are taken with the letter before them: their order is normalised with it.
        while end < len(text) and unicodedata.combining(text[end]):
            end += 1
        for letter in _normal_form(text[start:end]):
            if letter == " " and letters and letters[-1] == " ":
                ends[-1] = end  # a run of white space is one space
                continue
            letters.append(letter)
            starts.append(start)
            ends.append(end)
        start = end
    return "".join(letters), starts, ends


def _normal_form(cluster: str) -> str:
    """A letter with its marks in the form in which quotations compare; empty where it is invisible.

    The form may be of several characters ("ﬁ" is "fi"), or one space for any white space.

    Args:
        cluster: the letter with the marks on it.
    """
    if cluster.isspace():
        return " "
    if unicodedata.category(cluster[0]) in ("Cf", "Cc"):
        return ""
    plain = unicodedata.normalize("NFKD", cluster).translate(_ONE_FORM)
    # To fold case may give letters that are not in normal form again.
    folded = unicodedata.normalize("NFKD", plain.casefold()).translate(_ONE_FORM)
    if any(map(str.isspace, folded)):
        return " ".join(folded.split())
    return folded


_OMITTED = re.compile(r"\s*(?:\[\s*(?:\.\.\.|…)\s*\]|\(\s*(?:\.\.\.|…)\s*\)|\.\.\.|…)\s*")
"""What is written in place of words that are left out: dots, also in brackets."""
_FEWEST_WORDS = 2
"""Words of a quotation that proves something."""


def find_quote(quote: str, texts: Sequence[str]) -> QuotePlace | None:
    """Finds a quotation in the first of some texts that holds it.

    Compared as by `locate_quote`. Where words are left out (``...``, ``[...]``), all parts must
    stand in the same text, in their order. None when none of them holds it, or it says nothing. A
    validator or judge must quote what proves its verdict, and this tells whether it did.
    """
    # What is omitted parts the quote; parts of marks alone would be found anywhere.
    parts = [part for part in _OMITTED.split(quote) if any(map(str.isalnum, part))]
    if not parts:
        return None
    for position, text in enumerate(texts):
        span = _span_of_parts(parts, text)
        if span is not None:
            return QuotePlace(position, span)
    return None


def _span_of_parts(parts: Sequence[str], text: str) -> Span | None:
    """The span from the first part of a quotation to the last; None where a text lacks one of them.

    A quotation with "..." in it is still one, if the parts are in order.

    Args:
        parts: the quotation cut where words are left out; they must follow each other in the text.
    """
    spans: list[Span] = []
    search_start = 0  # each part is behind the one before
    for part in parts:
        span = locate_quote(part, text[search_start:])
        if span is None:
            return None
        spans.append(Span(search_start + span.start, search_start + span.end))
        search_start = spans[-1].end
    return Span(spans[0].start, spans[-1].end)


def says_enough(quote: str, text: str) -> bool:
    """Whether a quotation is long enough to prove something: a word alone stands anywhere.

    A single word is in any text: a model may quote it without having read this one.

    Returns:
        True from two words on, articles not counted; in scripts without spaces from four characters
    """
    words = _word_count(quote)
    is_whole_text = words > 0 and words == _word_count(text)
    return words >= _FEWEST_WORDS or is_whole_text


def _word_count(text: str) -> float:
    """The number of words in a text; in scripts without spaces two characters count as one.

    By it a quotation is seen to be long enough in any script.
    """
    count = 0.0
    for token in multilingual_tokens(text):
        if is_spaceless(token):
            # Two characters of Chinese are about a word.
            count += 0.5
        else:
            count += 1.0
    return count
