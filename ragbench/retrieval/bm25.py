"""BM25 over chunks, by the package bm25s."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ragbench.errors import ConfigError
from ragbench.records.corpus import Chunk
from ragbench.retrieval.bm25_scores import Bm25Scores
from ragbench.text.tokens import TOKENISER_VERSION, tokenise

__all__ = ["Bm25Index", "chunk_tokens"]


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
        if title_weight < 0:
            raise ConfigError(f"title_weight must be at least 0, not {title_weight}")
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
        return self._scores.idf(token)

    def _rank(self, query: str, k: int) -> list[tuple[int, float]]:
        scores = self._scores.scores(tokenise(query))
        return [] if scores is None else Bm25Scores.best(scores, k)


def chunk_tokens(text: str, title: object, title_weight: int) -> list[str]:
    """The tokens that a chunk is found by: those of its text, and of its title so many times."""
    if not title_weight or not isinstance(title, str):
        return tokenise(text)
    return tokenise(title) * title_weight + tokenise(text)
