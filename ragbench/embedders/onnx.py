"""A sentence encoder in ONNX form, from a folder or a hub."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ragbench.embedders.unit import unit_rows
from ragbench.errors import ConfigError
from ragbench.models.onnx_encoder import Pooling, TextEncoder, stated_pooling
from ragbench.models.onnx_files import OnnxFiles, find_onnx_files
from ragbench.settings.from_settings import from_settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["OnnxEmbedder", "from_name"]

VERSION = 1
"""Changes whenever the same model gives other vectors."""


@dataclass(frozen=True, kw_only=True)
class OnnxEmbedder:
    """Vectors of a model that runs here, on the CPU.

    The model is loaded when the first vector is asked for.
    """

    model: str
    """A folder with model.onnx and tokenizer.json, or ``owner/name`` on the Hugging Face hub."""
    file: str | None = None
    """The ONNX file's path in there; None tries model.onnx, onnx/model.onnx and the quantised."""
    revision: str | None = None
    """Branch, tag or commit of the hub repository."""
    pooling: Pooling | None = None
    """None: what 1_Pooling/config.json states in the folder, else the mean."""
    query_prefix: str = ""
    """What the model wants before a question, such as ``"query: "`` (E5)."""
    passage_prefix: str = ""
    """What the model wants before a passage, such as ``"passage: "`` (E5)."""
    max_length: int = 512
    """Tokens that the model takes, special ones and the prefix included."""
    threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    """How many texts are read side by side, each on one thread."""

    def __post_init__(self) -> None:
        """Refuses settings out of their range."""
        if self.pooling not in (None, "mean", "cls"):
            raise ConfigError(f"onnx: pooling is mean or cls, not {self.pooling!r}")
        if self.max_length < 16 or self.threads < 1:
            raise ConfigError("onnx: max_length must be at least 16 and threads at least 1")

    @property
    def identity(self) -> Mapping[str, object]:
        """See `ragbench.embedders.base.Embedder`; the model counts by its bytes, not its name."""
        return self._identity

    @cached_property
    def _identity(self) -> Mapping[str, object]:
        return {
            "embedder": "onnx",
            "version": VERSION,
            "model": _digest(self._files.model),
            "tokenizer": _digest(self._files.tokenizer),
            "pooling": self._pooling,
            "query_prefix": self.query_prefix,
            "passage_prefix": self.passage_prefix,
            "max_length": self.max_length,
        }

    @property
    def dimension(self) -> int:
        """See `ragbench.embedders.base.Embedder`."""
        return self._encoder.dimension

    @property
    def hybrid_weight(self) -> float:
        """See `ragbench.embedders.base.Embedder`."""
        return 1.0

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `ragbench.embedders.base.Embedder`."""
        return unit_rows(self._encoder.encode(texts, prefix=self.query_prefix))

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `ragbench.embedders.base.Embedder`."""
        return unit_rows(self._encoder.encode(texts, prefix=self.passage_prefix))

    def close(self) -> None:
        """See `ragbench.embedders.base.Embedder`."""
        if "_encoder" in self.__dict__:
            self._encoder.close()

    @cached_property
    def _files(self) -> OnnxFiles:
        return find_onnx_files(self.model, file=self.file, revision=self.revision)

    @cached_property
    def _pooling(self) -> Pooling:
        return self.pooling or stated_pooling(self._files.tokenizer.parent) or "mean"

    @cached_property
    def _encoder(self) -> TextEncoder:
        return TextEncoder(
            self._files.model,
            self._files.tokenizer,
            pooling=self._pooling,
            max_length=self.max_length,
            threads=self.threads,
        )


def _digest(path: Path) -> str:
    whole = blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            whole.update(block)
    return whole.hexdigest()


def from_name(model: str, settings: Mapping[str, Any]) -> OnnxEmbedder:
    """See `ragbench.embedders.registry.EMBEDDERS`; the model is a folder or ``owner/name``."""
    if not model:
        raise ConfigError("the embedder onnx needs a model: onnx:FOLDER or onnx:owner/name")
    given = {"model": model, **settings}
    return cast("OnnxEmbedder", from_settings(OnnxEmbedder, given, where="embedder onnx"))
