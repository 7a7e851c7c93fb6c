"""Functions: one that retrieves, one that generates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ragbench.interface.adapters.answers import read_generation
from ragbench.interface.adapters.documents import read_retrieval
from ragbench.interface.adapters.parts import Parts, converting, is_coroutine_function
from ragbench.interface.top_k import (
    TopK,
    accepts_second_argument,
    keyword_for_top_k,
    pass_top_k,
)

__all__ = ["name_of", "parts_of_generator", "parts_of_retriever"]


def name_of(function: object) -> str:
    """How a function is called in messages."""
    inner = getattr(function, "func", function)  # functools.partial
    name = getattr(inner, "__qualname__", None)
    return name if isinstance(name, str) else type(function).__name__


def parts_of_retriever(function: Callable[..., Any]) -> Parts:
    """``function(query)`` or ``function(query, top_k=...)``; ``k``, ``limit`` and the like too."""
    where = name_of(function)
    keyword = keyword_for_top_k(function)

    def arguments(top_k: int | None) -> tuple[tuple[int, ...], dict[str, int]]:
        if keyword is None or top_k is None:
            return pass_top_k(TopK.NOT, top_k, where)
        return (), {keyword: top_k}

    def convert(value: object, query: str) -> Any:
        return read_retrieval(value, where)

    method = converting(function, convert, arguments)
    return Parts(source=function, methods={"retrieve_with_metadata": method})


def parts_of_generator(function: Callable[..., Any]) -> Parts:
    """``function(query, contexts)``, or ``function(query)`` for one that finds its own contexts."""
    where = name_of(function)

    def convert(value: object, query: str) -> Any:
        return read_generation(value, where)

    method = converting(
        function if accepts_second_argument(function) else _of_query_only(function), convert
    )
    return Parts(source=function, methods={"generate_with_metadata": method})


def _of_query_only(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(query: str, contexts: list[str]) -> Any:
        return function(query)

    async def acall(query: str, contexts: list[str]) -> Any:
        return await function(query)

    return acall if is_coroutine_function(function) else call
