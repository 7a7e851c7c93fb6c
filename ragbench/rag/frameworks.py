"""Objects of LangChain, LlamaIndex and Haystack, known by their methods; none is imported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from ragbench.core.calling import parameters_of
from ragbench.core.case import Said
from ragbench.core.record import Record, replace
from ragbench.core.result import GenerationResult, RetrievalResult
from ragbench.errors import InterfaceError
from ragbench.io.values import as_object
from ragbench.rag.forms import keyword_for_top_k, parameter_names
from ragbench.rag.parts import OneCall, Parts, Shape, cut, refuse_beyond
from ragbench.rag.shapes import read_generation, read_retrieval


def shapes_of(obj: object) -> list[Shape]:
    """The frameworks' objects that an object looks like: a LangChain chain, a Haystack pipeline ...

    Frameworks are known by their methods, so that none has to be installed or imported. The caller
    refuses an object of several shapes rather than guess, and one of none.
    """
    shapes: list[Shape] = []
    if _has_methods(obj, "invoke"):
        shapes.append(_langchain_shape(obj))
    # Both methods, the plain one and the coroutine: an object with ``query`` alone may be anything.
    # An engine is looked for before a retriever, because some engines retrieve, too, and as a
    # retriever such an engine would lose its answers.
    if _has_methods(obj, "query", "aquery"):
        name = "a LlamaIndex query engine"
        shapes.append(Shape(name=name, parts=_llamaindex_engine, own_names=True))
    elif _has_methods(obj, "retrieve", "aretrieve"):
        name = "a LlamaIndex retriever"
        shapes.append(Shape(name=name, parts=_llamaindex_retriever, own_names=True))
    if _has_methods(obj, "run", "inputs", "outputs"):
        shapes.append(Shape(name="a Haystack pipeline", parts=_haystack_pipeline))
    elif _has_methods(obj, "run") and "query" in parameter_names(cast("Any", obj).run):
        # Every component has ``run``; those that are asked a question take one.
        shapes.append(Shape(name="a Haystack component", parts=_haystack_component))
    return shapes


def _has_methods(obj: object, *methods: str) -> bool:
    """Whether an object has all these methods: frameworks are known by them and not imported."""
    return all(callable(getattr(obj, name, None)) for name in methods)


# --- LangChain


def _langchain_shape(obj: object) -> Shape:
    """A LangChain object as a retriever or as a chain.

    An object is a retriever where it finds documents, or declares that a list comes out.
    """
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
        slots={"retrieval": _langchain_retriever, "generation": _generating_parts},
        # LangChain's own, and not an object that happens to have ``invoke``.
        own_names=hasattr(obj, "InputType"),
    )


def _langchain_retriever(obj: Any) -> Parts:
    """The methods of a RAG that a LangChain retriever gives: ``invoke``, and ``batch`` for a batch.

    A retriever that takes extra arguments, as those of vector stores do, gets ``top_k`` as ``k``.
    What others find is cut to ``top_k``.
    """
    where = f"{type(obj).__name__}.invoke"
    takes_k = _takes_keywords(getattr(obj, "_get_relevant_documents", None))
    parts = _retrieving_parts(obj, where, partial(_search_langchain, obj, takes_k, where))
    batch = partial(_search_langchain_batch, obj, takes_k, where)
    return _with_batch_method(parts, "batch_retrieve_with_metadata", batch)


def _search_langchain(
    retriever: Any, takes_k: bool, where: str, /, query: str, top_k: int | None
) -> object:
    """What a LangChain retriever finds for one query, as it returns it.

    Args:
        takes_k: whether the retriever takes the number of documents as ``k``.
        where: its name in messages.
    """
    return retriever.invoke(query, **_langchain_options(retriever, takes_k, where, top_k))


def _search_langchain_batch(
    retriever: Any, takes_k: bool, where: str, /, queries: list[str], top_k: int | None = None
) -> list[RetrievalResult[Any]]:
    """The interface's batch method: many queries in one call, which LangChain may run at once.

    Args:
        takes_k: whether the retriever takes the number of documents as ``k``.
        where: its name in messages.
    """
    results: list[RetrievalResult[Any]] = []
    for value in retriever.batch(queries, **_langchain_options(retriever, takes_k, where, top_k)):
        result = read_retrieval(value, where)
        results.append(cut(result, top_k))
    return results


def _langchain_options(
    retriever: Any, takes_k: bool, where: str, top_k: int | None
) -> dict[str, int]:
    """The arguments that ask a LangChain retriever for ``top_k`` documents.

    A retriever that takes no number is refused if it was built to return fewer: a metric at a
    higher cutoff would be too low.
    """
    if not takes_k:
        refuse_beyond(top_k, getattr(retriever, "k", None), where)
        return {}
    if top_k is None:
        return {}
    return {"k": top_k}


def _takes_keywords(search: Callable[..., Any] | None) -> bool:
    """Whether a retriever's search takes any keyword: LangChain passes on those of ``invoke``.

    Only then does ``k`` reach the store, and not raise an error.
    """
    if search is None:
        return False
    parameters = parameters_of(search) or ()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def _retrieving_parts(
    obj: object, where: str, search: Callable[[str, int | None], object]
) -> Parts:
    """A RAG that only retrieves, by a function of the query and ``top_k``.

    Where the framework takes no number, or gives more, the result is cut to ``top_k``.
    """
    retrieve = partial(_retrieve_at_most, search, where)
    return Parts(source=obj, methods={"retrieve_with_metadata": retrieve})


def _retrieve_at_most(
    search: Callable[[str, int | None], object],
    where: str,
    /,
    query: str,
    top_k: int | None = None,
) -> RetrievalResult[Any]:
    """The interface's method for a framework's retriever: at most ``top_k`` documents, as a result.

    Args:
        search: asks the retriever for the documents of a query; it may give more.
        where: the retriever's name in messages.
    """
    documents = search(query, top_k)
    result = read_retrieval(documents, where)
    return cut(result, top_k)


def _with_batch_method(parts: Parts, name: str, batch: Callable[..., Any]) -> Parts:
    """The parts with a batch method, where the foreign object can take a batch in one call.

    Args:
        name: of the interface's method.
        batch: the method.
    """
    if not _has_methods(parts.source, "batch"):
        return parts
    return replace(parts, methods={**parts.methods, name: batch})


def _langchain_chain(obj: Any) -> Parts:
    """The methods of a RAG that a LangChain chain gives which takes the query alone.

    The chain's one call is split into retrieval and generation. A chain that declares that a string
    comes out shows no contexts: it only generates.
    """
    where = f"{type(obj).__name__}.invoke"
    input_of = _input_from_query(obj, where)
    if _schema(obj, "get_output_jsonschema").get("type") == "string":
        # A chain that shows no contexts finds its own: a caller's contexts are not passed on.
        return _generating_parts(obj, lambda query, contexts: input_of(query))
    history = None
    if _takes_history(_input_names(obj)):
        history = _HISTORY
    ask = partial(_ask_chain, obj, input_of)
    ask_batch = None
    if _has_methods(obj, "batch"):
        ask_batch = partial(_ask_chain_batch, obj, input_of)
    return OneCall(obj, ask, where, ask_batch=ask_batch, history=history).parts()


def _ask_chain(
    chain: Any, input_of: Callable[..., Any], /, query: str, chat_history: Said = ()
) -> Any:
    """Asks a LangChain chain once; what it returns holds contexts and answer.

    Args:
        input_of: makes the chain's input of the query and the messages before it.
        chat_history: these messages; named as `_HISTORY`, by which it is passed.
    """
    return chain.invoke(input_of(query, chat_history))


def _ask_chain_batch(
    chain: Any,
    input_of: Callable[..., Any],
    /,
    queries: list[str],
    chat_history: Sequence[Said] = (),
) -> list[Any]:
    """Asks a LangChain chain several queries at once.

    A query that fails has its exception as its value: the others keep their answers.

    Args:
        input_of: makes the chain's input of a query and the messages before it.
        chat_history: these messages for each query; named as `_HISTORY`, by which it is passed.
    """
    histories = chat_history or [()] * len(queries)
    inputs: list[Any] = []
    for query, said in zip(queries, histories, strict=True):
        inputs.append(input_of(query, said))
    return list(chain.batch(inputs, return_exceptions=True))


def _generating_parts(
    obj: Any, input_of_chain: Callable[[str, Sequence[str]], Any] | None = None
) -> Parts:
    """The methods of a RAG that a chain which answers from contexts gives.

    An example is ``prompt | model``, which is invoked with the query and the contexts.

    Args:
        input_of_chain: makes the chain's input of the query and the contexts; None where the names
            of its input's keys decide.
    """
    where = f"{type(obj).__name__}.invoke"
    input_of = input_of_chain or _input_from_contexts(obj)
    generate = partial(_answer_of_chain, obj, input_of, where)
    parts = Parts(source=obj, methods={"generate_with_metadata": generate})
    batch = partial(_answers_of_chain, obj, input_of, where)
    return _with_batch_method(parts, "batch_generate_with_metadata", batch)


def _answer_of_chain(
    chain: Any,
    input_of: Callable[[str, Sequence[str]], Any],
    where: str,
    /,
    query: str,
    contexts: Sequence[str],
) -> GenerationResult[Any]:
    """The interface's method for a chain that only generates: its answer from these contexts.

    Args:
        input_of: makes the chain's input of the query and the contexts.
        where: the chain's name in messages.
    """
    message = chain.invoke(input_of(query, contexts))
    return read_generation(message, where)


def _answers_of_chain(
    chain: Any,
    input_of: Callable[[str, Sequence[str]], Any],
    where: str,
    /,
    queries: list[str],
    contexts_list: list[list[str]],
) -> list[GenerationResult[Any]]:
    """The interface's batch method for a chain that only generates.

    The batch is one call of LangChain, which may run the queries at once.

    Args:
        input_of: makes the chain's input of a query and its contexts.
        where: the chain's name in messages.
    """
    inputs: list[Any] = []
    for query, contexts in zip(queries, contexts_list, strict=True):
        inputs.append(input_of(query, contexts))
    messages = chain.batch(inputs)
    return [read_generation(message, where) for message in messages]


_QUERY_NAMES = ("query", "question", "input", "user_input", "text")
"""Keys under which chains take the query; the first that an input has is filled."""
_HISTORY = "chat_history"
"""LangChain's usual key for the turns of a conversation before the query."""
_ANY = "root"
"""The key of an input that is a mapping of which LangChain knows no key."""


