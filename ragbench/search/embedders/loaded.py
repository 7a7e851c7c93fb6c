"""Embedders that others bring: models of packages and endpoints, objects of users.

An object is one of LangChain or LlamaIndex, or has the methods of `Embedder`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from ragbench.core.chat import Vector
from ragbench.errors import ConfigError, InterfaceError
from ragbench.io.settings import FilePath, ModelPath, built_own
from ragbench.llm.session import LLMSession, ModelClients, open_models
from ragbench.llm.settings import LLMSettings, resolve
from ragbench.plugins import Floats32, np, require
from ragbench.search.embedders.embedder import (
    Embedder,
    Kind,
    MeasuredEmbedder,
    PrefixedEmbedder,
    checked_rows,
    prefixes_of,
)

if TYPE_CHECKING:
    from ragbench.llm.transport import Transport


@dataclass(frozen=True, kw_only=True)
class FastembedEmbedder(PrefixedEmbedder):
    """A model of Qdrant's fastembed: ONNX on the CPU. Loaded when the first vector is asked for."""

    model: str
    """Its name there, such as ``BAAI/bge-small-en-v1.5``."""
    path: FilePath | None = None
    """A folder with that model's files; None lets fastembed find or download them."""
    threads: int | None = None
    """Threads of the ONNX runtime; None for its own choice."""
    batch_size: int = 64
    """Texts that are read at once."""

    @cached_property
    def identity(self) -> Mapping[str, object]:
        """All that the vectors of fastembed's model depend on; a folder counts by its bytes.

        A collection stores it, and refuses questions by an embedder with another one.
        """
        files: list[Path] = []
        if self.path is not None:
            # Sorted: the order in which a disk lists files must not change the identity.
            files = sorted(Path(self.path).glob("*.onnx"))
        return {
            "embedder": "fastembed",
            "model": self.model,
            "files": [_digest(file) for file in files],
            "query_prefix": self.prefixes.query,
            "passage_prefix": self.prefixes.passage,
        }

    @cached_property
    def dimension(self) -> int:
        """How many numbers the model's vectors have, as fastembed lists it of the model.

        A store fixes the width of its vectors with it.
        """
        return int(self._model.embedding_size)

    def _rows(self, texts: Sequence[str], kind: Kind) -> Floats32:
        """The vectors of texts by fastembed's model, each text with the prefix of its kind.

        Some of fastembed's models read questions and passages by two methods of their own.
        """
        # Two methods, as some of its models read questions and passages in different ways.
        embed = self._model.query_embed if kind == "query" else self._model.passage_embed
        prefix = getattr(self.prefixes, kind)
        prefixed = [prefix + text for text in texts]
        vectors = embed(prefixed, batch_size=self.batch_size)
        return np.stack(list(vectors))

    def import_packages(self) -> None:
        """Fails at once where fastembed is not installed, not after minutes at the first text.

        A command calls it before its work begins.
        """
        require("fastembed", extra="fastembed")

    @cached_property
    def _model(self) -> Any:
        """The model of fastembed, loaded at the first text; a first use may download it.

        Raises:
            ConfigError: fastembed has no such model, or cannot load it.
        """
        package = require("fastembed", extra="fastembed")
        options: dict[str, str] = {}
        if self.path is not None:
            # The option's name is fastembed's; without the option fastembed looks for the model
            # where it keeps downloads.
            options["specific_model_path"] = self.path
        try:
            return package.TextEmbedding(self.model, threads=self.threads, **options)
        except (ValueError, OSError) as error:
            raise _not_loaded("fastembed", self.model, error) from error


