"""Which sentences of a chunk are quoted."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.text.sentences import Span

__all__ = ["best_sentences"]


def best_sentences(
    sentences: Sequence[Span], scores: Sequence[float], *, most: int = 3, share: float = 0.4
) -> tuple[Span, ...]:
    """The best sentence and those that come near it; neighbours become one span.

    Args:
        sentences: spans of a text, in reading order.
        scores: how much each speaks for an answer, 0 or more.
        most: how many sentences at most.
        share: how near the best one's score the others must come.

    Returns:
        Spans in reading order; empty when there is no sentence.
    """
    # Sorting keeps the order of equals: the earlier sentence wins.
    ranked = sorted(range(len(sentences)), key=lambda at: -scores[at])[:most]
    if not ranked:
        return ()
    floor = share * scores[ranked[0]]
    kept = sorted(at for at in ranked if at == ranked[0] or scores[at] >= floor)
    spans: list[Span] = []
    for at, before in zip(kept, [None, *kept], strict=False):
        if before is not None and at == before + 1:
            spans[-1] = Span(spans[-1].start, sentences[at].end)
        else:
            spans.append(sentences[at])
    return tuple(spans)
