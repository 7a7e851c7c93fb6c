"""The guard at class creation: what a class wrote, and whether that is enough.

Two methods that default to each other would call each other for ever when neither is written, so a
class whose family has no method at all is refused when it is defined, not when it is used.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable

from ragbench.errors import InterfaceError
from ragbench.interface.forms import FAMILIES, FORMS, Family, Form

__all__ = ["check_complete", "is_abstract", "known_families", "warn_of_hidden", "written"]


def written(cls: type, *, beneath: type) -> frozenset[str]:
    """Names of the interface's methods that a class, or a class it inherits from, wrote.

    Args:
        cls: the class.
        beneath: the root of the interface; its own module's classes do not count.
    """
    return frozenset(name for name in FORMS if _is_written(cls, name, beneath.__module__))


def _is_written(cls: type, name: str, interface_module: str) -> bool:
    for owner in cls.__mro__:
        if name in owner.__dict__:
            abstract = getattr(owner.__dict__[name], "__isabstractmethod__", False)
            return owner.__module__ != interface_module and not abstract
    return False


def is_abstract(cls: type) -> bool:
    """Whether a class has abstract methods left; usable before ``__abstractmethods__`` is set."""
    return any(
        getattr(inspect.getattr_static(cls, name, None), "__isabstractmethod__", False)
        for name in dir(cls)
    )


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
            )


def warn_of_hidden(cls: type, implemented: frozenset[str]) -> None:
    """Warns when a plain method is written over an inherited one with metadata.

    ragbench calls the forms with metadata, so the plain one would be ignored in silence.
    """
    for family in FAMILIES.values():
        for plain, rich in ((family.plain, family.rich), (family.batch, family.rich_batch)):
            if plain.name in cls.__dict__ and _is_inherited(cls, family, rich, implemented):
                warnings.warn(
                    f"{cls.__name__}.{plain.name} is not what ragbench calls: the inherited "
                    f"{rich.name} comes first. Override {rich.name} instead.",
                    stacklevel=4,
                )


def _is_inherited(cls: type, family: Family, rich: Form, implemented: frozenset[str]) -> bool:
    own = any(form.rich and form.name in cls.__dict__ for form in family.forms)
    return not own and rich.name in implemented
