"""A real HTTP server on this machine, whose answers each test sets."""

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
    """There is one thread for each connection."""


@dataclass
class Answer:
    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    text: str | None = None
    """Sent as it is instead of the body."""


AnswerOrRule = Answer | Callable[[Request], Answer]
"""An answer, or how to make one of the request."""


@dataclass
class Server:
    url: str = ""
    requests: list[Request] = field(default_factory=list[Request])
    answers: list[AnswerOrRule] = field(default_factory=list[AnswerOrRule])
    """Given in turn; the last one again and again."""
    page: Answer | None = None
    """The answer to a GET; 404 where there is none."""
    request_headers: dict[str, str] = field(default_factory=dict[str, str])
    """Of the latest request."""
    answer_headers: dict[str, str] = field(default_factory=dict[str, str])
    """Of the latest answer."""

    def then(self, *answers: AnswerOrRule) -> None:
        self.answers.extend(answers)

    def respond(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if method == "POST":
            answer = self._answer_to_post(path, body)
        else:
            answer = self.page or Answer(status=404)
        self.answer_headers.clear()
        self.answer_headers.update(answer.headers)
        if answer.text is not None:
            return answer.status, answer.text.encode()
        return answer.status, answer.body

    def _answer_to_post(self, path: str, body: Any) -> Answer:
        headers = dict(self.request_headers)
        self.request_headers.clear()
        request = Request(path, headers, body, threading.current_thread())
        self.requests.append(request)
        number = min(len(self.requests), len(self.answers))
        answer = self.answers[number - 1]
        if isinstance(answer, Answer):
            return answer
        return answer(request)
