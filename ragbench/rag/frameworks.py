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
    """What an object looks like; of several frameworks where it looks like several.

    Frameworks are known by their methods, so that none has to be installed or imported. The caller
    refuses an object of several shapes rather than guess, and one of none.
    """
    shapes: list[Shape] = []
    if _has(obj, "invoke"):
        shapes.append(_langchain_shape(obj))
    # Both halves of a pair: an object with ``query`` alone may be anything. An engine comes first,
    # because some engines retrieve, too, and their answers would be lost.
    if _has(obj, "query", "aquery"):
        name = "a LlamaIndex query engine"
        shapes.append(Shape(name=name, parts=_llamaindex_engine, own_names=True))
    elif _has(obj, "retrieve", "aretrieve"):
        name = "a LlamaIndex retriever"
        shapes.append(Shape(name=name, parts=_llamaindex_retriever, own_names=True))
    if _has(obj, "run", "inputs", "outputs"):
        shapes.append(Shape(name="a Haystack pipeline", parts=_haystack_pipeline))
    elif _has(obj, "run") and "query" in parameter_names(cast("Any", obj).run):
        # Every component has ``run``; those that are asked a question take one.
        shapes.append(Shape(name="a Haystack component", parts=_haystack_component))
    return shapes


def _has(obj: object, *methods: str) -> bool:
    """Whether an object has all these methods: frameworks are known by them and not imported."""
    return all(callable(getattr(obj, name, None)) for name in methods)


# --- LangChain


def _langchain_shape(obj: object) -> Shape:
    """A retriever where a runnable finds documents or says that a list comes out, else a chain."""
    name = "a LangChain chain"
    parts = _langchain_chain
    # Retrievers of LangChain have the first, those of older releases the second.
    has_search = hasattr(obj, "_get_relevant_documents") or hasattr(obj, "get_relevant_documents")
    if has_search or _schema(obj, "get_output_jsonschema").get("type") == "array":
        name = "a LangChain retriever"
        parts = _langchain_retriever
    return Shape(
        name=name,
        parts=parts,
        slots={"retrieval": _langchain_retriever, "generation": _generating},
        # LangChain's own, and not an object that happens to have ``invoke``.
        own_names=hasattr(obj, "InputType"),
    )


def _langchain_retriever(obj: Any) -> Parts:
    """``invoke``, and ``batch`` for a batch.

    ``top_k`` goes to a retriever that takes extra arguments as ``k``, as vector stores' do.
    Others are cut to it.
    """
    where = f"{type(obj).__name__}.invoke"
    takes_extra_arguments = _takes_keywords(getattr(obj, "_get_relevant_documents", None))

    def options(top_k: int | None) -> dict[str, int]:
        """The arguments that ask for so many documents, where the retriever takes any."""
        if not takes_extra_arguments:
            refuse_beyond(top_k, getattr(obj, "k", None), where)
            return {}
        if top_k is None:
            return {}
        return {"k": top_k}

    def search(query: str, top_k: int | None) -> object:
        """One query, asked by ``invoke``."""
        return obj.invoke(query, **options(top_k))

    def batch(queries: list[str], top_k: int | None = None) -> list[RetrievalResult[Any]]:
        """Many queries in one call of the framework, which may run them at once."""
        results: list[RetrievalResult[Any]] = []
        for value in obj.batch(queries, **options(top_k)):
            result = read_retrieval(value, where)
            results.append(cut(result, top_k))
        return results

    parts = _retrieving(obj, where, search)
    return _and_batch(parts, "batch_retrieve_with_metadata", batch)


def _takes_keywords(search: Callable[..., Any] | None) -> bool:
    """Whether a retriever's search takes any keyword: LangChain passes on those of ``invoke``."""
    if search is None:
        return False
    parameters = parameters_of(search) or ()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def _retrieving(obj: object, where: str, search: Callable[[str, int | None], object]) -> Parts:
    """A RAG that only retrieves, by a function of the query and ``top_k``.

    Where the framework takes no number, or gives more, the result is cut to ``top_k``.
    """

    def retrieve(query: str, top_k: int | None = None) -> RetrievalResult[Any]:
        """The interface's method: the framework's documents as a result, at most ``top_k``."""
        documents = search(query, top_k)
        result = read_retrieval(documents, where)
        return cut(result, top_k)

    return Parts(source=obj, methods={"retrieve_with_metadata": retrieve})


