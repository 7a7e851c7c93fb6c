"""How a function wants to be told how many contexts are wanted."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any

from ragbench.errors import InterfaceError

__all__ = [
    "TopK",
    "accepts_second_argument",
    "keyword_for_top_k",
    "parameter_names",
    "pass_top_k",
    "top_k_of_function",
    "top_k_of_method",
]

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
    return top_k_of_function(getattr(cls, name), skipped=skipped)


def top_k_of_function(function: Callable[..., Any], *, skipped: int = 0) -> TopK:
    """How a function whose first argument is the query, or the queries, takes ``top_k``.

    Args:
        function: the function or bound method.
        skipped: how many leading parameters are not the caller's.
    """
    parameters = _parameters(function)
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


def pass_top_k(way: TopK, top_k: int | None, where: str) -> tuple[tuple[int, ...], dict[str, int]]:
    """The arguments that tell a method how many contexts are wanted: positional and by keyword.

    Raises:
        InterfaceError: a number is wanted, and the method cannot be told.
    """
    if top_k is None:
        return (), {}
    if way is TopK.KEYWORD:
        return (), {"top_k": top_k}
    if way is TopK.POSITIONAL:
        return (top_k,), {}
    raise InterfaceError(
        f"{where} takes no top_k, so that it cannot be asked for {top_k} contexts: "
        "add the parameter 'top_k=None' to it, or ask without top_k"
    )


def accepts_second_argument(function: Callable[..., Any]) -> bool:
    """Whether a function takes two positional arguments; one without a signature is said to."""
    parameters = _parameters(function)
    if parameters is None:
        return True
    kinds = [parameter.kind for parameter in parameters]
    return inspect.Parameter.VAR_POSITIONAL in kinds or sum(k in _POSITIONAL for k in kinds) >= 2


def keyword_for_top_k(function: Callable[..., Any]) -> str | None:
    """The parameter by which a foreign function is told how many contexts are wanted, or None."""
    parameters = _parameters(function) or []
    names = {p.name for p in parameters if p.kind is not inspect.Parameter.POSITIONAL_ONLY}
    return next((name for name in _NAMES if name in names), None)


def parameter_names(function: Callable[..., Any]) -> frozenset[str]:
    """Names of a function's parameters; none when it has no signature."""
    return frozenset(parameter.name for parameter in _parameters(function) or ())


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some callables written in C have no signature
        return None
