"""A real HTTP server on this machine, told by each test how to answer."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: Any
    connection: int


@dataclass
class Answer:
    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    text: str | None = None
    """Sent as it is instead of the body."""


@dataclass
class Server:
    url: str
    requests: list[Request] = field(default_factory=list[Request])
    answers: list[Answer | Callable[[Request], Answer]] = field(
        default_factory=list[Answer | Callable[[Request], Answer]]
    )
    """Given in turn; the last one again and again."""
    page: Answer | None = None
    """What a GET is answered with; 404 where there is none."""

    def then(self, *answers: Answer | Callable[[Request], Answer]) -> None:
        self.answers.extend(answers)

    def next(self, request: Request) -> Answer:
        position = min(len(self.requests), len(self.answers)) - 1
        chosen = self.answers[position]
        return chosen if isinstance(chosen, Answer) else chosen(request)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_state: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        request = Request(
            self.path,
            {key.lower(): value for key, value in self.headers.items()},
            json.loads(body),
            self.client_address[1],
        )
        self.server_state.requests.append(request)
        self.send(self.server_state.next(request))

    def do_GET(self) -> None:
        self.send(self.server_state.page or Answer(status=404, text=""))

    def send(self, answer: Answer) -> None:
        text = json.dumps(answer.body) if answer.text is None else answer.text
        data = text.encode()
        self.send_response(answer.status)
        self.send_header("content-length", str(len(data)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    handler = type("BoundHandler", (Handler,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        listening.daemon_threads = True
        state = Server(url=f"http://127.0.0.1:{listening.server_port}")
        handler.server_state = state  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield state
        listening.shutdown()
        thread.join()


@pytest.fixture
def answer() -> type[Answer]:
    return Answer


@dataclass
class Document:
    """A page of the documentation whose Python blocks can be run."""

    text: str

    def blocks(self, language: str = "python") -> list[str]:
        return re.findall(rf"^```{language}\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)

    def run(self, block: str, names: dict[str, Any] | None = None) -> dict[str, Any]:
        """Runs a block; where `expression  # -> value` stands, the two must be equal."""
        lines: list[str] = []
        for line in block.splitlines():
            found = re.fullmatch(r"(\S.*?)  # -> (.*)", line)
            if found:
                line = f"assert ({found[1]}) == ({found[2]}), ({found[1]})"
            lines.append(line)
        names = {"__name__": "documented"} if names is None else names
        exec(compile("\n".join(lines), "documentation", "exec"), names)
        return names


@pytest.fixture
def document() -> Callable[[str], Document]:
    docs = Path(__file__).parents[3] / "docs"
    return lambda name: Document((docs / name).read_text(encoding="utf-8"))
