"""How a form that the user did not write is derived from one that he did.

The derivation is written once, as a generator that yields each call it needs; `drive` runs it for
plain methods and `drive_async` for coroutine methods.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any

from ragbench.errors import InterfaceError
from ragbench.interface.coerce import to_batch, to_generation_result, to_retrieval_result
from ragbench.interface.forms import RETRIEVAL, Family, Form

__all__ = ["Derivation", "derive", "drive", "drive_async"]

Derivation = Generator[Any, Any, Any]
"""Yields what a call returned (a value or an awaitable), is sent the value, returns the result."""


def derive(
    rag: object,
    family: Family,
    target: Form,
    source: Form | None,
    columns: tuple[Sequence[Any], ...],
    tail: tuple[Any, ...],
) -> Derivation:
    """Derives one call from an implemented form.

    Args:
        rag: the object whose methods are called.
        family: retrieval or generation.
        target: the form that was called.
        source: the form that stands in for it; None when there is none.
        columns: for each positional argument, its values for all queries of the call.
        tail: arguments that are the same for every query.

    Raises:
        InterfaceError: there is no such form, or it returned something unusable.
    """
    if source is None:
        raise InterfaceError(
            f"{type(rag).__name__} does no {family.name}: it implements none of "
            f"{', '.join(form.name for form in family.forms if form is not target)}"
        )
    method = getattr(rag, source.name)
    where = f"{type(rag).__name__}.{source.name}"
    values: Sequence[Any]
    if source.batch:
        values = to_batch((yield method(*columns, *tail)), len(columns[0]), where)
    else:
        collected: list[Any] = []
        for arguments in zip(*columns, strict=True):
            collected.append((yield method(*arguments, *tail)))
        values = collected
    convert = _converter(family, target, where)
    return [convert(value) for value in values] if target.batch else convert(values[0])


def drive(derivation: Derivation) -> Any:
    """Runs a derivation over plain methods."""
    try:
        value = next(derivation)
        while True:
            value = derivation.send(value)
    except StopIteration as stop:
        return stop.value


async def drive_async(derivation: Derivation) -> Any:
    """Runs a derivation over coroutine methods, one call at a time."""
    try:
        pending: Awaitable[Any] = next(derivation)
        while True:
            pending = derivation.send(await pending)
    except StopIteration as stop:
        return stop.value


def _converter(family: Family, target: Form, where: str) -> Callable[[Any], Any]:
    to_result = to_retrieval_result if family is RETRIEVAL else to_generation_result
    if target.rich:
        return lambda value: to_result(value, where)
    if family is RETRIEVAL:
        return lambda value: _as_list(to_retrieval_result(value, where).contexts)
    return lambda value: to_generation_result(value, where).response


def _as_list(contexts: Sequence[str]) -> list[str]:
    # The old interface promises a list; a list is handed on as the same object.
    return contexts if isinstance(contexts, list) else list(contexts)
