"""How much the words of texts have in common."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragbench.postretrieval.rerankers.candidate_tokens import token_counts
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

    counts = [token_counts(text) for text in texts]
    holding = Counter(token for count in counts for token in count)
    numbers = {token: number for number, token in enumerate(holding)}
    columns = np.fromiter((numbers[token] for count in counts for token in count), dtype=np.int32)
    times = np.fromiter((n for count in counts for n in count.values()), dtype=np.float64)
    ends = np.cumsum([0, *map(len, counts)])
    rarity = np.array([math.log(1 + len(texts) / n) for n in holding.values()])
    weights = (1 + np.log(times)) * rarity[columns] if len(columns) else times
    matrix = sparse_from_rows(weights, columns, ends, max(1, len(numbers)))
    products: NDArray[np.float64] = (matrix @ matrix.T).toarray()
    lengths = np.sqrt(products.diagonal())
    lengths[lengths == 0] = 1
    similarity: NDArray[np.float64] = products / lengths[:, None] / lengths[None, :]
    return similarity
