"""Long texts, read in overlapping windows: nothing of them is left out."""

from __future__ import annotations

from ragbench.text.sentences import Span, split_sentences

__all__ = ["windows_of"]


def windows_of(text: str, *, characters: int = 1800) -> tuple[Span, ...]:
    """Runs of whole sentences that together hold every word of a text.

    Neighbouring windows share a sentence, so that two sentences which belong together stand in one
    window. A single sentence that is too long is cut at white space, or where there is none, at
    the limit.

    Args:
        text: a chunk's text.
        characters: how long a window may be.

    Returns:
        Spans in reading order; one for a text that fits, none for one of white space.
    """
    start = len(text) - len(text.lstrip())
    end = len(text.rstrip())
    if end - start <= characters:
        return (Span(start, end),) if end > start else ()
    pieces = [part for span in split_sentences(text) for part in _parts(text, span, characters)]
    found: list[Span] = []
    first = 0
    while first < len(pieces):
        last = first
        while last + 1 < len(pieces) and pieces[last + 1].end - pieces[first].start <= characters:
            last += 1
        found.append(Span(pieces[first].start, pieces[last].end))
        if last + 1 == len(pieces):
            break
        first = max(first + 1, last)
    return tuple(found)


def _parts(text: str, span: Span, characters: int) -> list[Span]:
    parts: list[Span] = []
    start = span.start
    while span.end - start > characters:
        cut = text.rfind(" ", start + 1, start + characters)
        end = cut if cut > start else start + characters
        parts.append(Span(start, end))
        start = end + 1 if cut > start else end
    parts.append(Span(start, span.end))
    return parts
