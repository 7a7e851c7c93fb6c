"""Retrievers whose number of results is fixed when they are built."""

from __future__ import annotations

from typing import Any

from ragbench.errors import InterfaceError
from ragbench.interface.results import RetrievalResult

__all__ = ["cut", "refuse_beyond"]


def refuse_beyond(top_k: int | None, built_with: object, where: str) -> None:
    """Refuses to ask for more contexts than a retriever was built to return.

    Args:
        top_k: how many contexts are wanted.
        built_with: the retriever's own number; anything but an integer is taken for unknown.
        where: the retriever, for the message.

    Raises:
        InterfaceError: more are wanted.
    """
    if top_k is None or not isinstance(built_with, int) or top_k <= built_with:
        return
    raise InterfaceError(
        f"{where} was built to return {built_with} contexts and cannot be asked for {top_k}: "
        f"build it with at least {top_k}"
    )


def cut(result: RetrievalResult[Any], top_k: int | None) -> RetrievalResult[Any]:
    """The first ``top_k`` contexts of a result; the same object when it has no more."""
    if top_k is None or len(result) <= top_k:
        return result
    listed = ("contexts", "context_ids", "scores", "context_metadata")
    known = result.to_dict()
    return RetrievalResult.from_mapping(
        {key: value[:top_k] if key in listed else value for key, value in known.items()}
    )
