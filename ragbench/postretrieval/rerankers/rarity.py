"""How rare tokens are: among the candidates, or in the corpus that they come from."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ragbench.data.read import read_documents
from ragbench.errors import ConfigError
from ragbench.text.tokens import tokenise

__all__ = ["CorpusCounts", "check_corpus", "corpus_counts"]


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
    """Refuses a corpus that is not there.

    Raises:
        ConfigError: it is neither a file nor a folder.
    """
    if corpus is not None and not Path(corpus).exists():
        raise ConfigError(f"{name}: the corpus '{corpus}' does not exist")


def corpus_counts(corpus: str) -> CorpusCounts:
    """Counts a corpus once for as long as its files stay as they are.

    Args:
        corpus: any file or folder that documents are read from; see "ragbench show formats".

    Raises:
        DataError: it cannot be read.
        ConfigError: it holds no document.
    """
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
