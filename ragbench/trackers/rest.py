"""Trackers that are reached by HTTP: one endpoint, keys of the environment, errors in words."""

from __future__ import annotations

import os
import uuid
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ragbench.core.reading import Reading, words_of
from ragbench.core.record import Record
from ragbench.errors import InterfaceError, StageTimeoutError, TrackerError
from ragbench.io.http import HTTPRagError, JsonEndpoint
from ragbench.io.json_files import parse_unambiguous

if TYPE_CHECKING:
    import httpx

_SECONDS = 120.0
"""How long a request may take: an experiment of thousands of cases is one."""


class Call(Record):
    """A request: its method and its body."""

    method: str
    body: Any


class TrackerEndpoint(JsonEndpoint):
    """The interface of a tracker.

    A request that is sent again has the same ids, so it changes nothing: connections that break are
    no reason to give up.
    """

    def __init__(self, name: str, url: str, headers: Mapping[str, str], *, advice: str) -> None:
        """Checks the address; nothing is sent.

        Args:
            name: the tracker's name, for errors.
            headers: those with its key.
            advice: what to check where a request fails.
        """
        super().__init__(url, headers=headers, timeout=_SECONDS)
        self._name = name
        self._advice = advice

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of a response; None where it is empty.

        Raises:
            TrackerError: there is no connection, or the tracker refuses the request.
        """
        with self._refusing():
            return self._exchanged(method, path, body)

    def find(self, path: str) -> Any:
        """The JSON of what is at a path; None where nothing is there."""
        with self._refusing():
            return self._if_there("GET", path)

    def delete(self, path: str) -> None:
        """Deletes what is at a path, if it is there."""
        with self._refusing():
            self._if_there("DELETE", path)

    def call_if_there(self, path: str, body: Any) -> Any:
        """The JSON of a response to a body; None where what the body names is not there."""
        with self._refusing():
            return self._if_there("POST", path, body)

    def create(self, path: str, body: Any) -> bool:
        """Posts a body; False where what it creates is there already."""
        with self._refusing():
            try:
                self._exchanged("POST", path, body)
            except HTTPRagError as error:
                if error.status == 409:
                    return False
                raise
        return True

    @contextmanager
    def in_use(self) -> Generator[None]:
        """Closes the connections at the end; a response of an unknown form becomes an error."""

        def refusal(error: Exception) -> Exception:
            problem = f"{self.url} answers in a form that is not documented: {words_of(error)}"
            return self.refusal(problem)

        try:
            with Reading(refusal):
                yield
        finally:
            self.close()

    def refusal(self, problem: str) -> TrackerError:
        """The error of a request, with what to do."""
        reason = problem.rstrip(". ")
        return TrackerError(
            f"{self._name}: {reason}. Nothing of the run has changed. {self._advice}; then export "
            "again"
        )

    @contextmanager
    def _refusing(self) -> Generator[None]:
        """Turns the errors of a request into those of the tracker."""
        try:
            yield
        except (InterfaceError, StageTimeoutError) as error:
            raise self.refusal(str(error)) from None

    def _if_there(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of a response; None where the response is 404."""
        try:
            return self._exchanged(method, path, body)
        except HTTPRagError as error:
            if error.status == 404:
                return None
            raise

    def _exchanged(self, method: str, path: str, body: Any) -> Any:
        """The JSON of a successful response; None where it is empty."""
        shown = f"{method} {self.url}{path}"
        call = Call(method=method, body=body)
        response = self._successful_response(self._address(path), shown, call)
        if not response.content.strip():
            return None
        try:
            return parse_unambiguous(response.content, "its answer")
        except ValueError as error:
            raise HTTPRagError(
                f"{shown} answered with no JSON that can be read ({error})"
            ) from None

    def _request_of(self, address: str | httpx.URL, payload: Call) -> dict[str, Any]:
        """A request by its own method, with a body where it has one."""
        options: dict[str, Any] = {"method": payload.method, "url": address}
        if payload.body is not None:
            options["json"] = payload.body
        return options


def variable(names: tuple[str, ...], tracker: str, advice: str) -> str:
    """The value of the first of some environment variables that is set.

    Raises:
        TrackerError: none of them is.
    """
    for name in names:
        value = os.environ.get(name, "").strip()
        if value:
            return value
    raise TrackerError(f"{tracker}: {' or '.join(names)} is not set. {advice}")


def named_id(*names: str) -> str:
    """A UUID of names that is equal in every run: of a dataset and a case."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "\0".join(names)))
