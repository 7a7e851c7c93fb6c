"""What words and a reader together tell of a chunk."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.models.onnx_reader import PairReading
from ragbench.validation.lexical_scores import ScoredChunk

__all__ = ["LOCAL_FEATURES", "local_features"]

LOCAL_FEATURES: tuple[str, ...] = ("lexical", "reader")
"""Names of the numbers of a chunk that the reader has read, in order. More of them (coverage, kinds
of answers, the span's score, how far a chunk lies behind the pool's best) were tried, and made
nothing better on articles that they were not learned from."""

_LOGIT_SCALE = 10.0
"""Logits are divided by this, so that all numbers are of one size."""


def local_features(
    chunks: Sequence[ScoredChunk], readings: Sequence[PairReading]
) -> list[tuple[float, ...]]:
    """Rows of `LOCAL_FEATURES`, one a chunk.

    Args:
        chunks: what words tell of the chunks that were read.
        readings: what the reader says of the same.
    """
    return [
        (chunk.logit / _LOGIT_SCALE, reading.logit / _LOGIT_SCALE)
        for chunk, reading in zip(chunks, readings, strict=True)
    ]
