"""Functions and objects with the interface's methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ragbench.rag.fallback import to_batch
from ragbench.rag.forms import (
    FAMILIES,
    FORMS,
    RETRIEVAL,
    Family,
    Form,
    TopKParameter,
    accepts_second_argument,
    keyword_for_top_k,
    pass_top_k,
    top_k_of_function,
)
from ragbench.rag.interface import RAGBase
from ragbench.rag.parts import Parts, converting, is_coroutine_function
from ragbench.rag.shapes import read_generation, read_retrieval


def name_of(function: object) -> str:
    inner = getattr(function, "func", function)  # functools.partial
    name = getattr(inner, "__qualname__", None)
    return name if isinstance(name, str) else type(function).__name__


def parts_of_retriever(function: Callable[..., Any]) -> Parts:
    """``function(query)`` or ``function(query, top_k=...)``; ``k``, ``limit`` and the like too."""
    where = name_of(function)
    keyword = keyword_for_top_k(function)

    def arguments(top_k: int | None) -> tuple[tuple[int, ...], dict[str, int]]:
        if keyword is None or top_k is None:
            return pass_top_k(TopKParameter.NOT, top_k, where)
        return (), {keyword: top_k}

    def convert(value: object, _: int) -> Any:
        return read_retrieval(value, where)

    method = converting(function, convert, arguments)
    return Parts(source=function, methods={"retrieve_with_metadata": method})


def parts_of_generator(function: Callable[..., Any]) -> Parts:
    """``function(query, contexts)``, or ``function(query)`` for one that finds its own contexts."""
    where = name_of(function)

    def convert(value: object, _: int) -> Any:
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


def interface_methods(obj: object) -> tuple[str, ...]:
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

    def convert(value: object, size: int) -> Any:
        if form.batch:
            return [read(item, where) for item in to_batch(value, size, where)]
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
