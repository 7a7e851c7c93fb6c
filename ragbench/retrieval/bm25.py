"""BM25 over chunks, by the package bm25s."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ragbench.errors import ConfigError
from ragbench.records.corpus import Chunk
from ragbench.text.tokens import TOKENISER_VERSION, tokenise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Bm25Index"]


class Bm25Index:
    """An index in memory that ranks chunks by BM25.

    The formula is Lucene's: a query token ``t`` adds to the score of a chunk ``d``::

        ln(1 + (N - df + 0.5) / (df + 0.5)) * tf / (tf + k1 * (1 - b + b * |d| / average |d|))

    with ``tf`` the times that ``t`` stands in ``d``, ``df`` the number of chunks that hold it, and
    ``N`` the number of all chunks (Robertson and Zaragoza 2009, "The Probabilistic Relevance
    Framework: BM25 and Beyond"; variants: Kamphuis et al. 2020, "Which BM25 Do You Mean?").
    Scores are above 0 and have no upper limit. They compare within one query only.

    A chunk's title, ``metadata["title"]``, counts as text that stands in it ``title_weight`` times.
    """

    def __init__(
        self,
        chunks: Iterable[Chunk],
        *,
        k1: float = 1.2,
        b: float = 0.75,
        title_weight: int = 2,
    ) -> None:
        """Indexes the chunks.

        Args:
            chunks: what to search; may be empty.
            k1: how slowly repeated tokens stop counting, at least 0.
            b: how much long chunks are held down, in [0, 1].
            title_weight: how often the title is counted; 0 leaves it out.

        Raises:
            ConfigError: a parameter is out of its range.
        """
        _check_parameters(k1, b, title_weight)
        self.k1 = k1
        self.b = b
        self.title_weight = title_weight
        self._chunks = tuple(chunks)
        self._vocabulary: dict[str, int] = {}
        self._bm25 = self._build()

    def __len__(self) -> int:
        """How many chunks are indexed."""
        return len(self._chunks)

    @property
    def identity(self) -> dict[str, object]:
        """What the ranking depends on besides the chunks; JSON can hold it."""
        return {
            "method": "bm25-lucene",
            "tokeniser": TOKENISER_VERSION,
            "k1": self.k1,
            "b": self.b,
            "title_weight": self.title_weight,
        }

    def search(self, query: str, k: int) -> list[Chunk]:
        """The chunks that share a token with the query, best first.

        Args:
            query: the question; a token that it repeats counts as often as it stands there.
            k: how many chunks at most, at least 1.

        Returns:
            At most ``k`` chunks with their scores; equal scores in the order of indexing. Empty
            when nothing matches: a chunk with the score 0 is never returned.

        Raises:
            ConfigError: ``k`` is below 1.
        """
        return self.batch_search([query], k)[0]

    def batch_search(self, queries: Sequence[str], k: int) -> list[list[Chunk]]:
        """`search` for several queries, in their order."""
        if k < 1:
            raise ConfigError(f"k must be at least 1, not {k}")
        return [
            [replace(self._chunks[at], score=score) for at, score in self._rank(query, k)]
            for query in queries
        ]

    def idf(self, token: str) -> float:
        """The inverse document frequency of a token, as in the formula; highest if unknown."""
        known = self._vocabulary.get(token)
        frequency = 0
        if known is not None:
            starts = self._bm25.scores["indptr"]
            frequency = int(starts[known + 1]) - int(starts[known])
        return math.log(1 + (len(self._chunks) - frequency + 0.5) / (frequency + 0.5))

    def _build(self) -> Any:
        """Fills the vocabulary and builds the index; None when no chunk has a token."""
        vocabulary = self._vocabulary
        tokens = [
            [vocabulary.setdefault(token, len(vocabulary)) for token in self._tokens(chunk)]
            for chunk in self._chunks
        ]
        if not vocabulary:
            return None
        # By name, because the package has no types.
        index = importlib.import_module("bm25s").BM25(
            method="lucene", k1=self.k1, b=self.b, backend="numpy"
        )
        # Without its "empty token", which would stand for queries that match nothing.
        index.index((tokens, vocabulary), create_empty_token=False, show_progress=False)
        return index

    def _tokens(self, chunk: Chunk) -> list[str]:
        title = chunk.metadata.get("title")
        if not self.title_weight or not isinstance(title, str):
            return tokenise(chunk.text)
        return tokenise(title) * self.title_weight + tokenise(chunk.text)

    def _rank(self, query: str, k: int) -> list[tuple[int, float]]:
        known = [self._vocabulary.get(token) for token in tokenise(query)]
        ids = [id_ for id_ in known if id_ is not None]
        return _best(self._bm25.get_scores_from_ids(ids), k) if ids else []


def _best(scores: NDArray[np.float32], k: int) -> list[tuple[int, float]]:
    """Positions and values of the k highest scores above 0; of equals, the first position first.

    The package's own selection leaves the order of equal scores open.
    """
    import numpy as np

    found = np.flatnonzero(scores > 0)
    if len(found) > k:
        least = np.partition(scores[found], len(found) - k)[len(found) - k]
        found = found[scores[found] >= least]
    order = found[np.argsort(-scores[found], kind="stable")][:k]
    return [(int(at), float(scores[at])) for at in order]


def _check_parameters(k1: float, b: float, title_weight: int) -> None:
    if not 0 <= k1 < math.inf:
        raise ConfigError(f"k1 must be a number of at least 0, not {k1}")
    if not 0 <= b <= 1:
        raise ConfigError(f"b must lie in [0, 1], not {b}")
    if title_weight < 0:
        raise ConfigError(f"title_weight must be at least 0, not {title_weight}")