@dataclass(frozen=True, kw_only=True)
class SentenceTransformersEmbedder(PrefixedEmbedder, MeasuredEmbedder):
    """Any model of sentence-transformers, with the prompts that it brings.

    The package is no extra of ragbench: it brings PyTorch, and each machine wants another build.
    """

    model: ModelPath
    """A folder, or ``owner/name`` on the Hugging Face hub."""
    revision: str | None = None
    """Branch, tag or commit there."""
    query_prefix: str | None = None
    """What stands before a question; None: the model's own prompt for questions, and where it has
    none what is known of it by its name (`ragbench.search.embedders.embedder`)."""
    device: str | None = None
    """Such as ``"cpu"`` or ``"cuda"``; None for the package's own choice."""
    batch_size: int = 32
    """Texts that are read at once."""

    @property
    def identity(self) -> Mapping[str, object]:
        """All that the vectors of the sentence-transformers model depend on.

        A folder counts by its name, not by where it is: so a copy of the project on another machine
        reads the same collections. A collection stores this identity, and refuses questions by an
        embedder with another identity.
        """
        model = self.model
        if Path(model).is_dir():
            model = Path(model).name
        # These keys cannot change: stored collections are compared with them.
        return {
            "embedder": "sentence-transformers",
            "model": model,
            "revision": self.revision,
            "query_prefix": self._prompt("query"),
            "passage_prefix": self._prompt("passage"),
        }

    def _rows(self, texts: Sequence[str], kind: Kind) -> Any:
        """The vectors of texts by the sentence-transformers model, their prefix as a prompt.

        A vector has any length: the base class brings it to length 1.
        """
        return self._model.encode(
            list(texts),
            prompt=self._prompt(kind),
            batch_size=self.batch_size,
            show_progress_bar=False,
            convert_to_numpy=True,
        )

    def _prompt(self, kind: Kind) -> str:
        """The text that the model gets before a question or passage; without it, it ranks worse.

        The user's prefix counts first, then the prompt that the model brings, then the prefix that
        is known by its name.
        """
        prefix = getattr(self, f"{kind}_prefix")
        if prefix is not None:
            return str(prefix)
        prompts: Mapping[str, str] = self._model.prompts or {}
        # The names under which models keep their prompts for passages differ.
        names = ("query",) if kind == "query" else ("document", "passage", "corpus")
        for name in names:
            prompt = prompts.get(name)
            if prompt:
                return prompt
        return str(getattr(self.prefixes, kind))

    def import_packages(self) -> None:
        """Fails at once where sentence-transformers is not installed, not at the first text.

        A command calls it before its work begins.
        """
        require("sentence_transformers", extra="sentence-transformers")

    @cached_property
    def _model(self) -> Any:
        """The model of sentence-transformers, loaded at the first text, and perhaps downloaded.

        Raises:
            ConfigError: there is no such model, or it cannot be loaded.
        """
        package = require("sentence_transformers", extra="sentence-transformers")
        make: Any = package.SentenceTransformer
        try:
            return make(self.model, device=self.device, revision=self.revision)
        except (ValueError, OSError) as error:
            raise _not_loaded("sentence-transformers", self.model, error) from error


def _not_loaded(package: str, model: str, error: Exception) -> ConfigError:
    """The error of a model that a package cannot load, with the package's reason in one line.

    Packages raise errors of many lines, of which the beginning names the cause.
    """
    problem = " ".join(str(error).split())[:300]
    return ConfigError(f"{package} cannot load the model '{model}': {problem}")


