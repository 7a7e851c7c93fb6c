"""Texts to vectors."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ragbench.core.chat import Embeddings
from ragbench.errors import ConfigError, LLMBudgetError, LLMUnavailableError
from ragbench.llm.budget import Budget
from ragbench.llm.cache import ResponseCache
from ragbench.llm.client import EmbeddingClient
from tests.llm_server import FaultServer
from tests.unit.llm.builders import InMemory, Script, endpoint, said
from tests.virtual_time import run


def embedded(server: FaultServer, texts: Sequence[str], **settings: Any) -> Embeddings:
    judge = settings.pop("judge", endpoint())

    async def scenario() -> Embeddings:
        async with EmbeddingClient(judge, transport=InMemory(server), **settings) as client:
            return await client.embed(texts, purpose="similarity")

    return run(scenario())


def test_each_text_gets_its_vector() -> None:
    server = FaultServer()
    found = embedded(server, ["a", "bb", "a"])
    assert found.vectors == ((1.0, 0.0), (2.0, 2.0), (1.0, 0.0))  # 97 % 97, 196 % 97
    assert found.usage.prompt_tokens == 2
    assert found.cost == Decimal("0.000002")
    assert found.cached == 1
    assert [call.payload for call in server.calls] == [{"model": "m", "input": ["a", "bb"]}]


def test_many_texts_are_several_requests_and_faults_pass() -> None:
    server = FaultServer(faults={"500": 0.3, "empty_choices": 0.2, "cut": 0.1})
    texts = [f"text {number}" for number in range(500)]
    found = embedded(server, texts)
    assert len(found.vectors) == 500
    assert found.vectors == embedded(FaultServer(), texts).vectors
    assert len(server.good) == 8


def test_vectors_are_kept_by_text(tmp_path: Path) -> None:
    server = FaultServer()
    with ResponseCache(tmp_path / "c") as cache:
        embedded(server, ["a", "b"], cache=cache)
        again = embedded(server, ["b", "c"], cache=cache)
        assert (again.cached, again.usage.prompt_tokens) == (1, 1)
        assert embedded(server, ["a", "b", "c"], cache=cache).cached == 3
        other = endpoint(extra={"dimensions": 2})
        assert embedded(server, ["a"], cache=cache, judge=other).cached == 0
        warmer = endpoint(temperature=0.9)  # nothing to an embedding
        assert embedded(server, ["a"], cache=cache, judge=warmer).cached == 1
    assert [call.payload["input"] for call in server.calls] == [["a", "b"], ["c"], ["a"]]


@pytest.mark.parametrize(
    "data",
    [[{"embedding": [1]}] * 2, [{"embedding": []}], [{"embedding": ["x"]}], [{}], None],
    ids=str,
)
def test_what_is_no_vector_is_never_taken_for_one(data: object, tmp_path: Path) -> None:
    script = Script([said("", data=data)])

    async def scenario(cache: ResponseCache) -> None:
        async with EmbeddingClient(endpoint(), transport=script, cache=cache) as client:
            await client.embed(["a"])

    with ResponseCache(tmp_path / "c") as cache:
        with pytest.raises(LLMUnavailableError, match="one vector for each of 1 texts"):
            run(scenario(cache))
        assert cache.stats().entries == 0


def test_a_cap_holds_and_an_empty_text_is_refused() -> None:
    with pytest.raises(LLMBudgetError):
        embedded(FaultServer(), ["a"], budget=Budget(Decimal("0.000001")))
    with pytest.raises(ConfigError, match="an empty text"):
        embedded(FaultServer(), ["a", " "])
