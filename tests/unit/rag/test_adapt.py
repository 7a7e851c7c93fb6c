# Lambdas cannot be annotated, and what as_rag takes is any object.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from ragbench import GenerationResult, RAGInterface, RetrievalResult, as_rag
from ragbench.errors import InterfaceError
from ragbench.rag.adapt import AnyRAG
from ragbench.rag.parts import Parts, Shape

ROOT = Path(__file__).parents[3]


class Ours(RAGInterface):
    def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return [f"{query} {top_k}"]

    def generate(self, query: str, contexts: list[str]) -> str:
        return f"{query} of {len(contexts)}"


class Duck:
    """The old interface without inheriting from anything."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def retrieve(self, query: str, k: int = 2) -> list[str]:
        self.asked.append((query, k))
        return [f"{query} {i}" for i in range(k)]

    def batch_generate(self, queries: list[str], contexts_list: list[list[str]]) -> list[str]:
        self.asked.append((queries, contexts_list))
        return [f"{query}!" for query in queries]


def find(query: str) -> list[str]:
    return [f"about {query}"]


def tell(query: str, contexts: list[str]) -> str:
    return f"{query} {contexts[0]}"


def plain(rag: AnyRAG) -> RAGInterface[Any]:
    assert isinstance(rag, RAGInterface)
    return rag


def test_a_class_that_needs_arguments_is_not_guessed_at() -> None:
    class Needing(Ours):
        def __init__(self, index: str) -> None:
            self.index = index

    with pytest.raises(InterfaceError, match=r"Needing cannot be built without arguments.*index"):
        as_rag(Needing)


@pytest.mark.parametrize("given", [Duck, Duck()])
def test_an_object_with_the_methods_need_not_inherit(given: Any) -> None:
    rag = plain(as_rag(given))
    assert rag.families == {"retrieval", "generation"}
    assert rag.retrieve("q") == ["q 0", "q 1"]
    assert rag.batch_retrieve(["q"], top_k=1) == [["q 0"]]
    assert rag.batch_generate_with_metadata(["q", "r"], [["a"], ["b"]]) == [
        GenerationResult("q!"),
        GenerationResult("r!"),
    ]


def test_a_duck_may_return_documents() -> None:
    class Retriever:
        def retrieve(self, query: str) -> list[dict[str, Any]]:
            return [{"text": "a", "id": 7, "score": 0.5, "metadata": {"page": 1}}]

    rag = plain(as_rag(Retriever()))
    assert rag.families == {"retrieval"}
    assert rag.retrieve("q") == ["a"]
    assert rag.retrieve_with_metadata("q") == RetrievalResult(
        ["a"], context_ids=["7"], scores=[0.5], context_metadata=[{"page": 1}]
    )
    with pytest.raises(InterfaceError, match=r"Retriever\.retrieve takes no top_k"):
        rag.retrieve("q", top_k=3)


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
    assert plain(as_rag(retrieve=function)).retrieve("q", top_k=4) == ["4"]
    assert plain(as_rag(retrieve=function, top_k=6)).batch_retrieve(["q"]) == [["6"]]


@pytest.mark.parametrize(
    "value",
    [
        RetrievalResult(["a"], context_ids=["1"], scores=[0.5]),
        [("a", 0.5)],
        {"documents": [{"content": "a", "id": 1, "score": 0.5}]},
        {"contexts": ["a"], "ids": ["1"], "scores": [0.5]},
        ({"page_content": "a", "metadata": {"score": 0.5, "id": "1"}},),
    ],
)
def test_many_forms_of_a_retrieval_are_read(value: Any) -> None:
    result = plain(as_rag(retrieve=lambda query: value)).retrieve_with_metadata("q")
    assert list(result.contexts) == ["a"]
    assert result.scores == [0.5]
    assert result.context_ids in (["1"], None)


def test_ids_and_scores_are_kept_only_when_all_have_one() -> None:
    documents = [{"text": "a", "id": "1", "score": 0.5}, {"text": "b"}]
    result = plain(as_rag(retrieve=lambda query: documents)).retrieve_with_metadata("q")
    assert (result.context_ids, result.scores, result.context_metadata) == (None, None, None)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "must return a list of strings or documents.*not a NoneType"),
        ([{"title": "a"}], "document 0 is a dict without a text"),
        ([object()], "document 0 is a object without a text"),
        ({"answer": "a"}, "a mapping with 'answer' and no contexts"),
    ],
)
def test_an_unreadable_retrieval_is_refused(value: Any, message: str) -> None:
    with pytest.raises(InterfaceError, match=message):
        plain(as_rag(retrieve=lambda query: value)).retrieve("q")


@pytest.mark.parametrize("value", [None, 3, ["a"], {"contexts": []}, {"answers": []}])
def test_an_unreadable_answer_is_refused(value: Any) -> None:
    with pytest.raises(InterfaceError, match=r"must return a string|no answer|empty list"):
        plain(as_rag(generate=lambda query, contexts: value)).generate("q", [])


@dataclass
class Everything:
    """Both retrieval of the interface and a chain's method: which one is meant?"""

    def retrieve(self, query: str) -> list[str]:
        return []

    def invoke(self, query: str) -> str:
        return ""


