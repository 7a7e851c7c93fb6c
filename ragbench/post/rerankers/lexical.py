"""BM25 over the candidates."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ragbench.core.chunk import Chunk
from ragbench.errors import ConfigError
from ragbench.io.read import read_documents
from ragbench.post.candidate_tokens import candidate_tokens
from ragbench.post.operator import Query
from ragbench.text.tokens import tokenise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusCounts:
    """How many documents there are, and in how many each token stands."""

    documents: int
    holding: Counter[str]

    def weights(self, tokens: Sequence[str]) -> list[float]:
        """``ln(1 + (N - n + 0.5) / (n + 0.5))`` for each token, n of the N documents holding it."""
        counts = [self.holding[token] for token in tokens]
        return [math.log1p((self.documents - count + 0.5) / (count + 0.5)) for count in counts]


def check_corpus(name: str, corpus: str | None) -> None:
    if corpus is not None and not Path(corpus).exists():
        raise ConfigError(f"{name}: the corpus '{corpus}' does not exist")


def corpus_counts(corpus: str) -> CorpusCounts:
    """Counts a corpus once for as long as its files stay as they are."""
    path = Path(corpus)
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    state = tuple((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files)
    return _counted(corpus, state)


@lru_cache(maxsize=4)
def _counted(corpus: str, state: tuple[tuple[str, int, int], ...]) -> CorpusCounts:
    holding: Counter[str] = Counter()
    documents = 0
    for document in read_documents(corpus):
        holding.update(set(tokenise(f"{document.title or ''} {document.text}")))
        documents += 1
    if not documents:
        raise ConfigError(f"the corpus '{corpus}' holds no document")
    return CorpusCounts(documents=documents, holding=holding)


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
        if not 0 <= self.k1 < math.inf:
            raise ConfigError(f"lexical: k1 must be at least 0, not {self.k1:g}")
        if not 0 <= self.b <= 1:
            raise ConfigError(f"lexical: b must lie in [0, 1], not {self.b:g}")
        if self.title_weight < 0:
            raise ConfigError(f"lexical: title_weight must be at least 0, not {self.title_weight}")
        check_corpus("lexical", self.corpus)

    @property
    def name(self) -> str:
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
