"""Vectors without a model: which words a text holds. For tests and measurements only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, cast

from ragbench.embedders.unit import unit_rows
from ragbench.errors import ConfigError
from ragbench.settings.from_settings import from_settings
from ragbench.text.tokens import TOKENISER_VERSION, tokenise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["HashingEmbedder", "from_name"]


@dataclass(frozen=True, kw_only=True, slots=True)
class HashingEmbedder:
    """Counts words in as many drawers as the vector has numbers; knows nothing of meaning.

    Each word adds 1 or takes 1 in the drawer that its hash names, so that words which share a
    drawer cancel out on average (Weinberger et al. 2009, "Feature Hashing for Large Scale Multitask
    Learning"). Deterministic, and fast enough to fill a store for a test.
    """

    dimension: int = 256
    """Numbers a vector, at least 1."""

    def __post_init__(self) -> None:
        """Refuses vectors of nothing."""
        if self.dimension < 1:
            raise ConfigError(f"hashing: dimension must be at least 1, not {self.dimension}")

    @property
    def identity(self) -> Mapping[str, object]:
        """See `ragbench.embedders.base.Embedder`."""
        return {
            "embedder": "hashing",
            "dimension": self.dimension,
            "tokeniser": TOKENISER_VERSION,
        }

    @property
    def hybrid_weight(self) -> float:
        """See `ragbench.embedders.base.Embedder`."""
        return 1.0

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `ragbench.embedders.base.Embedder`."""
        return self.embed_passages(texts)

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `ragbench.embedders.base.Embedder`."""
        import numpy as np

        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for token, times in Counter(tokenise(text)).items():
                place = _hash(token)
                row[(place >> 1) % self.dimension] += times if place & 1 else -times
        return unit_rows(rows)

    def close(self) -> None:
        """Nothing is open."""


@lru_cache(maxsize=1 << 16)
def _hash(token: str) -> int:
    return int.from_bytes(blake2b(token.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def from_name(model: str, settings: Mapping[str, Any]) -> HashingEmbedder:
    """See `ragbench.embedders.registry.EMBEDDERS`; the model is the dimension."""
    if model and not model.isdecimal():
        raise ConfigError(f"hashing: the dimension is a whole number, not '{model}'")
    given = {"dimension": int(model), **settings} if model else settings
    made = from_settings(HashingEmbedder, given, where="embedder hashing")
    return cast("HashingEmbedder", made)
