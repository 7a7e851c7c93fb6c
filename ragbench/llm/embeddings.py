"""Texts to vectors, through an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Self, Unpack, cast

from ragbench.core.chat import Embeddings, Message, Reply, Usage, Vector
from ragbench.errors import ConfigError, LLMError
from ragbench.llm.answers import EmptyAnswerError, usage_of
from ragbench.llm.book import Receipt
from ragbench.llm.cache import ResponseCache, cache_key
from ragbench.llm.caller import AttemptLog, Caller, CallerOptions, Request
from ragbench.llm.endpoint import Endpoint

_BATCH = 64
_VERSION = "embedding"


class EmbeddingClient:
    """Embeds texts; opened and closed inside the event loop that asks, like `LLMClient`."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        cache: ResponseCache | None = None,
        **options: Unpack[CallerOptions],
    ) -> None:
        self.endpoint = endpoint
        self._caller = Caller(endpoint, **options)
        self._cache = cache
        # What else chat models are given is nothing to embeddings.
        self._identity = {
            "base_url": endpoint.base_url,
            "model": endpoint.model,
            "extra": dict(endpoint.extra),
            "api_version": endpoint.api_version,
        }

    async def __aenter__(self) -> Self:
        await self._caller.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._caller.close()

    def knows(self, text: str) -> bool:
        """Whether a text's vector is kept; the client need not be open."""
        return self._kept(self._key(text)) is not None

    def receipt(self) -> Receipt:
        return self._caller.ledger.receipt()

    async def embed(self, texts: Sequence[str], *, purpose: str = "") -> Embeddings:
        """Gives the vectors of texts, or takes those that are known."""
        if not all(text.strip() for text in texts):
            raise ConfigError("an empty text cannot be embedded")
        keys = {text: self._key(text) for text in texts}
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
        price = self._caller.price
        return Embeddings(
            vectors=tuple(found[text] for text in texts),
            usage=usage,
            cost=None if price is None or not usage.reported else price.of(usage),
            cached=len(texts) - len(missing),
        )

    async def _batch(
        self, texts: list[str], keys: Mapping[str, bytes], purpose: str
    ) -> tuple[list[Vector], Usage]:
        endpoint, ledger = self.endpoint, self._caller.ledger
        payload = {"model": endpoint.model, "input": texts, **endpoint.extra}
        request = Request(path="/embeddings", payload=payload, purpose=purpose, max_tokens=0)
        spread = int.from_bytes(keys[texts[0]][:4], "big") / 2**32

        def read(body: Mapping[str, Any]) -> tuple[list[Vector], Usage]:
            return _vectors(body, len(texts)), usage_of(body)

        try:
            vectors, usage = await self._caller.call(
                request, read, spread=spread, tries=AttemptLog()
            )
        except LLMError:
            ledger.call(purpose, endpoint.model, failed=True)
            raise
        ledger.call(purpose, endpoint.model)
        for text, vector in zip(texts, vectors, strict=True):
            self._keep(keys[text], vector, purpose)
        return vectors, usage

    def _key(self, text: str) -> bytes:
        return cache_key(self._identity, [Message(role="user", content=text)], version=_VERSION)

    def _kept(self, key: bytes) -> Vector | None:
        kept = None if self._cache is None else self._cache.get(key)
        try:
            return None if kept is None else tuple(map(float, json.loads(kept.text)))
        except (TypeError, ValueError):
            return None

    def _keep(self, key: bytes, vector: Vector, purpose: str) -> None:
        if self._cache is None:
            return
        text = json.dumps(vector)
        reply = Reply(
            value=text,
            text=text,
            usage=Usage(reported=False),
            cost=None,
            model=self.endpoint.model,
            finish_reason="",
            cached=False,
            repaired=False,
            attempts=1,
            seconds=0.0,
            key=key,
        )
        judge = self.endpoint.fingerprint()
        self._cache.put(reply, judge=judge, model=self.endpoint.model, purpose=purpose)


def _vectors(body: Mapping[str, Any], count: int) -> list[Vector]:
    """The vectors of an answer, in the order of the texts."""
    data = body.get("data")
    entries = [
        cast("dict[str, Any]", entry)
        for entry in (cast("list[Any]", data) if isinstance(data, list) else [])
        if isinstance(entry, dict)
    ]
    try:
        entries.sort(key=lambda entry: int(entry.get("index", 0)))
        vectors = [tuple(float(value) for value in entry["embedding"]) for entry in entries]
    except (KeyError, TypeError, ValueError):
        vectors = []
    if len(vectors) != count or len({len(vector) for vector in vectors}) != 1 or not vectors[0]:
        raise EmptyAnswerError(f"an answer without one vector for each of {count} texts")
    return vectors
