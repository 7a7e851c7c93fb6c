"""The stretches of a chunk that share most with the query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.postretrieval.query_weights import QueryWeights
from ragbench.text.sentences import Span, split_sentences

__all__ = ["best_windows"]

# Where no spaces are written, two characters are taken for a word.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(rf"[{_UNSPACED}]{{1,2}}|[^\s{_UNSPACED}]+")


@dataclass(frozen=True, slots=True)
class _Sentence:
    span: Span
    words: int
    held: set[int]
    """Those of the query's tokens that it holds."""


def best_windows(
    query: QueryWeights, place: int, *, words: int, count: int, cut: bool = False
) -> list[Span]:
    """Finds runs of sentences that hold most of the query's weight.

    Args:
        query: the query's tokens with their weights, and the candidates.
        place: the candidate's.
        words: how many words a run may have; a longer sentence is a run of its own.
        count: how many runs at most.
        cut: whether of a longer sentence only its best ``words`` words are taken.

    Returns:
        Runs that do not overlap, the best first; of equals, the earlier one. One that holds nothing
        of the query is returned only when there is no other. Empty for a text of white space.
    """
    text = query.texts[place]
    sentences = [
        _Sentence(span, _words_in(text[span.start : span.end]), query.held(place, *span))
        for span in split_sentences(text)
    ]
    found: list[tuple[float, Span]] = []
    for first in range(len(sentences)):
        last = _last(sentences, first, words)
        held = set[int]().union(*(one.held for one in sentences[first : last + 1]))
        span = Span(sentences[first].span.start, sentences[last].span.end)
        found.append((query.worth(held), span))
    found.sort(key=lambda pair: -pair[0])
    chosen: list[Span] = []
    for weight, span in found:
        if len(chosen) == count or (chosen and not weight):
            break
        if all(span.end <= other.start or other.end <= span.start for other in chosen):
            chosen.append(span)
    return [_cut(query, place, span, words) for span in chosen] if cut else chosen


def _words_in(text: str) -> int:
    return len(text.split() if text.isascii() else _WORD.findall(text))


def _last(sentences: Sequence[_Sentence], first: int, words: int) -> int:
    """The last sentence of the run that begins with the first."""
    total = sentences[first].words
    last = first
    while last + 1 < len(sentences) and total + sentences[last + 1].words <= words:
        last += 1
        total += sentences[last].words
    return last


def _cut(query: QueryWeights, place: int, span: Span, words: int) -> Span:
    """The stretch of so many words that holds most; of equals, the one in their middle."""
    found = [word.span() for word in _WORD.finditer(query.texts[place], span.start, span.end)]
    if len(found) <= words:
        return span
    held = [query.held(place, start, end) for start, end in found]
    values = [
        query.worth(set[int]().union(*held[first : first + words]))
        for first in range(len(found) - words + 1)
    ]
    best = max(values)
    equal = [first for first, value in enumerate(values) if value == best]
    middle = equal[len(equal) // 2]
    return Span(found[middle][0], found[middle + words - 1][1])