def _and_batch(parts: Parts, name: str, batch: Callable[..., Any]) -> Parts:
    """The parts with a batch method, where the object can take a batch in one call."""
    if not _has(parts.source, "batch"):
        return parts
    return replace(parts, methods={**parts.methods, name: batch})


def _langchain_chain(obj: Any) -> Parts:
    """A chain that takes the query alone: its call is split into retrieval and generation.

    One that says that a string comes out shows no contexts: it only generates.
    """
    where = f"{type(obj).__name__}.invoke"
    input_of = _query_input(obj, where)
    if _schema(obj, "get_output_jsonschema").get("type") == "string":
        return _generating(obj, lambda query, contexts: input_of(query))
    history = None
    if _takes_history(_input_names(obj)):
        history = _HISTORY

    def ask(query: str, chat_history: Said = ()) -> Any:
        """Asks the chain once; what it returns holds contexts and answer."""
        return obj.invoke(input_of(query, chat_history))

    def ask_batch(queries: list[str], chat_history: Sequence[Said] = ()) -> list[Any]:
        """Asks for several queries at once; one that fails gives its exception, not the batch's."""
        histories = chat_history or [()] * len(queries)
        inputs: list[Any] = []
        for query, said in zip(queries, histories, strict=True):
            inputs.append(input_of(query, said))
        return list(obj.batch(inputs, return_exceptions=True))

    batch = ask_batch if _has(obj, "batch") else None
    return OneCall(obj, ask, where, ask_batch=batch, history=history).parts()


def _generating(
    obj: Any, input_of_chain: Callable[[str, Sequence[str]], Any] | None = None
) -> Parts:
    """A chain that answers from contexts that it is given, as ``prompt | model`` does.

    Args:
        input_of_chain: makes the chain's input of the query and the contexts; None where the names
            of its input's keys are to say it.
    """
    where = f"{type(obj).__name__}.invoke"
    input_of = input_of_chain or _generator_input(obj)

    def generate(query: str, contexts: Sequence[str]) -> GenerationResult[Any]:
        """The interface's method: the chain's answer from these contexts."""
        message = obj.invoke(input_of(query, contexts))
        return read_generation(message, where)

    def batch(queries: list[str], contexts_list: list[list[str]]) -> list[GenerationResult[Any]]:
        """Many answers in one call of the framework, which may run them at once."""
        inputs: list[Any] = []
        for query, contexts in zip(queries, contexts_list, strict=True):
            inputs.append(input_of(query, contexts))
        messages = obj.batch(inputs)
        return [read_generation(message, where) for message in messages]

    parts = Parts(source=obj, methods={"generate_with_metadata": generate})
    return _and_batch(parts, "batch_generate_with_metadata", batch)


_QUERY_NAMES = ("query", "question", "input", "user_input", "text")
"""Keys under which chains take the query; the first that an input has is filled."""
_HISTORY = "chat_history"
"""LangChain's usual key for the turns of a conversation before the query."""
_ANY = "root"
"""The key of an input that is a mapping of which LangChain knows no key."""


def _takes_history(names: Sequence[str]) -> bool:
    """Whether an input has a key for what was said before, or may have any key."""
    return _HISTORY in names or _ANY in names


def _query_input(obj: object, where: str) -> Callable[..., Any]:
    """A function from the query, and what was said before, to the input that a chain takes.

    That is the query as it is, or a mapping with the query under the chain's own key. A chain that
    needs anything else is refused here, before the first question.
    """
    names = _input_names(obj)
    takes_history = _takes_history(names)
    query_name = _first_of(_QUERY_NAMES, names)
    if query_name is None and len(names) == 1:
        query_name = names[0]  # a single key holds the query, whatever it is called
    unknown_names = set(names) - {query_name, _HISTORY}
    if unknown_names:
        raise InterfaceError(
            f"{where} takes {', '.join(names)}, and only the query is known. Give a chain that "
            "takes the query alone; for one that takes contexts too, use as_rag(generate=...)"
        )

    def wrapped(query: str, said: Said = ()) -> Any:
        """The input for one query, in the form that the chain takes."""
        if query_name is None:
            return query
        keys: Sequence[str] = (query_name,)
        if query_name == _ANY:
            # Not "text": what a chain hands through may be read as its answer.
            keys = _QUERY_NAMES[:-1]
        mapping: dict[str, Any] = dict.fromkeys(keys, query)
        if takes_history:
            mapping[_HISTORY] = list(said)
        return mapping

    return wrapped


def _first_of(candidates: Sequence[str], names: Sequence[str]) -> str | None:
    """The first of the candidates that is among the names."""
    for name in candidates:
        if name in names:
            return name
    return None


