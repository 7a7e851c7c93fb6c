"""A server on this machine that answers each request by a function."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answering = Callable[[str, str, Any], tuple[int, Any]]
"""Of a method, a path and the body's JSON (a text where it is none): the status, and what is sent
as JSON (bytes as is)."""


def _parsed(body: bytes) -> Any:
    if not body:
        return None
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()


@contextmanager
def serving_json(
    answer: Answering,
    headers: Mapping[str, str] | None = None,
    heard: Callable[[Mapping[str, str]], object] = bool,
) -> Generator[str]:
    """The server's address; every answer carries the headers, and those of requests are heard."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body in one packet: apart, the second waits 40 ms for the client's receipt.
        wbufsize = -1

        def respond(self) -> None:
            heard({key.lower(): value for key, value in self.headers.items()})
            size = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(size)
            status, answered = answer(self.command, self.path, _parsed(body))
            if answered is None:
                content = b""
            elif isinstance(answered, bytes):
                content = answered
            else:
                content = json.dumps(answered).encode()
            self.send_response(status)
            sent_headers = {
                "content-type": "application/json",
                "content-length": str(len(content)),
                **(headers or {}),
            }
            for name, value in sent_headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = do_HEAD = respond

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
