"""Finding out how a foreign service is asked: the usual fields, and those that it asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragbench.core.record import Record, replace
from ragbench.io.http import HTTPRagError
from ragbench.rag.proposal import (
    missing_fields,
    options_of,
    proposed_send,
    question_fields,
    send_line,
    take_lines,
)
from ragbench.rag.response_body import Body
from ragbench.rag.service import ServiceEndpoint
from ragbench.rag.service_mapping import Service, read_mapping
from ragbench.rag.service_request import FORM, Question, read_send, send_lines

_MOST_REQUESTS = 16
"""A service that refuses this many forms of a question is asked no more."""


class Attempt(Record):
    """One way to ask a service."""

    method: str
    send: tuple[str, ...]
    """Lines of ``--send``."""
    is_form: bool = False


class Explored(Record):
    """What came of the attempts at one question."""

    body: Body | None
    """The response; None where every attempt was refused."""
    problem: str
    """Why the last attempt was refused, and what to do; empty where one was not."""
    requests: int
    options: tuple[str, ...] = ()
    """The mapping as options of the command, each with its value."""

    @property
    def is_complete(self) -> bool:
        """Whether the options that were found name the place of an answer, or of contexts.

        Only then is the service asked no more: its answers could be measured.
        """
        return any(option.startswith("--take") for option in self.options)


def explore(
    service: Service,
    question: str,
    *,
    send: Mapping[str, Any] | Sequence[str] | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = 60.0,
) -> Explored:
    """Asks a service one question in the usual ways, until it answers.

    ``ragbench doctor --rag URL`` proposes by it how to evaluate a service of unknown form.

    Args:
        send: what it is sent, if that is known already.

    Raises:
        UnreachableError: there is no connection.
        StageTimeoutError: it did not answer in time.
        ConfigError: the fields or headers cannot be sent.
    """
    explorer = _Explorer(service, question, send, dict(headers or {}), timeout)
    return explorer.run()


def _is_question(line: str) -> bool:
    """Whether a line of ``--send``, such as ``q={query}``, sends the question.

    Lists of messages send it, too.
    """
    return "{query}" in line or "{messages}" in line


class _Explorer:
    """The attempts at one question, and what was learned from each.

    A refusal often says what was missing: what it names is tried before the other usual names.
    """

    def __init__(
        self,
        service: Service,
        question: str,
        send: Mapping[str, Any] | Sequence[str] | None,
        headers: dict[str, str],
        timeout: float,
    ) -> None:
        """Takes the one service that is explored, the question, and what the user knows of it.

        Nothing is asked yet.
        """
        self._service = service
        self._question = question
        self._send = send
        self._headers = headers
        self._timeout = timeout
        self._waiting: list[Attempt] = []
        """Ways to ask the service that are still to be tried, the next one first."""
        self._tried: list[Attempt] = []
        """All ways that were tried, in order: none is tried twice."""
        self._problem = ""
        """Why the last attempt was refused."""

    def run(self) -> Explored:
        """Asks the service in one way after another until a response holds an answer.

        If none does, the first response counts, and if there is none, the last refusal.
        """
        first_response: Explored | None = None
        for attempt in self._attempts():
            body = self._body(attempt)
            if body is None:
                continue
            # A response without an answer may be one to a wrong field: others are still tried.
            explored = self._explored(attempt, body)
            if explored.is_complete:
                return explored
            if first_response is None:
                first_response = explored
        if first_response is not None:
            return replace(first_response, requests=len(self._tried))
        return Explored(body=None, problem=self._problem, requests=len(self._tried))

    def _attempts(self) -> Iterator[Attempt]:
        """The ways to ask the service, each once; a refusal may bring forth another way.

        At most 16: a service that refuses so many is asked no more.
        """
        method = self._service.method or "POST"
        if self._send is not None or self._service.preset is not None:
            # The user, or a preset, says what is sent.
            self._waiting.append(Attempt(method=method, send=()))
        else:
            for name in question_fields():
                self._waiting.append(Attempt(method=method, send=(send_line(name),)))
        while self._waiting and len(self._tried) < _MOST_REQUESTS:
            attempt = self._waiting.pop(0)
            if attempt not in self._tried:
                self._tried.append(attempt)
                yield attempt

    def _body(self, attempt: Attempt) -> Body | None:
        """The body of the response to an attempt; None where the attempt was refused.

        A refusal is learned from: it often names the field that is missing.
        """
        send: Any = self._send
        if send is None:
            send = list(attempt.send)
        service = replace(self._service, method=attempt.method)
        # None lets a preset's own fields be sent.
        mapping = read_mapping(service, send=send or None, headers=self._headers_of(attempt))
        # Not repeated: a refusal is what is learned from.
        endpoint = ServiceEndpoint(mapping, retries=0, timeout=self._timeout)
        try:
            return endpoint.body_of(Question(query=self._question))
        except HTTPRagError as error:
            if error.status is None:  # there was no response at all
                raise
            self._learn(attempt, error.status, error)
            return None
        finally:
            endpoint.close()

    def _headers_of(self, attempt: Attempt) -> dict[str, str]:
        """The headers of an attempt: the user's, and the one that has the fields sent as a form.

        Some services refuse JSON, and take the same fields as a browser's form.
        """
        headers = dict(self._headers)
        if attempt.is_form:
            headers["Content-Type"] = FORM
        return headers

    def _learn(self, attempt: Attempt, status: int, error: HTTPRagError) -> None:
        """Changes the ways that are still to be tried, by the status and text of a refusal.

        Another method, a form in place of JSON, or the fields that the refusal names; none where
        the address or the credentials are wrong.
        """
        sent = read_send(attempt.send)
        advice = proposed_send(status, error.body, attempt.method, sent)
        self._problem = f"{error}. {advice}"
        if status in (401, 403, 404, 410):  # no other field helps
            self._waiting.clear()
        elif status == 405:
            method = "POST" if attempt.method == "GET" else "GET"
            # For all that wait, too: the address takes questions by one method.
            self._waiting = [replace(later, method=method) for later in self._waiting]
            self._waiting.insert(0, replace(attempt, method=method))
        elif status == 415 and not attempt.is_form:
            self._waiting.insert(0, replace(attempt, is_form=True))
        # Fields that the user wrote are left as they are.
        elif self._send is None:
            self._add_missing(attempt, error.body, sent)

    def _add_missing(self, attempt: Attempt, text: str, sent: Mapping[str, object]) -> None:
        """Puts the fields that a refusal asks for before the other usual names.

        Args:
            text: of the refusal.
            sent: the fields of the refused attempt.
        """
        fields = missing_fields(text)
        if not fields:
            return
        wants_parameters = any(field.is_parameter for field in fields)
        if wants_parameters and attempt.method != "GET":
            self._waiting.insert(0, replace(attempt, method="GET"))
            return
        # What lacks a field that it was sent as JSON does not read JSON.
        reads_no_json = any(field.name in sent for field in fields)
        if reads_no_json and not attempt.is_form:
            self._waiting.insert(0, replace(attempt, is_form=True))
            return
        lines = tuple(send_line(field.name) for field in fields)
        asks_question = any(_is_question(line) for line in lines)
        if asks_question:
            self._waiting.insert(0, replace(attempt, send=lines))
            return
        # Either the question was sent under a wrong name, and the only field that is asked for
        # takes it; or something else is asked for beside it. The former is tried first.
        self._waiting.insert(0, replace(attempt, send=(*attempt.send, *lines)))
        if len(fields) == 1:
            line = send_line(fields[0].name, is_only=True)
            if _is_question(line):
                # Put in last, so that it is tried next.
                self._waiting.insert(0, replace(attempt, send=(line,)))

    def _explored(self, attempt: Attempt, body: Body) -> Explored:
        """A response with the options of the command by which it was asked, and those that read it.

        A user copies these options to evaluate the service.
        """
        prefix = self._service.preset or attempt.method
        options = [options_of("--rag", [f"{prefix}:{self._service.url}"])]
        for name, value in self._headers_of(attempt).items():
            options.append(options_of("--header", [f"{name}={value}"]))
        # What the user gave, where the attempt itself has no fields.
        for line in attempt.send or send_lines(self._send):
            options.append(options_of("--send", [line]))
        for line in take_lines(body, self._question):
            options.append(options_of("--take", [line]))
        return Explored(body=body, problem="", requests=len(self._tried), options=tuple(options))
