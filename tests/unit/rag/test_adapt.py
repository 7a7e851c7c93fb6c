# Lambdas cannot be annotated, and what as_rag takes is any object.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
"""Any object as a RAG: how functions are called, what is read of their values, what is refused."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ragbench import RetrievalResult, as_rag
from ragbench.errors import InterfaceError


def find(query: str) -> list[str]:
    return [f"about {query}"]


def tell(query: str, contexts: list[str]) -> str:
    return f"{query} {contexts[0]}"


rag_of: Any = as_rag


class Needing:
    def __init__(self, index: str) -> None: ...

    retrieve = staticmethod(find)


@pytest.mark.parametrize(
    "function",
    [
        lambda query, top_k: [str(top_k)],
        lambda query, k=1: [str(k)],
        lambda query, *, limit=1: [str(limit)],
        partial(lambda index, query, top_n=1: [str(top_n)], "index"),
    ],
)
def test_a_function_is_given_the_number_by_its_own_name_for_it(
    function: Callable[..., Any],
) -> None:
    rag = rag_of(retrieve=function)
    rag_of_six = rag_of(retrieve=function, top_k=6)

    assert rag.retrieve("q", top_k=4) == ["4"]
    assert rag_of_six.batch_retrieve(["q"]) == [["6"]]


@pytest.mark.parametrize(
    "value",
    [
        RetrievalResult(["a"], context_ids=["1"], scores=[0.5]),
        [("a", 0.5)],
        {"documents": [{"content": "a", "id": 1, "score": 0.5}]},
        {"contexts": ["a"], "ids": ["1"], "scores": [0.5]},
        ({"page_content": "a", "metadata": {"score": 0.5, "id": "1"}},),
        [{"text": "a", "id": 1, "score": 0.5, "metadata": {"page": 1}}],
    ],
)
def test_many_forms_of_a_retrieval_are_read(value: Any) -> None:
    rag = rag_of(retrieve=lambda query: value)

    result = rag.retrieve_with_metadata("q")

    assert list(result.contexts) == ["a"]
    assert result.scores == [0.5]
    assert result.context_ids in (["1"], None)


def test_ids_and_scores_are_kept_only_when_all_have_one() -> None:
    documents = [{"text": "a", "id": "1", "score": 0.5}, {"text": "b"}]
    rag = rag_of(retrieve=lambda query: documents)

    result = rag.retrieve_with_metadata("q")

    assert result == RetrievalResult(["a", "b"])


@pytest.mark.parametrize(
    ("half", "value", "message"),
    [
        ("retrieve", None, "must return a list of strings or documents.*not a NoneType"),
        ("retrieve", [{"title": "a"}], "document 0 is a dict without a text"),
        ("retrieve", [object()], "document 0 is a object without a text"),
        ("retrieve", {"answer": "a"}, "a mapping with 'answer' and no contexts"),
        ("generate", None, "returned None, and must return a string"),
        ("generate", ["a"], r"returned a list \(a retriever is a class with 'retrieve'"),
        ("generate", iter("ab"), r"returned a str\w*iterator \(join its pieces\)"),
        ("generate", {"contexts": []}, "and no answer"),
        ("generate", {"answers": []}, "no answer"),
        ("generate", {}, "no keys and no answer"),
    ],
)
def test_what_cannot_be_read_is_refused(half: str, value: Any, message: str) -> None:
    rag = rag_of(**{half: lambda *_: value})

    with pytest.raises(InterfaceError, match=message):
        rag.retrieve("q") if half == "retrieve" else rag.generate("q", [])


class Everything:
    """Both retrieval of the interface and a chain's method: which one is meant?"""

    retrieve = invoke = staticmethod(find)


class Engine:
    def start(self) -> None: ...


@pytest.mark.parametrize(
    ("system", "phrases"),
    [
        (
            Everything(),
            [
                "the interface's methods",
                "a LangChain chain",
                "has: invoke, retrieve",
                "as_rag(retrieve=..., generate=...)",
            ],
        ),
        (Engine(), ["retrieve", "invoke", "aquery", "run", "http://", "A Engine has: start"]),
    ],
)
def test_what_is_ambiguous_or_unknown_is_refused_with_the_ways_out(
    system: object, phrases: list[str]
) -> None:
    with pytest.raises(InterfaceError) as raised:
        as_rag(system)

    message = str(raised.value)
    for phrase in phrases:
        assert phrase in message


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((), {}, "as_rag needs one of"),
        ((Engine(),), {"retrieve": find}, "not both"),
        (("module:attribute",), {}, "load_rag takes names"),
        ((find,), {"top_k": 0}, "top_k must be at least 1"),
        ((), {"generate": tell, "top_k": 3}, "top_k is for retrieval"),
        ((), {"retrieve": as_rag(generate=tell)}, "does no retrieval"),
        ((), {"generate": as_rag(retrieve=find)}, "does no generation"),
        ((Needing,), {}, r"Needing cannot be built without arguments.*index"),
    ],
)
def test_contradictions_are_refused(
    arguments: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InterfaceError, match=message):
        as_rag(*arguments, **options)


def test_what_an_object_says_of_itself_is_its_identity() -> None:
    class Silent:
        retrieve = staticmethod(find)

    class Identified(Silent):
        def stage_identity(self, stage: str) -> object:
            return f"{stage} v2"

    assert as_rag(Identified()).stage_identity("retrieve") == ["retrieve v2"]
    assert as_rag(Silent()).stage_identity("retrieve") is None
