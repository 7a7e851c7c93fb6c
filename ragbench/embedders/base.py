"""What every embedder does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]

__all__ = ["Embedder"]


class Embedder(Protocol):
    """Turns texts into vectors, in such a way that a text and what answers it lie close together.

    Prefixes, instructions and the cutting of long texts are the embedder's own business.
    """

    @property
    def identity(self) -> Mapping[str, object]:
        """All that its vectors depend on, as JSON: vectors of two identities are never compared."""
        ...

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        ...

    @property
    def hybrid_weight(self) -> float:
        """How much its ranking counts in a hybrid search, where that of BM25 counts 1.

        Measured, where the embedder is known (docs/retrieval.md); 1 where nothing is known.
        """
        ...

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """The vectors of questions.

        Args:
            texts: any number of texts, each with a character that is not white space.

        Returns:
            One row a text, float32, of length 1 (or 0, where a text has nothing to go by).
        """
        ...

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """The vectors of what is searched; see `embed_queries`."""
        ...

    def close(self) -> None:
        """Lets go of connections and threads; called once, at the end."""
        ...
