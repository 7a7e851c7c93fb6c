"""Haystack, by shape: retriever components and pipelines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.errors import InterfaceError
from ragbench.rag.forms import keyword_for_top_k, parameter_names
from ragbench.rag.one_call import parts_of_one_call
from ragbench.rag.parts import Parts, Shape, cut
from ragbench.rag.shapes import as_mapping, read_generation, read_retrieval

_QUERY_SOCKETS = ("query", "question")
_ANSWER_SOCKETS = ("answers", "replies", "answer", "response")


def haystack_shape(obj: object) -> Shape | None:
    """A pipeline has ``run``, ``inputs`` and ``outputs``; a component ``run`` with a ``query``."""
    run = getattr(obj, "run", None)
    if not callable(run):
        return None
    if all(callable(getattr(obj, name, None)) for name in ("inputs", "outputs")):
        return Shape(name="a Haystack pipeline", parts=_parts_of_pipeline)
    if "query" in parameter_names(run):
        return Shape(name="a Haystack component", parts=_parts_of_component)
    return None


def _parts_of_component(obj: Any) -> Parts:
    """A retriever component: ``run(query=..., top_k=...)`` gives documents."""
    where = f"{type(obj).__name__}.run"
    keyword = keyword_for_top_k(obj.run)

    def retrieve(query: str, top_k: int | None = None) -> RetrievalResult[Any]:
        options = {} if keyword is None or top_k is None else {keyword: top_k}
        return cut(read_retrieval(obj.run(query=query, **options), where), top_k)

    return Parts(source=obj, methods={"retrieve_with_metadata": retrieve})


def _parts_of_pipeline(obj: Any) -> Parts:
    """A pipeline, run once a query.

    The query goes to every open input named ``query`` or ``question`` and to every mandatory text
    input; ``top_k`` to the components that give documents. The documents are those that no
    other component turns into documents again (a ranker's rather than its retriever's).
    """
    where = f"{type(obj).__name__}.run"
    sockets = _query_sockets(obj, where)
    outputs = _outputs(obj)
    sources = _document_sources(obj, outputs)
    answers = [name for name, found in outputs.items() if not found.isdisjoint(_ANSWER_SOCKETS)]

    def ask(query: str, top_k: int | None = None) -> dict[str, Any]:
        data: dict[str, dict[str, Any]] = {}
        for component, socket in sockets:
            data.setdefault(component, {})[socket] = query
        for component in sources if top_k is not None else ():
            if "top_k" in _open_inputs(obj).get(component, {}):
                data.setdefault(component, {})["top_k"] = top_k
        found = obj.run(data, include_outputs_from={*sources, *answers})
        return _flat(cast("Mapping[str, Any]", found), sources, answers)

    def retrieve(query: str, top_k: int | None = None) -> RetrievalResult[Any]:
        return cut(read_retrieval(ask(query, top_k), where), top_k)

    def generate(query: str, contexts: list[str]) -> GenerationResult[Any]:
        return read_generation(ask(query), where)

    if sources and answers:
        return parts_of_one_call(obj, ask, where, keyword="top_k")
    if sources:
        return Parts(source=obj, methods={"retrieve_with_metadata": retrieve})
    if answers:
        return Parts(source=obj, methods={"generate_with_metadata": generate})
    raise InterfaceError(
        f"{where}: no component gives 'documents' or one of {', '.join(_ANSWER_SOCKETS)}; there "
        f"are {', '.join(sorted({name for found in outputs.values() for name in found}))}"
    )


def _query_sockets(obj: Any, where: str) -> list[tuple[str, str]]:
    chosen: list[tuple[str, str]] = []
    missing: list[str] = []
    for component, sockets in _open_inputs(obj).items():
        for name, details in sockets.items():
            mandatory = bool((as_mapping(details) or {}).get("is_mandatory"))
            textual = (as_mapping(details) or {}).get("type") is str
            if name in _QUERY_SOCKETS or (mandatory and textual):
                chosen.append((component, name))
            elif mandatory:
                missing.append(f"{component}.{name}")
    if missing or not chosen:
        raise InterfaceError(
            f"{where} takes {', '.join(missing) or 'no query'}, and only the query is known: give "
            "a pipeline whose mandatory inputs are texts, or wrap it in a function of the query"
        )
    return chosen


def _open_inputs(obj: Any) -> Mapping[str, Mapping[str, Any]]:
    return cast("Mapping[str, Mapping[str, Any]]", obj.inputs())


def _outputs(obj: Any) -> dict[str, frozenset[str]]:
    """Names of what each component gives, also where another component takes it."""
    every = "include_components_with_connected_outputs"
    options = {every: True} if every in parameter_names(obj.outputs) else {}
    found = cast("Mapping[str, Iterable[str]]", obj.outputs(**options))
    return {component: frozenset(names) for component, names in found.items()}


def _document_sources(obj: Any, outputs: Mapping[str, frozenset[str]]) -> list[str]:
    giving = [component for component, names in outputs.items() if "documents" in names]
    graph = getattr(obj, "graph", None)
    edges = [tuple(edge)[:2] for edge in cast("Iterable[Any]", getattr(graph, "edges", ()))]
    last = [one for one in giving if not any((one, other) in edges for other in giving)]
    return last or giving


def _flat(found: Mapping[str, Any], sources: list[str], answers: list[str]) -> dict[str, Any]:
    """One mapping of what came out: the documents, and the first answer there is."""
    flat: dict[str, Any] = {}
    if sources:
        gave = [cast("Mapping[str, Any]", found.get(component, {})) for component in sources]
        flat["documents"] = [document for out in gave for document in out.get("documents") or ()]
    for name in _ANSWER_SOCKETS:
        for component in answers:
            value = (as_mapping(found.get(component)) or {}).get(name)
            if value is not None:
                return {**flat, name: value}
    return flat
