"""Models that fastembed and sentence-transformers load: by their names there, or from a folder."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ragbench.embedders.embedder import ModelEmbedder, Prefixes, known_prefixes, of_model, unit_rows
from ragbench.errors import ConfigError
from ragbench.plugins import require

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class FastembedEmbedder(ModelEmbedder):
    """A model of Qdrant's fastembed: ONNX on the CPU. Loaded when the first vector is asked for."""

    model: str
    """Its name there, such as ``BAAI/bge-small-en-v1.5``."""
    path: str | None = None
    """A folder with that model's files; None lets fastembed find or download them."""
    query_prefix: str | None = None
    """What the model wants before a question; None: what is known of it by its name
    (`ragbench.embedders.embedder`). fastembed itself adds none, but for models with tasks."""
    passage_prefix: str | None = None
    """The same before a passage."""
    threads: int | None = None
    """Threads of the ONNX runtime; None for its own choice."""
    batch_size: int = 64
    """Texts that are read at once."""

    @property
    def identity(self) -> Mapping[str, object]:
        """See `ragbench.embedders.embedder.Embedder`; a folder's model counts by its bytes."""
        return self._identity

    @cached_property
    def _identity(self) -> Mapping[str, object]:
        files = sorted(Path(self.path).glob("*.onnx")) if self.path is not None else []
        return {
            "embedder": "fastembed",
            "model": self.model,
            "files": [_digest(file) for file in files],
            "query_prefix": self._prefixes.query,
            "passage_prefix": self._prefixes.passage,
        }

    @cached_property
    def dimension(self) -> int:
        return int(self._model.embedding_size)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._rows(self._model.query_embed, self._prefixes.query, texts)

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._rows(self._model.passage_embed, self._prefixes.passage, texts)

    @property
    def window(self) -> int | None:
        known = getattr(self._tokenizer, "truncation", None)
        return None if known is None else int(known["max_length"])

    def passage_tokens(self, texts: Sequence[str]) -> Sequence[int]:
        """See `ragbench.embedders.embedder.Windowed`."""
        asked = [self._prefixes.passage + text for text in texts]
        return [_whole_length(found) for found in self._tokenizer.encode_batch(asked)]

    @property
    def _tokenizer(self) -> Any:
        """What the model reads texts by; None where it has another kind of reader."""
        return getattr(self._model.model, "tokenizer", None)

    def _rows(self, embed: Any, prefix: str, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        asked = [prefix + text for text in texts]
        return unit_rows(np.stack(list(embed(asked, batch_size=self.batch_size))))

    @property
    def _prefixes(self) -> Prefixes:
        return _prefixes(self.model, self.query_prefix, self.passage_prefix)

    @cached_property
    def _model(self) -> Any:
        package = require("fastembed", extra="fastembed")
        folder = {} if self.path is None else {"specific_model_path": self.path}
        try:
            return package.TextEmbedding(self.model, threads=self.threads, **folder)
        except (ValueError, OSError) as error:
            raise ConfigError(
                f"fastembed cannot load the model '{self.model}': {' '.join(str(error).split())}"
            ) from error


@dataclass(frozen=True, kw_only=True)
class SentenceTransformersEmbedder(ModelEmbedder):
    """Any model of sentence-transformers, with the prompts that it brings.

    The package is no extra of ragbench: it brings PyTorch, and each machine wants another build.
    """

    model: str
    """A folder, or ``owner/name`` on the Hugging Face hub."""
    revision: str | None = None
    """Branch, tag or commit there."""
    query_prefix: str | None = None
    """What stands before a question; None: the model's own prompt for questions, and where it has
    none what is known of it by its name (`ragbench.embedders.embedder`)."""
    passage_prefix: str | None = None
    """The same before a passage."""
    device: str | None = None
    """Such as ``"cpu"`` or ``"cuda"``; None for the package's own choice."""
    batch_size: int = 32
    """Texts that are read at once."""

    @property
    def identity(self) -> Mapping[str, object]:
        """See `ragbench.embedders.embedder.Embedder`; of a folder its last part is the name."""
        return {
            "embedder": "sentence-transformers",
            "model": Path(self.model).name if Path(self.model).is_dir() else self.model,
            "revision": self.revision,
            "query_prefix": self._prompt("query"),
            "passage_prefix": self._prompt("passage"),
        }

    @cached_property
    def dimension(self) -> int:
        return int(self._rows(["dimension"], "query").shape[1])

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._rows(texts, "query")

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._rows(texts, "passage")

    @property
    def window(self) -> int | None:
        most: Any = getattr(self._model, "max_seq_length", None)
        if most is None or math.isinf(most) or not callable(self._model.tokenizer):
            return None
        return int(most)

    def passage_tokens(self, texts: Sequence[str]) -> Sequence[int]:
        """See `ragbench.embedders.embedder.Windowed`."""
        asked = [self._prompt("passage") + text for text in texts]
        found = self._model.tokenizer(asked, truncation=False, verbose=False)
        return [len(ids) for ids in found["input_ids"]]

    def _rows(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> NDArray[np.float32]:
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        rows = self._model.encode(
            list(texts),
            prompt=self._prompt(kind),
            batch_size=self.batch_size,
            show_progress_bar=False,
            convert_to_numpy=True,
        )
        return unit_rows(rows)

    def _prompt(self, kind: Literal["query", "passage"]) -> str:
        given = self.query_prefix if kind == "query" else self.passage_prefix
        if given is not None:
            return given
        own: Mapping[str, str] = self._model.prompts or {}
        names = ("query",) if kind == "query" else ("document", "passage", "corpus")
        stated = next((own[name] for name in names if own.get(name)), "")
        known = known_prefixes(self.model)
        return stated or (known.query if kind == "query" else known.passage)

    @cached_property
    def _model(self) -> Any:
        package: Any = require("sentence_transformers", extra="sentence-transformers")
        try:
            return package.SentenceTransformer(
                self.model, device=self.device, revision=self.revision
            )
        except (ValueError, OSError) as error:
            raise ConfigError(
                f"sentence-transformers cannot load the model '{self.model}': "
                f"{' '.join(str(error).split())[:300]}"
            ) from error


def _whole_length(encoding: Any) -> int:
    """Tokens of a text of which a tokenizer cut off what is in ``overflowing``."""
    read: int = sum(encoding.attention_mask)
    for part in encoding.overflowing:  # each with special tokens and filling of its own
        masks = zip(part.attention_mask, part.special_tokens_mask, strict=True)
        read += sum(1 for counts, is_special in masks if counts and not is_special)
    return read


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _prefixes(model: str, query: str | None, passage: str | None) -> Prefixes:
    known = known_prefixes(model)
    return Prefixes(
        known.query if query is None else query, known.passage if passage is None else passage
    )


def fastembed_from_name(model: str, settings: Mapping[str, Any]) -> FastembedEmbedder:
    forms = "fastembed:owner/name"
    return of_model(FastembedEmbedder, "fastembed", model, settings, forms=forms)


def sentence_transformers_from_name(
    model: str, settings: Mapping[str, Any]
) -> SentenceTransformersEmbedder:
    name = "sentence-transformers"
    forms = f"{name}:owner/name or {name}:FOLDER"
    return of_model(SentenceTransformersEmbedder, name, model, settings, forms=forms)
