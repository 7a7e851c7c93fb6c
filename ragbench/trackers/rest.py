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
        """Takes the address of a tracker's interface and checks it; nothing is sent.

        Args:
            name: the tracker's name, for errors.
            headers: those with its key.
            advice: what to check where a request fails.
        """
        super().__init__(url, headers=headers, timeout=_SECONDS)
        self._name = name
        self._advice = advice

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Sends a request to the tracker and returns its response's JSON; None for an empty one.

        A tracker is a service in which teams compare runs, such as Langfuse or Phoenix.

        Raises:
            TrackerError: there is no connection, or the tracker refuses the request.
        """
        with self._refusing():
            return self._exchanged(method, path, body)

    def find(self, path: str) -> Any:
        """The JSON of the object at a path of the tracker, such as a trace; None without one.

        A tracker is a service in which teams compare runs. An export looks first whether an earlier
        one has made the object.

        Raises:
            TrackerError: there is no connection, or the tracker refuses the request.
        """
        with self._refusing():
            return self._if_there("GET", path)

    def delete(self, path: str) -> None:
        """Deletes the object at a path of the tracker; nothing happens where it is missing already.

        A tracker is a service in which teams compare runs. An export deletes what an earlier export
        of the same run has made and this one has not.

        Raises:
            TrackerError: there is no connection, or the tracker refuses the request.
        """
        with self._refusing():
            self._if_there("DELETE", path)

    def call_if_there(self, path: str, body: Any) -> Any:
        """Posts a body to the tracker; None where an object that the body names is missing there.

        A trace that the tracker has deleted thereby does not end the export.

        Raises:
            TrackerError: there is no connection, or the tracker refuses the request.
        """
        with self._refusing():
            return self._if_there("POST", path, body)

    def create(self, path: str, body: Any) -> bool:
        """Posts a body that creates an object in the tracker; False where it exists already.

        An object that exists was made by an earlier export: the caller updates it then.

        Raises:
            TrackerError: there is no connection, or the tracker refuses the request.
        """
        with self._refusing():
            try:
                self._exchanged("POST", path, body)
            except HTTPRagError as error:
                # The status for an id that is there already.
                if error.status == 409:
                    return False
                raise
        return True

    @contextmanager
    def in_use(self) -> Generator[None]:
        """Closes the tracker's connections at the end of the block, in which an export is made.

        Exports read responses as they are documented. Whatever is raised because a response has
        another form becomes an error in the user's words.
        """
        try:
            with Reading(self._refusal_of_form):
                yield
        finally:
            self.close()

    def _refusal_of_form(self, error: Exception) -> TrackerError:
        """The error of a tracker whose responses are not as documented.

        A new version of the tracker is the usual cause, which no check of the response would
        foresee.

        Args:
            error: whatever reading such a response raised, such as a missing key.
        """
        problem = f"{self.url} answers in a form that is not documented: {words_of(error)}"
        return self.refusal(problem)

    def refusal(self, problem: str) -> TrackerError:
        """The error of an export that a tracker did not take, with a next step for the user.

        Whatever a tracker refuses, the stored run stays as it is, so the user can export it again.

        Args:
            problem: the reason, which may end with a full stop or not.
        """
        reason = problem.rstrip(". ")
        return TrackerError(
            f"{self._name}: {reason}. Nothing of the run has changed. {self._advice}; then export "
            "again"
        )

    @contextmanager
    def _refusing(self) -> Generator[None]:
        """Turns errors of a request in the block into the tracker's own error, with its advice.

        Callers see one kind of error, whichever way a request failed.
        """
        try:
            yield
        except (InterfaceError, StageTimeoutError) as error:
            raise self.refusal(str(error)) from None

    def _if_there(self, method: str, path: str, body: Any = None) -> Any:
        """Sends a request and returns the JSON of its response; None for a response of 404.

        To a caller a missing object is no failure: a user may have deleted it in the tracker.
        """
        try:
            return self._exchanged(method, path, body)
        except HTTPRagError as error:
            if error.status == 404:
                return None
            raise

    def _exchanged(self, method: str, path: str, body: Any) -> Any:
        """Sends a request and returns the JSON of its successful response; None where it is empty.

        Raises:
            HTTPRagError: the response is an error, or no JSON.
        """
        shown = f"{method} {self.url}{path}"
        call = Call(method=method, body=body)
        response = self._successful_response(self._address(path), shown, call)
        # A deletion answers with nothing.
        if not response.content.strip():
            return None
        try:
            return parse_unambiguous(response.content, "its answer")
        except ValueError as error:
            raise HTTPRagError(
                f"{shown} answered with no JSON that can be read ({error})"
            ) from None

    def _request_of(self, address: str | httpx.URL, payload: Call) -> dict[str, Any]:
        """The arguments of `httpx.AsyncClient.request` for a call: its method, and its body.

        The base class only posts JSON; trackers also need GET, PATCH and DELETE.
        """
        options: dict[str, Any] = {"method": payload.method, "url": address}
        if payload.body is not None:
            options["json"] = payload.body
        return options


def variable(names: tuple[str, ...], tracker: str, advice: str) -> str:
    """The value of the first of some environment variables that is set, such as a tracker's key.

    Args:
        names: the variables; newer and older names of the same one.
        tracker: the tracker's name, for the error.
        advice: the end of the error: where a user finds the value.

    Raises:
        TrackerError: none of the variables is set.
    """
    for name in names:
        value = os.environ.get(name, "").strip()
        if value:
            return value
    raise TrackerError(f"{tracker}: {' or '.join(names)} is not set. {advice}")


def named_id(*names: str) -> str:
    """A UUID of some names, such as a dataset and a case; equal in every run with that dataset.

    By this id trackers show the runs of a case side by side. Another formula would separate new
    runs from old ones.
    """
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "\0".join(names)))
