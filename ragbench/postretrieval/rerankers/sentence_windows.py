"""The stretches of a chunk that share most with the query."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragbench.postretrieval.rerankers.candidate_tokens import token_counts, wanted_counts
from ragbench.text.sentences import Span, split_sentences

__all__ = ["best_windows", "query_weights"]


@dataclass(frozen=True, slots=True)
class _Sentence:
    span: Span
    words: int
    tokens: frozenset[str]
    """Those of the query that it holds."""


def query_weights(query: str, texts: Sequence[str]) -> dict[str, float]:
    """The query's tokens, weighted by rarity among texts: ln(1 + (N - n + 0.5) / (n + 0.5))."""
    wanted = token_counts(query)
    held, _ = wanted_counts(texts, wanted)
    weights: dict[str, float] = {}
    for token in wanted:
        holding = sum(token in tokens for tokens in held)
        weights[token] = math.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
    return weights


def best_windows(text: str, weights: Mapping[str, float], *, words: int, count: int) -> list[Span]:
    """Finds runs of whole sentences that hold most of the query's weight.

    Args:
        text: the chunk.
        weights: the query's tokens with their weights.
        words: how many words, by white space, a run may have; a longer sentence is a run of its
            own, whole.
        count: how many runs at most.

    Returns:
        Runs that do not overlap, the best first; of equals, the earlier one. One that holds nothing
        of the query is returned only when there is no other. Empty for a text of white space.
    """
    sentences = [
        _Sentence(span, len(text[slice(*span)].split()), _shared(text[slice(*span)], weights))
        for span in split_sentences(text)
    ]
    found: list[tuple[float, Span]] = []
    for first in range(len(sentences)):
        last = _last(sentences, first, words)
        held = frozenset[str]().union(*(one.tokens for one in sentences[first : last + 1]))
        span = Span(sentences[first].span.start, sentences[last].span.end)
        found.append((sum(weights[token] for token in sorted(held)), span))
    found.sort(key=lambda pair: -pair[0])
    chosen: list[Span] = []
    for weight, span in found:
        if len(chosen) == count or (chosen and not weight):
            break
        if all(span.end <= other.start or other.end <= span.start for other in chosen):
            chosen.append(span)
    return chosen


def _shared(text: str, weights: Mapping[str, float]) -> frozenset[str]:
    return frozenset(weights.keys() & token_counts(text).keys())


def _last(sentences: Sequence[_Sentence], first: int, words: int) -> int:
    """The last sentence of the run that begins with the first."""
    total = sentences[first].words
    last = first
    while last + 1 < len(sentences) and total + sentences[last + 1].words <= words:
        last += 1
        total += sentences[last].words
    return last
