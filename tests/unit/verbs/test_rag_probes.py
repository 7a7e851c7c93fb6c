"""Faults of a RAG that no evaluation can see, each made on purpose."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from ragbench import AsyncRAGInterface, GenerationResult, RAGInterface, RetrievalResult, as_rag
from ragbench.verbs.probes import Probe, probe_generation, probe_retrieval

QUESTION = "How many days of leave?"


def texts(query: str, count: int) -> RetrievalResult:
    found = [f"{query} {n}" for n in range(count)]
    return RetrievalResult(found, context_ids=[f"id {text}" for text in found])


class Sound(RAGInterface):
    """Finds texts that name the query, answers with the first of its contexts; but for faults."""

    def __init__(self, **faults: Callable[..., Any]) -> None:
        super().__init__()
        self.found: Callable[..., RetrievalResult] = faults.get(
            "found", lambda query, top_k, _: texts(query, top_k)
        )
        self.said: Callable[..., str] = faults.get(
            "said", lambda query, contexts: f"{query}: {contexts[0]}"
        )
        self.turned: Callable[[list[Any]], list[Any]] = faults.get("turned", list)

    def batch_retrieve_with_metadata(
        self, queries: list[str], top_k: int | None = None
    ) -> list[RetrievalResult]:
        return self.turned([self.found(query, top_k or 3, len(queries)) for query in queries])

    def batch_generate_with_metadata(
        self, queries: list[str], contexts_list: list[list[str]]
    ) -> list[GenerationResult]:
        pairs = zip(queries, contexts_list, strict=True)
        return self.turned([GenerationResult(self.said(query, found)) for query, found in pairs])


def alone(query: str, top_k: int, beside: int) -> RetrievalResult:
    if beside > 1:
        raise ValueError("one at a time")
    return texts(query, top_k)


NUMBERS = itertools.count()
RESTLESS: dict[str, Callable[..., Any]] = {
    "found": lambda query, top_k, _: texts(f"{query} {next(NUMBERS)}", top_k),
    "said": lambda _, contexts: f"{next(NUMBERS)} {contexts[0]}",
}


class Async(AsyncRAGInterface):
    async def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return [query]

    async def generate(self, query: str, contexts: list[str]) -> str:
        return contexts[0]


Collected = dict[str, tuple[bool | None, str]]


def collected(probes: Callable[[], AsyncIterator[Probe]]) -> Collected:
    async def collect() -> Collected:
        return {found.name: (found.holds, found.detail) async for found in probes()}

    return asyncio.run(collect())


def tried(rag: Any) -> Collected:
    contexts = ["There are 27 days of leave."]
    return collected(lambda: probe_retrieval(rag, QUESTION)) | collected(
        lambda: probe_generation(rag, QUESTION, contexts)
    )


ALL = {
    "retrieval repeats",
    "retrieval in batches",
    "retrieval top_k",
    "generation repeats",
    "generation in batches",
    "generation reads",
}


def test_a_sound_rag_passes_all_and_an_asynchronous_one_with_one_context_too() -> None:
    for rag, names in ((Sound(), ALL), (Async(), ALL - {"retrieval top_k"})):
        found = tried(rag)
        assert found.keys() == names
        assert all(holds for holds, _ in found.values())


@pytest.mark.parametrize(
    ("faults", "doubts"),
    [
        (
            {"turned": lambda results: results[::-1]},
            {"retrieval in batches": "the other's", "generation in batches": "the other's"},
        ),
        (
            {"found": lambda query, top_k, beside: texts(query, top_k + beside - 1)},
            {"retrieval in batches": "another result in a batch"},
        ),
        (
            {"found": lambda query, *_: texts(query, 5)},
            {"retrieval top_k": "asked for 1 context it gives 5"},
        ),
        (
            {"said": lambda query, _: f"27 days, for {query}"},  # retrieves for itself
            {"generation reads": "does not come from the contexts"},
        ),
        ({"found": alone}, {"retrieval again": "ValueError: one at a time"}),
        (RESTLESS, {"retrieval repeats": "two results", "generation repeats": "two results"}),
    ],
)
def test_each_fault_is_found_and_no_other(
    faults: dict[str, Callable[..., Any]], doubts: dict[str, str]
) -> None:
    found = tried(Sound(**faults))
    assert {name for name, (holds, _) in found.items() if holds is False} == doubts.keys()
    for name, said in doubts.items():
        assert said in found[name][1]


def test_a_rag_that_refuses_a_number_says_so_in_an_evaluation_too() -> None:
    class Fixed(RAGInterface, families=("retrieval",)):
        def retrieve(self, query: str) -> list[str]:  # type: ignore[override]
            return [query, query]

    found = collected(lambda: probe_retrieval(Fixed(), QUESTION))
    assert found["retrieval top_k"][0] is None
    assert "asked for 1 context it raises" in found["retrieval top_k"][1]


def test_what_varies_by_itself_or_declines_cannot_be_told() -> None:
    found = tried(Sound(**RESTLESS))
    assert found["retrieval in batches"][0] is found["generation in batches"][0] is None
    answer = {"answer": "27 days", "contexts": ["There are 27 days of leave."]}
    for rag, why in (
        (Sound(said=lambda *_: "I don't know."), "it declined the question"),
        (as_rag(lambda query: answer), "it retrieves and answers in one call"),
    ):
        assert tried(rag)["generation reads"] == (None, why)
