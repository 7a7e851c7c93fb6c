"""Whether an embedder makes the vectors that a collection of another program holds.

Many models give vectors of one length. Searched with another one's, a collection answers at random,
with scores that look like any others. So some of its chunks are searched by their own texts first:
each must find itself.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection
from dataclasses import dataclass

from ragbench.core.chunk import Chunk
from ragbench.embedders.embedder import Embedder, readable_text
from ragbench.pipeline.strategies import DenseStrategy, HybridStrategy, Strategy
from ragbench.stores.attached import ForeignCollection

_CHUNKS = 16
_FEWEST = 8
"""Of fewer different texts nothing is said."""
_AMONG = 3
"""A chunk may have a twin, or an approximate index miss a neighbour."""
_ROWS = 10 * _AMONG
"""With other vectors one chunk of ten is found in so few rows."""
_FOUND = 0.5
_SAME = 0.97
"""Cosine: quantised vectors and models reach it, a forgotten prefix or title does not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SelfSearch:
    """How chunks were found that were searched by their own texts."""

    asked: int
    found: int
    """Those that are among the first three."""
    cosine: float | None
    """Median similarity to itself of those found; None where the store tells no cosines."""


def self_search(collection: ForeignCollection, embedder: Embedder) -> SelfSearch | None:
    """Searches a collection for some of its chunks.

    None where the collection is too small to tell anything.
    """
    view = collection.on_trial()
    texts = _asked({chunk.text for chunk in view.sampled() if chunk.text.strip()})
    if len(texts) < _FEWEST or collection.count() < _ROWS:
        return None
    vectors = embedder.embed_passages([readable_text(text) for text in texts])
    ranked = view.search(vectors, k=_AMONG)
    scores = [_own_score(text, hits) for text, hits in zip(texts, ranked, strict=True)]
    found = [score for score in scores if score is not None]
    tells = found and collection.space.metric == "cosine"
    return SelfSearch(
        asked=len(texts), found=len(found), cosine=statistics.median(found) if tells else None
    )


def _asked(texts: Collection[str]) -> list[str]:
    """The shorter half of some texts, spread over it: long ones take long and tell no more."""
    shorter = sorted(texts, key=lambda text: (len(text), text))[: max(_FEWEST, len(texts) // 2)]
    step = max(1, len(shorter) // _CHUNKS)
    return shorter[::step][:_CHUNKS]


def _own_score(text: str, hits: list[Chunk]) -> float | None:
    return next((chunk.score for chunk in hits if chunk.text == text), None)


def vector_problem(
    collection: ForeignCollection, strategy: Strategy, *, embedder_name: str
) -> str | None:
    """What is to be said of the embedder that a search uses; None where it fits or uses none."""
    dense = strategy.dense if isinstance(strategy, HybridStrategy) else strategy
    seen = self_search(collection, dense.embedder) if isinstance(dense, DenseStrategy) else None
    if seen is None:
        return None
    if seen.found < _FOUND * seen.asked:
        return (
            f"of {seen.asked} chunks that were searched by their own texts {seen.found} are among "
            f"the first {_AMONG}: '{embedder_name}' hardly made the vectors of "
            f"'{collection.name}', or not of its field '{collection.mapping.text}', so what it "
            "finds says nothing. Name the embedder that the collection was filled with, or the "
            "text that it read (--map text=FIELD)"
        )
    if seen.cosine is not None and seen.cosine < _SAME:
        return (
            f"the vectors of '{collection.name}' are not those that '{embedder_name}' makes of the "
            f"same texts (cosine {seen.cosine:.2f}, the median of {seen.found} chunks): they were "
            "made of other text (with a title, cut), with another prefix or pooling, or by another "
            "version"
        )
    return None
