"""The kind of every record: frozen, built by keyword, equal where its fields are."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self, dataclass_transform

from msgspec import NODEFAULT, Struct, StructMeta, field

if TYPE_CHECKING:  # type checkers know of a dataclass which changes fit
    from dataclasses import replace
else:
    from msgspec.structs import replace

__all__ = ["Labelled", "Record", "field", "field_docs", "replace"]


@cache
def _as_dataclass(kind: type[Record]) -> Any:
    types: dict[str, Any] = {}
    for one in reversed(kind.__mro__):
        types |= inspect.get_annotations(one)
    fields: list[Any] = [(name, types[name]) for name in kind.__struct_fields__]
    for place, default in enumerate(reversed(kind.__struct_defaults__), 1):
        if default is not NODEFAULT:
            made = getattr(default, "factory", None)
            fields[-place] += (dataclasses.field(default_factory=made) if made else default,)
    return dataclasses.make_dataclass(kind.__name__, fields, frozen=True, kw_only=True)


class _OfDataclass:
    """What a dataclass with the fields of a record knows of them; made when first asked for."""

    def __set_name__(self, kind: type, name: str) -> None:
        self._name = name

    def __get__(self, record: object, kind: type[Record]) -> Any:
        found = getattr(_as_dataclass(kind), self._name)
        setattr(kind, self._name, found)
        return found


class _RecordType(StructMeta):
    """Hands ``kw_only`` down, which msgspec asks for in each class anew, as orjson for fields."""

    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        scope: dict[str, Any],
        /,
        *,
        kw_only: bool = True,
        **options: Any,
    ) -> _RecordType:
        scope |= {"__dataclass_fields__": _OfDataclass(), "__dataclass_params__": _OfDataclass()}
        return super().__new__(cls, name, bases, scope, kw_only=kw_only, **options)

    @property
    def __signature__(cls) -> inspect.Signature:  # that of msgspec fails at names for type checkers
        return inspect.signature(_as_dataclass(cls))


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Record(Struct, metaclass=_RecordType, frozen=True):
    """What one stage hands to the next.

    A class of msgspec, which is made and built in a tenth of the time of a frozen dataclass; what
    takes dataclasses (``dataclasses.replace``, ``asdict``, ``fields``) takes it, too.
    """


class Labelled(StrEnum):
    """Values that each have words for readers, too."""

    label: str

    def __new__(cls, value: str, label: str = "") -> Self:
        made = str.__new__(cls, value)
        made._value_, made.label = value, label
        return made


def field_docs(target: type) -> dict[str, str]:
    """The text below each field, in one line; also of classes that it inherits from."""
    return {
        field: text
        for owner in reversed(target.__mro__[:-1])
        for (name, field), text in _documents(owner.__module__).items()
        if name == owner.__name__
    }


@cache
def _documents(module: str) -> Mapping[tuple[str, str], str]:
    """The same of all classes of a module, by class and field."""
    import ast

    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError, SyntaxError):  # written elsewhere than in a file
        return {}
    return {
        (owner.name, ast.unparse(field.target)): " ".join(text.value.value.split())
        for owner in tree.body
        if isinstance(owner, ast.ClassDef)
        for field, text in pairwise(owner.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
