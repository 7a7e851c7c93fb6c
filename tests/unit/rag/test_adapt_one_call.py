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
    """Retrieves and answers in one call: by this value, or by one of the query."""

    def __init__(self, value: Any = None) -> None:
        self.queries: list[str] = []
        self.value = value

    def __call__(self, query: str) -> Any:
        self.queries.append(query)
        if self.value is not None:
            return self.value
        return {
            "answer": f"answer to {query}",
            "contexts": [f"about {query}"],
            "ids": ["1"],
        }


rag_of: Any = as_rag
Said = NamedTuple("Said", [("answer", str), ("contexts", list[str])])  # noqa: UP014


def test_another_process_continues_from_the_stored_retrieval() -> None:
    stored = rag_of(System()).retrieve_with_metadata("q")
    system = System()
    rag = rag_of(system)

    rag.restore("q", stored)
    answer = rag.generate("q", list(stored.contexts))

    assert stored.metadata == {ANSWER_KEY: {"response": "answer to q"}}
    assert answer == "answer to q"
    assert system.queries == []


def test_an_answer_beside_a_retrieval_result_is_stored_in_its_metadata() -> None:
    system = System((RetrievalResult(["c"], metadata={}), "a"))

    retrieval = rag_of(system).retrieve_with_metadata("q")

    assert retrieval.metadata == {ANSWER_KEY: {"response": "a"}}


def test_without_what_is_stored_a_system_is_asked_again_and_that_is_noted() -> None:
    system = System()
    rag = rag_of(system)

    same_contexts = rag.generate_with_metadata("q", ["about q"])
    other_contexts = rag.generate_with_metadata("q", ["reranked"])

    assert same_contexts.metadata == {"asked_again": True}
    assert other_contexts.metadata == {"asked_again": True, "contexts_differ": True}
    assert system.queries == ["q", "q"]


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

    assert own.response == "from first"
    assert reranked.response == "from second"
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


RETRIEVAL: dict[str, Any] = {
    "contexts": ["c", "d"],
    "ids": ["1", "2"],
    "scores": [2.0, 1.0],
}


def test_everything_that_a_mapping_names_is_kept() -> None:
    generation: dict[str, Any] = {
        "multi_responses": ["a", "b"],
        "confidence": 0.25,
        "abstained": False,
        "metadata": {"tokens": 3},
    }
    rag = rag_of(System({"answer": "a", **generation, **RETRIEVAL}))

    retrieval = rag.retrieve_with_metadata("q")
    answer = rag.generate_with_metadata("q", ["c", "d"])

    assert retrieval.context_ids == ["1", "2"]
    assert retrieval.scores == [2.0, 1.0]
    assert answer == GenerationResult("a", **generation)


def test_an_answer_that_is_a_number_becomes_a_text() -> None:
    rag = rag_of(System({"answer": 42, **RETRIEVAL}))

    assert rag.generate("q", ["c", "d"]) == "42"


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

    async def retrieve_and_generate() -> list[str]:
        rag = rag_of(ask)
        queries = ["a", "b", "c"]
        retrievals = await asyncio.gather(*[rag.retrieve_with_metadata(query) for query in queries])
        answers: list[str] = []
        for query, retrieval in zip(queries, retrievals, strict=True):
            answers.append(await rag.generate(query, retrieval.contexts))
        await rag.generate("a", ["other"])
        return answers

    answers = asyncio.run(retrieve_and_generate())

    assert answers == ["answer to a", "answer to b", "answer to c"]
    # Once each, and once more about other contexts.
    assert system.queries == ["a", "b", "c", "a"]
