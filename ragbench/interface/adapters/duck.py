"""Objects that have the interface's methods and do not inherit from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ragbench.interface.adapters.answers import read_generation
from ragbench.interface.adapters.documents import read_retrieval
from ragbench.interface.adapters.parts import Parts, converting
from ragbench.interface.base import RAGBase
from ragbench.interface.coerce import to_batch
from ragbench.interface.forms import FAMILIES, FORMS, RETRIEVAL, Family, Form
from ragbench.interface.top_k import pass_top_k, top_k_of_function

__all__ = ["has_both_families", "interface_methods", "parts_of_duck", "parts_of_rag"]


def interface_methods(obj: object) -> tuple[str, ...]:
    """Names of the interface's methods that an object has."""
    return tuple(name for name in FORMS if callable(getattr(obj, name, None)))


def parts_of_duck(obj: object) -> Parts:
    """The forms with metadata, made of those that the object has.

    Forms with metadata win over plain ones. Plain ones may return whatever can be read as
    documents or as an answer, not only strings.
    """
    methods: dict[str, Callable[..., Any]] = {}
    found = interface_methods(obj)
    for family in FAMILIES.values():
        rich = [form for form in (family.rich, family.rich_batch) if form.name in found]
        plain = [form for form in (family.plain, family.batch) if form.name in found]
        for form in rich or plain:
            target = family.rich_batch if form.batch else family.rich
            methods[target.name] = _method(obj, family, form)
    return Parts(source=obj, methods=methods)


def _method(obj: object, family: Family, form: Form) -> Callable[..., Any]:
    function = getattr(obj, form.name)
    where = f"{type(obj).__name__}.{form.name}"
    read = read_retrieval if family is RETRIEVAL else read_generation

    def convert(value: object, first: Any) -> Any:
        if form.batch:
            return [read(item, where) for item in to_batch(value, len(first), where)]
        return read(value, where)

    if family is not RETRIEVAL:
        return converting(function, convert)
    way = top_k_of_function(function)

    def arguments(top_k: int | None) -> tuple[tuple[int, ...], dict[str, int]]:
        return pass_top_k(way, top_k, where)

    return converting(function, convert, arguments)


def has_both_families(names: Iterable[str]) -> bool:
    """Whether some of these methods retrieve and some generate."""
    return {FORMS[name][0].name for name in names} == set(FAMILIES)


def parts_of_rag(rag: RAGBase[Any], family: str) -> Parts:
    """One family of a RAG of ragbench's own interface: both forms with metadata."""
    chosen = FAMILIES[family]
    names = (chosen.rich.name, chosen.rich_batch.name) if family in rag.families else ()
    return Parts(source=rag, methods={name: getattr(rag, name) for name in names})
