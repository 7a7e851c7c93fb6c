"""What a user's method may return, and what is said when it returns something else."""

import asyncio
import uuid
from enum import StrEnum
from typing import Any, cast

import numpy as np
import pytest

from ragbench import AsyncRAGInterface, GenerationResult, RAGInterface, RetrievalResult
from ragbench.errors import InterfaceError


class Returning(RAGInterface):
    def __init__(self, value: Any) -> None:
        self.value = value

    def retrieve(self, query: str, top_k: int | None = None) -> Any:
        return self.value

    def generate(self, query: str, contexts: list[str]) -> Any:
        return self.value


class ReturningBatches(RAGInterface):
    def __init__(self, value: Any) -> None:
        self.value = value

    def batch_retrieve(self, queries: list[str], top_k: int | None = None) -> Any:
        return self.value

    def batch_generate(self, queries: list[str], contexts_list: list[list[str]]) -> Any:
        return self.value


class Document:
    page_content = "text"


def retrieved(**options: Any) -> RetrievalResult[Any]:
    return RetrievalResult(["a"], **options)


WRONG: list[tuple[str, Any, str]] = [
    ("retrieve", "text", "not a str"),
    ("retrieve", {"contexts": []}, "not a dict"),
    ("retrieve", (text for text in ["a"]), "not a generator"),
    ("retrieve", GenerationResult("a"), "not a GenerationResult"),
    ("retrieve", ["a", None], r"contexts\[1\] must be a string, not None"),
    ("retrieve", [Document()], r"contexts\[0\] must be a string, not a Document"),
    ("retrieve", [b"a"], r"contexts\[0\] must be a string, not a bytes"),
    ("retrieve", retrieved(scores=[float("inf")]), r"scores\[0\] must be a finite number, not inf"),
    ("retrieve", retrieved(scores=[True]), r"scores\[0\] must be a finite number, not True"),
    ("retrieve", retrieved(scores=["0.5"]), r"scores\[0\] must be a finite number, not '0.5'"),
    ("retrieve", retrieved(scores=[None]), r"scores\[0\] must be a finite number, not None"),
    ("retrieve", retrieved(context_ids=[None]), "context id must be a string, not None"),
    ("retrieve", retrieved(context_ids=[True]), "context id must be a string, not True"),
    ("retrieve", retrieved(context_ids=[1.0]), "context id must be a string, not 1.0"),
    ("generate", ["a"], "not a list"),
    ("generate", RetrievalResult(["a"]), "not a RetrievalResult"),
    (
        "generate",
        GenerationResult[Any]("a", multi_responses=["a", cast("str", 3)]),
        r"multi_responses\[1\] must be a string, not a int",
    ),
]


@pytest.mark.parametrize(("method", "value", "message"), WRONG)
def test_what_is_wrong_is_refused_with_the_method_and_the_place(
    method: str, value: Any, message: str
) -> None:
    rag = Returning(value)

    with pytest.raises(InterfaceError, match=rf"Returning\.{method}.*{message}"):
        if method == "retrieve":
            rag.retrieve_with_metadata("q")
        else:
            rag.generate_with_metadata("q", [])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "ReturningBatches.batch_retrieve must return a list with one element per query"),
        ("ab", "not a str"),
        ({"a": 1}, "not a dict"),
        ([["a"]], "returned 1 results for 2 queries"),
        ([["a"], ["b"], ["c"]], "returned 3 results for 2 queries"),
        ([["a"], None], "must return a RetrievalResult or a list of strings, not None"),
    ],
)
def test_a_wrong_batch_is_refused(value: Any, message: str) -> None:
    rag = ReturningBatches(value)

    with pytest.raises(InterfaceError, match=message):
        rag.batch_retrieve_with_metadata(["q", "r"])
    with pytest.raises(InterfaceError, match="2 queries and 1 lists of contexts"):
        rag.batch_generate_with_metadata(["q", "r"], [[]])


def test_old_methods_may_return_results_in_the_new_form() -> None:
    result = RetrievalResult(["a"], context_ids=["1"])
    retrieving = Returning(result)
    assert retrieving.retrieve_with_metadata("q") is result
    assert retrieving.batch_retrieve_with_metadata(["q", "r"]) == [result, result]
    assert retrieving.batch_retrieve(["q"])[0] is result.contexts

    answer = GenerationResult("a", confidence=0.5)
    generating = Returning(answer)
    assert generating.generate_with_metadata("q", []) is answer
    assert generating.batch_generate(["q"], [[]]) == ["a"]


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("id", "text"),
    [
        (7, "7"),
        (np.int64(7), "7"),
        (np.str_("x"), "x"),
        (Colour.RED, "red"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ],
)
def test_ids_that_are_meant_become_strings_and_nothing_else_is_copied(id: Any, text: str) -> None:
    contexts = ["a"]
    scores = [0.5]
    reported: Any = RetrievalResult(contexts, context_ids=[id], scores=scores)

    result = Returning(reported).retrieve_with_metadata("q")

    assert result.context_ids is not None
    (context_id,) = result.context_ids
    assert context_id == text
    assert type(context_id) is str
    assert result.contexts is contexts
    assert result.scores is scores


def test_a_coroutine_and_a_value_that_cannot_be_awaited_name_the_other_way() -> None:
    async def later() -> list[str]:
        return ["a"]

    with pytest.raises(InterfaceError, match="it is a coroutine, so inherit from AsyncRAG"):
        Returning(later()).retrieve_with_metadata("q")

    class Plain(AsyncRAGInterface, families=("retrieval",)):
        def retrieve(self, query: str, top_k: int | None = None) -> Any:
            return ["a"]

    with pytest.raises(InterfaceError, match=r"cannot be awaited \(a list\): write it as 'async"):
        asyncio.run(Plain().retrieve_with_metadata("q"))
