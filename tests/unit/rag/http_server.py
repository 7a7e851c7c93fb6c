"""A real HTTP server on this machine, told by each test how to answer."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


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
