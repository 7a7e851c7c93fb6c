"""How much the words of texts have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragbench.postretrieval.candidate_tokens import candidate_tokens
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

    tokens = candidate_tokens(texts)
    columns, width = _columns(tokens.numbers)
    places, times = np.unique(tokens.rows * width + columns, return_counts=True)
    rows, columns = np.divmod(places, width)
    holding = np.bincount(columns, minlength=width)
    weights = (1 + np.log(times)) * np.log1p(len(texts) / holding.clip(1))[columns]
    lengths = np.sqrt(np.bincount(rows, weights * weights, minlength=len(texts)))
    lengths[lengths == 0] = 1
    # A word of one text alone makes it like no other, and counts for its length only.
    shared = holding[columns] > 1
    rows, columns, weights = rows[shared], columns[shared], weights[shared] / lengths[rows[shared]]
    ends = np.searchsorted(rows, np.arange(len(texts) + 1))
    matrix = sparse_from_rows(weights, columns, ends, width)
    similarity: NDArray[np.float64] = (matrix @ matrix.T).toarray()
    np.fill_diagonal(similarity, tokens.lengths > 0)
    return similarity


def _columns(numbers: NDArray[np.int32]) -> tuple[NDArray[np.intp], int]:
    """A column for each number, and how many there are.

    Numbers are given out in the order in which this process met the tokens. Columns follow the
    texts alone, so that sums are rounded alike in every process.
    """
    import numpy as np

    places = np.arange(len(numbers))
    first = np.zeros(int(numbers.max(initial=0)) + 1, dtype=np.intp)
    # Of several places of a number, the one that is written last stays.
    first[numbers[::-1]] = places[::-1]
    is_first = first[numbers] == places
    return (is_first.cumsum() - 1)[first[numbers]], max(1, int(is_first.sum()))