def _takes_history(names: Sequence[str]) -> bool:
    """Whether a chain's input has a key for the messages before the query, or may have any key.

    A chain without one is asked the bare question.
    """
    return _HISTORY in names or _ANY in names


def _input_from_query(obj: object, where: str) -> Callable[..., Any]:
    """A function from the query, and the messages before it, to the input that a chain takes.

    A chain takes the query as it is, or a mapping with the query under the chain's own key. A chain
    that needs anything else is refused here, before the first question.
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
    return partial(_chain_input, query_name, takes_history)


def _chain_input(
    query_name: str | None, takes_history: bool, /, query: str, said: Said = ()
) -> Any:
    """The input of a LangChain chain for one query, in the form that the chain takes.

    Args:
        query_name: the key of the query in the input; None for a chain that takes the bare query.
        takes_history: whether the input has the messages before the query, too.
    """
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


def _first_of(candidates: Sequence[str], names: Sequence[str]) -> str | None:
    """The first of the candidates, in their order, that is among the names; None where none is.

    Frameworks name the same thing in several ways, and the most usual name wins.
    """
    for name in candidates:
        if name in names:
            return name
    return None


_CONTEXT_NAMES = ("context", "contexts", "documents", "docs", "input_documents")
"""Keys under which chains that only generate take the contexts."""


def _input_from_contexts(obj: object) -> Callable[[str, Sequence[str]], Any]:
    """A function from query and contexts to the input of a chain that only generates.

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
    return partial(_generating_chain_input, query_name, context_name)


