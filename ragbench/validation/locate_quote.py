"""Where a quotation stands in a text, whatever became of its spaces, dashes and letter forms."""

from __future__ import annotations

import unicodedata

from ragbench.text.sentences import Span

__all__ = ["locate_quote"]

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
    characters left out, and one form of quotation marks and dashes. Nothing else may differ. Marks
    at the ends of the quotation do not count.

    Args:
        quote: what somebody says stands in the text.
        text: the text as it is.

    Returns:
        The first place, as offsets in the text as it is; None when it does not stand there, or
        says nothing.
    """
    wanted = _normalised(quote)[0].strip(_TRIMMED)
    if sum(letter.isalnum() for letter in wanted) < _FEWEST_LETTERS:
        return None
    normal, starts, ends = _normalised(text)
    at = normal.find(wanted)
    if at < 0:
        return None
    return Span(starts[at], ends[at + len(wanted) - 1])


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