_CONTEXT_NAMES = ("context", "contexts", "documents", "docs", "input_documents")
"""Keys under which chains that only generate take the contexts."""


def _generator_input(obj: object) -> Callable[[str, Sequence[str]], Any]:
    """A function from query and contexts to the input that a chain takes which only generates.

    The names of its input's keys decide; a chain of strings gets the query alone.
    """
    if _schema(obj, "get_input_jsonschema").get("type") == "string":
        return lambda query, contexts: query
    # A chain that does not say what it takes is given the keys of LangChain's own examples.
    names = _input_names(obj) or ["question", "context"]
    query_name = _first_of(_QUERY_NAMES, names)
    context_name = _first_of(_CONTEXT_NAMES, names)
    if query_name is None or context_name is None or len(names) > 2:
        raise InterfaceError(
            f"{type(obj).__name__} takes {', '.join(names)}: to generate, it must take the query "
            f"({', '.join(_QUERY_NAMES)}) and the contexts ({', '.join(_CONTEXT_NAMES)})"
        )

    def wrapped(query: str, contexts: Sequence[str]) -> dict[str, str]:
        """The input for one query with its contexts, under the chain's own keys."""
        # One text with a blank line between contexts: a prompt takes texts, not lists.
        return {query_name: query, context_name: "\n\n".join(contexts)}

    return wrapped


def _input_names(obj: object) -> list[str]:
    """The keys of the mapping that goes in; none when it is not a mapping, or unknown."""
    keys = getattr(obj, "input_keys", None)  # the older chain classes
    if isinstance(keys, list):
        return [str(key) for key in cast("list[object]", keys)]
    schema = _schema(obj, "get_input_jsonschema")
    return list(as_object(schema.get("properties")))


def _schema(obj: object, method: str) -> Mapping[str, Any]:
    """A JSON schema that a runnable gives of its input or output; empty for other objects."""
    read_schema = getattr(obj, method, None)
    if not callable(read_schema):
        return {}
    return as_object(read_schema())


# --- LlamaIndex


def _llamaindex_retriever(obj: Any) -> Parts:
    """``retrieve``: nodes with scores. ``top_k`` cuts what ``similarity_top_k`` allows."""
    where = f"{type(obj).__name__}.retrieve"

    def search(query: str, top_k: int | None) -> object:
        """One query; more nodes than the retriever was built for cannot be had."""
        refuse_beyond(top_k, getattr(obj, "similarity_top_k", None), where)
        return obj.retrieve(query)

    return _retrieving(obj, where, search)


def _llamaindex_engine(obj: Any) -> Parts:
    """``query``: a response with its source nodes, split into retrieval and generation."""
    return OneCall(obj, obj.query, f"{type(obj).__name__}.query").parts()


# --- Haystack

_QUERY_SOCKETS = ("query", "question")
"""Names of components' inputs that take the question."""
_ANSWER_SOCKETS = ("answers", "replies", "answer", "response")
"""Names of components' outputs that hold the answer, in the order in which they are looked for."""


def _haystack_component(obj: Any) -> Parts:
    """A retriever component: ``run(query=..., top_k=...)`` gives documents."""
    where = f"{type(obj).__name__}.run"
    keyword = keyword_for_top_k(obj.run)

    def search(query: str, top_k: int | None) -> object:
        """One query, with ``top_k`` where the component takes a number."""
        options: dict[str, int] = {}
        if keyword is not None and top_k is not None:
            options[keyword] = top_k
        return obj.run(query=query, **options)

    return _retrieving(obj, where, search)


