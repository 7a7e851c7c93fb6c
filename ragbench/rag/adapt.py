"""Anything that retrieves or generates, as a RAG."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from ragbench.core.calling import history_keyword
from ragbench.errors import InterfaceError
from ragbench.plugins import load_attribute
from ragbench.rag.fallback import to_batch
from ragbench.rag.forms import (
    FAMILIES,
    FORMS,
    RETRIEVAL,
    MethodForm,
    accepts_second_argument,
    keyword_for_contexts,
    keyword_for_top_k,
    pass_top_k,
    top_k_of_function,
)
from ragbench.rag.frameworks import shapes_of
from ragbench.rag.interface import AsyncRAGInterface, RAGBase, RAGInterface
from ragbench.rag.parts import OneCall, Parts, compose, is_coroutine, taking_history
from ragbench.rag.shapes import read_generation, read_retrieval
from ragbench.safe_text import listed

AnyRAG = RAGInterface[Any] | AsyncRAGInterface[Any]
"""What `as_rag` gives: plain or in coroutines."""

_SHAPES = (
    "the interface's methods (retrieve, generate, their batch_ and _with_metadata forms)",
    "a LangChain retriever or chain (invoke)",
    "a LlamaIndex retriever (retrieve, aretrieve) or query engine (query, aquery)",
    "a Haystack retriever (run with a query) or pipeline (run, inputs, outputs)",
    "a function of the query",
    "an http:// or https:// URL",
)
"""What `as_rag` looks for, as its errors list it."""


def as_rag(
    obj: object = None,
    *,
    retrieve: object = None,
    generate: object = None,
    top_k: int | None = None,
    send: Mapping[str, Any] | Sequence[str] | None = None,
    take: Mapping[str, Any] | Sequence[str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> AnyRAG:
    """Makes a RAG of an object, of functions, or of an endpoint.

    Args:
        obj: an instance or a class of `RAGInterface`, which is returned as it is or instantiated;
            an object with the interface's methods that does not inherit; a LangChain, LlamaIndex
            or Haystack retriever, chain, query engine or pipeline; a function of the query that
            retrieves and answers in one call; or a URL (docs/http.md).
        retrieve: what retrieves: a function of the query (and, where it takes it, ``top_k``), a
            retriever, or a RAG of which only retrieval is used.
        generate: what generates: a function of the query and the contexts, a chain that takes
            both, or a RAG of which only generation is used.
        top_k: how many contexts to ask for when a call does not say. A RAG of your own has
            that in its configuration.
        send: what a service with requests of its own is sent, such as
            ``{"question": "{query}"}``; docs/http.md has all placeholders.
        take: where its response has what, such as ``{"answer": ".answer", "contexts":
            ".sources[].text"}``.
        headers: what every request to a URL carries; ``${NAME}`` is an environment variable.

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
    options = _options_of_url(obj, send=send, take=take, headers=headers)
    if obj is None:
        if retrieve is None and top_k is not None:
            raise InterfaceError("top_k is for retrieval, and only generate= is given")
        rag = _rag_of_two(retrieve, generate, top_k)
    else:
        if isinstance(obj, str):
            obj = _rag_of_url(obj, options)
        elif inspect.isclass(obj):
            obj = _instance_of_class(obj)
        # Not composed: it has all forms already, and its own class.
        if isinstance(obj, RAGBase):
            if top_k is not None:
                raise InterfaceError(
                    f"{type(cast('object', obj)).__name__} is a RAG already: its top_k belongs "
                    "into its configuration"
                )
            return cast("AnyRAG", obj)
        rag = compose(name_of(obj), [_parts_of_object(obj)], top_k)
    # Of what was given, so that a worker process makes the same again.
    rebuild = partial(as_rag, obj, retrieve=retrieve, generate=generate, top_k=top_k)
    cast("Any", rag).rebuild = rebuild
    return rag