def _generating_chain_input(
    query_name: str, context_name: str, /, query: str, contexts: Sequence[str]
) -> dict[str, str]:
    """The input of a chain that only generates, for one query with its contexts.

    The contexts are one text with a blank line between them: a prompt takes texts, not lists.

    Args:
        query_name: the chain's own key for the query.
        context_name: its key for the contexts.
    """
    return {query_name: query, context_name: "\n\n".join(contexts)}


def _input_names(obj: object) -> list[str]:
    """The keys of the mapping that a chain takes.

    None when they are unknown, or it takes no mapping.
    """
    keys = getattr(obj, "input_keys", None)  # the older chain classes
    if isinstance(keys, list):
        return [str(key) for key in cast("list[object]", keys)]
    schema = _schema(obj, "get_input_jsonschema")
    return list(as_object(schema.get("properties")))


def _schema(obj: object, method: str) -> Mapping[str, Any]:
    """The JSON schema that a LangChain object has of its input or output; empty without one.

    Args:
        method: the name of its method that gives the schema.
    """
    read_schema = getattr(obj, method, None)
    if not callable(read_schema):
        return {}
    return as_object(read_schema())


# --- LlamaIndex


def _llamaindex_retriever(obj: Any) -> Parts:
    """The retrieval method that a LlamaIndex retriever gives: nodes with scores.

    ``top_k`` cuts what its ``similarity_top_k`` allows.
    """
    where = f"{type(obj).__name__}.retrieve"
    return _retrieving_parts(obj, where, partial(_search_llamaindex, obj, where))


