"""What words and a cross-encoder together tell of a chunk."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.validation.lexical_features import LEXICAL_FEATURES
from ragbench.validation.lexical_scores import ScoredChunk

__all__ = ["LOCAL_FEATURES", "local_features"]

_FROM_WORDS = ("window_coverage", "names_missing", "type_agrees", "type_disagrees", "behind")
LOCAL_FEATURES: tuple[str, ...] = (
    "lexical",
    *_FROM_WORDS,
    "cross",
    "cross_behind",
)
"""Names of the numbers of a chunk that the cross-encoder has read, in order."""

_LOGIT_SCALE = 10.0
"""Logits are divided by this, so that all numbers are of one size."""


def local_features(
    chunks: Sequence[ScoredChunk], cross: Sequence[float]
) -> list[tuple[float, ...]]:
    """Rows of `LOCAL_FEATURES`, one a chunk.

    Args:
        chunks: what words tell of the chunks that the cross-encoder read.
        cross: its logits of the same.
    """
    rows: list[tuple[float, ...]] = []
    for place, chunk in enumerate(chunks):
        words = dict(zip(LEXICAL_FEATURES, chunk.features, strict=True))
        rows.append(
            (
                chunk.logit / _LOGIT_SCALE,
                *(words[name] for name in _FROM_WORDS),
                cross[place] / _LOGIT_SCALE,
                (max(cross) - cross[place]) / _LOGIT_SCALE,
            )
        )
    return rows
