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
from ragbench.io.http import JsonEndpoint
from ragbench.post.operator import Checked, Positive, Query
from ragbench.post.rerank import NotedScores, shown_texts

Shape = Literal["cohere", "jina", "mixedbread", "nim", "pinecone", "tei", "voyage"]
_NAMED = ("cohere", "mixedbread", "nim", "pinecone", "voyage")
"""Forms that need the name of a model."""
_RESULTS = ("results", "data", "rankings")
"""Where the list of results stands in an answer that is an object."""
_SCORES = ("relevance_score", "score", "logit")


def _texts(texts: list[str]) -> list[dict[str, str]]:
    return [{"text": text} for text in texts]


def _end(truncate: bool) -> str:
    return "END" if truncate else "NONE"


FORMS: Mapping[Shape, Callable[[str, list[str], bool], dict[str, Any]]] = {
    "cohere": lambda q, t, _: {"query": q, "documents": t, "top_n": len(t)},
    "jina": lambda q, t, _: {
        "query": q, "documents": t, "top_n": len(t), "return_documents": False,
    },
    "mixedbread": lambda q, t, _: {
        "query": q, "input": t, "top_k": len(t), "return_input": False,
    },
    "nim": lambda q, t, cut: {
        "query": {"text": q}, "passages": _texts(t), "truncate": _end(cut),
    },
    "pinecone": lambda q, t, cut: {
        "query": q, "documents": _texts(t), "top_n": len(t), "return_documents": False,
        "parameters": {"truncate": _end(cut)},
    },
    "tei": lambda q, t, cut: {"query": q, "texts": t, "truncate": cut, "return_text": False},
    "voyage": lambda q, t, cut: {
        "query": q, "documents": t, "top_k": len(t), "return_documents": False,
        "truncation": cut,
    },
}  # fmt: skip
"""What each form sends, besides the model: as the services document it in 2026."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpReranker(Checked):
    """Scores by a rerank endpoint: Cohere, Jina, Voyage, Mixedbread, Pinecone, TEI, NIM, or alike.

    A query and its chunks go in one request, or in several where ``batch_size`` says so. What is
    refused as too many requests is tried again after 1, 2, 4, ... seconds.
    """

    name = "http"

    asks_elsewhere: ClassVar[bool] = True
    scores_alone: ClassVar[bool] = True

    NEEDS: ClassVar[tuple[str, ...]] = ("extra http", "a server")

    url: str
    """The whole URL, such as ``"http://localhost:8080/rerank"``."""
    model: str | None = None
    """The model's name; all services want one but TEI."""
    shape: Shape = "jina"
    """The form of request and answer: that of Cohere (v2), of Jina (also vLLM, LiteLLM, Infinity),
    of Voyage, Mixedbread, Pinecone, of Text Embeddings Inference (``"tei"``) or of NVIDIA NIM."""
    truncate: bool = True
    """Whether the service may cut texts that are too long for its model, where its form has a word
    for it (Voyage, Pinecone, TEI, NIM). Else it refuses the whole request over one of them."""
    max_characters: Positive | None = None
    """How much of each chunk is sent; None for all of it. A note says how many were cut."""
    request: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """More fields of the request, such as ``{"rank_fields": ["text"]}``; they override ours."""
    api_key_env: str | None = None
    """The environment variable that holds the key, sent as a bearer token (Pinecone: as
    ``Api-Key``)."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Sent with every request."""
    timeout: float = 60.0
    """Seconds for connecting and for each read."""
    retries: int = 3
    """How often a request is repeated that the server could not take."""
    batch_size: Positive | None = None
    """How many chunks a request may hold; None for all. Text Embeddings Inference takes 32 unless
    configured otherwise."""
    sleep: Callable[[float], None] = field(
        default=time.sleep, compare=False, metadata={"setting": False}
    )
    """Waits between attempts; a test passes its own."""
    _endpoint: JsonEndpoint = field(init=False, compare=False)

    def __post_init__(self) -> None:
        needs_model = self.shape in _NAMED and not self.model
        Checked.__post_init__(self)
        if needs_model:
            raise ConfigError(f"model must be given: the shape '{self.shape}' needs one")
        endpoint = JsonEndpoint(
            self.url,
            headers={**self.headers, **self._authorization()},
            timeout=self.timeout,
            retries=self.retries,
            sleep=self.sleep,
        )
        object.__setattr__(self, "_endpoint", endpoint)

    def __repr__(self) -> str:
        return f"HttpReranker(url={self._endpoint.url!r}, model={self.model!r})"

    def score(self, query: Query, chunks: Sequence[Chunk]) -> NotedScores:
        texts, notes = shown_texts(chunks, self.max_characters)
        size = self.batch_size or len(texts)
        scores = tuple(
            score
            for start in range(0, len(texts), size)
            for score in self._batch(query.text, texts[start : start + size])
        )
        return NotedScores(scores, notes)

    def _batch(self, query: str, texts: list[str]) -> list[float]:
        named = {"model": self.model} if self.model else {}
        asked = FORMS[self.shape](query, texts, self.truncate)
        answer = self._endpoint.post("", {**named, **asked, **self.request})
        return _in_order(answer, len(texts), self._endpoint.url)

    def _authorization(self) -> dict[str, str]:
        if self.api_key_env is None:
            return {}
        key = os.environ.get(self.api_key_env)
        if not key:
            raise ConfigError(f"http: the environment variable {self.api_key_env} is not set")
        return {"Api-Key": key} if self.shape == "pinecone" else {"Authorization": f"Bearer {key}"}


def _in_order(answer: Any, size: int, where: str) -> list[float]:
    """The scores of an answer, by the index that each result names."""
    results: Any = answer
    if isinstance(answer, Mapping):
        known = cast("Mapping[str, Any]", answer)
        results = next((known[name] for name in _RESULTS if name in known), None)
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
        score = next((fields[name] for name in _SCORES if name in fields), None)
        if type(index) is int and isinstance(score, int | float) and math.isfinite(score):
            return index, float(score)
    raise InterfaceError(
        f"{where}: a result must hold 'index' and a number as {', '.join(map(repr, _SCORES))}"
    )