def _rag_of_two(retrieve: object, generate: object, top_k: int | None) -> AnyRAG:
    """A RAG that retrieves by one object and generates by another; one of the two may be None.

    The RAG's name joins the names of both objects.
    """
    names: list[str] = []
    parts: list[Parts] = []
    # Retrieval first, so that its name comes first in the RAG's.
    for family, source in (("retrieval", retrieve), ("generation", generate)):
        if source is not None:
            parts.append(_parts_of_family(source, family))
            names.append(name_of(source))
    return compose("+".join(names), parts, top_k)


def _options_of_url(obj: object, **options: object) -> dict[str, object]:
    """The options of `as_rag` that have a value; refuses them for anything but a URL.

    An object or a function has no requests that they could shape.
    """
    present = {name: value for name, value in options.items() if value is not None}
    if present and not isinstance(obj, str):
        names = ", ".join(present)
        raise InterfaceError(f"{names}= is for a URL, which is the first argument")
    return present


def _rag_of_url(url: str, options: Mapping[str, Any]) -> object:
    """The RAG behind a URL; with options that map its requests, that of a foreign service.

    Raises:
        InterfaceError: the text is no URL, as of a RAG's name, which another function loads.
    """
    # Only a URL needs it.
    from ragbench.rag.service_mapping import read_service

    if read_service(url) is None:
        raise InterfaceError(
            f"as_rag takes objects and URLs, and {url!r} is not a URL; "
            "ragbench.rag.load.load_rag takes names such as 'package.module:attribute'"
        )
    # By its name: that module imports this one.
    return load_attribute("ragbench.rag.load:http_rag")(url, **options)


def _instance_of_class(cls: type) -> object:
    """An instance of a user's class; refuses a class that cannot be built without arguments.

    Users may give `as_rag` their class as well as an object of it.
    """
    try:
        # Tried before: a TypeError within the class would look like missing arguments.
        inspect.signature(cls).bind()
    except TypeError as error:
        raise InterfaceError(
            f"class {cls.__name__} cannot be built without arguments ({error}): give an instance"
        ) from None
    except ValueError:  # a class written in C has no signature
        pass
    return cls()


def _parts_of_family(obj: object, family: str) -> Parts:
    """The methods by which an object retrieves, or those by which it generates.

    Asked by ``as_rag(retrieve=...)`` and ``as_rag(generate=...)``, which take the other half from
    another object.

    Args:
        family: ``"retrieval"`` or ``"generation"``.
    """
    source: object = obj
    if inspect.isclass(obj) or isinstance(obj, str):
        source = as_rag(cast("object", obj))
    if isinstance(source, RAGBase):
        # A RAG derives every form of a method from those that it has. The two forms with metadata
        # are taken, as they lose nothing.
        rag = cast("RAGBase[Any]", source)
        methods: dict[str, Callable[..., Any]] = {}
        if family in rag.families:
            forms = FAMILIES[family]
            for form in (forms.rich, forms.rich_batch):
                methods[form.name] = getattr(rag, form.name)
        parts = Parts(source=rag, methods=methods)
    else:
        shapes = shapes_of(obj)
        own_names = interface_methods(obj)
        has_family = any(FORMS[name].family == family for name in own_names)
        # A framework's object may have another role as a half: a chain takes contexts here, which
        # it would not as a whole system. Methods with the interface's names are preferred to this,
        # but where the framework means something else by such a name (``own_names``).
        for shape in shapes:
            if family in shape.slots and (shape.own_names or not has_family):
                return shape.slots[family](obj)
        # A function alone does not say what it does; the argument that it is given as does.
        if callable(obj) and not own_names and not shapes:
            return _parts_of_retriever(obj) if family == "retrieval" else _parts_of_generator(obj)
        parts = _parts_of_object(obj).only(family)
    if not parts.methods:
        raise InterfaceError(f"{name_of(obj)} does no {family}. {_inventory(obj)}")
    return parts


