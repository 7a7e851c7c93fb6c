"""A /rerank endpoint on this machine that scores a text by its length."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

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
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])


@contextmanager
def serving(
    answer: Callable[[dict[str, Any]], Answer] = by_length,
) -> Generator[Served, None, None]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            payload = json.loads(self.rfile.read(int(self.headers["content-length"])))
            served.requests.append(payload)
            served.headers.append({key.lower(): value for key, value in self.headers.items()})
            status, body = answer(payload)
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = Served(url=f"http://127.0.0.1:{server.server_port}/rerank")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
