"""When a service does not understand ragbench, or ragbench the service: after one question."""

from __future__ import annotations

from ragbench.errors import ContractError

_REFUSALS = frozenset({301, 302, 303, 400, 401, 403, 404, 405, 406, 410, 415, 422})
"""Statuses by which a service refuses how it is asked, whatever the question is."""
_BAD_REQUEST = 400
_MOST_BAD_REQUESTS = 3
"""Refusals by 400 that end a run: with one, some services refuse the content of a question."""


def is_misunderstood(status: int | None) -> bool:
    """Whether a failed response says that the service is asked, or read, in the wrong way.

    A success is among them: its body has another form.
    """
    return status is not None and (status in _REFUSALS or 200 <= status < 300)


class Contract:
    """Whether a service was understood so far; until it was, an error ends the run."""

    def __init__(self) -> None:
        self.is_met = False
        """Whether an answer could be read."""
        self._bad_requests = 0

    def error(self, message: str, status: int | None = None) -> ContractError:
        """The error of a refusal, or of an answer in another form."""
        error = ContractError(f"{message}. See docs/http.md")
        error.status = status
        error.ends_run = not self.is_met
        if status == _BAD_REQUEST:
            self._bad_requests += 1
            error.ends_run = error.ends_run and self._bad_requests >= _MOST_BAD_REQUESTS
        return error
