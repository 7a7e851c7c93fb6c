"""Systems that retrieve and answer in one call are asked once a query."""

import asyncio
from dataclasses import make_dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from pydantic import create_model

from ragbench import GenerationResult, RetrievalResult, as_rag
from ragbench.errors import InterfaceError, NoContextsError, RagbenchWarning
from ragbench.rag.parts import ANSWER_KEY


class System:
    def __init__(self, value: Any = None) -> None:
        self.asked: list[str] = []
        self.value = value

    def __call__(self, query: str) -> Any:
        self.asked.append(query)
        if self.value is not None:
            return self.value
        return {"answer": f"answer to {query}", "contexts": [f"about {query}"], "ids": ["1"]}


rag_of: Any = as_rag
Said = NamedTuple("Said", [("answer", str), ("contexts", list[str])])  # noqa: UP014


def test_another_process_continues_from_the_stored_retrieval() -> None:
    stored = rag_of(System()).retrieve_with_metadata("q")
    assert stored.metadata == {ANSWER_KEY: {"response": "answer to q"}}
    bare = rag_of(System((RetrievalResult(["c"], metadata={}), "a"))).retrieve_with_metadata("q")
    assert bare.metadata == {ANSWER_KEY: {"response": "a"}}
    system = System()
    rag = rag_of(system)
    rag.restore("q", stored)
    assert rag.generate("q", list(stored.contexts)) == "answer to q"
    assert system.asked == []
    # Without what is stored it is asked again, and says so.
    rag = rag_of(system)
    assert rag.generate_with_metadata("q", ["about q"]).metadata == {"asked_again": True}
    changed = rag.generate_with_metadata("q", ["reranked"])
    assert changed.metadata == {"asked_again": True, "contexts_differ": True}
    assert system.asked == ["q", "q"]


def test_a_function_that_takes_contexts_answers_from_those_that_it_is_given() -> None:
    calls: list[Any] = []

    def ask(query: str, contexts: list[str] | None = None) -> Any:
        calls.append(contexts)
        if contexts is None:
            contexts = ["first", "second"]
        return {"answer": f"from {contexts[0]}", "contexts": contexts}

    rag = rag_of(ask)
    retrieval = rag.retrieve_with_metadata("q")
    own = rag.generate_with_metadata("q", list(retrieval.contexts))
    reranked = rag.generate_with_metadata("q", ["second", "first"])

    assert (own.response, reranked.response) == ("from first", "from second")
    assert reranked.metadata is None
    assert calls == [None, ["second", "first"]]


def test_a_coroutine_that_takes_contexts_answers_from_those_that_it_is_given() -> None:
    async def ask(query: str, *, contexts: Any = ()) -> Any:
        return {"answer": f"from {contexts or 'its own'}", "contexts": ["first"]}

    rag = rag_of(ask)
    answer = asyncio.run(rag.generate("q", ["other"]))

    assert answer == "from ['other']"


@pytest.mark.parametrize(
    "value",
    [
        {"answer": "a", "contexts": ["c"]},
        {"response": "a", "retrieved_contexts": ["c"]},
        {"result": "a", "source_documents": [{"page_content": "c"}]},
        {"output": "a", "documents": ({"content": "c"},)},
        {"answer": "a", "context": "c"},
        ("a", ["c"]),
        (["c"], "a"),
        ("a", ["c"], {"tokens": 3}),
        (RetrievalResult(["c"]), GenerationResult("a")),
        {"answer": "a", "contexts": np.array(["c"]), "scores": np.array([1.0])},
        Said("a", ["c"]),
        make_dataclass("Held", ["response", "documents"])("a", ["c"]),
        create_model("Model", answer=str, contexts=list[str])(answer="a", contexts=["c"]),
    ],
)
def test_many_forms_of_an_answer_with_contexts_are_read(value: Any) -> None:
    rag = rag_of(System(value))
    assert rag.retrieve("q") == ["c"]
    assert rag.generate("q", ["c"]) == "a"


def test_everything_that_a_mapping_names_is_kept() -> None:
    retrieved = {"contexts": ["c", "d"], "ids": ["1", "2"], "scores": [2.0, 1.0]}
    said: Any = {"multi_responses": ["a", "b"], "confidence": 0.25, "abstained": False}
    said |= {"metadata": {"tokens": 3}}
    assert rag_of(System({"answer": 42, **retrieved})).generate("q", ["c", "d"]) == "42"
    rag = rag_of(System({"answer": "a", **said, **retrieved}))
    found = rag.retrieve_with_metadata("q")
    assert (found.context_ids, found.scores) == (["1", "2"], [2.0, 1.0])
    assert rag.generate_with_metadata("q", ["c", "d"]) == GenerationResult("a", **said)


def test_an_answer_without_contexts_is_no_empty_retrieval() -> None:
    rag = rag_of(System("only an answer"))
    with (
        pytest.warns(RagbenchWarning, match=r"scored, retrieval is not.*'contexts'"),
        pytest.raises(NoContextsError),
    ):
        rag.retrieve("q")
    assert rag.generate("q", []) == "only an answer"


@pytest.mark.parametrize("value", [("a", "b"), ("a", ["c"], ["d"]), (["c"],), ("a", ["c"], {}, {})])
def test_a_tuple_that_can_be_read_in_two_ways_is_refused(value: Any) -> None:
    with pytest.raises(InterfaceError, match="returned a tuple of"):
        rag_of(System(value)).retrieve("q")


def upper(query: str) -> str:
    return query.upper()


def test_a_function_annotated_to_return_a_string_only_generates() -> None:
    assert rag_of(upper).families == {"generation"}
    assert rag_of(upper).generate("q", []) == "Q"


def test_coroutines_are_asked_once_too() -> None:
    system = System()

    async def ask(query: str) -> Any:
        await asyncio.sleep(0)
        return system(query)

    async def both() -> list[str]:
        rag = rag_of(ask)
        results = await asyncio.gather(*(rag.retrieve_with_metadata(q) for q in "abc"))
        answers = [await rag.generate(q, r.contexts) for q, r in zip("abc", results, strict=True)]
        await rag.generate("a", ["other"])
        return answers

    assert asyncio.run(both()) == [f"answer to {q}" for q in "abc"]
    assert system.asked == ["a", "b", "c", "a"]