def _search_llamaindex(retriever: Any, where: str, /, query: str, top_k: int | None) -> object:
    """What a LlamaIndex retriever finds for one query, as it returns it.

    A retriever's number of nodes is set when it is built: to ask for more is refused, and where
    fewer are asked for, the caller cuts the rest.

    Args:
        where: the retriever's name in messages.
    """
    refuse_beyond(top_k, getattr(retriever, "similarity_top_k", None), where)
    return retriever.retrieve(query)


def _llamaindex_engine(obj: Any) -> Parts:
    """The methods that a LlamaIndex query engine gives: a response with its source nodes.

    The engine's one call is split into retrieval and generation.
    """
    return OneCall(obj, obj.query, f"{type(obj).__name__}.query").parts()


# --- Haystack

_QUERY_SOCKETS = ("query", "question")
"""Names of components' inputs that take the question."""
_ANSWER_SOCKETS = ("answers", "replies", "answer", "response")
"""Names of components' outputs that hold the answer, in the order in which they are looked for."""


def _haystack_component(obj: Any) -> Parts:
    """The retrieval method that a Haystack component gives: ``run(query=..., top_k=...)``.

    Components differ in the name of that number, or take none.
    """
    where = f"{type(obj).__name__}.run"
    search = partial(_run_haystack_component, obj, keyword_for_top_k(obj.run))
    return _retrieving_parts(obj, where, search)


def _run_haystack_component(
    component: Any, keyword: str | None, /, query: str, top_k: int | None
) -> object:
    """What a Haystack component finds for one query, as it returns it.

    Args:
        keyword: the parameter by which it takes the number of documents; None where it takes none.
    """
    options: dict[str, int] = {}
    if keyword is not None and top_k is not None:
        options[keyword] = top_k
    return component.run(query=query, **options)


def _haystack_pipeline(obj: Any) -> Parts:
    """The methods that a Haystack pipeline gives, which is run once for a query.

    The query goes to every open input named ``query`` or ``question`` and to every mandatory text
    input; ``top_k`` to the components that give documents. The documents are those that no other
    component turns into documents again (a ranker's rather than its retriever's).
    """
    where = f"{type(obj).__name__}.run"
    inputs = cast("Mapping[str, Mapping[str, Any]]", obj.inputs())
    query_sockets = _query_sockets(inputs, where)
    outputs = _haystack_outputs(obj)
    sources = _last_sources(obj, outputs)
    answers = _answering_components(outputs)
    pipeline = _HaystackPipeline(
        pipeline=obj,
        where=where,
        inputs=inputs,
        query_sockets=query_sockets,
        sources=sources,
        answers=answers,
    )
    # One run of the pipeline gives both the documents and the answer.
    if sources and answers:
        return OneCall(obj, pipeline.ask, where, keyword="top_k").parts()
    if sources:
        return _retrieving_parts(obj, where, pipeline.ask)
    if answers:
        return Parts(source=obj, methods={"generate_with_metadata": pipeline.generate})
    output_sockets = sorted(frozenset[str]().union(*outputs.values()))
    raise InterfaceError(
        f"{where}: no component gives 'documents' or one of {', '.join(_ANSWER_SOCKETS)}; there "
        f"are {', '.join(output_sockets)}"
    )


