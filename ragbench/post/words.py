"""The words of the candidates: where they stand, what they are worth, and BM25 over them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ragbench.core.chunk import Chunk
from ragbench.errors import ConfigError
from ragbench.io.read import read_documents
from ragbench.text.tokens import chunk_tokens, tokenise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TINY = 1e-300


def inverse_frequency(texts: int, holding: int) -> float:
    """``ln(1 + (N - n + 0.5) / (n + 0.5))``, n of N texts holding a word.

    Source: Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond".
    """
    return math.log1p((texts - holding + 0.5) / (holding + 0.5))


@dataclass(frozen=True, slots=True)
class QueryWords:
    """The query's words, each with what it is worth."""

    weights: Mapping[str, float]

    @classmethod
    def among(cls, query: str, texts: Sequence[str]) -> QueryWords:
        """Weighted by `inverse_frequency` among the texts."""
        held = [set(tokenise(text)) for text in texts]
        return cls(
            {
                word: inverse_frequency(len(texts), sum(word in one for one in held))
                for word in dict.fromkeys(tokenise(query))
            }
        )

    def held_by(self, text: str) -> set[str]:
        """The query's words that stand in a text."""
        return {word for word in tokenise(text) if word in self.weights}

    def worth(self, words: Iterable[str]) -> float:
        """What different words are worth together; 0 for none.

        Rounded once, whatever their order: a part never weighs more than its whole.
        """
        return math.fsum([self.weights[word] for word in words])


@dataclass(frozen=True, slots=True)
class CandidateWords:
    """How often each word stands in each candidate."""

    counted: Sequence[Counter[str]]

    @classmethod
    def of(cls, chunks: Sequence[Chunk], *, title_weight: int) -> CandidateWords:
        """Titles count as text that stands there so many times."""
        return cls(
            [
                Counter(chunk_tokens(chunk.text, chunk.metadata.get("title"), title_weight))
                for chunk in chunks
            ]
        )

    def counts(self, words: Sequence[str]) -> NDArray[np.float64]:
        """A row per candidate, a column per word."""
        import numpy as np

        rows = [[counter[word] for word in words] for counter in self.counted]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(words))

    def lengths(self) -> NDArray[np.float64]:
        import numpy as np

        return np.array([counter.total() for counter in self.counted], dtype=np.float64)

    def bm25(self, weights: Mapping[str, float], *, k1: float, b: float) -> list[float]:
        """The sum of weight * tf / (tf + k1 * (1 - b + b * length / mean length)) per candidate."""
        lengths = self.lengths()
        slopes = k1 * (1 - b + b * lengths / (lengths.sum() / len(lengths) or 1.0))
        counts = self.counts(list(weights))
        # An absent word adds nothing, also where the slope is 0.
        parts = counts * list(weights.values()) / (counts + slopes[:, None]).clip(_TINY)
        # Rounded once, whatever the order of the words.
        return list(map(math.fsum, parts.tolist()))


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusCounts:
    """How many documents there are, and in how many each word stands."""

    documents: int
    holding: Counter[str]

    def weights(self, words: Iterable[str]) -> list[float]:
        return [inverse_frequency(self.documents, self.holding[word]) for word in words]


def check_corpus(corpus: str | None) -> str | None:
    if corpus is None or Path(corpus).exists():
        return None
    return f"corpus '{corpus}' does not exist"


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
