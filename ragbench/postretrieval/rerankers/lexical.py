"""BM25 over the candidates alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ragbench.errors import ConfigError
from ragbench.postretrieval.candidate_tokens import candidate_tokens
from ragbench.postretrieval.query import Query
from ragbench.postretrieval.rerankers.rarity import check_corpus, corpus_counts
from ragbench.records.corpus import Chunk
from ragbench.text.tokens import tokenise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["LexicalReranker"]

_TINY = 1e-300


@dataclass(frozen=True, kw_only=True, slots=True)
class LexicalReranker:
    """Scores by words shared with the query; what is rare among the candidates counts more.

    Each token of the query adds its weight, ln(1 + N / n) with n of the N candidates holding it,
    times

    - ``bm25``: tf / (tf + k1 * (1 - b + b * length / mean length)), tf its number in the chunk
      (Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond");
    - ``idf``: 1 when the chunk holds it.

    Candidates that were themselves found by these words all hold the best of them, which then
    weigh least: over a sparse first stage this reranker loses quality and is for fusions with
    others; over a dense one it can gain. The weight never falls below ln 2 for that reason. With
    the ``corpus`` weights are those of a whole search.
    """

    method: Literal["bm25", "idf"] = "bm25"
    """``"bm25"``, or ``"idf"`` for the weight of the query that the chunk covers."""
    k1: float = 1.2
    """How slowly repeated tokens stop counting, at least 0."""
    b: float = 0.75
    """How much long chunks are held down, in [0, 1]."""
    title_weight: int = 2
    """How often ``metadata["title"]`` counts as text of the chunk; 0 leaves it out."""
    corpus: str | None = None
    """A file or folder of all documents: a token's weight is then ln(1 + (N - n + 0.5) / (n + 0.5))
    with n of the corpus's N documents holding it."""

    def __post_init__(self) -> None:
        """Refuses settings out of their range."""
        if not 0 <= self.k1 < math.inf:
            raise ConfigError(f"lexical: k1 must be at least 0, not {self.k1:g}")
        if not 0 <= self.b <= 1:
            raise ConfigError(f"lexical: b must lie in [0, 1], not {self.b:g}")
        if self.title_weight < 0:
            raise ConfigError(f"lexical: title_weight must be at least 0, not {self.title_weight}")
        check_corpus("lexical", self.corpus)

    @property
    def name(self) -> str:
        """``"lexical"``."""
        return "lexical"

    def score(self, query: Query, chunks: Sequence[Chunk]) -> tuple[float, ...]:
        """Numbers of at least 0; 0 for a chunk that shares no token with the query."""
        wanted = Counter(tokenise(query.text))
        counts, lengths = self._counts(chunks, list(wanted))
        weights = [
            times * rarity
            for times, rarity in zip(wanted.values(), self._rarities(wanted, counts), strict=True)
        ]
        if self.method == "idf":
            parts = (counts > 0) * weights
        else:
            relative = lengths / (lengths.sum() / len(chunks) or 1.0)
            slopes = self.k1 * (1 - self.b + self.b * relative)
            # An absent token adds nothing, also where the slope is 0.
            parts = weights * counts / (counts + slopes[:, None]).clip(_TINY)
        # Rounded once, whatever the order of the query's words.
        return tuple(map(math.fsum, parts.tolist()))

    def _rarities(self, wanted: Mapping[str, int], counts: NDArray[np.intp]) -> list[float]:
        if self.corpus is not None:
            return corpus_counts(self.corpus).weights(list(wanted))
        holding = (counts > 0).sum(axis=0).tolist()
        return [math.log(1 + len(counts) / max(1, number)) for number in holding]

    def _counts(
        self, chunks: Sequence[Chunk], wanted: list[str]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """How often each chunk holds each token, and each chunk's length; titles included."""
        texts = candidate_tokens([chunk.text for chunk in chunks])
        counts, lengths = texts.counts(wanted), texts.lengths
        titles = [chunk.metadata.get("title") for chunk in chunks]
        if self.title_weight and any(titles):
            read = candidate_tokens([one if isinstance(one, str) else "" for one in titles])
            counts = counts + self.title_weight * read.counts(wanted)
            lengths = lengths + self.title_weight * read.lengths
        return counts, lengths
