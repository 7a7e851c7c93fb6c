"""What words and local models together tell of a chunk."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.models.onnx_reader import PairReading
from ragbench.validation.lexical_features import LEXICAL_FEATURES
from ragbench.validation.lexical_scores import ScoredChunk

__all__ = ["FIRST_FEATURES", "READER_FEATURES", "first_features", "reader_features"]

_FROM_WORDS = ("window_coverage", "names_missing", "type_agrees", "type_disagrees", "behind")
FIRST_FEATURES: tuple[str, ...] = (
    "lexical",
    *_FROM_WORDS,
    "cross",
    "cross_behind",
    "similarity",
    "similarity_behind",
)
"""Names of the numbers of a chunk that the cross-encoder has read, in order; those of an embedder
that is not there are 0."""
READER_FEATURES: tuple[str, ...] = ("first", "reader", "reader_behind", "span")
"""Names of the numbers of a chunk that the reader has read, in order; ``first`` is the logit that
the first features come to."""

_LOGIT_SCALE = 10.0
"""Logits are divided by this, so that all numbers are of one size."""


def first_features(
    chunks: Sequence[ScoredChunk], cross: Sequence[float], similarity: Sequence[float]
) -> list[tuple[float, ...]]:
    """Rows of `FIRST_FEATURES`, one a chunk.

    Args:
        chunks: what words tell of the chunks that models read.
        cross: the cross-encoder's logits of the same.
        similarity: cosines of query and chunk; empty without an embedder.
    """
    near = list(similarity) or [0.0] * len(chunks)
    rows: list[tuple[float, ...]] = []
    for place, chunk in enumerate(chunks):
        words = dict(zip(LEXICAL_FEATURES, chunk.features, strict=True))
        rows.append(
            (
                chunk.logit / _LOGIT_SCALE,
                *(words[name] for name in _FROM_WORDS),
                cross[place] / _LOGIT_SCALE,
                (max(cross) - cross[place]) / _LOGIT_SCALE,
                near[place],
                max(near) - near[place],
            )
        )
    return rows


def reader_features(
    first: Sequence[float], readings: Sequence[PairReading]
) -> list[tuple[float, ...]]:
    """Rows of `READER_FEATURES`, one a chunk.

    Args:
        first: the logits before the reader.
        readings: what the reader says of the same chunks.
    """
    best = max((one.logit for one in readings), default=0.0)
    return [
        (
            logit / _LOGIT_SCALE,
            one.logit / _LOGIT_SCALE,
            (best - one.logit) / _LOGIT_SCALE,
            one.span / _LOGIT_SCALE,
        )
        for logit, one in zip(first, readings, strict=True)
    ]
