"""When a service does not understand ragbench, or ragbench the service: after one question."""

from __future__ import annotations

from ragbench.errors import ContractError

_REFUSALS = frozenset({301, 302, 303, 400, 401, 403, 404, 405, 406, 410, 415, 422})
"""Statuses by which a service refuses how it is asked, whatever the question is."""
_BAD_REQUEST = 400
"""The status of a request whose form is wrong, and of one whose question is."""
_MOST_BAD_REQUESTS = 3
"""Refusals by 400 that end a run: with one, some services refuse the content of a question."""


def is_misunderstood(status: int | None) -> bool:
    """Whether a failed response shows that the service is asked, or read, in the wrong way.

    Asked or read so, every case would fail alike: the run is ended with advice. Among the statuses
    are those of success, where the body has another form than the one that is read.
    """
    if status is None:  # there was no response
        return False
    is_success = 200 <= status < 300
    return is_success or status in _REFUSALS


class Contract:
    """Whether a service was understood so far; until it was, an error ends the run."""

    def __init__(self) -> None:
        """Begins with a service that has not been asked anything.

        One contract is kept for each address, over all questions of a run.
        """
        self.is_met = False
        """Whether an answer could be read."""
        self._bad_requests = 0
        """How many questions the service has refused with HTTP status 400 so far."""

    def error(self, message: str, status: int | None = None) -> ContractError:
        """The error of a refusal, or of an answer in another form, with a pointer to the docs.

        The error ends the run as long as the service was never understood; later it is one query's.
        Of refusals by 400, which may be about a question's content, three end the run.

        Args:
            status: of the response; None where it was read and has another form.
        """
        is_of_form = True
        if status == _BAD_REQUEST:
            # Status 400 may be about one question's content: several questions must get it before
            # it counts as a sign that the service is asked in the wrong way.
            self._bad_requests += 1
            is_of_form = self._bad_requests >= _MOST_BAD_REQUESTS
        error = ContractError(f"{message}. See docs/http.md")
        error.status = status
        error.ends_run = is_of_form and not self.is_met
        return error
