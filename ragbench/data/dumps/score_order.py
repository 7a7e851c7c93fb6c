"""Whether scores are similarities or distances: told by the order of the chunks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from ragbench.data.dumps.form import Hits
from ragbench.data.dumps.mapping import ScoreKind
from ragbench.data.dumps.paths import getter

__all__ = ["as_score", "guess_kind"]

_DISTANCES = ("distance", "dist", "l2", "_distance", "cosine_distance")


def guess_kind(lists: Sequence[Hits], path: str | None, distances: bool | None) -> ScoreKind | None:
    """Guesses which scores are the better ones.

    A retriever hands over the best chunk first. When scores fall, higher is better; when they
    rise, lower is. Only when neither holds, the field's name decides, or what its tool is known
    for: Milvus, for one, calls both a distance.

    Args:
        lists: hits of some queries.
        path: where a hit's score is; None when there is none.
        distances: whether the tool's scores are distances as a rule; None when not known.
    """
    if path is None:
        return None
    find = getter(path)
    falling = rising = 0
    for hits in lists:
        known = [score for hit in hits if (score := as_score(find(hit))) is not None]
        steps = [after - before for before, after in pairwise(known)]
        falling += any(steps) and all(step <= 0 for step in steps)
        rising += any(steps) and all(step >= 0 for step in steps)
    if falling != rising:
        return ScoreKind.DISTANCE if rising > falling else ScoreKind.SIMILARITY
    if distances is None:
        distances = path.rpartition(".")[2].lower() in _DISTANCES
    return ScoreKind.DISTANCE if distances else ScoreKind.SIMILARITY


def as_score(value: object) -> float | None:
    """A score as a number, also when it is written as text; None when it is none."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None
