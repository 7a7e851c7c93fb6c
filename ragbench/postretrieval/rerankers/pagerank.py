"""Personalised PageRank by power iteration over a sparse matrix."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["personalised_pagerank"]


def personalised_pagerank(
    adjacency: Any, seeds: NDArray[np.float64], *, damping: float = 0.85, tolerance: float = 1e-9
) -> NDArray[np.float64]:
    """The stationary distribution of a walk that starts again at the seeds.

    At each step the walk follows an edge of its node with probability ``damping``, in proportion to
    the weights, else it jumps to a seed; from a node without edges it always jumps (Page et al.
    1999, "The PageRank Citation Ranking"; Haveliwala 2002, "Topic-Sensitive PageRank").

    Args:
        adjacency: a square matrix of scipy.sparse; the number in row i and column j is the weight,
            at least 0, of the edge from i to j.
        seeds: where the walk starts, one number a node, at least 0, with a sum above 0.
        damping: in [0, 1).
        tolerance: how far the result may be from the exact one, as the sum of absolute differences.

    Returns:
        Probabilities that sum to 1.
    """
    import numpy as np

    start: NDArray[np.float64] = seeds / seeds.sum()
    if damping == 0:
        return start
    out = np.asarray(adjacency.sum(axis=1)).ravel()
    dangling = out == 0
    shares = damping / np.where(dangling, 1, out)
    flow = adjacency.T.tocsr()
    # Each step shrinks the distance to the fixed point, at most 2, by the damping.
    steps = math.ceil(math.log(tolerance / 2) / math.log(damping))
    ranks = start
    for _ in range(max(1, steps)):
        jump = 1 - damping + damping * float(ranks[dangling].sum())
        following = flow @ (shares * ranks) + jump * start
        change = float(np.abs(following - ranks).sum())
        ranks = following
        if change * damping <= tolerance * (1 - damping):
            break
    result: NDArray[np.float64] = ranks / ranks.sum()
    return result
