"""The words of a chunk as a store ranks them: BM25 cut in two.

BM25 (`ragbench.pipeline.bm25.Bm25Index`) is a sum over the words of a query of two factors. What a
word is worth, its inverse document frequency, the store knows of all chunks that it holds. How much
of it a chunk has depends on the chunk and on the average length alone::

    tf / (tf + k1 * (1 - b + b * length / average))

That number is kept for each word of a chunk, in a sparse vector; the store adds up the products.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, TypeAlias

from ragbench.core.chunk import Chunk
from ragbench.errors import ConfigError, StoreError
from ragbench.plugins import require
from ragbench.text.tokens import TOKENISER_VERSION, chunk_tokens

WordVector: TypeAlias = Mapping[int, float]
"""Numbers of words, each with a weight above 0."""

HASHING = "blake2b-32"
"""How `word_number` numbers words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WordsForm:
    """What the vectors of all chunks of a collection are made by; kept with it."""

    average: float
    """Tokens of a chunk, titles included, when the collection was made. It stays: another one
    would change the vectors of all chunks."""
    k1: float = 1.2
    """How slowly repeated tokens stop counting."""
    b: float = 0.75
    """How much long chunks are held down."""
    title_weight: int = 2
    """How often a title counts."""
    tokeniser: str = TOKENISER_VERSION
    """Changes with what tokens are."""
    hashing: str = HASHING
    """How tokens are numbered."""

    def vector(self, chunk: Chunk) -> dict[int, float]:
        """The words of a chunk: for each the second factor of BM25; empty for one without words."""
        tokens = self.tokens(chunk)
        times = Counter(map(word_number, tokens))
        held_down = self.k1 * (1 - self.b + self.b * len(tokens) / (self.average or 1.0))
        return {number: count / (count + held_down) for number, count in times.items()}

    def tokens(self, chunk: Chunk) -> list[str]:
        return chunk_tokens(chunk.text, chunk.metadata.get("title"), self.title_weight)

    def check(self, collection: str) -> None:
        """Refuses words that this release would number otherwise."""
        if (self.tokeniser, self.hashing) != (TOKENISER_VERSION, HASHING):
            raise StoreError(
                f"the words of the collection '{collection}' were cut by another release of "
                "ragbench: remove it with 'ragbench index --drop' and index the corpus again, or "
                "index it under another name"
            )


@lru_cache(maxsize=1 << 17)
def word_number(token: str) -> int:
    """The number of a token: 32 bits of its BLAKE2b digest.

    A word of a question has the number of one of ``v`` other words with a probability of ``v`` in
    2**32: one in 4,300 where a collection has a million different words. Such a word then counts
    where the other one stands, too.
    """
    data = token.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=4).digest(), "little")


def check_words(database: object, words: WordsForm | None) -> None:
    """Refuses to keep words where nothing would rank them."""
    if words is None or getattr(database, "ranks_words", False):
        return
    raise ConfigError(
        f"{getattr(database, 'address', 'this store')}: this store does not rank by BM25 itself "
        "(--words store): leave the option out, or index into Qdrant (qdrant:FOLDER or "
        "qdrant+http://HOST:6333)"
    )


def fastembed_words(text: str, language: str) -> list[int]:
    """The sparse dimensions of a question's words, as fastembed's ``Qdrant/bm25`` numbers them.

    Each word in small letters is stemmed (Snowball) and hashed (the amount of its 32-bit
    MurmurHash3, seed 0). Stop words need not be left out: no passage has them. What a word is
    worth the collection knows (``modifier: idf``), so each counts 1.
    """
    stemmer: Any = importlib.import_module("Stemmer")
    hashed: Any = require("mmh3", extra="qdrant").hash
    if language not in stemmer.algorithms():
        known = ", ".join(sorted(stemmer.algorithms()))
        raise ConfigError(f"--field language={language}: there are stemmers for {known}")
    words = re.sub(r"[^\w]", " ", text.lower()).split()
    stems = stemmer.Stemmer(language).stemWords([word for word in words if len(word) <= _LONGEST])
    return sorted({abs(hashed(stem)) for stem in stems})


_LONGEST = 40
"""Characters of the longest word that fastembed keeps."""