def _digest(path: Path) -> str:
    """The SHA-256 of a model's file: by it other weights under the same name are noticed.

    Identities of stored collections hold it: another digest would make each of them unreadable.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- objects of users

_OWN_METHODS = ("embed_queries", "embed_passages")
"""Those of `Embedder` that make vectors."""
_FOREIGN_METHODS = (
    ("embed_query", "embed_documents"),
    ("get_query_embedding", "get_text_embedding_batch"),
)
"""How LangChain and LlamaIndex embed a question, and passages."""
_MODEL_ATTRIBUTES = ("model", "model_name", "model_id", "deployment")
"""Attributes by which such objects name their model."""


def embedder_of_target(
    spec: str, settings: Mapping[str, Any], *, search_path: str | Path = "."
) -> Embedder:
    """The user's own embedder that ``file.py:thing`` or ``package.module:thing`` names.

    Objects of LangChain and LlamaIndex are recognised by their methods, so that a team can evaluate
    with the object that its application has.

    Args:
        spec: names an embedder, or a class or function that makes one from the settings.
        search_path: the folder that a relative file is looked for in.
    """
    thing: object = built_own(spec, settings, folder=search_path, offers=_embeds_queries)
    # ragbench's own form first: an object may have a framework's methods beside it.
    if _has_methods(thing, *_OWN_METHODS):
        return cast("Embedder", thing)
    for query_method, passages_method in _FOREIGN_METHODS:
        if _has_methods(thing, query_method, passages_method):
            embed_query = getattr(thing, query_method)
            embed_passages = getattr(thing, passages_method)
            return cast("Embedder", _Adapted(spec, thing, embed_query, embed_passages))
    raise ConfigError(
        f"'{spec}' is not an embedder: it has neither embed_queries and embed_passages, nor the "
        "methods of an embedding object of LangChain (embed_query, embed_documents) or LlamaIndex "
        "(get_query_embedding, get_text_embedding_batch)"
    )


def _embeds_queries(thing: object) -> bool:
    """Whether an object, or the instances of a class, may be an embedder: it embeds questions.

    By this the user's class or object is told from a function that makes one. Whether it also
    embeds passages, the caller checks with a message of its own.
    """
    method_pairs = (_OWN_METHODS, *_FOREIGN_METHODS)
    return any(_has_methods(thing, query_method) for query_method, _ in method_pairs)


def _has_methods(thing: object, *methods: str) -> bool:
    """Whether an object has all these methods: frameworks are recognised so, and not imported.

    So an object of LangChain or LlamaIndex works, whichever release of it is installed.
    """
    return all(callable(getattr(thing, method, None)) for method in methods)


@dataclass(frozen=True)
class _Adapted(MeasuredEmbedder):
    """An embedding object of LangChain or LlamaIndex as an embedder.

    So a team evaluates with the object that its application has, and writes no class for it.
    """

    asks_endpoint: ClassVar[bool] = True
    """Most wait for a service: workers would only share out its rate limit."""

    name: str
    """As the user wrote it, for messages."""
    thing: Any
    """The framework's object."""
    query: Callable[[str], Sequence[float]]
    """Its method for one question."""
    passages: Callable[[list[str]], Sequence[Sequence[float]]]
    """Its method for a list of passages."""

    @property
    def identity(self) -> Mapping[str, object]:
        """The identity of a framework's embedding object: its class and the model that it names.

        No more is known of it, so two settings of one model share an identity.
        """
        kind: type[Any] = type(cast("object", self.thing))
        model = ""
        for attribute in _MODEL_ATTRIBUTES:
            value = getattr(self.thing, attribute, None)
            # Some objects keep the model itself under such a name, and its name under the next.
            if isinstance(value, str):
                model = value
                break
        return {"embedder": f"{kind.__module__}:{kind.__qualname__}", "model": model}

    def _rows(self, texts: Sequence[str], kind: Kind) -> Floats32:
        """The vectors by the framework's own methods, checked: a row of numbers for each text.

        Raises:
            InterfaceError: the object returned anything else.
        """
        vectors: Sequence[Sequence[float]]
        if kind == "query":  # the frameworks take questions one by one
            vectors = [self.query(text) for text in texts]
        else:
            vectors = self.passages(list(texts))
        return checked_rows(vectors, texts, f"'{self.name}'", InterfaceError)


# --- vectors from an OpenAI-compatible endpoint

_PREFIXES = ("query_prefix", "passage_prefix")
"""Settings of the embedder itself; all others are those of the endpoint."""


