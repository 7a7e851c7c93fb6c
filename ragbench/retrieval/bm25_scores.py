"""BM25 over lists of tokens, by the package bm25s: positions in, positions out."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Bm25Scores"]


class Bm25Scores:
    """Scores of texts, named by their position; the formula stands in `Bm25Index`."""

    def __init__(self, size: int, vocabulary: dict[str, int], index: Any) -> None:
        """Takes what `build` or `load` made.

        Args:
            size: how many texts there are.
            vocabulary: tokens to their numbers in the index.
            index: a ``bm25s.BM25``; None where no text has a token.
        """
        self.size = size
        self._vocabulary = vocabulary
        self._index = index

    @classmethod
    def build(cls, texts: Iterable[Sequence[str]], *, k1: float, b: float) -> Bm25Scores:
        """Indexes texts, each given as its tokens.

        Raises:
            ConfigError: a parameter is out of its range.
        """
        if not 0 <= k1 < math.inf:
            raise ConfigError(f"k1 must be a number of at least 0, not {k1}")
        if not 0 <= b <= 1:
            raise ConfigError(f"b must lie in [0, 1], not {b}")
        vocabulary: dict[str, int] = {}
        tokens = [
            [vocabulary.setdefault(token, len(vocabulary)) for token in text] for text in texts
        ]
        if not vocabulary:
            return cls(len(tokens), vocabulary, None)
        # By name, because the package has no types.
        index = importlib.import_module("bm25s").BM25(method="lucene", k1=k1, b=b, backend="numpy")
        # Without its "empty token", which would stand for queries that match nothing.
        index.index((tokens, vocabulary), create_empty_token=False, show_progress=False)
        return cls(len(tokens), vocabulary, index)

    def save(self, folder: Path) -> None:
        """Writes the index into a folder that exists."""
        if self._index is not None:
            self._index.save(str(folder), show_progress=False)

    @classmethod
    def load(cls, folder: Path, size: int) -> Bm25Scores:
        """Reads what `save` wrote, of ``size`` texts; the numbers stay on the disk until used."""
        if not (folder / "params.index.json").is_file():
            return cls(size, {}, None)
        index = importlib.import_module("bm25s").BM25.load(
            str(folder), mmap=True, show_progress=False
        )
        return cls(size, index.vocab_dict, index)

    def scores(self, tokens: Iterable[str]) -> NDArray[np.float32] | None:
        """The score of every text; None where no token is known."""
        known = [self._vocabulary.get(token) for token in tokens]
        ids = [id_ for id_ in known if id_ is not None]
        if not ids:
            return None
        found: NDArray[np.float32] = self._index.get_scores_from_ids(ids)
        return found

    def idf(self, token: str) -> float:
        """The inverse document frequency of a token, as in the formula; highest if unknown."""
        known = self._vocabulary.get(token)
        frequency = 0
        if known is not None:
            starts = self._index.scores["indptr"]
            frequency = int(starts[known + 1]) - int(starts[known])
        return math.log(1 + (self.size - frequency + 0.5) / (frequency + 0.5))

    @staticmethod
    def best(scores: NDArray[np.float32], k: int) -> list[tuple[int, float]]:
        """Positions and values of the k highest scores above 0; of equals, the first one first.

        The package's own selection leaves the order of equal scores open.
        """
        import numpy as np

        found = np.flatnonzero(scores > 0)
        if len(found) > k:
            least = np.partition(scores[found], len(found) - k)[len(found) - k]
            found = found[scores[found] >= least]
        order = found[np.argsort(-scores[found], kind="stable")][:k]
        return [(int(at), float(scores[at])) for at in order]
