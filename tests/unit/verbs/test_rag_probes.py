"""Faults of a RAG that no evaluation can see, each made on purpose."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from ragbench import AsyncRAGInterface, GenerationResult, RAGInterface, RetrievalResult, as_rag
from ragbench.verbs.probes import Probe, probe_generation, probe_retrieval

QUESTION = "How many days of leave?"


def texts(query: str, count: int) -> RetrievalResult:
    """As many texts as asked for, each of which names the query."""
    contexts = [f"{query} {number}" for number in range(count)]
    return RetrievalResult(contexts, context_ids=[f"id {text}" for text in contexts])


class Sound(RAGInterface):
    """Finds texts that name the query, answers with the first of its contexts.

    Each fault below overrides one of its methods.
    """

    def find(self, query: str, top_k: int, batch_size: int) -> RetrievalResult:
        return texts(query, top_k)

    def answer(self, query: str, contexts: list[str]) -> str:
        return f"{query}: {contexts[0]}"

    def ordered(self, results: list[Any]) -> list[Any]:
        return results

    def batch_retrieve_with_metadata(
        self, queries: list[str], top_k: int | None = None
    ) -> list[RetrievalResult]:
        results = [self.find(query, top_k or 3, len(queries)) for query in queries]
        return self.ordered(results)

    def batch_generate_with_metadata(
        self, queries: list[str], contexts_list: list[list[str]]
    ) -> list[GenerationResult]:
        results = []
        for query, contexts in zip(queries, contexts_list, strict=True):
            results.append(GenerationResult(self.answer(query, contexts)))
        return self.ordered(results)


class MixesUpABatch(Sound):
    def ordered(self, results: list[Any]) -> list[Any]:
        return results[::-1]


class FindsMoreInABatch(Sound):
    def find(self, query: str, top_k: int, batch_size: int) -> RetrievalResult:
        return texts(query, top_k + batch_size - 1)


class IgnoresTopK(Sound):
    def find(self, query: str, top_k: int, batch_size: int) -> RetrievalResult:
        return texts(query, 5)


class RetrievesForItself(Sound):
    def answer(self, query: str, contexts: list[str]) -> str:
        return f"27 days, for {query}"


class TakesNoBatch(Sound):
    def find(self, query: str, top_k: int, batch_size: int) -> RetrievalResult:
        if batch_size > 1:
            raise ValueError("one at a time")
        return texts(query, top_k)


class Restless(Sound):
    """Never finds or says the same twice."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = itertools.count()

    def find(self, query: str, top_k: int, batch_size: int) -> RetrievalResult:
        return texts(f"{query} {next(self.numbers)}", top_k)

    def answer(self, query: str, contexts: list[str]) -> str:
        return f"{next(self.numbers)} {contexts[0]}"


class Declines(Sound):
    def answer(self, query: str, contexts: list[str]) -> str:
        return "I don't know."


class Async(AsyncRAGInterface):
    """Has one context, whatever it is asked for."""

    async def retrieve(self, query: str, top_k: int | None = None) -> list[str]:
        return [query]

    async def generate(self, query: str, contexts: list[str]) -> str:
        return contexts[0]


class TakesNoTopK(RAGInterface, families=("retrieval",)):
    def retrieve(self, query: str) -> list[str]:  # type: ignore[override]
        return [query, query]


def one_call(query: str) -> dict[str, Any]:
    """Retrieves and answers."""
    return {"answer": "27 days", "contexts": ["There are 27 days of leave."]}


# By name: whether the probe holds, None where it cannot be told; and what is said of it.
Findings = dict[str, tuple[bool | None, str]]


def findings_of(probes: Callable[[], AsyncIterator[Probe]]) -> Findings:
    async def collect() -> Findings:
        return {probe.name: (probe.holds, probe.detail) async for probe in probes()}

    return asyncio.run(collect())


def probe(rag: Any) -> Findings:
    """All probes of retrieval and of generation."""
    contexts = ["There are 27 days of leave."]
    retrieval = findings_of(lambda: probe_retrieval(rag, QUESTION))
    generation = findings_of(lambda: probe_generation(rag, QUESTION, contexts))
    return retrieval | generation


def test_a_sound_rag_passes_every_probe() -> None:
    findings = probe(Sound())

    holds = {name: holds for name, (holds, _) in findings.items()}
    assert holds == {
        "retrieval repeats": True,
        "retrieval in batches": True,
        "retrieval top_k": True,
        "generation repeats": True,
        "generation in batches": True,
        "generation reads": True,
    }


def test_top_k_is_not_probed_where_there_is_one_context() -> None:
    findings = probe(Async())

    holds = {name: holds for name, (holds, _) in findings.items()}
    assert holds == {
        "retrieval repeats": True,
        "retrieval in batches": True,
        "generation repeats": True,
        "generation in batches": True,
        "generation reads": True,
    }


@pytest.mark.parametrize(
    ("rag", "probe_names", "detail"),
    [
        pytest.param(
            MixesUpABatch(),
            ["retrieval in batches", "generation in batches"],
            "the other's",
            id="gives a question the results of another",
        ),
        pytest.param(
            FindsMoreInABatch(),
            ["retrieval in batches"],
            "another result in a batch",
            id="finds more in a batch",
        ),
        pytest.param(
            IgnoresTopK(),
            ["retrieval top_k"],
            "asked for 1 context it gives 5",
            id="ignores top_k",
        ),
        pytest.param(
            RetrievesForItself(),
            ["generation reads"],
            "does not come from the contexts",
            id="retrieves for itself",
        ),
        pytest.param(
            TakesNoBatch(),
            ["retrieval again"],
            "ValueError: one at a time",
            id="takes no batch",
        ),
        pytest.param(
            Restless(),
            ["retrieval repeats", "generation repeats"],
            "two results",
            id="gives two results for one question",
        ),
    ],
)
def test_each_fault_is_found_and_no_other(
    rag: RAGInterface, probe_names: Sequence[str], detail: str
) -> None:
    findings = probe(rag)

    failed = [name for name, (holds, _) in findings.items() if holds is False]
    assert failed == list(probe_names)
    for name in probe_names:
        assert detail in findings[name][1]


def test_a_rag_that_refuses_a_number_says_so_in_an_evaluation_too() -> None:
    findings = findings_of(lambda: probe_retrieval(TakesNoTopK(), QUESTION))

    holds, detail = findings["retrieval top_k"]
    assert holds is None
    assert "asked for 1 context it raises" in detail


def test_batches_of_a_rag_that_varies_by_itself_cannot_be_compared() -> None:
    findings = probe(Restless())

    assert findings["retrieval in batches"][0] is None
    assert findings["generation in batches"][0] is None


@pytest.mark.parametrize(
    ("rag", "reason"),
    [
        pytest.param(Declines(), "it declined the question", id="declines"),
        pytest.param(
            as_rag(one_call), "it retrieves and answers in one call", id="one call for both"
        ),
    ],
)
def test_whether_an_answer_comes_from_its_contexts_cannot_always_be_told(
    rag: Any, reason: str
) -> None:
    assert probe(rag)["generation reads"] == (None, reason)
