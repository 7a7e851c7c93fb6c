"""Which chunks reach a score, and what is said of those that have none."""

from __future__ import annotations

from collections.abc import Sequence

from ragbench.postretrieval.contract import OperatorOutput, in_order
from ragbench.postretrieval.ranked import RankedChunk

__all__ = ["reaching"]


def reaching(chunks: Sequence[RankedChunk], least: float) -> OperatorOutput:
    """Keeps chunks that score at least so much, and those without a score: nothing is known."""
    kept = [entry for entry in chunks if entry.score is None or entry.score >= least]
    unscored = sum(entry.score is None for entry in chunks)
    notes = (f"{unscored} of {len(chunks)} chunks have no score and were kept",) if unscored else ()
    return OperatorOutput(chunks=in_order(kept), notes=notes)