def test_an_ambiguous_object_is_refused_with_the_way_out() -> None:
    with pytest.raises(InterfaceError) as raised:
        as_rag(Everything())
    message = str(raised.value)
    assert "the interface's methods" in message
    assert "a LangChain chain" in message
    assert "as_rag(retrieve=..., generate=...)" in message
    assert "has: invoke, retrieve" in message
    assert as_rag(retrieve=Everything().retrieve).families == {"retrieval"}


def test_an_unsupported_object_lists_what_was_looked_for_and_what_it_has() -> None:
    class Engine:
        def start(self) -> None: ...

    with pytest.raises(InterfaceError) as raised:
        as_rag(Engine())
    message = str(raised.value)
    for word in ("retrieve", "invoke", "aquery", "run", "http://", "A Engine has: start"):
        assert word in message


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((), {}, "as_rag needs one of"),
        ((Duck(),), {"retrieve": find}, "not both"),
        (("module:attribute",), {}, "load_rag takes names"),
        ((find,), {"top_k": 0}, "top_k must be at least 1"),
        ((), {"generate": tell, "top_k": 3}, "top_k is for retrieval"),
        ((), {"retrieve": as_rag(generate=tell)}, "does no retrieval"),
        ((), {"generate": as_rag(retrieve=find)}, "does no generation"),
    ],
)
def test_contradictions_are_refused(
    arguments: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InterfaceError, match=message):
        as_rag(*arguments, **options)


def test_what_an_object_says_of_itself_is_its_identity() -> None:
    class Identified(Duck):
        def stage_identity(self, stage: str) -> object:
            return f"{stage} v2"

    assert as_rag(Identified()).stage_identity("retrieve") == ["retrieve v2"]
    assert as_rag(Duck()).stage_identity("retrieve") is None


class Oracle:
    """An object of a framework that ragbench knows nothing of."""

    def divine(self, query: str) -> list[str]:
        return [f"about {query}"]


def oracle_shape(obj: object) -> Shape | None:
    return Shape(name="an Oracle", parts=parts_of_oracle) if hasattr(obj, "divine") else None


def parts_of_oracle(obj: Any) -> Parts:
    return Parts(source=obj, methods={"retrieve": obj.divine})


def test_a_framework_of_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry_points(group: str) -> list[EntryPoint]:
        assert group == "ragbench.adapters"
        return [EntryPoint("oracle", f"{__name__}:oracle_shape", group)]

    with pytest.raises(InterfaceError, match="Oracle is nothing that can be evaluated"):
        as_rag(Oracle())
    monkeypatch.setattr("ragbench.plugins.entry_points", entry_points)
    rag = plain(as_rag(Oracle()))
    assert rag.families == {"retrieval"}
    assert rag.retrieve("bees") == ["about bees"]
