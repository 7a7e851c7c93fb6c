"""A real HTTP server on this machine, told by each test how to answer."""

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.json_server import serving_json


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: Any
    connection: threading.Thread


@dataclass
class Answer:
    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    text: str | None = None
    """Sent as it is instead of the body."""


@dataclass
class Server:
    url: str = ""
    requests: list[Request] = field(default_factory=list[Request])
    answers: list[Answer | Callable[[Request], Answer]] = field(
        default_factory=list[Answer | Callable[[Request], Answer]]
    )
    """Given in turn; the last one again and again."""
    page: Answer | None = None
    """What a GET is answered with; 404 where there is none."""
    heard: dict[str, str] = field(default_factory=dict[str, str])
    said: dict[str, str] = field(default_factory=dict[str, str])
    """Headers of the latest request, and of its answer."""

    def then(self, *answers: Answer | Callable[[Request], Answer]) -> None:
        self.answers.extend(answers)

    def respond(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        chosen: Any = self.page or Answer(status=404)
        if method == "POST":
            # A thread for each connection.
            request = Request(path, {**self.heard}, body, threading.current_thread())
            self.heard.clear()
            self.requests.append(request)
            chosen = self.answers[min(len(self.requests), len(self.answers)) - 1]
            chosen = chosen if isinstance(chosen, Answer) else chosen(request)
        self.said.clear()
        self.said.update(chosen.headers)
        return chosen.status, chosen.body if chosen.text is None else chosen.text.encode()


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()
    with serving_json(state.respond, state.said, state.heard.update) as state.url:
        yield state


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
