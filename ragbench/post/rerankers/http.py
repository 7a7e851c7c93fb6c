"""A reranking service behind HTTP."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, cast

from ragbench.core.chunk import Chunk
from ragbench.errors import ConfigError, InterfaceError
from ragbench.io.http import HTTPRagError, JsonEndpoint
from ragbench.post.operator import Query

__all__ = [
    "HttpReranker",
]

_TOO_MANY = 429


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpReranker:
    """Scores by a ``/rerank`` endpoint: Cohere (v2), Jina, Text Embeddings Inference, or alike.

    A query and its chunks go in one request, or in several where ``batch_size`` says so. What is
    refused as too many requests is tried again after 1, 2, 4, ... seconds.
    """

    NEEDS: ClassVar[tuple[str, ...]] = ("extra http", "a server")

    url: str
    """The whole URL, such as ``"http://localhost:8080/rerank"``."""
    model: str | None = None
    """The model's name; Cohere and Jina want one."""
    shape: Literal["cohere", "jina", "tei"] = "jina"
    """What is sent. ``"cohere"``: query, documents. ``"jina"``: the same and
    ``return_documents: false``. ``"tei"``: query, texts; too long ones are refused, not cut."""
    api_key_env: str | None = None
    """The environment variable that holds the key, sent as a bearer token."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Sent with every request."""
    timeout: float = 60.0
    """Seconds for connecting and for each read."""
    retries: int = 3
    """How often a request is repeated that the server could not take."""
    batch_size: int | None = None
    """How many chunks a request may hold; None for all. Text Embeddings Inference takes 32 unless
    it is told otherwise."""
    sleep: Callable[[float], None] = field(
        default=time.sleep, compare=False, metadata={"setting": False}
    )
    """Waits between attempts; a test passes its own."""
    _endpoint: JsonEndpoint = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Refuses settings out of their range; opens no connection."""
        if self.batch_size is not None and self.batch_size < 1:
            raise ConfigError(f"http: batch_size must be at least 1, not {self.batch_size}")
        if self.shape == "cohere" and not self.model:
            raise ConfigError("http: the shape 'cohere' needs a model")
        endpoint = JsonEndpoint(
            self.url,
            headers={**self.headers, **self._authorization()},
            timeout=self.timeout,
            retries=self.retries,
            sleep=self.sleep,
        )
        object.__setattr__(self, "_endpoint", endpoint)

    @property
    def name(self) -> str:
        """``"http"``."""
        return "http"

    def __repr__(self) -> str:
        """Without credentials: neither headers nor what the URL holds of them."""
        return f"HttpReranker(url={self._endpoint.url!r}, model={self.model!r})"

    def score(self, query: Query, chunks: Sequence[Chunk]) -> list[float]:
        """The service's scores.

        Raises:
            HTTPRagError: the request failed; the message holds no credentials.
            InterfaceError: the answer does not have one score for each chunk.
            StageTimeoutError: the service took longer than the timeout.
        """
        texts = [chunk.text for chunk in chunks]
        size = self.batch_size or len(texts)
        return [
            score
            for start in range(0, len(texts), size)
            for score in self._batch(query.text, texts[start : start + size])
        ]

    def _batch(self, query: str, texts: list[str]) -> list[float]:
        answer = self._post(self._payload(query, texts))
        return _in_order(answer, len(texts), self._endpoint.url)

    def _payload(self, query: str, texts: list[str]) -> dict[str, Any]:
        if self.shape == "tei":
            return {"query": query, "texts": texts, "truncate": False, "return_text": False}
        payload: dict[str, Any] = {"query": query, "documents": texts, "top_n": len(texts)}
        if self.model:
            payload["model"] = self.model
        if self.shape == "jina":
            payload["return_documents"] = False
        return payload

    def _post(self, payload: dict[str, Any]) -> Any:
        for attempt in range(self.retries):
            try:
                return self._endpoint.post("", payload)
            except HTTPRagError as error:
                if error.status != _TOO_MANY:
                    raise
            self.sleep(float(2**attempt))
        return self._endpoint.post("", payload)

    def _authorization(self) -> dict[str, str]:
        if self.api_key_env is None:
            return {}
        key = os.environ.get(self.api_key_env)
        if not key:
            raise ConfigError(f"http: the environment variable {self.api_key_env} is not set")
        return {"Authorization": f"Bearer {key}"}


def _in_order(answer: Any, size: int, where: str) -> list[float]:
    """The scores of an answer, by the index that each result names."""
    results: Any = answer
    if isinstance(answer, Mapping):
        known = cast("Mapping[str, Any]", answer)
        results = known.get("results", known.get("data"))
    if not isinstance(results, list):
        raise InterfaceError(f"{where} must answer with a list of results")
    scores: dict[int, float] = {}
    for result in cast("list[Any]", results):
        index, score = _result(result, where)
        if not 0 <= index < size or index in scores:
            raise InterfaceError(f"{where} answered with the index {index} for {size} chunks")
        scores[index] = score
    if len(scores) != size:
        raise InterfaceError(f"{where} answered with {len(scores)} scores for {size} chunks")
    return [scores[index] for index in range(size)]


def _result(result: Any, where: str) -> tuple[int, float]:
    if isinstance(result, Mapping):
        fields = cast("Mapping[str, Any]", result)
        index = fields.get("index")
        score = fields.get("relevance_score", fields.get("score"))
        if type(index) is int and isinstance(score, int | float) and math.isfinite(score):
            return index, float(score)
    raise InterfaceError(
        f"{where}: a result must hold 'index' and a number as 'relevance_score' or 'score'"
    )