def _parts_of_object(obj: object) -> Parts:
    """The methods of an object that is one of the things that `as_rag` knows, and of only one.

    An object that looks like two things is refused: a guess would measure another system.
    """
    shapes = shapes_of(obj)
    names = [shape.name for shape in shapes]
    own_names = interface_methods(obj)
    if own_names:
        # Whoever has both families wrote the interface; other methods are his own business.
        has_both_families = {FORMS[name].family for name in own_names} == set(FAMILIES)
        if has_both_families or not shapes:
            return _parts_of_interface(obj, own_names)
        if not any(shape.own_names for shape in shapes):
            names = ["the interface's methods", *names]
    if len(names) > 1:
        raise InterfaceError(
            f"{name_of(obj)} looks like {' and like '.join(names)}: choose one with "
            f"as_rag(retrieve=..., generate=...) or a function of the query. {_inventory(obj)}"
        )
    if shapes:
        return shapes[0].parts(obj)
    if callable(obj):
        return _parts_of_function(obj)
    raise InterfaceError(
        f"{name_of(obj)} cannot be evaluated as a RAG. Looked for: {'; '.join(_SHAPES)}. "
        f"{_inventory(obj)}. A method that answers can be given by itself (rag.ask)"
    )


def interface_methods(obj: object) -> tuple[str, ...]:
    """Names of the interface's methods that an object has, whatever its class.

    An object may have them without inheriting from the interface.
    """
    return tuple(name for name in FORMS if callable(getattr(obj, name, None)))


def _inventory(obj: object) -> str:
    """The public methods of an object, for the end of an error that looked for others in vain.

    Users see there which method they may have meant.
    """
    methods: list[str] = []
    for name in dir(obj):
        if name.startswith("_"):
            continue
        # Statically: a property would be computed, and may fail.
        member = inspect.getattr_static(obj, name, None)
        if callable(member):
            methods.append(name)
    names = listed(methods) or "no public methods"
    return f"A {type(obj).__name__} has: {names}"


def name_of(function: object) -> str:
    """The name of a function in messages; of an object, the name of its class.

    Of ``functools.partial`` it is the name of the function within.
    """
    inner = getattr(function, "func", function)  # functools.partial
    return str(getattr(inner, "__qualname__", type(function).__name__))


def _parts_of_function(function: Callable[..., Any]) -> Parts:
    """The methods that one function of the query gives: it retrieves and answers in one call.

    A function that is annotated to return a string only answers.
    """
    try:
        returned = inspect.signature(function).return_annotation
    except (TypeError, ValueError):
        returned = None
    if returned is str or returned == "str":  # it gives nothing but the answer
        return _parts_of_generator(function)
    one_call = OneCall(
        function,
        function,
        name_of(function),
        keyword=keyword_for_top_k(function),
        history=history_keyword(function),
        contexts=keyword_for_contexts(function),
    )
    return one_call.parts()


def _parts_of_retriever(function: Callable[..., Any]) -> Parts:
    """The retrieval method that a function of the query gives.

    The function may take the number of contexts as ``top_k``, ``k``, ``limit`` or the like.
    """
    where = name_of(function)
    name = "retrieve_with_metadata"
    ask = _with_top_k(function, keyword_for_top_k(function), where)
    methods = {name: _interface_method(name, function, where, ask)}
    return Parts(source=function, methods=methods)


def _parts_of_generator(function: Callable[..., Any]) -> Parts:
    """The generation method that a function of the query gives, with or without the contexts.

    One without them finds its own.
    """
    ask = partial(_ask_generator, function, accepts_second_argument(function))
    name = "generate_with_metadata"
    methods = {name: _interface_method(name, function, name_of(function), ask)}
    return Parts(source=function, methods=methods)


def _ask_generator(
    function: Callable[..., Any],
    takes_contexts: bool,
    /,
    query: str,
    contexts: list[str],
    **said: Any,
) -> Any:
    """Asks a user's function for its answer, with the contexts where it takes them.

    Args:
        said: the messages before the query, under the name by which the function takes them.
    """
    if takes_contexts:
        return function(query, contexts, **said)
    return function(query, **said)


