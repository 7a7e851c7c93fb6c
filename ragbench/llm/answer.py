"""What comes back over HTTP, before anything of it is believed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

__all__ = ["Answer", "NoAnswerError", "Transport"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: str


class NoAnswerError(Exception):
    """No whole answer came."""

    def __init__(self, kind: Literal["connection", "lost", "timeout"], detail: str) -> None:
        """Keeps what happened.

        Args:
            kind: no connection was made; the connection broke while the answer was awaited; the
                time was over.
            detail: in words, without credentials.
        """
        super().__init__(kind, detail)
        self.kind = kind
        self.detail = detail

    @property
    def may_be_billed(self) -> bool:
        """Whether the endpoint may have done the work all the same."""
        return self.kind != "connection"


class Transport(Protocol):
    """Carries requests. Opened and closed inside the one event loop that it serves."""

    async def open(self) -> None:
        """Makes it ready; no request is sent."""
        ...

    async def close(self) -> None:
        """Closes its connections."""
        ...

    async def send(self, path: str, payload: Mapping[str, Any]) -> Answer:
        """Posts JSON.

        Args:
            path: ``"/chat/completions"`` or ``"/embeddings"``.
            payload: the body.

        Raises:
            NoAnswerError: no whole answer came.
        """
        ...

    def masked(self, text: str) -> str:
        """A text without the credentials that the transport uses."""
        ...