class _HaystackPipeline(Record):
    """A Haystack pipeline, with the places of its query and of its results."""

    pipeline: Any
    where: str
    """Its name in messages."""
    inputs: Mapping[str, Mapping[str, Any]]
    """The open inputs of each component."""
    query_sockets: Sequence[tuple[str, str]]
    """Component and name of each input that takes the query."""
    sources: Sequence[str]
    """The components whose documents are the retrieval."""
    answers: Sequence[str]
    """The components that give an answer."""

    def ask(self, query: str, top_k: int | None = None) -> dict[str, Any]:
        """Runs the Haystack pipeline once, and returns its documents and its answer by name.

        ``top_k`` goes to each source of documents that takes it.
        """
        # The inputs by component, as a pipeline takes them.
        data: dict[str, dict[str, Any]] = {}
        for component, socket in self.query_sockets:
            inputs_of_component = data.setdefault(component, {})
            inputs_of_component[socket] = query
        if top_k is not None:
            for component in self.sources:
                if "top_k" in self.inputs.get(component, {}):
                    inputs_of_component = data.setdefault(component, {})
                    inputs_of_component["top_k"] = top_k
        # Named, because documents that a later component takes are not given out otherwise.
        named = {*self.sources, *self.answers}
        outputs_of_run = self.pipeline.run(data, include_outputs_from=named)
        return _documents_and_answer(outputs_of_run, self.sources, self.answers)

    def generate(self, query: str, contexts: list[str]) -> GenerationResult[Any]:
        """The answer of a Haystack pipeline that shows no documents.

        The pipeline finds its own documents: ``contexts``, which the interface's method takes, are
        not used.
        """
        outputs_of_run = self.ask(query)
        return read_generation(outputs_of_run, self.where)


def _haystack_outputs(obj: Any) -> dict[str, frozenset[str]]:
    """The names of what each component of a pipeline gives.

    Outputs that another component takes are included, which Haystack leaves out by default.
    """
    option = "include_components_with_connected_outputs"
    options: dict[str, bool] = {}
    if option in parameter_names(obj.outputs):  # older releases do not have it
        options[option] = True
    outputs = cast("Mapping[str, Iterable[str]]", obj.outputs(**options))
    return {component: frozenset(names) for component, names in outputs.items()}


def _answering_components(outputs: Mapping[str, frozenset[str]]) -> list[str]:
    """The components of a Haystack pipeline that give an answer under one of the usual names.

    A pipeline without one only retrieves.
    """
    components: list[str] = []
    for component, sockets in outputs.items():
        if not sockets.isdisjoint(_ANSWER_SOCKETS):
            components.append(component)
    return components


def _last_sources(obj: Any, outputs: Mapping[str, frozenset[str]]) -> list[str]:
    """The components of a pipeline whose documents no other component turns into documents again.

    These documents are what generation was given. All sources count, where the pipeline shows no
    connections, or where they lead in a circle.
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
    """Component and name of each input of a Haystack pipeline that takes the query.

    A pipeline that needs anything else is refused here, before the first question.
    """
    query_sockets: list[tuple[str, str]] = []
    unfilled: list[str] = []
    for component, sockets in inputs.items():
        for name, socket in sockets.items():
            details = as_object(socket)
            is_mandatory = bool(details.get("is_mandatory"))
            is_mandatory_text = is_mandatory and details.get("type") is str
            # The question is the only text that is known: every text that must be there gets it.
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


def _documents_and_answer(
    outputs: Mapping[str, Any], sources: Sequence[str], answers: Sequence[str]
) -> dict[str, Any]:
    """One mapping of what a Haystack pipeline gave: the documents, and the first answer there is.

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
