"""An embedder of the user's: an object of LangChain or LlamaIndex, or one with our methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from ragbench.embedders.embedder import Embedder, ModelEmbedder, unit_rows
from ragbench.errors import ConfigError, InterfaceError
from ragbench.io.settings import built_own
from ragbench.safe_text import shortened_line

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PROBE = "dimension"
_MODEL = ("model", "model_name", "model_id", "deployment")
"""Attributes by which such objects name their model."""


def embedder_of_target(
    spec: str, settings: Mapping[str, Any], *, search_path: str | Path = "."
) -> Embedder:
    """What ``file.py:thing`` or ``package.module:thing`` names, or gives for the settings."""
    made = built_own(spec, settings, folder=search_path, offers=_offers)
    return as_embedder(made, spec)


def as_embedder(thing: object, name: str) -> Embedder:
    if _has(thing, "embed_queries", "embed_passages"):
        return cast("Embedder", thing)
    found = cast("Any", thing)
    if _has(thing, "embed_query", "embed_documents"):
        return _Adapted(name, found, found.embed_query, found.embed_documents)
    if _has(thing, "get_query_embedding", "get_text_embedding_batch"):
        return _Adapted(name, found, found.get_query_embedding, found.get_text_embedding_batch)
    raise ConfigError(
        f"'{name}' is not an embedder: it has neither embed_queries and embed_passages, nor the "
        "methods of an embedding object of LangChain (embed_query, embed_documents) or LlamaIndex "
        "(get_query_embedding, get_text_embedding_batch)"
    )


def _has(thing: object, *methods: str) -> bool:
    return all(callable(getattr(thing, method, None)) for method in methods)


def _offers(thing: object) -> bool:
    return (
        _has(thing, "embed_queries")
        or _has(thing, "embed_query")
        or _has(thing, "get_query_embedding")
    )


@dataclass(frozen=True)
class _Adapted(ModelEmbedder):
    """An embedding object of another framework."""

    asks_endpoint: ClassVar[bool] = True
    """Most wait for a service: workers would only share out its rate limit."""

    name: str
    thing: Any
    query: Callable[[str], Sequence[float]]
    passages: Callable[[list[str]], Sequence[Sequence[float]]]

    @property
    def identity(self) -> Mapping[str, object]:
        """See `Embedder`; its class and the model that it names are what is known of it."""
        kind: type[Any] = type(cast("object", self.thing))
        named = (getattr(self.thing, one, None) for one in _MODEL)
        model = next((one for one in named if isinstance(one, str)), "")
        return {"embedder": f"{kind.__module__}:{kind.__qualname__}", "model": model}

    @property
    def dimension(self) -> int:
        return self._dimension

    @cached_property
    def _dimension(self) -> int:
        return int(self.embed_queries([_PROBE]).shape[1])

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._rows([self.query(text) for text in texts], texts)

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._rows(self.passages(list(texts)) if texts else [], texts)

    def _rows(
        self, vectors: Sequence[Sequence[float]], texts: Sequence[str]
    ) -> NDArray[np.float32]:
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        try:
            rows = np.asarray(vectors, dtype=np.float32)
        except (TypeError, ValueError):
            rows = np.zeros((0, 0), dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(texts) or not rows.shape[1]:
            raise InterfaceError(f"'{self.name}' did not give one vector for each of {len(texts)}")
        if not np.isfinite(rows).all():
            raise InterfaceError(f"'{self.name}' gave a vector with numbers that are not finite")
        empty = next((at for at, row in enumerate(rows) if not row.any()), None)
        if empty is not None:
            raise InterfaceError(
                f"'{self.name}' gave a vector of zeros for '{shortened_line(texts[empty])}': it "
                "would be similar to nothing"
            )
        return unit_rows(rows)
