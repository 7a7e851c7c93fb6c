"""LangChain, by shape: retrievers (queries in, documents out) and chains (anything else)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.errors import InterfaceError
from ragbench.rag.one_call import parts_of_one_call
from ragbench.rag.parts import Parts, Shape, cut, refuse_beyond
from ragbench.rag.shapes import as_mapping, read_generation, read_retrieval


def langchain_shape(obj: object) -> Shape | None:
    """What has ``invoke`` or ``ainvoke``; a retriever says that documents come out."""
    if not any(callable(getattr(obj, name, None)) for name in ("invoke", "ainvoke")):
        return None
    is_retriever = _says_documents(obj)
    return Shape(
        name="a LangChain retriever" if is_retriever else "a LangChain chain",
        parts=_parts_of_retriever if is_retriever else _parts_of_chain,
        slots={"retrieval": _parts_of_retriever, "generation": _parts_of_generator},
        # LangChain's own, and not an object that happens to have ``invoke``.
        own_names=hasattr(obj, "InputType"),
    )


def _says_documents(obj: object) -> bool:
    if hasattr(obj, "_get_relevant_documents") or hasattr(obj, "get_relevant_documents"):
        return True
    return _schema(obj, "get_output_jsonschema").get("type") == "array"


def _parts_of_retriever(obj: Any) -> Parts:
    """``invoke`` or, when that is all there is, ``ainvoke``; ``batch`` for a batch.

    ``top_k`` goes to a retriever that takes extra arguments as ``k``, as vector stores' do.
    Others are cut to it.
    """
    where = f"{type(obj).__name__}.invoke"
    search = getattr(obj, "_get_relevant_documents", None)
    passes = search is not None and any(
        parameter.kind is parameter.VAR_KEYWORD
        for parameter in inspect.signature(search).parameters.values()
    )
    built_with = getattr(obj, "k", None)

    def options(top_k: int | None) -> dict[str, int]:
        if not passes:
            refuse_beyond(top_k, built_with, where)
        return {"k": top_k} if passes and top_k is not None else {}

    def retrieve(query: str, top_k: int | None = None) -> RetrievalResult[Any]:
        return cut(read_retrieval(obj.invoke(query, **options(top_k)), where), top_k)

    async def aretrieve(query: str, top_k: int | None = None) -> RetrievalResult[Any]:
        return cut(read_retrieval(await obj.ainvoke(query, **options(top_k)), where), top_k)

    def batch(queries: list[str], top_k: int | None = None) -> list[RetrievalResult[Any]]:
        values = obj.batch(queries, **options(top_k))
        return [cut(read_retrieval(value, where), top_k) for value in values]

    methods = _forms(obj, "retrieve", retrieve, aretrieve, batch)
    return Parts(source=obj, methods=methods)


def _parts_of_chain(obj: Any) -> Parts:
    """A chain that takes the query alone: its call is split into retrieval and generation.

    One that says that a string comes out shows no contexts: it only generates.
    """
    where = f"{type(obj).__name__}.invoke"
    wrap = _query_input(obj, where)
    if _schema(obj, "get_output_jsonschema").get("type") == "string":
        return _generating(obj, where, lambda query, contexts: wrap(query))

    def ask(query: str) -> Any:
        return obj.invoke(wrap(query))

    async def aask(query: str) -> Any:
        return await obj.ainvoke(wrap(query))

    def ask_batch(queries: list[str]) -> list[Any]:
        return list(obj.batch([wrap(query) for query in queries], return_exceptions=True))

    if not callable(getattr(obj, "invoke", None)):
        return parts_of_one_call(obj, aask, where)
    batch = ask_batch if callable(getattr(obj, "batch", None)) else None
    return parts_of_one_call(obj, ask, where, ask_batch=batch)


def _parts_of_generator(obj: Any) -> Parts:
    """A chain that answers from contexts that it is given, as ``prompt | model`` does."""
    return _generating(obj, f"{type(obj).__name__}.invoke", _generator_input(obj))


def _generating(obj: Any, where: str, wrap: Callable[[str, Sequence[str]], Any]) -> Parts:
    def read(value: object) -> GenerationResult[Any]:
        return read_generation(value, where)

    def generate(query: str, contexts: Sequence[str]) -> GenerationResult[Any]:
        return read(obj.invoke(wrap(query, contexts)))

    async def agenerate(query: str, contexts: Sequence[str]) -> GenerationResult[Any]:
        return read(await obj.ainvoke(wrap(query, contexts)))

    def batch(queries: list[str], contexts_list: list[list[str]]) -> list[GenerationResult[Any]]:
        inputs = [wrap(query, given) for query, given in zip(queries, contexts_list, strict=True)]
        return [read(value) for value in obj.batch(inputs)]

    return Parts(source=obj, methods=_forms(obj, "generate", generate, agenerate, batch))


def _forms(
    obj: object,
    verb: str,
    one: Callable[..., Any],
    awaited: Callable[..., Any],
    batch: Callable[..., Any],
) -> dict[str, Callable[..., Any]]:
    if not callable(getattr(obj, "invoke", None)):
        return {f"{verb}_with_metadata": awaited}
    methods = {f"{verb}_with_metadata": one}
    if callable(getattr(obj, "batch", None)):
        methods[f"batch_{verb}_with_metadata"] = batch
    return methods


_QUERY_NAMES = ("query", "question", "input", "user_input", "text")


def _query_input(obj: object, where: str) -> Callable[[str], Any]:
    """How a chain wants the query: as it is, or in a mapping."""
    names = _input_names(obj)
    if not names:
        return lambda query: query
    name = next((name for name in _QUERY_NAMES if name in names), None)
    if name is None and len(names) == 1:
        name = names[0]
    others = [other for other in names if other not in (name, "chat_history")]
    if name is None or others:
        raise InterfaceError(
            f"{where} takes {', '.join(names)}, and only the query is known. Give a chain that "
            "takes the query alone; for one that takes contexts too, say as_rag(generate=...)"
        )
    history: dict[str, Any] = {"chat_history": []} if "chat_history" in names else {}
    return lambda query: {name: query, **history}


_CONTEXT_NAMES = ("context", "contexts", "documents", "docs", "input_documents")


def _generator_input(obj: object) -> Callable[[str, Sequence[str]], Any]:
    names = _input_names(obj)
    if _schema(obj, "get_input_jsonschema").get("type") == "string":
        return lambda query, contexts: query
    if not names:
        return lambda query, contexts: {"question": query, "context": _text(contexts)}
    query_name = next((name for name in _QUERY_NAMES if name in names), None)
    context_name = next((name for name in _CONTEXT_NAMES if name in names), None)
    if query_name is None or context_name is None or len(names) > 2:
        raise InterfaceError(
            f"{type(obj).__name__} takes {', '.join(names)}: to generate, it must take the query "
            f"({', '.join(_QUERY_NAMES)}) and the contexts ({', '.join(_CONTEXT_NAMES)})"
        )
    return lambda query, contexts: {query_name: query, context_name: _text(contexts)}


def _text(contexts: Sequence[str]) -> str:
    return "\n\n".join(contexts)


def _input_names(obj: object) -> list[str]:
    """The keys of the mapping that goes in; none when it is not a mapping, or unknown."""
    keys = getattr(obj, "input_keys", None)  # the older chain classes
    if isinstance(keys, list):
        return [str(key) for key in cast("list[object]", keys)]
    properties = as_mapping(_schema(obj, "get_input_jsonschema").get("properties"))
    return list(properties or ())


def _schema(obj: object, method: str) -> Mapping[str, Any]:
    get = getattr(obj, method, None)
    schema = get() if callable(get) else None
    return as_mapping(schema) or {}
