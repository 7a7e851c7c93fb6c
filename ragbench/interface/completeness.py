"""The guard at class creation: what a class wrote, and whether that is enough.

Two methods that default to each other would call each other for ever when neither is written, so a
class whose family has no method at all is refused when it is defined, not when it is used.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable
from types import CodeType

from ragbench.errors import InterfaceError
from ragbench.interface.forms import FAMILIES, FORMS, routes

__all__ = [
    "check_complete",
    "check_kind",
    "is_abstract",
    "known_families",
    "warn_of_hidden",
    "written",
]


def written(cls: type) -> frozenset[str]:
    """Names of the interface's methods that a class, or a class it inherits from, wrote."""
    return frozenset(name for name in FORMS if _is_written(cls, name))


def _is_written(cls: type, name: str) -> bool:
    for owner in cls.__mro__:
        if name in owner.__dict__:
            abstract = getattr(owner.__dict__[name], "__isabstractmethod__", False)
            return not abstract and "_methods_are_derived" not in owner.__dict__
    return False


def is_abstract(cls: type) -> bool:
    """Whether a class has abstract methods left; usable before ``__abstractmethods__`` is set."""
    found: dict[str, object] = {}
    for owner in reversed(cls.__mro__):
        found.update(owner.__dict__)
    return any(getattr(value, "__isabstractmethod__", False) for value in found.values())


def known_families(cls: type, names: Iterable[str]) -> frozenset[str]:
    """Checks the families that a class says it has.

    Raises:
        InterfaceError: none, or an unknown one.
    """
    chosen = frozenset([names] if isinstance(names, str) else names)
    if not chosen or not chosen <= set(FAMILIES):
        raise InterfaceError(
            f"class {cls.__name__}: families must name {' or '.join(FAMILIES)}, "
            f"not {sorted(chosen)}"
        )
    return chosen


def check_kind(cls: type, implemented: Iterable[str], *, awaited: bool) -> None:
    """Refuses a coroutine method in a class whose methods are called without ``await``.

    Args:
        cls: the class.
        implemented: names of the methods that it, or a class it inherits from, wrote.
        awaited: whether its methods are coroutines.

    Raises:
        InterfaceError: names the method.
    """
    for name in sorted(implemented):
        if not awaited and inspect.iscoroutinefunction(getattr(cls, name)):
            raise InterfaceError(
                f"{cls.__name__}.{name} is a coroutine ('async def'): let the class inherit from "
                "AsyncRAGInterface instead of RAGInterface"
            )


def check_complete(cls: type, families: Iterable[str], implemented: frozenset[str]) -> None:
    """Refuses a class with a family that has no method to derive the others from.

    Raises:
        InterfaceError: names the family, the methods that would do, and the two ways to say that
            it is meant so.
    """
    for name in sorted(families):
        forms = [form.name for form in FAMILIES[name].forms]
        if implemented.isdisjoint(forms):
            other = next(other for other in FAMILIES if other != name)
            raise InterfaceError(
                f"class {cls.__name__} has no {name}: write one of {', '.join(forms)}. "
                f"If it does only {other}, say class {cls.__name__}(..., families=('{other}',)); "
                f"if it is a base for other classes, say class {cls.__name__}(..., abstract=True)"
                f"{_behind(cls, forms)}"
            )


def _behind(cls: type, names: Iterable[str]) -> str:
    """A hint when a mixin has the method but stands behind the interface in the bases."""
    for name in names:
        owners = [owner for owner in cls.__mro__ if name in owner.__dict__]
        if len(owners) > 1 and not getattr(
            owners[-1].__dict__[name], "__isabstractmethod__", False
        ):
            return (
                f". {owners[-1].__name__}.{name} is hidden by {owners[0].__name__}.{name}: "
                f"name {owners[-1].__name__} before {owners[0].__name__} among the bases"
            )
    return ""


def warn_of_hidden(cls: type, implemented: frozenset[str]) -> None:
    """Warns when the methods that a class writes are never reached.

    ragbench calls ``batch_*_with_metadata``. When an inherited method serves that call and does
    not itself call what the class writes, the class's own methods would be ignored in silence.
    """
    for family in FAMILIES.values():
        own = {form.name for form in family.forms if form.name in cls.__dict__}
        if own and not own & _reached(cls, family.rich_batch.name, implemented):
            serving = _serving(family.rich_batch.name, implemented)
            warnings.warn(
                f"{cls.__name__}.{sorted(own)[0]} is never called by ragbench: the inherited "
                f"{serving} comes first. Override {serving} instead.",
                stacklevel=3,
            )


def _serving(name: str, implemented: frozenset[str]) -> str:
    return name if name in implemented else routes(implemented)[name].name


def _reached(cls: type, name: str, implemented: frozenset[str]) -> set[str]:
    """The implemented methods that a call of one of the interface's methods leads to."""
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if implemented.isdisjoint(form.name for form in FORMS[name][0].forms):
            continue
        serving = _serving(name, implemented)
        if serving not in reached:
            reached.add(serving)
            waiting.extend(_mentioned(getattr(cls, serving)))
    return reached


def _mentioned(function: object) -> set[str]:
    """Names of the interface's methods that stand in a function's code."""
    code = getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)
    waiting = [code]
    names: set[str] = set()
    while waiting:
        code = waiting.pop()
        if isinstance(code, CodeType):
            names |= set(code.co_names) & set(FORMS)
            waiting.extend(code.co_consts)  # comprehensions and lambdas
    return names
