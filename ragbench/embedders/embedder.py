"""The protocol of an embedder, and embedders by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from ragbench.plugins import Registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]


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
        """The vectors of questions."""
        ...

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """The vectors of what is searched; see `embed_queries`."""
        ...

    def close(self) -> None:
        """Lets go of connections and threads; called once, at the end."""
        ...


def readable_text(text: str) -> str:
    """The text without NUL characters and lone surrogates, which tokenizers stop at.

    Each is replaced by one character, so that words stay apart.
    """
    if "\0" in text:
        text = text.replace("\0", " ")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


DEFAULT_EMBEDDER = "multilingual"
NO_EMBEDDER = "none"
"""Of a collection that is searched by words alone: nothing is embedded."""

EMBEDDERS = Registry(
    kind="embedders",
    builtin={
        "multilingual": "ragbench.embedders.local:multilingual_from_name",
        "onnx": "ragbench.embedders.local:onnx_from_name",
        "openai": "ragbench.embedders.openai:from_name",
        "cohere": "ragbench.embedders.http:cohere_from_name",
        "voyage": "ragbench.embedders.http:voyage_from_name",
        "jina": "ragbench.embedders.http:jina_from_name",
        "fastembed": "ragbench.embedders.loaded:fastembed_from_name",
        "sentence-transformers": "ragbench.embedders.loaded:sentence_transformers_from_name",
        "hashing": "ragbench.embedders.local:hashing_from_name",
        NO_EMBEDDER: "ragbench.embedders.local:no_embedder_from_name",
    },
)
"""Name to a function ``(model, settings)``: what stands behind the colon, and the settings."""


def open_embedder(name: str = DEFAULT_EMBEDDER, **settings: Any) -> Embedder:
    """Makes an embedder; it loads its model or opens its connection when it is first used.

    Example:
        >>> open_embedder("hashing:64").dimension
        64

    Args:
        name: a registered name, and behind a colon the model where it takes one:
            ``"multilingual"``, ``"onnx:FOLDER"``, ``"openai:MODEL"``, ``"cohere:MODEL"``,
            ``"voyage:MODEL"``, ``"jina:MODEL"``, ``"fastembed:MODEL"``,
            ``"sentence-transformers:MODEL"``, ``"hashing:256"``, ``"none"``.
        **settings: of that embedder, such as ``query_prefix="query: "``.

    Raises:
        ConfigError: no such name, or a setting is unknown or wrong.
        MissingExtraError: a package that it needs is not installed.
    """
    kind, _, model = name.partition(":")
    make = EMBEDDERS.load(kind)
    return cast("Embedder", make(model, settings))


def unit_rows(rows: ArrayLike) -> NDArray[np.float32]:
    """The rows divided by their lengths, as float32; a row of zeros stays one."""
    import numpy as np

    vectors = np.asarray(rows, dtype=np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float32] = np.zeros_like(vectors)
    np.divide(vectors, lengths, out=unit, where=lengths > 0)
    return unit
