"""How a function wants to be told how many contexts are wanted."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any

__all__ = ["TopK", "keyword_for_top_k", "top_k_of_method"]

_NAMES = ("top_k", "k", "limit", "n_results", "num_results", "top_n", "n")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class TopK(Enum):
    """The way in which one of the interface's methods takes ``top_k``."""

    POSITIONAL = "positional"
    KEYWORD = "keyword"
    NOT = "not"


def top_k_of_method(cls: type, name: str) -> TopK:
    """How a retrieval method of a class takes ``top_k``.

    Old classes write ``retrieve(self, query, k=5)`` as well as ``retrieve(self, query, *, top_k)``
    and ``retrieve(self, query)``; all three are called in the way that fits.
    """
    # Read through the class, a plain function still has `self` and the two others have it not.
    skipped = 1 if inspect.isfunction(inspect.getattr_static(cls, name)) else 0
    parameters = _parameters(getattr(cls, name))
    if parameters is None:
        return TopK.POSITIONAL
    named = next((p for p in parameters if p.name == "top_k"), None)
    if named is not None and named.kind is not inspect.Parameter.POSITIONAL_ONLY:
        return TopK.KEYWORD
    kinds = [parameter.kind for parameter in parameters]
    positional = sum(kind in _POSITIONAL for kind in kinds)
    if inspect.Parameter.VAR_POSITIONAL in kinds or positional - skipped >= 2:
        return TopK.POSITIONAL
    return TopK.KEYWORD if inspect.Parameter.VAR_KEYWORD in kinds else TopK.NOT


def keyword_for_top_k(function: Callable[..., Any]) -> str | None:
    """The parameter by which a foreign function is told how many contexts are wanted, or None."""
    parameters = _parameters(function) or []
    names = {p.name for p in parameters if p.kind is not inspect.Parameter.POSITIONAL_ONLY}
    return next((name for name in _NAMES if name in names), None)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some callables written in C have no signature
        return None
