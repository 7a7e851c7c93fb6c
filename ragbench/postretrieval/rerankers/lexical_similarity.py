"""How much the words of texts have in common."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from ragbench.postretrieval.rerankers.candidate_tokens import token_numbers
from ragbench.postretrieval.rerankers.sparse import sparse_from_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["lexical_similarity"]


def lexical_similarity(texts: Sequence[str]) -> NDArray[np.float64]:
    """Cosines of the texts' words, each weighted by ln(1 + N / n) * (1 + ln tf).

    N is the number of texts, n of those that hold the word, tf its number in the text.

    Args:
        texts: at least one.

    Returns:
        A symmetric square matrix in [0, 1]; a text without words is like none, itself included.
    """
    import numpy as np

    numbers = token_numbers(texts)
    tokens = np.fromiter(chain.from_iterable(numbers), dtype=np.int64)
    _, columns = np.unique(tokens, return_inverse=True)
    width = int(columns.max(initial=0)) + 1
    rows = np.repeat(np.arange(len(texts)), [len(one) for one in numbers])
    places, times = np.unique(rows * width + columns, return_counts=True)
    rows, columns = np.divmod(places, width)
    rarity = np.log1p(len(texts) / np.bincount(columns, minlength=width).clip(1))
    ends = np.searchsorted(rows, np.arange(len(texts) + 1))
    matrix = sparse_from_rows((1 + np.log(times)) * rarity[columns], columns, ends, width)
    products: NDArray[np.float64] = (matrix @ matrix.T).toarray()
    lengths = np.sqrt(products.diagonal())
    lengths[lengths == 0] = 1
    similarity: NDArray[np.float64] = products / lengths[:, None] / lengths[None, :]
    return similarity
