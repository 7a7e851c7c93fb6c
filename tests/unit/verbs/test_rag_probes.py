"""Faults of a RAG that no evaluation can see, each made on purpose."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from ragbench import AsyncRAGInterface, GenerationResult, RAGInterface, RetrievalResult
from ragbench.verbs.probes import Probe, probe_generation, probe_retrieval

QUESTION = "How many days of leave?"


class Sound(RAGInterface):
    """Finds texts that name the query, answers with the first of its contexts."""

    def batch_retrieve_with_metadata(
        self, queries: list[str], top_k: int | None = None
    ) -> list[RetrievalResult]:
        return self.turned([self.found(query, top_k or 3, len(queries)) for query in queries])

    def batch_generate_with_metadata(
        self, queries: list[str], contexts_list: list[list[str]]
    ) -> list[GenerationResult]:
        pairs = zip(queries, contexts_list, strict=True)
        return self.turned([GenerationResult(self.said(query, texts)) for query, texts in pairs])

    def found(self, query: str, top_k: int, beside: int) -> RetrievalResult:
        texts = [f"{query} {n}" for n in range(top_k)]
        return RetrievalResult(texts, context_ids=[f"id {text}" for text in texts])

    def said(self, query: str, contexts: Sequence[str]) -> str:
        return f"{query}: {contexts[0]}"

    def turned(self, results: list[Any]) -> list[Any]:
        return results


class Swapped(Sound):
    def turned(self, results: list[Any]) -> list[Any]:
        return results[::-1]


class Crowded(Sound):
    """What a query gets depends on how many are asked at once."""

    def found(self, query: str, top_k: int, beside: int) -> RetrievalResult:
        return super().found(query, top_k + beside - 1, beside)


class Restless(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.calls = itertools.count()

    def found(self, query: str, top_k: int, beside: int) -> RetrievalResult:
        return super().found(f"{query} {next(self.calls)}", top_k, beside)

    def said(self, query: str, contexts: Sequence[str]) -> str:
        return f"{next(self.calls)} {contexts[0]}"


class Greedy(Sound):
    def found(self, query: str, top_k: int, beside: int) -> RetrievalResult:
        return super().found(query, 5, beside)


class Deaf(Sound):
    """Retrieves for itself, whatever it is given."""

    def said(self, query: str, contexts: Sequence[str]) -> str:
        return f"27 days, for {query}"


class Declining(Sound):
    def said(self, query: str, contexts: Sequence[str]) -> str:
        return "I don't know."


class Alone(Sound):
    """Cannot be asked for two at once."""

    def found(self, query: str, top_k: int, beside: int) -> RetrievalResult:
        if beside > 1:
            raise ValueError("one at a time")
        return super().found(query, top_k, beside)


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
    "retrieval repeats", "retrieval in batches", "retrieval top_k", "generation repeats",
    "generation in batches", "generation reads",
}  # fmt: skip


def test_a_sound_rag_passes_all_and_an_asynchronous_one_with_one_context_too() -> None:
    for rag, names in ((Sound(), ALL), (Async(), ALL - {"retrieval top_k"})):
        found = tried(rag)
        assert found.keys() == names
        assert all(holds for holds, _ in found.values())


@pytest.mark.parametrize(
    ("rag", "doubts"),
    [
        (Swapped, {"retrieval in batches": "the other's", "generation in batches": "the other's"}),
        (Crowded, {"retrieval in batches": "another result in a batch"}),
        (Greedy, {"retrieval top_k": "asked for 1 context it gives 5"}),
        (Deaf, {"generation reads": "does not come from the contexts"}),
        (Alone, {"retrieval again": "ValueError: one at a time"}),
        (Restless, {"retrieval repeats": "two results", "generation repeats": "two results"}),
    ],
)
def test_each_fault_is_found_and_no_other(rag: type[Sound], doubts: dict[str, str]) -> None:
    found = tried(rag())
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
    found = tried(Restless())
    assert found["retrieval in batches"][0] is found["generation in batches"][0] is None
    assert tried(Declining())["generation reads"] == (None, "unknown: it declined the question")
