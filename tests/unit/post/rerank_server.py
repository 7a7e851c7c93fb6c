"""A /rerank endpoint on this machine that scores a text by its length."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.json_server import serving_json

Answer = tuple[int, Any]


def by_length(payload: dict[str, Any]) -> Answer:
    """Answers in the shape that was asked in, best first."""
    is_tei = "texts" in payload
    texts: list[str] = payload["texts"] if is_tei else payload["documents"]
    score_key = "score" if is_tei else "relevance_score"

    results = []
    for index, text in enumerate(texts):
        results.append({"index": index, score_key: len(text) / 1000})
    results.sort(key=lambda result: result[score_key], reverse=True)

    if is_tei:
        return 200, results
    return 200, {"results": results}


@dataclass
class Served:
    url: str
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    headers: list[Any] = field(default_factory=list[Any])


@contextmanager
def serving(
    answer: Callable[[dict[str, Any]], Answer] = by_length,
) -> Generator[Served, None, None]:
    served = Served(url="")

    def answered(_: str, path: str, payload: Any) -> Answer:
        served.requests.append(payload)
        return answer(payload)

    with serving_json(answered, heard=served.headers.append) as url:
        served.url = f"{url}/rerank"
        yield served
