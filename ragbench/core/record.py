"""`Record`, the base of every record: frozen, built by keyword, equal where its fields are equal.

Records are classes of msgspec. The other classes here make them look like dataclasses to all that
takes dataclasses.
"""

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

if TYPE_CHECKING:  # type checkers check the changes against the fields of a dataclass alone
    from dataclasses import replace
else:
    from msgspec.structs import replace

__all__ = ["Labelled", "Record", "field", "field_docs", "replace"]


@cache
def _as_dataclass(record_type: type[Record]) -> Any:
    """A dataclass with the fields and defaults of a record.

    Libraries that know dataclasses, and not msgspec, read a record's fields from it.
    Made once per class, at the first time that a library asks.
    """
    types: dict[str, Any] = {}
    # From the base on, so that a subclass's own annotation wins.
    for owner in reversed(record_type.__mro__):
        types |= inspect.get_annotations(owner)
    fields: list[Any] = [(name, types[name]) for name in record_type.__struct_fields__]
    # msgspec has the defaults of the last fields alone, so they are counted from the end.
    for place_from_end, default in enumerate(reversed(record_type.__struct_defaults__), 1):
        if default is NODEFAULT:
            continue
        factory = getattr(default, "factory", None)
        if factory is not None:
            default = dataclasses.field(default_factory=factory)
        fields[-place_from_end] += (default,)
    return dataclasses.make_dataclass(record_type.__name__, fields, frozen=True, kw_only=True)


class _DataclassAttribute:
    """An attribute of a record that only dataclasses have, such as ``__dataclass_fields__``.

    It is taken from a dataclass with the same fields, which is made at its first use.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        """Keeps the name of the attribute, by which Python calls this when the class is made.

        The name is that of the attribute in a dataclass, from which the value is taken later.
        """
        self._name = name

    def __get__(self, record: object, record_type: type[Record]) -> Any:
        """The attribute that a record's class would have as a dataclass, such as its fields.

        The value replaces this descriptor at the first use: a dataclass is only made for records
        that a library reads as one.
        """
        value = getattr(_as_dataclass(record_type), self._name)
        setattr(record_type, self._name, value)  # in place of this descriptor
        return value


class _RecordType(StructMeta):
    """The metaclass of records: gives every subclass ``kw_only``, and attributes of a dataclass.

    msgspec would ask for ``kw_only`` in each class anew; orjson asks for the fields of a dataclass.
    """

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
        """Makes the class with the attributes in ``scope``, and with two of a dataclass.

        By ``__dataclass_fields__`` and ``__dataclass_params__``, libraries that know dataclasses
        take records for dataclasses.
        """
        scope["__dataclass_fields__"] = _DataclassAttribute()
        scope["__dataclass_params__"] = _DataclassAttribute()
        return super().__new__(cls, name, bases, scope, kw_only=kw_only, **options)

    @property
    def __signature__(cls) -> inspect.Signature:
        """The signature of a record's constructor, by which IDEs and ``inspect`` show its fields.

        The signature that msgspec makes fails at names which are only imported for type checkers.
        """
        return inspect.signature(_as_dataclass(cls))


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Record(Struct, metaclass=_RecordType, frozen=True):
    """The base of the data that ragbench's parts hand to each other.

    A class of msgspec: defining one, and building an object of it, takes a tenth of the time of a
    frozen dataclass. ``dataclasses.replace``, ``asdict`` and ``fields`` work for it, too.
    """


class Labelled(StrEnum):
    """An enumeration whose members have a value for files and a label for readers."""

    label: str

    def __new__(cls, value: str, label: str = "") -> Self:
        """Makes a member that is equal to its value, as files have it, with its label beside.

        Values are stored in files: a changed value makes old ones unreadable. Labels may change.
        """
        member = str.__new__(cls, value)
        member._value_ = value
        member.label = label
        return member


def field_docs(target: type) -> dict[str, str]:
    """The text below each field of a class, in one line, by field; inherited fields included.

    Help texts of options and JSON schemas are made of these texts.
    """
    docs: dict[str, str] = {}
    # Without `object`, and from the base on, so that a subclass's own text wins.
    for owner in reversed(target.__mro__[:-1]):
        docs |= _docs_by_class(owner.__module__).get(owner.__name__, {})
    return docs


@cache
def _docs_by_class(module: str) -> Mapping[str, Mapping[str, str]]:
    """The text below each field, by class and then by field, of all classes of a module.

    Read from the source, once: Python drops a text below a field when it compiles the file.
    Empty for a module without a source file.
    """
    # Imported late: only help texts and schemas need it.
    import ast

    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError, SyntaxError):  # a class that is not from a file
        return {}
    docs: dict[str, dict[str, str]] = {}
    for class_ in tree.body:
        if not isinstance(class_, ast.ClassDef):
            continue
        for statement, next_statement in pairwise(class_.body):
            if not isinstance(statement, ast.AnnAssign) or not isinstance(next_statement, ast.Expr):
                continue
            text = next_statement.value
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                field = ast.unparse(statement.target)
                docs.setdefault(class_.name, {})[field] = " ".join(text.value.split())
    return docs
