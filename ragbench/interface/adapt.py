"""Anything that retrieves or generates, as a RAG."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast

from ragbench.errors import InterfaceError
from ragbench.interface.adapters import callables, duck, haystack, langchain, llamaindex
from ragbench.interface.adapters.http_rag import http_rag
from ragbench.interface.adapters.one_call import parts_of_one_call
from ragbench.interface.adapters.parts import Parts, compose
from ragbench.interface.base import AsyncRAGInterface, RAGBase, RAGInterface
from ragbench.interface.forms import FAMILIES
from ragbench.interface.top_k import keyword_for_top_k

__all__ = ["AnyRAG", "as_rag"]

AnyRAG = RAGInterface[Any] | AsyncRAGInterface[Any]

_SHAPES = (
    "the interface's methods (retrieve, generate, their batch_ and _with_metadata forms)",
    "a LangChain retriever or chain (invoke, ainvoke)",
    "a LlamaIndex retriever (retrieve, aretrieve) or query engine (query, aquery)",
    "a Haystack retriever (run with a query) or pipeline (run, inputs, outputs)",
    "a function of the query",
    "an http:// or https:// URL",
)


def as_rag(
    obj: object = None,
    *,
    retrieve: object = None,
    generate: object = None,
    top_k: int | None = None,
) -> AnyRAG:
    """Makes a RAG of an object, of functions, or of an endpoint.

    Args:
        obj: an instance or a class of `RAGInterface`, which is returned as it is or instantiated;
            an object with the interface's methods that does not inherit; a LangChain, LlamaIndex
            or Haystack retriever, chain, query engine or pipeline; a function of the query that
            retrieves and answers in one call; or a URL (docs/http.md).
        retrieve: what retrieves: a function of the query (and, if it can be told, ``top_k``), a
            retriever, or a RAG of which only retrieval is used.
        generate: what generates: a function of the query and the contexts, a chain that takes
            both, or a RAG of which only generation is used.
        top_k: how many contexts to ask for when a call does not say. A RAG of your own has
            that in its configuration.

    Returns:
        A RAG with the families that were found; an `AsyncRAGInterface` when a coroutine function
        is among what was given.

    Raises:
        InterfaceError: nothing fits, or more than one thing does. The message lists what was
            looked for and what the object has.
        ConfigError: a URL that cannot be used.
        MissingExtraError: a URL was given and httpx is not installed.

    Example:
        >>> def find(query):
        ...     return ["Bees fly."]
        >>> as_rag(retrieve=find).batch_retrieve_with_metadata(["Do bees fly?"])[0].contexts
        ['Bees fly.']
    """
    if top_k is not None and top_k < 1:
        raise InterfaceError(f"top_k must be at least 1, not {top_k}")
    if obj is not None and (retrieve is not None or generate is not None):
        raise InterfaceError("as_rag takes an object, or retrieve= and generate=, not both")
    if obj is None and retrieve is None and generate is None:
        raise InterfaceError(f"as_rag needs one of: {'; '.join(_SHAPES)}; or retrieve=, generate=")
    if obj is None:
        rag = _of_two(retrieve, generate, top_k)
    else:
        found = _ready(obj, top_k)
        if found is not None:
            return found
        rag = compose(_name(obj), [_parts(obj)], top_k)
    cast("Any", rag).rebuild = (_rebuild, (obj, retrieve, generate, top_k))
    return rag


def _rebuild(obj: object, retrieve: object, generate: object, top_k: int | None) -> AnyRAG:
    return as_rag(obj, retrieve=retrieve, generate=generate, top_k=top_k)


def _ready(obj: object, top_k: int | None) -> AnyRAG | None:
    """What needs no adapter, or has its own class."""
    if isinstance(obj, str):
        if not obj.lower().startswith(("http://", "https://")):
            raise InterfaceError(
                f"as_rag takes objects and URLs, and {obj!r} is no URL; "
                "ragbench.interface.load.load_rag takes names such as 'package.module:attribute'"
            )
        ready: object = http_rag(obj)
    elif inspect.isclass(obj):
        ready = _instance(obj)
        if not isinstance(ready, RAGBase):
            return as_rag(ready, top_k=top_k)
    else:
        ready = obj
    if not isinstance(ready, RAGBase):
        return None
    if top_k is not None:
        raise InterfaceError(
            f"{type(cast('object', ready)).__name__} is a RAG already: its top_k belongs into "
            "its configuration"
        )
    return cast("AnyRAG", ready)


def _instance(cls: type) -> object:
    try:
        inspect.signature(cls).bind()
    except TypeError as error:
        raise InterfaceError(
            f"class {cls.__name__} cannot be built without arguments ({error}): give an instance"
        ) from None
    except ValueError:  # a class written in C has no signature
        pass
    return cls()


def _of_two(retrieve: object, generate: object, top_k: int | None) -> AnyRAG:
    parts: list[Parts] = []
    names: list[str] = []
    if retrieve is not None:
        parts.append(_slot(retrieve, "retrieval"))
        names.append(_name(retrieve))
    if generate is not None:
        parts.append(_slot(generate, "generation"))
        names.append(_name(generate))
    if retrieve is None and top_k is not None:
        raise InterfaceError("top_k is for retrieval, and only generate= is given")
    return compose("+".join(names), parts, top_k)


def _slot(obj: object, family: str) -> Parts:
    """The parts of what was given as ``retrieve=`` or ``generate=``."""
    if isinstance(obj, RAGBase):
        rag = cast("RAGBase[Any]", obj)
        return _chosen(duck.parts_of_rag(rag, family), rag, family)
    if inspect.isclass(obj) or isinstance(obj, str):
        return _slot(as_rag(cast("object", obj)), family)
    index = 0 if family == "retrieval" else 1
    if langchain.is_runnable(obj) and not _has_family(obj, family):
        return (langchain.parts_of_retriever, langchain.parts_of_generator)[index](obj)
    if callable(obj) and not duck.interface_methods(obj) and not _framework_shapes(obj):
        return (callables.parts_of_retriever, callables.parts_of_generator)[index](obj)
    return _chosen(_parts(obj), obj, family)


def _chosen(parts: Parts, obj: object, family: str) -> Parts:
    chosen = parts.only(family)
    if not chosen.methods:
        raise InterfaceError(f"{_name(obj)} does no {family}. {_inventory(obj)}")
    return chosen


def _has_family(obj: object, family: str) -> bool:
    forms = {form.name for form in FAMILIES[family].forms}
    return not forms.isdisjoint(duck.interface_methods(obj)) and not langchain.is_known(obj)


def _framework_shapes(obj: object) -> dict[str, Callable[[Any], Parts]]:
    """The adapters whose shape an object has, by what they call it."""
    found: dict[str, Callable[[Any], Parts]] = {}
    if langchain.is_retriever(obj):
        found["a LangChain retriever"] = langchain.parts_of_retriever
    elif langchain.is_runnable(obj):
        found["a LangChain chain"] = langchain.parts_of_chain
    if llamaindex.is_query_engine(obj):
        found["a LlamaIndex query engine"] = llamaindex.parts_of_query_engine
    elif llamaindex.is_retriever(obj):
        found["a LlamaIndex retriever"] = llamaindex.parts_of_retriever
    if haystack.is_pipeline(obj):
        found["a Haystack pipeline"] = haystack.parts_of_pipeline
    elif haystack.is_component(obj):
        found["a Haystack component"] = haystack.parts_of_component
    return found


def _parts(obj: object) -> Parts:
    shapes = _framework_shapes(obj)
    own = duck.interface_methods(obj)
    # Whoever has both families wrote the interface; other methods are his own business. LangChain's
    # models and LlamaIndex's engines have a method of the same name that means something else.
    if own and not langchain.is_known(obj):
        if duck.has_both_families(own) or not shapes:
            return duck.parts_of_duck(obj)
        if not any("LlamaIndex" in shape for shape in shapes):
            shapes = {"the interface's methods": duck.parts_of_duck, **shapes}
    if len(shapes) > 1:
        raise InterfaceError(
            f"{_name(obj)} looks like {' and like '.join(shapes)}: say which is meant with "
            f"as_rag(retrieve=..., generate=...) or a function of the query. {_inventory(obj)}"
        )
    if shapes:
        return next(iter(shapes.values()))(obj)
    if callable(obj):
        return _of_function(obj)
    raise InterfaceError(
        f"{_name(obj)} is nothing that can be evaluated. Looked for: {'; '.join(_SHAPES)}. "
        f"{_inventory(obj)}"
    )


def _of_function(function: Callable[..., Any]) -> Parts:
    if _returns_string(function):
        return callables.parts_of_generator(function)
    keyword = keyword_for_top_k(function)
    return parts_of_one_call(function, function, callables.name_of(function), keyword=keyword)


def _returns_string(function: Callable[..., Any]) -> bool:
    """Whether a function is annotated to return nothing but the answer."""
    try:
        annotation = inspect.signature(function).return_annotation
    except (TypeError, ValueError):
        return False
    return annotation is str or annotation == "str"


def _name(obj: object) -> str:
    return callables.name_of(obj)


def _inventory(obj: object) -> str:
    public = [name for name in dir(obj) if not name.startswith("_")]
    methods = [name for name in public if callable(inspect.getattr_static(obj, name, None))]
    shown = ", ".join(methods[:20]) + (", ..." if len(methods) > 20 else "")
    return f"A {type(obj).__name__} has: {shown or 'no public methods'}"
