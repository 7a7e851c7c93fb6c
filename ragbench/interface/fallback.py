"""How a form that the user did not write is derived from one that he did.

The derivation is written once, as a generator that yields what each call returned; `drive` runs it
for plain methods and `drive_async` for coroutine methods.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from ragbench.errors import InterfaceError
from ragbench.interface.coerce import (
    to_batch,
    to_contexts,
    to_generation_result,
    to_response,
    to_retrieval_result,
)
from ragbench.interface.forms import FORMS, RETRIEVAL, Form, routes
from ragbench.interface.top_k import TopK, pass_top_k, top_k_of_method

__all__ = ["Derivation", "Route", "derive", "drive", "drive_async", "routes_of"]

Derivation = Generator[Any, Any, Any]
"""Yields what a call returned (a value or an awaitable), is sent the value, returns the result."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """Which method stands in for another one, worked out once for a class."""

    source: Form
    """The implemented form that is called."""
    where: str
    """Its name in messages: ``"MyRAG.retrieve"``."""
    top_k: TopK
    """How it takes ``top_k``."""


def routes_of(cls: type, implemented: frozenset[str]) -> dict[str, Route]:
    """The routes of a class by the name of the method that is called.

    Args:
        cls: the class.
        implemented: names of the methods that it, or a class it inherits from, wrote.
    """
    found: dict[str, Route] = {}
    known = {
        name: Route(
            source=form,
            where=f"{cls.__name__}.{name}",
            top_k=top_k_of_method(cls, name) if family is RETRIEVAL else TopK.NOT,
        )
        for name, (family, form) in FORMS.items()
        if name in implemented
    }
    for name, source in routes(implemented).items():
        found[name] = known[source.name]
    return found


def derive(
    rag: object,
    target: str,
    route: Route | None,
    columns: tuple[Sequence[Any], ...],
    top_k: int | None = None,
) -> Derivation:
    """Derives one call from an implemented form.

    Args:
        rag: the object whose methods are called.
        target: the method that was called.
        route: what stands in for it; None when there is nothing.
        columns: for each positional argument, its values for all queries of the call.
        top_k: how many contexts are wanted; not passed on when None, so that a method written
            without it still works.

    Raises:
        InterfaceError: nothing stands in, it takes no ``top_k``, the columns are of different
            lengths, or it returned something unusable.
    """
    family, form = FORMS[target]
    if route is None:
        raise InterfaceError(
            f"{type(rag).__name__} has no {target} of its own and nothing to derive it from: "
            f"write one of {', '.join(known.name for known in family.forms)}"
        )
    source = route.source
    where = route.where
    method = getattr(rag, source.name)
    extra, options = _NOTHING if top_k is None else pass_top_k(route.top_k, top_k, where)
    values: Sequence[Any]
    if len(columns) == 2 and len(columns[0]) != len(columns[1]):
        raise _of_different_lengths(target, columns)
    if source.batch:
        values = to_batch((yield method(*columns, *extra, **options)), len(columns[0]), where)
    else:
        collected: list[Any] = []
        values = collected
        for arguments in zip(*columns, strict=True):
            collected.append((yield method(*arguments, *extra, **options)))
    convert = _CONVERTERS[family is RETRIEVAL, form.rich]
    return [convert(value, where) for value in values] if form.batch else convert(values[0], where)


_NOTHING: tuple[tuple[int, ...], dict[str, int]] = ((), {})
_CONVERTERS: dict[tuple[bool, bool], Callable[[object, str], Any]] = {
    (True, True): to_retrieval_result,
    (True, False): to_contexts,
    (False, True): to_generation_result,
    (False, False): to_response,
}


def drive(derivation: Derivation) -> Any:
    """Runs a derivation over plain methods."""
    try:
        value = next(derivation)
        while True:
            value = derivation.send(value)
    except StopIteration as stop:
        return stop.value


async def drive_async(derivation: Derivation) -> Any:
    """Runs a derivation over coroutine methods, one call at a time.

    Raises:
        InterfaceError: a method returned something that cannot be awaited.
    """
    try:
        pending = next(derivation)
        while True:
            if not hasattr(pending, "__await__"):
                raise InterfaceError(
                    "a method of an AsyncRAGInterface returned a value that cannot be awaited "
                    f"(a {type(pending).__name__}): write it as 'async def', or inherit from "
                    "RAGInterface when no method is a coroutine"
                )
            pending = derivation.send(await pending)
    except StopIteration as stop:
        return stop.value


def _of_different_lengths(target: str, columns: tuple[Sequence[Any], ...]) -> InterfaceError:
    return InterfaceError(
        f"{target} was given {len(columns[0])} queries and {len(columns[1])} lists of contexts"
    )
