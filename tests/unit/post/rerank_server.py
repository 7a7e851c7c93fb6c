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
    tei = "texts" in payload
    texts: list[str] = payload["texts" if tei else "documents"]
    key = "score" if tei else "relevance_score"
    results = [{"index": at, key: len(text) / 1000} for at, text in enumerate(texts)]
    results.sort(key=lambda result: -result[key])
    return 200, results if tei else {"results": results}


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
