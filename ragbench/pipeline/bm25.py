"""BM25 over chunks."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.core.chunk import Chunk
from ragbench.text.tokens import TOKENISER_VERSION, chunk_tokens, tokenise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Bm25Scores:
    """Scores of texts, named by their position; the formula stands in `Bm25Index`."""

    def __init__(self, size: int, vocabulary: dict[str, int], index: Any) -> None:
        self.size = size
        self._vocabulary = vocabulary
        self._index = index

    @classmethod
    def build(cls, texts: Iterable[Sequence[str]], *, k1: float, b: float) -> Bm25Scores:
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
        ids = [self._vocabulary[token] for token in tokens if token in self._vocabulary]
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
        self, chunks: Iterable[Chunk], *, k1: float = 1.2, b: float = 0.75, title_weight: int = 2
    ) -> None:
        self.k1 = k1
        self.b = b
        self.title_weight = title_weight
        self._chunks = tuple(chunks)
        self._scores = Bm25Scores.build(
            (
                chunk_tokens(chunk.text, chunk.metadata.get("title"), title_weight)
                for chunk in self._chunks
            ),
            k1=k1,
            b=b,
        )

    def __len__(self) -> int:
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
        """The chunks that share a token with the query, best first."""
        return self.batch_search([query], k)[0]

    def batch_search(self, queries: Sequence[str], k: int) -> list[list[Chunk]]:
        """`search` for several queries, in their order."""
        found: list[list[Chunk]] = []
        for query in queries:
            scores = self._scores.scores(tokenise(query))
            best = [] if scores is None else Bm25Scores.best(scores, k)
            found.append([replace(self._chunks[at], score=score) for at, score in best])
        return found

    def idf(self, token: str) -> float:
        """The inverse document frequency of a token, as in the formula; highest if unknown."""
        return self._scores.idf(token)