def _parts_of_interface(obj: object, names: tuple[str, ...]) -> Parts:
    """The forms with metadata, made of those of the interface's methods that an object has.

    Forms with metadata win over plain ones, which would lose the metadata. Plain ones may return
    whatever can be read as documents or as an answer, not only strings.

    Args:
        names: of the interface's methods that the object has.
    """
    methods: dict[str, Callable[..., Any]] = {}
    for family in FAMILIES.values():
        present_forms = [form for form in family if form.name in names]
        rich_forms = [form for form in present_forms if form.rich]
        # Where a form with metadata is there, a plain one would only lose them.
        for form in rich_forms or present_forms:
            target = family.rich_batch if form.batch else family.rich
            function = getattr(obj, form.name)
            where = f"{type(obj).__name__}.{form.name}"
            ask = function
            if family is RETRIEVAL:
                ask = _with_top_k(function, top_k_of_function(function), where)
            methods[target.name] = _interface_method(target.name, function, where, ask)
    return Parts(source=obj, methods=methods)


def _with_top_k(function: Callable[..., Any], way: str | None, where: str) -> Callable[..., Any]:
    """A function that takes ``top_k`` by that name, of one that takes it in a way of its own.

    Args:
        way: how the user's function takes the number; see `ragbench.rag.forms.pass_top_k`.
        where: its name in messages.
    """
    return partial(_ask_retriever, function, way, where)


def _ask_retriever(
    function: Callable[..., Any],
    way: str | None,
    where: str,
    /,
    query: Any,
    top_k: int | None = None,
    **said: Any,
) -> Any:
    """Asks a user's function for ``top_k`` contexts, or refuses where it takes no number.

    Args:
        way: how the function takes the number; see `ragbench.rag.forms.pass_top_k`.
        where: the function's name in messages.
        query: the question; of a batch function, the list of questions.
        said: the messages before the query, under the name by which the function takes them.
    """
    extra, options = pass_top_k(way, top_k, where)
    return function(query, *extra, **options, **said)


def _interface_method(
    name: str, function: Callable[..., Any], where: str, ask: Callable[..., Any]
) -> Callable[..., Any]:
    """One of the interface's methods, of a function whose values are read by their shape.

    The method is a coroutine function where the user's function is one.

    Args:
        name: of the interface's method.
        function: the user's function.
        where: its name in messages.
        ask: calls the function with the method's arguments.
    """
    form = FORMS[name]
    call = _call_and_read
    if is_coroutine(function):
        call = _await_and_read
    return taking_history(partial(call, ask, form, where), history_keyword(function))


def _call_and_read(
    ask: Callable[..., Any], form: MethodForm, where: str, /, query: Any, *more: Any, **options: Any
) -> Any:
    """One of the interface's methods for a plain function: its value, read as a result.

    Args:
        ask: calls the function with the method's arguments.
        query: the question; of a batch form, the list of questions.
    """
    size = len(query)  # counted first: a method may empty what it is given
    value = ask(query, *more, **options)
    return _read_by_form(value, form, size, where)


async def _await_and_read(
    ask: Callable[..., Any], form: MethodForm, where: str, /, query: Any, *more: Any, **options: Any
) -> Any:
    """One of the interface's methods for a coroutine function: its value, read as a result.

    Args:
        ask: calls the function with the method's arguments.
        query: the question; of a batch form, the list of questions.
    """
    size = len(query)  # counted first: a method may empty what it is given
    value = await ask(query, *more, **options)
    return _read_by_form(value, form, size, where)


def _read_by_form(value: object, form: MethodForm, size: int, where: str) -> Any:
    """Reads by its shape what a user's function returned for one method of the interface.

    Args:
        form: the method: of a batch each value is read, and checked to be one per query.
        size: the number of queries of a batch.
        where: the function's name in messages.
    """
    read = read_retrieval if form in RETRIEVAL else read_generation
    if form.batch:
        return [read(item, where) for item in to_batch(value, size, where)]
    return read(value, where)