def _haystack_pipeline(obj: Any) -> Parts:
    """A pipeline, run once a query.

    The query goes to every open input named ``query`` or ``question`` and to every mandatory text
    input; ``top_k`` to the components that give documents. The documents are those that no
    other component turns into documents again (a ranker's rather than its retriever's).
    """
    where = f"{type(obj).__name__}.run"
    inputs = cast("Mapping[str, Mapping[str, Any]]", obj.inputs())
    query_sockets = _query_sockets(inputs, where)
    outputs = _haystack_outputs(obj)
    sources = _last_sources(obj, outputs)
    answers = _answering_components(outputs)

    def ask(query: str, top_k: int | None = None) -> dict[str, Any]:
        """Runs the pipeline once, and gives its documents and its answer."""
        # The inputs by component, as a pipeline takes them.
        data: dict[str, dict[str, Any]] = {}
        for component, socket in query_sockets:
            inputs_of_component = data.setdefault(component, {})
            inputs_of_component[socket] = query
        if top_k is not None:
            for component in sources:
                if "top_k" in inputs.get(component, {}):
                    inputs_of_component = data.setdefault(component, {})
                    inputs_of_component["top_k"] = top_k
        # Named, because documents that a later component takes are not given out otherwise.
        outputs_of_run = obj.run(data, include_outputs_from={*sources, *answers})
        return _flat(outputs_of_run, sources, answers)

    def generate(query: str, contexts: list[str]) -> GenerationResult[Any]:
        """The answer of a pipeline that shows no documents: it finds its own, whatever is given."""
        outputs_of_run = ask(query)
        return read_generation(outputs_of_run, where)

    if sources and answers:
        return OneCall(obj, ask, where, keyword="top_k").parts()
    if sources:
        return _retrieving(obj, where, ask)
    if answers:
        return Parts(source=obj, methods={"generate_with_metadata": generate})
    output_sockets = sorted(frozenset[str]().union(*outputs.values()))
    raise InterfaceError(
        f"{where}: no component gives 'documents' or one of {', '.join(_ANSWER_SOCKETS)}; there "
        f"are {', '.join(output_sockets)}"
    )


def _haystack_outputs(obj: Any) -> dict[str, frozenset[str]]:
    """The names of what each component gives, also of what another component takes."""
    option = "include_components_with_connected_outputs"
    options: dict[str, bool] = {}
    if option in parameter_names(obj.outputs):  # older releases do not have it
        options[option] = True
    outputs = cast("Mapping[str, Iterable[str]]", obj.outputs(**options))
    return {component: frozenset(names) for component, names in outputs.items()}


def _answering_components(outputs: Mapping[str, frozenset[str]]) -> list[str]:
    """The components that give an answer under one of the usual names."""
    components: list[str] = []
    for component, sockets in outputs.items():
        if not sockets.isdisjoint(_ANSWER_SOCKETS):
            components.append(component)
    return components


def _last_sources(obj: Any, outputs: Mapping[str, frozenset[str]]) -> list[str]:
    """The components whose documents no other component turns into documents again.

    All of them, where the pipeline shows no connections, or where they lead in a circle.
    """
    sources = [component for component, names in outputs.items() if "documents" in names]
    graph = getattr(obj, "graph", None)
    edges: set[tuple[Any, ...]] = set()
    for edge in getattr(graph, "edges", ()):
        sender_and_receiver = tuple(edge)[:2]  # a third member would be the edge's key
        edges.add(sender_and_receiver)
    last_sources: list[str] = []
    for component in sources:
        is_read_again = any((component, later) in edges for later in sources)
        if not is_read_again:
            last_sources.append(component)
    return last_sources or sources


def _query_sockets(inputs: Mapping[str, Mapping[str, Any]], where: str) -> list[tuple[str, str]]:
    """Component and name of each input that takes the query.

    A pipeline that needs anything else is refused here, before the first question.
    """
    query_sockets: list[tuple[str, str]] = []
    unfilled: list[str] = []
    for component, sockets in inputs.items():
        for name, socket in sockets.items():
            details = as_object(socket)
            is_mandatory = bool(details.get("is_mandatory"))
            is_mandatory_text = is_mandatory and details.get("type") is str
            if name in _QUERY_SOCKETS or is_mandatory_text:
                query_sockets.append((component, name))
            elif is_mandatory:
                unfilled.append(f"{component}.{name}")
    if unfilled or not query_sockets:
        inputs_text = ", ".join(unfilled) or "no query"
        raise InterfaceError(
            f"{where} takes {inputs_text}, and only the query is known: give "
            "a pipeline whose mandatory inputs are texts, or wrap it in a function of the query"
        )
    return query_sockets


def _flat(outputs: Mapping[str, Any], sources: list[str], answers: list[str]) -> dict[str, Any]:
    """One mapping of what came out: the documents, and the first answer there is.

    A pipeline gives a mapping for each component, and answers are read from a single one.
    """
    flat: dict[str, Any] = {}
    if sources:
        documents: list[Any] = []
        for component in sources:
            output = as_object(outputs.get(component))
            documents += cast("Iterable[Any]", output.get("documents") or ())
        flat["documents"] = documents
    # Names first: an answer builder's "answers" win over its model's "replies".
    for name in _ANSWER_SOCKETS:
        for component in answers:
            output = as_object(outputs.get(component))
            answer = output.get(name)
            if answer is not None:
                flat[name] = answer
                return flat
    return flat