class OpenAIEmbedder(MeasuredEmbedder):
    """Any model behind ``/v1/embeddings``; batched, retried and kept by `EmbeddingClient`."""

    asks_endpoint = True
    """It waits for answers: workers would only share out its rate limit."""

    def __init__(
        self,
        settings: LLMSettings,
        *,
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        transport: Transport | None = None,
    ) -> None:
        """Takes the settings of the endpoint; a connection is opened with the first text.

        Args:
            query_prefix: the text before a question; None for the model's known prefix.
            passage_prefix: the same before a passage.
            transport: sends the requests; None for the network.
        """
        self._endpoint = settings.endpoint
        self._prefixes = prefixes_of(settings.endpoint.model, query_prefix, passage_prefix)
        self._session = LLMSession(lambda: open_models(None, settings, transport=transport))
        """The session with the endpoint: opened with the first text, kept for all later texts."""

    def import_packages(self) -> None:
        """Fails at once where a package for endpoints is missing, not at the first text.

        A command calls it before its work begins.
        """
        self._session.import_packages()

    @property
    def identity(self) -> Mapping[str, object]:
        """All that the endpoint's vectors depend on; its address is not part of it.

        The same model is often served at several addresses. Whether two addresses give different
        vectors under one model's name cannot be known here. A collection stores this identity, and
        refuses questions by an embedder with another identity.
        """
        return {
            "embedder": "openai",
            "model": self._endpoint.model,
            "extra": dict(self._endpoint.extra),  # fields of the request, which may change vectors
            "query_prefix": self._prefixes.query,
            "passage_prefix": self._prefixes.passage,
        }

    def close(self) -> None:
        """Ends the session with the endpoint: its connections and its thread.

        Called once, at the end of a command.
        """
        self._session.close()

    def _rows(self, texts: Sequence[str], kind: Kind) -> Floats32:
        """The endpoint's vectors of texts with their prefixes, checked: a row of numbers for each.

        Raises:
            ConfigError: the endpoint returned anything else.
        """
        prefix = getattr(self._prefixes, kind)
        prefixed = [prefix + text for text in texts]
        # Embedders are called without an event loop: the session has one in a thread of its own.
        vectors = self._session.run(partial(_vectors_of_endpoint, prefixed))
        label = f"the model '{self._endpoint.model}'"
        return checked_rows(vectors, prefixed, label, ConfigError)


async def _vectors_of_endpoint(texts: Sequence[str], models: ModelClients) -> Sequence[Vector]:
    """The endpoint's vectors of some texts; runs in the event loop of a model session.

    Args:
        texts: with their prefixes; the client sends them in batches and keeps their vectors.
        models: the session's clients, one of which is for embeddings.
    """
    assert models.embeddings is not None  # `OpenAIEmbedder.__init__` names a model for them
    return await models.embeddings.embed(texts, purpose="embed")


def from_name(model: str, settings: Mapping[str, Any]) -> OpenAIEmbedder:
    """The embedder ``openai:MODEL`` with its settings; the model is named as the endpoint names it.

    Settings that are not prefixes are those of `ragbench.llm.settings.resolve`, such as
    ``base_url`` and ``api_key_env``; what is not given comes from the environment. The settings
    of a chat model that mean nothing here are left out.
    """
    if not model:
        raise ConfigError("the embedder openai needs a model: openai:MODEL")
    prefixes: dict[str, Any] = {}
    endpoint_settings: dict[str, Any] = {}
    for name, value in settings.items():
        if name in _PREFIXES:
            prefixes[name] = value
        else:
            endpoint_settings[name] = value
    # Only what fits an endpoint for vectors: a chat model's further fields are left out.
    environ = {name: value for name, value in os.environ.items() if name not in _CHAT_ONLY}
    where = f"embedder openai:{model}"
    resolved = resolve({"model": model}, environ, section=endpoint_settings, file=where)
    return OpenAIEmbedder(resolved, **prefixes)


_CHAT_ONLY = {f"RAGBENCH_LLM_{name}" for name in ("EXTRA", "PRICE_INPUT", "PRICE_OUTPUT")}
"""Variables that describe the chat model: its further fields mean nothing to an endpoint for
vectors, and its prices are others. Address, key and limits are often shared, and are read."""
