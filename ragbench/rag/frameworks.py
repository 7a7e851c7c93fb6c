"""Objects of LangChain, LlamaIndex and Haystack, known by their methods; none is imported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from ragbench.core.calling import parameters_of
from ragbench.core.case import Said
from ragbench.core.record import replace
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.errors import InterfaceError
from ragbench.io.values import as_object
from ragbench.rag.forms import keyword_for_top_k, parameter_names
from ragbench.rag.parts import OneCall, Parts, Shape, cut, refuse_beyond
from ragbench.rag.shapes import read_generation, read_retrieval


def shapes_of(obj: object) -> list[Shape]:
    """What an object looks like; of several frameworks where it looks like several."""
    found: list[Shape] = []
    if _has(obj, "invoke"):
        is_retriever = (  # it says that documents come out
            hasattr(obj, "_get_relevant_documents")
            or hasattr(obj, "get_relevant_documents")
            or _schema(obj, "get_output_jsonschema").get("type") == "array"
        )
        langchain = Shape(
            name="a LangChain retriever" if is_retriever else "a LangChain chain",
            parts=_langchain_retriever if is_retriever else _langchain_chain,
            slots={"retrieval": _langchain_retriever, "generation": _generating},
            # LangChain's own, and not an object that happens to have ``invoke``.
            own_names=hasattr(obj, "InputType"),
        )
        found.append(langchain)
    if _has(obj, "query", "aquery"):
        name = "a LlamaIndex query engine"
        found.append(Shape(name=name, parts=_llamaindex_engine, own_names=True))
    elif _has(obj, "retrieve", "aretrieve"):
        name = "a LlamaIndex retriever"
        found.append(Shape(name=name, parts=_llamaindex_retriever, own_names=True))
    if _has(obj, "run", "inputs", "outputs"):
        found.append(Shape(name="a Haystack pipeline", parts=_haystack_pipeline))
    elif _has(obj, "run") and "query" in parameter_names(cast("Any", obj).run):
        found.append(Shape(name="a Haystack component", parts=_haystack_component))
    return found


def _has(obj: object, *methods: str) -> bool:
    return all(callable(getattr(obj, name, None)) for name in methods)


def _langchain_retriever(obj: Any) -> Parts:
    """``invoke``, and ``batch`` for a batch.

    ``top_k`` goes to a retriever that takes extra arguments as ``k``, as vector stores' do.
    Others are cut to it.
    """
    where = f"{type(obj).__name__}.invoke"
    search = getattr(obj, "_get_relevant_documents", None)
    known = None if search is None else parameters_of(search)
    passes = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known or ())

    def options(top_k: int | None) -> dict[str, int]:
        if not passes:
            refuse_beyond(top_k, getattr(obj, "k", None), where)
        return {"k": top_k} if passes and top_k is not None else {}

    def batch(queries: list[str], top_k: int | None = None) -> list[RetrievalResult[Any]]:
        values = obj.batch(queries, **options(top_k))
        return [cut(read_retrieval(value, where), top_k) for value in values]

    parts = _retrieving(obj, where, lambda query, top_k: obj.invoke(query, **options(top_k)))
    return _and_batch(parts, "batch_retrieve_with_metadata", batch)


def _retrieving(obj: object, where: str, search: Callable[[str, int | None], object]) -> Parts:
    def retrieve(query: str, top_k: int | None = None) -> RetrievalResult[Any]:
        return cut(read_retrieval(search(query, top_k), where), top_k)

    return Parts(source=obj, methods={"retrieve_with_metadata": retrieve})


def _and_batch(parts: Parts, name: str, batch: Callable[..., Any]) -> Parts:
    if not _has(parts.source, "batch"):
        return parts
    return replace(parts, methods={**parts.methods, name: batch})


def _langchain_chain(obj: Any) -> Parts:
    """A chain that takes the query alone: its call is split into retrieval and generation.

    One that says that a string comes out shows no contexts: it only generates.
    """
    where = f"{type(obj).__name__}.invoke"
    wrap = _query_input(obj, where)
    if _schema(obj, "get_output_jsonschema").get("type") == "string":
        return _generating(obj, lambda query, contexts: wrap(query))
    history = _HISTORY if {_HISTORY, _ANY} & {*_input_names(obj)} else None

    def ask(query: str, chat_history: Said = ()) -> Any:
        return obj.invoke(wrap(query, chat_history))

    def ask_batch(queries: list[str], chat_history: Sequence[Said] = ()) -> list[Any]:
        said = chat_history or [()] * len(queries)
        return list(obj.batch([*map(wrap, queries, said)], return_exceptions=True))

    batch = ask_batch if _has(obj, "batch") else None
    return OneCall(obj, ask, where, ask_batch=batch, history=history).parts()


def _generating(obj: Any, wrap: Callable[[str, Sequence[str]], Any] | None = None) -> Parts:
    """A chain that answers from contexts that it is given, as ``prompt | model`` does."""
    where, wrap = f"{type(obj).__name__}.invoke", wrap or _generator_input(obj)

    def generate(query: str, contexts: Sequence[str]) -> GenerationResult[Any]:
        return read_generation(obj.invoke(wrap(query, contexts)), where)

    def batch(queries: list[str], contexts_list: list[list[str]]) -> list[GenerationResult[Any]]:
        inputs = [wrap(query, given) for query, given in zip(queries, contexts_list, strict=True)]
        return [read_generation(value, where) for value in obj.batch(inputs)]

    parts = Parts(source=obj, methods={"generate_with_metadata": generate})
    return _and_batch(parts, "batch_generate_with_metadata", batch)


_QUERY_NAMES = ("query", "question", "input", "user_input", "text")


_HISTORY = "chat_history"
_ANY = "root"
"""The key of an input that is a mapping of which LangChain knows no key."""


def _query_input(obj: object, where: str) -> Callable[..., Any]:
    """How a chain wants the query: as it is, or in a mapping; with what was said before."""
    names = _input_names(obj)
    before = bool({_HISTORY, _ANY} & {*names})

    def wrapped(query: str, said: Said = ()) -> Any:
        if name is None:
            return query
        # Not "text": what a chain hands through may be read as its answer.
        keys = _QUERY_NAMES[:-1] if name == _ANY else (name,)
        return {**dict.fromkeys(keys, query), **({_HISTORY: list(said)} if before else {})}

    name = next((name for name in _QUERY_NAMES if name in names), None)
    name = names[0] if name is None and len(names) == 1 else name
    if {*names} - {name, _HISTORY}:
        raise InterfaceError(
            f"{where} takes {', '.join(names)}, and only the query is known. Give a chain that "
            "takes the query alone; for one that takes contexts too, use as_rag(generate=...)"
        )
    return wrapped


_CONTEXT_NAMES = ("context", "contexts", "documents", "docs", "input_documents")


def _generator_input(obj: object) -> Callable[[str, Sequence[str]], Any]:
    if _schema(obj, "get_input_jsonschema").get("type") == "string":
        return lambda query, contexts: query
    names = _input_names(obj) or ["question", "context"]
    query_name = next((name for name in _QUERY_NAMES if name in names), None)
    context_name = next((name for name in _CONTEXT_NAMES if name in names), None)
    if query_name is None or context_name is None or len(names) > 2:
        raise InterfaceError(
            f"{type(obj).__name__} takes {', '.join(names)}: to generate, it must take the query "
            f"({', '.join(_QUERY_NAMES)}) and the contexts ({', '.join(_CONTEXT_NAMES)})"
        )
    return lambda query, contexts: {query_name: query, context_name: "\n\n".join(contexts)}


def _input_names(obj: object) -> list[str]:
    """The keys of the mapping that goes in; none when it is not a mapping, or unknown."""
    keys = getattr(obj, "input_keys", None)  # the older chain classes
    if isinstance(keys, list):
        return [str(key) for key in cast("list[object]", keys)]
    return list(as_object(_schema(obj, "get_input_jsonschema").get("properties")))


def _schema(obj: object, method: str) -> Mapping[str, Any]:
    get = getattr(obj, method, None)
    return as_object(get()) if callable(get) else {}


# --- LlamaIndex


def _llamaindex_retriever(obj: Any) -> Parts:
    """``retrieve``: nodes with scores. ``top_k`` cuts what ``similarity_top_k`` allows."""
    where = f"{type(obj).__name__}.retrieve"

    def search(query: str, top_k: int | None) -> object:
        refuse_beyond(top_k, getattr(obj, "similarity_top_k", None), where)
        return obj.retrieve(query)

    return _retrieving(obj, where, search)


def _llamaindex_engine(obj: Any) -> Parts:
    """``query``: a response with its source nodes, split into retrieval and generation."""
    return OneCall(obj, obj.query, f"{type(obj).__name__}.query").parts()


_QUERY_SOCKETS = ("query", "question")
_ANSWER_SOCKETS = ("answers", "replies", "answer", "response")


# --- Haystack


def _haystack_component(obj: Any) -> Parts:
    """A retriever component: ``run(query=..., top_k=...)`` gives documents."""
    where = f"{type(obj).__name__}.run"
    keyword = keyword_for_top_k(obj.run)

    def search(query: str, top_k: int | None) -> object:
        more = {} if keyword is None or top_k is None else {keyword: top_k}
        return obj.run(query=query, **more)

    return _retrieving(obj, where, search)


def _haystack_pipeline(obj: Any) -> Parts:
    """A pipeline, run once a query.

    The query goes to every open input named ``query`` or ``question`` and to every mandatory text
    input; ``top_k`` to the components that give documents. The documents are those that no
    other component turns into documents again (a ranker's rather than its retriever's).
    """
    where = f"{type(obj).__name__}.run"
    inputs = cast("Mapping[str, Mapping[str, Any]]", obj.inputs())
    sockets = _query_sockets(inputs, where)
    # Also of what another component takes.
    every = "include_components_with_connected_outputs"
    options = {every: True} if every in parameter_names(obj.outputs) else {}
    given = cast("Mapping[str, Iterable[str]]", obj.outputs(**options))
    outputs = {component: frozenset(names) for component, names in given.items()}
    giving = [component for component, names in outputs.items() if "documents" in names]
    edges = [tuple(edge)[:2] for edge in getattr(getattr(obj, "graph", None), "edges", ())]
    last = [one for one in giving if not any((one, other) in edges for other in giving)]
    sources = last or giving
    answers = [name for name, found in outputs.items() if not found.isdisjoint(_ANSWER_SOCKETS)]

    def ask(query: str, top_k: int | None = None) -> dict[str, Any]:
        data: dict[str, dict[str, Any]] = {}
        for component, socket in sockets:
            data.setdefault(component, {})[socket] = query
        for component in sources if top_k is not None else ():
            if "top_k" in inputs.get(component, {}):
                data.setdefault(component, {})["top_k"] = top_k
        return _flat(obj.run(data, include_outputs_from={*sources, *answers}), sources, answers)

    def generate(query: str, contexts: list[str]) -> GenerationResult[Any]:
        return read_generation(ask(query), where)

    if sources and answers:
        return OneCall(obj, ask, where, keyword="top_k").parts()
    if sources:
        return _retrieving(obj, where, ask)
    if answers:
        return Parts(source=obj, methods={"generate_with_metadata": generate})
    raise InterfaceError(
        f"{where}: no component gives 'documents' or one of {', '.join(_ANSWER_SOCKETS)}; there "
        f"are {', '.join(sorted({name for found in outputs.values() for name in found}))}"
    )


def _query_sockets(inputs: Mapping[str, Mapping[str, Any]], where: str) -> list[tuple[str, str]]:
    """Component and name of each input that takes the query."""
    chosen: list[tuple[str, str]] = []
    missing: list[str] = []
    for component, sockets in inputs.items():
        for name, given in sockets.items():
            details = as_object(given)
            mandatory = bool(details.get("is_mandatory"))
            if name in _QUERY_SOCKETS or (mandatory and details.get("type") is str):
                chosen.append((component, name))
            elif mandatory:
                missing.append(f"{component}.{name}")
    if missing or not chosen:
        raise InterfaceError(
            f"{where} takes {', '.join(missing) or 'no query'}, and only the query is known: give "
            "a pipeline whose mandatory inputs are texts, or wrap it in a function of the query"
        )
    return chosen


def _flat(found: Mapping[str, Any], sources: list[str], answers: list[str]) -> dict[str, Any]:
    """One mapping of what came out: the documents, and the first answer there is."""
    gave: dict[str, Mapping[str, Any]]
    gave = {at: as_object(found.get(at)) for at in (*sources, *answers)}
    flat: dict[str, Any] = {}
    if sources:
        flat["documents"] = [one for at in sources for one in gave[at].get("documents") or ()]
    given = ((name, gave[at].get(name)) for name in _ANSWER_SOCKETS for at in answers)
    first = next(((name, value) for name, value in given if value is not None), None)
    return flat | dict([first] if first else [])
