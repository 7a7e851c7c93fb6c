"""Lexical features turned into one logit a chunk, however long the chunk is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.text.sentences import Span
from ragbench.validation.lexical_features import LEXICAL_FEATURES, Asked, read_pool
from ragbench.validation.linear_model import LinearModel
from ragbench.validation.windows import windows_of

__all__ = ["UNREADABLE_LOGIT", "ScoredChunk", "read_in_windows"]

UNREADABLE_LOGIT = -12.0
"""Of a chunk without a word in it, and of every chunk when the query has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredChunk:
    """A chunk as its best window has it."""

    logit: float
    """Of its holding an answer."""
    features: tuple[float, ...]
    """As `LEXICAL_FEATURES` names them."""
    sentences: tuple[Span, ...]
    """Of the best window, as offsets in the chunk."""
    scores: tuple[float, ...]
    """How much each sentence speaks for an answer."""
    window: Span
    """The best window."""


def read_in_windows(asked: Asked, texts: Sequence[str], model: LinearModel) -> list[ScoredChunk]:
    """Reads all chunks of a pool; of a long one every window, and the best one counts.

    Args:
        asked: the query.
        texts: the chunks' texts.
        model: from `LEXICAL_FEATURES` to a logit.
    """
    places = [(at, window) for at, text in enumerate(texts) for window in windows_of(text)]
    readings = read_pool(asked, [texts[at][slice(*window)] for at, window in places])
    nothing = ScoredChunk(
        logit=UNREADABLE_LOGIT,
        features=(0.0,) * len(LEXICAL_FEATURES),
        sentences=(),
        scores=(),
        window=Span(0, 0),
    )
    best = [nothing] * len(texts)
    for (at, window), reading in zip(places, readings, strict=True):
        logit = model.logit(reading.features) if asked.weights else UNREADABLE_LOGIT
        if best[at] is nothing or logit > best[at].logit:
            best[at] = ScoredChunk(
                logit=logit,
                features=reading.features,
                sentences=tuple(
                    Span(window.start + one.start, window.start + one.end)
                    for one in reading.sentences
                ),
                scores=reading.scores,
                window=window,
            )
    return best
