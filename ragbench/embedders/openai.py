"""Vectors from an OpenAI-compatible endpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ragbench.core.chat import Vector
from ragbench.embedders.embedder import Kind, ModelEmbedder, checked_rows, prefixes_of
from ragbench.errors import ConfigError
from ragbench.llm.session import LLMSession, ModelClients, open_models
from ragbench.llm.settings import LLMSettings, resolve

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragbench.llm.budget import Budget
    from ragbench.llm.transport import Transport

_PROBE = "dimension"
_PREFIXES = ("query_prefix", "passage_prefix")


class OpenAIEmbedder(ModelEmbedder):
    """Any model behind ``/v1/embeddings``; batched, retried and kept by `EmbeddingClient`."""

    asks_endpoint = True
    """It waits for answers: workers would only share out its rate limit."""

    def __init__(
        self,
        settings: LLMSettings,
        *,
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        budget: Budget | None = None,
        transport: Transport | None = None,
    ) -> None:
        self._endpoint = settings.endpoint
        self._prefixes = prefixes_of(settings.endpoint.model, query_prefix, passage_prefix)
        self._session = LLMSession(
            lambda: open_models(None, settings, budget=budget, transport=transport)
        )

    @property
    def identity(self) -> Mapping[str, object]:
        """See `ragbench.embedders.embedder.Embedder`; the address is not part of it.

        The same model is often served at several addresses. That two of them give different
        vectors under one name cannot be known here.
        """
        return {
            "embedder": "openai",
            "model": self._endpoint.model,
            "extra": dict(self._endpoint.extra),
            "query_prefix": self._prefixes[0],
            "passage_prefix": self._prefixes[1],
        }

    @cached_property
    def dimension(self) -> int:
        """See `ragbench.embedders.embedder.Embedder`; asks for the vector of a word to know it."""
        return int(self._asked([_PROBE]).shape[1])

    def close(self) -> None:
        self._session.close()

    def _rows(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        return self._asked([getattr(self._prefixes, kind) + text for text in texts])

    def _asked(self, texts: Sequence[str]) -> NDArray[np.float32]:
        async def embed(models: ModelClients) -> Sequence[Vector]:
            assert models.embeddings is not None
            return (await models.embeddings.embed(texts, purpose="embed")).vectors

        named = f"the model '{self._endpoint.model}'"
        return checked_rows(self._session.run(embed), texts, named, ConfigError)


def from_name(model: str, settings: Mapping[str, Any]) -> OpenAIEmbedder:
    """See `ragbench.embedders.embedder.EMBEDDERS`; the model is the endpoint's name of it.

    Settings that are not prefixes are those of `ragbench.llm.settings.resolve`, such as
    ``base_url`` and ``api_key_env``; what is not given comes from the environment. The settings
    of a chat model that mean nothing here are left out.
    """
    if not model:
        raise ConfigError("the embedder openai needs a model: openai:MODEL")
    prefixes = {name: settings[name] for name in _PREFIXES if name in settings}
    rest = {name: value for name, value in settings.items() if name not in _PREFIXES}
    environ = {name: value for name, value in os.environ.items() if name not in _CHAT_ONLY}
    resolved = resolve({"model": model}, environ, section=rest, file=f"embedder openai:{model}")
    return OpenAIEmbedder(resolved, **prefixes)


_CHAT_ONLY = frozenset(
    {"RAGBENCH_LLM_EXTRA", "RAGBENCH_LLM_PRICE_INPUT", "RAGBENCH_LLM_PRICE_OUTPUT"}
)
"""Said of the chat model that the environment names."""
