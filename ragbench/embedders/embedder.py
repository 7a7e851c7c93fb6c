"""The protocol of an embedder, embedders by name, and what models want before texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    runtime_checkable,
)

from ragbench.errors import ConfigError
from ragbench.io.settings import from_settings
from ragbench.plugins import Registry, load_target

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

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


class ModelEmbedder:
    """What most embedders have in common."""

    __slots__ = ()

    @property
    def hybrid_weight(self) -> float:
        return 1.0

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self.embed_passages(texts)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        raise NotImplementedError

    def close(self) -> None: ...


_EmbedderT = TypeVar("_EmbedderT")


def of_model(
    kind: type[_EmbedderT], name: str, model: str, settings: Mapping[str, Any], *, forms: str
) -> _EmbedderT:
    """An embedder whose name has a model behind the colon."""
    if not model:
        raise ConfigError(f"the embedder {name} needs a model: {forms}")
    made = from_settings(kind, {"model": model, **settings}, where=f"embedder {name}")
    return cast("_EmbedderT", made)


def of_no_model(
    kind: type[_EmbedderT], name: str, model: str, settings: Mapping[str, Any]
) -> _EmbedderT:
    if model:
        raise ConfigError(f"the embedder {name} takes no model, found '{model}'")
    return cast("_EmbedderT", from_settings(kind, settings, where=f"embedder {name}"))


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
        "fastembed": "ragbench.embedders.loaded:fastembed_from_name",
        "sentence-transformers": "ragbench.embedders.loaded:sentence_transformers_from_name",
        "hashing": "ragbench.embedders.local:hashing_from_name",
        NO_EMBEDDER: "ragbench.embedders.local:no_embedder_from_name",
    },
)
"""Name to a function ``(model, settings)``: what stands behind the colon, and the settings."""
_SERVICES = ("cohere", "voyage", "jina")
"""Built in once."""


_OF_USERS = "ragbench.embedders.own:embedder_of_target"
"""What makes an embedder of an object of the user's; reached by name, as embedders are."""


def open_embedder(name: str = DEFAULT_EMBEDDER, **settings: Any) -> Embedder:
    """Makes an embedder; it loads its model or opens its connection when it is first used.

    Example:
        >>> open_embedder("hashing:64").dimension
        64

    Args:
        name: a registered name, and behind a colon the model where it takes one:
            ``"multilingual"``, ``"onnx:FOLDER"``, ``"openai:MODEL"``, ``"fastembed:MODEL"``,
            ``"sentence-transformers:MODEL"``, ``"hashing:256"``, ``"none"``; or ``file.py:thing``
            for an object with `Embedder`'s methods, or one of LangChain or LlamaIndex.
        **settings: of that embedder, such as ``query_prefix="query: "``.

    Raises:
        ConfigError: no such name, or a setting is unknown or wrong.
        MissingExtraError: a package that it needs is not installed.
    """
    kind, _, model = name.partition(":")
    known = EMBEDDERS.targets()
    if kind in _SERVICES and kind not in known:
        raise ConfigError(
            f"the embedder '{kind}' is no longer built in: put the service's embedding object of "
            "LangChain or LlamaIndex into a file and name it, as in file.py:embedder; or, where it "
            "has an endpoint like OpenAI's, take openai:MODEL with the setting base_url=URL"
        )
    if model and kind not in known and "." in kind:
        return cast("Embedder", load_target(_OF_USERS)(name, settings))
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


@runtime_checkable
class Windowed(Protocol):
    """An embedder whose vector of a long text says nothing of the text's end."""

    @property
    def window(self) -> int | None:
        """How many tokens it reads, special ones included; None where nothing is cut off."""
        ...

    def passage_tokens(self, texts: Sequence[str]) -> Sequence[int]:
        """How many tokens each passage has, with the prefix and special ones."""
        ...


def too_long(embedder: object, texts: Sequence[str]) -> int:
    """How many passages are longer than what an embedder reads."""
    if not isinstance(embedder, Windowed) or (window := embedder.window) is None:
        return 0
    # A token has a byte at least, so that most chunks need no tokenizer.
    long = [text for text in texts if len(text.encode()) * 2 > window]
    return sum(count > window for count in embedder.passage_tokens(long)) if long else 0


class Prefixes(NamedTuple):
    """What a model wants before each text; empty for nothing."""

    query: str
    passage: str


_SEARCH = "Represent this sentence for searching relevant passages: "
# Sources: the model cards of intfloat/e5-* and multilingual-e5-*, BAAI/bge-*-en and -zh,
# nomic-ai/nomic-embed-text, mixedbread-ai/mxbai-embed-large, Snowflake/snowflake-arctic-embed and
# google/embeddinggemma.
_KNOWN = (
    (r"(multilingual-)?e5-(small|base|large)(-v2)?", Prefixes("query: ", "passage: ")),
    (r"bge-(small|base|large)-en(-v1\.5)?", Prefixes(_SEARCH, "")),
    (
        r"bge-(small|base|large)-zh(-v1\.5)?",
        Prefixes("为这个句子生成表示以用于检索相关文章：", ""),
    ),
    (r"nomic-embed-text(-v\d+(\.\d+)?)?", Prefixes("search_query: ", "search_document: ")),
    (r"mxbai-embed-(large|xsmall)(-v1)?", Prefixes(_SEARCH, "")),
    (r"snowflake-arctic-embed(-xs|-s|-m|-l)?(-v1\.5)?", Prefixes(_SEARCH, "")),
    (
        r"embeddinggemma(-300m)?",
        Prefixes("task: search result | query: ", "title: none | text: "),
    ),
)


def known_prefixes(model: str) -> Prefixes:
    """The prefixes of a model by its name; empty ones where nothing is known.

    Example:
        >>> known_prefixes("intfloat/multilingual-e5-small")
        Prefixes(query='query: ', passage='passage: ')
    """
    name = model.replace("\\", "/").rstrip("/").rpartition("/")[2].partition(":")[0].lower()
    found = (prefixes for pattern, prefixes in _KNOWN if re.fullmatch(pattern, name))
    return next(found, Prefixes("", ""))
