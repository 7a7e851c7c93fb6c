"""Texts to vectors, through an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from ragbench.core.chat import Embeddings, Message, Reply, Usage, Vector
from ragbench.errors import ConfigError, LLMError
from ragbench.llm.answers import EmptyAnswerError, usage_of
from ragbench.llm.cache import cache_key
from ragbench.llm.caller import Caller, CallerOptions, Question
from ragbench.llm.endpoint import Endpoint

_BATCH = 64
_VERSION = "embedding"


class EmbeddingClient(Caller):
    """Embeds texts; opened and closed inside the event loop that asks, like `LLMClient`."""

    def __init__(self, endpoint: Endpoint, **options: Unpack[CallerOptions]) -> None:
        super().__init__(endpoint, **options)
        # What else chat models are given is nothing to embeddings.
        self._identity = {
            "base_url": endpoint.base_url,
            "model": endpoint.model,
            "extra": dict(endpoint.extra),
            "api_version": endpoint.api_version,
        }

    async def embed(self, texts: Sequence[str], *, purpose: str = "") -> Embeddings:
        """Gives the vectors of texts, or takes those that are known."""
        if not all(text.strip() for text in texts):
            raise ConfigError("an empty text cannot be embedded")
        keys = {
            text: cache_key(self._identity, [Message(role="user", content=text)], version=_VERSION)
            for text in texts
        }
        found = {text: vector for text, key in keys.items() if (vector := self._kept(key))}
        missing = [text for text in keys if text not in found]
        batches = [missing[start : start + _BATCH] for start in range(0, len(missing), _BATCH)]
        usage = Usage()
        asked = [asyncio.create_task(self._batch(batch, keys, purpose)) for batch in batches]
        try:
            for batch, task in zip(batches, asked, strict=True):
                vectors, used = await task
                found.update(zip(batch, vectors, strict=True))
                usage += used
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        return Embeddings(
            vectors=tuple(found[text] for text in texts),
            usage=usage,
            cost=None if self.price is None or not usage.reported else self.price.of(usage),
            cached=len(texts) - len(missing),
        )

    async def _batch(
        self, texts: list[str], keys: Mapping[str, bytes], purpose: str
    ) -> tuple[list[Vector], Usage]:
        model = self.endpoint.model
        payload = {"model": model, "input": texts, **self.endpoint.extra}
        spread = int.from_bytes(keys[texts[0]][:4], "big") / 2**32
        question = Question(purpose=purpose, spread=spread)

        def read(body: Mapping[str, Any]) -> tuple[list[Vector], Usage]:
            return _vectors(body, len(texts)), usage_of(body)

        try:
            vectors, usage = await self.call("/embeddings", payload, question, read, max_tokens=0)
        except LLMError:
            self.ledger.call(purpose, model, failed=True)
            raise
        self.ledger.call(purpose, model)
        if self.cache is not None:
            judge, usage_unknown = self.endpoint.fingerprint(), Usage(reported=False)
            for asked, vector in zip(texts, vectors, strict=True):
                text, key = json.dumps(vector), keys[asked]
                reply = Reply(value=text, text=text, usage=usage_unknown, model=model, key=key)
                self.cache.put(reply, judge=judge, model=model, purpose=purpose)
        return vectors, usage

    def _kept(self, key: bytes) -> Vector | None:
        kept = None if self.cache is None else self.cache.get(key)
        try:
            return None if kept is None else tuple(map(float, json.loads(kept.text)))
        except (TypeError, ValueError):
            return None


def _vectors(body: Mapping[str, Any], count: int) -> list[Vector]:
    """The vectors of an answer, in the order of the texts."""
    try:
        entries = sorted(body["data"], key=lambda entry: int(entry.get("index", 0)))
        vectors = [tuple(float(value) for value in entry["embedding"]) for entry in entries]
    except (AttributeError, KeyError, TypeError, ValueError):
        vectors = []
    if len(vectors) != count or len({len(vector) for vector in vectors}) != 1 or not vectors[0]:
        raise EmptyAnswerError(f"an answer without one vector for each of {count} texts")
    return vectors
